"""Hops of a collective over each kind of link, and the traffic on the slowest one.

The counts are those of RCCL 2.28.3 ``src/graph/tuning.cc``, ``ncclTopoTuneModel``: a ring takes
2(n-1) steps for all_reduce, n-1 for all_gather and reduce_scatter and n for broadcast and reduce,
of which 2(nodes-1) or nodes-1 cross nodes; a tree takes 2(n/nodes - 1) steps of the chain inside
each node and 2 log2(nodes) across nodes. RCCL knows no packages inside a node: there the hops are
divided as a ring or chain that takes the devices in order passes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rccltune.model import Algorithm, Collective, Hop, Protocol, Role, Setting, Span

Hops = Mapping[Hop, int]
# tuning_model_5 (gfx942) of the same file: baseLatencies, and hwLatencies of NVLINK and NET in µs.
_BASE_US: Final = {Protocol.LL: 12.0, Protocol.LL128: 12.0, Protocol.SIMPLE: 17.0}
_NEAR_US: Final = {
    Algorithm.TREE: {Protocol.LL: 0.9, Protocol.LL128: 0.9, Protocol.SIMPLE: 2.3},
    Algorithm.RING: {Protocol.LL: 0.8, Protocol.LL128: 0.8, Protocol.SIMPLE: 2.1},
}
_FAR_US: Final = {
    Algorithm.TREE: {Protocol.LL: 10.5, Protocol.LL128: 10.5, Protocol.SIMPLE: 25.0},
    Algorithm.RING: {Protocol.LL: 9.5, Protocol.LL128: 9.5, Protocol.SIMPLE: 320.0},
}


def algorithm_of(setting: Setting) -> Algorithm | None:
    """By which algorithm a curve is modelled; None where RCCL counts no steps of it.

    The untouched library chooses by size and scale, so that one count cannot be right everywhere;
    a ring's is taken, and what that costs shows in the error at scales left out.
    """
    if setting.role in (Role.BASELINE, Role.SILENT):
        return Algorithm.RING
    known = (Algorithm.RING, Algorithm.TREE)
    return setting.algorithm if setting.algorithm in known else None


def hops(collective: Collective, algorithm: Algorithm, span: Span) -> Hops | None:
    """Hops over each link; None where RCCL counts none.

    Returns:
        Their sum is the number of sequential steps in RCCL's latency term.
    """
    n_ranks, n_nodes = span.scale.n_ranks, span.scale.n_nodes
    if algorithm is Algorithm.TREE and collective.has_tree:
        packages = span.n_oams // n_nodes
        return {
            Hop.INSIDE: 2 * (n_ranks // n_nodes - packages),
            Hop.ACROSS: 2 * (packages - 1),
            Hop.NODES: 2 * (n_nodes.bit_length() - 1),
        }
    if algorithm is not Algorithm.RING or not collective.is_tunable:
        return None
    passes = collective.ring_passes or 1
    found = {
        Hop.INSIDE: passes * (n_ranks - span.n_oams),
        Hop.ACROSS: passes * (span.n_oams - n_nodes),
        Hop.NODES: passes * (n_nodes - 1),
    }
    if collective.ring_passes is None:
        # RCCL counts n steps here, one more than the edges of a chain.
        found[span.slowest] += 1
    return found


def traffic(collective: Collective, algorithm: Algorithm, span: Span) -> float:
    """Bytes over the slowest link for each byte of the call, as RCCL's bandwidth term has them.

    nsteps / n for a ring and 2 for a tree, whose bandwidth the same file halves.
    """
    if algorithm is Algorithm.TREE:
        return 2.0
    n_ranks = span.scale.n_ranks
    passes = collective.ring_passes
    return 1.0 if passes is None else passes * (n_ranks - 1) / n_ranks


def is_chunked(collective: Collective, algorithm: Algorithm) -> bool:
    """Whether each step sends a rank's share; otherwise the whole call is passed on in slices."""
    return algorithm is Algorithm.RING and collective.ring_passes is not None


def usual(algorithm: Algorithm, setting: Setting) -> tuple[float, dict[Hop, float]]:
    """RCCL's own base latency and time of each hop in µs: what terms are joined by.

    Returns:
        Those of LL where no protocol is named: what the library takes for small calls.
    """
    protocol = setting.protocol or Protocol.LL
    near = _NEAR_US[algorithm][protocol]
    far = _FAR_US[algorithm][protocol]
    return _BASE_US[protocol], {Hop.INSIDE: near, Hop.ACROSS: near, Hop.NODES: far}
