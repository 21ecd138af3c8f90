"""Files that a library needs: rules alone, the plugin, or the plugin with the mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rccltune.releases import LOADING_OURS, release_of

# The reader with which a library follows rules.
FILE: Final = "file alone"
PLUGIN: Final = "plugin"
KEYED: Final = "plugin with mode key"
NOTHING: Final = "nothing works"
# Whether one rule file is right wherever a job may run.
ONE_MODE: Final = "one mode everywhere, or no partitions"
SEVERAL_MODES: Final = "modes that change, or differ between nodes"


def choose_readers(abi: int, *, built_in: bool) -> tuple[str, str]:
    """Reader through which a library gets its rules: of one mode everywhere, and of several.

    Args:
        abi: newest version of the tuner interface that it shares with the plugin, 0 for none.
        built_in: whether it reads rule files itself. Such a reader takes one file and checks
            nothing of what that requires.
    """
    one = FILE if built_in else PLUGIN if abi else NOTHING
    return one, KEYED if abi else NOTHING


def describe_needs(version: str | None, offered: Sequence[int], *, built_in: bool) -> str:
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
    one, several = choose_readers(abi, built_in=built_in)
    if one == NOTHING:
        return f"nothing works, it is too old: {LOADING_OURS} and later work."
    return f"{one}; {several} where modes change or differ"
