"""Which file a library needs from us: the rules alone, the plugin, or the plugin with the mode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

_VERSION: Final = re.compile(r"([RN])CCL (\d+)\.(\d+)(?:\.(\d+))?")
# (first release, newest interface) of NCCL and RCCL (facts: which symbol each library looks for).
# NCCL 2.32.3 (commit 12df1a11) ends at 6, 2.32.6 (2449986f) begins with 7; no RCCL with 7 was seen.
_SINCE: Final = {
    "N": (
        *(((2, 32, 6), 7), ((2, 30), 6), ((2, 28), 5), ((2, 24), 4), ((2, 22), 3), ((2, 21), 2)),
        ((2, 19), 1),
    ),
    "R": (((2, 30), 6), ((2, 28), 5), ((2, 26), 4), ((2, 22), 3), ((2, 21), 2), ((2, 18), 1)),
}
BEGIN: Final = "<!-- made by rccltune.pipeline.which; tests hold it against that -->"
END: Final = "<!-- end -->"


class Way(Enum):
    """What a library follows rules with."""

    FILE = "file alone"
    PLUGIN = "plugin"
    KEYED = "plugin with mode key"
    NOTHING = "nothing works"
    UNKNOWN = "unknown"


class Modes(Enum):
    """Whether one rule file is right wherever a job may run."""

    ONE = "one mode everywhere, or no partitions"
    SEVERAL = "modes that change, or differ between nodes"


EXPORTS: Final = {
    Way.FILE: "`NCCL_TUNER_CONFIG_FILE=FILE`",
    Way.PLUGIN: "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `NCCL_TUNER_CONFIG_FILE=FILE`",
    Way.KEYED: "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `RCCLTUNE_CONFIG_DIR=FOLDER`, with "
    "`rccl_tuner_<arch>_<mode>.csv` for each mode in it",
}


def way(abi: int, modes: Modes, *, built_in: bool) -> Way:
    """How a library is told rules.

    Args:
        abi: newest version of the tuner interface that it shares with the plugin, 0 for none.
        modes: of the GPUs that the job may meet.
        built_in: whether it reads rule files itself. Such a reader takes one file and checks
            nothing of what that requires.
    """
    if abi == 0 and not built_in:
        return Way.NOTHING
    if modes is Modes.SEVERAL:
        return Way.KEYED if abi else Way.NOTHING
    return Way.FILE if built_in else Way.PLUGIN


def release_of(version: str | None) -> tuple[str, tuple[int, ...]] | None:
    """``("R", (2, 28, 3))`` of ``RCCL 2.28.3+hip7.13``; None for anything else."""
    match = _VERSION.match(version or "")
    if match is None:
        return None
    return match[1], tuple(int(part) for part in match.groups("0")[1:])


def interfaces(version: str | None) -> tuple[int, ...]:
    """What a release looks up, newest first; empty where it is unknown, or asks for no tuner."""
    found = release_of(version)
    if found is None:
        return ()
    newest = next((abi for since, abi in _SINCE[found[0]] if found[1] >= since), 0)
    # Version 1 alone before 2.21; from then on every one but it.
    return tuple(range(newest, 1, -1)) if newest > 1 else (1,) * newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A line of the table.

    Attributes:
        name: as people know it.
        version: one of its versions, as :func:`interfaces` reads it.
        built_in: whether it reads rule files itself.
        remark: what else a user must know.
    """

    name: str
    version: str
    built_in: bool = False
    remark: str = ""


_PAIRS: Final = "only ring/ll, ring/simple and all_reduce's tree/ll can be chosen"
_AGAIN: Final = "several nodes: the library chooses the protocol again (7.2: not known)"
_LOST: Final = "its own table is lost: `emit-config --base auto`"
# Releases and their numbers: RCCL's CHANGELOG.md and NCCL's tags.
RELEASES: Final = (
    Release(name="RCCL to 2.20.5 (ROCm to 6.2)", version="RCCL 2.20.5"),
    Release(name="RCCL 2.21.5 (ROCm 6.3)", version="RCCL 2.21.5", remark=_PAIRS),
    Release(name="RCCL 2.22.3 (ROCm 6.4)", version="RCCL 2.22.3"),
    Release(name="RCCL 2.26.6, 2.27.7 (ROCm 7.0 to 7.2)", version="RCCL 2.27.7", remark=_AGAIN),
    Release(name="RCCL 2.28.3 (ROCm 7.11, 7.12)", version="RCCL 2.28.3"),
    Release(name="RCCL 2.28.3 (ROCm 7.13)", version="RCCL 2.28.3", built_in=True, remark=_LOST),
    Release(
        name="RCCL 2.30.4 and later (ROCm 7.14, 10)",
        version="RCCL 2.30.4",
        built_in=True,
        remark=_LOST,
    ),
    Release(name="NCCL to 2.20", version="NCCL 2.20.5"),
    Release(name="NCCL 2.21", version="NCCL 2.21.5", remark=_PAIRS),
    Release(name="NCCL 2.22, 2.23", version="NCCL 2.23.4"),
    Release(name="NCCL 2.24 to 2.27", version="NCCL 2.27.7"),
    Release(name="NCCL 2.28, 2.29", version="NCCL 2.29.7"),
    Release(name="NCCL 2.30, 2.31, 2.32.3", version="NCCL 2.32.3"),
    Release(name="NCCL 2.32.6 and later", version="NCCL 2.32.6"),
)


def table(offered: Sequence[int], releases: Sequence[Release] = RELEASES) -> list[str]:
    """The table of releases and modes, in Markdown.

    Args:
        offered: versions of the interface that the plugin has.
        releases: its lines.
    """
    lines = [
        f"| release | tuner ABI | {Modes.ONE.value} | {Modes.SEVERAL.value} | |",
        "|---|--:|---|---|---|",
    ]
    for one in releases:
        abi = max((v for v in interfaces(one.version) if v in offered), default=0)
        ways = (way(abi, modes, built_in=one.built_in).value for modes in Modes)
        lines.append(f"| {one.name} | {abi or '–'} | {' | '.join(ways)} | {one.remark} |")
    return lines


def document(offered: Sequence[int]) -> list[str]:
    """The part of docs/which-file.md that is made: the table, and what each way exports."""
    ways = [f"* **{one.value}**: {exports}" for one, exports in EXPORTS.items()]
    return [BEGIN, *table(offered), "", *ways, END]
