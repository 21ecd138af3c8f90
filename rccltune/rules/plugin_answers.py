"""Answers of the plugin for one collective at one scale, at every version and for every call."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import count, product
from pathlib import Path
from typing import Final

from rccltune import overwritten
from rccltune.analyse import selectable
from rccltune.model.errors import VerificationError
from rccltune.model.rule import Rule
from rccltune.model.settings import Mode, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules import decision
from rccltune.rules.decision import Decision
from rccltune.rules.plugin_library import PluginCommunicator, PluginLibrary
from rccltune.rules.rule_file import RuleFile
from rccltune.rules.rule_order import first_at

# Version 2 hosts take an answer unchecked, so some are withheld there.
_DIFFERENT_BY_DESIGN = (2,)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRange:
    """Sizes with one answer, and the line that gives it.

    Attributes:
        without_ll128: the answer where LL128 is not enabled.
        line: of the rule that answers, None where none does.
        reason: the file's own words for a gap.
    """

    min_nbytes: int
    max_nbytes: int
    setting: Setting | None
    without_ll128: Setting | None
    line: int | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """Arguments of a call beside its size; the defaults where a job does nothing special.

    Attributes:
        num_pipe_ops: operations in the group.
        reg_buff: 1 where buffers are registered; with hosts before ABI version 4, which cannot say
            it, always 0.
    """

    num_pipe_ops: int = 1
    reg_buff: int = 0

    def __str__(self) -> str:
        """``registered buffers (regBuff=1)``, with the column's name."""
        registered = f"{'' if self.reg_buff else 'un'}registered buffers (regBuff={self.reg_buff})"
        n = self.num_pipe_ops
        return registered if n == 1 else f"{n} operations in a group (numPipeOps={n}), {registered}"


USUAL: Final = CallArguments()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleExplanation:
    """One collective at one scale.

    Attributes:
        ranges: of the usual call, one operation in buffers that are not registered.
        calls: all that were asked about, and the ranges of each whose answers are other ones;
            values that rows name, and one that no row names.
        old_hosts: (ABI version, what its hosts are answered) where that differs by design: 2 is
            ROCm 6.3.
        overwritten: which releases write over some of these answers, a sentence for each way.
    """

    collective: Collective
    scale: Scale
    ranges: tuple[AnswerRange, ...]
    old_hosts: tuple[tuple[int, tuple[Decision, ...]], ...]
    overwritten: tuple[str, ...] = ()
    calls: tuple[tuple[CallArguments, tuple[AnswerRange, ...]], ...] = ()

    def of(self, call: CallArguments) -> tuple[AnswerRange, ...]:
        """Ranges of one call; of one that no row tells from it where it was not asked."""
        return dict(self.calls).get(call, self.ranges)


@lru_cache(maxsize=1024)
def offered_cells(
    collective: Collective, scale: Scale, arch: str | None, *, ll128: bool
) -> frozenset[tuple[Algorithm, Protocol]]:
    """Cells that a library may offer there, with LL128 enabled or without."""
    return frozenset(
        (a, p)
        for a in Algorithm
        for p in Protocol
        if why_not_offered(collective, scale, a, p, arch) is None
        and (ll128 or p is not Protocol.LL128)
    )


@lru_cache(maxsize=4096)
def why_not_offered(
    collective: Collective, scale: Scale, a: Algorithm, p: Protocol, arch: str | None
) -> str | None:
    """Why a library never offers a cell there; None where it may."""
    return selectable.why_not_selectable(Setting(algorithm=a, protocol=p), collective, scale, arch)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleQuestion:
    """One collective at one scale, with what is needed to ask about it.

    Attributes:
        rules: that are for it, whatever the call.
        calls: that are asked about, the usual one among them.
    """

    rules: tuple[Rule, ...]
    file: RuleFile
    collective: Collective
    scale: Scale
    arch: str | None
    calls: tuple[CallArguments, ...]


class RuleMatcher:
    """Finds the rules of one collective and scale among thousands."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Sort them by what they are for."""
        self._by_place: dict[tuple[object, ...], list[tuple[int, Rule]]] = {}
        for number, rule in enumerate(rules):
            place = (rule.collective, rule.n_nodes, rule.n_ranks)
            self._by_place.setdefault(place, []).append((number, rule))

    def of(self, scale: Scale, *collectives: Collective) -> tuple[Rule, ...]:
        """Rules for a scale and collectives, in file order."""
        places = product(collectives, (None, scale.n_nodes), (None, scale.n_ranks))
        ordered_rules = [one for place in places for one in self._by_place.get(place, ())]
        return tuple(rule for _, rule in sorted(ordered_rules, key=lambda one: one[0]))


