"""Latency as base + steps x time of a step, over several scales.

One scale gives one latency and nothing to split it with; dividing it by a number of steps from a
text is numerology. AMD's article on CPX (2026) counts 2n-1 = 127 steps for a ring of 64 ranks and
2 log2 n = 12 for a tree. RCCL's own model (2.28.3 ``src/graph/tuning.cc``) counts 2(n-1) = 126 for
the ring and, inside a node, 2(n-1) = 126 for the tree too, since there the tree is a chain: only
between nodes does it grow with the logarithm. Both counts are shown, RCCL's is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log2

import numpy as np

from rccltune.model.curves import Curve, Model, Separation
from rccltune.model.settings import CurveKey, Role, Scale
from rccltune.model.vocabulary import Algorithm, Collective


def rccl_steps(collective: Collective, algorithm: Algorithm, scale: Scale) -> int | None:
    """Sequential steps in RCCL's latency term; None where it does not count any.

    Ring: nsteps of ``tuning.cc``, which is 2(n-1), n-1 or, for broadcast and reduce, n. Tree:
    twice the chain inside a node plus twice the whole logarithm of the number of nodes.
    """
    n_ranks, n_nodes = scale.n_ranks, scale.n_nodes
    if algorithm is Algorithm.RING and collective.is_tunable:
        passes = collective.ring_passes
        return n_ranks if passes is None else passes * (n_ranks - 1)
    if algorithm is Algorithm.TREE and collective.has_tree:
        return 2 * (n_ranks // n_nodes - 1 + (n_nodes.bit_length() - 1))
    return None


def blog_steps(collective: Collective, algorithm: Algorithm, scale: Scale) -> int | None:
    """Steps as AMD's article on CPX counts them: 127 and 12 for an all_reduce of 64 ranks."""
    if collective is not Collective.ALL_REDUCE:
        return None
    if algorithm is Algorithm.RING:
        return 2 * scale.n_ranks - 1
    if algorithm is Algorithm.TREE:
        return round(2 * log2(scale.n_ranks))
    return None


def separate(curves: Sequence[Curve]) -> tuple[Separation, ...]:
    """Split the latencies of each setting that was measured at two scales of one link class.

    A link class is one placement of ranks on one number of nodes: between a group inside an OAM
    and a whole node, or between one node and two, the step itself changes, and a line through
    both means nothing.

    Returns:
        Nothing for a setting without such a partner: one latency cannot be split in two.
    """
    groups: dict[CurveKey, list[Curve]] = {}
    for curve in curves:
        key = curve.key
        if key.setting.role is Role.FORCED and key.setting.algorithm is not None:
            nodes = key.scale.n_nodes
            anywhere = replace(key, scale=Scale(n_nodes=nodes, n_ranks=nodes))
            groups.setdefault(anywhere, []).append(curve)
    separations = (_separation(group) for group in groups.values() if len(group) > 1)
    return tuple(separation for separation in separations if separation is not None)


def _separation(group: Sequence[Curve]) -> Separation | None:
    ordered = sorted(group, key=lambda curve: curve.key.scale.n_ranks)
    key = ordered[0].key
    algorithm = key.setting.algorithm
    scales = tuple(curve.key.scale for curve in ordered)
    if algorithm is None:
        return None
    counted = [rccl_steps(key.collective, algorithm, scale) for scale in scales]
    steps = tuple(step for step in counted if step is not None)
    latencies = tuple(
        fit.segments[0].latency_us for c in ordered if (fit := c.fit(Model.LINEAR)) is not None
    )
    if len(set(steps)) < 2 or len(steps) != len(latencies):
        return None
    blog = tuple(blog_steps(key.collective, algorithm, scale) for scale in scales)
    base, per_step = _line(steps, latencies)
    known = [step for step in blog if step is not None]
    return Separation(
        target=key.target,
        view=key.view,
        setting=key.setting,
        scales=scales,
        latencies_us=latencies,
        steps=steps,
        blog_steps=blog,
        base_us=base,
        per_step_us=per_step,
        blog_per_step_us=_line(known, latencies)[1] if len(known) == len(steps) else None,
    )


def _line(steps: Sequence[int], latencies: Sequence[float]) -> tuple[float, float]:
    """Non-negative base and time per step, least squares."""
    # Not nnls: that of scipy 1.15, the last for Python 3.10, misses the least now and then.
    from scipy.optimize import lsq_linear

    matrix = np.column_stack([np.ones(len(steps)), np.array(steps, dtype=float)])
    base, per_step = lsq_linear(matrix, np.array(latencies), (0, np.inf), method="bvls").x
    return float(base), float(per_step)
