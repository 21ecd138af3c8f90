"""Samples as records, for tables that scripts and tests make up, and to look into what was read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan

import pandas as pd

from rccltune.logs.parsed_log import ParsedLog
from rccltune.model.schema import Number, Whole, Word
from rccltune.model.settings import CurveKey, Setting
from rccltune.model.times import is_usable
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import UnusableReason
from rccltune.session.sample_table import framed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One timing of a benchmark's table.

    Attributes:
        launch: id of the launch it came from.
        cycle: which pass over the sizes, from 0.
        count: elements per call, None where the source does not say.
        time_us: mean over ranks as printed, None where the row had no usable number.
        n_wrong: None where results were not checked.
        doubt: why it must not be used, None when it may.
        executed: the setting that is known to have run, where something said so.
        line: line of the raw log, from 1.
        timing: ``graph`` for calls replayed from a captured graph, ``loop`` for calls launched one
            by one; None where only the key says it.
    """

    key: CurveKey
    launch: Word
    nbytes: Whole
    time_us: Number | None
    cycle: Whole = 0
    count: Whole | None = None
    n_wrong: Whole | None = None
    doubt: UnusableReason | None = None
    executed: Setting | None = None
    line: Whole | None = None
    timing: Word | None = None

    def __post_init__(self) -> None:
        """A sample without a flag can be computed with."""
        if self.doubt is None and not (0 < self.nbytes <= MAX_NBYTES and is_usable(self.time_us)):
            raise ValueError(f"{self.nbytes} bytes in {self.time_us} µs needs a doubt")


def frame(samples: Iterable[Sample]) -> pd.DataFrame:
    """Records of samples as a table; see this module for its columns."""
    listed = list(samples)
    keys = list(dict.fromkeys(id(one.key) for one in listed))
    number = {key: at for at, key in enumerate(keys)}
    known = {id(one.key): one.key for one in listed}
    columns = {
        "key": [number[id(one.key)] for one in listed],
        "timing": [one.timing or "" for one in listed],
        "nbytes": [one.nbytes for one in listed],
        "time_us": [one.time_us for one in listed],
        "wrong": [one.n_wrong for one in listed],
        "ran": [str(one.executed or "") for one in listed],
        "unusable": ["" if one.doubt is None else one.doubt.value for one in listed],
        "pass": [one.cycle for one in listed],
        "line": pd.array([one.line for one in listed], dtype="Int64"),
        "launch": [one.launch for one in listed],
    }
    return framed(pd.DataFrame(columns), [known[key] for key in keys])


def samples_of(read: ParsedLog) -> tuple[Sample, ...]:
    """What was read from a log as records."""
    table, keys = read.table, read.keys
    ran = {word: Setting.parse(word) if word else None for word in table["ran"].unique()}
    doubts: dict[str, UnusableReason | None] = {
        "": None,
        **{one.value: one for one in UnusableReason},
    }
    names = (
        *("key", "launch", "nbytes", "count", "time_us", "wrong"),
        *("ran", "unusable", "pass", "line"),
    )
    return tuple(
        Sample(
            key=keys[key],
            launch=launch,
            nbytes=nbytes,
            count=None if isnan(count) else int(count),
            time_us=None if isnan(time_us) else time_us,
            n_wrong=None if isnan(n_wrong) else int(n_wrong),
            executed=ran[setting],
            doubt=doubts[doubt],
            cycle=cycle,
            line=line,
        )
        for key, launch, nbytes, count, time_us, n_wrong, setting, doubt, cycle, line in zip(
            *(table[name].tolist() for name in names), strict=True
        )
    )
