"""A search for settings in rounds: what is known, what is planned next, and what was decided.

Each round is a function of the launches of the rounds before it and of nothing else, so a search
that was interrupted goes on as if it had not been, and its decisions can be derived again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from rccltune.fit import agreement, beliefs
from rccltune.fit.points import curves as fit_curves
from rccltune.model import defaults
from rccltune.model.curves import Curve, time_at
from rccltune.model.measured import Launch, Outcome, Sample, Sweep
from rccltune.model.schema import Word
from rccltune.model.search import Expected, Round
from rccltune.model.settings import DEFAULT_VARIANT, LL128_FORCED, Role, Setting, Target, Variant
from rccltune.model.vocabulary import Collective, Doubt, format_size, lay
from rccltune.plan.launches import Ground, anchor_of, over_own
from rccltune.plan.launches import arms as plan_arms
from rccltune.plan.launches import sizes as plan_sizes
from rccltune.plan.rounds import Pace, plan_round, seconds, size_s
from rccltune.search.rounds import AT_ONCE, MOST_ROUNDS, Known, first_round, second_round, undecided
from rccltune.search.sizes import looked_at
from rccltune.session.launches import is_walk

# What a launch costs beside its collectives at least.
_LEAST_START_S: Final = 1.0
# A size at which a few settings take so small a part of a launch's start is not worth leaving out.
_LITTLE: Final = 0.3
# Tried on settings that survive, where the user names no settings of his own.
_COUNTS: Final = (4, 8, 16, 32)
# These say that a setting cannot run at a size; the others may be otherwise next time.
_CLOSED: Final = (Doubt.INELIGIBLE, Doubt.SUBSTITUTED, Doubt.BYPASSED)
# Shares of a rank are in units of so many bytes.
_ALIGNED: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """What launches have shown of the library as it is; of :func:`fit.strengthened`."""

    tunerless: bool = False
    own: beliefs.OwnChoices = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched, and how far it is.

    Attributes:
        rounds: planned so far; the last one may be under way.
        planned: the launches of each, in their order.
    """

    sweep: Sweep
    ground: Ground
    rounds: tuple[Round, ...]
    planned: tuple[tuple[Launch, ...], ...]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Of all rounds."""
        return tuple(one for launches in self.planned for one in launches)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be planned; the last launches may still be to be made."""
        return len(self.rounds) > MOST_ROUNDS or not self.planned[-1]

    @property
    def most_following(self) -> int:
        """Rounds that may come after those that are planned."""
        return 0 if self.is_over else MOST_ROUNDS - len(self.rounds)


def begin(sweep: Sweep, ground: Ground) -> Search:
    """The coarse pass, launches without ids."""
    # Channel counts are tried on what survives.
    wanted, _ = plan_arms(replace(sweep, counts=()), ground)
    arms: dict[Collective, list[Setting]] = {c: [] for c in sweep.collectives}
    for collective, setting, _ in wanted:
        arms[collective].append(setting)
    first = first_round(arms, plan_sizes(sweep))
    made = plan_round(sweep, ground, first)
    return Search(sweep=sweep, ground=ground, rounds=(first,), planned=(made,))


def step(
    before: Search,
    samples: Sequence[Sample],
    ended: Sequence[tuple[Launch, Outcome]],
    *,
    start_s: float | None,
    most_channels: int | None = None,
    library: Library | None = None,
) -> Search:
    """The search with its next round; a round without wants ends it.

    With the launches of the second round goes the library as it is once more, whether or not
    anything is wanted.

    Args:
        before: all its launches have ended.
        samples: of those launches.
        ended: those launches, whichever way they ended.
        start_s: what a launch takes beside its collectives, None where it is to be measured.
        most_channels: of the library's communicators, None where they are not known.
        library: what is known of it by now.
    """
    known = known_of(before.sweep, samples, most_channels, library)
    pace = _pace(before.sweep, known, ended, start_s)
    known = tuple(
        replace(one, cheap_nbytes=_cheap_nbytes(before.sweep, one, pace)) for one in known
    )
    number = len(before.rounds) + 1
    if number > MOST_ROUNDS or not known:
        over = Round(number=number, wants=(), expected=undecided(known))
        return replace(before, rounds=(*before.rounds, over), planned=(*before.planned, ()))
    second = second_round(known)
    launches = plan_round(
        before.sweep,
        before.ground,
        second,
        pace,
        asked_from={one.collective: _asked_from(one) for one in known},
        anchors={
            one.collective: anchor for one in known if (anchor := _anchor(one, before.ground))
        },
    )
    return replace(before, rounds=(*before.rounds, second), planned=(*before.planned, launches))


def _asked_from(known: Known) -> int:
    """The smallest size at which a forced setting was proven to run."""
    return min(curve.min_nbytes for curve in known.curves if curve.key.setting.role is Role.FORCED)


def _anchor(known: Known, ground: Ground) -> Setting | None:
    """Of the settings that ran at most sizes, so that none that fails is asked again."""
    forced = [curve for curve in known.curves if curve.key.setting.role is Role.FORCED]
    most = max(len(curve.points) for curve in forced)
    return anchor_of((curve.key.setting for curve in forced if len(curve.points) == most), ground)


