"""Which path took a call before a tuner was asked, and what takes the path away."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from rccltune.why import remedies
from rccltune.why.answers import Around, Kind, Known, Reason
from rccltune.why.records import Job, Key, Kindred, Seen

# What the library's own lines call them by; no variable is known that takes them away.
SYMMETRIC: Final = "symmetric kernels"
# As the catalog of variants calls it.
DIRECT_GATHER: Final = "direct AllGather"


def bypassed(key: Key, seen: Seen, named: Collection[str], job: Job, known: Known) -> Reason:
    """The answer where a call was made and no tuner asked.

    Args:
        key: scale, collective and size.
        seen: what the files say of it.
        named: paths that the files name; empty where they only show that nothing was asked.
        job: all evidence.
        known: has the paths that there are.
    """
    around = list(_around(key, seen, job, known))
    if named:
        return _by_name(named, around)
    # A library asks once for calls of a group, with their sum; its own lines would show them.
    alone = key[0] in job.tuning or job.tables
    grouped = "" if alone else " (or grouped with others, and asked about as their sum)"
    if not around:
        return Reason(
            Kind.BYPASSED,
            f"the plugin was never asked about this size: {job.library or 'the library'} takes a "
            f"path before the tuner that rccltune knows no name of{grouped}",
            "see which one: export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALL",
        )
    names = " or ".join(one.name for one in around)
    remedy = _measured([one.export for one in around if one.export])
    return Reason(Kind.BYPASSED, f"by {names}, which asks no tuner{grouped}", remedy)


def _by_name(named: Collection[str], around: Sequence[Around]) -> Reason:
    remedy = _measured([one.export for one in around if one.name in named and one.export])
    if SYMMETRIC in named:
        remedy = "leave the buffers out of symmetric windows, or take the path as it is"
    return Reason(Kind.BYPASSED, f"by {', '.join(sorted(named))}, which asks no tuner", remedy)


def _around(key: Key, seen: Seen, job: Job, known: Known) -> Iterator[Around]:
    where, collective, nbytes = key
    told: set[str] = set()
    for kindred in sorted(seen.kindred, key=str) or [Kindred(None, None)]:
        for one in known.around(collective, nbytes, where, kindred, job.library):
            if one.name not in told:
                told.add(one.name)
                yield one


def _measured(exports: Sequence[str]) -> str | None:
    """A path may well be faster than every rule."""
    return f"{remedies.export(exports[0])}, and measure whether that is faster" if exports else None
