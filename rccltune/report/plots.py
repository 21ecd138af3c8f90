"""A session to figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.analyse.fit import FitDone, fit_session
from rccltune.analyse.library import idle_notices
from rccltune.ceiling.session import Bounded, bounded
from rccltune.model.chosen import Environment
from rccltune.model.curves import Curve
from rccltune.model.measured import Launch, Outcome, Status
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT, Variant, base_variant
from rccltune.report.figures import files, scene
from rccltune.report.verified import Verification, rule_files, verifications
from rccltune.rules.choices import zones_in
from rccltune.rules.stored import OLD_CHOICE, StoredChoice, stored_choice
from rccltune.session import store
from rccltune.session.files import disk_errors

if TYPE_CHECKING:
    pass


Ended = tuple[Launch, Outcome]


def plot_session(
    folder: Path,
    *,
    reporter: Reporter,
    directory: Path | None,
    formats: Sequence[str],
    overwrite: bool,
    bounds: Callable[[Bounded], None] = lambda _found: None,
) -> tuple[Path, ...]:
    """Draw every figure that the session has data for.

    Args:
        folder: the session.
        reporter: told what is worth telling.
        directory: of the figures, None for the session's own.
        formats: of the files.
        overwrite: replace figures that are there; the session's own always are.
        bounds: told what the session's rates of links say, where it has any.

    Raises:
        CommandLineError: a figure is there and may not be overwritten.
        TooLittleDataError: no good sample.
    """
    done = fit_session(folder, reporter=reporter)
    choice = stored_choice(folder)
    if choice is None:
        reporter.say("no rules are drawn: nothing was chosen yet; rccltune emit-config chooses")
    elif choice.samples_sha256 != done.samples_sha256:
        reporter.say(f"rules are drawn {OLD_CHOICE}")
    limits = bounded(done)
    if limits is not None:
        bounds(limits)
    launches = store.read_made(done.session)
    wanted = plot_input(
        done,
        choice,
        limits=limits,
        launches=launches,
        verified=tuple(verifications(folder, rule_files(folder))),
    )
    for notice in idle_notices(done.idle):
        reporter.detail(f"{notice.message} ({notice.where})")
    for one in done.quarantined:
        reporter.say(f"not measured: {one}: quarantined, {one.reason}")
    for sentence in files.omissions(wanted):
        reporter.detail(sentence)
    where = directory or folder / "plots"
    with disk_errors(where):
        overwrite = overwrite or directory is None
        return files.draw_figures(wanted, where, formats=formats, overwrite=overwrite)


def plot_input(
    done: FitDone,
    choice: StoredChoice | None,
    *,
    limits: Bounded | None,
    launches: Sequence[Ended],
    verified: Sequence[Verification],
) -> scene.PlotInput:
    """What the figures of a session are drawn from.

    Args:
        done: what fit found.
        choice: None where nothing was chosen yet.
        limits: what the session's rates of links say, None where it has none.
        launches: of the session.
        verified: what verifications say of the session's rule files.
    """
    environments = choice.environments if choice else ()
    return scene.PlotInput(
        curves=_of_one(done.curves, environments),
        crossovers=tuple(c for c in done.crossovers if _is_drawn(c.target.variant, environments)),
        zones=zones_in(choice.zones, environments) if choice else (),
        environments=environments,
        baseline=choice.named_baseline if choice else None,
        left_out=choice.left_out if choice else (),
        quarantined=done.quarantined,
        ceilings=tuple(one.ceiling for one in limits.reached) if limits else (),
        source=_source(launches),
        machine=_machine(done),
        simulated=done.session.simulated,
        published=bool(_origins(launches)),
        imported=any(outcome.status is Status.IMPORTED for _, outcome in launches),
        verified=tuple(verified),
    )


def _of_one(curves: Sequence[Curve], environments: Sequence[Environment]) -> tuple[Curve, ...]:
    """Curves of the environment that is chosen, and of the baseline.

    All variants at once would be a picture with fifty lines; what they gain has a figure of its
    own.
    """
    return tuple(
        curve
        for curve in curves
        if _is_drawn(curve.key.variant, environments)
        or (curve.key.setting == BASELINE and curve.key.variant.name == DEFAULT_VARIANT.name)
    )


def _is_drawn(variant: Variant, environments: Sequence[Environment]) -> bool:
    """Whether a variant is the chosen one, or none that is judged as an environment."""
    base = base_variant(variant).name
    chosen = next((e.variant.name for e in environments if e.chosen and not e.variant.path), None)
    others = {one.variant.name for one in environments}
    return base == chosen if chosen is not None else base not in others


def _origins(launches: Sequence[Ended]) -> list[str]:
    return sorted({outcome.origin for _, outcome in launches if outcome.origin})


def _source(launches: Sequence[Ended]) -> str:
    names = sorted({launch.source for launch, _ in launches if launch.source})
    listed = _origins(launches) or names
    return listed[0] if len(listed) == 1 else f"{len(listed)} files" if listed else "rccltune sweep"


def _machine(done: FitDone) -> str:
    fingerprint = done.session.fingerprint
    mode = fingerprint.mode
    parts = [fingerprint.product, str(mode) if mode and mode.compute else None]
    if fingerprint.runner:
        parts.append(fingerprint.runner if fingerprint.simulated else "through PyTorch")
    return ", ".join(part for part in parts if part)
