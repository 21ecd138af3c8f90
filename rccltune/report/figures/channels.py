"""Data of the channels figure: what more channels buy, at a handful of sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import AS_GOOD, Setting
from rccltune.report.figures.scene import Scene

MAX_SIZES: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelLine:
    """One size.

    Attributes:
        fastest: by rising number of channels, the least time in µs and the setting that had it.
    """

    nbytes: int
    fastest: Mapping[int, tuple[float, Setting]]

    @property
    def best_us(self) -> float:
        """Least time at this size with any number of channels."""
        return min(time_us for time_us, _ in self.fastest.values())

    @property
    def fewest(self) -> int:
        """The fewest channels whose time is within ``AS_GOOD`` of the least."""
        most_us = self.best_us * (1 + AS_GOOD)
        return min(n for n, (time_us, _) in self.fastest.items() if time_us <= most_us)


def channel_data(scene: Scene) -> tuple[ChannelLine, ...]:
    """Lines by rising size, at sizes with several numbers of channels; none where none has."""
    found: dict[int, dict[int, list[tuple[float, Setting]]]] = defaultdict(dict)
    for series in scene.everyone:
        channels = series.setting.channels
        for nbytes, time_us in series.time_by_size.items() if channels is not None else ():
            found[nbytes].setdefault(channels or 0, []).append((time_us, series.setting))
    sizes = sorted(nbytes for nbytes, counts in found.items() if len(counts) > 1)
    return tuple(
        ChannelLine(
            nbytes=nbytes,
            fastest={n: min(times, key=_time) for n, times in sorted(found[nbytes].items())},
        )
        for nbytes in evenly(sizes, MAX_SIZES)
    )


def _time(pair: tuple[float, Setting]) -> float:
    return pair[0]


def evenly(values: Sequence[int], at_most: int) -> tuple[int, ...]:
    """At most so many values, evenly spaced by rank, the first and the last among them."""
    if len(values) <= at_most:
        return tuple(values)
    step = (len(values) - 1) / (at_most - 1)
    return tuple(values[round(i * step)] for i in range(at_most))