def library_of(
    folder: Path, ended: Sequence[tuple[Launch, Outcome]], samples: Sequence[Sample]
) -> Library:
    """What a session's launches show of the library as it is."""
    tunerless = agreement.tuner_of(folder) == "none"
    shown = beliefs.gather_beliefs(folder, ended, samples)
    return Library(tunerless=tunerless, own=beliefs.own_choices(shown.beliefs, tunerless=tunerless))


def known_of(
    sweep: Sweep,
    samples: Sequence[Sample],
    most_channels: int | None = None,
    library: Library | None = None,
) -> tuple[Known, ...]:
    """What the samples say of each collective that asks a tuner.

    Args:
        sweep: what is wanted.
        samples: so far.
        most_channels: of the library's communicators, which no tuner exceeds; None: not known.
        library: what is known of it.
    """
    library = library or Library()
    usual = tuple(n for n in _COUNTS if most_channels is None or n <= most_channels)
    samples = _as_wanted(sweep, [s for s in samples if _is_searched(s.key.variant)])
    # Sizes between those of the untouched site's launches are known from silence.
    curves = agreement.strengthened(
        fit_curves(samples).curves, tunerless=library.tunerless, inside=True, own=library.own
    )
    found = []
    for collective in sweep.collectives:
        own = tuple(
            curve
            for curve in curves
            if curve.key.collective is collective
            and curve.key.setting.role in (Role.FORCED, Role.BASELINE)
            and not curve.n_wrong
            and not curve.key.variant.patched
        )
        if any(curve.key.setting.role is Role.FORCED for curve in own):
            found.append(
                Known(
                    collective=collective,
                    curves=own,
                    grid=_grid(sweep, collective, own[0].key.scale.n_ranks),
                    barred=_barred(
                        samples, replace(own[0].key.target, variant=DEFAULT_VARIANT), library
                    ),
                    first_uses=_first_uses(samples, collective),
                    counts=() if sweep.settings else sweep.counts or usual,
                    n_ranks=own[0].key.scale.n_ranks,
                    repeats=sweep.repeats,
                )
            )
    return tuple(found)


def _is_searched(variant: Variant) -> bool:
    """Whether a search measured it; other variants are measured whole, and compared afterwards."""
    return variant.patched or variant.name in (DEFAULT_VARIANT.name, LL128_FORCED.name)


def _as_wanted(sweep: Sweep, samples: Sequence[Sample]) -> list[Sample]:
    """Samples at the sizes that were asked for, where the benchmark cut them to what ranks share.

    Six ranks share no 1 MiB: it is measured at 1 MiB less 64 B, and would be looked for for ever.
    """
    asked: dict[tuple[Collective, int], tuple[int, ...]] = {}
    found = []
    for sample in samples:
        collective, n_ranks = sample.key.collective, sample.key.scale.n_ranks
        key = (collective, n_ranks)
        if key not in asked:
            asked[key] = looked_at(_grid(sweep, collective, n_ranks), n_ranks)
        at = bisect_left(asked[key], sample.nbytes)
        wanted = asked[key][at] if at < len(asked[key]) else sample.nbytes
        unit = _ALIGNED * (n_ranks if collective.is_shared else 1)
        is_cut = 0 < sample.nbytes < wanted < sample.nbytes + unit
        found.append(replace(sample, nbytes=wanted) if is_cut else sample)
    return found


def _grid(sweep: Sweep, collective: Collective, n_ranks: int) -> tuple[int, ...]:
    """Sizes at which every rank has something to send; all where none has."""
    least = _ALIGNED * n_ranks if collective.is_shared else 0
    whole = plan_sizes(sweep)
    return tuple(nbytes for nbytes in whole if nbytes >= least) or whole


def _barred(
    samples: Sequence[Sample], target: Target, library: Library
) -> Mapping[Setting, frozenset[int]]:
    """Sizes at which a setting was tried and never ran, no setting can, or it wins nothing.

    A path that goes past the tuner does so whatever was asked for: also a setting that was never
    tried there, a number of channels of a later round say, cannot run.
    """
    collective = target.collective
    closed: dict[Setting, set[int]] = {}
    ran: set[tuple[Setting, int]] = set()
    bypassed: set[int] = set()
    for sample in samples:
        setting = sample.key.setting
        if sample.key.collective is not collective or setting.role is not Role.FORCED:
            continue
        own = closed.setdefault(setting, set())
        if sample.doubt is None:
            ran.add((setting, sample.nbytes))
        elif sample.doubt in _CLOSED:
            own.add(sample.nbytes)
            bypassed |= {sample.nbytes} if sample.doubt is Doubt.BYPASSED else set()
    never = bypassed - {nbytes for _, nbytes in ran}
    chosen = library.own.get(target, {}).items()
    return {
        setting: frozenset(
            never
            | {n for n in sizes if (setting, n) not in ran}
            | {n for n, own in chosen if own == setting}
        )
        for setting, sizes in closed.items()
    }


