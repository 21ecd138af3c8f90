"""Variables, hidden files that set more of them, and software that a job would load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rccltune.launch.variables import CHANNELS, chooses
from rccltune.machine.conf_files import find_conf_files as files_of
from rccltune.machine.findings import Finding, notes, warns
from rccltune.machine.host_state import HostState
from rccltune.machine.system import Benchmark
from rccltune.machine.visible_devices import VISIBLE, find_visible_devices
from rccltune.model import defaults
from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import TUNABLE
from rccltune.releases import name_library, release_in, spoils_replays
from rccltune.variants.availability import VariantSite
from rccltune.variants.paths_past import paths_past, sentences

_READ: Final = re.compile(r"(?:[NR]CCL|HSA|ROCR|AMD)_\w+")
_KERNARG: Final = "HIP_FORCE_DEV_KERNARG"
_FAMILY: Final = {"openmpi": "openmpi", "mpich": "mpich", "intel": "mpich"}
_ORPHANS: Final = "each rank then runs alone, and the launcher still ends with 0"


def check_library_variables(host: HostState) -> Iterator[Finding]:
    """Variables of library and runtime: a sweep clears some, the others reach every rank."""
    names = sorted(name for name in host.variables if _READ.fullmatch(name))
    choosing = [name for name in names if chooses(name, keep=CHANNELS)]
    channels = [name for name in names if name in CHANNELS]
    others = [name for name in names if name not in (*choosing, *channels, *VISIBLE)]
    if choosing:
        yield warns(
            "choosing-variables",
            f"{', '.join(choosing)} choose settings: a sweep clears them, a job keeps them, so the "
            "job will not run what was tuned",
            "environment",
            remedy=f"unset {' '.join(choosing)}",
            spoils=True,
        )
    if channels:
        yield warns(
            "channels",
            f"{', '.join(f'{name}={host.variables[name]}' for name in channels)}: a communicator "
            "is made with it, in every launch and in the job, and no rule can ask for more",
            "environment",
            remedy=f"unset {' '.join(channels)}; or keep it in the job too. rccltune sweep "
            "--env NAME=VALUE -o FOLDER measures it in a session of its own.",
            spoils=True,
        )
    if others:
        yield notes(
            "passed-variables",
            f"{', '.join(others)} reach every rank of every launch, and are recorded",
            "environment",
            remedy="set the same in the job that will use the rules.",
            spoils=True,
        )


def check_kernel_arguments(host: HostState) -> Iterator[Finding]:
    """HIP's own switch for where arguments of kernels lie."""
    if host.variables.get(_KERNARG) == "0":
        yield warns(
            "kernarg",
            f"{_KERNARG}=0 puts kernel arguments into host memory: 2 to 3 µs a kernel",
            "environment",
            remedy=f"export {_KERNARG}=1, the default since ROCm 6.2",
            spoils=True,
        )


def check_past_tuner(host: HostState) -> Iterator[Finding]:
    """Calls of all GPUs here that ask no tuner: no rule reaches them."""
    system = host.system
    versions = dict.fromkeys(one.version for one in system.libraries if one.version)
    try:
        gpus = find_visible_devices(system.gpus, system.vendor, host.variables)
    except MachineError:
        return  # which is a finding of its own
    for version in versions:
        site = VariantSite(
            library=name_library(version, system.arch or system.vendor),
            is_rcclx=False,
            arch=system.arch,
            n_nodes=1,
            n_ranks=len(gpus),
            dtype=defaults.DTYPE,
            op=defaults.OP,
            registered=False,
        )
        paths = paths_past(site, reversed(TUNABLE), host.variables) if len(gpus) > 1 else ()
        if paths:
            yield notes(
                "past-the-tuner",
                f"{version}, {len(gpus)} ranks: {'. '.join(sentences(paths))}",
                "docs/deploy.md",
                remedy="tune the sizes beyond, or the same job with that switch: rccltune tune "
                "--env NAME=VALUE.",
            )


