"""How fast links are when all of them are busy, and what that lets a collective reach."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model.schema import Line, Number, Whole, Word
from rccltune.model.settings import Scale
from rccltune.model.times import is_usable
from rccltune.model.vocabulary import Collective


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One direction between two devices, in GB/s (1e9 B/s)."""

    source: Whole
    target: Whole
    gb_per_s: Number

    def __str__(self) -> str:
        """``GPU 7 -> GPU 0``."""
        return f"GPU {self.source} -> GPU {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRates:
    """Copies from every device to every other one, all at once: TransferBench's ``a2a``.

    Attributes:
        rates: GB/s (1e9 B/s), a row for each source with a column for each target; None where
            no copy was made, and from a device to itself.
        version: TransferBench's own, None where the output does not say it.
        nbytes: of each copy, None where the output does not say it.
        engine: ``GFX`` for kernels, ``DMA`` for copy engines, None where it is not said.
        n_units: compute units of each copy, None where it is not said.
        source: name of the file.
        sha256: of the whole output.
        simulated: printed by the stand-in, never by hardware.
    """

    rates: tuple[tuple[Number | None, ...], ...]
    version: Line | None = None
    nbytes: Whole | None = None
    engine: Line | None = None
    n_units: Whole | None = None
    source: Line = ""
    sha256: Line = ""
    simulated: bool = False

    def __post_init__(self) -> None:
        """A square of positive rates, with nothing from a device to itself."""
        n = len(self.rates)
        for device, row in enumerate(self.rates):
            if len(row) != n or row[device] is not None:
                raise ValueError(f"row {device} of the rates does not fit {n} devices")
            if any(rate is not None and not is_usable(rate) for rate in row):
                raise ValueError(f"row {device} of the rates has one that is no rate")

    @property
    def n_devices(self) -> int:
        """Devices, linked or not."""
        return len(self.rates)

    @property
    def links(self) -> tuple[Link, ...]:
        """Every direction that was measured."""
        return tuple(
            Link(source=source, target=target, gb_per_s=rate)
            for source, row in enumerate(self.rates)
            for target, rate in enumerate(row)
            if rate is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The bus bandwidth at which the slowest link holds up a collective; docs/ceiling.md.

    Attributes:
        n_links: of each device, one to every other one.
        slowest: the link that the rings wait for.
        all_links_gb_per_s: what the least of the devices sends or receives over all its links
            together; a schedule that gave slow links less could come near it.
    """

    collective: Collective
    scale: Scale
    rank_placement: Word | None
    n_links: Whole
    slowest: Link
    all_links_gb_per_s: Number

    @property
    def gb_per_s(self) -> float:
        """The ceiling, comparable with bus bandwidth."""
        return self.n_links * self.slowest.gb_per_s
