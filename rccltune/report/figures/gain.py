"""What the rules gain: as a verification found it, or else as the sweep saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from rccltune.model.chosen import Judgement, Verdict
from rccltune.model.settings import View
from rccltune.model.vocabulary import format_size
from rccltune.report.figures import axes
from rccltune.report.figures.axes import Frame, figure
from rccltune.report.figures.lines import speedup_data
from rccltune.report.figures.scene import Scene
from rccltune.report.records import Band, Figure, Line, Point
from rccltune.report.verified import Verification

_WORDS: Final = {
    Judgement.BETTER: "faster",
    Judgement.SAME: "not slower",
    Judgement.UNDECIDED: "undecided",
    Judgement.WORSE: "slower",
    Judgement.WRONG: "wrong results",
}
_TURNS: Final = "Shaded: 95 % intervals. With and without the rules in turns"


def gained(scenes: Sequence[Scene], most_points: int) -> Figure | None:
    """One line for each target: its time without the rules over its time with them.

    From verifications of the rules as they are now; where there is none of a target, from the
    sweep. None where no rule is known to gain anything.
    """
    proven = [(scene, points) for scene in scenes if (points := _proven(scene))]
    seen = [(scene, points) for scene in scenes if (points := _seen(scene))]
    found = proven or seen
    if not found:
        return None
    scene = found[0][0]
    sizes = sorted({round(p.x) for _, points in found for p in points})
    shown = axes.shown_sizes(sizes, len(found), most_points)
    x = axes.sizes_axis(sizes)
    baseline = scene.baseline.label if scene.baseline and not proven else "baseline"
    base = "the library's own choice" if baseline == "baseline" else baseline
    one = len(found) == 1
    frame = axes.frame_of(scene, "gained", most_points)
    names = ", ".join(dict.fromkeys(s.collective.value for s, _ in found))
    lines = [
        Line(
            name=scene.about if len({s.scale for s, _ in found}) > 1 else scene.collective.value,
            points=tuple(p for p in points if p.x in set(shown)),
            ink=axes.PALETTE[number % len(axes.PALETTE)],
            marker=axes.MARKERS[number % len(axes.MARKERS)],
        )
        for number, (scene, points) in enumerate(found)
    ]
    if proven:
        words = f"{_TURNS}; the worse of in-place and out-of-place at each size."
    else:
        words = "Seen in the sweep, where each setting ran by itself; not verified."
    made = figure(
        replace(frame, about=scene.about if one else names),
        "all",
        title="how many times as fast with the rules",
        words=f"Above 1 is faster with the rules. {words}",
        x=x,
        y=axes.ratios_axis(
            [v for _, ps in found for p in ps for v in (p.y, p.low, p.high) if v is not None],
            "time without rules / time with rules",
        ),
        lines=lines,
        rows=axes.value_rows(
            shown, [{round(p.x): p.words.partition(": ")[2] for p in points} for _, points in found]
        ),
        header=("message size", *(line.name for line in lines)),
        more=axes.left_out(sizes, shown),
        bands=_bands(scene, x.low, x.high)
        if one and proven
        else axes.zone_bands(scene, x)
        if one
        else (),
        level=(1.0, base),
    )
    source = "From verdict.json." if proven else frame.source
    return replace(made, name="gained", source=source)


def _proven(scene: Scene) -> tuple[Point, ...]:
    """The worst verdict at each size, of rules as they are now; 1 where no rule is."""
    worst: dict[int, Verdict] = {}
    gone: dict[int, str] = {}
    for known in scene.given.verified:
        for one in known.own if known.is_current and known.is_of_site else ():
            if _is_of(one, scene):
                held = worst.setdefault(one.nbytes, one)
                worst[one.nbytes] = min(held, one, key=_ratio)
                if one.judgement is Judgement.SAME and not _is_ruled(known, scene, one.nbytes):
                    gone.setdefault(one.nbytes, "")
                for reason in _taken(known, scene, one.nbytes):
                    gone[one.nbytes] = f", {reason}"
    return tuple(
        _untouched(nbytes, f"no rule{gone[nbytes]}") if nbytes in gone else _point(worst[nbytes])
        for nbytes in sorted(worst)
    )


def _is_ruled(known: Verification, scene: Scene, nbytes: int) -> bool:
    """Whether a rule that stands is for a size."""
    return any(
        one.stands and one.rule.collective is scene.collective and one.rule.reaches(nbytes)
        for one in known.stood
    )


def _taken(known: Verification, scene: Scene, nbytes: int) -> list[str]:
    """Why no rule is left at a size."""
    return [c.reason for c in known.cuts if c.holds(scene.collective, nbytes)]


def _untouched(nbytes: int, why: str) -> Point:
    words = f"{format_size(nbytes)}: {why}"
    return Point(x=nbytes, y=1.0, words=words, low=1.0, high=1.0)


def _ratio(one: Verdict) -> float:
    return one.ratio


def _point(one: Verdict) -> Point:
    words = f"{format_size(one.nbytes)}: {_said(one)}"
    return Point(x=one.nbytes, y=one.ratio, words=words, low=one.low, high=one.high)


def _seen(scene: Scene) -> tuple[Point, ...]:
    """Baseline time over the chosen setting's, and 1 at sizes without a rule."""
    data = speedup_data(scene)
    if data is None or not data.chosen:
        return ()
    ruled = {p.nbytes: (p, line.series.label) for line in data.chosen for p in line.points}
    points = []
    for nbytes in data.baseline.time_by_size:
        at = format_size(nbytes)
        if nbytes in ruled:
            point, name = ruled[nbytes]
            words = f"{at}: {point.ratio:.2f}×, {name}"
            points.append(
                Point(x=nbytes, y=point.ratio, words=words, low=point.low, high=point.high)
            )
        else:
            points.append(_untouched(nbytes, "no rule"))
    return tuple(points)


