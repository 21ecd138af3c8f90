"""Which library a benchmark loads is what the loader says, and its version what the file says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rccltune.machine import installed_software


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, dict[str, Path]]:
    """A program that is linked to librccl, and folders with an old and a new one."""
    compiler = shutil.which("cc")
    if compiler is None or shutil.which("ldd") is None:
        pytest.skip("no compiler, or no ldd")
    folders = {}
    for version in ("2.20.5+hip6.2", "2.28.3+hip7.11"):
        folder = folders[version] = tmp_path / version
        folder.mkdir()
        source = folder / "library.c"
        source.write_text(f'const char ncclVersion[] = "RCCL version {version}";\n')
        target = folder / "librccl.so.1"
        options = ["-shared", "-fPIC", "-Wl,-soname,librccl.so.1", "-o", target]
        subprocess.run([compiler, *options, source], check=True)
    main = tmp_path / "main.c"
    main.write_text("extern const char ncclVersion[]; int main(void) { return ncclVersion[0]; }\n")
    program = tmp_path / "all_reduce_perf"
    subprocess.run(
        [compiler, main, folders["2.20.5+hip6.2"] / target.name, "-o", program], check=True
    )
    return program, folders


def test_the_loaders_choice_and_its_version(built: tuple[Path, dict[str, Path]]) -> None:
    """LD_LIBRARY_PATH of the launch decides, not ours."""
    program, folders = built
    for version, folder in folders.items():
        found = installed_software.find_loaded_library(program, {"LD_LIBRARY_PATH": str(folder)})
        assert found == folder / "librccl.so.1"
        assert installed_software.read_version(found) == f"RCCL {version}"
    assert (
        installed_software.find_loaded_library(program, {"LD_LIBRARY_PATH": "/proc/nowhere"})
        is None
    )


def test_what_the_loader_cannot_read_is_not_known(tmp_path: Path) -> None:
    """A script around the benchmark, and a program that is not there."""
    script = tmp_path / "all_reduce_perf"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert installed_software.find_loaded_library(script, {}) is None
    assert installed_software.find_loaded_library(tmp_path / "nothing", {}) is None


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (b"\0NCCL version %d.%d\0NCCL version 2.20.5+cuda12.4\0", "NCCL 2.20.5+cuda12.4"),
        (b"RCCL version : 2.22.3-develop:abc1\0", "RCCL 2.22.3-develop:abc1"),
        (b"CCL version 2.20.5", None),
        (b"RCCL version " + b"9" * 100, None),
        (b"", None),
    ],
)
def test_versions_as_compiled_in(tmp_path: Path, content: bytes, version: str | None) -> None:
    """A format is not a version; an empty file is none either."""
    library = tmp_path / "librccl.so.1"
    library.write_bytes(content)
    assert installed_software.read_version(library) == version
    assert installed_software.read_version(tmp_path / "nothing") is None
