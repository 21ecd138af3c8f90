"""What a whole environment gives at each size: rules where there are some, else the library."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log1p, sqrt
from statistics import NormalDist

from rccltune.model.chosen import Gain, GainRange, Zone
from rccltune.model.curves import Curve, CurvePoint
from rccltune.model.defaults import LEVEL
from rccltune.model.settings import BASELINE, Setting, Target, Variant, View, base_variant
from rccltune.zones.arms import Arm, ChoiceOptions, Group
from rccltune.zones.board import Board, make_board
from rccltune.zones.launches import prior_variance
from rccltune.zones.proof import Standing, standings

Times = Mapping[View, Curve]


@dataclass(frozen=True, slots=True)
class Race:
    """Two ways at each size, the first against the second.

    Attributes:
        sizes: at which the first was measured, in bytes.
        standings: of the first against the second, by size.
        board: with the first as its only candidate and the second as its baseline.
    """

    sizes: tuple[int, ...]
    standings: tuple[Standing, ...]
    board: Board


def untouched(target: Target, curves: Sequence[Curve]) -> Times:
    """What the library does by itself in a target's variant, by view."""
    return _times(target, target.variant, BASELINE, curves)


def _times(target: Target, variant: Variant, setting: Setting, curves: Sequence[Curve]) -> Times:
    return {
        _view(curve): curve
        for curve in curves
        if curve.key.setting == setting
        and curve.key.variant.name == variant.name
        and replace(curve.key.target, variant=target.variant) == target
    }


def _view(curve: Curve) -> View:
    """Calls replayed from a graph stand beside plain ones: that is what is compared."""
    return replace(curve.key.view, graph=None)


def with_rules(target: Target, zones: Sequence[Zone], curves: Sequence[Curve]) -> Times:
    """The library's own times in a variant, replaced where a zone chooses a setting.

    Args:
        target: whose zones these are.
        zones: of all targets.
        curves: of the session.
    """
    points: dict[View, dict[int, CurvePoint]] = {}
    own = untouched(target, curves)
    for view, curve in own.items():
        points[view] = {point.nbytes: point for point in curve.points}
    for zone in zones:
        if zone.target != target or zone.setting is None:
            continue
        for view, curve in _chosen(zone, curves).items():
            kept = points.get(view)
            if kept is None:
                continue
            for nbytes in [n for n in kept if zone.min_nbytes <= n <= zone.max_nbytes]:
                del kept[nbytes]
            kept |= {p.nbytes: p for p in curve.points if _inside(p, zone)}
    return {view: _with_points(own[view], kept.values()) for view, kept in points.items() if kept}


def _inside(point: CurvePoint, zone: Zone) -> bool:
    return zone.min_nbytes <= point.nbytes <= zone.max_nbytes


def _chosen(zone: Zone, curves: Sequence[Curve]) -> Times:
    """Times of a zone's setting, of the variant itself before one that only widens it."""
    found: dict[View, Curve] = {}
    for curve in curves:
        key = curve.key
        same = replace(key.target, variant=base_variant(key.variant)) == zone.target
        if same and key.setting == zone.setting:
            view = _view(curve)
            if view not in found or key.variant == zone.target.variant:
                found[view] = curve
    return found


def joined(below: Times, above: Times, last: int) -> Times:
    """Times of the first up to a size in bytes, and of the second behind it."""
    return {
        view: _with_points(
            curve,
            [
                *(p for p in curve.points if p.nbytes <= last),
                *(p for p in above[view].points if p.nbytes > last),
            ],
        )
        for view, curve in below.items()
        if view in above
    }


def _with_points(curve: Curve, points: Iterable[CurvePoint]) -> Curve:
    return replace(curve, points=tuple(sorted(points, key=lambda p: p.nbytes)), fits=())


