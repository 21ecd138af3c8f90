"""Which environment is worth exporting: variants with their rules, against each other.

An environment holds for a whole job, while a rule holds for a range of sizes. So a variant is
worth choosing by itself only where nothing becomes slower than the baseline; what helps some
sizes and harms others is shown with both, and is for the user to ask for. A variant with a
threshold of its own is confined by it to the sizes at which it wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import log, log1p
from statistics import fmean
from typing import Final

from rccltune.model.chosen import Environment, VariantGain, WrongShare, Zone
from rccltune.model.curves import Curve
from rccltune.model.settings import DEFAULT_VARIANT, Role, Target, Variant, base_variant
from rccltune.zones.arms import ChoiceOptions
from rccltune.zones.composite import (
    Race,
    Times,
    joined,
    points,
    race,
    ranges,
    untouched,
    with_rules,
)
from rccltune.zones.reach import boundary

_NOTHING: Final = "it makes nothing faster than the site with its rules"
_LESS: Final = "the site with its rules is faster over all sizes together"


@dataclass(frozen=True, slots=True)
class _Place:
    """One collective at one scale and placement of ranks, in one variant.

    Attributes:
        target: its variant is the one judged.
        base: the baseline.
        tuned: the baseline with the default variant's rules.
        rest: what runs where the variant's path does not take a call.
        ours: the variant, with its own rules; without a threshold's bound.
    """

    target: Target
    base: Times
    tuned: Times
    rest: Times
    ours: Times


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A variant as a job would get it.

    Attributes:
        variant: with its threshold, where it has one.
        last: the threshold in bytes, None without one or where nothing is won.
        beyond: name of the variant whose rules hold where no path takes the calls.
        reach: calls of at most so many bytes never reach a tuner.
        places: what was measured of it.
        times: what a job gets in each place.
    """

    variant: Variant
    last: int | None
    beyond: str
    reach: int | None
    places: tuple[_Place, ...]
    times: tuple[Times, ...]

    def at(self, target: Target) -> Times | None:
        """What a job gets for the same collective, scale and placement."""
        key = _key(target)
        pairs = zip(self.places, self.times, strict=True)
        return next((times for place, times in pairs if _key(place.target) == key), None)


def _key(target: Target) -> tuple[object, ...]:
    return target.collective, target.scale, target.rank_placement


def environments(
    curves: Sequence[Curve],
    zones: Sequence[Zone],
    options: ChoiceOptions,
    *,
    wrong: Sequence[WrongShare] = (),
) -> tuple[Environment, ...]:
    """Every variant that was measured beside the default one, judged.

    Args:
        curves: of a session, the baseline's among them.
        zones: as chosen for each variant's targets.
        options: wanted gain and tolerance, and whether a lossy variant may be chosen.
        wrong: what lossy variants got wrong.

    Returns:
        In the order in which variants first appear; at most one is recommended, and only the one
        that the options name is chosen.
    """
    found = _variants(curves)
    site = _Site(curves, zones, options, {one.name: one for one in found})
    judged = [_judged(site.outcome(variant.name), options, wrong) for variant in found]
    able = [one for one in judged if one.against is None]
    best = max(able, key=lambda one: one.score, default=None)
    return tuple(
        replace(one, chosen=one.variant.name == options.variant, recommended=one is best)
        for one in judged
    )


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
            place.ours if own is None else joined(place.ours, place.rest, own) for place in places
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
            plain = _plain(target, self.curves)
            base = untouched(plain, self.curves)
            if base and untouched(target, self.curves):
                tuned = with_rules(plain, self.zones, self.curves)
                beyond = rest.at(target) if rest is not None else None
                ours = with_rules(target, self.zones, self.curves)
                yield _Place(target, base, tuned, beyond or tuned, ours)


def _plain(target: Target, curves: Sequence[Curve]) -> Target:
    """The same target in the default variant, as the session has it."""
    default = next(
        (c.key.variant for c in curves if c.key.variant.name == DEFAULT_VARIANT.name),
        DEFAULT_VARIANT,
    )
    return replace(target, variant=default)


