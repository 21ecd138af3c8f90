"""Shares of a workload, the sizes to measure of it, and what rules save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.workload.records import CallCount, Workload

# What little a call costs however small, in bytes that take as long: 10 µs at 10 GB/s.
_LATENCY_NBYTES: Final = 100_000
_US: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One count and how much of the whole it is.

    Attributes:
        of_calls: from 0 to 1.
        of_bytes: the same.
    """

    count: CallCount
    of_calls: float
    of_bytes: float


def shares_of(workload: Workload) -> tuple[Share, ...]:
    """Shares of the counts, the largest first, by calls or by bytes."""
    found = [
        Share(
            count=one,
            of_calls=one.calls / (workload.calls or 1),
            of_bytes=one.total_nbytes / (workload.total_nbytes or 1),
        )
        for one in workload.counts
    ]
    return tuple(sorted(found, key=lambda share: -max(share.of_calls, share.of_bytes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmeasuredCalls:
    """Calls of a workload that are not measured.

    Attributes:
        sizes: rising.
        calls: of all of them.
        nbytes: of all of these calls.
    """

    sizes: tuple[int, ...] = ()
    calls: int = 0
    nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesToMeasure:
    """Sizes of a collective that a workload asks for.

    Attributes:
        sizes: to measure, rising.
        moved: sizes that are measured at the nearest that can be called with.
        uncallable: sizes that have none near.
        beyond: the lightest, which there are too many of.
    """

    collective: Collective
    sizes: tuple[int, ...]
    moved: tuple[int, ...]
    uncallable: UnmeasuredCalls
    beyond: UnmeasuredCalls


def sizes_to_measure(
    workload: Workload,
    scale: Scale,
    most: int,
    nearest: Callable[[Collective, int], int | None] = lambda _, nbytes: nbytes,
) -> tuple[SizesToMeasure, ...]:
    """Choose the sizes that weigh most, for each collective called at a scale.

    A size weighs its bytes and, for each call, what any call costs; sizes that were counted
    together are stood for by their mean, sizes that are measured as one weigh together.

    Args:
        workload: as recorded.
        scale: of the communicators.
        most: sizes of one collective.
        nearest: the size at which calls of a size can be measured, None where there is none.
    """
    calls: dict[Collective, dict[int, int]] = {}
    for count in workload.counts:
        if count.scale == scale:
            own = calls.setdefault(count.collective, {})
            own[count.nbytes] = own.get(count.nbytes, 0) + count.calls
    return tuple(_sizes(c, own, most, partial(nearest, c)) for c, own in calls.items())


def _sizes(
    collective: Collective,
    calls: Mapping[int, int],
    most: int,
    nearest: Callable[[int], int | None],
) -> SizesToMeasure:
    """Choose the sizes to measure of one collective's calls."""
    measured = {nbytes: nearest(nbytes) if nbytes else None for nbytes in calls}
    weights: dict[int, int] = {}
    for nbytes, at in measured.items():
        if at is not None:
            weight = calls[nbytes] * (nbytes + _LATENCY_NBYTES)
            weights[at] = weights.get(at, 0) + weight
    kept = sorted(weights, key=lambda n: (-weights[n], n))[:most]
    return SizesToMeasure(
        collective=collective,
        sizes=tuple(sorted(kept)),
        moved=tuple(sorted(n for n, at in measured.items() if at in kept and at != n)),
        uncallable=_part(calls, (n for n, at in measured.items() if at is None)),
        beyond=_part(calls, (n for n, at in measured.items() if at not in (None, *kept))),
    )


def _part(calls: Mapping[int, int], sizes: Iterable[int]) -> UnmeasuredCalls:
    rising = tuple(sorted(sizes))
    return UnmeasuredCalls(
        sizes=rising,
        calls=sum(calls[nbytes] for nbytes in rising),
        nbytes=sum(calls[nbytes] * nbytes for nbytes in rising),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTime:
    """Time of a call.

    Attributes:
        before_us: by the library alone.
        after_us: under the rules; the same where none applies.
    """

    before_us: float
    after_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Time of one rank in collectives, estimated from what was measured.

    Attributes:
        before_s: of all calls whose time is known, by the library alone.
        after_s: the same under the rules.
        known: share of the calls whose time is known, from 0 to 1.
    """

    before_s: float
    after_s: float
    known: float

    @property
    def saved_s(self) -> float:
        """Seconds saved of the whole recording."""
        return self.before_s - self.after_s


def saving_of(
    workload: Workload, timed: Callable[[Collective, Scale, int], CallTime | None]
) -> Saving:
    """Estimate what rules save of a workload, for each rank that took part in it.

    Args:
        workload: of any number of ranks.
        timed: of one call; None where nothing was measured.
    """
    before = after = 0.0
    known = 0
    for count in workload.counts:
        call_time = timed(count.collective, count.scale, count.nbytes)
        if call_time is not None:
            calls = count.calls / workload.ranks_at(count.scale)
            before += calls * call_time.before_us * _US
            after += calls * call_time.after_us * _US
            known += count.calls
    share = known / workload.calls if workload.calls else 0.0
    return Saving(before_s=before, after_s=after, known=share)
