"""Records of what files tell of a job, and of what is answered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple, TypeVar

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BypassingPath:
    """A path that takes calls before a tuner is asked, and what takes it away."""

    name: str
    export: str | None


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
# Where, collective, size as a tuner sees it.
Key = tuple[CommunicatorScale, Collective, int]


class Call(NamedTuple):
    """A call of one communicator, which all of its ranks must run alike."""

    comm: str
    where: CommunicatorScale
    collective: Collective
    nbytes: int


class TunerAnswer(NamedTuple):
    """One answer of a tuner: its setting, None for none, and the rule's line, 0 where unknown."""

    setting: Setting | None
    line: int


class LoadedRule(NamedTuple):
    """A rule that another tuner says it read."""

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    setting: Setting
    where: CommunicatorScale


class TypeAndOperation(NamedTuple):
    """Type and operation of calls, None where the files do not say."""

    dtype: str | None
    redop: str | None


# Values, paths and messages of one sort; more are noise or torn lines.
MAX_WORDS: Final = 256
MAX_SCALES: Final = 4096
T = TypeVar("T")


class BoundedCounts(Counter[T]):
    """Counts of what is said, in its order; what differs from the first ones is passed over."""

    def see(self, what: T, most: int = MAX_WORDS) -> None:
        """Take what was said."""
        if what in self or len(self) < most:
            self[what] += 1


@dataclass(slots=True)
class SizeRecord:
    """Record of one collective at one size, from all files.

    Attributes:
        said: answers of the tuner, with how often each was written down.
        reasons: codes of the plugin's reasons, with how often each was written down.
        offered: cells that could be chosen; None where nobody said.
        host: what the library would have chosen by itself.
        ran: settings that ran; one is None where it has no name today.
        n_channels: how many channels they ran on.
        paths: ways around the tuner that the log names itself.
        called: the call was made, whether or not a tuner was asked.
        kindred: types and operations of the calls.
        shown: the first line that says what ran, with its file and number.
    """

    said: Counter[TunerAnswer] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    offered: frozenset[Setting] | None = None
    host: set[Setting] = field(default_factory=set)
    ran: Counter[Setting | None] = field(default_factory=Counter)
    n_channels: set[int] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    called: bool = False
    kindred: set[TypeAndOperation] = field(default_factory=set)
    shown: str = ""


class PluginStart(NamedTuple):
    """Start of the plugin for a communicator, as it logged it.

    Attributes:
        how: ``rules``, ``inert`` or ``error``.
        text: what else the line said.
        path: of the rule file.
        sha256: its hash.
        needs: a variable that the file wants and the job lacks.
    """

    how: str
    text: str = ""
    path: str = ""
    sha256: str = ""
    needs: str = ""


@dataclass(slots=True)
class SummaryTotals:
    """Sums of the plugin's summaries."""

    calls: int = 0
    hits: int = 0
    misses: int = 0
    not_selectable: int = 0
    fallbacks: int = 0


class NoSettingLeft(NamedTuple):
    """A call for which the library found nothing that it may run, which ends the job.

    Attributes:
        collective: None where the release does not name it.
        dtype: as the library calls it, empty likewise.
        limits: variables that the library says were set, name and value.
    """

    collective: Collective | None
    dtype: str = ""
    limits: tuple[tuple[str, str], ...] = ()


# Variables that must be alike on all ranks, or these choose differently.
ASKED_OF_RANKS: Final = (
    *("NCCL_ALGO", "NCCL_PROTO", "RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO"),
    *("NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"),
)
# How the library's own reader calls a table that is compiled into it.
EMBEDDED = "<embedded>"


class TunerLoading(Enum):
    """Meaning of one line of a library's log about the tuner."""

    NAMED = "named"
    USING = "using"
    NOT_FOUND = "not found"
    FAILED = "failed"
    NO_SYMBOL = "no symbol"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal"
    TABLE = "table"


def is_ours(name: str) -> bool:
    """Whether a tuner is ours by what a library calls it: ``rccltune (v5)``, ``rccltune``."""
    return name.split(" ", maxsplit=1)[0] == "rccltune"


