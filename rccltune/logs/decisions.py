"""Log of our plugin while it answers nothing: sizes that a library asks about, what it takes.

With ``RCCLTUNE_LOG=decisions:FILE`` the plugin writes a line for each collective and size at its
first call, and names the cell that the library would take by its own costs (docs/plugin.md). A
library that is told through NCCL_ALGO and NCCL_PROTO what to take has no other cell left: the line
names that one, or none where the library does not let it be chosen. A call that took a path around
the tuner has no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeAlias

from rccltune.logs.library import collective_named, with_channels
from rccltune.model.measurement import Sample
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, UnusableReason

# In a launch's folder, one file for each communicator of each process.
NAME: Final = "decisions-%h-%p-%c.log"
PATTERN: Final = "decisions-*.log"
_LINE: Final = re.compile(
    r"^rccltune: comm=\w+ decision collective=(\w+) nbytes=(\d{1,19}) answer=\S+ line=\d+"
    r" host=(\S+)(?: offered=\S+)?$",
    re.MULTILINE,
)
# Settings that ranks of a launch would take; None among them where no cell can be chosen.
Decisions: TypeAlias = Mapping[tuple[Collective, int], AbstractSet[Setting | None]]


def read_decisions(texts: Iterable[str]) -> Decisions:
    """Read the files of all ranks of a launch; lines of any other kind are passed over."""
    decisions: dict[tuple[Collective, int], set[Setting | None]] = {}
    # Ranks that are alike write the same but for the name of their communicator.
    for name, nbytes, host in {line for text in texts for line in _LINE.findall(text)}:
        collective = collective_named(name)
        if collective is not None:
            decisions.setdefault((collective, int(nbytes)), set()).add(_cell(host))
    return decisions


def _cell(text: str) -> Setting | None:
    """``tree/ll``; None for ``-`` and for an algorithm that has no name today."""
    try:
        return None if text == "-" else Setting.parse(text)
    except ValueError:
        return None


def prove_by_decisions(
    samples: Iterable[Sample],
    decisions: Decisions | None,
    asked: Setting,
    channels: AbstractSet[int] = frozenset(),
) -> tuple[Sample, ...]:
    """Say of each sample what ran.

    Args:
        samples: of one launch.
        decisions: of its ranks; None where no rank loaded the plugin, and nothing is proven.
        asked: the setting that the library's switches were set to.
        channels: of the communicators, as the library's log has them.
    """
    return tuple(
        sample if sample.doubt is not None else _proven(sample, decisions, asked, channels)
        for sample in samples
    )


def _proven(
    sample: Sample, decisions: Decisions | None, asked: Setting, channels: AbstractSet[int]
) -> Sample:
    if decisions is None:
        return replace(sample, doubt=UnusableReason.UNPROVEN)
    said = decisions.get((sample.key.collective, sample.nbytes))
    if said is None:
        return replace(sample, doubt=UnusableReason.BYPASSED)
    if None in said:
        return replace(sample, doubt=UnusableReason.INELIGIBLE)
    taken = sorted((one for one in said if one is not None), key=str)
    other = next((one for one in taken if asked.contradicts(one)), None)
    if other is not None:
        return replace(sample, doubt=UnusableReason.SUBSTITUTED, executed=other)
    return with_channels(replace(sample, executed=taken[0]), channels, asked)