def check_hidden_files(host: HostState) -> Iterator[Finding]:
    """Files that set variables nobody sees; they fill only what the environment leaves open."""
    for hidden in files_of(host.root, host.variables, host.home, amd=host.has_amd):
        pairs, path = hidden.fills(host.variables), hidden.path
        if pairs:
            yield warns(
                "hidden-file",
                f"{path} ({hidden.whose}) sets {', '.join(f'{n}={v}' for n, v in pairs)}",
                str(path),
                remedy=f"mv {path} {path}.off while measuring, or set the same in every job.",
                spoils=True,
            )


def check_rocm_release(host: HostState) -> Iterator[Finding]:
    """The release from which RCCL knows partitions."""
    release = release_in(host.system.rocm)
    mode = host.system.mode
    is_old = host.has_amd and release is not None and not release.knows_cpx
    if is_old and mode is not None and mode.compute == "CPX":
        yield warns(
            "rocm",
            f"ROCm {host.system.rocm}: its RCCL does not know CPX",
            "<rocm>/.info/version",
            remedy="install a newer ROCm, or name a newer librccl with --librccl.",
        )


def check_graph_replays(host: HostState) -> Iterator[Finding]:
    """Releases of HIP whose replayed graphs may compute wrong results."""
    if host.has_amd and spoils_replays(host.system.rocm):
        yield warns(
            "graph-replays",
            f"ROCm {host.system.rocm}: replayed HIP graphs may compute wrong results, in one "
            "process of five where it was seen (MI300X, ROCm/clr issue 279)",
            "<rocm>/.info/version",
            remedy="install 7.1.1 or 7.13, or keep jobs from graphs and tune with --timing loop.",
        )


def check_libraries(host: HostState) -> Iterator[Finding]:
    """Findings of the library that a job loads, which decides what can be chosen."""
    files, name = host.system.libraries, "librccl" if host.has_amd else "libnccl"
    # A captured tree holds /sys and /proc; that it has no programs means nothing.
    was_searched = host.system.launchers is not None
    if host.system.vendor is not None and not files and was_searched:
        yield warns(
            "no-library",
            f"no {name} was found",
            "LD_LIBRARY_PATH, the system's folders, the Python in use",
            remedy="name it with --librccl FILE.",
        )
    if len({library.sha256 for library in files}) > 1:
        words = "; ".join(
            f"{lib.owner}: {lib.version or 'no version'} ({lib.path})" for lib in files
        )
        yield warns(
            "several-libraries",
            f"a job here could load different libraries: {words}",
            "LD_LIBRARY_PATH, the system's folders, the Python in use",
            remedy="tune with the one that the job loads (grep ccl /proc/PID/maps): --librccl FILE "
            "chooses it.",
            spoils=True,
        )


def check_mpi_families(host: HostState) -> Iterator[Finding]:
    """The launcher's MPI and that of rccl-tests, which confirm what rccltune-perf measures."""
    flavours = [one.flavour for one in host.system.launchers or () if one.flavour is not None]
    benchmarks = [one for one in host.system.benchmarks if not one.simulated]
    no_mpi = [one for one in benchmarks if one.mpi == "none"]
    if flavours and no_mpi:
        yield warns(
            "benchmark-without-mpi",
            f"{_name_benchmarks(no_mpi)}: built without MPI; {_ORPHANS}",
            str(no_mpi[0].path),
            remedy=f"build {host.system.tests_word} with make MPI=1 MPI_HOME=…",
        )
    family = _FAMILY.get(flavours[0]) if flavours else None
    foreign = [one for one in benchmarks if one.mpi not in (None, "none", family)] if family else []
    if foreign:
        yield warns(
            "launcher-mismatch",
            f"the launcher is {flavours[0]}, {_name_benchmarks(foreign)} use "
            f"{foreign[0].mpi}; {_ORPHANS}",
            str(foreign[0].path),
            remedy=f"put the mpirun of {foreign[0].mpi} first on PATH, or build "
            f"{host.system.tests_word} with {flavours[0]}.",
        )


def _name_benchmarks(benchmarks: list[Benchmark]) -> str:
    return ", ".join(benchmark.name for benchmark in benchmarks[:3])


CHECKS: Final = (
    check_library_variables,
    check_kernel_arguments,
    check_past_tuner,
    check_hidden_files,
    check_rocm_release,
    check_graph_replays,
    check_libraries,
    check_mpi_families,
)
