"""NPKit on this machine: whether a library has it, what it dumped, and its trace generator."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.files import has_any
from rccltune.model.schema import Line, Whole

_EVENT_BYTES: Final = 16
_GPU_EVENTS: Final = re.compile(r"gpu_events_rank_(\d+)_(?:buf|channel)_\d+")
_CPU_EVENTS: Final = re.compile(r"cpu_events_rank_(\d+)_channel_\d+")
_GPU_CLOCK: Final = re.compile(r"gpu_clock_rate_rank_(\d+)")
_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """NPKit dump that a launch left.

    Attributes:
        ranks: that wrote their clock, which is written last.
        n_gpu_events: over all ranks and buffers.
        n_cpu_events: of the network's threads; none on one node.
        damaged: files of events whose length is no whole number of them.
        calibrated: clocks were compared, as newer trace generators want.
        simulated: of a simulated node, which is told by whoever ran it.
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


# RCCL's src/init.cc asks for the variable, and warns where it is missing, only under ENABLE_NPKIT.
# The bare name may be the end of MSCCLPP_NPKIT_DUMP_DIR, another library's variable, so it counts
# as a whole string only.
_WARNS: Final = b"NPKIT_DUMP_DIR is empty"
_ASKS: Final = b"\0NPKIT_DUMP_DIR\0"


def has_npkit(library: Path) -> bool:
    """Whether the file has NPKit in it; raises OSError where it cannot be read."""
    return has_any(library, _WARNS, _ASKS)


GENERATOR: Final = "npkit_trace_generator.py"
# Where RCCL's sources have the two, and where an install may.
_GENERATORS: Final = (f"tools/scripts/{GENERATOR}", f"share/rccl/{GENERATOR}", GENERATOR)
_HEADERS: Final = (
    "src/include/npkit/npkit_event.h",
    "include/npkit/npkit_event.h",
    "include/rccl/npkit/npkit_event.h",
)
_UP: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class NpkitTools:
    """Programs that turn a dump into a trace, None where one was not found.

    Attributes:
        header: npkit_event.h, which names the events; it must be the library's own.
        text: of the generator, whose options differ between releases.
    """

    generator: Path | None = None
    header: Path | None = None
    text: str = ""

    @property
    def wants_calibration(self) -> bool:
        """Whether it reads clock files that only newer libraries write."""
        return "clock_calibration_" in self.text


def find_tools(places: Iterable[Path]) -> NpkitTools:
    """Look in and above each place, in order: a library lies inside the tree that it was built in.

    Args:
        places: files or folders: the library, a checkout, /opt/rocm.
    """
    above = [
        folder for place in places for folder in (place, *place.parents[:_UP]) if folder.is_dir()
    ]
    generator = _first(above, _GENERATORS)
    # The header of the tree that has the generator: event numbers move between releases.
    beside = [] if generator is None else [generator.parent, *generator.parents[:_UP]]
    return NpkitTools(
        generator=generator,
        header=_first([*above, *beside], _HEADERS),
        text="" if generator is None else generator.read_text(encoding="utf-8", errors="replace"),
    )


def _first(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    listed = tuple(names)
    found = (folder / name for folder in folders for name in listed)
    return next((path.resolve() for path in found if path.is_file()), None)


def next_command(tools: NpkitTools, dump: Path, output: Path, n_warmup: int) -> str:
    """The command that makes a trace, to be copied; what was not found stands in capitals."""
    words = [
        "python3",
        str(tools.generator or GENERATOR),
        f"--npkit_dump_dir={dump}",
        f"--npkit_event_header_path={tools.header or 'NPKIT_EVENT_H'}",
        f"--output_dir={output}",
    ]
    if "--warmup_runs" in tools.text:
        words.append(f"--warmup_runs={n_warmup}")
    return shlex.join(words)
