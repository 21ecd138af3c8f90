"""What runs in a launch: rccl-tests' programs or the PyTorch runner, and with which library."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.launch import launchers
from rccltune.launch.launchers import Launcher
from rccltune.machine import loaded_libraries, overrides, real_rccl, software
from rccltune.machine.loaded_libraries import Loaded, LoadedLibrary
from rccltune.model.errors import CommandLineError, MachineError, reason_of
from rccltune.model.measured import Sweep
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.session import files
from rccltune.torchbench import options

if TYPE_CHECKING:
    from rccltune.measure.site import Site


def over_real(site: Site, library: Path, one_process: bool) -> Site:
    """The same node with the real library's decisions, its times still the node file's."""
    node, n_ranks, n_hosts = site.node, site.seating.n_started, site.scale.n_nodes
    if node is None or node.library == "rcclx":
        raise MachineError(
            "the real library runs on simulated nodes with AMD's RCCL alone",
            hint="simulate such a node, or leave --librccl out.",
        )
    if n_hosts > 1 and one_process:
        raise MachineError(
            "the real library tells simulated hosts apart by process",
            hint="leave --launcher none out, or say ranks of one host (--np).",
        )
    free = real_rccl.free_mib(Path("/proc/meminfo").read_text(encoding="utf-8"))
    real_rccl.check_real_memory(n_ranks, n_hosts, one_process=one_process, free_mib=free)
    version, words = real_rccl.real_words(library)
    real_rccl.check_real_starts(library)
    start_s = real_rccl.real_start_s(n_ranks, one_process=one_process)
    return replace(
        site,
        fingerprint=replace(site.fingerprint, runner=words),
        environment=(*site.environment, ("RCCLTUNE_SIM_LIBRCCL", str(library))),
        remarks=(*site.remarks, f"{words}; kernels are launched and not run: no result is checked"),
        has_patched_library=False,
        start_s=start_s + (site.start_s or 0),
        library=version,
        library_file=library,
        tunerless=overrides.tunerless(version),
    )


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


_USUAL: Final = (Path("/opt/rocm/bin"), Path("/opt/rccl-tests/build"))
_OPTION: Final = re.compile(r"\[-(\w)[, ]")


def bench_of(named: Path | None) -> Bench:
    """The real programs.

    Args:
        named: their folder or the checkout; None looks on PATH and under /opt.

    Raises:
        MachineError: there are none, they do not start, or they are the stand-in's.
    """
    folder = _folder(named)
    programs = programs_in(folder)
    first = Path(next(iter(programs.values())))
    if software.SIMULATED_MARK in first.read_bytes():
        raise MachineError(
            "these are rccltune's stand-in benchmarks, not rccl-tests",
            where=str(folder),
            hint="use them with --simulate NODE; nothing simulated counts as a measurement.",
        )
    return Bench(
        programs=programs,
        letters=letters_of(str(first), os.environ),
        sha256=files.sha256_of(first),
        linked=first,
    )


def programs_in(folder: Path) -> dict[Collective, str]:
    """The benchmark of each collective in a folder.

    Raises:
        MachineError: there is none.
    """
    found = {
        collective: str((folder / collective.benchmark).resolve().parent / collective.benchmark)
        for collective in Collective
        if (folder / collective.benchmark).is_file()
    }
    if not found:
        raise MachineError(
            "there is no benchmark in this folder",
            where=str(folder),
            hint="name the folder that holds all_reduce_perf with --rccl-tests.",
        )
    return found


def letters_of(program: str, variables: Mapping[str, str]) -> frozenset[str]:
    """Option letters in what --help prints; benchmarks exit with 0 whatever they are asked.

    Raises:
        MachineError: it does not start.
    """
    try:
        done = subprocess.run(
            [program, "--help"],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            f"the benchmark does not start: {reason_of(error)}", where=program
        ) from error
    return frozenset(_OPTION.findall(done.stdout + done.stderr))


def _folder(named: Path | None) -> Path:
    if named is not None:
        # Users name the checkout as often as its build folder.
        return named / "build" if (named / "build").is_dir() else named
    found = shutil.which(Collective.ALL_REDUCE.benchmark)
    if found is not None:
        return Path(found).parent
    for folder in _USUAL:
        if (folder / Collective.ALL_REDUCE.benchmark).exists():
            return folder
    raise MachineError(
        "rccl-tests were not found on PATH nor under /opt/rocm",
        hint="build them with MPI=1 and name the folder with --rccl-tests; without a GPU use "
        "--simulate mi300x.",
    )


GLOO_PRODUCT: Final = "CPU (gloo, for tests)"
_NO_GRAPHS: Final = frozenset("G")
# Of a hash, where a line has little room; launches' logs have all of it.
_SHOWN: Final = 16
UNTUNABLE: Final = "gloo on the CPU asks no tuner: it is measured as it is, for tests"


def check_request(sweep: Sweep, backend: str, given: Sequence[str]) -> None:
    """Stop where torch cannot do what is asked for.

    Args:
        sweep: what is to be measured.
        backend: one of vocab.BACKENDS.
        given: options that mean rccl-tests or their library.

    Raises:
        CommandLineError: it cannot.
    """
    if given:
        raise CommandLineError(
            f"{given[0]} does not go with --runner torch",
            hint="PyTorch brings its own library, and --python says which PyTorch.",
        )
    for collective, dtype in product(sweep.collectives, sweep.dtypes):
        options.check(
            collective=collective,
            dtype=dtype,
            redop=sweep.redop,
            graph=sweep.graph,
            placements=sweep.placements,
            backend=backend,
        )


def torch_bench_of(python: str | None, backend: str, variables: Mapping[str, str]) -> Bench:
    """The runner in a Python's torch.

    Args:
        python: a path or a name on PATH; None for ours where it has torch, else python3.
        backend: one of vocab.BACKENDS.
        variables: the environment that launches will have.

    Raises:
        MachineError: no such Python, no torch, or no library in it.
    """
    found = python_with_torch(python)
    loaded = loaded_libraries.loaded_by_torch(found, dict(variables))
    on_cpu = backend == "gloo"
    library = None if on_cpu else _library(loaded, backend)
    runner = f"{loaded.what.split(' of ')[0].replace('torch', 'PyTorch', 1)}, {backend}"
    if library is not None:
        digest = (library.sha256 or "unknown")[:_SHOWN]
        runner += f", {library.version or library.file.path.name} sha256={digest}"
    key = f"{options.digest()} {runner}"
    return Bench(
        programs={collective: collective.value for collective in TUNABLE},
        runs=options.argv(found, backend),
        letters=options.LETTERS - _NO_GRAPHS if on_cpu else options.LETTERS,
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        library=library.file.readable if library else None,
        version=library.version if library else None,
        runner=runner,
        untunable=UNTUNABLE if on_cpu else None,
        tells_steps=True,
        on_cpu=on_cpu,
        remarks=_remarks(loaded, library, backend),
    )


def _remarks(loaded: Loaded, library: LoadedLibrary | None, backend: str) -> tuple[str, ...]:
    said = [f"PyTorch runner: {loaded.what}, backend {backend}"]
    if library is not None:
        name = library.version or "a library that does not say its version"
        said.append(f"It talks to {name}: {library.file.path} (sha256 {library.sha256})")
    elif backend == "gloo":
        said.append(f"Nothing measured here is a GPU's: {UNTUNABLE}")
    return tuple(said)


def torchrun(bench: Bench) -> Launcher:
    """PyTorch's own launcher, of the Python that the runner runs in."""
    return launchers.LAUNCHERS["torchrun"](program=Path(bench.runs[0]))


def python_with_torch(named: str | None) -> str:
    """An absolute path: every rank is started from another folder.

    Raises:
        MachineError: there is none.
    """
    if named is None and importlib.util.find_spec("torch") is not None:
        return sys.executable
    found = shutil.which(named or "python3")
    if found is None:
        raise MachineError(
            f"there is no Python {named or 'python3'}",
            hint="name the one that has torch with --python.",
        )
    # Not resolved: a virtual environment's Python is a link, and is told by its own path.
    return str(Path(found).absolute())


def _library(loaded: Loaded, backend: str) -> LoadedLibrary | None:
    """The library that torch brings; torchcomms brings its own, which its first communicator maps.

    Raises:
        MachineError: this torch has none.
    """
    if backend == "rcclx":
        return None
    if not loaded.libraries:
        raise MachineError(
            f"no librccl or libnccl in {loaded.what}",
            where=loaded.by,
            hint="torch for the CPU alone has none; --backend gloo measures the CPU, for tests.",
        )
    return loaded.libraries[0]
