"""Everything that is about one target: its figures, and tables of what stands behind them."""

from __future__ import annotations

from rccltune.fit import check_beliefs
from rccltune.model import Target
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.gain import gained
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import Scene
from rccltune.report.records import Block, Part, Plot, Section, Words
from rccltune.report.sections.findings import belief_table, curve_table
from rccltune.report.sections.found import Found
from rccltune.report.sections.words import count


def gain_plot(found: Found, most_points: int) -> tuple[Plot, ...]:
    """The figure that a page begins with, where a rule gains anything."""
    figure = gained(scenes(found.drawn), most_points)
    return () if figure is None else (Plot(figure=figure),)


def targets_section(
    found: Found, *, most_targets: int, most_points: int, most_rows: int
) -> Section:
    """A part for each of so many targets, folded where there are several; others are named."""
    seen = scenes(found.drawn)
    shown = sorted(seen, key=lambda scene: not _has_rules(scene))[:most_targets]
    shown.sort(key=seen.index)
    parts = [
        _part(found, scene, number, most_points, most_rows, folded=len(shown) > 1)
        for number, scene in enumerate(shown, start=1)
    ]
    others = [scene.about for scene in seen if scene not in shown]
    if others:
        said = f"Not drawn here, so that the page stays small: {'; '.join(others)}."
        parts.append(Part(title="", blocks=(Words(text=f"{said} rccltune plot draws them."),)))
    return Section(name="figures", title="Each collective", parts=tuple(parts))


def _has_rules(scene: Scene) -> bool:
    return any(zone.setting is not None for zone in scene.zones)


def _part(
    found: Found, scene: Scene, number: int, most_points: int, most_rows: int, *, folded: bool
) -> Part:
    frame = frame_of(scene, f"figure-{number}", most_points)
    blocks: list[Block] = [Plot(figure=figure) for figure in figures_of(scene, frame)]
    blocks += [
        belief_table(one, most_rows)
        for one in check_beliefs(found.done.beliefs, found.done.curves)
        if _is_of(scene, one.target) and any(held.loss is not None for held in one.held)
    ]
    blocks.append(curve_table([c for c in found.done.curves if _is_of(scene, c.key.target)]))
    n_rules = sum(zone.setting is not None for zone in scene.zones)
    n_figures = sum(isinstance(block, Plot) for block in blocks)
    what = f": {count(n_rules, 'rule')}, {count(n_figures, 'figure')}" if folded else ""
    return Part(title=f"{scene.about}{what}", blocks=tuple(blocks), folded=folded)


def _is_of(scene: Scene, target: Target) -> bool:
    placed = (target.collective, target.scale, target.rank_placement)
    return placed == (scene.collective, scene.scale, scene.rank_placement)
