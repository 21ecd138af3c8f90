"""What is answered, and what other packages know that answers need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rccltune.model import Collective, Setting
from rccltune.why.records import Kindred, Where


class Kind(Enum):
    """The answers; the value is what people and ``--json`` see."""

    STUCK = "nothing left to choose"
    HIT = "rule hit"
    NOT_SELECTABLE = "not selectable"
    BYPASSED = "bypassed"
    OVERWRITTEN = "overwritten after the tuner"
    HOLE = "no rule at this size"
    OTHER_SCALE = "other communicator or scale"
    NOT_LOADED = "plugin not loaded"
    OTHER_LIBRARY = "other library"
    REFUSED = "rule file refused"
    OTHER_FILE = "other rule file"
    PLACEMENT = "other placement"
    MACHINE = "other machine or mode"
    VARIABLE = "a variable is not understood"
    SCHEDULE = "a schedule is set"
    OFF = "switched off"
    NOT_TUNABLE = "never asks a tuner"
    UNKNOWN = "the files do not tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """A path that takes calls before a tuner is asked, and what takes it away."""

    name: str
    export: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleHere:
    """A rule of the file that speaks of a call.

    Attributes:
        conditions: numPipeOps and regBuff as the row asks for them, empty where it asks for none.
    """

    line: int
    setting: Setting
    conditions: str = ""


class Filed(NamedTuple):
    """A rule of the file with what it is for."""

    where: Where
    collective: Collective
    rule: RuleHere


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What other packages know, asked by this one.

    Attributes:
        around: paths that may take a call: collective, nbytes, where, type and operation, library.
        why_not: why no rule can choose a setting anywhere: setting, collective, where, and whether
            the job's library is known to be RCCL.
        is_amd: the file of ``--rules`` says that it is for AMD's GPUs.
        overwrites: whether the library sets the protocol again: library, collective, where.
        rules: of ``--rules`` for a call, in file order; None where there is no file.
        hole: the file's own words for a size without a rule.
        line_range: collective, least and largest size of the rule of a line.
        file_rules: all of its rules; None in a scale is any number.
        file_scales: what the file has rules for, empty without a file.
        file_name: of ``--rules``.
        file_sha256: its hash.
        file_libraries: what it was measured with, with or without the family, empty where that
            is not recorded.
    """

    around: Callable[[Collective, int, Where, Kindred, str | None], tuple[Around, ...]]
    why_not: Callable[[Setting, Collective, Where, bool], str | None]
    overwrites: Callable[[str | None, Collective, Where], bool]
    is_amd: bool = False
    rules: Callable[[Collective, int, Where], tuple[RuleHere, ...]] | None = None
    hole: Callable[[Collective, int, Where], str | None] | None = None
    line_range: Callable[[int], tuple[Collective, int, int] | None] | None = None
    file_rules: tuple[Filed, ...] = ()
    file_scales: tuple[str, ...] = ()
    file_name: str = ""
    file_sha256: str = ""
    file_libraries: tuple[str, ...] = ()


class Reason(NamedTuple):
    """An answer before it is said of sizes: equal ones are joined."""

    kind: Kind
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered of a range of sizes.

    Attributes:
        collective: None where the files name no call.
        min_nbytes: smallest size that was seen, None where none was.
        max_nbytes: largest one with the same answer and none between with another.
        n_sizes: how many were seen.
        remedy: one imperative sentence; None where nothing is to be mended.
    """

    where: Where
    collective: Collective | None
    min_nbytes: int | None
    max_nbytes: int | None
    n_sizes: int
    kind: Kind
    text: str
    remedy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """What holds for the whole job."""

    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """All that is answered."""

    answers: tuple[Answer, ...]
    remarks: tuple[Remark, ...]
