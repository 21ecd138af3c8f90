"""Which library is measured, found in made-up folders; nothing is loaded."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from rccltune.machine.sysroot import SystemRoot
from rccltune.measure import library
from rccltune.model.errors import CommandLineError, MachineError


def touch(path: Path, text: str = "") -> Path:
    """A file, with what a library says of its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path.resolve()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any library and a Python without torch."""
    monkeypatch.setattr(library, "_HERE", SystemRoot(tmp_path))
    monkeypatch.setattr(library, "_origin", lambda: None)
    monkeypatch.setattr(sys, "path", [])
    return tmp_path


def test_rocms_comes_before_the_systems(bare: Path) -> None:
    """What LD_LIBRARY_PATH names before both, as for a job."""
    system = touch(bare / "usr/lib/libnccl.so.2", "NCCL version 2.28.9+cuda13.0\0")
    assert library.find_library(None, {}).file == system
    rocm = touch(bare / "opt/rocm-7.2/lib/librccl.so.1")
    assert library.find_library(None, {}).file == rocm
    named = touch(bare / "own/lib/librccl.so.1")
    assert library.find_library(None, {"ROCM_PATH": "/own"}).file == named
    loaded = touch(bare / "module/libnccl.so.2")
    assert library.find_library(None, {"LD_LIBRARY_PATH": "/module"}).file == loaded
    assert library.find_library(bare / "usr/lib", {}).file == system


def test_nothing_is_told_with_every_place(bare: Path) -> None:
    """And how to point at one."""
    with pytest.raises(MachineError) as caught:
        library.find_library(None, {"ROCM_PATH": "/site/rocm"})
    assert all(place in caught.value.message for place in ("/site/rocm/lib", "ldconfig", "usr/lib"))
    assert "--librccl" in str(caught.value.hint)
    assert "torch" in str(caught.value.hint)
    with pytest.raises(CommandLineError, match="no such library"):
        library.find_library(Path("nowhere"), {})


def test_words_for_libraries_say_where_they_are_had() -> None:
    """Torch's on machines, the real one on simulated nodes; neither is a file that is missing."""
    with pytest.raises(MachineError, match="RCCL of simulated nodes"):
        library.find_library(Path("real"), {})
    with pytest.raises(MachineError, match="does not run on a simulated node"):
        library.find_real(Path("torch"), {})


def wheel(bare: Path, monkeypatch: pytest.MonkeyPatch, *files: str) -> dict[str, Path]:
    """Packages with a torch, as wheels lay them out."""
    home = bare / "site-packages"
    made = {name: touch(home / name) for name in ("torch/__init__.py", *files)}
    monkeypatch.setattr(library, "_origin", lambda: made["torch/__init__.py"])
    return made


@pytest.mark.parametrize(
    ("file", "runtime"),
    [
        ("torch/lib/librccl.so", "torch/lib/libamdhip64.so"),
        ("nvidia/nccl/lib/libnccl.so.2", "nvidia/cuda_runtime/lib/libcudart.so.12"),
        ("nvidia/nccl/lib/libnccl.so.2", "nvidia/cu13/lib/libcudart.so.13"),
        (
            "_rocm_sdk_libraries_gfx942/lib/librccl.so.1",
            "_rocm_sdk_core/lib/libamdhip64.so.7",
        ),
    ],
)
def test_torchs_own_comes_with_its_runtime(
    bare: Path, monkeypatch: pytest.MonkeyPatch, file: str, runtime: str
) -> None:
    """Both belong together; where nothing else is there it is taken unnamed."""
    made = wheel(bare, monkeypatch, file, runtime)
    found = library.find_library(Path("torch"), {})
    assert (found.file, found.runtime) == (made[file], made[runtime])
    assert "PyTorch's" in found.what
    assert library.find_library(None, {}) == found
    touch(bare / "usr/lib/libnccl.so.2")
    assert library.find_library(None, {}).runtime is None
    assert library.find_library(Path("torch"), {}) == found


def test_torch_of_another_python_is_asked_for(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The python3 on PATH, where ours has none; it imports nothing of torch."""
    package = touch(bare / "packages/torch/__init__.py", "raise SystemExit('it was imported')\n")
    file = touch(bare / "packages/torch/lib/librccl.so")
    python = bare / "bin/python3"
    python.parent.mkdir()
    ours = shlex.quote(sys.executable)
    python.write_text(f'#!/bin/sh\nPYTHONPATH={bare}/packages exec {ours} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(python.parent))
    assert package.exists()
    assert library.library_of_torch().file == file
    # Whatever packages this Python has, the other one has none.
    python.write_text(f'#!/bin/sh\nexec {ours} -S "$@"\n')
    with pytest.raises(MachineError, match="no torch in"):
        library.library_of_torch()


def test_a_library_is_known_by_its_size_beginning_middle_and_end(tmp_path: Path) -> None:
    """A byte that changes there, or one more, makes it another; the name does not."""
    size = 8 << 20
    kept = tmp_path / "librccl.so.1"
    kept.write_bytes(bytes(size))
    same = library.digest_of(kept)
    assert library.digest_of(kept.rename(tmp_path / "other.so")) == same
    found = {same}
    for at, more in ((0, b""), (size // 2, b""), (size - 1, b""), (0, b"\0")):
        content = bytearray(size)
        content[at] = 0 if more else 1
        kept.write_bytes(bytes(content) + more)
        found.add(library.digest_of(kept))
    assert len(found) == 5
    with pytest.raises(MachineError, match="cannot be read"):
        library.digest_of(tmp_path / "none")
