"""How the runner is started, and what it says of the library that it finds."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from wording import lacks

from rccltune.torchbench import ranks
from rccltune.torchbench.options import argv


def test_it_starts_by_its_path_in_any_python(tmp_path: Path) -> None:
    """Isolated from this install's packages: its own rccltune is found beside it."""
    command = argv(sys.executable, "gloo")
    assert command[0] == sys.executable
    done = subprocess.run(
        [command[0], "-I", "-S", command[1], "all_reduce", "-A", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "unrecognized arguments: -A 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_starts_as_a_module() -> None:
    """For people."""
    done = subprocess.run(
        [sys.executable, "-m", "rccltune.torchbench", "alltoall"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert lacks(done.stderr, "alltoall") == []


def test_rccltune_itself_never_imports_torch() -> None:
    """A Python that has it takes seconds for that, and one that has not would fail."""
    code = (
        "import sys, rccltune.cli.sweep, rccltune.measure.sweeps, rccltune.torchbench, "
        "rccltune.torchbench.program; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


SOURCE = "int ncclGetVersion(int *version) { *version = 22809; return 0; }\n"


def test_the_mapped_library_is_named_with_version_and_hash(tmp_path: Path) -> None:
    """A stand-in that says what a real one says; asked of the file that this process has mapped."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    path = tmp_path / "librccl.so.1"
    (tmp_path / "a.c").write_text(SOURCE, encoding="ascii")
    subprocess.run([compiler, "-shared", "-o", path, tmp_path / "a.c"], check=True, timeout=60)
    code = (
        "import ctypes, sys; from rccltune.torchbench import ranks; "
        "assert ranks.mapped() is None; ctypes.CDLL(sys.argv[1]); path = ranks.mapped(); print(path); "
        "print(*ranks.said(path), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert done.stdout.splitlines() == [
        str(path),
        "RCCL version : 2.28.9",
        f"Library: {path} sha256={digest}",
    ]


def test_a_library_that_says_no_version_is_named_all_the_same() -> None:
    """libc has no ncclGetVersion."""
    path = next(
        Path(line.split()[-1])
        for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines()
        if "libc.so" in line
    )
    assert ctypes.CDLL(str(path)) is not None
    (line,) = ranks.said(path)
    assert line.startswith(f"Library: {path} sha256=")
