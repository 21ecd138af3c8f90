"""A session to figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune import plot, session
from rccltune.errors import TooLittleDataError
from rccltune.pipeline.fitting import FitDone, choice_of, fit_session
from rccltune.pipeline.judging import environments_of, zones_in

if TYPE_CHECKING:
    from rccltune.zones import Choice, ChoiceOptions

Note = Callable[[str], None]


def plot_session(
    folder: Path,
    options: Callable[[FitDone], ChoiceOptions],
    *,
    note: Note,
    directory: Path | None,
    formats: Sequence[str],
    overwrite: bool,
) -> tuple[Path, ...]:
    """Draw every figure that the session has data for.

    Raises:
        CommandLineError: a figure is there and may not be overwritten.
        TooLittleDataError: no good sample.
    """
    done = fit_session(folder, note=note)
    wish = options(done)
    choice = _choice_or_none(done, wish, note)
    zones = zones_in(choice.zones, environments_of(done, choice, wish)) if choice else ()
    wanted = plot.PlotInput(
        curves=done.curves,
        crossovers=done.crossovers,
        zones=zones,
        baseline=wish.baseline,
        left_out=choice.left_out if choice else (),
        quarantined=done.quarantined,
        beliefs=done.beliefs,
        source=_source(done),
        machine=_machine(done),
        simulated=done.session.simulated,
        published=bool(_origins(done)),
    )
    for notice in done.agreements.notices:
        note(f"{notice.message} ({notice.where})")
    for one in done.quarantined:
        note(f"not measured: {one}: quarantined, {one.reason}")
    for sentence in plot.omissions(wanted):
        note(sentence)
    return plot.draw(wanted, directory or folder / "plots", formats=formats, overwrite=overwrite)


def _choice_or_none(done: FitDone, wish: ChoiceOptions, note: Note) -> Choice | None:
    """A session of baselines only has figures, but nothing to choose from."""
    try:
        return choice_of(done, wish)
    except TooLittleDataError as error:
        note(f"no zones: {error.message}")
        return None


def _origins(done: FitDone) -> list[str]:
    launches = session.read_launches(done.session.path)
    return sorted({outcome.origin for _, outcome in launches if outcome.origin})


def _source(done: FitDone) -> str:
    launches = session.read_launches(done.session.path)
    names = sorted({launch.source for launch, _ in launches if launch.source})
    listed = _origins(done) or names
    return listed[0] if len(listed) == 1 else f"{len(listed)} files" if listed else "rccltune sweep"


def _machine(done: FitDone) -> str:
    fingerprint = done.session.fingerprint
    mode = fingerprint.mode
    parts = [fingerprint.product, str(mode) if mode and mode.compute else None]
    return ", ".join(part for part in parts if part)
