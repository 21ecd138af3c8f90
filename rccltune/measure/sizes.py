"""Which sizes a sweep measures: a recorded job's, and of any those that can be called with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import plan, workload
from rccltune.model import Collective, CommandLineError, Scale, Sweep, format_size, lay
from rccltune.workload import Part, Sizes, Workload

# More sizes than any job has that was written by hand; a job with ragged messages has thousands.
MOST_SIZES: Final = 64
_SHOWN: Final = 4


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
    whole = workload.read(path)
    found = workload.heaviest(
        whole,
        scale,
        MOST_SIZES,
        lambda collective, nbytes: plan.nearest(sweep, collective, scale.n_ranks, nbytes),
    )
    kept = [one for one in found if not named_collectives or one.collective in sweep.collectives]
    said = (*whole.cuts, *_left_out(whole, scale, sweep, found, kept))
    wanted = tuple((one.collective, one.sizes) for one in kept if one.sizes)
    if not wanted:
        others = ", ".join(str(one) for one in whole.scales) or "none"
        none = f"the workload has no call of these collectives at {scale} that can be measured"
        raise CommandLineError(
            lay([none, *(f"  {line}" for line in said)]),
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
    whole: Workload, scale: Scale, sweep: Sweep, found: tuple[Sizes, ...], kept: list[Sizes]
) -> Iterator[str]:
    """One line of what is not measured and how much that is, one of what is elsewhere."""
    parts = [(str(one), _at(whole, one)) for one in whole.scales if one != scale]
    for one in found:
        name, beyond = one.collective.value, one.beyond
        if one not in kept:
            parts.append((f"{name}, which was not asked for", _of(whole, scale, one.collective)))
            continue
        step = format_size(plan.grain(sweep, one.collective, scale.n_ranks))
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
            f"{100 * plan.NEAR:.0f} % away"
        )


def _at(whole: Workload, scale: Scale) -> Part:
    counts = [one for one in whole.counts if one.scale == scale]
    nbytes = sum(one.total_nbytes for one in counts)
    return Part(calls=sum(one.calls for one in counts), nbytes=nbytes)


def _of(whole: Workload, scale: Scale, collective: Collective) -> Part:
    return _at(
        replace(whole, counts=tuple(c for c in whole.counts if c.collective is collective)), scale
    )


def _share(part: Part, whole: Workload) -> str:
    calls = 100 * part.calls / whole.calls
    nbytes = 100 * part.nbytes / (whole.total_nbytes or 1)
    return f"{calls:.1f} % of the calls, {nbytes:.1f} % of the bytes"


def _listed(part: Part) -> str:
    sizes = ", ".join(format_size(nbytes) for nbytes in part.sizes[:_SHOWN])
    more = len(part.sizes) - _SHOWN
    return sizes + (f" and {more} sizes more" if more > 0 else "")


def callable_only(sweep: Sweep, scale: Scale) -> tuple[Sweep, tuple[str, ...]]:
    """The sweep without collectives and sizes that the benchmark rounds down to nothing.

    Args:
        sweep: over a range, or over sizes of which each is known.
        scale: of the site.

    Returns:
        The sweep, and what is not measured and why, in words.

    Raises:
        CommandLineError: nothing is left.
    """
    said: list[str] = []
    wanted: dict[Collective, tuple[int, ...]] = {}
    for collective, sizes in sweep.wanted:
        near = {n: plan.nearest(sweep, collective, scale.n_ranks, n) for n in sizes}
        wanted[collective] = tuple(sorted({at for at in near.values() if at is not None}))
        lost = Part(sizes=tuple(n for n, at in near.items() if at is None))
        if lost.sizes:
            said.append(_uncallable(sweep, collective, scale, f" at {_listed(lost)}"))
    empty = [one for one in sweep.collectives if not _has_sizes(sweep, wanted, one, scale)]
    said += [_uncallable(sweep, one, scale, "") for one in empty if not sweep.wanted]
    if len(empty) == len(sweep.collectives):
        none = "nothing of what was asked for can be called with:"
        raise CommandLineError(
            lay([none, *(f"  {line}" for line in said)]),
            hint="ask for larger sizes (--max-bytes).",
        )
    made = replace(
        sweep,
        collectives=tuple(one for one in sweep.collectives if one not in empty),
        wanted=tuple((one, sizes) for one, sizes in wanted.items() if sizes),
    )
    return made, tuple(said)


def _has_sizes(
    sweep: Sweep, wanted: dict[Collective, tuple[int, ...]], collective: Collective, scale: Scale
) -> bool:
    if sweep.wanted:
        return bool(wanted.get(collective))
    return bool(plan.called_sizes(sweep, collective, scale.n_ranks))


def _uncallable(sweep: Sweep, collective: Collective, scale: Scale, at: str) -> str:
    step = format_size(plan.grain(sweep, collective, scale.n_ranks))
    return (
        f"Not measured: {collective.value}{at}: the benchmark can call it with multiples of {step} "
        f"at {scale.n_ranks} ranks, and none is near"
    )
