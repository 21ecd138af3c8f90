"""What each variant gains and loses against the site's file, and how far a path is worth taking.

The site's file is the zones of the site as it is, and the library where it has none. A variant is
held against it with zones of its own, at every size that both measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import log, log1p

from rccltune.model.chosen import Environment, Gain, GainRange, VariantGain, WrongShare, Zone
from rccltune.model.curves import Curve, CurvePoint
from rccltune.model.defaults import LEVEL
from rccltune.model.settings import (
    BASELINE,
    DEFAULT_VARIANT,
    Role,
    Target,
    Variant,
    View,
    base_variant,
)
from rccltune.zones.arms import Arm, ChoiceOptions, Group
from rccltune.zones.board import Board, make_board
from rccltune.zones.proof import Standing, standings
from rccltune.zones.reach import boundary

_Times = Mapping[View, Curve]


@dataclass(frozen=True, slots=True)
class _Race:
    """Two ways at each size, the first against the second.

    Attributes:
        sizes: at which both were measured, in bytes.
        standings: of the first against the second, by size.
        board: with the first as its only candidate and the second as its baseline.
    """

    sizes: tuple[int, ...]
    standings: tuple[Standing, ...]
    board: Board

    @property
    def pairs(self) -> Iterable[tuple[int, Standing]]:
        """Each size with how the first stands there."""
        return zip(self.sizes, self.standings, strict=False)


@dataclass(frozen=True, slots=True)
class _Place:
    """One collective at one scale and placement of ranks, in one variant.

    Attributes:
        target: its variant is the one judged.
        site: the site with its zones.
        rest: what runs where the variant's path does not take a call.
        ours: the variant with its zones; without a threshold's bound.
    """

    target: Target
    site: _Times
    rest: _Times
    ours: _Times


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A variant as a job would get it.

    Attributes:
        variant: with its threshold, where it has one.
        last: the threshold in bytes, None without one or where nothing is won.
        beyond: name of the variant whose zones hold where no path takes the calls.
        reach: calls of at most so many bytes never reach a tuner.
        places: what was measured of it.
        times: what a job gets in each place.
    """

    variant: Variant
    last: int | None
    beyond: str
    reach: int | None
    places: tuple[_Place, ...]
    times: tuple[_Times, ...]

    def at(self, target: Target) -> _Times | None:
        """What a job gets for the same collective, scale and placement."""
        key = _key(target)
        pairs = zip(self.places, self.times, strict=True)
        return next((times for place, times in pairs if _key(place.target) == key), None)


def _key(target: Target) -> tuple[object, ...]:
    return target.collective, target.scale, target.rank_placement


def held_against_site(
    curves: Sequence[Curve],
    zones: Sequence[Zone],
    options: ChoiceOptions,
    *,
    wrong: Sequence[WrongShare] = (),
) -> tuple[Environment, ...]:
    """Every variant that was measured beside the default one, in the order of first appearance.

    Args:
        curves: of a session, the baseline's among them.
        zones: as chosen for each variant's targets.
        options: wanted gain and tolerance, and the variant that is chosen.
        wrong: what lossy variants got wrong.
    """
    found = _variants(curves)
    site = _Site(curves, zones, options, {one.name: one for one in found})
    return tuple(_judged(site.outcome(variant.name), options, wrong) for variant in found)


def _variants(curves: Iterable[Curve]) -> list[Variant]:
    found = {
        base.name: base
        for curve in curves
        if curve.key.setting.role in (Role.BASELINE, Role.FORCED)
        and not curve.key.variant.patched
        and (base := base_variant(curve.key.variant)).name != DEFAULT_VARIANT.name
    }
    return list(found.values())


