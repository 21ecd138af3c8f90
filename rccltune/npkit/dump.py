"""What lies in a dump folder, by the names that RCCL's src/misc/npkit.cc gives its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.fields import Line, Whole

_EVENT_BYTES: Final = 16
_GPU_EVENTS: Final = re.compile(r"gpu_events_rank_(\d+)_(?:buf|channel)_\d+")
_CPU_EVENTS: Final = re.compile(r"cpu_events_rank_(\d+)_channel_\d+")
_GPU_CLOCK: Final = re.compile(r"gpu_clock_rate_rank_(\d+)")
_SIMULATED: Final = "SIMULATED"
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """What a launch left.

    Attributes:
        ranks: that wrote their clock, which is written last.
        n_gpu_events: over all ranks and buffers.
        n_cpu_events: of the network's threads; none on one node.
        damaged: files of events whose length is no whole number of them.
        calibrated: clocks were compared, as newer trace generators want.
        simulated: written by the stand-in library.
    """

    ranks: tuple[Whole, ...]
    n_files: Whole
    n_bytes: Whole
    n_gpu_events: Whole
    n_cpu_events: Whole
    damaged: tuple[Line, ...] = ()
    calibrated: bool = False
    simulated: bool = False


def read_dump(folder: Path) -> Dump:
    """Look at every file; raises OSError where the folder cannot be read."""
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    gpu = {name: size for name, size in sizes.items() if _GPU_EVENTS.fullmatch(name)}
    cpu = {name: size for name, size in sizes.items() if _CPU_EVENTS.fullmatch(name)}
    clocks = (_GPU_CLOCK.fullmatch(name) for name in sizes)
    return Dump(
        ranks=tuple(sorted(int(found[1]) for found in clocks if found)),
        n_files=len(sizes),
        n_bytes=sum(sizes.values()),
        n_gpu_events=sum(gpu.values()) // _EVENT_BYTES,
        n_cpu_events=sum(cpu.values()) // _EVENT_BYTES,
        damaged=tuple(n for n, size in {**gpu, **cpu}.items() if size % _EVENT_BYTES),
        calibrated=any(name.startswith("clock_calibration_") for name in sizes),
        simulated=any(name.startswith(_SIMULATED) for name in sizes),
    )


def why_useless(dump: Dump, n_ranks: int) -> str | None:
    """Why no trace can be made of it, and what would help; None where one can."""
    if not dump.n_files:
        return (
            "the dump folder is empty: the library did not write there, so it is built without "
            "NPKit or the folder is not the same on every host"
        )
    missing = sorted(set(range(n_ranks)) - set(dump.ranks))
    if missing:
        named = ", ".join(map(str, missing[:_SHOWN])) + (", …" if len(missing) > _SHOWN else "")
        return f"there is no dump of rank {named}: the folder must be one that every host writes to"
    if dump.damaged:
        return f"{dump.damaged[0]} ends within an event: the disk may be full"
    if not dump.n_gpu_events:
        return (
            "it holds no event of a GPU: the library has NPKit without the switches that record "
            "this call (ENABLE_NPKIT_EVENT_…)"
        )
    return None