def _judged(found: _Outcome, options: ChoiceOptions, wrong: Sequence[WrongShare]) -> Environment:
    gains, scores = [], []
    for place, ours in zip(found.places, found.times, strict=True):
        target = place.target
        faster = race(ours, place.base, options.min_gain, target)
        # Gains are candidates, which verification decides; harm must be sure to rule one out.
        slower = race(place.base, ours, options.tolerance, target, apart=True)
        ahead = race(ours, place.tuned, options.min_gain, target)
        behind = race(place.tuned, ours, options.min_gain, target, apart=True)
        gains.append(
            VariantGain(
                target=target,
                better=ranges(faster),
                worse=ranges(slower, inverse=True),
                ahead=ranges(ahead),
                behind=ranges(behind, inverse=True),
                points=points(faster),
                tuned=points(race(place.tuned, place.base, options.min_gain, target)),
                wrong=next((one for one in wrong if one.target == target), None),
            )
        )
        scores.append(_score(ahead, behind))
    made = Environment(
        variant=found.variant,
        threshold_nbytes=found.last,
        beyond=found.beyond,
        reach=found.reach,
        gains=tuple(gains),
        score=fmean(scores) if scores else 0.0,
    )
    return replace(made, against=_against(made, options, confined=found.last is not None))


def _score(ahead: Race, behind: Race) -> float:
    """Mean log gain over the site with its rules; what noise may have made counts for nothing.

    A gain is the least over views: where latencies differ by tens of percent between launches it
    is a loss for everybody, and many such sizes would outweigh what large ones gain.
    """
    n_sizes = sum(one.gain is not None for one in ahead.standings)
    return (_proven(ahead) - _proven(behind)) / n_sizes if n_sizes else 0.0


def _proven(found: Race) -> float:
    return sum(log1p(s.gain) for s in found.standings if s.proven and s.gain is not None)


def _against(made: Environment, options: ChoiceOptions, *, confined: bool) -> str | None:
    """Why a variant is not chosen by itself."""
    variant = made.variant
    if variant.lossy and not options.allow_lossy:
        return "it is lossy: its results differ by more than the benchmark allows (--allow-lossy)"
    if variant.options:
        return "it is a way to call the library, not an environment"
    if variant.threshold and not confined:
        return "no threshold makes it faster than the site with its rules"
    slower = [(one, gain) for one in made.gains for gain in one.worse]
    if slower:
        names = dict.fromkeys(one.target.collective.value for one, _ in slower)
        worst = min(gain.gain.low for _, gain in slower)
        percent = 100 * (1 / (1 + worst) - 1)
        slow = f"up to {percent:.0f} % slower than the library's own choice"
        return f"it makes {', '.join(names)} {slow}"
    if not any(one.ahead for one in made.gains):
        return _NOTHING
    return None if made.score > 0 else _LESS


def _threshold(places: Sequence[_Place], options: ChoiceOptions, *, follows: bool) -> int | None:
    """The size up to which a path is worth taking, in bytes; None where it never is.

    One threshold holds for all collectives that the path serves: the one with the largest gain in
    all, below which nothing is slower than the baseline. Between the last size that it takes
    and the next, the boundary lies where the curves cross.
    """
    races = [(p, race(p.ours, p.rest, options.min_gain, p.target)) for p in places]
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
    if won <= 0 or not any(_is_ahead(found, last) for _, found in races):
        return None
    return _crossing(races, last)


def _first_harm(place: _Place, options: ChoiceOptions) -> int | None:
    """The smallest size at which the path is slower than the library's own choice."""
    found = race(place.base, place.ours, options.tolerance, place.target)
    harmed = (n for n, s in zip(found.sizes, found.standings, strict=False) if s.proven)
    return next(harmed, None)


def _won(races: Sequence[tuple[_Place, Race]], last: int) -> float:
    """Sum of log gains up to a size."""
    return sum(
        log1p(standing.gain)
        for _, found in races
        for nbytes, standing in zip(found.sizes, found.standings, strict=False)
        if nbytes <= last and standing.gain is not None
    )


def _is_ahead(found: Race, last: int) -> bool:
    pairs = zip(found.sizes, found.standings, strict=False)
    return any(standing.proven for nbytes, standing in pairs if nbytes <= last)


def _crossing(races: Sequence[tuple[_Place, Race]], last: int) -> int:
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