class _Site:
    """What is known of all variants; each outcome is worked out once."""

    def __init__(
        self,
        curves: Sequence[Curve],
        zones: Sequence[Zone],
        options: ChoiceOptions,
        variants: Mapping[str, Variant],
    ) -> None:
        self.curves = curves
        self.zones = zones
        self.options = options
        self.variants = variants
        self.made: dict[tuple[str, bool], _Outcome] = {}

    def outcome(self, name: str, *, follows: bool = False) -> _Outcome:
        """A variant confined to where it wins, with what runs beyond.

        Args:
            name: of the variant.
            follows: another path takes the small calls, so that those do not matter.
        """
        key = (name, follows)
        if key not in self.made:
            self.made[key] = self._outcome(self.variants[name], follows=follows)
        return self.made[key]

    def _outcome(self, variant: Variant, *, follows: bool) -> _Outcome:
        rest = self._rest(variant)
        places = tuple(self._places(variant, rest))
        if not variant.path:
            times = tuple(place.ours for place in places)
            return _Outcome(variant, None, variant.name, 0, places, times)
        last = _threshold(places, self.options, follows=follows) if variant.threshold else None
        if variant.threshold and follows and last is None:
            # It wins nowhere: no call at all is left to it.
            last = 0
        # Where no threshold wins it is shown as it was measured, everywhere.
        own = last if variant.threshold else variant.up_to
        times = tuple(
            place.ours if own is None else _joined(place.ours, place.rest, own) for place in places
        )
        beyond = rest.beyond if rest is not None else DEFAULT_VARIANT.name
        reach = own
        if own is not None and rest is not None and rest.variant.path:
            reach = max(own, rest.reach or own)
        return _Outcome(self._set(variant, last, rest), last, beyond, reach, places, times)

    def _set(self, variant: Variant, last: int | None, rest: _Outcome | None) -> Variant:
        """With its threshold, and with that of the path that follows it."""
        if variant.threshold is None or last is None:
            return variant
        pairs = dict(variant.environment)
        if rest is not None and rest.last is not None and rest.variant.threshold is not None:
            # The path that follows is on with a threshold of its own, which never ends before ours
            # does: RCCLX takes no call at all beyond the second one.
            pairs = {**dict(rest.variant.environment), **pairs}
            pairs[rest.variant.threshold] = str(max(rest.last, last))
        pairs[variant.threshold] = str(last)
        return replace(variant, environment=tuple(sorted(pairs.items())))

    def _rest(self, variant: Variant) -> _Outcome | None:
        """The variant that goes on beyond a path, where it was measured."""
        name = variant.without
        if name is None or name not in self.variants:
            return None
        return self.outcome(name, follows=True)

    def _places(self, variant: Variant, rest: _Outcome | None) -> Iterable[_Place]:
        """Where both the variant and the baseline were measured, of what it concerns."""
        seen: dict[Target, None] = {}
        for curve in self.curves:
            target = replace(curve.key.target, variant=variant)
            is_of = base_variant(curve.key.variant).name == variant.name
            if is_of and (not variant.serves or target.collective in variant.serves):
                seen.setdefault(target)
        for target in seen:
            site = _with_zones(_plain(target, self.curves), self.zones, self.curves)
            ours = _with_zones(target, self.zones, self.curves)
            if site and ours:
                beyond = rest.at(target) if rest is not None else None
                yield _Place(target, site, beyond or site, ours)


def _plain(target: Target, curves: Sequence[Curve]) -> Target:
    """The same target in the default variant, as the session has it."""
    default = next(
        (c.key.variant for c in curves if c.key.variant.name == DEFAULT_VARIANT.name),
        DEFAULT_VARIANT,
    )
    return replace(target, variant=default)


def _judged(found: _Outcome, options: ChoiceOptions, wrong: Sequence[WrongShare]) -> Environment:
    gains = []
    for place, ours in zip(found.places, found.times, strict=True):
        target = place.target
        faster = _race(ours, place.site, options.min_gain, target)
        slower = _race(place.site, ours, options.min_gain, target)
        gains.append(
            VariantGain(
                target=target,
                better=_ranges(faster),
                worse=_ranges(slower, inverse=True),
                points=tuple((n, one.gain) for n, one in faster.pairs if one.gain is not None),
                wrong=next((one for one in wrong if one.target == target), None),
            )
        )
    return Environment(
        variant=found.variant,
        threshold_nbytes=found.last,
        beyond=found.beyond,
        reach=found.reach,
        gains=tuple(gains),
        chosen=found.variant.name == options.variant,
    )


def _threshold(places: Sequence[_Place], options: ChoiceOptions, *, follows: bool) -> int | None:
    """The size up to which a path is worth taking, in bytes; None where it never is.

    One threshold holds for all collectives that the path serves: the one with the largest gain in
    all, below which nothing is slower than the site's file. Between the last size that it takes
    and the next, the boundary lies where the curves cross.
    """
    races = [(p, _race(p.ours, p.rest, options.min_gain, p.target)) for p in places]
    sizes = sorted({n for _, found in races for n in found.sizes})
    if not follows:
        harm = [_first_harm(p, options) for p in places]
        limit = min((n for n in harm if n is not None), default=None)
        sizes = [n for n in sizes if limit is None or n < limit]
    sums = [_won(races, last) for last in sizes]
    # Where another path takes the small calls, what is lost on them is lost by nobody.
    given = list(accumulate(sums, min, initial=0.0)) if follows else [0.0] * len(sums)
    gains = (gain - lost for gain, lost in zip(sums, given, strict=False))
    won, last = max(zip(gains, sizes, strict=True), default=(0.0, 0))
    is_ahead = any(one.proven for _, found in races for n, one in found.pairs if n <= last)
    if won <= 0 or not is_ahead:
        return None
    return _crossing(races, last)


