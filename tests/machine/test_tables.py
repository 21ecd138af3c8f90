"""Where a vendor's table is looked for: beside the library, below share, inside the library."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from wording import lacks

from rccltune.machine.files import SystemRoot
from rccltune.machine.vendor_table import vendor_table

ROW = "allreduce,0,16383,tree,ll,1,1,8,-1,-1\n"
NAME = "rccl_tuner_gfx950.csv"


@pytest.fixture
def rocm(tmp_path: Path) -> Path:
    """A ROCm installation with a library that is none."""
    (tmp_path / "opt/rocm/lib").mkdir(parents=True)
    (tmp_path / "opt/rocm/lib/librccl.so.1").write_bytes(b"\x7fELF nothing")
    return tmp_path / "opt/rocm"


def put(path: Path, text: str = ROW) -> Path:
    """A table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_places_are_tried_in_rccls_order(rocm: Path, tmp_path: Path) -> None:
    """tuner/README.md of RCCL: beside the library, then share; the architecture's own first."""
    tried = [
        rocm / "share/rccl/tuner/rccl_tuner.csv",
        rocm / "share/rccl/tuner" / NAME,
        rocm / "lib/tuner/rccl_tuner.csv",
        rocm / "lib/tuner" / NAME,
    ]
    for number, path in enumerate(tried):
        put(path, f"# {number}\n")
        found = vendor_table(SystemRoot(tmp_path), {}, "gfx950")
        assert (found.place, found.content) == (str(path), f"# {number}\n".encode())
        assert found.looked[-1] == str(path)


def test_the_loaders_library_goes_before_rocms(rocm: Path, tmp_path: Path) -> None:
    """LD_LIBRARY_PATH and ROCM_PATH, below the root as every file of the machine."""
    put(rocm / "share/rccl/tuner" / NAME)
    other = tmp_path / "home/build"
    put(other / "librccl.so", "x")
    own = put(other / "tuner" / NAME)
    variables = {"LD_LIBRARY_PATH": "/proc/nowhere:/home/build"}
    assert vendor_table(SystemRoot(tmp_path), variables, "gfx950").place == str(own)
    moved = tmp_path / "elsewhere"
    rocm.rename(moved)
    at = vendor_table(SystemRoot(tmp_path), {"ROCM_PATH": "/elsewhere"}, "gfx950")
    assert at.place == str(moved / "share/rccl/tuner" / NAME)


Build = Callable[..., Path]


@pytest.fixture
def build(rocm: Path, tmp_path: Path) -> Build:
    """A library with tables compiled in as RCCL's build does: names and texts as strings."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no compiler here")

    def built(*tables: tuple[str, str]) -> Path:
        quoted = [[f'"{text}"'.replace("\n", "\\n") for text in pair] for pair in tables]
        rows = ", ".join(f"{{{name}, {text}}}" for name, text in quoted)
        source = tmp_path / "tables.c"
        source.write_text(f"struct t {{ const char *name, *content; }} all[] = {{{rows}}};\n")
        target = rocm / "lib/librccl.so.1"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", target, source], check=True)
        return target

    return built


def test_a_table_that_is_compiled_in_is_read_there(build: Build, tmp_path: Path) -> None:
    """The text as it was compiled, comments too; a file on disk goes before it."""
    text = f"# AMD's\n{ROW}{ROW.replace('16383', '99999')}"
    library = build((NAME, text))
    found = vendor_table(SystemRoot(tmp_path), {}, "gfx950")
    assert found.content == text.encode()
    assert found.place == f"{library}: compiled-in {NAME}"
    assert vendor_table(SystemRoot(tmp_path), {}, "gfx942").place is None
    put(library.parent / "tuner" / NAME, "# mine\n")
    assert vendor_table(SystemRoot(tmp_path), {}, "gfx950").content == b"# mine\n"


def test_two_compiled_in_tables_are_not_guessed_apart(build: Build, tmp_path: Path) -> None:
    """Which text belongs to which name is not to be seen in the file."""
    build((NAME, ROW), ("rccl_tuner_gfx942.csv", ROW.replace("tree", "ring")))
    found = vendor_table(SystemRoot(tmp_path), {}, "gfx950")
    assert found.place is None
    assert lacks(found.looked[-1], "2 tables", "2 names", "tables compiled") == []
