"""Curves that nobody published, computed from RCCL's cost model and marked ``modelled``.

A collective, setting or scale without a curve takes the nearest curve there is and scales it by
the ratio of the model's times, so that what is known of the node (its slow small messages, say) is
kept and only the difference is computed. The model is that of RCCL 2.28.3 ``src/graph/tuning.cc``
for one node of gfx942, without its correction factors, which describe no machine at these sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import log2
from operator import itemgetter
from typing import Final

from rccltune.simulate.node import NodeCurve, Points, Selector, SimulatedNode, is_setting

Time = Callable[[int], float]
SIZES: Final = tuple(2**power for power in range(3, 35))
SMALL_ENOUGH: Final = 4096
RING_ONLY: Final = ("all_gather", "reduce_scatter", "broadcast", "reduce")
POINT_TO_POINT: Final = ("alltoall", "alltoallv", "gather", "scatter", "hypercube")
_BASE_US: Final = {"ll": 12.0, "ll128": 12.0, "simple": 17.0}
_HOP_US: Final = {
    "tree": {"ll": 0.9, "ll128": 0.9, "simple": 2.3},
    "ring": {"ll": 0.8, "ll128": 0.8, "simple": 2.1},
}
# Shares of the bus bandwidth: LL carries half of what it moves, LL128 120 of 128 bytes (AMD's
# article on the tuner interface);
# the model's own ratios (0.06-0.08) are meant to steer the choice, not to be true.
_SHARE: Final = {
    "tree": {"ll": 0.35, "ll128": 0.65, "simple": 0.45},
    "ring": {"ll": 0.45, "ll128": 0.8, "simple": 1.0},
}
# What the paths without a tuner gain over the best setting (no curves are published; Meta claims
# 10-50 % for its DDA). Shares of the best setting's time.
_PATH_SHARE: Final = {"direct": 0.85, "dda": 0.7, "msccl": 0.8, "mscclpp": 0.6}
_PATH_COLLECTIVES: Final = {
    "direct": ("all_gather",),
    "dda": ("all_reduce", "all_gather", "reduce_scatter", "alltoall"),
    "msccl": ("all_reduce", "all_gather", "alltoall"),
    "mscclpp": ("all_reduce", "all_gather"),
}


def model_us(node: SimulatedNode, collective: str, setting: str, ranks: int, nbytes: int) -> float:
    """The model's time on one node, with plausible bandwidths."""
    algorithm, _, protocol = setting.partition("/")
    graph = node.raw["library"]["graph"][algorithm]
    bus = float(graph["channels"] * graph["bw_intra"] * _SHARE[algorithm][protocol])
    hop = _HOP_US[algorithm][protocol]
    steps = {"all_reduce": 2 * (ranks - 1), "all_gather": ranks - 1, "reduce_scatter": ranks - 1}
    n_steps = steps.get(collective, ranks)
    bandwidth = 0.5 * bus if algorithm == "tree" else bus * ranks / n_steps
    return _BASE_US[protocol] + n_steps * hop + nbytes / (1000 * bandwidth)


def fill_node(node: SimulatedNode) -> SimulatedNode:
    """The node with a modelled curve wherever a scale under ``fill`` lacks one."""
    scales = [(entry["ranks"], entry["placement"]) for entry in node.raw.get("fill", ())]
    if scales:
        node = replace(node, curves=tuple(_extend_curve(node, curve) for curve in node.curves))
    for ranks, placement in scales:
        node = replace(node, curves=(*node.curves, *_fill_scale(node, ranks, placement)))
    return node


def _extend_curve(node: SimulatedNode, curve: NodeCurve) -> NodeCurve:
    """A curve that begins at a large size, continued downwards in the shape of the model.

    Without it a setting that was measured for large messages only would be flat below them.
    """
    where, (first, time_us) = curve.where, curve.points[0]
    setting, collective = where.setting or "", where.collective or ""
    if first <= SMALL_ENOUGH or not collective or not is_setting(setting):
        return curve
    ranks = node.ranks if where.ranks is None else where.ranks
    scale = time_us / model_us(node, collective, setting, ranks, first)
    below = tuple(
        (size, round(scale * model_us(node, collective, setting, ranks, size), 3))
        for size in SIZES
        if size < first
    )
    return replace(curve, points=(*below, *curve.points))


