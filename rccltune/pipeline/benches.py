"""What runs in a launch: rccl-tests' programs, or the PyTorch runner in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rccltune.vocab import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A benchmark of each collective, and the library behind it.

    Attributes:
        programs: what names the benchmark of a collective on its command line.
        runs: what stands before it.
        letters: of the options that it has.
        sha256: of what measures; other samples are not pooled with its own.
        linked: the file whose loader tells of an MPI, None where none is linked.
        library: the file with the collective library in it, None where that is not seen.
        version: as that file says.
        runner: what measures and its library, None for rccl-tests.
        untunable: why nothing can be chosen in that library, None where it can.
        tells_steps: it says itself when a step of a schedule is over.
        on_cpu: no GPU is measured.
        remarks: what the user should know.
    """

    programs: Mapping[Collective, str]
    letters: frozenset[str]
    sha256: str
    runs: tuple[str, ...] = ()
    linked: Path | None = None
    library: Path | None = None
    version: str | None = None
    runner: str | None = None
    untunable: str | None = None
    tells_steps: bool = False
    on_cpu: bool = False
    remarks: tuple[str, ...] = ()
