"""Data of the channels figure: what more channels buy, at a handful of sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import Setting
from rccltune.report.figures.scene import Scene, Series

MAX_SIZES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPoint:
    """One setting at one size.

    Attributes:
        on_front: no other setting is as fast with as few channels.
        chosen: what the rules choose at this size.
    """

    setting: Setting
    channels: int
    time_us: float
    on_front: bool = False
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPanel:
    """One size.

    Attributes:
        lines: one for each algorithm and protocol, by rising channels.
        front: the Pareto front over all of them, by rising channels and falling time.
        baseline_us: its channels are the library's own choice, so it has no place on the axis.
    """

    nbytes: int
    lines: tuple[tuple[ChannelPoint, ...], ...]
    front: tuple[ChannelPoint, ...]
    baseline_us: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelData:
    """Panels by rising size."""

    scene: Scene
    panels: tuple[ChannelPanel, ...]


def channel_data(scene: Scene) -> ChannelData | None:
    """Panels at sizes where channels were swept, None where they never were."""
    swept = [s for s in scene.everyone if s.setting.channels is not None]
    counts: dict[int, set[int | None]] = defaultdict(set)
    for series in swept:
        for nbytes in series.time_by_size:
            counts[nbytes].add(series.setting.channels)
    sizes = sorted(nbytes for nbytes, channels in counts.items() if len(channels) > 1)
    if not sizes:
        return None
    panels = (_panel(scene, swept, nbytes) for nbytes in evenly(sizes, MAX_SIZES))
    return ChannelData(scene=scene, panels=tuple(panels))


def evenly(values: Sequence[int], at_most: int) -> tuple[int, ...]:
    """At most so many values, evenly spaced by rank, the first and the last among them."""
    if len(values) <= at_most:
        return tuple(values)
    step = (len(values) - 1) / (at_most - 1)
    return tuple(values[round(i * step)] for i in range(at_most))


def pareto(points: Iterable[tuple[int, float]]) -> set[tuple[int, float]]:
    """Points to which no other is equal or better in both channels and time.

    Equal points do not beat each other.
    """
    front: set[tuple[int, float]] = set()
    least = float("inf")
    for channels, time_us in sorted(points):
        if time_us < least:
            front.add((channels, time_us))
            least = time_us
    return front


def _panel(scene: Scene, swept: Sequence[Series], nbytes: int) -> ChannelPanel:
    here = [(s, s.time_by_size[nbytes]) for s in swept if nbytes in s.time_by_size]
    front = pareto((s.setting.channels or 0, time) for s, time in here)
    zone = next((z for z in scene.zones if z.min_nbytes <= nbytes <= z.max_nbytes), None)
    lines: dict[object, list[ChannelPoint]] = defaultdict(list)
    for series, time_us in here:
        channels = series.setting.channels or 0
        lines[series.setting.algorithm, series.setting.protocol].append(
            ChannelPoint(
                setting=series.setting,
                channels=channels,
                time_us=time_us,
                on_front=(channels, time_us) in front,
                chosen=zone is not None and zone.setting == series.setting,
            )
        )
    rising = tuple(tuple(sorted(line, key=lambda p: p.channels)) for line in lines.values())
    on_front = sorted((p for line in rising for p in line if p.on_front), key=lambda p: p.channels)
    baseline = scene.baseline.time_by_size.get(nbytes) if scene.baseline else None
    return ChannelPanel(nbytes=nbytes, lines=rising, front=tuple(on_front), baseline_us=baseline)
