"""Behaviour of the library by itself: settings, bypassed sizes, the effect of an idle plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import pandas as pd

from rccltune.analyse import intervals
from rccltune.analyse.intervals import Truths, nan_safe
from rccltune.analyse.points import BASELINE, IDLE, TARGET, TimeGrid, target_of
from rccltune.model.measurement import Caution, Notice
from rccltune.model.schema import Number, Whole
from rccltune.model.settings import Scale, Setting, Target
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.model.zone import NOT_MEASURED, NOTHING_SELECTABLE, Zone, is_not_beaten

# What idle and baseline may differ by and still be called equal.
EQUAL: Final = 0.02
# Chance to call them so where they differ by as much.
_EQUAL_LEVEL: Final = 0.05
_PLACE: Final = ["collective", "n_nodes", "n_ranks", "rank_placement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySetting:
    """The setting that the library was seen to run by itself, channels left to it."""

    target: Target
    nbytes: Whole
    setting: Setting


def library_settings(samples: pd.DataFrame) -> tuple[LibrarySetting, ...]:
    """Settings that the library was seen to run by itself, where all communicators agree.

    Args:
        samples: all of a session.
    """
    is_library = samples["setting"].isin((BASELINE, IDLE)) & (samples["unusable"] == "")
    rows = samples[is_library & (samples["ran"] != "")]
    choices = rows[[*_PLACE, "nbytes", "ran"]].drop_duplicates()
    ran_at: dict[tuple[Target, int], set[Setting]] = {}
    for *named, nbytes, word in choices.itertuples(index=False, name=None):
        ran = Setting.parse(word)
        if ran.is_complete:
            at = target_of(named), int(nbytes)
            ran_at.setdefault(at, set()).add(replace(ran, channels=None))
    return tuple(
        LibrarySetting(target=target, nbytes=nbytes, setting=next(iter(settings)))
        for (target, nbytes), settings in ran_at.items()
        if len(settings) == 1
    )


def settings_by_target(
    found: Iterable[LibrarySetting],
) -> Mapping[Target, Mapping[int, Setting]]:
    """Settings that the library was seen to run by itself, by target and size in bytes."""
    settings: dict[Target, dict[int, Setting]] = {}
    for one in found:
        settings.setdefault(one.target, {})[one.nbytes] = one.setting
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """Sizes at which the library was seen to take a path that never asks a tuner."""

    collective: Collective
    scale: Scale
    min_nbytes: Whole
    max_nbytes: Whole


def bypasses(samples: pd.DataFrame) -> tuple[Bypass, ...]:
    """Bypassed sizes of each collective and scale, from the smallest to the largest seen.

    Args:
        samples: all of a session.
    """
    rows = samples[samples["unusable"] == UnusableReason.BYPASSED.value]
    by = ["collective", "n_nodes", "n_ranks"]
    spans = rows.groupby(by, observed=True)["nbytes"].agg(["min", "max"])
    return tuple(
        Bypass(
            collective=Collective(collective),
            scale=Scale(n_nodes=int(n_nodes), n_ranks=int(n_ranks)),
            min_nbytes=int(low),
            max_nbytes=int(high),
        )
        for (collective, n_nodes, n_ranks), low, high in spans.itertuples(name=None)
    )


def bypass_words(found: Iterable[Bypass]) -> str:
    """``all_reduce from 1 KiB to 4 MiB; …``, each collective once."""
    by_collective: dict[str, list[int]] = {}
    for one in found:
        bounds = by_collective.setdefault(one.collective.value, [])
        bounds += [one.min_nbytes, one.max_nbytes]
    return "; ".join(
        f"{name} from {format_size(min(bounds))} to {format_size(max(bounds))}"
        for name, bounds in by_collective.items()
    )


def explain_gaps(zones: Iterable[Zone], bypasses: Sequence[Bypass]) -> tuple[Zone, ...]:
    """Zones whose gaps say where the library asks no tuner: there a rule would do nothing."""
    return tuple(_explain_gap(zone, bypasses) for zone in zones)


def _explain_gap(zone: Zone, bypasses: Sequence[Bypass]) -> Zone:
    for one in bypasses:
        if not _is_inside(one, zone):
            continue
        sizes = f"{format_size(one.min_nbytes)} to {format_size(one.max_nbytes)}"
        if zone.reason == NOTHING_SELECTABLE:
            return replace(zone, reason=f"bypassed from {sizes}: the library asks no tuner")
        if zone.reason == NOT_MEASURED or is_not_beaten(zone.reason):
            return replace(zone, reason=f"bypassed from {sizes}; else {zone.reason}")
    return zone


def _is_inside(bypass: Bypass, zone: Zone) -> bool:
    target = zone.target
    return (
        (target.collective, target.scale) == (bypass.collective, bypass.scale)
        and zone.min_nbytes <= bypass.min_nbytes
        and bypass.max_nbytes <= zone.max_nbytes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleDifference:
    """Neighbouring sizes at which a sweep says that the idle plugin changes times (fit.json).

    Attributes:
        ratio: time with it, idle, over time without, median over sizes.
    """

    min_nbytes: Whole
    max_nbytes: Whole
    ratio: Number

    def __str__(self) -> str:
        """``13 % slower from 1 MiB to 4 MiB``."""
        low, high = format_size(self.min_nbytes), format_size(self.max_nbytes)
        where = f"at {low}" if low == high else f"from {low} to {high}"
        way = "slower" if self.ratio > 1 else "faster"
        return f"{100 * abs(self.ratio - 1):.0f} % {way} {where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleComparison:
    """Times with our plugin, answering nothing, beside those without it, size by size.

    Attributes:
        n_sizes: measured both ways.
        unknown: those of them at which nothing is shown, neither that the two are equal within 2 %
            in every view nor that they differ by more.
        changes: where they differ by more.
    """

    target: Target
    n_sizes: Whole
    unknown: tuple[Whole, ...]
    changes: tuple[IdleDifference, ...]


def compare_idle(grids: Iterable[TimeGrid]) -> tuple[IdleComparison, ...]:
    """Hold idle against the baseline, wherever both were measured.

    Equal is what two one-sided tests show in every view (5 %); different what lies beyond 2 % the
    same way in every view, at a chance of :data:`intervals.PROVEN` for all sizes of a target
    together (Bonferroni).

    Args:
        grids: of the targets.
    """
    comparisons = (_compare_grid(grid) for grid in grids)
    return tuple(one for one in comparisons if one is not None)


def _compare_grid(grid: TimeGrid) -> IdleComparison | None:
    pair = [BASELINE, IDLE]
    if not all(one in grid.candidates for one in pair):
        return None
    baseline, idle = (grid.of(grid.candidates.index(one)) for one in pair)
    ratio = intervals.compare(idle, baseline, grid.sizes)
    is_known: Truths = np.asarray(np.isfinite(ratio.log).any((0, 1)))
    if not is_known.any():
        return None
    margin = float(np.log1p(EQUAL))
    chance = nan_safe(np.nanmax, ratio.p_equal(margin), 0)[0]
    is_equal: Truths = is_known & (chance <= _EQUAL_LEVEL)
    other_way = intervals.compare(baseline, idle, grid.sizes)
    chances = (nan_safe(np.nanmax, one.p_above(margin), 0)[0] for one in (ratio, other_way))
    # One alarm in so many sessions, whichever way and at whichever size.
    is_changed: Truths = is_known & (np.fmin(*chances) <= intervals.PROVEN / (2 * is_known.sum()))
    logs = nan_safe(np.nanmedian, ratio.log, 0)[0]
    nbytes = [int(n) for n in grid.nbytes]
    return IdleComparison(
        target=target_of([grid.target[name] for name in TARGET]),
        n_sizes=int(is_known.sum()),
        unknown=tuple(
            n
            for n, known, told in zip(nbytes, is_known, is_equal | is_changed, strict=True)
            if known and not told
        ),
        changes=tuple(
            IdleDifference(
                min_nbytes=nbytes[at[0]],
                max_nbytes=nbytes[at[-1]],
                ratio=float(np.exp(np.median(logs[at]))),
            )
            for at in _runs(np.where(is_changed, np.sign(logs), 0.0)[is_known], is_known)
        ),
    )


def _runs(ways: intervals.Array, is_known: Truths) -> Iterable[list[int]]:
    """Indices of neighbouring sizes that differ the same way round."""
    sizes = np.flatnonzero(is_known)
    for way, run in groupby(range(len(ways)), key=ways.__getitem__):
        if way:
            yield [int(sizes[i]) for i in run]


def idle_notices(comparisons: Sequence[IdleComparison]) -> tuple[Notice, ...]:
    """One notice for each target at which the idle plugin is not the baseline."""
    return tuple(
        Notice(
            caution=Caution.IDLE_DIFFERS,
            message="loading the plugin changes times though it answers nothing: "
            + ", ".join(map(str, one.changes)),
            remedy="nothing to do: gains are over the faster of the two, and rules that say "
            "'restores' give back what they can. Most likely the library has a tuner table of its "
            "own there, or an override that it drops for any tuner, also at sizes that no rule "
            "covers.",
            where=f"{one.target.collective.value}, {one.target.scale}",
        )
        for one in comparisons
        if one.changes
    )
