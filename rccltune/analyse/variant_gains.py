"""Gains and losses of each variant against the site's file; up to which size a path pays.

The site's file is the zones of the site as it is, and the library where it has none. A variant is
held against it with zones of its own, at every size that both measured. Its processes are others
than the site's, so that nothing is paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from rccltune.analyse import noise
from rccltune.analyse.candidates import Candidates
from rccltune.analyse.noise import Array, LogRatio, LogTimes, SizeAxis, Truths, nan_safe
from rccltune.analyse.options import ChoiceOptions
from rccltune.analyse.points import BASELINE
from rccltune.analyse.segmentation import size_where_equal
from rccltune.model.choice import ExportedVariant, Gain, GainRange, VariantGain, WrongShare, Zone
from rccltune.model.settings import DEFAULT_VARIANT, Target, Variant


@dataclass(frozen=True)
class SizeTimes:
    """Times by size of one collective, scale and placement, with some rules in some variant.

    Attributes:
        views: placements and types; see :class:`rccltune.analyse.points.TimeGrid`.
        sizes: rising.
        times: by [view, 1, size, communicator].
    """

    views: list[tuple[Any, ...]]
    sizes: SizeAxis
    times: LogTimes

    @classmethod
    def of(cls, measured: Candidates, zones: Iterable[Zone]) -> SizeTimes | None:
        """Times of the library at a target's sizes, of a zone's setting where there is one.

        Args:
            measured: of the target.
            zones: of it.
        """
        grid = measured.grid
        library = (BASELINE, grid.target["environment"])
        if library not in grid.candidates:
            return None
        row = np.full(len(grid.nbytes), grid.candidates.index(library))
        for zone in zones:
            if zone.setting is not None and str(zone.setting) in measured.gains.names:
                at = measured.gains.names.index(str(zone.setting))
                inside = (grid.nbytes >= zone.min_nbytes) & (grid.nbytes <= zone.max_nbytes)
                row[inside] = measured.gains.rows[at]
        index = np.arange(len(row))
        log_us = grid.times.log_us[:, row, index][:, None]
        pass_var = grid.times.pass_var[:, row, index][:, None]
        return cls(grid.views, grid.sizes, LogTimes(log_us, pass_var))

    def at(self, views: Sequence[tuple[Any, ...]], kept: Truths) -> LogTimes:
        """Times in some views, at some sizes."""
        rows = [self.views.index(view) for view in views]
        return LogTimes(self.times.log_us[rows][:, :, kept], self.times.pass_var[rows][:, :, kept])

    def up_to(self, last: int, rest: SizeTimes) -> SizeTimes:
        """Take these times up to a size in bytes and others above it, at sizes that both have."""
        views, sizes, mine, theirs = _common(self, rest)
        is_mine = (sizes.nbytes <= last)[None, None, :, None]
        both = [
            np.where(is_mine, *_side_by_side(getattr(mine, name), getattr(theirs, name)))
            for name in ("log_us", "pass_var")
        ]
        return SizeTimes(views, sizes, LogTimes(both[0], both[1]))


def _common(
    first: SizeTimes, second: SizeTimes
) -> tuple[list[tuple[Any, ...]], SizeAxis, LogTimes, LogTimes]:
    """Return views and sizes that both have, with the times of each."""
    views = [view for view in first.views if view in second.views]
    nbytes = np.intersect1d(first.sizes.nbytes, second.sizes.nbytes)
    kept, theirs = (np.isin(run.sizes.nbytes, nbytes) for run in (first, second))
    sizes = SizeAxis(nbytes, first.sizes.is_graph[kept])
    return views, sizes, first.at(views, kept), second.at(views, theirs)


def _side_by_side(one: Array, other: Array) -> tuple[Array, Array]:
    """Return both tables with a column for every communicator of either."""
    blank, blank_too = (np.full_like(values, np.nan) for values in (one, other))
    return np.concatenate([one, blank_too], -1), np.concatenate([blank, other], -1)


@dataclass(frozen=True)
class TimesComparison:
    """Comparison of two ways to run the same calls, at sizes that both have.

    Attributes:
        sizes: those.
        ratio: log(time of the second / time of the first) by [view, 1, size].
        least: gain that is worth being called one, 0.02 for 2 %.
    """

    sizes: SizeAxis
    ratio: LogRatio
    least: float

    @classmethod
    def between(cls, ours: SizeTimes, theirs: SizeTimes, least: float) -> TimesComparison:
        """Compare our times with theirs."""
        _, sizes, mine, other = _common(ours, theirs)
        log = _side_by_side(mine.log_us, other.log_us)
        var = _side_by_side(mine.pass_var, other.pass_var)
        ratio = noise.compare(LogTimes(log[1], var[1]), LogTimes(log[0], var[0]), sizes)
        return cls(sizes, ratio, least)

    @cached_property
    def gain(self) -> Array:
        """Log ratio by size, in the view where it is the least; NaN where one was not measured."""
        found: Array = nan_safe(np.nanmin, self.ratio.log, 0)[0]
        return found

    @cached_property
    def is_ahead(self) -> Truths:
        """Whether the first is faster by what is wanted, beyond noise."""
        if not len(self.sizes.nbytes):
            return np.zeros(0, dtype=bool)
        is_faster: Truths = np.asarray(self.gain >= np.log1p(self.least))
        is_faster &= noise.adjusted_p(self.ratio)[0] <= noise.LIKELY
        return is_faster

    def ranges(self, *, inverse: bool = False) -> tuple[GainRange, ...]:
        """Neighbouring sizes at which the first is ahead.

        Args:
            inverse: gains are turned round: the second is the one that is asked about.
        """
        gain_ranges: list[GainRange] = []
        sign = -1 if inverse else 1
        ends = np.flatnonzero(np.diff(self.is_ahead)) + 1
        for part in np.split(np.arange(len(self.sizes.nbytes)), ends):
            if len(part) and self.is_ahead[part[0]]:
                gains = np.expm1(sign * self.gain[part])
                gain_ranges.append(
                    GainRange(
                        min_nbytes=int(self.sizes.nbytes[part[0]]),
                        max_nbytes=int(self.sizes.nbytes[part[-1]]),
                        n_sizes=len(part),
                        gain=Gain(
                            low=float(gains.min()),
                            median=float(np.median(gains)),
                            high=float(gains.max()),
                        ),
                    )
                )
        return tuple(gain_ranges)


@dataclass(frozen=True)
class _TargetTimes:
    """One collective at one scale and placement of ranks, in one variant.

    Attributes:
        target: its variant is the one judged.
        site: the site with its zones.
        rest: what runs where the variant's path does not take a call.
        ours: the variant with its zones; without a threshold's bound.
    """

    target: Target
    site: SizeTimes
    rest: SizeTimes
    ours: SizeTimes


@dataclass(frozen=True)
class _VariantTimes:
    """A variant as a job would export it, with its times.

    Attributes:
        variant: with its threshold, where it has one.
        last: the threshold in bytes, None without one or where nothing is won.
        beyond: name of the variant whose zones hold where no path takes the calls.
        reach: calls of at most so many bytes never reach a tuner.
        places: what was measured of it.
        runs: what a job gets in each place.
    """

    variant: Variant
    last: int | None
    beyond: str
    reach: int | None
    places: list[_TargetTimes]
    runs: list[SizeTimes]

    def at(self, target: Target) -> SizeTimes | None:
        """Times of a job for the same collective, scale and placement."""
        pairs = zip(self.places, self.runs, strict=True)
        return next((run for place, run in pairs if _key(place.target) == _key(target)), None)


def _key(target: Target) -> tuple[object, ...]:
    return target.collective, target.scale, target.rank_placement


def compare_with_site(
    candidates: Sequence[Candidates],
    zones: Sequence[Zone],
    options: ChoiceOptions,
    *,
    wrong: Sequence[WrongShare] = (),
) -> tuple[ExportedVariant, ...]:
    """Compare every measured variant with the site's default, in the order of their targets.

    Args:
        candidates: what was measured of each target.
        zones: as chosen for each of them.
        options: wanted gain and tolerance, and the variant that is chosen.
        wrong: what lossy variants got wrong.
    """
    variants = {
        one.target.variant.name: one.target.variant
        for one in candidates
        if one.target.variant.name != DEFAULT_VARIANT.name and not one.target.variant.patched
    }
    site = _VariantsAndSite(candidates, zones, options, variants)
    return tuple(_judged(site.outcome(name), options, wrong) for name in variants)


class _VariantsAndSite:
    """All measured variants and the site; each export is worked out once."""

    def __init__(
        self,
        candidates: Sequence[Candidates],
        zones: Sequence[Zone],
        options: ChoiceOptions,
        variants: Mapping[str, Variant],
    ) -> None:
        self.options = options
        self.variants = variants
        self.runs = {
            (one.target.variant.name, _key(one.target)): SizeTimes.of(
                one, [zone for zone in zones if zone.target == one.target]
            )
            for one in candidates
        }
        self.targets = [one.target for one in candidates]
        self.made: dict[tuple[str, bool], _VariantTimes] = {}

    def outcome(self, name: str, *, follows: bool = False) -> _VariantTimes:
        """A variant confined to where it wins, with what runs beyond.

        Args:
            name: of the variant.
            follows: another path takes the small calls, so that those do not matter.
        """
        key = (name, follows)
        if key not in self.made:
            self.made[key] = self._outcome(self.variants[name], follows=follows)
        return self.made[key]

    def _outcome(self, variant: Variant, *, follows: bool) -> _VariantTimes:
        rest = self._rest(variant)
        places = list(self._places(variant, rest))
        if not variant.path:
            runs = [place.ours for place in places]
            return _VariantTimes(variant, None, variant.name, 0, places, runs)
        last = _threshold(places, self.options, follows=follows) if variant.threshold else None
        if variant.threshold and follows and last is None:
            # It wins nowhere: no call at all is left to it.
            last = 0
        # Where no threshold wins it is shown as it was measured, everywhere.
        up_to = last if variant.threshold else variant.up_to
        runs = [
            place.ours if up_to is None else place.ours.up_to(up_to, place.rest) for place in places
        ]
        beyond = rest.beyond if rest is not None else DEFAULT_VARIANT.name
        reach = up_to
        if up_to is not None and rest is not None and rest.variant.path:
            reach = max(up_to, rest.reach or up_to)
        return _VariantTimes(_set(variant, last, rest), last, beyond, reach, places, runs)

    def _rest(self, variant: Variant) -> _VariantTimes | None:
        """The variant that goes on beyond a path, where it was measured."""
        name = variant.without
        if name is None or name not in self.variants:
            return None
        return self.outcome(name, follows=True)

    def _places(self, variant: Variant, rest: _VariantTimes | None) -> Iterable[_TargetTimes]:
        """Yield the targets at which both the variant and the site were measured."""
        for target in self.targets:
            if target.variant.name != variant.name:
                continue
            if variant.serves and target.collective not in variant.serves:
                continue
            site = self.runs.get((DEFAULT_VARIANT.name, _key(target)))
            ours = self.runs[variant.name, _key(target)]
            if site is not None and ours is not None:
                beyond = rest.at(target) if rest is not None else None
                yield _TargetTimes(target, site, beyond or site, ours)


def _set(variant: Variant, last: int | None, rest: _VariantTimes | None) -> Variant:
    """Set a variant's threshold, and the one of the path that follows it."""
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


