"""One setting at one size, with NPKit's dump: its launch, its events, what comes next."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune.launch import signals
from rccltune.machine import overrides
from rccltune.measure import rccl_tests, rccl_tests_sweep
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.site import Site
from rccltune.model import schema
from rccltune.model.errors import CommandLineError, LaunchError, MachineError
from rccltune.model.measurement import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Line, Whole, Word
from rccltune.model.settings import LL128_FORCED, Setting
from rccltune.model.vocabulary import Collective, Protocol, UnusableReason, format_size
from rccltune.npkit.dump import Dump, find_tools, has_npkit, next_command, read_dump, why_useless
from rccltune.session import files, store

FOLDER: Final = "npkit"
_RECORD: Final = f"{FOLDER}/npkit.json"
_FORMAT: Final = 1
_COLLECTED: Final = "npkit"
# RCCL's own trace generator leaves out the first five calls.
N_WARMUP: Final = 5
_ROCM: Final = Path("/opt/rocm")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpPlan:
    """Plan of a launch with NPKit's events."""

    collective: Collective
    setting: Setting
    nbytes: Whole

    def __str__(self) -> str:
        """``all_reduce tree/ll128 at 4 MiB``."""
        return f"{self.collective.value} {self.setting} at {format_size(self.nbytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpResult:
    """Result of a launch with NPKit's events.

    Attributes:
        folder: where the library wrote.
        collected: the same files beside the launch.
        generator: npkit_trace_generator.py, None where it was not found.
        header: npkit_event.h, None where it was not found.
        other_release: the generator wants files that this library does not write.
        command: makes a trace of them.
    """

    chosen: DumpPlan
    launch: Word
    folder: Line
    collected: Line
    dump: Dump
    generator: Line | None
    header: Line | None
    other_release: bool
    command: Line

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json and for the session."""
        return {"format": _FORMAT, **schema.to_plain(self)}


def check_dump(folder: Path, site: Site) -> None:
    """Whether a dump can be made here, before anything is measured.

    Args:
        folder: where the library is to write.
        site: where it would run.

    Raises:
        CommandLineError: the folder holds something already.
        MachineError: the library has no NPKit, or a process would have several GPUs.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandLineError(
            "the folder for NPKit's dump is not empty",
            where=str(folder),
            hint="events of several launches have the same names; name an empty or a new folder.",
        )
    reason = _several_gpus(site)
    if reason is not None:
        raise MachineError(
            f"NPKit supports one GPU in a process, and {reason}",
            hint="sweep without --launcher none and NCCL_TESTS_SPLIT, so that every rank is a "
            "process of its own in one communicator.",
        )
    library = site.library_file
    if library is None and site.node is not None:
        # The stand-in for the benchmark is that for the library as well.
        library = Path(next(iter(site.programs.values())))
    if library is not None and not has_npkit(library):
        raise MachineError(
            "this library was built without NPKit",
            where=str(library),
            hint="build RCCL with ./install.sh --npkit-enable (cmake -DENABLE_NPKIT=ON in newer "
            "releases; those of June 2026 and later have none) and sweep with it: --librccl FILE.",
        )


def dump_setting(
    folder: Path, into: Path, chosen: DumpPlan, wanted: Sweep, site: Site, *, reporter: Reporter
) -> DumpResult:
    """Run a setting once at one size, with NPKit's dump.

    Args:
        folder: the session.
        into: where the library writes; a folder that every host has.
        chosen: what is run.
        wanted: the sweep, whose calls and type count.
        site: where.
        reporter: told what is worth telling.

    Raises:
        CommandLineError: the folder is not empty.
        MachineError: no NPKit, or several GPUs in a process.
        LaunchError: it failed, another setting ran, or the dump is of no use.
    """
    check_dump(into, site)
    own = (
        folder
        / FOLDER
        / f"{chosen.collective.value}-{str(chosen.setting).replace('/', '-')}-{chosen.nbytes}"
    )
    into.mkdir(parents=True, exist_ok=True)
    with files.writing(folder, reporter), signals.interruptible():
        node = None if site.node is None else folder / FOLDER / store.NODE_FILE
        if node is not None:
            files.write_atomically(node, (folder / store.NODE_FILE).read_bytes())
        with files.disk_errors(own):
            shutil.rmtree(own, ignore_errors=True)
        ran = rccl_tests.launch(
            RcclTestsSetup(site=site, node=node),
            _command(chosen, wanted, site),
            own,
            rccl_tests.stated_of(site, chosen.collective, chosen.setting),
            added=_variables(chosen, site, into),
        )
        _check_ran(ran, chosen)
        dump = replace(read_dump(into), simulated=site.node is not None)
        useless = why_useless(dump, site.scale.n_ranks)
        if useless is not None:
            raise LaunchError(
                f"NPKit's dump is of no use: {useless}",
                where=str(into),
                hint="docs/measuring.md says how RCCL is built with it; the sweep is kept.",
            )
        _collect(into, own / _COLLECTED)
        done = _done(chosen, into, dump, site=site, own=own)
        store.write_derived(folder, _RECORD, done.as_plain())
    return done


