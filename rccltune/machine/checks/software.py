"""ROCm, librccl, rccl-tests and the launcher: whether they are there and fit each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rccltune.machine.checks.facts import Circumstances, stops, warns
from rccltune.machine.records import Benchmark, Finding
from rccltune.releases import release_in

_FAMILY: Final = {"openmpi": "openmpi", "mpich": "mpich", "intel": "mpich"}
_ORPHANS: Final = "each rank then runs alone, and the launcher still ends with 0"


def rocm(facts: Circumstances) -> Iterator[Finding]:
    """The release from which RCCL knows partitions."""
    release = release_in(facts.system.rocm)
    mode = facts.system.mode
    is_old = facts.has_amd and release is not None and not release.knows_cpx
    if is_old and mode is not None and mode.compute == "CPX":
        yield warns(
            "rocm",
            f"ROCm {facts.system.rocm}: its RCCL does not know CPX",
            "<rocm>/.info/version",
            expected="6.3 or newer",
            remedy="install a newer ROCm, or name a newer librccl with --librccl.",
        )


def libraries(facts: Circumstances) -> Iterator[Finding]:
    """Which librccl a job loads decides what can be chosen."""
    found = facts.system.libraries
    if facts.system.vendor is not None and not found and _was_searched(facts):
        yield warns(
            "no-library",
            "no librccl was found under ROCm, LD_LIBRARY_PATH or the Python in use",
            "see docs/detect.md for the places",
            remedy="name it with --librccl FILE.",
        )
    by_hash = {library.sha256: library for library in found}
    if len(by_hash) > 1:
        named = "; ".join(
            f"{lib.owner}: {lib.version or 'no version'} ({lib.path})" for lib in found
        )
        yield warns(
            "several-libraries",
            f"a job here could load different libraries: {named}",
            "see docs/detect.md for the places",
            expected="one, or certainty about which",
            remedy="tune with the one that the job loads: rccltune plugin --check --python EXE "
            "says which that is; --librccl FILE chooses it.",
            spoils=True,
        )


def _was_searched(facts: Circumstances) -> bool:
    """A captured tree holds /sys and /proc; that it has no programs means nothing."""
    return facts.system.starters is not None


def benchmarks(facts: Circumstances) -> Iterator[Finding]:
    """Real ones, for they are what measures."""
    found = facts.system.benchmarks
    if not found and not _was_searched(facts):
        return
    if not found:
        yield stops(
            "no-benchmark",
            "rccl-tests were not found on PATH, under ROCm or /opt/rccl-tests",
            "PATH",
            remedy="build them with MPI=1 and name the folder with --rccl-tests DIR.",
        )
    elif all(benchmark.simulated for benchmark in found):
        yield stops(
            "simulated-benchmark",
            "the benchmarks found are rccltune's own stand-ins, which measure nothing",
            str(found[0].path),
            remedy="name real ones with --rccl-tests DIR, or say --simulate NODE.",
        )
    elif any(benchmark.simulated for benchmark in found):
        named = ", ".join(b.name for b in found if b.simulated)
        yield warns(
            "simulated-benchmark",
            f"{named} are rccltune's own stand-ins and will not be used",
            str(next(b.path for b in found if b.simulated)),
            remedy="name a folder with real ones: --rccl-tests DIR.",
        )


def launcher(facts: Circumstances) -> Iterator[Finding]:
    """One process per GPU is how RCCL is fastest, and that takes a launcher."""
    if facts.system.starters is None:
        return
    known = [s for s in facts.system.starters if s.flavour is not None]
    if not known:
        odd = "; ".join(f"{s.path}: {s.detail}" for s in facts.system.starters)
        yield stops(
            "no-launcher",
            f"no launcher starts one process per GPU{f' ({odd})' if odd else ''}",
            "PATH",
            expected="mpirun",
            remedy="pip install 'rccltune[mpi]', or load the site's MPI module; with one process "
            "(--launcher none) launches of kernels are serialised.",
        )
        return
    yield from _family(facts, known[0].flavour or "")


def _family(facts: Circumstances, flavour: str) -> Iterator[Finding]:
    real = [b for b in facts.system.benchmarks if not b.simulated]
    without = [b for b in real if b.mpi == "none"]
    if without:
        yield stops(
            "benchmark-without-mpi",
            f"{_names(without)}: built without MPI; {_ORPHANS}",
            str(without[0].path),
            expected="MPI=1",
            remedy="build rccl-tests with make MPI=1 MPI_HOME=…",
        )
    family = _FAMILY.get(flavour)
    others = [b for b in real if b.mpi not in (None, "none", family)] if family else []
    if others:
        yield stops(
            "launcher-mismatch",
            f"the launcher is {flavour}, {_names(others)} use {others[0].mpi}; {_ORPHANS}",
            str(others[0].path),
            expected="one family of MPI",
            remedy=f"put the mpirun of {others[0].mpi} first on PATH, or build rccl-tests with "
            f"{flavour}.",
        )


def _names(found: list[Benchmark]) -> str:
    return ", ".join(benchmark.name for benchmark in found[:3])


CHECKS: Final = (rocm, libraries, benchmarks, launcher)