def _fill_scale(node: SimulatedNode, ranks: int, placement: str) -> list[NodeCurve]:
    added: list[NodeCurve] = []

    def find(collective: str, setting: str) -> NodeCurve | None:
        return _plain_curve((*node.curves, *added), collective, setting, ranks, placement)

    def add(collective: str, setting: str, source: str, time_us: Time) -> None:
        if find(collective, setting) is not None:
            return
        where = Selector(collective=collective, setting=setting, ranks=ranks, placement=placement)
        points = tuple((size, round(time_us(size), 3)) for size in SIZES)
        added.append(NodeCurve(where=where, measured=None, source=source, points=points))

    for collective, setting in _list_settings():
        time_us, source = _scale_nearest(node, collective, setting, ranks, placement)
        add(collective, setting, source, time_us)
    for collective in POINT_TO_POINT:
        simple = find("all_gather", "ring/simple")
        add(collective, "p2p", "modelled as all_gather ring/simple", _times(simple))
    all_reduce = _times(find("all_reduce", "ring/simple"))
    add(
        "sendrecv",
        "p2p",
        "modelled from all_reduce",
        lambda n: all_reduce(n) / (2 * (ranks - 1)) + 15,
    )
    for path, collectives in _PATH_COLLECTIVES.items():
        share = _PATH_SHARE[path]
        for collective in collectives:
            best = _fastest((*added, *node.curves), collective, ranks, placement)
            source = f"modelled: {share} of the best setting"
            add(collective, path, source, _times_factor(best, share))
    return added


def _list_settings() -> Iterator[tuple[str, str]]:
    for protocol in _BASE_US:
        yield "all_reduce", f"ring/{protocol}"
        yield "all_reduce", f"tree/{protocol}"
    for collective in RING_ONLY:
        for protocol in _BASE_US:
            yield collective, f"ring/{protocol}"


def _plain_curve(
    curves: tuple[NodeCurve, ...], collective: str, setting: str, ranks: int, placement: str
) -> NodeCurve | None:
    """The curve of the plain library at this scale: no variant, type or half of its own."""
    for curve in curves:
        w = curve.where
        if (w.collective, w.setting) != (collective, setting) or w.variant or w.dtype or w.half:
            continue
        at_scale = w.ranks in (None, ranks) and w.placement in (None, placement)
        if at_scale and w.channels is None:
            return curve
    return None


def _times(curve: NodeCurve | None) -> Time:
    if curve is None:
        raise AssertionError("a setting is filled before what is derived from it")
    points: Points = curve.points
    return lambda nbytes: interpolate(points, nbytes, is_time=True)


def _fastest(curves: tuple[NodeCurve, ...], collective: str, ranks: int, placement: str) -> Time:
    settings = [s for c, s in _list_settings() if c == collective and s != "tree/simple"]
    times = [
        _times(curve)
        for setting in (settings or ["p2p"])
        if (curve := _plain_curve(curves, collective, setting, ranks, placement))
    ]
    return lambda nbytes: min(time(nbytes) for time in times)


def _scale(times: Time, model: Time, model_of_times: Time) -> Time:
    return lambda nbytes: times(nbytes) * model(nbytes) / model_of_times(nbytes)


def _times_factor(time_us: Time, factor: float) -> Time:
    return lambda nbytes: time_us(nbytes) * factor


def _scale_nearest(
    node: SimulatedNode, collective: str, setting: str, ranks: int, placement: str
) -> tuple[Time, str]:
    """The nearest known curve times the model's ratio to what is wanted, and what that was."""

    def model(nbytes: int) -> float:
        return model_us(node, collective, setting, ranks, nbytes)

    for c, s, n, p in (
        ("all_reduce", setting, ranks, placement),
        (collective, setting, node.ranks, "node"),
        ("all_reduce", setting, node.ranks, "node"),
        ("all_reduce", "ring/simple", ranks, placement),
        ("all_reduce", "ring/simple", node.ranks, "node"),
    ):
        curve = _plain_curve(node.curves, c, s, n, p)
        if curve is not None:
            nearest = partial(model_us, node, c, s, n)
            return _scale(_times(curve), model, nearest), f"modelled from {c} {s} with {n} ranks"
    return model, "modelled: RCCL 2.28.3 tuning_model_5"


def _two_to(power: float) -> float:
    """math.exp2, which Python has since 3.11."""
    return float(2.0**power)


def interpolate(points: Points, nbytes: int, *, is_time: bool) -> float:
    """Value of a curve at a size, as native_plugin/sim/times.c has it.

    Straight lines between points on logarithmic axes; constant below the first size; above the
    last a time grows with the size and a factor stays.
    """
    (first, first_value), (last, last_value) = points[0], points[-1]
    at = log2(nbytes)
    if nbytes <= first:
        return _two_to(log2(first_value))
    if nbytes >= last:
        return _two_to(log2(last_value) + (at - log2(last) if is_time else 0.0))
    # Logarithms of the neighbours alone: filling a node asks ten thousand times.
    i = bisect_left(points, nbytes, key=itemgetter(0))
    (low, low_value), (high, high_value) = points[i - 1], points[i]
    x, y = log2(low), log2(low_value)
    return _two_to(y + (log2(high_value) - y) * (at - x) / (log2(high) - x))
