"""The noise-free time of a setting on a node, computed independently of the C program.

Rules (native_plugin/sim/times.c has the same, tests compare): straight lines between points on
logarithmic axes; constant below the first size; above the last a time grows with the size and a
factor stays. The most particular curve that fits counts, then every effect that fits multiplies.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from math import floor, log2
from typing import Final

from rccltune.model import defaults
from rccltune.simulate.modelled import interpolate
from rccltune.simulate.node import Effect, Points, Selector, SimulatedNode

NOTHING_US: Final = 0.05


def truth(
    node: SimulatedNode,
    collective: str,
    setting: str,
    nbytes: int,
    *,
    channels: int = 0,
    ranks: int | None = None,
    placement: str = defaults.RANK_PLACEMENT,
    variants: tuple[str, ...] = (),
    in_place: bool = False,
    dtype: str = defaults.DTYPE,
    mixed: bool = False,
    mixed_launch: bool = False,
    ran_before: Collection[str] = (),
    ran_in_pass_before: Collection[str] = (),
    first_after_switch: bool = False,
) -> float | None:
    """Microseconds of one call, None where the node file says nothing.

    Args:
        node: from ``load_node``.
        collective: ``all_reduce`` and the like.
        setting: ``tree/ll``, or a path (``direct``, ``p2p``) for what asks no tuner.
        nbytes: size as the tuner sees it.
        channels: 0 is the node's own default; a tuner's answer otherwise.
        ranks: of the communicator; None is all of the node.
        placement: which devices a smaller communicator uses (``one-iod``, ``one-oam`` …).
        variants: names of the variants that hold.
        in_place: which half of a row.
        dtype: element type.
        mixed: whether the pass over the sizes ran other settings as well.
        mixed_launch: whether an earlier pass of the launch did.
        ran_before: settings that ran earlier in the launch, in whatever pass.
        ran_in_pass_before: settings that ran in the pass before this one; the warm-up is one.
        first_after_switch: whether this is the first size of a pass, and another setting ran there
            in the pass before.
    """
    asked = Selector(
        collective=collective,
        setting=setting,
        channels=0 if channels == node.channels else channels,
        ranks=node.ranks if ranks is None else ranks,
        placement=placement,
        half="in" if in_place else "out",
        dtype=dtype,
        min_bytes=nbytes,
    )
    order = {variant.name: index for index, variant in enumerate(node.variants)}
    best, best_score = None, (-1, False, False, False, False, False)
    for curve in node.curves:
        where = curve.where
        if not _fits(where, asked, variants):
            continue
        score = (
            -1 if where.variant is None else order[where.variant],
            where.channels is not None,
            where.ranks is not None,
            where.placement is not None,
            where.half is not None,
            where.dtype is not None,
        )
        if best is None or score >= best_score:
            best, best_score = curve, score
    if best is None:
        return None
    if nbytes == 0:
        return NOTHING_US
    time_us = interpolate(best.points, nbytes, is_time=True)
    ran = {"launch": ran_before, "pass": ran_in_pass_before}
    for effect in node.effects:
        held = {False: True, True: mixed, "launch": mixed or mixed_launch}[effect.mixed]
        held = held and (effect.after is None or effect.after[0] in ran[effect.after[1]])
        held = held and (first_after_switch or not effect.first)
        if held and _fits(effect.where, asked, variants):
            time_us *= _factor(effect, asked, exact_channels=best.where.channels is not None)
    return time_us


def variants_holding(
    node: SimulatedNode,
    environment: Mapping[str, str],
    *,
    graph_launches: int = 0,
    registered: bool = False,
    threads: int = 1,
    gpus: int = 1,
    patches: Collection[str] = (),
) -> tuple[str, ...]:
    """Names of the node file's variants whose conditions all hold, for ``truth``.

    Args:
        node: from ``load_node``.
        environment: of the benchmark.
        graph_launches: its ``-G``.
        registered: whether buffers are, by its ``-R`` or for a graph.
        threads: its ``-t``.
        gpus: its ``-g``.
        patches: those of the library.
    """

    def holds(kind: str, name: str, value: str) -> bool:
        return {
            "env": environment.get(name) == value,
            "set": bool(environment.get(name)),
            "unset": not environment.get(name),
            "graph": graph_launches > 0,
            "launches": str(graph_launches) == value,
            "registered": registered,
            "threads": threads > 1,
            "gpus": gpus > 1,
            "patch": name in patches,
            "without": name not in holding,
        }[kind]

    holding: list[str] = []
    for variant in node.variants:
        holding += [variant.name] * all(holds(*when) for when in variant.when)
    return tuple(holding)


def _fits(where: Selector, asked: Selector, variants: tuple[str, ...]) -> bool:
    names = ("collective", "setting", "channels", "ranks", "placement", "half", "dtype")
    same = all(getattr(where, n) in (None, getattr(asked, n)) for n in names)
    in_range = where.min_bytes <= asked.min_bytes <= where.max_bytes
    return same and in_range and (where.variant is None or where.variant in variants)


def _factor(effect: Effect, asked: Selector, *, exact_channels: bool) -> float:
    nbytes = asked.min_bytes
    if effect.factor is not None:
        return effect.factor
    if effect.points:
        return interpolate(effect.points, nbytes, is_time=False)
    if effect.between is not None:
        low, high, factor = effect.between
        within = 2.0 ** (log2(nbytes) - floor(log2(nbytes)))
        return factor if low <= within <= high else 1.0
    if exact_channels or not asked.channels:
        return 1.0
    return _by_channels(effect.by_channels, asked.channels, nbytes)


def _by_channels(rows: tuple[tuple[int, Points], ...], channels: int, nbytes: int) -> float:
    counts = [count for count, _ in rows]
    factors = [log2(interpolate(points, nbytes, is_time=False)) for _, points in rows]
    if channels <= counts[0]:
        return float(2.0 ** factors[0])
    if channels >= counts[-1]:
        return float(2.0 ** factors[-1])
    i = bisect_left(counts, channels)
    part = (log2(channels) - log2(counts[i - 1])) / (log2(counts[i]) - log2(counts[i - 1]))
    return float(2.0 ** (factors[i - 1] + (factors[i] - factors[i - 1]) * part))
