"""Where npkit_trace_generator.py is, and how it is run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
class Tools:
    """What turns a dump into a trace, None where it was not found.

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


def find_tools(places: Iterable[Path]) -> Tools:
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
    return Tools(
        generator=generator,
        header=_first([*above, *beside], _HEADERS),
        text="" if generator is None else generator.read_text(encoding="utf-8", errors="replace"),
    )


def _first(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    listed = tuple(names)
    found = (folder / name for folder in folders for name in listed)
    return next((path.resolve() for path in found if path.is_file()), None)


def next_command(tools: Tools, dump: Path, output: Path, n_warmup: int) -> str:
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