@dataclass(slots=True)
class JobLogs:
    """All evidence of all files; sizes of the parts are bounded, see ``evidence``.

    Attributes:
        seen: by communicator's scale, collective and size.
        nameless: by scale and size, choices of which no line names the collective.
        started: by scale; how often the plugin said each.
        totals: by scale, of the plugin's summaries.
        versions: what libraries say of themselves, ``RCCL 2.28.3-…``, with how often.
        paths: files of libraries that the log names.
        variables: name to values that the library says it read.
        loading: what the library says of tuners, with what it names.
        scales: of communicators, by the library's log.
        refused: cells without bandwidth in the library's own model.
        recorded: scales whose every question is written down.
        tuning: scales of which the log has lines of choices.
        old_hosts: scales whose library looks for version 2 of the interface.
        has_calls: the log has a line for every call (subsystem COLL).
        table_applied: the built-in table's tuner told of what it applied.
        stuck: by scale, calls that ended the job since nothing was left to choose.
        hit_rules: by scale, lines and settings of rules that the plugin's summary says were hit.
        findings: mistakes for which the plugin refused a file.
        unwritten: what the plugin says that it could not write: a record, a log.
        other_library: (measured with, runs) of jobs with another library than their rules.
        unchecked: what the plugin could not hold a rule file's conditions against.
        tables: how many tables of benchmarks were read.
        unread: why others could not be.
        dropped: keys that did not fit.
        shown: the first line that shows a fact, with its file and number.
        added: variables that a network plugin put into the environment.
        simple: why a network plugin wants the protocol Simple.
        skipped: lines of a rule file that the library's own reader passed over: number and reason.
        loaded: how many rules that reader took, by file.
        lost: files that it did not find, or found nothing in.
        rules: those that another tuner says it read, with the line that says so.
        said: what else lines mean, with a remedy.
        choices: by call, what each rank took, with the first line that says so.
        torn: lines of several messages; only the last one is whole.
    """

    seen: dict[Key, SizeRecord] = field(default_factory=dict)
    nameless: dict[tuple[CommunicatorScale, int], SizeRecord] = field(default_factory=dict)
    started: dict[CommunicatorScale, BoundedCounts[PluginStart]] = field(default_factory=dict)
    totals: dict[CommunicatorScale, SummaryTotals] = field(default_factory=dict)
    versions: BoundedCounts[str] = field(default_factory=BoundedCounts)
    paths: BoundedCounts[str] = field(default_factory=BoundedCounts)
    variables: dict[str, set[str]] = field(default_factory=dict)
    loading: BoundedCounts[tuple[TunerLoading, str]] = field(default_factory=BoundedCounts)
    scales: BoundedCounts[CommunicatorScale] = field(default_factory=BoundedCounts)
    refused: set[tuple[Collective, Setting]] = field(default_factory=set)
    recorded: set[CommunicatorScale] = field(default_factory=set)
    tuning: set[CommunicatorScale] = field(default_factory=set)
    old_hosts: set[CommunicatorScale] = field(default_factory=set)
    has_calls: bool = False
    table_applied: bool = False
    stuck: dict[CommunicatorScale, BoundedCounts[NoSettingLeft]] = field(default_factory=dict)
    hit_rules: dict[CommunicatorScale, Counter[TunerAnswer]] = field(default_factory=dict)
    findings: BoundedCounts[str] = field(default_factory=BoundedCounts)
    unwritten: BoundedCounts[str] = field(default_factory=BoundedCounts)
    other_library: BoundedCounts[tuple[str, str]] = field(default_factory=BoundedCounts)
    unchecked: BoundedCounts[str] = field(default_factory=BoundedCounts)
    tables: int = 0
    unread: BoundedCounts[str] = field(default_factory=BoundedCounts)
    dropped: int = 0
    shown: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    simple: BoundedCounts[str] = field(default_factory=BoundedCounts)
    skipped: BoundedCounts[tuple[int, str]] = field(default_factory=BoundedCounts)
    loaded: dict[str, int] = field(default_factory=dict)
    lost: BoundedCounts[str] = field(default_factory=BoundedCounts)
    rules: dict[LoadedRule, str] = field(default_factory=dict)
    said: BoundedCounts[tuple[str, str | None]] = field(default_factory=BoundedCounts)
    choices: dict[Call, dict[str, dict[Setting | None, str]]] = field(default_factory=dict)
    torn: int = 0

    @property
    def table(self) -> str | None:
        """The file that another reader than our plugin took; None where none took one."""
        named = (name for what, name in self.loading if what is TunerLoading.TABLE)
        return next(named, next(iter(self.loaded), None))

    @property
    def table_named(self) -> str:
        """Name of whose file that is, in words."""
        if self.table is None or self.table.startswith(EMBEDDED):
            return "the library's embedded table"
        named = self.table in self.variables.get("NCCL_TUNER_CONFIG_FILE", ())
        return f"{self.table}" if named else f"the library's own file {self.table}"

    @property
    def library(self) -> str | None:
        """Library that the job loads, where the files say one thing."""
        return next(iter(self.versions)) if len(self.versions) == 1 else None

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was understood."""
        return not (
            self.seen
            or self.nameless
            or self.started
            or self.versions
            or self.loading
            or self.scales
        ) and not (self.variables or self.totals or self.stuck)

    @property
    def rule_file(self) -> str | None:
        """The path of the file whose rules the plugin read, where it was one."""
        read = {one.path for counted in self.started.values() for one in counted if one.path}
        return read.pop() if len(read) == 1 else None