def calls_of(rules: Iterable[Rule]) -> tuple[CallArguments, ...]:
    """Calls that rows tell apart, the usual one first: each value that they name, and another."""
    operations, registered = {1}, {0}
    for rule in rules:
        if rule.num_pipe_ops is not None:
            operations.add(max(1, rule.num_pipe_ops))
        if rule.reg_buff is not None:
            registered |= {0, 1}
    if any(rule.num_pipe_ops is not None for rule in rules):
        operations.add(next(n for n in count(2) if n not in operations))
    return tuple(
        CallArguments(num_pipe_ops=n, reg_buff=r)
        for n in sorted(operations)
        for r in sorted(registered)
    )


def explain_scale(case: ScaleQuestion, host: OpenPlugin) -> ScaleExplanation:
    """Ask the plugin.

    The usual call is asked at every version of the interface, others at the newest: what is
    beside the size goes one way through the plugin whichever version passes it on.

    Args:
        case: what about.
        host: the plugin, open for the case's scale.

    Raises:
        VerificationError: its answer is not what the file says; a bug of ours.
    """
    newest = max(host.communicators)
    answers = {
        abi: _ask(case, abi, one, case.calls if abi == newest else (USUAL,))
        for abi, one in host.communicators.items()
    }
    for abi, answer in answers.items():
        if abi not in _DIFFERENT_BY_DESIGN and answer[USUAL] != answers[newest][USUAL]:
            raise VerificationError(
                f"the plugin answers differently at ABI versions {abi} and {newest} "
                f"({case.collective.value}, {case.scale})",
                where=str(host.path),
                hint="please report this with the rule file: it is a bug.",
            )
    ranges = {call: _answer_ranges(case, call, *both) for call, both in answers[newest].items()}
    return ScaleExplanation(
        collective=case.collective,
        scale=case.scale,
        ranges=ranges[USUAL],
        old_hosts=tuple(
            (abi, answers[abi][USUAL][0])
            for abi in _DIFFERENT_BY_DESIGN
            if abi in answers and answers[abi][USUAL][0] != answers[newest][USUAL][0]
        ),
        overwritten=overwritten.explained(case.rules, case.collective, case.scale, case.arch),
        calls=tuple(
            (call, found)
            for call, found in ranges.items()
            if answers[newest][call] != answers[newest][USUAL]
        ),
    )


_Both = tuple[tuple[Decision, ...], ...]
# The first versions whose hosts pass which cells may be chosen, and whether buffers are registered.
_PASSES_A_TABLE: Final = 3
_SAYS_REGISTERED: Final = 4


@dataclass(frozen=True, slots=True)
class OpenPlugin:
    """The plugin of a path, open for one scale at versions of its interface."""

    path: Path
    communicators: Mapping[int, PluginCommunicator]


@contextmanager
def open_at_scale(
    host: PluginLibrary, rules: Path, only: Path, scale: Scale, mode: Mode | None
) -> Iterator[OpenPlugin]:
    """Open a rule file for one scale at every version.

    Args:
        host: the plugin.
        rules: the file, read whole at the newest version.
        only: its rows for this scale, read at the others: answers of all versions are held
            against each other, and reading thousands of rows for each would take most of the time.
        scale: of the communicators.
        mode: of the device, where rows ask for one.
    """
    variables = {} if mode is None else {"RCCLTUNE_MODE": str(mode)}
    newest = max(host.abi_versions)
    with ExitStack() as stack:
        opened = {
            abi: stack.enter_context(
                host.communicator(
                    abi=abi,
                    n_nodes=scale.n_nodes,
                    n_ranks=scale.n_ranks,
                    env={
                        **variables,
                        "NCCL_TUNER_CONFIG_FILE": str(rules if abi == newest else only),
                    },
                )
            )
            for abi in host.abi_versions
        }
        yield OpenPlugin(host.path, opened)


