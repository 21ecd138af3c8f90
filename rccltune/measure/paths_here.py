"""Calls of a sweep that go past the tuner here, said before any time is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rccltune.measure.site import Site
from rccltune.model.errors import TooLittleDataError
from rccltune.model.measurement import Sweep
from rccltune.model.units import format_span
from rccltune.simulate.node import SimulatedNode
from rccltune.variants.availability import VariantSite
from rccltune.variants.paths_past import PathPast, paths_past, sentences, takes_all

# What a node file calls the paths of the catalog; its library takes those that it lists.
_PLAYED: Final = {
    "DDA": "dda",
    "MSCCL": "msccl",
    "MSCCL++": "mscclpp",
    "direct AllGather": "direct",
}


def paths_here(site: Site, sweep: Sweep, variables: Mapping[str, str]) -> tuple[PathPast, ...]:
    """Paths that take calls of a sweep's sizes before a tuner is asked.

    Args:
        site: where it runs.
        sweep: its collectives, sizes, type and operation.
        variables: of the site, that every rank gets.
    """
    variant_site = VariantSite(
        library=site.library,
        is_rcclx=site.is_rcclx,
        arch=site.fingerprint.arch,
        n_nodes=site.scale.n_nodes,
        n_ranks=site.scale.n_ranks,
        dtype=sweep.dtypes[0],
        op=sweep.op,
        registered=False,
    )
    paths = paths_past(variant_site, sweep.collectives, {**variables, **dict(site.environment)})
    played = None if site.node is None else _played(site.node)
    return tuple(
        one
        for one in paths
        if one.min_nbytes <= sweep.max_nbytes
        and one.max_nbytes >= sweep.min_nbytes
        and (played is None or _PLAYED.get(one.path) in played)
    )


def _played(node: SimulatedNode) -> set[str]:
    takes_direct = node.raw["library"].get("bypasses", True)
    return {one.path for one in node.bypasses} | ({"direct"} if takes_direct else set())


def check_tuner_is_asked(paths: Sequence[PathPast], sweep: Sweep) -> None:
    """Check that a tuner may be asked about some call of a sweep.

    Raises:
        TooLittleDataError: it is sure that none is.
    """
    low, high = sweep.min_nbytes, sweep.max_nbytes
    tunable = [one for one in sweep.collectives if one.is_tunable]
    if not tunable or not all(takes_all(paths, one, low, high) for one in tunable):
        return
    switches = " ".join(dict.fromkeys(one.switch for one in paths if one.is_sure))
    raise TooLittleDataError(
        f"no tuner is asked here at any size from {format_span(low, high)}: no rule could act. "
        f"{'. '.join(sentences(paths))}",
        hint=f"measure larger sizes (--max-bytes), or tune for jobs that export {switches}, with "
        "the same variables after --env.",
    )
