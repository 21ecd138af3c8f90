"""Steps of the rank program, and the lines of ``plan.txt`` that say them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final, TypeAlias

from rccltune.model.errors import OutputError
from rccltune.model.settings import BASELINE, IDLE, RULES, Role, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol

ANEW: Final = "delete this run's folder; the same command then measures it again."
# Behind it: the bytes of the largest step.
FIRST_WORDS: Final = "plan 2"
# What a communicator is for: every setting once, what could win with care, calls of the site as it
# is by which it says what it runs, starts of the site and of the idle plugin in turns, both sides
# of a rule file, probes of the order in which settings add.
FIRST: Final = "first"
SECOND: Final = "second"
QUESTIONS: Final = "asked"
SITE: Final = "site"
VERIFY: Final = "verify"
ORDERS: Final = "orders"
COMMUNICATOR: Final = "communicator"
ANSWER: Final = "answer"
CHECK: Final = "check"
CALL: Final = "call"
MEASURE: Final = "measure"
ORDER: Final = "order"
LOOP: Final = "loop"
GRAPH: Final = "graph"
# Below it a loop measures how fast the host launches; above, graphs and loops take the same.
GRAPH_UP_TO: Final = 4 << 20
# A loop whose calls all have the same root, as rccl-tests': of broadcast and reduce they overlap.
ONE_ROOT: Final = "one-root"
# A graph whose buffers the library allocated itself: NCCL registers no others.
REGISTERED: Final = "registered"
# What jobs of today reduce, and a tuner is not told.
BFLOAT16: Final = "bfloat16"
# What the rank program has calls for.
COLLECTIVES: Final = (
    Collective.ALL_REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.BROADCAST,
    Collective.REDUCE,
    Collective.ALLTOALL,
    Collective.SENDRECV,
)
# The program rounds each rank's part down to so many bytes.
_ALIGNED: Final = 16
# What a row has of a setting that nobody told.
NOTHING_SAID: Final = ("", "?")
# Settings that nobody names are of these. NVLS and CollNet are a user's to name: where NVLS is
# switched off, as on machines that several share, trying it does harm.
_ALGORITHMS: Final = (Algorithm.RING, Algorithm.TREE, Algorithm.PAT)


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """Arguments of one collective call.

    Attributes:
        dtype: rccl-tests' word, ``float``.
        op: rccl-tests' word; of no meaning where nothing is reduced.
        nbytes: as a tuner sees it: total over ranks where each has a share.
    """

    collective: Collective
    dtype: str
    op: str
    placement: Placement
    nbytes: int


@dataclass(frozen=True, slots=True)
class TimingEffort:
    """How much one timing takes: at least so long and so many calls, but not longer than that."""

    least_us: int
    least_calls: int
    most_us: int


_EFFORT: Final = TimingEffort(least_us=1000, least_calls=12, most_us=300_000)
# Of very large calls few are long enough.
_EFFORT_OF_LARGE: Final = TimingEffort(least_us=1000, least_calls=4, most_us=300_000)
_LARGE: Final = 32 << 20


def effort_of(nbytes: int) -> TimingEffort:
    """How much a timing takes.

    Args:
        nbytes: of the call.
    """
    return _EFFORT if nbytes < _LARGE else _EFFORT_OF_LARGE


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that all ranks do within a communicator.

    Steps are equal where they do the same, whatever effort is taken.

    Attributes:
        kind: CHECK, CALL, MEASURE or ORDER.
        setting: what the plugin answers; it may answer nothing, or not be loaded.
        timing: LOOP, GRAPH, ONE_ROOT or REGISTERED of a MEASURE, LOOP or GRAPH of an ORDER, empty
            of others.
    """

    kind: str
    setting: Setting
    call: CollectiveCall
    timing: str = ""
    effort: TimingEffort = field(default=_EFFORT, compare=False)

    @property
    def line(self) -> str:
        """``measure all_reduce float sum out 1024 graph 2000 20 300000``."""
        call = self.call
        what = (call.collective.value, call.dtype, call.op, call.placement.value, str(call.nbytes))
        rest: tuple[str, ...] = ("-",)
        if self.kind == MEASURE:
            effort = self.effort
            amounts = (effort.least_us, effort.least_calls, effort.most_us)
            rest = (self.timing, *map(str, amounts))
        elif self.kind == ORDER:
            rest = (self.timing,)
        return " ".join((self.kind, *what, *rest))


@dataclass(frozen=True, slots=True)
class Label:
    """Purpose of a communicator.

    Attributes:
        purpose: FIRST, SECOND …
        number: of those for the same purpose, from 0.
        rules: digest of the rule file that rules are answered by; empty where none is.
    """

    purpose: str
    number: int
    rules: str = ""

    def __str__(self) -> str:
        """``second:3``, ``verify/0123456789ab:3``."""
        return f"{self.purpose}{f'/{self.rules}' if self.rules else ''}:{self.number}"

    @classmethod
    def parse(cls, word: str) -> Label:
        """Read what ``str`` gives.

        Raises:
            ValueError: it is none.
        """
        name, colon, number = word.rpartition(":")
        purpose, _, rules = name.partition("/")
        if not purpose or not colon:
            raise ValueError(word)
        return cls(purpose, int(number), rules)


Communicators: TypeAlias = Mapping[Label, Sequence[Step]]


