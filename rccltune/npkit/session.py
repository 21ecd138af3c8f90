"""The winning setting once more, with NPKit's dump: its launch, its events, what comes next."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rccltune.analyse.options import ChoiceOptions
from rccltune.analyse.session import choice_of
from rccltune.fit.session import FitDone, fit_session
from rccltune.launch import signals
from rccltune.measure import launches, preparation, runs
from rccltune.measure.site import Site
from rccltune.model import schema
from rccltune.model.curves import Curve
from rccltune.model.errors import CommandLineError, LaunchError, MachineError, TooLittleDataError
from rccltune.model.measured import Launch, Status, Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Line, Number, Whole, Word
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT, Setting, Variant
from rccltune.model.vocabulary import Collective, Doubt, Placement, format_size
from rccltune.npkit.dump import Dump, find_tools, has_npkit, next_command, read_dump, why_useless
from rccltune.plan.launches import launch_of
from rccltune.session import files, store
from rccltune.session.launches import Ran

FOLDER: Final = "npkit"
_RECORD: Final = f"{FOLDER}/npkit.json"
_FORMAT: Final = 1
_COLLECTED: Final = "npkit"
# RCCL's own trace generator leaves out the first five calls.
N_WARMUP: Final = 5
_ROCM: Final = Path("/opt/rocm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What is run once more.

    Attributes:
        gain: baseline time / its time, None where no rule wins and it is the fastest there is.
    """

    collective: Collective
    setting: Setting
    variant: Variant
    nbytes: Whole
    gain: Number | None

    def __str__(self) -> str:
        """``all_reduce tree/ll128 at 4 MiB``."""
        return f"{self.collective.value} {self.setting} at {format_size(self.nbytes)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """What came of it.

    Attributes:
        folder: where the library wrote.
        collected: the same files beside the launch.
        generator: npkit_trace_generator.py, None where it was not found.
        header: npkit_event.h, None where it was not found.
        other_release: the generator wants files that this library does not write.
        command: makes a trace of them.
    """

    winner: Winner
    launch: Word
    folder: Line
    collected: Line
    dump: Dump
    generator: Line | None
    header: Line | None
    other_release: bool
    command: Line

    def as_plain(self) -> dict[str, Any]:
        """For --json and for the session."""
        return {"format": _FORMAT, **schema.to_plain(self)}


def stored_dump(folder: Path, into: Path) -> Dumped | None:
    """The dump that a session has in this very folder, None where it has none there.

    Raises:
        SessionError: the record cannot be read.
    """
    known = store.read_derived(folder, _RECORD, Dumped, number=_FORMAT)
    return known if known is not None and known.folder == str(into.resolve()) else None


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
            hint="leave out --launcher none and NCCL_TESTS_SPLIT, so that every rank is a process "
            "of its own in one communicator.",
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
            "releases; those of June 2026 and later have none) and name it with --librccl.",
        )


def dump_winner(
    folder: Path,
    into: Path,
    wanted: Sweep,
    site: Site,
    *,
    timeout_s: float | None,
    reporter: Reporter,
) -> Dumped:
    """Run the winning setting of a session once, with NPKit's dump.

    Args:
        folder: the session.
        into: where the library writes; a folder that every host has.
        wanted: the sweep, whose collectives, calls and type count.
        site: where.
        timeout_s: of the launch, None for the usual limit.
        reporter: told what is worth telling.

    Raises:
        CommandLineError: the folder is not empty.
        MachineError: no NPKit, or several GPUs in a process.
        TooLittleDataError: nothing of these collectives was measured.
        LaunchError: it failed, another setting ran, or the dump is of no use.
    """
    known = stored_dump(folder, into)
    if known is not None:
        reporter.say("NPKit's dump is in this session already, and is not made again")
        return known
    check_dump(into, site)
    winner = winner_of(fit_session(folder, reporter=reporter), wanted.collectives)
    reporter.say(f"NPKit: {winner} runs once more")
    one = _launch(winner, wanted, site, into, timeout_s)
    into.mkdir(parents=True, exist_ok=True)
    own = folder / FOLDER / "launches" / one.id
    with files.writing(folder, reporter), signals.interruptible():
        if site.node is not None:
            node = (folder / store.NODE_FILE).read_bytes()
            files.write_atomically(folder / FOLDER / store.NODE_FILE, node)
        runs.stop_if_changed(site, "before")
        ran = launches.run_launch(
            replace(one, timeout_s=timeout_s or runs.limit_s(())),
            folder / FOLDER,
            site=tuple(os.environ.items()),
            clear=site.cleared,
            carry=site.launcher.carry,
            fingerprint=site.fingerprint,
            changed=site.changed,
        )
        _check_ran(ran, winner, own)
        dump = replace(read_dump(into), simulated=site.node is not None)
        useless = why_useless(dump, site.scale.n_ranks)
        if useless is not None:
            raise LaunchError(
                f"NPKit's dump is of no use: {useless}",
                where=str(into),
                hint="docs/sweep.md says how RCCL is built with it; the sweep is kept.",
            )
        _collect(into, own / _COLLECTED)
        done = _done(winner, one, into, dump, site=site, own=own)
        store.write_derived(folder, _RECORD, done.as_plain())
    return done


def winner_of(done: FitDone, collectives: Sequence[Collective]) -> Winner:
    """The rule that gains most, at the size where it does; without any the fastest setting.

    Raises:
        TooLittleDataError: nothing of these collectives was measured.
    """
    found = max(_gaining(done, collectives), key=lambda one: one.gain or 0.0, default=None)
    if found is not None:
        return found
    curves = [curve for curve in done.curves if curve.key.collective in collectives]
    if not curves:
        raise TooLittleDataError(
            "nothing of these collectives was measured, so none has a winner",
            where=str(done.session.path),
            hint="rccltune sweep measures them.",
        )
    plain = [curve for curve in curves if curve.key.variant.name == DEFAULT_VARIANT.name]
    largest = max(curve.max_nbytes for curve in plain or curves)
    fastest = min(
        (curve for curve in plain or curves if curve.max_nbytes == largest),
        key=lambda curve: _time_at(curve, largest) or float("inf"),
    )
    return Winner(
        collective=fastest.key.collective,
        setting=fastest.key.setting,
        variant=fastest.key.variant,
        nbytes=largest,
        gain=None,
    )


def _gaining(done: FitDone, collectives: Sequence[Collective]) -> Iterator[Winner]:
    """Each chosen setting at each of its sizes where the baseline was measured too."""
    try:
        chosen = choice_of(done, ChoiceOptions())
    except TooLittleDataError:
        return
    for zone in chosen.zones:
        if zone.setting is None or zone.target.collective not in collectives:
            continue
        mine = _curve(done, zone.target.collective, zone.setting, zone.variant.name)
        other = _curve(done, zone.target.collective, BASELINE, DEFAULT_VARIANT.name)
        for point in mine.points if mine is not None and other is not None else ():
            before = _time_at(other, point.nbytes)
            if before is None or not zone.min_nbytes <= point.nbytes <= zone.max_nbytes:
                continue
            yield Winner(
                collective=zone.target.collective,
                setting=zone.setting,
                variant=zone.variant,
                nbytes=point.nbytes,
                gain=before / point.time_us,
            )


def _curve(done: FitDone, collective: Collective, setting: Setting, variant: str) -> Curve | None:
    """Out-of-place where both were measured."""
    found = [
        curve
        for curve in done.curves
        if (curve.key.collective, curve.key.setting, curve.key.variant.name)
        == (collective, setting, variant)
    ]
    return min(found, key=lambda c: c.key.placement is Placement.IN_PLACE, default=None)


def _time_at(curve: Curve | None, nbytes: int) -> float | None:
    points = () if curve is None else curve.points
    return next((point.time_us for point in points if point.nbytes == nbytes), None)


def _several_gpus(site: Site) -> str | None:
    """How a process would come to have several GPUs, None where none does."""
    if site.launcher.flavour == "none" and site.scale.n_ranks > 1:
        return "without a launcher all ranks are in one"
    if site.seating.n_started != site.scale.n_ranks:
        return "groups side by side write files of the same names"
    return None


def _launch(
    winner: Winner, wanted: Sweep, site: Site, into: Path, timeout_s: float | None
) -> Launch:
    """One size, one pass, and no question but those of its calls."""
    ground = preparation.ground_of(site)
    ground = replace(ground, letters=ground.letters - {"A", "N", "s"})
    sweep = replace(
        wanted,
        collectives=(winner.collective,),
        min_nbytes=winner.nbytes,
        max_nbytes=winner.nbytes,
        warmup=N_WARMUP,
        graph=0,
        rank_placement=site.seating.place.name,
    )
    one = launch_of(sweep, ground, (winner.collective, winner.setting, winner.variant), 0)
    _check_options(one)
    one = preparation.completed(one, site, timeout_s)
    environment = {**dict(one.environment), "NPKIT_DUMP_DIR": str(into.resolve())}
    one = replace(one, environment=tuple(sorted(environment.items())))
    return replace(one, id=store.launch_id(one))


def _check_options(one: Launch) -> None:
    """The last word on GPUs in a process: a variant may have its own.

    Raises:
        MachineError: there are several.
    """
    told = dict(itertools.pairwise(one.argv))
    if one.variant.one_process or told.get("-g", "1") != "1" or told.get("-t", "1") != "1":
        raise MachineError(
            f"NPKit supports one GPU in a process, and variant {one.variant.name} has several",
            hint="name collectives whose winner is another with --collective.",
        )


def _check_ran(ran: Ran, winner: Winner, own: Path) -> None:
    """It ended well, and what ran is what was asked for.

    Raises:
        LaunchError: not so.
    """
    outcome = ran.outcome
    if outcome.status is not Status.OK:
        why = outcome.notices[-1].message if outcome.notices else "it says nothing"
        raise LaunchError(
            f"{winner} failed with NPKit's dump: {why}",
            where=str(own),
            hint="it ran well without; NPKit needs memory for its events on every GPU.",
        )
    doubts = {sample.doubt for sample in ran.samples} - {None, Doubt.CONNECTING}
    if doubts or not ran.samples:
        said = ", ".join(sorted(doubt.meaning for doubt in doubts if doubt)) or "no row"
        raise LaunchError(
            f"NPKit's dump is not of {winner}: {said}",
            where=str(own),
            hint="its log and trace are there; the dump stays where it was written.",
        )


def _collect(into: Path, collected: Path) -> None:
    """Put the dump beside its launch."""
    shutil.rmtree(collected, ignore_errors=True)
    # A rank has over a thousand files; on the same disk they take no second place.
    with files.disk_errors(collected):
        shutil.copytree(into, collected, copy_function=_link_or_copy)


def _done(winner: Winner, one: Launch, into: Path, dump: Dump, *, site: Site, own: Path) -> Dumped:
    """What makes a trace of it."""
    collected = (own / _COLLECTED).resolve()
    tools = find_tools(_places(site))
    return Dumped(
        winner=winner,
        launch=one.id,
        folder=str(into.resolve()),
        collected=str(collected),
        dump=dump,
        generator=None if tools.generator is None else str(tools.generator),
        header=None if tools.header is None else str(tools.header),
        other_release=tools.wants_calibration and not dump.calibrated,
        command=next_command(tools, collected, own.resolve() / "trace", N_WARMUP),
    )


def _places(site: Site) -> list[Path]:
    """Where RCCL's tools may be: its sources are mostly beside those of rccl-tests."""
    library = site.library_file
    folder = Path(next(iter(site.programs.values()))).parent
    beside = [above.parent / "rccl" for above in (folder, *folder.parents[:2])]
    return [*([library] if library is not None else []), *beside, _ROCM]


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