def race(ours: Times, theirs: Times, least: float, target: Target, *, apart: bool = False) -> Race:
    """Ours against theirs at every size at which both were measured.

    Args:
        ours: as one candidate.
        theirs: as the baseline.
        least: gain that is worth being called one, 0.02 for 2 %.
        target: of both.
        apart: sure beyond what launches may differ by, else likely is enough.
    """
    common = {view: _common(ours[view], theirs[view]) for view in ours if view in theirs}
    curves = {v: _with_points(ours[v], _at(ours[v], sizes)) for v, sizes in common.items() if sizes}
    group = Group(
        target=target,
        arms=[Arm(setting=BASELINE, variant=target.variant, curves=curves)],
        baseline={view: theirs[view] for view in curves},
    )
    board = make_board(group, ChoiceOptions())
    rows = standings(board, least)
    if not rows:
        return Race(board.sizes, (), board)
    pairs = zip(board.sizes, rows[0], strict=True)
    level = LEVEL / len(board.sizes)
    found = [_sure(n, one, level) for n, one in pairs] if apart else _likely(rows[0], least)
    return Race(board.sizes, tuple(found), board)


def _likely(row: Sequence[Standing], least: float) -> list[Standing]:
    """Of one launch what is likely counts: nothing more can be had of it.

    Its sizes share its mood, so that they are not so many questions: two beside each other of
    which each alone would do are enough.
    """
    alone = [
        one.gain is not None
        and one.gain >= least
        and one.evidence is not None
        and one.evidence.chance <= LEVEL
        for one in row
    ]
    near = [
        is_one and any(alone[i] for i in (n - 1, n + 1) if 0 <= i < len(alone))
        for n, is_one in enumerate(alone)
    ]
    return [
        one if one.repeated else replace(one, proven=one.likely or is_near)
        for one, is_near in zip(row, near, strict=True)
    ]


def _sure(nbytes: int, standing: Standing, level: float) -> Standing:
    """Of one launch what launches hardly differ by, however far those of the other side agree.

    Some machines have two moods; several launches that agree met one of them, so that each side
    counts as one launch.
    """
    if standing.repeated or not standing.likely:
        return standing
    # Where launches cease to differ is no sharp line: on two H100 all_reduce was 24 % slower in one
    # of them at 512 KiB, all_gather 33 % at 1 MiB.
    reach = NormalDist(0, sqrt(2 * prior_variance(nbytes // 4))).inv_cdf(1 - level)
    return replace(standing, proven=log1p(standing.gain or 0.0) > reach)


def _common(ours: Curve, theirs: Curve) -> set[int]:
    return {point.nbytes for point in ours.points} & {point.nbytes for point in theirs.points}


def _at(curve: Curve, sizes: set[int]) -> list[CurvePoint]:
    return [point for point in curve.points if point.nbytes in sizes]


def points(found: Race) -> tuple[tuple[int, float], ...]:
    """Gain at each size."""
    pairs = zip(found.sizes, found.standings, strict=False)
    return tuple((nbytes, one.gain) for nbytes, one in pairs if one.gain is not None)


def ranges(found: Race, *, inverse: bool = False) -> tuple[GainRange, ...]:
    """Neighbouring sizes at which the first beats the second by more than noise.

    Args:
        found: the race.
        inverse: gains are turned round, since the first of the race is the one that is left.
    """
    made: list[GainRange] = []
    run: list[tuple[int, float]] = []
    for nbytes, standing in (*zip(found.sizes, found.standings, strict=False), (0, None)):
        if standing is not None and standing.proven and standing.gain is not None:
            gain = 1 / (1 + standing.gain) - 1 if inverse else standing.gain
            run.append((nbytes, gain))
        elif run:
            made.append(_range(run))
            run = []
    return tuple(made)


def _range(run: Sequence[tuple[int, float]]) -> GainRange:
    gains = sorted(gain for _, gain in run)
    middle = len(gains) // 2
    median = gains[middle] if len(gains) % 2 else (gains[middle - 1] + gains[middle]) / 2
    return GainRange(
        min_nbytes=run[0][0],
        max_nbytes=run[-1][0],
        n_sizes=len(run),
        gain=Gain(low=gains[0], median=median, high=gains[-1]),
    )
