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
_OWN_LINES: Final = 8
# How RCCL's own reader calls a table that is compiled into it.
EMBEDDED: Final = "<embedded>"
T = TypeVar("T")


class Told(NamedTuple):
    """A fact: the named parts of a known line, and the first line that says it."""

    words: Mapping[str, str]
    line: str


class Call(NamedTuple):
    """What a line says of a call.

    Attributes:
        tells: ``ran``; ``answered`` by our plugin; ``applied`` by another reader of rules;
            ``called``; ``past`` every tuner.
        collective: None where the line does not name it.
        is_share: ``nbytes`` are a rank's own, not what a tuner sees.
        setting: that ran or was answered; None where it has no name today, or for no answer.
        rule: line of the rule file, 0 where unknown.
        code: the plugin's reason.
        offered: cells that could be chosen; None where the line does not say.
        path: around the tuner.
    """

    tells: str
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
    kindred: TypeAndOperation | None = None


class Choice(NamedTuple):
    """What a rank of a communicator takes for a call."""

    comm: str
    rank: str
    setting: Setting


@dataclass(slots=True)
class SizeRecord:
    """All that is said of one collective at one size.

    Attributes:
        said: answers of the tuner, in the order of the lines.
        codes: the plugin's reasons.
        offered: cells that could be chosen; None where nobody said.
        ran: settings that ran; None is one without a name today.
        n_channels: how many channels they ran on.
        paths: ways around the tuner that the log names itself.
        called: a line of the call itself is there.
        kindred: types and operations of the calls.
        shown: the first line that says what ran.
    """

    said: list[TunerAnswer] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    offered: frozenset[Setting] | None = None
    ran: list[Setting | None] = field(default_factory=list)
    n_channels: set[int] = field(default_factory=set)
    paths: set[str] = field(default_factory=set)
    called: bool = False
    kindred: set[TypeAndOperation] = field(default_factory=set)
    shown: str = ""

    def add(self, call: Call, line: str) -> None:
        """Take what one more line says."""
        if call.tells == "ran":
            _once(self.ran, call.setting)
            self.shown = self.shown or line
        elif call.tells in ("answered", "applied"):
            _once(self.said, TunerAnswer(call.setting, call.rule))
        self.codes |= {call.code} - {""}
        self.paths |= {call.path} - {""}
        self.called |= call.tells in ("called", "past")
        self.n_channels |= set() if call.n_channels is None else {call.n_channels}
        self.kindred |= set() if call.kindred is None else {call.kindred}
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
    """All facts of all files. Readers put them down; :meth:`settle` then sorts calls by size.

    Attributes:
        totals: by scale, sums of the plugin's summaries: calls, hits, misses, shut (for not
            selectable).
        hits: by scale, calls by the rule that answered them, from those summaries.
        stuck: calls that ended the job.
        refused: cells without bandwidth in the library's own model.
        torn: lines of several messages; only the last one is whole.
        tables: benchmarks' tables that were read.
        unread: why others could not be.
        dropped: lines on calls that did not fit.
        seen: by scale, collective and size.
        nameless: by scale and size, choices of which no line names the collective.
        choices: by call and setting, the ranks that took it, each with a line that says so: the
            first ones' own, then the first of all.
        first: the first line of each kind of :attr:`Call.tells`.
        recorded: scales whose every question to our plugin is written down.
        tuning: scales of which lines say what ran.
    """

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._told: dict[str, dict[tuple[tuple[str, str], ...], Told]] = {}
        self._calls: dict[Call, str] = {}
        self._choices: dict[tuple[str, Call], dict[Setting, dict[str, str]]] = {}
        self._scales: set[CommunicatorScale] = set()
        self.totals: dict[CommunicatorScale, Counter[str]] = {}
        self.hits: dict[CommunicatorScale, Counter[TunerAnswer]] = {}
        self.stuck: dict[NoSettingLeft, str] = {}
        self.refused: set[tuple[Collective, Setting]] = set()
        self.torn = self.tables = self.dropped = 0
        self.unread: list[str] = []
        self.seen: dict[Key, SizeRecord] = {}
        self.nameless: dict[tuple[CommunicatorScale, int], SizeRecord] = {}
        self.choices: dict[SharedCall, dict[Setting, dict[str, str]]] = {}
        self.first: dict[str, str] = {}
        self.recorded: set[CommunicatorScale] = set()
        self.tuning: set[CommunicatorScale] = set()

    # --- putting down -----------------------------------------------------------------------------

    def tell(self, tells: str, words: Mapping[str, str], line: str) -> None:
        """A line says something."""
        facts = self._told.setdefault(tells, {})
        key = tuple(words.items())
        if key not in facts and len(facts) < MAX_FACTS:
            facts[key] = Told(words, line)

    def call(self, call: Call, line: str, choice: Choice | None = None) -> None:
        """A line says something of a call, and what a rank takes for it."""
        if len(self._calls) < MAX_CALLS or call in self._calls:
            self._calls.setdefault(call, line)
        else:
            self.dropped += 1
        # Ranks by the thousand say the same of a thousand sizes: their names alone are kept.
        at = Call("", call.where, call.collective, call.nbytes, call.is_share)
        if choice is not None:
            key = (choice.comm, at)
            if len(self._choices) < MAX_CALLS or key in self._choices:
                ranks = self._choices.setdefault(key, {}).setdefault(choice.setting, {})
                own = line if len(ranks) < _OWN_LINES else next(iter(ranks.values()))
                ranks.setdefault(choice.rank, own)

    def scale(self, where: CommunicatorScale) -> None:
        """There is a communicator of this scale."""
        if len(self._scales) < MAX_FACTS:
            self._scales.add(where)

    def count(self, where: CommunicatorScale, numbers: Mapping[str, int]) -> None:
        """One process of the plugin's sums up a communicator."""
        if where in self.totals or len(self.totals) < MAX_FACTS:
            self.totals.setdefault(where, Counter()).update(numbers)

    # --- asking -----------------------------------------------------------------------------------

    def told(self, tells: str) -> list[Told]:
        """Facts of one kind, in the order of their lines."""
        return list(self._told.get(tells, {}).values())

    def names(self, *tells: str) -> list[str]:
        """What lines of these kinds name, each once."""
        return list(dict.fromkeys(one.words["name"] for kind in tells for one in self.told(kind)))

    def line(self, tells: str, **words: str) -> str | None:
        """The first line of a kind that has these words."""
        wanted = words.items()
        return next((one.line for one in self.told(tells) if wanted <= one.words.items()), None)

    @cached_property
    def variables(self) -> dict[str, list[str]]:
        """Values of each variable that the library says it read."""
        values: dict[str, list[str]] = {}
        for one in self.told("variable"):
            _once(values.setdefault(one.words["name"], []), one.words["value"])
        return values

    @cached_property
    def added(self) -> dict[str, str]:
        """Variables that a network plugin put into the environment."""
        return {one.words["name"]: one.words["value"] for one in self.told("added")}

    @cached_property
    def versions(self) -> list[str]:
        """What libraries say of themselves, ``RCCL 2.28.3-…``."""
        words = (one.words for one in self.told("version"))
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
            for words, line in self.told(how):
                where = CommunicatorScale(int(words["nodes"]), int(words["ranks"]))
                names = ("text", "file", "sha256", "needs")
                start = PluginStart(how, *(words.get(name, "") for name in names))
                starts.setdefault(where, {}).setdefault(start, line)
        return starts

    @property
    def needs(self) -> list[str]:
        """Variables that rule files want and the job lacks."""
        return sorted({one.needs for found in self.starts.values() for one in found if one.needs})

    @property
    def rule_file(self) -> str | None:
        """The file whose rules our plugin read, where it was one."""
        read = {one.path for found in self.starts.values() for one in found if one.path}
        return read.pop() if len(read) == 1 else None

    @cached_property
    def loaded(self) -> dict[str, int]:
        """How many rules another reader than our plugin took, by file."""
        return {one.words["file"]: int(one.words["rules"]) for one in self.told("loaded")}

    @property
    def table(self) -> str | None:
        """The file that another reader took; None where none took one."""
        return next(iter((*self.names("table"), *self.loaded)), None)

    @property
    def is_embedded(self) -> bool:
        """Whether that is compiled into the library."""
        return (self.table or "").startswith(EMBEDDED)

    @property
    def table_named(self) -> str:
        """Name of whose file that is, in words."""
        if self.table is None or self.is_embedded:
            return "the library's embedded table"
        named = self.table in self.variables.get("NCCL_TUNER_CONFIG_FILE", ())
        return self.table if named else f"the library's own file {self.table}"

    @property
    def has_our_plugin(self) -> bool:
        """Whether a line shows that our plugin was there."""
        return bool(self.starts or self.recorded) or any(map(is_ours, self.names("using")))

    @property
    def scales(self) -> set[CommunicatorScale]:
        """Scales of which the library's log has lines."""
        return self._scales

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was understood."""
        kinds = ("version", "variable", "table", "loaded", *LOADING)
        known = self.seen or self.nameless or self.starts or self._scales or self.totals
        return not (known or self.stuck or any(map(self.told, kinds)))

    # --- sorting ----------------------------------------------------------------------------------

    def settle(self, nodes: Mapping[int, int]) -> None:
        """All files were read: put together what was said in parts.

        Args:
            nodes: number of nodes by number of ranks, where nothing else says it.
        """
        scales = {*self.starts, *self._scales, *self.totals, *self.hits}
        scales |= {one.where for one in self._calls} | {one.where for one in self.stuck}
        whole = {one for one in scales if one.n_nodes is not None and (one.n_ranks or 0) > 1}
        known = {one: _whole(one, whole, nodes) for one in scales}
        self._scales = {known[one] for one in self._scales}
        self.totals = _regrouped(self.totals, known)
        self.hits = _regrouped(self.hits, known)
        self.stuck = {one._replace(where=known[one.where]): x for one, x in self.stuck.items()}
        calls = [(one._replace(where=known[one.where]), x) for one, x in self._calls.items()]
        self._calls = {}
        for call, line in calls:
            self.first.setdefault(call.tells, line)
            if call.collective is not None:
                self._put(call, call.collective, line)
        for call, line in calls:
            if call.collective is None:
                self._put_nameless(call, line)
        self.recorded |= {where for where, sums in self.totals.items() if not sums["calls"]}
        for (comm, call), settings in self._choices.items():
            if call.collective in TUNABLE:
                key = _key(call._replace(where=known[call.where]), call.collective)
                self.choices[SharedCall(comm, key)] = settings
        self._choices = {}

    def _put(self, call: Call, collective: Collective, line: str) -> None:
        self.seen.setdefault(_key(call, collective), SizeRecord()).add(call, line)
        if call.tells == "ran":
            self.tuning.add(call.where)
        elif call.tells == "answered":
            self.recorded.add(call.where)

    def _put_nameless(self, call: Call, line: str) -> None:
        """Put a choice where it must be from, if the whole job has but one such collective."""
        mine = {key for key in self.seen if key[2] == call.nbytes and _fits(key[0], call.where)}
        names = {key[1] for key in mine or self.seen}
        if len(names) == 1:
            where = mine.pop()[0] if mine else call.where
            self._put(call._replace(where=where), names.pop(), line)
            return
        self.tuning.add(call.where)
        self.nameless.setdefault((call.where, call.nbytes), SizeRecord()).add(call, line)


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
    return (call.where, collective, call.nbytes * (n_ranks or 1))


def _once(values: list[T], one: T) -> None:
    if one not in values:
        values.append(one)


def _fits(whole: CommunicatorScale, part: CommunicatorScale) -> bool:
    """Whether a scale may be the other one, of which not all is known."""
    return part.n_ranks in (None, whole.n_ranks) and part.n_nodes in (None, whole.n_nodes)


def _whole(
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


def _regrouped(
    counts: Mapping[CommunicatorScale, Counter[T]],
    known: Mapping[CommunicatorScale, CommunicatorScale],
) -> dict[CommunicatorScale, Counter[T]]:
    sums: dict[CommunicatorScale, Counter[T]] = {}
    for where, numbers in counts.items():
        sums.setdefault(known[where], Counter()).update(numbers)
    return sums
