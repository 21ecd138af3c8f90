"""The library's own log, and what it says of samples that no plugin could watch.

A library that looks up no tuner is told through its switches what to run. At INFO with the
subsystem TUNING it then writes one line for every call, from rank 0 alone:

    ``8 Bytes -> Algo 1 proto 0 time 12.8``                               2.20.3 to 2.22
    ``AllReduce: 8 Bytes -> Algo 1 proto 0 time 12.8``                    2.23
    ``AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}``   2.24 and later

(``src/enqueue.cc`` of NCCL and RCCL; before 2.20.3 only debugging builds have one.) A line with a
time gives the size as a tuner would see it, one with channels the bytes of a rank's own buffer. A
call that took another path before the choice has no line. At start rank 0 writes its model, a row
for each collective with latency and bandwidth of each cell; a bandwidth of 0 cannot be chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.librarylog import (
    COLL_CHANNELS,
    MODEL_ROW,
    collective_named,
    model_rows,
    setting_named,
    without_bandwidth,
)
from rccltune.model import Sample, Setting
from rccltune.vocab import Collective, Doubt

_CHOICE: Final = re.compile(
    r"NCCL INFO (?:(\w+): )?(\d{1,19}) Bytes -> Algo (\w+) proto (\w+) (time \S|channel\{)"
)
_MODEL: Final = re.compile(rf"NCCL INFO +{MODEL_ROW}")
_CHANNELS: Final = re.compile(rf"NCCL INFO {COLL_CHANNELS}")
# Collective, None where the line names none; bytes; whether these are a rank's own.
Call = tuple[Collective | None, int, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """What the logs of one launch's ranks say.

    Attributes:
        choices: settings as written; one is None where its algorithm or protocol has no name today.
        channels: what the ranks' communicators have; more than one number where they differ.
        refused: settings that the library's model leaves out at every size, as far as it was shown.
    """

    choices: Mapping[Call, frozenset[Setting | None]]
    channels: frozenset[int]
    refused: frozenset[tuple[Collective, Setting]]


def read_log(texts: Iterable[str]) -> Logged:
    """Read the logs of all ranks of a launch; lines of any other kind are passed over."""
    choices: dict[Call, set[Setting | None]] = {}
    channels: set[int] = set()
    refused: set[tuple[Collective, Setting]] = set()
    for text in texts:
        channels |= {int(match["n_channels"]) for match in _CHANNELS.finditer(text)}
        refused |= _refused(text)
        # A launch writes thousands of lines that say the same.
        for name, nbytes, algorithm, protocol, rest in set(_CHOICE.findall(text)):
            collective = collective_named(name)
            if name and collective is None:
                continue
            call = (collective, int(nbytes), rest.startswith("channel"))
            choices.setdefault(call, set()).add(setting_named(algorithm, protocol))
    return Logged(
        choices={key: frozenset(said) for key, said in choices.items()},
        channels=frozenset(channels),
        refused=frozenset(refused),
    )


def prove_by_log(
    samples: Iterable[Sample], logged: Logged | None, asked: Setting
) -> tuple[Sample, ...]:
    """Say of each sample what ran.

    Where the benchmark's own columns have said it already, the log is not asked.

    Args:
        samples: of one launch.
        logged: its ranks' logs, None where the library was not made to write any.
        asked: the setting that the library's switches were set to.
    """
    return tuple(
        sample
        if sample.doubt is not None or sample.executed is not None
        else _proven(sample, logged, asked)
        for sample in samples
    )


def _proven(sample: Sample, logged: Logged | None, asked: Setting) -> Sample:
    if logged is None or not logged.choices:
        # Nothing at all may be a path around every choice, or a release that says nothing.
        return replace(sample, doubt=Doubt.UNPROVEN)
    said = _said(sample, logged)
    if not said:
        return replace(sample, doubt=Doubt.BYPASSED)
    others = [ran for ran in said if ran is None or asked.contradicts(ran)]
    if others:
        wanted = (sample.key.collective, replace(asked, channels=None))
        doubt = Doubt.INELIGIBLE if wanted in logged.refused else Doubt.SUBSTITUTED
        return replace(sample, doubt=doubt, executed=others[0])
    return _with_channels(replace(sample, executed=said[0]), logged.channels, asked)


def _said(sample: Sample, logged: Logged) -> Sequence[Setting | None]:
    """Every setting that the log names for calls of this size, in a steady order."""
    collective, nbytes = sample.key.collective, sample.nbytes
    share = sample.key.scale.n_ranks if collective.is_shared else 1
    calls: tuple[Call, ...] = (
        (None, nbytes, False),
        (collective, nbytes, False),
        (collective, nbytes // share, True),
    )
    found = frozenset[Setting | None]().union(*(logged.choices.get(call, ()) for call in calls))
    return sorted(found, key=str)


def _with_channels(sample: Sample, channels: frozenset[int], asked: Setting) -> Sample:
    """Channels are the communicator's: all of its calls have them."""
    if asked.channels is None or sample.executed is None:
        return sample
    if not channels:
        return replace(sample, doubt=Doubt.UNPROVEN)
    other = min(channels - {asked.channels}, default=asked.channels)
    return replace(
        sample,
        executed=replace(sample.executed, channels=other),
        doubt=None if other == asked.channels else Doubt.SUBSTITUTED,
    )


def _refused(text: str) -> set[tuple[Collective, Setting]]:
    """Settings without any bandwidth in the model."""
    first: dict[str, str] = {}
    for name, cells in _MODEL.findall(text):
        # Further rows of a collective are other algorithms'.
        first.setdefault(name, cells)
    return {
        (collective, setting)
        for name, collective in model_rows(first).items()
        for setting in without_bandwidth(first[name])
    }
