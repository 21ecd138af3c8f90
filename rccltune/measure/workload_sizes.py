"""Sizes of a sweep that measures those of a recorded job alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import Sweep
from rccltune.model.settings import Scale
from rccltune.model.text import join_lines
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective
from rccltune.ranks.plan import grain
from rccltune.workload import Workload, read_workload

# More sizes than any job has that was written by hand; a job with ragged messages has thousands.
MOST_SIZES: Final = 64
# A size as good as one that cannot be called, as a fraction away from it.
NEAR: Final = 0.02
# What little a call costs however small, in bytes that take as long: 10 µs at 10 GB/s.
_LATENCY_NBYTES: Final = 100_000
_SHOWN: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesToMeasure:
    """Sizes of a collective that a workload asks for.

    Attributes:
        calls: number of calls, by size, as ``uncallable`` and ``beyond``.
        sizes: to measure, rising.
        moved: sizes that are measured at the nearest that can be called with.
        uncallable: sizes that have none near.
        beyond: the lightest, which there are too many of.
    """

    collective: Collective
    calls: Mapping[int, int]
    sizes: tuple[int, ...]
    moved: tuple[int, ...]
    uncallable: Mapping[int, int]
    beyond: Mapping[int, int]


def nearest(collective: Collective, n_ranks: int, nbytes: int) -> int | None:
    """The nearest size that can be called with; None where none is near."""
    unit = grain(collective, n_ranks)
    size = max(1, round(nbytes / unit)) * unit
    return size if abs(size - nbytes) <= NEAR * nbytes else None


def sizes_to_measure(
    collective: Collective, calls: Mapping[int, int], n_ranks: int, most: int = MOST_SIZES
) -> SizesToMeasure:
    """Choose the sizes of a collective that weigh most.

    A size weighs its bytes and, for each call, what any call costs; sizes that are measured as one
    weigh together.

    Args:
        collective: that is called.
        calls: number of calls, by size.
        n_ranks: of the communicator.
        most: sizes.
    """
    measured = {nbytes: nearest(collective, n_ranks, nbytes) for nbytes in calls}
    weights: dict[int, int] = {}
    for nbytes, at in measured.items():
        if at is not None:
            weights[at] = weights.get(at, 0) + calls[nbytes] * (nbytes + _LATENCY_NBYTES)
    heaviest = sorted(weights, key=lambda n: (-weights[n], n))[:most]
    return SizesToMeasure(
        collective=collective,
        calls=calls,
        sizes=tuple(sorted(heaviest)),
        moved=tuple(sorted(n for n, at in measured.items() if at in heaviest and at != n)),
        uncallable={n: calls[n] for n in sorted(calls) if measured[n] is None},
        beyond={n: calls[n] for n in sorted(calls) if measured[n] not in (None, *heaviest)},
    )


def with_sizes(
    sweep: Sweep, path: Path, scale: Scale, *, named_collectives: bool
) -> tuple[Sweep, tuple[str, ...]]:
    """The sweep over a workload's sizes alone.

    Args:
        sweep: its collectives count where the user named them.
        path: of the workload.
        scale: of the site; calls of other communicators are not looked at.
        named_collectives: the user named them.

    Returns:
        The sweep, and what of the workload it leaves out, in words.

    Raises:
        CommandLineError: no call of this scale, or of these collectives, that can be measured.
    """
    workload = read_workload(path)
    every = [
        sizes_to_measure(collective, calls, scale.n_ranks)
        for collective, calls in _calls_at(workload, scale).items()
    ]
    chosen = [one for one in every if not named_collectives or one.collective in sweep.collectives]
    remarks = (*workload.cuts, *_left_out(workload, scale, every, chosen))
    sizes = tuple((one.collective, one.sizes) for one in chosen if one.sizes)
    if not sizes:
        others = ", ".join(str(one) for one in workload.scales) or "none"
        none = f"the workload has no call of these collectives at {scale} that can be measured"
        raise CommandLineError(
            join_lines([none, *(f"  {line}" for line in remarks)]),
            where=str(path),
            hint=f"its communicators are of {others}; choose one with --np.",
        )
    changed = replace(
        sweep,
        collectives=tuple(collective for collective, _ in sizes),
        wanted=sizes,
        min_nbytes=min(some[0] for _, some in sizes),
        max_nbytes=max(some[-1] for _, some in sizes),
        factor=2,
        step_nbytes=None,
    )
    return changed, remarks


def _calls_at(whole: Workload, scale: Scale) -> dict[Collective, dict[int, int]]:
    """Calls at a scale, by collective and size; the mean of sizes that were counted together."""
    calls: dict[Collective, dict[int, int]] = {}
    for count in whole.counts:
        if count.scale == scale:
            by_size = calls.setdefault(count.collective, {})
            by_size[count.nbytes] = by_size.get(count.nbytes, 0) + count.calls
    return calls


def _left_out(
    whole: Workload, scale: Scale, every: list[SizesToMeasure], chosen: list[SizesToMeasure]
) -> Iterator[str]:
    """One line of what is not measured and how much that is, one of what is elsewhere."""
    parts = [
        f"{other}: {_share(list(_calls_at(whole, other).values()), whole)}"
        for other in whole.scales
        if other != scale
    ]
    for one in every:
        name = one.collective.value
        if one not in chosen:
            parts.append(f"{name}, which was not asked for: {_share([one.calls], whole)}")
            continue
        if one.uncallable:
            parts.append(
                f"{name} at {_listed(tuple(one.uncallable))}, near which the benchmark has no size "
                f"(it has multiples of {format_size(grain(one.collective, scale.n_ranks))}): "
                f"{_share([one.uncallable], whole)}"
            )
        if one.beyond:
            parts.append(
                f"the {len(one.beyond)} lightest sizes of {name}, beyond {MOST_SIZES}: "
                f"{_share([one.beyond], whole)}"
            )
    if parts:
        yield f"Left out of the workload: {'; '.join(parts)}"
    n_moved = sum(len(one.moved) for one in chosen)
    if n_moved:
        sizes = (
            "1 size of the workload is" if n_moved == 1 else f"{n_moved} sizes of the workload are"
        )
        yield (
            f"{sizes} measured at the nearest that the benchmark can call with, at most "
            f"{100 * NEAR:.0f} % away"
        )


def _share(parts: list[dict[int, int]] | list[Mapping[int, int]], whole: Workload) -> str:
    calls = sum(sum(part.values()) for part in parts)
    nbytes = sum(nbytes * n for part in parts for nbytes, n in part.items())
    return (
        f"{100 * calls / whole.calls:.1f} % of the calls, "
        f"{100 * nbytes / (whole.total_nbytes or 1):.1f} % of the bytes"
    )


def _listed(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(format_size(nbytes) for nbytes in sizes[:_SHOWN])
    more = len(sizes) - _SHOWN
    return shown + (f" and {more} sizes more" if more > 0 else "")
