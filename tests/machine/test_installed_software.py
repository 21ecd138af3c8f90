"""Libraries and benchmarks are found, with versions and hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from trees import put, seen


def test_every_library_that_a_job_could_load(tmp_path: Path) -> None:
    """ROCm's, a PyTorch wheel's, LD_LIBRARY_PATH's; two names of one file are one."""
    rocm = put(tmp_path, "opt/rocm/lib/librccl.so.1.0.70200", b"\0RCCL version 2.27.7+hip7.2\0")
    for name in ("librccl.so.1", "librccl.so"):
        (rocm.parent / name).symlink_to(rocm.name)
    torch = put(tmp_path, "venv/torch/lib/librccl.so", b"\0RCCL version : 2.22.3-develop:abc1\0")
    put(tmp_path, "venv/nvidia/nccl/lib/libnccl.so.2", b"\0NCCL version 2.28.3+cuda12.9\0")
    own = put(tmp_path, "own/librccl.so.1", b"RCCL version %d.%d.%d without a number")
    system = seen(
        tmp_path,
        site_packages=(tmp_path / "venv",),
        variables={"LD_LIBRARY_PATH": "/proc/nowhere:/own"},
    )
    assert [(lib.owner, lib.version) for lib in system.libraries] == [
        ("LD_LIBRARY_PATH", None),
        ("ROCm", "RCCL 2.27.7+hip7.2"),
        ("PyTorch", "RCCL 2.22.3-develop:abc1"),
        ("NCCL wheel", "NCCL 2.28.3+cuda12.9"),
    ]
    assert system.libraries[0].path == own
    assert system.libraries[1].path == rocm
    assert system.libraries[2].sha256 == hashlib.sha256(torch.read_bytes()).hexdigest()


def test_folders_that_cannot_be_looked_into_hold_nothing(tmp_path: Path) -> None:
    """As one of root's on the PATH of another; a name is too long for whoever runs this."""
    shut = f"/{'x' * 300}"
    names = ("PATH", "LD_LIBRARY_PATH", "ROCM_PATH")
    system = seen(tmp_path, variables=dict.fromkeys(names, shut))
    assert (system.libraries, system.benchmarks, system.rocm) == ((), (), None)


@pytest.mark.parametrize(
    ("content", "version", "mpi", "simulated"),
    [
        (b"\x7fELF rccl-tests: Version 2.17.6\0libmpi.so.40\0", "2.17.6", "openmpi", False),
        (b"\x7fELF # nccl-tests version 2.17.8 nccl-\0libmpi.so.12\0", "2.17.8", "mpich", False),
        (b"\x7fELF nccl-tests version %s\0libmpi_cray.so.12\0", None, None, False),
        (b"\x7fELF\0", None, "none", False),
        (b"\x7fELF # SIMULATED rccl-tests\0", None, "none", True),
    ],
)
def test_benchmarks(
    content: bytes, version: str | None, mpi: str | None, simulated: bool, tmp_path: Path
) -> None:
    """Version and MPI as far as the file says; rccltune's stand-ins are told apart."""
    put(tmp_path, "opt/rccl-tests/build/all_reduce_perf", content)
    (found,) = seen(tmp_path).benchmarks
    assert (found.name, found.version, found.mpi, found.simulated) == (
        "all_reduce_perf",
        version,
        mpi,
        simulated,
    )
    stored = (tmp_path / "opt/rccl-tests/build/all_reduce_perf").read_bytes()
    assert found.sha256 == hashlib.sha256(stored).hexdigest()


def test_our_own_stand_ins_are_refused(tmp_path: Path) -> None:
    """The ones that this install has."""
    from rccltune import plugin

    folder = plugin.native_folder() / "sim"
    if not (folder / "all_reduce_perf").is_file():
        pytest.skip("this install has no simulated benchmarks")
    (tmp_path / "opt/rccl-tests").mkdir(parents=True)
    (tmp_path / "opt/rccl-tests/build").symlink_to(folder)
    found = seen(tmp_path).benchmarks
    assert found
    assert all(benchmark.simulated for benchmark in found)
