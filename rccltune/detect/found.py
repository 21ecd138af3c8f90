"""Files and programs that were found, and what amdsmi answered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

Sources = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A librccl or libnccl file that a job could load."""

    path: Path
    owner: str
    version: str | None
    rocm: str | None
    sha256: str | None
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One program of rccl-tests.

    Attributes:
        version: as written in the file, None where it is not.
        mpi: family of MPI that it is linked to, ``none`` without any, None where unknown.
        simulated: rccltune's own stand-in, never a benchmark of hardware.
    """

    name: str
    path: Path
    version: str | None
    sha256: str | None
    mpi: str | None
    simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """A program that starts ranks."""

    path: Path
    flavour: str | None
    version: str | None
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiGpu:
    """What amdsmi says of one device; None where it said nothing or an error.

    Attributes:
        errors: (question, answer code or exception).
    """

    address: str | None
    market_name: str | None = None
    arch: str | None = None
    device_id: int | None = None
    cu_count: int | None = None
    compute: str | None = None
    memory: str | None = None
    partition: int | None = None
    node: int | None = None
    numa_node: int | None = None
    errors: Sources = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Smi:
    """How asking amdsmi ended.

    Attributes:
        status: ``answered``, ``not installed``, ``not asked``, ``failed``, ``crashed`` or
            ``timed out``.
        source: folder of the bindings.
        detail: what they said when they failed.
    """

    status: str = "not asked"
    source: str | None = None
    version: str | None = None
    library: str | None = None
    detail: str | None = None
    gpus: tuple[SmiGpu, ...] = ()


NOT_ASKED: Final = Smi()
