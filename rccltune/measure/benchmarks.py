"""Benchmarks, rccl-tests' programs, and the library that they load."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.launch import overrides
from rccltune.launch.variables import launch_environment
from rccltune.machine import installed_software
from rccltune.machine.sysroot import SystemRoot, is_file
from rccltune.measure import real_rccl
from rccltune.model.errors import MachineError, reason_of
from rccltune.model.vocabulary import Collective
from rccltune.session import files

if TYPE_CHECKING:
    from rccltune.measure.site import Site
    from rccltune.simulate.node import SimulatedNode


def over_real(site: Site, node: SimulatedNode, library: Path, *, one_process: bool) -> Site:
    """Simulated node with the real library's decisions, its times still the node file's."""
    n_ranks, n_hosts = site.seating.n_started, site.scale.n_nodes
    real_rccl.check_node(node)
    if n_hosts > 1 and one_process:
        raise MachineError(
            "the real library tells simulated hosts apart by process",
            hint="leave --launcher none out, or say ranks of one host (--np).",
        )
    real_rccl.check_real_memory(n_ranks, n_hosts, one_process=one_process)
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
class Benchmarks:
    """The benchmark of each collective.

    Attributes:
        letters: of the options that it has.
        sha256: of what measures; other samples are not pooled with its own.
        linked: one of the programs, whose loader tells of an MPI and of the library.
    """

    programs: Mapping[Collective, str]
    letters: frozenset[str]
    sha256: str
    linked: Path


_OPTION: Final = re.compile(r"\[-(\w)[, ]")


def find_benchmarks(named: Path | None) -> Benchmarks:
    """The real programs.

    Args:
        named: their folder or the checkout; None looks on PATH and under /opt.

    Raises:
        MachineError: there are none, they do not start, or they are the stand-in's.
    """
    folder = _folder(named)
    programs = programs_in(folder)
    first = Path(next(iter(programs.values())))
    if installed_software.SIMULATED_MARK in first.read_bytes():
        raise MachineError(
            "these are rccltune's stand-in benchmarks, not rccl-tests",
            where=str(folder),
            hint="use them with --simulate NODE; nothing simulated counts as a measurement.",
        )
    return Benchmarks(
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
    programs = {
        collective: str((folder / collective.benchmark).resolve().parent / collective.benchmark)
        for collective in Collective
        if (folder / collective.benchmark).is_file()
    }
    if not programs:
        raise MachineError(
            "there is no benchmark in this folder",
            where=str(folder),
            hint="name the folder that holds all_reduce_perf: --rccl-tests of sweep, rccl_tests in "
            "a session's sweep.yaml.",
        )
    return programs


def letters_of(program: str, variables: Mapping[str, str]) -> frozenset[str]:
    """Option letters in what --help prints; benchmarks exit with 0 whatever they are asked.

    Raises:
        MachineError: it does not start.
    """
    try:
        answer = subprocess.run(
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
    return frozenset(_OPTION.findall(answer.stdout + answer.stderr))


def _folder(path: Path | None) -> Path:
    if path is not None:
        # Users name the checkout as often as its build folder.
        return path / "build" if (path / "build").is_dir() else path
    for folder in installed_software.list_benchmark_folders(SystemRoot(), os.environ):
        if is_file(folder / Collective.ALL_REDUCE.benchmark):
            return folder
    raise MachineError(
        "rccl-tests were not found on PATH nor under /opt/rocm",
        hint="build them with MPI=1 and put them on PATH (sweep also takes --rccl-tests DIR); "
        "without a GPU use --simulate mi300x.",
    )


def variables_to_load(library: Path | None) -> tuple[tuple[str, str], ...]:
    """Variables that make the benchmark load a library instead of the site's."""
    if library is None:
        return ()
    folders = (str(library.parent), os.environ.get("LD_LIBRARY_PATH"))
    return (("LD_LIBRARY_PATH", os.pathsep.join(filter(None, folders))),)


def find_loaded(
    program: Path,
    library: Path | None,
    added: Sequence[tuple[str, str]],
) -> Path | None:
    """The library that the benchmark will load, None where that is not seen."""
    environment = launch_environment(os.environ, added)
    # Of a script around the benchmark the loader knows nothing; what was named counts then.
    return installed_software.find_loaded_library(program, environment.variables) or library
