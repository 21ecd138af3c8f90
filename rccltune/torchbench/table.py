"""The table, in rccl-tests' own form (2.17 and later), so that whatever reads theirs reads this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rccltune.model.times import is_usable
from rccltune.model.vocabulary import Placement, algbw, busbw
from rccltune.torchbench.options import Options

_TITLES = {Placement.OUT_OF_PLACE: "out-of-place", Placement.IN_PLACE: "in-place"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """One half of a row.

    Attributes:
        time_us: of one call; 0 where nothing was communicated.
        n_wrong: elements of all ranks; None where they were not checked.
    """

    time_us: float
    n_wrong: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a rank runs.

    Attributes:
        bus: PCI address, or what stands for it.
    """

    rank: int
    pid: int
    host: str
    device: int
    bus: str
    product: str

    @property
    def line(self) -> str:
        """Its line of the rank list."""
        return (
            f"#  Rank {self.rank:2d} Group  0 Pid {self.pid:6d} on {self.host:>10} "
            f"device {self.device:2d} [{self.bus}] {self.product}"
        )


def head(options: Options, seats: Sequence[Seat], said: Iterable[str]) -> list[str]:
    """Everything above the rows.

    Args:
        options: what is measured.
        seats: of all ranks, in their order.
        said: lines about benchmark, torch and library, without the ``#``.
    """
    return [
        *(f"# {line}" for line in said),
        f"# Collective test starting: {options.collective.benchmark}",
        _parameters(options),
        "#",
        "# Using devices",
        *(seat.line for seat in seats),
        "#",
        *_header(options.placements),
    ]


def _parameters(options: Options) -> str:
    step = f"{options.factor}(factor)" if options.factor else f"{options.step_nbytes}(bytes)"
    return (
        f"# nThread 1 nGpus 1 minBytes {options.min_nbytes} maxBytes {options.max_nbytes} "
        f"step: {step} warmup iters: {options.warmup} iters: {options.iterations} "
        f"agg iters: 1 validation: {options.checks} graph: {options.graph}"
    )


def _header(placements: Sequence[Placement]) -> list[str]:
    titles = "                       ".join(_TITLES[one] for one in placements)
    names = f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
    units = f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
    for _ in placements:
        names += f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}  #wrong"
        units += f"  {'(us)':>7}  {'(GB/s)':>6}  {'(GB/s)':>6}        "
    return [f"# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}           {titles}", names, units]


def row(
    options: Options, *, nbytes: int, count: int, n_ranks: int, halves: Sequence[Half]
) -> tuple[str, list[float]]:
    """One row, and its bus bandwidths in GB/s."""
    redop = options.redop if options.reduces else "none"
    root = options.root if options.collective.value in ("broadcast", "reduce") else -1
    text = f"{nbytes:12d}  {count:12d}  {options.dtype:>8}  {redop:>6}  {root:6d}"
    bandwidths = []
    for half in halves:
        algorithm = bus = 0.0
        if is_usable(half.time_us):
            algorithm = algbw(nbytes, half.time_us)
            bus = busbw(options.collective, n_ranks, nbytes, half.time_us)
        bandwidths.append(bus)
        wrong = "N/A" if half.n_wrong is None else f"{half.n_wrong:g}"
        text += f"  {_fine(half.time_us, 7)}  {_fine(algorithm, 6)}  {_fine(bus, 6)}  {wrong:>6}"
    return text, bandwidths


def foot(options: Options, n_bad: int, bandwidths: Sequence[float]) -> list[str]:
    """What ends the table.

    Args:
        options: what was measured.
        n_bad: timings with wrong elements.
        bandwidths: of all timings, GB/s.
    """
    mean = sum(bandwidths) / max(1, len(bandwidths))
    return [
        f"# {'Out of bounds values':<20} : {n_bad} {'FAILED' if n_bad else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {mean:g} ",
        "#",
        f"# Collective test concluded: {options.collective.benchmark}",
        "#",
    ]


def _fine(value: float, width: int) -> str:
    """Two decimals while they fit, then fewer, then an exponent."""
    n_digits = len(f"{value:.0f}")
    if n_digits > width:
        return f"{value:{width}.1e}" if width >= 7 else f"{value:{width}.0e}"
    decimals = next((d for d in (2, 1) if n_digits + 1 + d <= width), 0)
    return f"{value:{width}.{decimals}f}"
