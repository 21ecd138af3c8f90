"""Files that a library needs: rules alone, the plugin, or the plugin with the mode."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from rccltune.releases import LOADING_OURS, release_of

_WORKING: Final = f"{LOADING_OURS} and later work."


class RuleReaderKind(Enum):
    """Reader with which a library follows rules."""

    FILE = "file alone"
    PLUGIN = "plugin"
    KEYED = "plugin with mode key"
    NOTHING = "nothing works"


class ModeSupport(Enum):
    """Whether one rule file is right wherever a job may run."""

    ONE = "one mode everywhere, or no partitions"
    SEVERAL = "modes that change, or differ between nodes"


def way(abi: int, modes: ModeSupport, *, built_in: bool) -> RuleReaderKind:
    """Reader through which a library gets its rules.

    Args:
        abi: newest version of the tuner interface that it shares with the plugin, 0 for none.
        modes: of the GPUs that the job may meet.
        built_in: whether it reads rule files itself. Such a reader takes one file and checks
            nothing of what that requires.
    """
    if abi == 0 and not built_in:
        return RuleReaderKind.NOTHING
    if modes is ModeSupport.SEVERAL:
        return RuleReaderKind.KEYED if abi else RuleReaderKind.NOTHING
    return RuleReaderKind.FILE if built_in else RuleReaderKind.PLUGIN


def needs(version: str | None, offered: Sequence[int], *, built_in: bool) -> str:
    """Sentence on the reader with which a library follows rules, as the table has it.

    Args:
        version: ``RCCL 2.28.3+hip7.13``; None where the file does not say it.
        offered: versions of the interface that the plugin has.
        built_in: whether it reads rule files itself, which a version does not always tell.
    """
    release = release_of(version)
    if release is None:
        return "not known: the file does not say what it is"
    abi = max((v for v in release.interfaces if v in offered), default=0)
    one, several = (way(abi, modes, built_in=built_in) for modes in ModeSupport)
    if one is RuleReaderKind.NOTHING:
        return f"nothing works, it is too old: {_WORKING}"
    return f"{one.value}; {several.value} where modes change or differ"