def verified(scene: Scene, frame: Frame) -> list[Figure]:
    """Untouched over tuned time at every size, with and without a rule; one for each rule file."""
    made: list[Figure] = []
    for known in scene.given.verified:
        mine = [v for v in known.verdicts if _is_of(v, scene)]
        if mine:
            # Of one file the name stays what links to the figure have.
            number = f"-{len(made) + 1}" if made else ""
            made.append(_verified(known, scene, mine, frame, f"verified{number}"))
    return made


def _is_of(verdict: Verdict, scene: Scene) -> bool:
    target = verdict.target
    placed = target.rank_placement or "node"
    return (target.collective, target.scale, placed) == (
        scene.collective,
        scene.scale,
        scene.rank_placement or "node",
    )


def _verified(
    known: Verification, scene: Scene, mine: Sequence[Verdict], frame: Frame, kind: str
) -> Figure:
    views = list(dict.fromkeys(verdict.view for verdict in mine))[: len(axes.PALETTE)]
    sizes = sorted({verdict.nbytes for verdict in mine})
    shown = axes.shown_sizes(sizes, len(views), frame.most_points)
    x = axes.sizes_axis(sizes)
    drawn = [v for v in mine if v.nbytes in set(shown) and v.view in views]
    columns = [{v.nbytes: _said(v) for v in mine if v.view == view} for view in views]
    file = known.name or "a file that was left as it was"
    needs = " ".join(f"{name}={value}" for name, value in known.needs.items())
    inside = f" In an environment with {needs}." if needs else ""
    old = "" if known.is_current else " It was of other rules than the session's file has now."
    made = figure(
        frame,
        kind,
        title="verified, with the rules against the library's own choice",
        words=f"Above 1 is faster with the rules. {_TURNS}, in {known.how_often}.{inside}{old}",
        x=x,
        y=axes.ratios_axis(
            [value for v in drawn for value in (v.ratio, v.low, v.high)],
            "time without rules / time with rules",
        ),
        lines=[_line(view, number, drawn) for number, view in enumerate(views)],
        rows=axes.value_rows(shown, columns),
        header=("message size", *(str(view) for view in views)),
        bands=_rules(known, scene, x.low, x.high),
        level=(1.0, "without rules"),
    )
    source = f"From the verdict on {file}. {axes.left_out(sizes, shown)}".strip()
    return replace(made, source=source)


def _line(view: View, number: int, drawn: Sequence[Verdict]) -> Line:
    mine = (v for v in sorted(drawn, key=lambda v: v.nbytes) if v.view == view)
    return Line(
        name=str(view),
        points=tuple(map(_point, mine)),
        ink=axes.PALETTE[number],
        marker=axes.MARKERS[number % len(axes.MARKERS)],
    )


def _said(verdict: Verdict) -> str:
    return (
        f"{verdict.ratio:.2f}× ({verdict.low:.2f} to {verdict.high:.2f}), "
        f"{_WORDS[verdict.judgement]}"
    )


def _bands(scene: Scene, low: float, high: float) -> tuple[tuple[str, tuple[Band, ...]], ...]:
    for known in scene.given.verified:
        if known.is_current and known.is_of_site and any(_is_of(v, scene) for v in known.own):
            return _rules(known, scene, low, high)
    return ()


def _rules(
    known: Verification, scene: Scene, low: float, high: float
) -> tuple[tuple[str, tuple[Band, ...]], ...]:
    """The rules that are left, and why there is none between them."""
    left_over = (
        one
        for one in known.stood
        if (one.stands or any(not _taken(known, scene, v.nbytes) for v in one.verdicts))
        and one.rule.collective is scene.collective
        and (one.rule.n_nodes, one.rule.n_ranks)
        in ((scene.scale.n_nodes, scene.scale.n_ranks), (None, None))
    )
    found: list[Band] = []
    at = low
    for one in sorted(left_over, key=lambda one: one.rule.min_nbytes):
        rule = one.rule
        left, right = max(at, float(rule.min_nbytes)), min(high, float(rule.max_nbytes) + 1)
        if left >= right:
            continue
        found += _holes(known, scene, at, left)
        name, ink = str(rule.setting), axes.ink_of(rule.setting)
        doubted = not one.stands
        found.append(
            Band(
                low=left,
                high=right,
                name=f"{name}, undecided" if doubted else name,
                short=name,
                ink=ink,
                doubted=doubted,
            )
        )
        at = right
    return (("rules", (*found, *_holes(known, scene, at, high))),)


def _holes(known: Verification, scene: Scene, low: float, high: float) -> list[Band]:
    """A range without a rule, in parts that have one reason each."""
    edges = [float(zone.min_nbytes) for zone in scene.zones]
    cuts = [c for c in known.cuts if c.collective is scene.collective]
    edges += [edge for cut in cuts for edge in (float(cut.min_nbytes), cut.max_nbytes + 1.0)]
    inner = sorted({edge for edge in edges if low < edge < high})
    made: list[Band] = []
    for left, right in pairwise([low, *inner, high]):
        at = round(left + right) // 2
        reasons = [cut.reason for cut in cuts if cut.min_nbytes <= at <= cut.max_nbytes]
        reasons += [
            z.reason for z in scene.zones if z.reason and z.min_nbytes <= at <= z.max_nbytes
        ]
        reason = reasons[0] if reasons else ""
        if made and made[-1].short == reason:
            made[-1] = replace(made[-1], high=right)
        elif left < right:
            name = f"no rule: {reason}" if reason else "no rule"
            made.append(Band(low=left, high=right, name=name, short=reason, ink=None))
    return made
