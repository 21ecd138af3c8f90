"""All figures of the page, target by target; the verification's first, since it is the proof."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rccltune.model import Judgement, Verdict, View, format_size
from rccltune.report.figure import Band, Figure, Line, Point
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.scene import Scene
from rccltune.report.records import Block, Part, Plot, Section, Words
from rccltune.report.sections import axes, pictures
from rccltune.report.sections.axes import Frame
from rccltune.report.sections.found import Found
from rccltune.report.sections.verified import Verification
from rccltune.report.sections.words import stamp, where_of

_WORDS = {
    Judgement.BETTER: "faster",
    Judgement.SAME: "not slower",
    Judgement.UNDECIDED: "undecided",
    Judgement.WORSE: "slower",
    Judgement.WRONG: "wrong results",
}


def figures_section(found: Found, *, most_targets: int, most_points: int) -> Section:
    """Figures of so many targets; the others are named."""
    seen = scenes(found.drawn)
    shown = sorted(seen, key=lambda scene: not _has_rules(scene))[:most_targets]
    shown.sort(key=seen.index)
    parts = [
        Part(title=_about(scene), blocks=_blocks(found, scene, number, most_points))
        for number, scene in enumerate(shown, start=1)
    ]
    others = [_about(scene) for scene in seen if scene not in shown]
    if others:
        said = f"Not drawn here, so that the page stays small: {'; '.join(others)}."
        parts.append(Part(title="", blocks=(Words(text=f"{said} rccltune plot draws them."),)))
    return Section(name="figures", title="Figures", parts=tuple(parts))


def _has_rules(scene: Scene) -> bool:
    return any(zone.setting is not None for zone in scene.zones)


def _about(scene: Scene) -> str:
    return f"{scene.collective.value}, {where_of(scene.scale, scene.rank_placement)}"


def _blocks(found: Found, scene: Scene, number: int, most_points: int) -> tuple[Block, ...]:
    word, loud = stamp(found, extrapolated=scene.given.extrapolated)
    frame = Frame(
        stem=f"figure-{number}",
        about=_about(scene),
        stamp=word,
        loud=loud,
        source=_source(found, scene),
        most_points=most_points,
    )
    made = [
        *_verified(found, scene, frame),
        *pictures.figures_of(scene, frame),
    ]
    return tuple(Plot(figure=figure) for figure in made)


def _source(found: Found, scene: Scene) -> str:
    named = scene.given.source
    said = f"From fit.json, made of samples.csv ({scene.view}); source: {named}."
    if scene.views_left_out:
        said += f" Also measured and not drawn: {', '.join(map(str, scene.views_left_out[:4]))}."
    return said if not found.simulated else f"SIMULATED. {said}"


def _verified(found: Found, scene: Scene, frame: Frame) -> list[Figure]:
    made: list[Figure] = []
    for known in found.verifications:
        mine = [v for v in known.verdicts if _is_of(v, scene)]
        if mine:
            # Of one file the name stays what links to the figure have.
            number = f"-{len(made) + 1}" if made else ""
            made.append(_verification(known, scene, mine, frame, f"verified{number}"))
    return made


def _is_of(verdict: Verdict, scene: Scene) -> bool:
    target = verdict.target
    placed = target.rank_placement or "node"
    return (target.collective, target.scale, placed) == (
        scene.collective,
        scene.scale,
        scene.rank_placement or "node",
    )


def _verification(
    known: Verification, scene: Scene, mine: Sequence[Verdict], frame: Frame, name: str
) -> Figure:
    """Untouched over tuned time at every size, with and without a rule."""
    views = list(dict.fromkeys(verdict.view for verdict in mine))[: len(axes.PALETTE)]
    sizes = sorted({verdict.nbytes for verdict in mine})
    shown = axes.shown_sizes(sizes, len(views), frame.most_points)
    x = axes.sizes_axis(sizes)
    drawn = [v for v in mine if v.nbytes in set(shown) and v.view in views]
    lines = [_line(view, number, drawn) for number, view in enumerate(views)]
    columns = [{v.nbytes: _said(v) for v in mine if v.view == view} for view in views]
    file = Path(known.path).name or "a file that was left as it was"
    old = "" if known.is_current else " It was of other rules than the session's file has now."
    return Figure(
        name=f"{frame.stem}-{name}",
        title=f"{frame.about}: verified, with the rules against the library's own choice",
        words="Above 1 the site is faster with the rules. Shaded: 95 % intervals. With and without "
        f"the rules in turns, in {known.n_launches} launches; the rules' ranges are above.{old}",
        stamp=frame.stamp,
        loud=frame.loud,
        x=x,
        y=axes.ratios_axis(
            [value for v in drawn for value in (v.ratio, v.low, v.high)],
            "time without rules / time with rules",
        ),
        lines=tuple(lines),
        header=("message size", *(str(view) for view in views)),
        rows=axes.value_rows(shown, columns),
        source=f"From the verdict on {file}. {axes.left_out(sizes, shown)}".strip(),
        bands=_rules(known, scene, x.low, x.high),
        level=1.0,
    )


def _line(view: View, number: int, drawn: Sequence[Verdict]) -> Line:
    return Line(
        name=str(view),
        points=tuple(
            Point(
                x=v.nbytes,
                y=v.ratio,
                words=f"{format_size(v.nbytes)}: {_said(v)}",
                low=v.low,
                high=v.high,
            )
            for v in sorted(drawn, key=lambda v: v.nbytes)
            if v.view == view
        ),
        ink=axes.PALETTE[number],
        marker=axes.MARKERS[number % len(axes.MARKERS)],
    )


def _said(verdict: Verdict) -> str:
    return (
        f"{verdict.ratio:.2f}× ({verdict.low:.2f} to {verdict.high:.2f}), "
        f"{_WORDS[verdict.judgement]}"
    )


def _rules(
    known: Verification, scene: Scene, low: float, high: float
) -> tuple[tuple[str, tuple[Band, ...]], ...]:
    """The rules that stood, and what is between them."""
    standing = sorted(
        (
            one.rule
            for one in known.stood
            if one.stands
            and not one.rule.fallback
            and one.rule.collective is scene.collective
            and (one.rule.n_nodes, one.rule.n_ranks)
            in ((scene.scale.n_nodes, scene.scale.n_ranks), (None, None))
        ),
        key=lambda rule: rule.min_nbytes,
    )
    found: list[Band] = []
    at = low
    for rule in standing:
        left, right = max(at, float(rule.min_nbytes)), min(high, float(rule.max_nbytes) + 1)
        if left >= right:
            continue
        if left > at:
            found.append(Band(low=at, high=left, name="no rule", ink=None))
        ink = axes.ink_of(rule.setting)
        found.append(Band(low=left, high=right, name=str(rule.setting), ink=ink))
        at = right
    if at < high:
        found.append(Band(low=at, high=high, name="no rule", ink=None))
    return (("rules", tuple(found)),)
