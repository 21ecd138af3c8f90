"""What a job's files say: each thing once, with the first line that says it, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.why.job_report import CommunicatorScale, Key, TunerAnswer, TypeAndOperation

# Facts of one kind; more are noise or torn lines. Calls: of all ranks, sizes and answers.
MAX_FACTS: Final = 4096
MAX_CALLS: Final = 262144
_MOST_LINES: Final = 8
# How RCCL's own reader calls a table that is compiled into it.
EMBEDDED: Final = "<embedded>"
T = TypeVar("T")


class Fact(NamedTuple):
    """A fact: the named parts of a known line, and the first line that says it."""

    words: Mapping[str, str]
    line: str


class Call(NamedTuple):
    """Content of a line on a call.

    Attributes:
        kind: ``ran``; ``answered`` by our plugin; ``applied`` by another reader of rules;
            ``called``; ``past`` every tuner.
        collective: None where the line does not name it.
        is_share: ``nbytes`` are a rank's own, not what a tuner sees.
        setting: that ran or was answered; None where it has no name today, or for no answer.
        rule: line of the rule file, 0 where unknown.
        code: the plugin's reason.
        offered: cells that could be chosen; None where the line does not say.
        path: around the tuner.
    """

    kind: str
    where: CommunicatorScale
    collective: Collective | None
    nbytes: int
    is_share: bool = False
    setting: Setting | None = None
    n_channels: int | None = None
    rule: int = 0
    code: str = ""
    offered: frozenset[Setting] | None = None
    path: str = ""
    call_type: TypeAndOperation | None = None


class Choice(NamedTuple):
    """Setting that a rank of a communicator takes for a call."""

    comm: str
    rank: str
    setting: Setting


@dataclass(slots=True)
class SizeRecord:
    """All that is said of one collective at one size.

    Attributes:
        answers: of the tuner, in the order of the lines.
        codes: the plugin's reasons.
        offered: cells that could be chosen; None where nobody said.
        ran: settings that ran; None is one without a name today.
        n_channels: how many channels they ran on.
        paths: ways around the tuner that the log names itself.
        is_called: a line of the call itself is there.
        call_types: types and operations of the calls.
        line: the first that says what ran.
    """

    answers: list[TunerAnswer] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    offered: frozenset[Setting] | None = None
    ran: list[Setting | None] = field(default_factory=list)
    n_channels: set[int] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    is_called: bool = False
    call_types: set[TypeAndOperation] = field(default_factory=set)
    line: str = ""

    def add(self, call: Call, line: str) -> None:
        """Take what one more line says."""
        if call.kind == "ran":
            _append_once(self.ran, call.setting)
            self.line = self.line or line
        elif call.kind in ("answered", "applied"):
            _append_once(self.answers, TunerAnswer(call.setting, call.rule))
        self.codes |= {call.code} - {""}
        self.paths |= {call.path} - {""}
        self.is_called |= call.kind in ("called", "past")
        self.n_channels |= set() if call.n_channels is None else {call.n_channels}
        self.call_types |= set() if call.call_type is None else {call.call_type}
        if call.offered is not None:
            self.offered = call.offered | (self.offered or frozenset())


class PluginStart(NamedTuple):
    """How our plugin began for a communicator.

    Attributes:
        how: ``rules``, ``without rules`` or ``stopped``.
        text: the reason, with its code; empty with rules.
        path: of the rule file.
        sha256: its hash.
        needs: a variable that the file wants and the job lacks.
    """

    how: str
    text: str = ""
    path: str = ""
    sha256: str = ""
    needs: str = ""


class SharedCall(NamedTuple):
    """A call of one communicator, which all of its ranks must run alike."""

    comm: str
    key: Key


class NoSettingLeft(NamedTuple):
    """A call for which the library found nothing that it may run, which ends the job.

    Attributes:
        collective: None where the release does not name it.
        dtype: as the library calls it, empty likewise.
        limits: variables that the library says were set, name and value.
    """

    where: CommunicatorScale
    collective: Collective | None
    dtype: str = ""
    limits: tuple[tuple[str, str], ...] = ()


class JobLogs:
    """All facts of all files. Readers record them; :meth:`sort_calls` then sorts calls by size.

    Attributes:
        summaries: by scale, sums of the plugin's: calls, hits, misses, not_selectable.
        hits: by scale, calls by the rule that answered them, from those summaries.
        stuck_calls: those that ended the job.
        unselectable_cells: those without bandwidth in the library's own model.
        n_torn_lines: those of several messages; only the last one is whole.
        n_tables: benchmarks' tables that were read.
        unread_tables: why others could not be read.
        n_dropped_lines: those on calls that did not fit.
        sizes: records by scale, collective and size.
        nameless_choices: by scale and size, those of which no line names the collective.
        choices: by call and setting, the ranks that took it, each with a line that says so: the
            first ones' own, then the first of all.
        first_lines: the first of each kind of :attr:`Call.kind`.
        recorded_scales: those whose every question to our plugin is written down.
        scales_with_choices: those of which lines say what ran.
    """

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._facts: dict[str, dict[tuple[tuple[str, str], ...], Fact]] = {}
        self._calls: dict[Call, str] = {}
        self._choices: dict[tuple[str, Call], dict[Setting, dict[str, str]]] = {}
        self._scales: set[CommunicatorScale] = set()
        self.summaries: dict[CommunicatorScale, Counter[str]] = {}
        self.hits: dict[CommunicatorScale, Counter[TunerAnswer]] = {}
        self.stuck_calls: dict[NoSettingLeft, str] = {}
        self.unselectable_cells: set[tuple[Collective, Setting]] = set()
        self.n_torn_lines = self.n_tables = self.n_dropped_lines = 0
        self.unread_tables: list[str] = []
        self.sizes: dict[Key, SizeRecord] = {}
        self.nameless_choices: dict[tuple[CommunicatorScale, int], SizeRecord] = {}
        self.choices: dict[SharedCall, dict[Setting, dict[str, str]]] = {}
        self.first_lines: dict[str, str] = {}
        self.recorded_scales: set[CommunicatorScale] = set()
        self.scales_with_choices: set[CommunicatorScale] = set()

    # --- recording --------------------------------------------------------------------------------

    def add_fact(self, kind: str, words: Mapping[str, str], line: str) -> None:
        """A line says something."""
        facts = self._facts.setdefault(kind, {})
        key = tuple(words.items())
        if key not in facts and len(facts) < MAX_FACTS:
            facts[key] = Fact(words, line)

    def add_call(self, call: Call, line: str, choice: Choice | None = None) -> None:
        """A line says something of a call, and what a rank takes for it."""
        if len(self._calls) < MAX_CALLS or call in self._calls:
            self._calls.setdefault(call, line)
        else:
            self.n_dropped_lines += 1
        # Ranks by the thousand say the same of a thousand sizes: their names alone are kept.
        at = Call("", call.where, call.collective, call.nbytes, call.is_share)
        if choice is not None:
            key = (choice.comm, at)
            if len(self._choices) < MAX_CALLS or key in self._choices:
                ranks = self._choices.setdefault(key, {}).setdefault(choice.setting, {})
                shown = line if len(ranks) < _MOST_LINES else next(iter(ranks.values()))
                ranks.setdefault(choice.rank, shown)

    def add_scale(self, where: CommunicatorScale) -> None:
        """There is a communicator of this scale."""
        if len(self._scales) < MAX_FACTS:
            self._scales.add(where)

    def add_summary(self, where: CommunicatorScale, numbers: Mapping[str, int]) -> None:
        """One process of the plugin's sums up a communicator."""
        if where in self.summaries or len(self.summaries) < MAX_FACTS:
            self.summaries.setdefault(where, Counter()).update(numbers)

    # --- reading ----------------------------------------------------------------------------------

    def facts(self, kind: str) -> list[Fact]:
        """Facts of one kind, in the order of their lines."""
        return list(self._facts.get(kind, {}).values())

    def names(self, *kinds: str) -> list[str]:
        """Names in lines of these kinds, each once."""
        return list(dict.fromkeys(one.words["name"] for kind in kinds for one in self.facts(kind)))

    def find_line(self, kind: str, **words: str) -> str | None:
        """The first line of a kind that has these words."""
        wanted = words.items()
        return next((one.line for one in self.facts(kind) if wanted <= one.words.items()), None)

    @cached_property
    def variables(self) -> dict[str, list[str]]:
        """Values of each variable that the library says it read."""
        values: dict[str, list[str]] = {}
        for one in self.facts("variable"):
            _append_once(values.setdefault(one.words["name"], []), one.words["value"])
        return values

    @cached_property
    def added_variables(self) -> dict[str, str]:
        """Variables that a network plugin put into the environment."""
        return {one.words["name"]: one.words["value"] for one in self.facts("added")}

    @cached_property
    def versions(self) -> list[str]:
        """Versions that libraries say of themselves, ``RCCL 2.28.3-…``."""
        words = (one.words for one in self.facts("version"))
        return list(dict.fromkeys(f"{one['family']} {one['version']}" for one in words))

    @property
    def library(self) -> str | None:
        """Library that the job loads, where the files say one thing."""
        return self.versions[0] if len(self.versions) == 1 else None

    @cached_property
    def starts(self) -> dict[CommunicatorScale, dict[PluginStart, str]]:
        """How our plugin began, by scale, each with a line that says so."""
        starts: dict[CommunicatorScale, dict[PluginStart, str]] = {}
        for how in ("rules", "without rules", "stopped"):
            for words, line in self.facts(how):
                where = CommunicatorScale(int(words["nodes"]), int(words["ranks"]))
                names = ("text", "file", "sha256", "needs")
                start = PluginStart(how, *(words.get(name, "") for name in names))
                starts.setdefault(where, {}).setdefault(start, line)
        return starts

    @property
    def needs(self) -> list[str]:
        """Variables that rule files want and the job lacks."""
        return sorted({one.needs for starts in self.starts.values() for one in starts if one.needs})

    @property
    def rule_file(self) -> str | None:
        """The file whose rules our plugin read, where it was one."""
        files = {one.path for starts in self.starts.values() for one in starts if one.path}
        return files.pop() if len(files) == 1 else None

    @cached_property
    def rules_loaded(self) -> dict[str, int]:
        """How many rules another reader than our plugin took, by file."""
        return {one.words["file"]: int(one.words["rules"]) for one in self.facts("loaded")}

    @property
    def table(self) -> str | None:
        """The file that another reader took; None where none took one."""
        return next(iter((*self.names("table"), *self.rules_loaded)), None)

    @property
    def has_embedded_table(self) -> bool:
        """Whether that is compiled into the library."""
        return (self.table or "").startswith(EMBEDDED)

    @property
    def table_name(self) -> str:
        """Name of whose file that is, in words."""
        if self.table is None or self.has_embedded_table:
            return "the library's embedded table"
        is_users = self.table in self.variables.get("NCCL_TUNER_CONFIG_FILE", ())
        return self.table if is_users else f"the library's own file {self.table}"

    @property
    def has_our_plugin(self) -> bool:
        """Whether a line shows that our plugin was there."""
        return bool(self.starts or self.recorded_scales) or any(map(is_ours, self.names("using")))

    @property
    def scales(self) -> set[CommunicatorScale]:
        """Scales of which the library's log has lines."""
        return self._scales

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was understood."""
        kinds = ("version", "variable", "table", "loaded", *LOADING)
        known = self.sizes or self.nameless_choices or self.starts or self._scales or self.summaries
        return not (known or self.stuck_calls or any(map(self.facts, kinds)))

    # --- sorting ----------------------------------------------------------------------------------

    def sort_calls(self, nodes: Mapping[int, int]) -> None:
        """All files were read: put together what was said in parts.

        Args:
            nodes: number of nodes by number of ranks, where nothing else says it.
        """
        scales = {*self.starts, *self._scales, *self.summaries, *self.hits}
        scales |= {one.where for one in self._calls} | {one.where for one in self.stuck_calls}
        whole = {one for one in scales if one.n_nodes is not None and (one.n_ranks or 0) > 1}
        known = {one: _complete_scale(one, whole, nodes) for one in scales}
        self._scales = {known[one] for one in self._scales}
        self.summaries = _regroup(self.summaries, known)
        self.hits = _regroup(self.hits, known)
        self.stuck_calls = {
            one._replace(where=known[one.where]): x for one, x in self.stuck_calls.items()
        }
        calls = [(one._replace(where=known[one.where]), x) for one, x in self._calls.items()]
        self._calls = {}
        for call, line in calls:
            self.first_lines.setdefault(call.kind, line)
            if call.collective is not None:
                self._add_to_size(call, call.collective, line)
        for call, line in calls:
            if call.collective is None:
                self._add_nameless(call, line)
        self.recorded_scales |= {
            where for where, sums in self.summaries.items() if not sums["calls"]
        }
        for (comm, call), settings in self._choices.items():
            if call.collective in TUNABLE:
                key = _key(call._replace(where=known[call.where]), call.collective)
                self.choices[SharedCall(comm, key)] = settings
        self._choices = {}

    def _add_to_size(self, call: Call, collective: Collective, line: str) -> None:
        self.sizes.setdefault(_key(call, collective), SizeRecord()).add(call, line)
        if call.kind == "ran":
            self.scales_with_choices.add(call.where)
        elif call.kind == "answered":
            self.recorded_scales.add(call.where)

    def _add_nameless(self, call: Call, line: str) -> None:
        """Put a choice where it must be from, if the whole job has but one such collective."""
        mine = {
            key for key in self.sizes if key.nbytes == call.nbytes and _fits(key.where, call.where)
        }
        names = {key.collective for key in mine or self.sizes}
        if len(names) == 1:
            where = mine.pop().where if mine else call.where
            self._add_to_size(call._replace(where=where), names.pop(), line)
            return
        self.scales_with_choices.add(call.where)
        self.nameless_choices.setdefault((call.where, call.nbytes), SizeRecord()).add(call, line)


# What lines say of looking for a tuner (tells of messages.yaml).
LOADING: Final = (
    *("using", "opened", "named", "unsupported", "no symbol", "not found", "failed", "internal"),
)


def is_ours(name: str) -> bool:
    """Whether a tuner is ours by what a library calls it: ``rccltune (v5)``, ``rccltune``."""
    return name.split(" ", maxsplit=1)[0] == "rccltune"


def _key(call: Call, collective: Collective) -> Key:
    """Where, collective and size as a tuner sees it; a rank's own bytes where that is not known."""
    n_ranks = call.where.n_ranks if call.is_share and collective.is_shared else 1
    return Key(call.where, collective, call.nbytes * (n_ranks or 1))


def _append_once(values: list[T], one: T) -> None:
    if one not in values:
        values.append(one)


def _fits(whole: CommunicatorScale, part: CommunicatorScale) -> bool:
    """Whether a scale may be the other one, of which not all is known."""
    return part.n_ranks in (None, whole.n_ranks) and part.n_nodes in (None, whole.n_nodes)


def _complete_scale(
    part: CommunicatorScale, whole: set[CommunicatorScale], nodes: Mapping[int, int]
) -> CommunicatorScale:
    """The scale that one of which not all is known must be; itself where several fit."""
    if part in whole:
        return part
    fitting = [other for other in whole if _fits(other, part)]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and part.n_ranks in nodes:
        return CommunicatorScale(nodes[part.n_ranks or 0], part.n_ranks)
    return part


def _regroup(
    counts: Mapping[CommunicatorScale, Counter[T]],
    known: Mapping[CommunicatorScale, CommunicatorScale],
) -> dict[CommunicatorScale, Counter[T]]:
    sums: dict[CommunicatorScale, Counter[T]] = {}
    for where, numbers in counts.items():
        sums.setdefault(known[where], Counter()).update(numbers)
    return sums
