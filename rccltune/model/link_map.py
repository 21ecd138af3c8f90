"""Records of links: rates pair by pair."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import ClassVar

from rccltune.model.schema import Line, Number, Text, Whole


class LinkClass(Enum):
    """Class of the link between two devices of a node, the nearest first; values are JSON's."""

    SAME_IOD = "same-iod"
    SAME_OAM = "same-oam"
    INSIDE_OAM = "inside-oam"
    ONE_LINK = "one-link"
    MORE_LINKS = "more-links"
    OTHER_OAM = "other-oam"
    NO_XGMI = "no-xgmi"
    UNKNOWN = "device-to-device"

    @property
    def meaning(self) -> str:
        """A few words for people."""
        return _MEANING[self]


_MEANING = {
    LinkClass.SAME_IOD: "same IOD",
    LinkClass.SAME_OAM: "same OAM, other IOD",
    LinkClass.INSIDE_OAM: "same OAM, IODs not known",
    LinkClass.ONE_LINK: "other OAM, one XGMI link",
    LinkClass.MORE_LINKS: "other OAM, several XGMI links",
    LinkClass.OTHER_OAM: "other OAM, distance not known",
    LinkClass.NO_XGMI: "other OAM, no XGMI",
    LinkClass.UNKNOWN: "device to device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, least and most of several figures."""

    median: Number
    least: Number
    most: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTimes:
    """Times of sendrecv between two devices; each sends to the other at the same time.

    Attributes:
        first: number of the device, as ``*_VISIBLE_DEVICES`` counts.
        names: addresses of both.
        small_us: time of one call with the small size, one of each communicator.
        large_us: the same with the large size.
        run: number of the start that has them.
        failure: why the pair has no figures, None where it has.
    """

    first: Whole
    second: Whole
    names: tuple[Line, Line]
    link: LinkClass
    small_us: tuple[Number, ...] = ()
    large_us: tuple[Number, ...] = ()
    run: Whole = 1
    failure: Text | None = None

    def __post_init__(self) -> None:
        """A pair has figures or a reason."""
        if self.failure is None and not (self.small_us and self.large_us):
            raise ValueError(f"pair {self.first}-{self.second} has neither times nor a failure")

    @property
    def latency_us(self) -> float | None:
        """Median time of the small size, None where the pair failed."""
        return None if self.failure else median(self.small_us)

    @property
    def log(self) -> str:
        """Folder of its start, in the session."""
        return f"links/pair-{self.first}-{self.second}/runs/{self.run}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """One class of links.

    Attributes:
        n_there: pairs of this class on the machine.
        n_measured: pairs that have figures.
        n_failed: pairs that were tried and have none.
        latency_us: over the pairs' medians; None where every pair failed.
        gb_per_s: the same, in one direction.
    """

    link: LinkClass
    n_there: Whole
    n_measured: Whole
    n_failed: Whole
    latency_us: Spread | None
    gb_per_s: Spread | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMap:
    """Latency and bandwidth of pairs of devices on one machine.

    Attributes:
        machine: product and mode, as a reader would name it.
        node: name of the simulated node, None on hardware.
        measured: when it was finished, UTC, ISO 8601.
        library: what it calls itself.
        repeats: communicators of each pair.
        devices: numbers of the devices that a job can use.
        grid: a row for each device: for each device the position of the pair's class in
            ``LinkClass``, ``-`` for itself.
        pairs: those that were tried, the nearest class first.
    """

    FORMAT: ClassVar[int] = 2

    machine: Line
    simulated: bool
    node: Line | None = None
    measured: Line
    library: Line | None = None
    small_nbytes: Whole
    large_nbytes: Whole
    repeats: Whole
    devices: tuple[Whole, ...]
    grid: tuple[Line, ...]
    pairs: tuple[PairTimes, ...]

    @property
    def times_text(self) -> str:
        """``3 communicators each``."""
        return f"{self.repeats} communicator{'' if self.repeats == 1 else 's'} each"

    @property
    def failed(self) -> tuple[PairTimes, ...]:
        """Pairs without figures."""
        return tuple(pair for pair in self.pairs if pair.failure)

    @property
    def rows(self) -> tuple[LinkRow, ...]:
        """One row for each class that the machine has, the nearest first."""
        cells = "".join(self.grid)
        there = {link: cells.count(str(i)) // 2 for i, link in enumerate(LinkClass)}
        return tuple(self._row(link, n) for link, n in there.items() if n)

    def bandwidth(self, pair: PairTimes) -> float | None:
        """GB/s in one direction with the large size, None where the pair failed."""
        return None if pair.failure else self.large_nbytes / median(pair.large_us) / 1000.0

    def _row(self, link: LinkClass, n_there: int) -> LinkRow:
        tried = [pair for pair in self.pairs if pair.link is link]
        latencies = [t for pair in tried if (t := pair.latency_us) is not None]
        bandwidths = [b for pair in tried if (b := self.bandwidth(pair)) is not None]
        return LinkRow(
            link=link,
            n_there=n_there,
            n_measured=len(latencies),
            n_failed=len(tried) - len(latencies),
            latency_us=_spread(latencies),
            gb_per_s=_spread(bandwidths),
        )


def _spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    return Spread(median=median(values), least=min(values), most=max(values))
