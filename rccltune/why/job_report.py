"""Records of what files tell of a job, and of what is answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective


class AnswerKind(Enum):
    """The answers; the value is what people and ``--json`` see."""

    RANKS_DIFFER = "ranks differ"
    STUCK = "nothing left to choose"
    HIT = "rule hit"
    AS_RULE = "ran as the rule would"
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
    OFF = "switched off"
    NOT_TUNABLE = "never asks a tuner"
    UNKNOWN = "the files do not tell"


class Reason(NamedTuple):
    """An answer before it is said of sizes: equal ones are joined."""

    kind: AnswerKind
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer:
    """Answer for a range of sizes.

    Attributes:
        collective: None where the files name no call.
        min_nbytes: smallest size that was seen, None where none was.
        max_nbytes: largest one with the same answer and none between with another.
        n_sizes: how many were seen.
        channels: the fewest and the most that calls ran on; None where nothing says it.
        remedy: one imperative sentence; None where nothing is to be mended.
    """

    where: CommunicatorScale
    collective: Collective | None
    min_nbytes: int | None
    max_nbytes: int | None
    n_sizes: int
    kind: AnswerKind
    text: str
    remedy: str | None
    channels: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRemark:
    """Remark that holds for the whole job."""

    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuestion:
    """One of the six questions of a job, with its answer.

    Attributes:
        title: a word or two.
        shown: the lines that show it, each with its file and number; None where no line does.
        remedy: one imperative sentence; None where nothing is to be mended.
    """

    title: str
    answer: str
    shown: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """Report on a job: six questions in their order, single sizes, and what else holds.

    Attributes:
        is_benchmark: a benchmark's table is among the files; what it prints is its result.
    """

    questions: tuple[JobQuestion, ...]
    answers: tuple[SizeAnswer, ...]
    remarks: tuple[JobRemark, ...]
    is_benchmark: bool


class CommunicatorScale(NamedTuple):
    """A communicator's scale, as far as it is known."""

    n_nodes: int | None
    n_ranks: int | None

    def __str__(self) -> str:
        """``64 ranks on 1 node``."""
        if self.n_ranks is None:
            return "communicator not known"
        ranks = f"{self.n_ranks} rank{'' if self.n_ranks == 1 else 's'}"
        if self.n_nodes is None:
            return ranks
        return f"{ranks} on {self.n_nodes} node{'' if self.n_nodes == 1 else 's'}"


NOWHERE = CommunicatorScale(None, None)


class Key(NamedTuple):
    """A size in bytes as a tuner sees it, of a collective at a scale."""

    where: CommunicatorScale
    collective: Collective
    nbytes: int


class TunerAnswer(NamedTuple):
    """One answer of a tuner: its setting, None for none, and the rule's line, 0 where unknown."""

    setting: Setting | None
    line: int


class TypeAndOperation(NamedTuple):
    """Type and operation of calls, None where the files do not say."""

    dtype: str | None
    op: str | None