def _ask(
    case: ScaleQuestion, abi: int, communicator: PluginCommunicator, calls: Iterable[CallArguments]
) -> dict[CallArguments, _Both]:
    """Decisions of each call, with LL128 enabled and without."""
    hints = {bound for r in case.rules for bound in (r.min_nbytes, r.max_nbytes + 1)}

    def decided(n_pipe_ops: int, reg_buff: int, *, ll128: bool) -> tuple[Decision, ...]:
        return decision.find_decisions(
            communicator,
            case.collective,
            decision.cost_table(offered_cells(case.collective, case.scale, case.arch, ll128=ll128)),
            hints,
            num_pipe_ops=n_pipe_ops,
            reg_buff=reg_buff,
        )

    # Where no rule may choose it, the plugin answers alike with LL128 and without.
    names_ll128 = any(rule.setting.protocol in (Protocol.LL128, None) for rule in case.rules)
    # A version that is not told something answers alike whatever it is.
    ask_once = cache(decided)
    return {
        call: tuple(
            ask_once(
                call.num_pipe_ops,
                call.reg_buff if abi >= _SAYS_REGISTERED else 0,
                ll128=ll128 or abi < _PASSES_A_TABLE or not names_ll128,
            )
            for ll128 in (True, False)
        )
        for call in calls
    }


def _answer_ranges(
    case: ScaleQuestion,
    call: CallArguments,
    with_ll128: Sequence[Decision],
    without: Sequence[Decision],
) -> tuple[AnswerRange, ...]:
    decided = {d.min_nbytes for d in (*with_ll128, *without)}
    holes = [h for h in case.file.holes if h.is_of(case.collective, case.scale)]
    # Neighbouring rules of one setting are ranges of their own: each is on a line of its own.
    bounds = {edge for r in case.rules for edge in (r.min_nbytes, r.max_nbytes + 1)}
    inside = {edge for edge in bounds if edge <= with_ll128[-1].max_nbytes}
    edges = sorted(decided | {h.min_nbytes for h in holes} | inside)
    ends = [edge - 1 for edge in edges[1:]] + [with_ll128[-1].max_nbytes]
    settings = _settings_at(with_ll128, edges)
    lines = _find_answering(case, call, edges, settings)
    reasons = first_at(((h.min_nbytes, h.max_nbytes) for h in holes), edges)
    ranges: list[AnswerRange] = []
    for low, high, setting, other, rule, hole in zip(
        edges, ends, settings, _settings_at(without, edges), lines, reasons, strict=True
    ):
        if setting is not None and rule is None:
            raise VerificationError(
                f"the plugin answers {setting} for {case.collective.value} of {low} bytes, and "
                "no rule of the file says so",
                hint="please report this with the rule file: it is a bug.",
            )
        one = AnswerRange(
            min_nbytes=low,
            max_nbytes=high,
            setting=setting,
            without_ll128=other,
            line=rule.line if rule else None,
            reason=holes[hole].reason if setting is None and hole is not None else None,
        )
        if (
            ranges
            and low not in decided
            and replace(one, min_nbytes=ranges[-1].min_nbytes)
            == replace(ranges[-1], max_nbytes=high)
        ):
            ranges[-1] = replace(ranges[-1], max_nbytes=high)
        else:
            ranges.append(one)
    return tuple(ranges)


def _settings_at(decisions: Sequence[Decision], edges: Sequence[int]) -> list[Setting | None]:
    starts = [each.min_nbytes for each in decisions]
    return [decisions[bisect_right(starts, edge) - 1].setting for edge in edges]


def _find_answering(
    case: ScaleQuestion,
    call: CallArguments,
    edges: Sequence[int],
    settings: Sequence[Setting | None],
) -> list[Rule | None]:
    """Find the first rule of the file, at each edge, that says what the plugin answered there."""
    rules: dict[Setting, list[Rule]] = {}
    for rule in case.rules:
        if rule.num_pipe_ops in (None, call.num_pipe_ops) and rule.reg_buff in (
            None,
            call.reg_buff,
        ):
            rules.setdefault(rule.setting, []).append(rule)
    answering: list[Rule | None] = [None] * len(edges)
    for setting in {each for each in settings if each is not None}:
        mine = rules.get(setting, [])
        at = [i for i, each in enumerate(settings) if each == setting]
        first = first_at(((r.min_nbytes, r.max_nbytes) for r in mine), [edges[i] for i in at])
        for i, number in zip(at, first, strict=True):
            answering[i] = None if number is None else mine[number]
    return answering
