"""Why a variant cannot be measured here: in one sentence, with who has it instead.

Whether a variant's path takes a call before a tuner is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rccltune.model.vocabulary import Collective
from rccltune.releases import LibraryVendor, dotted, parse_library
from rccltune.variants.spec import (
    CallFilter,
    DecidedBy,
    Parameter,
    VariantNeeds,
    VariantSpec,
    name_all,
)


def takes(  # noqa: PLR0917 - a call's parts, in the order in which everybody names them
    spec: VariantSpec,
    collective: Collective,
    nbytes: int,
    dtype: str | None,
    op: str | None,
    n_ranks: int,
    n_nodes: int,
    arch: str | None = None,
) -> bool | None:
    """Whether such a call goes past the tuner, where all else that the variant needs is given.

    Args:
        spec: the variant, measured with its threshold above all sizes.
        collective: which.
        nbytes: size as a tuner sees it.
        dtype: as rccl-tests prints it; None where unknown.
        op: likewise; calls that reduce nothing say ``none``.
        n_ranks: ranks of the communicator.
        n_nodes: nodes of the communicator.
        arch: of the GPUs; None where unknown.

    Returns:
        None where that depends on what is not known here.
    """
    if spec.acts is not DecidedBy.PATH or not allows(spec.needs, n_ranks, n_nodes):
        return False
    if not spec.calls:
        return True
    answers = []
    for calls in spec.calls:
        if _has_size(calls, nbytes, n_ranks, n_nodes):
            parts = (speaks_of(calls, collective, dtype, op), is_there(calls, arch, n_nodes))
            spoken = False if False in parts else (None if None in parts else True)
            answers.append(_unless_maybe(calls, spoken))
    return True if True in answers else (None if None in answers else False)


def allows(needs: VariantNeeds, n_ranks: int | None, n_nodes: int | None) -> bool:
    """Whether a communicator has the size that is needed; an unknown one may have it."""
    wrong_ranks = n_ranks is not None and (
        (bool(needs.ranks) and n_ranks not in needs.ranks) or n_ranks % needs.ranks_multiple_of != 0
    )
    return not wrong_ranks and not (needs.one_node and n_nodes is not None and n_nodes > 1)


def speaks_of(
    calls: CallFilter, collective: Collective | None, dtype: str | None, op: str | None
) -> bool | None:
    """Whether calls of that kind are among these, whatever their size; None if it is unknown."""
    # Only what reduces has an operation; a sweep's --op says nothing about an all_gather.
    reduces = collective is None or collective.reduces
    parts = (
        not calls.collectives or (None if collective is None else collective in calls.collectives),
        not calls.dtypes or (None if dtype is None else dtype in calls.dtypes),
        not calls.redops or not reduces or (None if op is None else op in calls.redops),
    )
    return False if False in parts else (None if None in parts else True)


def is_there(calls: CallFilter, arch: str | None, n_nodes: int | None) -> bool | None:
    """Whether calls are among these on such GPUs and so many nodes; None if it is unknown."""
    if calls.nodes is not None and n_nodes is not None:
        low, high = calls.nodes
        if not low <= n_nodes <= high:
            return False
    if calls.arch and arch is not None:
        return arch.startswith(calls.arch)
    return None if calls.arch or (calls.nodes is not None and n_nodes is None) else True


def _has_size(calls: CallFilter, nbytes: int, n_ranks: int, n_nodes: int) -> bool:
    last = calls.last(n_nodes)
    if nbytes < calls.min_nbytes or (last is not None and nbytes > last):
        return False
    # Calls of 0 bytes communicate nothing and are taken by nobody.
    if not nbytes or nbytes % calls.multiple_of:
        return False
    return calls.share_multiple_of == 1 or nbytes % (calls.share_multiple_of * n_ranks) == 0


def _unless_maybe(calls: CallFilter, spoken: bool | None) -> bool | None:
    return None if spoken and calls.maybe else spoken


# RCCL 2.28.3 src/graph/connect.cc:816-828, 911-925 and src/include/device.h (MAXCHANNELS).
_BY_CUS: Final = ("gfx942", "gfx950")
_RCCL_MOST: Final = 128
_FEW_RANKS_MOST: Final = 64
# NCCL 2.29 src/graph/connect.cc:335: a larger minimum is lowered to MAXCHANNELS.
_NCCL_MOST: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSite:
    """Site at which a variant would be measured; None or empty is unknown and refuses nothing.

    Attributes:
        library: as the library prints it: ``RCCL 2.28.3``, ``NCCL 2.28.9``.
        is_rcclx: whether that RCCL is Meta's RCCLX, which prints RCCL's number.
        arch: ``gfx942`` …; NVIDIA GPUs' names do as well.
        cu_count: compute units of one device (38 in CPX).
        collectives: those that will be measured.
        graph: whether calls are replayed from a captured graph.
        registered: whether buffers are registered.
        parameter: what stands behind the variant's name.
    """

    library: str | None = None
    is_rcclx: bool | None = None
    arch: str | None = None
    cu_count: int | None = None
    n_nodes: int | None = None
    n_ranks: int | None = None
    collectives: tuple[Collective, ...] = ()
    dtype: str | None = None
    op: str | None = None
    graph: bool | None = None
    registered: bool | None = None
    parameter: str | None = None


def why_absent(spec: VariantSpec, site: VariantSite) -> str | None:
    """One sentence, or None where nothing known speaks against measuring the variant there."""
    return next(_reasons(spec, site), None)


def _reasons(spec: VariantSpec, site: VariantSite) -> Iterator[str]:
    if spec.not_tunable is not None:
        yield f"{spec.name} cannot be measured as a variant: {spec.not_tunable}"
    if spec.runner == "torch":
        yield (
            f"{spec.name} acts on PyTorch's memory allocator, which rccl-tests does not use: "
            "measure it with examples/torch_all_reduce.py"
        )
    # Another library than the one at hand is loaded, so that its releases do not matter.
    if spec.library_file is None:
        yield from _release(spec, site)
    yield from _place(spec, site)
    yield from _calls(spec, site)
    if spec.parameter is Parameter.CHANNELS and site.parameter is not None:
        yield from _channels(int(site.parameter), site)


# --- releases -------------------------------------------------------------------------------------


def _release(spec: VariantSpec, site: VariantSite) -> Iterator[str]:
    families = _families(site)
    if not spec.releases or families is None:
        return
    library = parse_library(site.library)
    version = library[1] if library else None
    having = [
        one
        for one in spec.releases
        if one.library in families and (version is None or one.has(version))
    ]
    others = tuple(one for one in spec.releases if one not in having)
    if not having:
        yield f"{_library(site)} has no {spec.feature}; {name_all(spec.releases)}"
    elif not any(one.has_nodes(site.n_nodes) for one in having):
        nodes = having[0].nodes or (1, 1)
        also = f"; {name_all(others)} it on others too" if others else ""
        yield (
            f"{_library(site)} has {spec.feature} on {nodes[0]} to {nodes[1]} nodes only, "
            f"not on {site.n_nodes}{also}"
        )


def _families(site: VariantSite) -> tuple[LibraryVendor, ...] | None:
    """Vendors whose library it may be; None where nothing is known."""
    library = parse_library(site.library)
    if library is None:
        return (LibraryVendor.RCCLX,) if site.is_rcclx else None
    if library[0] is LibraryVendor.NCCL:
        return (LibraryVendor.NCCL,)
    if site.is_rcclx is None:
        return (LibraryVendor.RCCL, LibraryVendor.RCCLX)
    return (LibraryVendor.RCCLX,) if site.is_rcclx else (LibraryVendor.RCCL,)


def _library(site: VariantSite) -> str:
    library = parse_library(site.library)
    if library is None:
        return "RCCLX"
    number = dotted(library[1])
    return f"RCCLX (RCCL {number})" if site.is_rcclx else f"{library[0].value} {number}"


# --- machine and communicator ---------------------------------------------------------------------


def _place(spec: VariantSpec, site: VariantSite) -> Iterator[str]:
    needs, name = spec.needs, spec.name
    if needs.arch and site.arch is not None and not site.arch.startswith(needs.arch):
        yield f"{name} is for {_any(needs.arch)}, and this is {site.arch}"
    if not allows(needs, site.n_ranks, site.n_nodes):
        yield f"{name} is for {scale_words(needs)}, not for {_scale(site)}"
    if needs.graph and site.graph is False:
        yield f"{name} takes calls of a captured graph only: add --graph 2"
    if needs.registered is True and site.registered is False:
        yield f"{name} takes calls with registered buffers only: add the option -R 1"
    if needs.registered is False and site.registered is True:
        yield f"{name} takes calls without registered buffers only: leave -R 1 out"


def scale_words(needs: VariantNeeds) -> str | None:
    """``8 ranks on one node``; None where every communicator does."""
    words = []
    if needs.ranks:
        words.append(f"{_any(needs.ranks)} rank{'' if needs.ranks == (1,) else 's'}")
    if needs.ranks_multiple_of > 1:
        words.append(f"multiples of {needs.ranks_multiple_of} ranks")
    if needs.one_node:
        words.append("on one node" if words else "one node")
    return " ".join(words) or None


def _scale(site: VariantSite) -> str:
    ranks = "" if site.n_ranks is None else f"{site.n_ranks} rank{'' if site.n_ranks == 1 else 's'}"
    nodes = "" if site.n_nodes is None else f"{site.n_nodes} node{'' if site.n_nodes == 1 else 's'}"
    return " on ".join(part for part in (ranks, nodes) if part)


def _any(values: tuple[object, ...]) -> str:
    words = [str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# --- calls ----------------------------------------------------------------------------------------


def _calls(spec: VariantSpec, site: VariantSite) -> Iterator[str]:
    if not spec.calls:
        return
    wanted = site.collectives or (None,)
    spoken = [
        speaks_of(calls, collective, site.dtype, site.op)
        for calls in spec.calls
        for collective in wanted
    ]
    if all(one is False for one in spoken):
        kinds = " and ".join(
            word for word in (_collectives(site), site.dtype, site.op) if word is not None
        )
        yield f"{spec.name} concerns {calls_words(spec)}, not {kinds}"


def _collectives(site: VariantSite) -> str | None:
    return ", ".join(one.value for one in site.collectives) or None


def calls_words(spec: VariantSpec) -> str:
    """``all_reduce (half, float; sum) and all_gather``; without sizes."""
    kinds = []
    for calls in spec.calls:
        names = ", ".join(one.value for one in calls.collectives) or "every collective"
        inside = [", ".join(calls.dtypes), ", ".join(calls.redops)]
        more = "; ".join(word for word in inside if word)
        kinds.append(f"{names} ({more})" if more else names)
    unique = list(dict.fromkeys(kinds))
    return " and ".join(unique) or "every call"


# --- channels -------------------------------------------------------------------------------------


def _channels(channels: int, site: VariantSite) -> Iterator[str]:
    """Yield the reasons why a minimum of channels comes to nothing."""
    library = parse_library(site.library)
    if library is not None and library[0] is LibraryVendor.NCCL:
        if channels > _NCCL_MOST:
            yield f"NCCL lowers NCCL_MIN_NCHANNELS to {_NCCL_MOST}: ask for channels-{_NCCL_MOST}"
        return
    if site.arch is None or not site.arch.startswith(_BY_CUS):
        return
    dropped = "RCCL drops a larger NCCL_MIN_NCHANNELS to 2 with a WARN"
    most = _RCCL_MOST if site.cu_count is None else min(site.cu_count, _RCCL_MOST)
    # On several nodes the minimum is lowered to 64 before it is compared.
    wish = min(channels, 64) if (site.n_nodes or 1) > 1 else channels
    if wish > most:
        device = "" if site.cu_count is None else f" with {site.cu_count} compute units"
        yield f"a device{device} takes {most} channels at most: {dropped}"
    elif wish > _FEW_RANKS_MOST and site.n_ranks is not None and site.n_ranks < 8:
        yield f"fewer than 8 ranks take {_FEW_RANKS_MOST} channels at most: {dropped}"
    elif channels > 64 and (site.n_nodes or 1) > 1:
        yield "RCCL lowers NCCL_MIN_NCHANNELS to 64 on several nodes: ask for channels-64"