def _first_harm(place: _Place, options: ChoiceOptions) -> int | None:
    """The smallest size at which the path is slower than the site's file."""
    found = _race(place.site, place.ours, options.tolerance, place.target)
    return next((nbytes for nbytes, one in found.pairs if one.proven), None)


def _won(races: Sequence[tuple[_Place, _Race]], last: int) -> float:
    """Sum of log gains up to a size."""
    return sum(
        log1p(standing.gain)
        for _, found in races
        for nbytes, standing in found.pairs
        if nbytes <= last and standing.gain is not None
    )


def _crossing(races: Sequence[tuple[_Place, _Race]], last: int) -> int:
    """Where curves cross between the last size that is taken and the next."""
    following = [n for _, found in races for n in found.sizes if n > last]
    if not following:
        return last
    after = min(following)
    ratios = []
    for _, found in races:
        for view, line in found.board.lines[0].items():
            base = found.board.baseline.get(view)
            times = [(line.at(n), base.at(n) if base else None) for n in (last, after)]
            logs = [log(a / b) for a, b in times if a is not None and b is not None]
            if len(logs) == 2:
                ratios.append((logs[0], logs[1]))
    return boundary(last, after, ratios) if ratios else last


def _with_zones(target: Target, zones: Sequence[Zone], curves: Sequence[Curve]) -> _Times:
    """The library's own times in a target's variant, replaced where a zone chooses a setting."""
    own = {
        _view(curve): curve
        for curve in curves
        if curve.key.setting == BASELINE
        and curve.key.variant.name == target.variant.name
        and replace(curve.key.target, variant=target.variant) == target
    }
    points: dict[View, dict[int, CurvePoint]] = {
        view: {point.nbytes: point for point in curve.points} for view, curve in own.items()
    }
    for zone in zones:
        if zone.target != target or zone.setting is None:
            continue
        for view, curve in _chosen(zone, curves).items():
            kept = points.get(view)
            if kept is None:
                continue
            for nbytes in [n for n in kept if _inside(n, zone)]:
                del kept[nbytes]
            kept |= {p.nbytes: p for p in curve.points if _inside(p.nbytes, zone)}
    return {view: _with_points(own[view], kept.values()) for view, kept in points.items() if kept}


def _view(curve: Curve) -> View:
    """Calls replayed from a graph stand beside plain ones: that is what is compared."""
    return replace(curve.key.view, graph=None)


def _inside(nbytes: int, zone: Zone) -> bool:
    return zone.min_nbytes <= nbytes <= zone.max_nbytes


def _chosen(zone: Zone, curves: Sequence[Curve]) -> _Times:
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


def _joined(below: _Times, above: _Times, last: int) -> _Times:
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


def _race(ours: _Times, theirs: _Times, least: float, target: Target) -> _Race:
    """Ours against theirs at every size at which both were measured.

    Args:
        ours: as one candidate.
        theirs: as the baseline.
        least: gain that is worth being called one, 0.02 for 2 %.
        target: of both.
    """
    curves = {}
    for view in (view for view in ours if view in theirs):
        sizes = {point.nbytes for point in theirs[view].points}
        if common := [point for point in ours[view].points if point.nbytes in sizes]:
            curves[view] = _with_points(ours[view], common)
    group = Group(
        target=target,
        arms=[Arm(setting=BASELINE, variant=target.variant, curves=curves)],
        baseline={view: theirs[view] for view in curves},
    )
    board = make_board(group, ChoiceOptions())
    rows = standings(board, least)
    return _Race(board.sizes, tuple(_likely(rows[0], least)) if rows else (), board)


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


def _ranges(found: _Race, *, inverse: bool = False) -> tuple[GainRange, ...]:
    """Neighbouring sizes at which the first beats the second by more than noise.

    Args:
        found: the race.
        inverse: gains are turned round, since the first of the race is the one that is left.
    """
    made: list[GainRange] = []
    run: list[tuple[int, float]] = []
    for nbytes, standing in (*found.pairs, (0, None)):
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
