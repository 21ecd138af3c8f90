"""Whether a variant's path takes a call before a tuner is asked."""

from __future__ import annotations

from rccltune.variants.records import Acts, Calls, Needs, VariantSpec
from rccltune.vocab import Collective


def takes(  # noqa: PLR0917 - a call's parts, in the order in which everybody names them
    spec: VariantSpec,
    collective: Collective,
    nbytes: int,
    dtype: str | None,
    redop: str | None,
    n_ranks: int,
    n_nodes: int,
) -> bool | None:
    """Whether such a call goes past the tuner, where all else that the variant needs is given.

    Args:
        spec: the variant, measured with its threshold above all sizes.
        collective: which.
        nbytes: size as a tuner sees it.
        dtype: as rccl-tests prints it; None where unknown.
        redop: likewise; calls that reduce nothing say ``none``.
        n_ranks: ranks of the communicator.
        n_nodes: nodes of the communicator.

    Returns:
        None where that depends on what is not known here.
    """
    if spec.acts is not Acts.PATH or not allows(spec.needs, n_ranks, n_nodes):
        return False
    if not spec.calls:
        return True
    found = [
        _unless_maybe(calls, speaks_of(calls, collective, dtype, redop))
        for calls in spec.calls
        if _has_size(calls, nbytes, n_ranks)
    ]
    return True if True in found else (None if None in found else False)


def allows(needs: Needs, n_ranks: int | None, n_nodes: int | None) -> bool:
    """Whether a communicator has the size that is needed; an unknown one may have it."""
    wrong_ranks = n_ranks is not None and (
        (bool(needs.ranks) and n_ranks not in needs.ranks) or n_ranks % needs.ranks_multiple_of != 0
    )
    return not wrong_ranks and not (needs.one_node and n_nodes is not None and n_nodes > 1)


def speaks_of(
    calls: Calls, collective: Collective | None, dtype: str | None, redop: str | None
) -> bool | None:
    """Whether calls of that kind are among these, whatever their size; None if it is unknown."""
    # Only what reduces has an operation; a sweep's --op says nothing about an all_gather.
    reduces = collective is None or collective in _REDUCING
    parts = (
        not calls.collectives or (None if collective is None else collective in calls.collectives),
        not calls.dtypes or (None if dtype is None else dtype in calls.dtypes),
        not calls.redops or not reduces or (None if redop is None else redop in calls.redops),
    )
    return False if False in parts else (None if None in parts else True)


_REDUCING = (Collective.ALL_REDUCE, Collective.REDUCE, Collective.REDUCE_SCATTER)


def _has_size(calls: Calls, nbytes: int, n_ranks: int) -> bool:
    if nbytes < calls.min_nbytes or (calls.max_nbytes is not None and nbytes > calls.max_nbytes):
        return False
    # Calls of 0 bytes communicate nothing and are taken by nobody.
    if not nbytes or nbytes % calls.multiple_of:
        return False
    return calls.share_multiple_of == 1 or nbytes % (calls.share_multiple_of * n_ranks) == 0


def _unless_maybe(calls: Calls, spoken: bool | None) -> bool | None:
    return None if spoken and calls.maybe else spoken