def first_line(largest: int) -> str:
    """First line of a plan: the bytes of its largest step."""
    return f"{FIRST_WORDS} {largest}"


def plan_text(communicators: Communicators) -> str:
    """Text of a whole plan.

    Args:
        communicators: steps of each, in their order.
    """
    largest = max(
        (step.call.nbytes for steps in communicators.values() for step in steps), default=1
    )
    return "\n".join([first_line(largest), *plan_lines(communicators)]) + "\n"


def plan_lines(communicators: Communicators) -> Iterator[str]:
    """Lines that make communicators, in their order."""
    answer: Setting = BASELINE
    for label, steps in communicators.items():
        yield f"{COMMUNICATOR} {label}"
        for step in steps:
            if step.setting != answer and step.setting.role is not Role.BASELINE:
                yield f"{ANSWER} {answer_of(step.setting)}"
            answer = step.setting
            yield step.line


def answer_of(setting: Setting) -> str:
    """Answer for the plugin to give: ``nothing``, ``rules`` or ``ring/ll128``."""
    return {IDLE: "nothing", RULES: "rules"}.get(setting, str(setting))


@cache
def setting_of(word: str) -> Setting | None:
    """The setting that a row names; None for ``none``, ``?`` and nothing."""
    if word in (*NOTHING_SAID, "none"):
        return None
    try:
        # Channels that are left to the library.
        return Setting.parse(word.removesuffix("/0"))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class PlacedStep:
    """A step where it stands in a plan.

    Attributes:
        line: of the file, from 1.
        communicator: of the run, from 0.
        label: what that is for.
        step: None of the making of a communicator.
    """

    line: int
    communicator: int
    label: Label
    step: Step | None


def read_plan(text: str, where: str) -> tuple[PlacedStep, ...]:
    """Steps of a plan.txt that :func:`plan_text` made.

    Raises:
        OutputError: a line that is none of ours, with its place.
    """
    steps: list[PlacedStep] = []
    communicator, label, setting = -1, Label("", 0), BASELINE
    lines = text.splitlines()
    if not lines or not lines[0].startswith(f"{FIRST_WORDS} "):
        raise OutputError("this is no plan of rccltune-perf", where=f"{where}:1", hint=ANEW)
    for number, line in enumerate(lines[1:], start=2):
        kind, *words = line.split(" ")
        try:
            if kind == COMMUNICATOR:
                communicator, label = communicator + 1, Label.parse(*words)
                steps.append(PlacedStep(number, communicator, label, None))
            elif kind == ANSWER:
                setting = IDLE if words == ["nothing"] else Setting.parse(*words)
            elif line and not line.startswith("#"):
                steps.append(PlacedStep(number, communicator, label, _parse_step(line, setting)))
        except (ValueError, TypeError) as error:
            raise OutputError(
                f"'{line[:80]}' is no step of a plan", where=f"{where}:{number}", hint=ANEW
            ) from error
    return tuple(steps)


# Communicators repeat their steps, and a session is read several times.
@lru_cache(maxsize=1 << 14)
def _parse_step(line: str, setting: Setting) -> Step:
    kind, collective, dtype, op, placement, nbytes, *rest = line.split(" ")
    call = CollectiveCall(Collective(collective), dtype, op, Placement(placement), int(nbytes))
    if kind == MEASURE:
        timing, *amounts = rest
        return Step(kind, setting, call, timing, TimingEffort(*map(int, amounts)))
    if kind == ORDER:
        (timing,) = rest
        return Step(kind, setting, call, timing)
    if kind not in (CHECK, CALL):
        raise ValueError(kind)
    return Step(kind, setting, call)


def grain(collective: Collective, n_ranks: int) -> int:
    """Bytes that every size is a multiple of: 16 bytes, for each rank where each has a share."""
    shared = collective.is_shared or collective is Collective.ALLTOALL
    return _ALIGNED * (n_ranks if shared else 1)


def sizes_for(sizes: Iterable[int], collective: Collective, n_ranks: int) -> tuple[int, ...]:
    """Sizes in bytes as they can be called, rising, each once.

    Args:
        sizes: as asked for.
        collective: that is called.
        n_ranks: of the communicator.
    """
    step = grain(collective, n_ranks)
    return tuple(sorted({nbytes // step * step for nbytes in sizes if nbytes >= step}))


def placements_for(
    placements: Iterable[Placement], collective: Collective
) -> tuple[Placement, ...]:
    """Placements that a collective has: point-to-point calls cannot work in place."""
    alone = collective in (Collective.ALLTOALL, Collective.SENDRECV)
    return tuple(one for one in placements if one is Placement.OUT_OF_PLACE or not alone)


def has(collective: Collective, setting: Setting) -> bool:
    """Whether a collective has the algorithm of a setting at all, as RCCL and NCCL are built."""
    if setting.algorithm is Algorithm.TREE:
        return collective.has_tree
    if setting.algorithm is Algorithm.PAT:
        return collective.is_shared and setting.protocol is Protocol.SIMPLE
    return True


def usual_settings(collective: Collective) -> tuple[Setting, ...]:
    """Settings that are tried where the user names none; whether a library has them is seen then.

    Never NVLS, NVLS Tree or CollNet.
    """
    every = (
        Setting(algorithm=algorithm, protocol=protocol)
        for algorithm in _ALGORITHMS
        for protocol in Protocol
    )
    return tuple(one for one in every if has(collective, one)) if collective.is_tunable else ()