def _several_gpus(site: Site) -> str | None:
    """Reason why a process would have several GPUs, None where none does."""
    if site.launcher.flavour == "none" and site.scale.n_ranks > 1:
        return "without a launcher all ranks are in one"
    if site.seating.n_started != site.scale.n_ranks:
        return "groups side by side write files of the same names"
    return None


def _command(chosen: DumpPlan, wanted: Sweep, site: Site) -> tuple[str, ...]:
    """The command line: one size, one pass.

    Raises:
        MachineError: the setting cannot run here.
    """
    reason = rccl_tests_sweep.why_left_out(chosen.setting, site, is_named=True)
    if reason is not None:
        raise MachineError(f"{chosen} cannot run: {reason}")
    call = BenchmarkCall(
        collective=chosen.collective,
        min_nbytes=chosen.nbytes,
        max_nbytes=chosen.nbytes,
        dtype=wanted.dtypes[0],
        op=wanted.redop,
        placements=wanted.placements,
        warmup=N_WARMUP,
    )
    return rccl_tests.command(site, call)


def _variables(chosen: DumpPlan, site: Site, into: Path) -> list[tuple[str, str]]:
    """Variables that force the setting and have its events written."""
    is_forced = chosen.setting.protocol is Protocol.LL128 and rccl_tests_sweep.is_gated(site)
    return [
        *overrides.switches(chosen.setting),
        *([LL128_FORCED] if is_forced else []),
        ("NPKIT_DUMP_DIR", str(into.resolve())),
    ]


def _check_ran(ran: BenchmarkResult, chosen: DumpPlan) -> None:
    """Check that the launch ended well, and that what ran is what was asked for.

    Raises:
        LaunchError: not so.
    """
    if ran.table is None or ran.failure is not None:
        raise LaunchError(
            f"{chosen} failed with NPKit's dump: {ran.words}",
            where=str(ran.folder),
            hint="NPKit needs memory for its events on every GPU.",
        )
    reasons = {UnusableReason(word) for word in ran.table["unusable"].unique() if word}
    if reasons or ran.table.empty:
        said = ", ".join(sorted(reason.meaning for reason in reasons)) or "no row"
        raise LaunchError(
            f"NPKit's dump is not of {chosen}: {said}",
            where=str(ran.folder),
            hint="its log and trace are there; the dump stays where it was written.",
        )


def _collect(into: Path, collected: Path) -> None:
    """Put the dump beside its launch."""
    shutil.rmtree(collected, ignore_errors=True)
    # A rank has over a thousand files; on the same disk they take no second place.
    with files.disk_errors(collected):
        shutil.copytree(into, collected, copy_function=_link_or_copy)


def _done(chosen: DumpPlan, into: Path, dump: Dump, *, site: Site, own: Path) -> DumpResult:
    """Result of the launch, with the command that makes a trace of its dump."""
    collected = (own / _COLLECTED).resolve()
    tools = find_tools(_places(site))
    return DumpResult(
        chosen=chosen,
        launch=own.name,
        folder=str(into.resolve()),
        collected=str(collected),
        dump=dump,
        generator=None if tools.generator is None else str(tools.generator),
        header=None if tools.header is None else str(tools.header),
        other_release=tools.wants_calibration and not dump.calibrated,
        command=next_command(tools, collected, own.resolve() / "trace", N_WARMUP),
    )


def _places(site: Site) -> list[Path]:
    """Folders where RCCL's tools may be: its sources are mostly beside those of rccl-tests."""
    library = site.library_file
    folder = Path(next(iter(site.programs.values()))).parent
    beside = [above.parent / "rccl" for above in (folder, *folder.parents[:2])]
    return [*([library] if library is not None else []), *beside, _ROCM]


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
