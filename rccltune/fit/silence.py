"""Silence beside the untouched site: where they agree, what the one measured says for the other.

In a walk our plugin answering nothing is measured as often as any setting; the untouched site
has a few launches of its own. Both do what the library chooses by itself, unless the library has
a table of its own, which any plugin replaces. Where the site is known to have no tuner at all, both
are one thing, and what differs is launches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from rccltune.fit.models import fit_all
from rccltune.fit.sameness import Compared, Side, compare, noise_of
from rccltune.model import (
    BASELINE,
    SILENT,
    Caution,
    Curve,
    CurveKey,
    CurvePoint,
    Notice,
    Silence,
    Stretch,
    Target,
)
from rccltune.units import format_size


@dataclass(frozen=True, slots=True)
class _Pair:
    """Silence and baseline of one key."""

    silent: Curve
    baseline: Curve
    compared: Compared


def silences(curves: Sequence[Curve]) -> tuple[Silence, ...]:
    """Compare silence with the baseline of the same variant, in each view that has both.

    Silence in another variant says nothing about the baseline: RCCL_LL128_FORCE_ENABLE alone
    changes what the library chooses.
    """
    return tuple(
        Silence(
            target=pair.baseline.key.target,
            view=pair.baseline.key.view,
            n_sizes=len(pair.compared.sizes),
            median_ratio=pair.compared.median_ratio,
            stretches=pair.compared.stretches,
        )
        for pair in _pairs(curves)
    )


def strengthened(curves: Sequence[Curve], *, tunerless: bool = False) -> tuple[Curve, ...]:
    """The same curves, but what silence measured counts for the baseline where they agree.

    At sizes that only silence has, it counts where the sizes next to it that both have agree.
    Where they differ the baseline stands alone. Everything else is as it was.

    Args:
        curves: of a session.
        tunerless: the untouched site has no tuner, neither a plugin nor a table. Silence is the
            site itself then: its passes, which lie between those of the settings, count at all
            sizes that only it has, and where the site's own launches were slower.
    """
    pairs = [pair for pair in _pairs(curves) if _extra(pair, tunerless=tunerless)]
    if not pairs:
        return tuple(curves)
    points = [_merged(pair, tunerless=tunerless) for pair in pairs]
    fitted = fit_all(
        [(tuple(p.nbytes for p in row), tuple(p.time_us for p in row)) for row in points]
    )
    made: dict[CurveKey, Curve] = {}
    for pair, row, result in zip(pairs, points, fitted, strict=True):
        stronger = replace(pair.baseline, points=row, fits=result.fits, chosen=result.chosen)
        made[stronger.key] = stronger
    return tuple(made.get(curve.key, curve) for curve in curves)


def _pairs(curves: Sequence[Curve]) -> list[_Pair]:
    silent = {replace(c.key, setting=BASELINE): c for c in curves if c.key.setting == SILENT}
    if not silent:
        return []
    both = [(silent[c.key], c) for c in curves if c.key in silent and not c.n_wrong]
    found = compare(
        [(_side(one), _side(other)) for one, other in both], noise_of(_side(c) for c in curves)
    )
    return [
        _Pair(one, other, compared)
        for (one, other), compared in zip(both, found, strict=True)
        if compared is not None and not one.n_wrong
    ]


def _side(curve: Curve) -> Side:
    return {
        point.nbytes: dict(zip(point.launches, point.launch_times_us, strict=True))
        for point in curve.points
        if point.launches
    }


def _extra(pair: _Pair, *, tunerless: bool) -> dict[int, CurvePoint]:
    """Points of silence that say something about the baseline."""
    sizes, differs = pair.compared.sizes, pair.compared.differs
    return {
        p.nbytes: p for p in pair.silent.points if tunerless or _agrees(p.nbytes, sizes, differs)
    }


def _agrees(nbytes: int, sizes: Sequence[int], differs: Sequence[bool]) -> bool:
    """Whether the two agree at this size, or at those next to it that both have."""
    at = bisect_left(sizes, nbytes)
    if at < len(sizes) and sizes[at] == nbytes:
        return not differs[at]
    return not any(differs[max(0, at - 1) : at + 1])


def _merged(pair: _Pair, *, tunerless: bool) -> tuple[CurvePoint, ...]:
    sizes, differs = pair.compared.sizes, pair.compared.differs
    points = {p.nbytes: p for p in pair.baseline.points}
    for nbytes, extra in _extra(pair, tunerless=tunerless).items():
        own = points.get(nbytes)
        if own is None:
            points[nbytes] = extra
        elif _agrees(nbytes, sizes, differs):
            points[nbytes] = _pooled(own, extra)
        else:
            points[nbytes] = min(own, extra, key=lambda point: point.time_us)
    return tuple(points[nbytes] for nbytes in sorted(points))


def _pooled(one: CurvePoint, other: CurvePoint) -> CurvePoint:
    times = sorted(
        pair
        for point in (one, other)
        for pair in zip(point.launches, point.launch_times_us, strict=True)
    )
    return CurvePoint(
        nbytes=one.nbytes,
        time_us=median(time for _, time in times),
        low_us=min(one.low_us, other.low_us),
        high_us=max(one.high_us, other.high_us),
        n_samples=one.n_samples + other.n_samples,
        n_launches=len(times),
        launches=tuple(launch for launch, _ in times),
        launch_times_us=tuple(time for _, time in times),
        n_left_out=one.n_left_out + other.n_left_out,
    )


_TABLE: Final = (
    "nothing to do: gains are taken against the untouched site. Most likely the library has a "
    "tuner table of its own there, which any plugin replaces, also at sizes that no rule covers."
)
_LAUNCHES: Final = (
    "nothing to do: the site has no tuner, so launches differ in themselves there, and gains are "
    "taken against the faster of the two. More --repeats, or --runner torch, show smaller gains."
)


def silence_notices(found: Sequence[Silence], *, tunerless: bool = False) -> tuple[Notice, ...]:
    """One notice for each target at which silence is not the untouched site.

    Args:
        found: every comparison.
        tunerless: the site has no tuner that silence could replace.
    """
    by_target: dict[Target, dict[str, list[str]]] = {}
    for one in found:
        if one.stretches:
            said = ", ".join(_stretch(stretch) for stretch in one.stretches)
            by_target.setdefault(one.target, {}).setdefault(said, []).append(str(one.view))
    remedy = _LAUNCHES if tunerless else _TABLE
    return tuple(_notice(target, views, remedy) for target, views in by_target.items())


def _notice(target: Target, views: dict[str, list[str]], remedy: str) -> Notice:
    said = "; ".join(f"{what} ({', '.join(where)})" for what, where in views.items())
    return Notice(
        caution=Caution.SILENCE_DIFFERS,
        message=f"silent, our plugin answering nothing, is not the untouched site: {said}",
        remedy=remedy,
        where=f"{target.collective.value}, {target.scale}",
    )


def _stretch(stretch: Stretch) -> str:
    return f"{percent(stretch.ratio)} {sizes_of(stretch)}"


def percent(ratio: float) -> str:
    """``13 % slower``, for times."""
    return f"{100 * abs(ratio - 1):.0f} % {'slower' if ratio > 1 else 'faster'}"


def sizes_of(stretch: Stretch) -> str:
    """``from 1 MiB to 4 MiB``, or ``at 1 MiB``."""
    low, high = format_size(stretch.min_nbytes), format_size(stretch.max_nbytes)
    return f"at {low}" if low == high else f"from {low} to {high}"
