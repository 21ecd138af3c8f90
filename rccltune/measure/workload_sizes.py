"""Sizes of a sweep that measures those of a recorded job alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import Sweep
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective, format_size, join_lines
from rccltune.session.plan import grain
from rccltune.workload.reader import read_workload
from rccltune.workload.records import Workload
from rccltune.workload.shares import SizesToMeasure, UnmeasuredCalls, sizes_to_measure

# More sizes than any job has that was written by hand; a job with ragged messages has thousands.
MOST_SIZES: Final = 64
# A size as good as one that cannot be called, as a fraction away from it.
NEAR: Final = 0.02
_SHOWN: Final = 4


def nearest(collective: Collective, n_ranks: int, nbytes: int) -> int | None:
    """The nearest size that can be called with; None where none is near."""
    unit = grain(collective, n_ranks)
    found = max(1, round(nbytes / unit)) * unit
    return found if abs(found - nbytes) <= NEAR * nbytes else None


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
    whole = read_workload(path)
    found = sizes_to_measure(
        whole,
        scale,
        MOST_SIZES,
        lambda collective, nbytes: nearest(collective, scale.n_ranks, nbytes),
    )
    kept = [one for one in found if not named_collectives or one.collective in sweep.collectives]
    said = (*whole.cuts, *_left_out(whole, scale, found, kept))
    wanted = tuple((one.collective, one.sizes) for one in kept if one.sizes)
    if not wanted:
        others = ", ".join(str(one) for one in whole.scales) or "none"
        none = f"the workload has no call of these collectives at {scale} that can be measured"
        raise CommandLineError(
            join_lines([none, *(f"  {line}" for line in said)]),
            where=str(path),
            hint=f"its communicators are of {others}; choose one with --np.",
        )
    every = [nbytes for _, sizes in wanted for nbytes in sizes]
    made = replace(
        sweep,
        collectives=tuple(collective for collective, _ in wanted),
        wanted=wanted,
        min_nbytes=min(every),
        max_nbytes=max(every),
        factor=2,
        step_nbytes=None,
    )
    return made, said


def _left_out(
    whole: Workload, scale: Scale, found: tuple[SizesToMeasure, ...], kept: list[SizesToMeasure]
) -> Iterator[str]:
    """One line of what is not measured and how much that is, one of what is elsewhere."""
    parts = [(str(one), _at(whole, one)) for one in whole.scales if one != scale]
    for one in found:
        name, beyond = one.collective.value, one.beyond
        if one not in kept:
            parts.append((f"{name}, which was not asked for", _of(whole, scale, one.collective)))
            continue
        step = format_size(grain(one.collective, scale.n_ranks))
        why = f"{name} at {_listed(one.uncallable)}, near which the benchmark has no size (it has "
        parts.append((f"{why}multiples of {step})", one.uncallable))
        many = f"the {len(beyond.sizes)} lightest sizes of {name}, beyond {MOST_SIZES}"
        parts.append((many, beyond))
    told = [f"{what}: {_share(part, whole)}" for what, part in parts if part.calls]
    if told:
        yield f"Left out of the workload: {'; '.join(told)}"
    n_moved = sum(len(one.moved) for one in kept)
    if n_moved:
        sizes = (
            "1 size of the workload is" if n_moved == 1 else f"{n_moved} sizes of the workload are"
        )
        yield (
            f"{sizes} measured at the nearest that the benchmark can call with, at most "
            f"{100 * NEAR:.0f} % away"
        )


def _at(whole: Workload, scale: Scale) -> UnmeasuredCalls:
    counts = [one for one in whole.counts if one.scale == scale]
    nbytes = sum(one.total_nbytes for one in counts)
    return UnmeasuredCalls(calls=sum(one.calls for one in counts), nbytes=nbytes)


def _of(whole: Workload, scale: Scale, collective: Collective) -> UnmeasuredCalls:
    return _at(
        replace(whole, counts=tuple(c for c in whole.counts if c.collective is collective)), scale
    )


def _share(part: UnmeasuredCalls, whole: Workload) -> str:
    calls = 100 * part.calls / whole.calls
    nbytes = 100 * part.nbytes / (whole.total_nbytes or 1)
    return f"{calls:.1f} % of the calls, {nbytes:.1f} % of the bytes"


def _listed(part: UnmeasuredCalls) -> str:
    sizes = ", ".join(format_size(nbytes) for nbytes in part.sizes[:_SHOWN])
    more = len(part.sizes) - _SHOWN
    return sizes + (f" and {more} sizes more" if more > 0 else "")