def _first_uses(samples: Sequence[Sample], collective: Collective) -> tuple[Setting, ...]:
    """Forced settings whose connections were set up, and that were not called again."""
    doubts: dict[Setting, set[Doubt | None]] = {}
    for sample in samples:
        if sample.key.collective is collective and sample.key.setting.role is Role.FORCED:
            doubts.setdefault(sample.key.setting, set()).add(sample.doubt)
    return tuple(
        setting
        for setting, found in doubts.items()
        if Doubt.CONNECTING in found and found <= {Doubt.CONNECTING, Doubt.ZERO_BYTES, *_CLOSED}
    )


def _pace(
    sweep: Sweep,
    known: Sequence[Known],
    ended: Sequence[tuple[Launch, Outcome]],
    start_s: float | None,
) -> Pace:
    """What calls and launches took so far."""
    typical = {one.collective: _typical(one.curves) for one in known}
    own = {
        (one.collective, curve.key.setting): _times(curve) for one in known for curve in one.curves
    }

    @cache
    def call_us(collective: Collective, nbytes: int, setting: Setting | None) -> float | None:
        seen = replace(setting, channels=None) if setting else None
        found = own.get((collective, seen)) if seen else None
        sizes, times = found or typical.get(collective) or ((), ())
        if not sizes:
            return None
        if nbytes >= sizes[-1]:
            return times[-1] * nbytes / sizes[-1]
        return time_at(sizes, times, max(nbytes, sizes[0]))

    if start_s is not None:
        return Pace(launch_s=start_s, call_us=call_us)
    rough = Pace(call_us=call_us)
    starts = [
        outcome.duration_s - seconds(over_own(sweep, one), one.collectives[0], rough)
        for one, outcome in ended
        if outcome.duration_s is not None and not is_walk(one)
    ]
    return replace(
        rough, launch_s=max(_LEAST_START_S, median(starts)) if starts else defaults.START_S
    )


def _cheap_nbytes(sweep: Sweep, known: Known, pace: Pace) -> int:
    """The largest size of the grid at which a few settings cost little beside a launch; 0: none."""
    for nbytes in reversed(known.grid):
        once_s = size_s(sweep, known.collective, nbytes, pace)
        if AT_ONCE * (known.repeats + 1) * once_s <= _LITTLE * pace.launch_s:
            return nbytes
    return 0


def _typical(curves: Sequence[Curve]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sizes, and the time of a faster setting at each."""
    by_size: dict[int, list[float]] = {}
    for curve in curves:
        for point in curve.points:
            by_size.setdefault(point.nbytes, []).append(point.time_us)
    sizes = sorted(by_size)
    faster = [
        quantiles(by_size[n], n=4)[0] if len(by_size[n]) > 1 else by_size[n][0] for n in sizes
    ]
    return tuple(float(n) for n in sizes), tuple(faster)


def _times(curve: Curve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sizes, and times in µs."""
    points = curve.points
    return tuple(float(one.nbytes) for one in points), tuple(one.time_us for one in points)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundFile(Round):
    """A round with the ids of its launches."""

    launches: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFile:
    """What search.json says: every decision, with what it rested on."""

    rounds: tuple[RoundFile, ...]
    is_over: bool
    expected: tuple[Expected, ...]


def file_of(done: Search, expected: Sequence[Expected]) -> SearchFile:
    """For search.json."""
    return SearchFile(
        rounds=tuple(
            RoundFile(
                **{f.name: getattr(made, f.name) for f in fields(made)},
                launches=tuple(one.id for one in launches),
            )
            for made, launches in zip(done.rounds, done.planned, strict=True)
            if made.wants or launches
        ),
        is_over=done.is_over,
        expected=tuple(expected),
    )


def round_text(made: Round) -> str:
    """What a round is for, in a line."""
    text = f"Round {made.number} of {MOST_ROUNDS}: "
    if not made.expected:
        return text + "every setting at a few sizes"
    text += "where the fastest is still open"
    worst = max(made.expected, key=lambda one: one.worst)
    return (
        f"{text}; up to {100 * worst.worst:.1f} % to gain "
        f"({worst.collective.value}, {format_size(worst.at_nbytes)})"
    )


def round_details(made: Round) -> str:
    """How much is measured and why, what may be lost, and which settings are given up."""
    motives = dict.fromkeys(want.motive.value for want in made.wants)
    n_points = sum(len(want.settings) for want in made.wants)
    dropped = (
        f"Given up: {one.collective.value} {one.setting}, slower everywhere "
        f"(by {100 * one.by:.0f} % and more)"
        for one in made.dropped
    )
    expected = (f"Choosing now may lose: {expected_text(one)}" for one in made.expected)
    return lay([f"{n_points} settings at sizes: {'; '.join(motives)}", *expected, *dropped])


def expected_text(expected: Expected) -> str:
    """``all_reduce 0.3 % in the mean, 1.2 % at worst (at 2M)``."""
    return (
        f"{expected.collective.value} {100 * expected.mean:.1f} % on average, "
        f"{100 * expected.worst:.1f} % at worst (at {format_size(expected.at_nbytes)})"
    )
