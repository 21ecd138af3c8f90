"""Latency of each hop and bandwidth of each slowest link; and how many hops there are.

The counts are those of RCCL 2.28.3 ``src/graph/tuning.cc``, ``ncclTopoTuneModel``: a ring takes
2(n-1) steps for all_reduce, n-1 for all_gather and reduce_scatter and n for broadcast and reduce,
of which 2(nodes-1) or nodes-1 cross nodes; a tree takes 2(n/nodes - 1) steps of the chain inside
each node and 2 log2(nodes) across nodes. RCCL knows no packages inside a node: there the hops are
divided as a ring or chain that takes the devices in order passes them.

What the measured scales cannot tell apart is not told apart: 8, 16 and 32 ranks that fill OAMs of
eight have 14, 28 and 56 hops inside and 0, 2 and 6 across OAMs, and no arithmetic gets two times
out of that. Terms that go together are then one unknown, in RCCL's own ratio to each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rccltune.model import Algorithm, Collective, Curve, Hop, Protocol, Role, Setting, Span

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


Array = npt.NDArray[np.floating[Any]]
Group = tuple[str, ...]
BASE: Final = "base"
# The finest first; the first that the measured scales can separate is taken.
_LADDER: Final[tuple[tuple[Group, ...], ...]] = (
    ((BASE,), (Hop.INSIDE.value,), (Hop.ACROSS.value,), (Hop.NODES.value,)),
    ((BASE,), (Hop.INSIDE.value, Hop.ACROSS.value), (Hop.NODES.value,)),
    ((BASE, Hop.INSIDE.value, Hop.ACROSS.value), (Hop.NODES.value,)),
    ((BASE,), (Hop.INSIDE.value, Hop.ACROSS.value, Hop.NODES.value)),
    ((BASE, Hop.INSIDE.value, Hop.ACROSS.value, Hop.NODES.value),),
)
# Columns of unit length whose least singular value is smaller are as good as dependent.
_SEPARABLE: Final = 0.02
# A scale with another slowest link says less of this one than its distance alone would.
_OTHER_LINK: Final = 0.3
# Relative error beyond which a point pulls less and less, as in the fit of one curve.
_ROBUST: Final = 0.1
_ROUNDS: Final = 20
# A curve says where latency ends and bandwidth begins from so many sizes over such a range.
_SIZES: Final = 4
_RANGE: Final = 1024
# Weight of what other curves say beside one of a few sizes: it decides only what that leaves open.
_BEFORE: Final = 1e-3
_EPSILON: Final = 1e-3
TINY_US: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Measured:
    """One curve and what its ranks lay on."""

    span: Span
    curve: Curve


@dataclass(frozen=True, slots=True)
class Lines:
    """Latency + bytes over bandwidth, over scales.

    Attributes:
        terms_us: of the base and of a hop over each link, by name.
        us_per_byte: over each link that is the slowest of a measured scale.
        groups: terms that were told apart, or were taken together.
    """

    collective: Collective
    algorithm: Algorithm
    terms_us: dict[str, float]
    us_per_byte: dict[Hop, float]
    groups: tuple[Group, ...]

    def latency_us(self, span: Span) -> float:
        """Time in µs of a call without bytes."""
        counts = counted(self.collective, self.algorithm, span)
        return sum(self.terms_us[name] * count for name, count in counts.items())

    def time_us(self, span: Span, nbytes: float) -> float:
        """Time in µs; a link that no measured scale has is taken for the slowest that one has.

        Never nothing, whatever fit strange times may have: others are divided by it.
        """
        return max(self.latency_us(span) + nbytes * self.slope(span), TINY_US)

    def slope(self, span: Span) -> float:
        """µs for each byte of a call."""
        slope = self.us_per_byte.get(span.slowest, max(self.us_per_byte.values()))
        return traffic(self.collective, self.algorithm, span) * slope


def counted(collective: Collective, algorithm: Algorithm, span: Span) -> dict[str, int]:
    """How often each term of the latency occurs."""
    found = hops(collective, algorithm, span) or {}
    return {BASE: 1, **{link.value: count for link, count in found.items()}}


def fit_lines(measured: Sequence[Measured], target: Span) -> Lines | None:
    """Fit for one scale, robustly, on relative error; near scales weigh more.

    A curve of a few sizes says nothing of what they do not show: a small call nothing of the
    bandwidth. There the others say it, as they would have without that curve.

    Args:
        measured: curves of one setting, collective and view, one for each span.
        target: for which scale.

    Returns:
        None for a setting of which RCCL counts no steps.
    """
    key = measured[0].curve.key
    algorithm = algorithm_of(key.setting)
    if algorithm is None or hops(key.collective, algorithm, target) is None:
        return None
    wide = [one for one in measured if is_wide(one.curve)]
    before = fit_lines(wide, target) if 0 < len(wide) < len(measured) else None
    return _fitted(_Problem(measured, target, algorithm, key.setting, key.collective), before)


@dataclass(frozen=True, slots=True)
class _Problem:
    measured: Sequence[Measured]
    target: Span
    algorithm: Algorithm
    setting: Setting
    collective: Collective

    @property
    def spans(self) -> list[Span]:
        return [one.span for one in self.measured]

    def columns(self, span: Span, groups: Sequence[Group]) -> list[float]:
        """RCCL's own latency of each group of terms in µs."""
        names = usual_terms(self.algorithm, self.setting)
        counts = counted(self.collective, self.algorithm, span)
        return [sum(names[name] * counts[name] for name in group) for group in groups]


