"""Variables, hidden files that set more of them, and software that a job would load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rccltune.launch.variables import CHANNELS, chooses
from rccltune.machine.checks.host_state import HostState
from rccltune.machine.conf_files import library_conf_files as files_of
from rccltune.machine.records import Benchmark, Finding, notes, warns
from rccltune.machine.visible_devices import VISIBLE, visible_devices
from rccltune.model import defaults
from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import TUNABLE
from rccltune.releases import library_named, release_in, spoils_replays
from rccltune.variants.availability import VariantSite
from rccltune.variants.past_tuner import paths_past, sentences

_OURS: Final = re.compile(r"(NCCL|RCCL)_\w+")
_RUNTIME: Final = re.compile(r"(HSA|ROCR|AMD)_\w+")
_FAMILY: Final = {"openmpi": "openmpi", "mpich": "mpich", "intel": "mpich"}
_ORPHANS: Final = "each rank then runs alone, and the launcher still ends with 0"


def library_variables(facts: HostState) -> Iterator[Finding]:
    """Variables of the library: some are cleared by a sweep, the others reach every rank."""
    names = sorted(name for name in facts.variables if _OURS.fullmatch(name))
    cleared = [name for name in names if chooses(name, keep=CHANNELS)]
    channels = [name for name in names if name in CHANNELS]
    passed = [name for name in names if name not in (*cleared, *channels)]
    if cleared:
        yield warns(
            "choosing-variables",
            f"{', '.join(cleared)} choose settings: a sweep clears them, a job keeps them, so the "
            "job will not run what was tuned",
            "environment",
            expected="not set",
            remedy=f"unset {' '.join(cleared)}",
            spoils=True,
        )
    if channels:
        yield warns(
            "channels",
            f"{', '.join(f'{name}={facts.variables[name]}' for name in channels)}: a communicator "
            "is made with it, in every launch and in the job, and no rule can ask for more",
            "environment",
            expected="not set, or measured in a session of its own",
            remedy=f"unset {' '.join(channels)}; or keep it in the job too. rccltune sweep "
            "--env NAME=VALUE -o FOLDER measures it in a session of its own.",
            spoils=True,
        )
    if passed:
        yield notes(
            "library-variables",
            f"{', '.join(passed)} reach every rank of every launch, and are recorded",
            "environment",
            remedy="set the same in the job that will use the rules.",
        )


def runtime_variables(facts: HostState) -> Iterator[Finding]:
    """Findings of variables that ROCr and HIP read."""
    if facts.variables.get("HIP_FORCE_DEV_KERNARG") == "0":
        yield warns(
            "kernarg",
            "HIP_FORCE_DEV_KERNARG=0 puts kernel arguments into host memory: 2 to 3 µs a kernel",
            "HIP_FORCE_DEV_KERNARG",
            expected="1, the default since ROCm 6.2",
            remedy="export HIP_FORCE_DEV_KERNARG=1",
            spoils=True,
        )
    names = sorted(n for n in facts.variables if _RUNTIME.fullmatch(n) and n not in VISIBLE)
    if names:
        yield notes(
            "runtime-variables",
            f"{', '.join(f'{n}={facts.variables[n]}' for n in names)} change the runtime, and are "
            "recorded",
            "environment",
            remedy="set the same in the job that will use the rules.",
            spoils=True,
        )


def bypass(facts: HostState) -> Iterator[Finding]:
    """MSCCL++ answers without asking a tuner."""
    names = [n for n in facts.variables if n.startswith(("RCCL_MSCCLPP_", "MSCCLPP_"))]
    if facts.variables.get("RCCL_MSCCLPP_ENABLE", "1") != "0" and names:
        threshold = facts.variables.get("RCCL_MSCCLPP_THRESHOLD", "1 MiB by default")
        yield warns(
            "mscclpp",
            f"{', '.join(sorted(names))}: all_reduce and all_gather up to {threshold} take MSCCL++ "
            "where the library has it, which asks no tuner",
            "environment",
            expected="not set while tuning",
            remedy=f"unset {' '.join(sorted(names))}, or measure it in a session of its own.",
            spoils=True,
        )


def past_tuner(facts: HostState) -> Iterator[Finding]:
    """Calls of all GPUs here that ask no tuner: no rule reaches them."""
    system = facts.system
    versions = dict.fromkeys(one.version for one in system.libraries if one.version)
    try:
        gpus = visible_devices(system.gpus, system.vendor, facts.variables)
    except MachineError:
        return  # which is a finding of its own
    for version in versions:
        site = VariantSite(
            library=library_named(version, system.arch or system.vendor),
            is_rcclx=False,
            arch=system.arch,
            n_nodes=1,
            n_ranks=len(gpus),
            dtype=defaults.DTYPE,
            redop=defaults.REDOP,
            registered=False,
        )
        found = paths_past(site, reversed(TUNABLE), facts.variables) if len(gpus) > 1 else ()
        if found:
            yield notes(
                "past-the-tuner",
                f"{version}, {len(gpus)} ranks: {'. '.join(sentences(found))}",
                "docs/deploy.md",
                remedy="none is needed; tune the sizes beyond, or the same job with that switch: "
                "rccltune tune --env NAME=VALUE.",
            )


def hidden_files(facts: HostState) -> Iterator[Finding]:
    """Files that set variables nobody sees; they fill only what the environment leaves open."""
    for hidden in files_of(facts.root, facts.variables, facts.home, amd=facts.has_amd):
        won, path = hidden.fills(facts.variables), hidden.path
        yield warns(
            "hidden-file",
            f"{path} ({hidden.whose}) sets "
            + (", ".join(f"{n}={v}" for n, v in won) if won else "nothing that is still open"),
            str(path),
            expected="no such file",
            remedy=f"mv {path} {path}.off while measuring, or set the same in every job.",
            spoils=True,
        )


def rocm(facts: HostState) -> Iterator[Finding]:
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


def replays(facts: HostState) -> Iterator[Finding]:
    """Releases of HIP whose replayed graphs may compute wrong results."""
    if facts.has_amd and spoils_replays(facts.system.rocm):
        yield warns(
            "graph-replays",
            f"ROCm {facts.system.rocm}: replayed HIP graphs may compute wrong results, in one "
            "process of five where it was seen (MI300X, ROCm/clr issue 279)",
            "<rocm>/.info/version",
            expected="7.1.1 or 7.13",
            remedy="install one of these, or keep jobs from graphs and tune with --timing loop.",
        )


def libraries(facts: HostState) -> Iterator[Finding]:
    """Findings of the librccl that a job loads, which decides what can be chosen."""
    files = facts.system.libraries
    if facts.system.vendor is not None and not files and _was_searched(facts):
        yield warns(
            "no-library",
            "no librccl was found under ROCm, LD_LIBRARY_PATH or the Python in use",
            "see docs/machine.md for the places",
            remedy="name it with --librccl FILE.",
        )
    by_hash = {library.sha256: library for library in files}
    if len(by_hash) > 1:
        named = "; ".join(
            f"{lib.owner}: {lib.version or 'no version'} ({lib.path})" for lib in files
        )
        yield warns(
            "several-libraries",
            f"a job here could load different libraries: {named}",
            "see docs/machine.md for the places",
            expected="one, or certainty about which",
            remedy="tune with the one that the job loads (grep ccl /proc/PID/maps): --librccl FILE "
            "chooses it.",
            spoils=True,
        )


def _was_searched(facts: HostState) -> bool:
    """A captured tree holds /sys and /proc; that it has no programs means nothing."""
    return facts.system.starters is not None


def benchmarks(facts: HostState) -> Iterator[Finding]:
    """Real ones, which check and confirm what rccltune-perf measures."""
    programs = facts.system.benchmarks
    if not programs and not _was_searched(facts):
        return
    if not programs:
        yield notes(
            "no-benchmark",
            "rccl-tests were not found on PATH, under ROCm or /opt/rccl-tests: no second program "
            "confirms what rccltune-perf measures",
            "PATH",
            remedy="none is needed; to have them confirm, build them with MPI=1 and name the "
            "folder with --rccl-tests DIR.",
        )
    elif any(benchmark.simulated for benchmark in programs):
        played = [benchmark for benchmark in programs if benchmark.simulated]
        yield notes(
            "simulated-benchmark",
            f"{_names(played)} are rccltune's own stand-ins, which confirm nothing",
            str(played[0].path),
            remedy="none is needed; name real ones with --rccl-tests DIR, or say --simulate NODE.",
        )


def launcher(facts: HostState) -> Iterator[Finding]:
    """Launchers, which start ranks on several nodes and those of rccl-tests."""
    if facts.system.starters is None:
        return
    known = [s for s in facts.system.starters if s.flavour is not None]
    if not known:
        odd = "; ".join(f"{s.path}: {s.detail}" for s in facts.system.starters)
        yield notes(
            "no-launcher",
            "no launcher was found, which several nodes and rccl-tests need"
            + (f" ({odd})" if odd else ""),
            "PATH",
            remedy="none is needed on one node; else pip install 'rccltune[mpi]', or load the "
            "site's MPI module.",
        )
        return
    yield from _family(facts, known[0].flavour or "")


def _family(facts: HostState, flavour: str) -> Iterator[Finding]:
    real = [b for b in facts.system.benchmarks if not b.simulated]
    without = [b for b in real if b.mpi == "none"]
    if without:
        yield warns(
            "benchmark-without-mpi",
            f"{_names(without)}: built without MPI; {_ORPHANS}",
            str(without[0].path),
            expected="MPI=1",
            remedy="build rccl-tests with make MPI=1 MPI_HOME=…",
        )
    family = _FAMILY.get(flavour)
    others = [b for b in real if b.mpi not in (None, "none", family)] if family else []
    if others:
        yield warns(
            "launcher-mismatch",
            f"the launcher is {flavour}, {_names(others)} use {others[0].mpi}; {_ORPHANS}",
            str(others[0].path),
            expected="one family of MPI",
            remedy=f"put the mpirun of {others[0].mpi} first on PATH, or build rccl-tests with "
            f"{flavour}.",
        )


def _names(found: list[Benchmark]) -> str:
    return ", ".join(benchmark.name for benchmark in found[:3])


CHECKS: Final = (
    library_variables,
    runtime_variables,
    bypass,
    past_tuner,
    hidden_files,
    rocm,
    replays,
    libraries,
    benchmarks,
    launcher,
)
