"""Which environment to export: variants with the rules that belong to each, against each other.

An environment holds for a whole job, while a rule holds for a range of sizes. So a variant is
worth choosing by itself only where nothing becomes slower than the untouched site; what helps some
sizes and harms others is shown with both, and is for the user to ask for. A variant with a
threshold of its own is confined by it to the sizes at which it wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log, log1p
from statistics import fmean
from typing import Final

from rccltune.model import (
    DEFAULT_VARIANT,
    Curve,
    Environment,
    Role,
    Target,
    Variant,
    VariantGain,
    WrongShare,
    Zone,
    base_variant,
)
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
from rccltune.zones.edges import boundary
from rccltune.zones.options import ChoiceOptions

_NOTHING: Final = "it makes nothing faster than the site with its rules"
_LESS: Final = "the site with its rules is faster over all sizes together"


@dataclass(frozen=True, slots=True)
class _Place:
    """One collective at one scale and placement of ranks, in one variant.

    Attributes:
        target: its variant is the one judged.
        base: the untouched site.
        tuned: the untouched site with the default variant's rules.
        ours: the variant, with its own rules; without a threshold's bound.
    """

    target: Target
    base: Times
    tuned: Times
    ours: Times


def environments(
    curves: Sequence[Curve],
    zones: Sequence[Zone],
    options: ChoiceOptions,
    *,
    wrong: Sequence[WrongShare] = (),
) -> tuple[Environment, ...]:
    """Every variant that was measured beside the default one, judged.

    Args:
        curves: of a session, the untouched site's among them.
        zones: as chosen for each variant's targets.
        options: wanted gain and tolerance, and whether a lossy variant may be chosen.
        wrong: what lossy variants got wrong.

    Returns:
        In the order in which variants first appear; at most one is chosen.
    """
    judged = [_judged(variant, curves, zones, options, wrong) for variant in _variants(curves)]
    wanted = options.variant
    able = [one for one in judged if one.against is None]
    best = max(able, key=lambda one: one.score, default=None)
    name = wanted or (best.variant.name if best else DEFAULT_VARIANT.name)
    return tuple(replace(one, chosen=one.variant.name == name) for one in judged)


def _variants(curves: Iterable[Curve]) -> list[Variant]:
    found = {
        base.name: base
        for curve in curves
        if curve.key.setting.role in (Role.BASELINE, Role.FORCED)
        and not curve.key.variant.patched
        and (base := base_variant(curve.key.variant)).name != DEFAULT_VARIANT.name
    }
    return list(found.values())


def _judged(
    variant: Variant,
    curves: Sequence[Curve],
    zones: Sequence[Zone],
    options: ChoiceOptions,
    wrong: Sequence[WrongShare],
) -> Environment:
    places = list(_places(variant, curves, zones))
    last = _threshold(places, options) if variant.threshold else None
    reach = last if variant.threshold else variant.up_to
    if variant.threshold and last is None:
        # Nothing is won at any size: shown as it was measured, everywhere.
        reach = None
    gains, scores = [], []
    for place in places:
        ours = _confined(place, variant, reach)
        faster = race(ours, place.base, options.min_gain, place.target)
        slower = race(place.base, ours, options.tolerance, place.target)
        ahead = race(ours, place.tuned, options.min_gain, place.target)
        behind = race(place.tuned, ours, options.min_gain, place.target)
        gains.append(
            VariantGain(
                target=place.target,
                better=ranges(faster),
                worse=ranges(slower, inverse=True),
                ahead=ranges(ahead),
                behind=ranges(behind, inverse=True),
                points=points(faster),
                tuned=points(race(place.tuned, place.base, options.min_gain, place.target)),
                wrong=next((one for one in wrong if one.target == place.target), None),
            )
        )
        scores.append(_score(ahead))
    made = Environment(
        variant=_with_threshold(variant, last),
        threshold_nbytes=last,
        gains=tuple(gains),
        score=fmean(scores) if scores else 0.0,
    )
    return replace(made, against=_against(made, options, confined=last is not None))


def _places(variant: Variant, curves: Sequence[Curve], zones: Sequence[Zone]) -> Iterable[_Place]:
    """Where both the variant and the untouched site were measured."""
    seen: dict[Target, None] = {}
    for curve in curves:
        if base_variant(curve.key.variant).name == variant.name:
            seen.setdefault(replace(curve.key.target, variant=variant))
    for target in seen:
        plain = _plain(target, curves)
        base = untouched(plain, curves)
        if base and untouched(target, curves):
            tuned = with_rules(plain, zones, curves)
            yield _Place(target, base, tuned, with_rules(target, zones, curves))


def _plain(target: Target, curves: Sequence[Curve]) -> Target:
    """The same target in the default variant, as the session has it."""
    default = next(
        (c.key.variant for c in curves if c.key.variant.name == DEFAULT_VARIANT.name),
        DEFAULT_VARIANT,
    )
    return replace(target, variant=default)


def _confined(place: _Place, variant: Variant, reach: int | None) -> Times:
    """What a job gets: beyond what a path serves, the default variant's rules go on."""
    if variant.serves and place.target.collective not in variant.serves:
        return place.tuned
    if not variant.path or reach is None:
        return place.ours
    return joined(place.ours, place.tuned, reach)


def _score(ahead: Race) -> float:
    gains = [one.gain for one in ahead.standings if one.gain is not None]
    return fmean(log1p(gain) for gain in gains) if gains else 0.0


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
        return f"it makes {', '.join(names)} up to {percent:.0f} % slower than the untouched site"
    if not any(one.ahead for one in made.gains):
        return _NOTHING
    return None if made.score > 0 else _LESS


def _with_threshold(variant: Variant, last: int | None) -> Variant:
    if variant.threshold is None or last is None:
        return variant
    pairs = {**dict(variant.environment), variant.threshold: str(last)}
    return replace(variant, environment=tuple(sorted(pairs.items())))


def _threshold(places: Sequence[_Place], options: ChoiceOptions) -> int | None:
    """The size up to which a path is worth taking, in bytes; None where it never is.

    One threshold holds for all collectives that the path serves: the one with the largest gain in
    all, below which nothing is slower than the untouched site. Between the last size that it takes
    and the next, the boundary lies where the curves cross.
    """
    served = [p for p in places if _serves(p)]
    races = [(p, race(p.ours, p.tuned, options.min_gain, p.target)) for p in served]
    harm = [_first_harm(p, options) for p in served]
    limit = min((n for n in harm if n is not None), default=None)
    sizes = sorted({n for _, found in races for n in found.sizes})
    if limit is not None:
        sizes = [n for n in sizes if n < limit]
    sums = [(_won(races, last), last) for last in sizes]
    won, last = max(sums, default=(0.0, 0))
    if won <= 0 or not any(_is_ahead(found, last) for _, found in races):
        return None
    return _crossing(races, last)


def _serves(place: _Place) -> bool:
    serves = place.target.variant.serves
    return not serves or place.target.collective in serves


def _first_harm(place: _Place, options: ChoiceOptions) -> int | None:
    """The smallest size at which the path is slower than the untouched site."""
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