def is_wide(curve: Curve) -> bool:
    """Whether a curve shows by itself where latency ends and bandwidth begins."""
    return len(curve.points) >= _SIZES and curve.max_nbytes >= _RANGE * curve.min_nbytes


def _fitted(problem: _Problem, before: Lines | None) -> Lines:
    groups = _separable(problem)
    links = sorted({span.slowest for span in problem.spans}, key=list(Hop).index)
    rows: list[list[float]] = []
    weights: list[float] = []
    for one in problem.measured:
        latency = problem.columns(one.span, groups)
        moved = traffic(problem.collective, problem.algorithm, one.span)
        for point in one.curve.points:
            slopes = [moved * point.nbytes * (one.span.slowest is link) for link in links]
            rows.append([value / point.time_us for value in (*latency, *slopes)])
        n_points = len(one.curve.points)
        weights += [_weight(one.span, problem.target) / n_points] * n_points
    names = usual_terms(problem.algorithm, problem.setting)
    if before is not None:
        for column, usually in enumerate(_as_before(before, groups, links, names)):
            rows.append([float(column == i) / usually for i in range(len(groups) + len(links))])
            weights.append(_BEFORE)
    found = _solve(np.array(rows), np.sqrt(np.array(weights)))
    return Lines(
        collective=problem.collective,
        algorithm=problem.algorithm,
        terms_us={n: names[n] * x for g, x in zip(groups, found, strict=False) for n in g},
        us_per_byte=dict(zip(links, found[len(groups) :], strict=True)),
        groups=groups,
    )


def _as_before(
    before: Lines, groups: Sequence[Group], links: Sequence[Hop], names: dict[str, float]
) -> list[float]:
    """What each unknown would be by the curves that show a whole range of sizes."""
    terms = [
        max(sum(before.terms_us[n] for n in group) / sum(names[n] for n in group), _EPSILON)
        for group in groups
    ]
    slowest = max(before.us_per_byte.values())
    slopes = [max(before.us_per_byte.get(link, slowest), _EPSILON**3) for link in links]
    return [*terms, *slopes]


def usual_terms(algorithm: Algorithm, setting: Setting) -> dict[str, float]:
    """RCCL's own size of each term in µs."""
    base, near = usual(algorithm, setting)
    return {BASE: base, **{link.value: time for link, time in near.items()}}


def _weight(span: Span, target: Span) -> float:
    """Halved twice for each doubling that a scale is away."""
    away = abs(log2(span.scale.n_ranks / target.scale.n_ranks))
    return (1 if span.slowest is target.slowest else _OTHER_LINK) / (1 + away) ** 2


def _separable(problem: _Problem) -> tuple[Group, ...]:
    """The finest groups of terms that these scales tell apart."""
    spans = problem.spans
    counts = [counted(problem.collective, problem.algorithm, span) for span in spans]
    seen = {name for name in counts[0] if any(one[name] for one in counts)}
    ladder = [_with_unseen(groups, seen) for groups in _LADDER]
    for groups in ladder:
        table = np.array([problem.columns(span, groups) for span in spans], dtype=float)
        table /= np.linalg.norm(table, axis=0)
        if len(groups) <= len(spans):
            least = np.linalg.svd(table, compute_uv=False)[-1]
            if least > _SEPARABLE:
                return groups
    return ladder[-1]


def _with_unseen(groups: Sequence[Group], seen: set[str]) -> tuple[Group, ...]:
    """Terms of which no measured scale has any go with the nearest one of which some has."""
    made: list[Group] = []
    waiting: Group = ()
    for group in groups:
        if seen.isdisjoint(group):
            made, waiting = ([*made[:-1], (*made[-1], *group)], ()) if made else (made, group)
        else:
            made.append((*waiting, *group))
            waiting = ()
    return tuple(made)


def _solve(rows: Array, weight: Array) -> list[float]:
    """Non-negative unknowns of rows that should all be 1, by soft L1."""
    # Not nnls: that of scipy 1.15, the last for Python 3.10, misses the least now and then.
    from scipy.optimize import lsq_linear

    scale = np.maximum(np.abs(rows).max(axis=0), 1e-300)
    table = rows / scale
    pull = weight
    solution = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        solution = lsq_linear(table * pull[:, None], pull, (0, np.inf), method="bvls").x
        error = table @ solution - 1
        pull = weight / (1 + (error / _ROBUST) ** 2) ** 0.25
    return [float(x) for x in solution / scale]
