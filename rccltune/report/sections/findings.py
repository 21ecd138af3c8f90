"""What is about one target: its figures, its curves, what stays undecided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from rccltune.model.curves import Curve
from rccltune.model.measured import Notice
from rccltune.model.settings import Target
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.gain import gained
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import Scene
from rccltune.report.records import Block, Column, Items, Part, Plot, Section, Table, Words
from rccltune.report.sections.found import DASH, Found, count, percent

_MOST_CURVES = 120
_MOST_NOTICES = 60


def curve_table(curves: Sequence[Curve]) -> Table:
    """Each curve's model with its errors: at the points, and at sizes left out."""
    return Table(
        caption=f"How good the curves are: {count(len(curves), 'fitted curve')}",
        columns=(
            Column(name="setting"),
            Column(name="measured as"),
            Column(name="sizes", numeric=True),
            Column(name="model"),
            Column(name="error at its points, median", numeric=True),
            Column(name="worst", numeric=True),
            Column(name="at sizes left out, mean", numeric=True),
            Column(name="worst", numeric=True),
        ),
        rows=tuple(_curve(curve) for curve in curves[:_MOST_CURVES]),
        source="From fit.json. An error is |fitted − measured| / measured; a size left out is one "
        "that the model was not given. Log-log joins its points, so that it has no error there."
        + _rest(len(curves), _MOST_CURVES),
        folded=True,
    )


def _rest(n: int, most: int) -> str:
    return f" {n - most} more curves are in fit.json." if n > most else ""


def _curve(curve: Curve) -> tuple[str, ...]:
    fit = curve.fit(curve.chosen)
    errors = [abs(one) for one in fit.residuals] if fit else []
    key = curve.key
    variant = "" if key.variant.name == "default" else f" [{key.variant.name}]"
    return (
        f"{key.setting}{variant}",
        str(key.view),
        str(len(curve.points)),
        curve.chosen.value,
        percent(median(errors)) if errors else DASH,
        percent(max(errors)) if errors else DASH,
        percent(fit.held_out_error) if fit else DASH,
        percent(fit.held_out_worst) if fit else DASH,
    )


def undecided_section(found: Found) -> Section:
    """What nobody should take for known."""
    blocks: list[Block] = []
    said = [
        *(f"Not measured: {one}: {one.reason}." for one in found.done.quarantined),
        *_never_chosen(found),
    ]
    if said:
        blocks.append(Items(items=tuple(said)))
    notices = [*found.done.warnings, *(found.choice.notices if found.choice else ())]
    if notices:
        blocks.append(_notices(list(dict.fromkeys(notices))))
    if not blocks:
        blocks.append(Words(text="Nothing that is known to be open."))
    return Section(
        name="undecided", title="Undecided", parts=(Part(title="", blocks=tuple(blocks)),)
    )


def _never_chosen(found: Found) -> Iterable[str]:
    left = found.choice.left_out if found.choice else ()
    for one in left[:_MOST_NOTICES]:
        faster = f"; the fastest at {count(one.n_fastest, 'size')}" if one.n_fastest else ""
        yield (
            f"Measured, and in no rule: {one.target.collective.value} {one.setting}: "
            f"{one.reason}{faster}."
        )


def _notices(notices: Sequence[Notice]) -> Table:
    more = len(notices) - _MOST_NOTICES
    return Table(
        caption=f"{count(len(notices), 'warning')}, each with its remedy",
        columns=(Column(name="what"), Column(name="where"), Column(name="remedy")),
        rows=tuple((one.message, one.where or DASH, one.remedy) for one in notices[:_MOST_NOTICES]),
        source="From choice.json." + (f" {more} more: rccltune fit -v." if more > 0 else ""),
        folded=len(notices) > 6,
    )


def gain_plot(found: Found, most_points: int) -> tuple[Plot, ...]:
    """The figure that a page begins with, where a rule gains anything."""
    figure = gained(scenes(found.drawn), most_points)
    return () if figure is None else (Plot(figure=figure),)


def targets_section(found: Found, *, most_targets: int, most_points: int) -> Section:
    """A part for each of so many targets, folded where there are several; others are named."""
    seen = scenes(found.drawn)
    shown = sorted(seen, key=lambda scene: not _has_rules(scene))[:most_targets]
    shown.sort(key=seen.index)
    parts = [
        _part(found, scene, number, most_points, folded=len(shown) > 1)
        for number, scene in enumerate(shown, start=1)
    ]
    others = [scene.about for scene in seen if scene not in shown]
    if others:
        said = f"Not drawn here, so that the page stays small: {'; '.join(others)}."
        parts.append(Part(title="", blocks=(Words(text=f"{said} rccltune plot draws them."),)))
    return Section(name="figures", title="Each collective", parts=tuple(parts))


def _has_rules(scene: Scene) -> bool:
    return any(zone.setting is not None for zone in scene.zones)


def _part(found: Found, scene: Scene, number: int, most_points: int, *, folded: bool) -> Part:
    frame = frame_of(scene, f"figure-{number}", most_points)
    blocks: list[Block] = [Plot(figure=figure) for figure in figures_of(scene, frame)]
    blocks.append(curve_table([c for c in found.done.curves if _is_of(scene, c.key.target)]))
    n_rules = sum(zone.setting is not None for zone in scene.zones)
    n_figures = sum(isinstance(block, Plot) for block in blocks)
    what = f": {count(n_rules, 'rule')}, {count(n_figures, 'figure')}" if folded else ""
    return Part(title=f"{scene.about}{what}", blocks=tuple(blocks), folded=folded)


def _is_of(scene: Scene, target: Target) -> bool:
    placed = (target.collective, target.scale, target.rank_placement)
    return placed == (scene.collective, scene.scale, scene.rank_placement)