def _judged(
    exported: _VariantTimes, options: ChoiceOptions, wrong: Sequence[WrongShare]
) -> ExportedVariant:
    gains = []
    for place, ours in zip(exported.places, exported.runs, strict=True):
        faster = TimesComparison.between(ours, place.site, options.min_gain)
        slower = TimesComparison.between(place.site, ours, options.min_gain)
        known = np.isfinite(faster.gain)
        gains.append(
            VariantGain(
                target=place.target,
                better=faster.ranges(),
                worse=slower.ranges(inverse=True),
                points=tuple(
                    (int(nbytes), float(np.expm1(gain)))
                    for nbytes, gain in zip(
                        faster.sizes.nbytes[known], faster.gain[known], strict=True
                    )
                ),
                wrong=next((one for one in wrong if one.target == place.target), None),
            )
        )
    return ExportedVariant(
        variant=exported.variant,
        threshold_nbytes=exported.last,
        beyond=exported.beyond,
        reach=exported.reach,
        gains=tuple(gains),
        chosen=exported.variant.name == options.variant,
    )


def _threshold(
    places: Sequence[_TargetTimes], options: ChoiceOptions, *, follows: bool
) -> int | None:
    """The size up to which a path is worth taking, in bytes; None where it never is.

    One threshold holds for all collectives that the path serves: the one with the largest gain in
    all, below which nothing is slower than the site's file. Between the last size that it takes
    and the next, the boundary lies where the times meet.
    """
    races = [TimesComparison.between(place.ours, place.rest, options.min_gain) for place in places]
    sizes = sorted({int(n) for race in races for n in race.sizes.nbytes})
    if not follows:
        harm = [n for n in (_first_harm(place, options) for place in places) if n is not None]
        sizes = [n for n in sizes if n < min(harm, default=n + 1)]
    sums = [sum(_won(race, last) for race in races) for last in sizes]
    # Where another path takes the small calls, what is lost on them is lost by nobody.
    given = list(accumulate(sums, min, initial=0.0)) if follows else [0.0] * len(sums)
    gains = (gain - lost for gain, lost in zip(sums, given, strict=False))
    won, last = max(zip(gains, sizes, strict=True), default=(0.0, 0))
    is_ahead = any(race.is_ahead[race.sizes.nbytes <= last].any() for race in races)
    return _meeting(races, last) if won > 0 and is_ahead else None


def _first_harm(place: _TargetTimes, options: ChoiceOptions) -> int | None:
    """The smallest size at which the path is slower than the site's file."""
    race = TimesComparison.between(place.site, place.ours, options.tolerance)
    slower = race.sizes.nbytes[race.is_ahead]
    return int(slower[0]) if len(slower) else None


def _won(race: TimesComparison, last: int) -> float:
    """Sum of log gains up to a size."""
    return float(np.nansum(race.gain[race.sizes.nbytes <= last]))


def _meeting(races: Sequence[TimesComparison], last: int) -> int:
    """Size where times meet, between the last size that a path takes and the next, in the mean."""
    after = min((int(n) for race in races for n in race.sizes.nbytes if n > last), default=None)
    if after is None:
        return last
    both = [[race.gain[race.sizes.nbytes == n] for n in (last, after)] for race in races]
    known = [[float(a[0]), float(b[0])] for a, b in both if len(a) and len(b)]
    if not known:
        return last
    return min(max(size_where_equal([last, after], np.mean(known, axis=0)), last), after - 1)
