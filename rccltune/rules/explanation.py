"""Explanation of a rule file, and differences of two, asked of the real plugin."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.model import grammar
from rccltune.model.brief import brief
from rccltune.model.errors import CommandLineError
from rccltune.model.rule import Rule
from rccltune.model.settings import Mode, Scale, Setting, Vendor, why_never
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.rules import decision
from rccltune.rules.other_readers import MisreadLine, beside_lines, find_misread
from rccltune.rules.plugin_answers import (
    USUAL,
    CallArguments,
    RuleMatcher,
    ScaleExplanation,
    ScaleQuestion,
    calls_of,
    explain_scale,
    offered_cells,
    open_at_scale,
    why_not_offered,
)
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.rule_file import RuleFile
from rccltune.rules.rule_order import OrderAudit, audit_order

_CORRECT: Final = "correct these lines; sizes are plain bytes, names lower case."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementUse:
    """Whether the plugin uses a file that is for one placement of ranks.

    Attributes:
        with_it: where RCCLTUNE_PLACEMENT names the placement.
        without: where nothing does, as far as this machine shows where its devices are.
    """

    name: str
    with_it: bool
    without: bool


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A whole file.

    Attributes:
        unmatched: (line, reason) of rules for numbers that no communicator has.
        never: (line, reason) of rules for cells that the library never offers.
        never_by_amd: where nothing says whose GPUs it is for, the same for RCCL on AMD's.
        placement: where the file is for one placement of ranks only.
        misread: lines that readers without our plugin take for something else.
        beside_lines: what such readers do where no line says it.
    """

    path: Path
    file: RuleFile
    audit: OrderAudit
    parts: tuple[ScaleExplanation, ...]
    unmatched: tuple[tuple[int, str], ...]
    never: tuple[tuple[int, str], ...]
    never_by_amd: tuple[tuple[int, str], ...] = ()
    placement: PlacementUse | None = None
    misread: tuple[MisreadLine, ...] = ()
    beside_lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQuestion:
    """Question about a file; None is everything that the file names."""

    collective: Collective | None = None
    n_nodes: int | None = None
    n_ranks: int | None = None
    mode: Mode | None = None


def read_question(
    path: Path, question: RuleQuestion
) -> tuple[list[tuple[Collective, Scale]], tuple[CallArguments, ...]]:
    """Find what a file names of a question: collectives with the scales of each; and calls.

    Raises:
        InputFileError: as :func:`explain`.
    """
    rules = _for_mode(_read_once(content_of(path), path).rules, question.mode)
    return _list_scales(rules, question), calls_of(rules)


def explain(
    path: Path,
    question: RuleQuestion,
    also: Sequence[tuple[Collective, Scale]] = (),
    calls: Sequence[CallArguments] = (),
) -> Explanation:
    """Ask the plugin about one file.

    Args:
        path: of the file.
        question: what about.
        also: collectives and scales beside those that it names.
        calls: that are asked about beside those that its rows tell apart.

    Raises:
        InputFileError: the file cannot be read or is refused; the message has every mistake.
        VerificationError: the plugin's answer is not what the file says; a bug of ours.
    """
    content = content_of(path)
    file = _read_once(content, path)
    rules = _for_mode(file.rules, question.mode)
    host = PluginLibrary(plugin.library())
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        copy = Path(folder) / "rules.csv"
        copy.write_bytes(_without_requirements(content))
        only, lines = Path(folder) / "scale.csv", _lines(content)
        matching, arch = RuleMatcher(rules), _whose(file, question.mode)
        scales = dict.fromkeys((*_list_scales(rules, question), *also))
        by_scale: dict[tuple[Collective, Scale], ScaleExplanation] = {}
        for scale in dict.fromkeys(one for _, one in scales):
            only.write_bytes(_rows(lines, matching.of(scale, *TUNABLE)))
            with open_at_scale(host, copy, only, scale, question.mode) as opened:
                for collective in (one for one, there in scales if there == scale):
                    mine = matching.of(scale, collective)
                    case = ScaleQuestion(
                        rules=mine,
                        file=file,
                        collective=collective,
                        scale=scale,
                        arch=arch,
                        calls=tuple(dict.fromkeys((*calls_of(mine), *calls))),
                    )
                    by_scale[collective, scale] = explain_scale(case, opened)
        parts = tuple(by_scale[one] for one in scales)
        copy.write_bytes(_with_placement_alone(content, file))
        declared = _ask_placement(host, copy, file, parts, question.mode)
    return Explanation(
        path=path,
        file=file,
        audit=audit_order(rules),
        parts=parts,
        unmatched=tuple(
            (rule.line, why)
            for rule in rules
            if rule.line is not None and (why := why_never(rule.n_nodes, rule.n_ranks)) is not None
        ),
        never=_never(rules, _whose(file, question.mode)),
        never_by_amd=() if _whose(file, question.mode) else _never(rules, Vendor.AMD.value),
        placement=declared,
        misread=find_misread(content, file),
        beside_lines=beside_lines(content),
    )


@lru_cache(maxsize=2)
def _read_once(content: bytes, path: Path) -> RuleFile:
    """Read a file once for both questions of a comparison."""
    return read_accepted(content, path, _CORRECT)


def _without_requirements(content: bytes) -> bytes:
    """The file as it is on the machine that it is for: this one need not be that machine."""
    lines = _lines(content)
    kept_lines = ("#" if grammar.instruction(line)[:1] == ["requires"] else line for line in lines)
    return "".join(f"{line}\n" for line in kept_lines).encode("latin-1")


def _lines(content: bytes) -> list[str]:
    """One character a byte, so that nothing is changed."""
    return grammar.lines(grammar.unmarked(content).decode("latin-1"))


def _rows(lines: Sequence[str], rules: Sequence[Rule]) -> bytes:
    """The rows of some rules as they stand; without any, a file that says nothing."""
    numbers = [rule.line for rule in rules if rule.line is not None]
    return "".join(f"{lines[n - 1]}\n" for n in numbers).encode("latin-1") or b"# no row\n"


def _with_placement_alone(content: bytes, file: RuleFile) -> bytes:
    """The file with nothing required but its placement, which depends on the job."""
    placement = dict(file.requires).get("placement")
    head = f"#@ requires placement={placement}\n" if placement else ""
    return head.encode("latin-1") + _without_requirements(content)


def _ask_placement(
    host: PluginLibrary,
    path: Path,
    file: RuleFile,
    parts: Sequence[ScaleExplanation],
    mode: Mode | None,
) -> PlacementUse | None:
    """Ask the plugin with RCCLTUNE_PLACEMENT and without it."""
    placement = dict(file.requires).get("placement")
    part = next((p for p in parts if any(s.setting is not None for s in p.ranges)), None)
    if placement is None or part is None:
        return None
    arch = _whose(file, mode)
    table = decision.cost_table(offered_cells(part.collective, part.scale, arch, ll128=True))

    variables = {"NCCL_TUNER_CONFIG_FILE": str(path)}
    if mode is not None:
        variables["RCCLTUNE_MODE"] = str(mode)

    def answers(declared: Mapping[str, str]) -> bool:
        with host.communicator(
            abi=max(host.abi_versions),
            n_nodes=part.scale.n_nodes,
            n_ranks=part.scale.n_ranks,
            env={**variables, **declared},
        ) as communicator:
            hints = {part.min_nbytes for part in part.ranges}
            decided = decision.find_decisions(communicator, part.collective, table, hints)
        return any(one.setting is not None for one in decided)

    return PlacementUse(
        name=placement,
        with_it=answers({"RCCLTUNE_PLACEMENT": placement}),
        without=answers({}),
    )


def _for_mode(rules: Sequence[Rule], mode: Mode | None) -> tuple[Rule, ...]:
    if mode is None:
        modes = sorted({str(r.only_mode) for r in rules if r.only_mode is not None})
        if modes:
            raise CommandLineError(
                f"rows of this file are for one partition mode only: {', '.join(modes)}",
                hint="say which machine is meant with --mode.",
            )
        return tuple(rules)
    return tuple(r for r in rules if r.only_mode is None or r.only_mode.compute == mode.compute)


def _list_scales(rules: Sequence[Rule], question: RuleQuestion) -> list[tuple[Collective, Scale]]:
    return [(c, s) for c in _collectives(rules, question) for s in _scales(rules, c, question)]


def _collectives(rules: Sequence[Rule], question: RuleQuestion) -> list[Collective]:
    collectives = TUNABLE if question.collective is None else (question.collective,)
    return [c for c in collectives if any(rule.collective is c for rule in rules)]


def _scales(rules: Sequence[Rule], collective: Collective, question: RuleQuestion) -> list[Scale]:
    """Scales that the file names; a wildcard is shown at one node with eight ranks."""
    mine = [rule for rule in rules if rule.collective is collective]
    scales = set()
    for rule in mine:
        n_nodes = question.n_nodes or rule.n_nodes or 1
        n_ranks = question.n_ranks or rule.n_ranks or 8 * n_nodes
        if n_ranks >= n_nodes:
            scales.add(Scale(n_nodes=n_nodes, n_ranks=n_ranks))
    return sorted(scales, key=lambda s: (s.n_nodes, s.n_ranks))


def _whose(file: RuleFile, mode: Mode | None) -> str | None:
    """Arch or vendor of the GPUs that are meant; only AMD's have partition modes."""
    has_mode = mode is not None and mode.compute is not None
    return file.arch_or_vendor or (Vendor.AMD.value if has_mode else None)


def _never(rules: Sequence[Rule], arch: str | None) -> tuple[tuple[int, str], ...]:
    refused = []
    for rule in rules:
        algorithm, protocol = rule.setting.algorithm, rule.setting.protocol
        if algorithm is None or protocol is None:
            continue
        n_nodes = rule.n_nodes or 2
        scale = Scale(n_nodes=n_nodes, n_ranks=max(rule.n_ranks or 8 * n_nodes, n_nodes))
        why = why_not_offered(rule.collective, scale, algorithm, protocol, arch)
        if why is not None and rule.line is not None:
            refused.append((rule.line, why))
    return tuple(refused)


_Both = tuple[Setting | None, Setting | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDifference:
    """Sizes at which two files answer differently.

    Attributes:
        one_without: the first file's answer where LL128 is not enabled.
        other_without: the second's.
        call: for which they do.
    """

    collective: Collective
    scale: Scale
    min_nbytes: int
    max_nbytes: int
    one: Setting | None
    other: Setting | None
    one_without: Setting | None
    other_without: Setting | None
    call: CallArguments = USUAL


def compare(one: Path, other: Path, question: RuleQuestion) -> tuple[Explanation, Explanation]:
    """Ask about two files at every collective and scale that either names.

    A row for any number of ranks answers at the scales of the other file's rows too.

    Raises:
        InputFileError: as :func:`explain`, for either.
    """
    questions = [read_question(path, question) for path in (one, other)]
    both = tuple(dict.fromkeys(key for keys, _ in questions for key in keys))
    calls = tuple(dict.fromkeys(call for _, mine in questions for call in mine))
    return explain(one, question, both, calls), explain(other, question, both, calls)


def differences(one: Explanation, other: Explanation) -> tuple[AnswerDifference, ...]:
    """Differences between two explanations of the same question.

    Other calls than the usual one have differences of their own only where the usual one's are
    other ones.
    """
    all_differences: list[AnswerDifference] = []
    others = {(part.collective, part.scale): part for part in other.parts}
    mine = {(part.collective, part.scale): part for part in one.parts}
    for key in {**mine, **others}:
        first, second = mine.get(key), others.get(key)
        usual = _differences(first, second, USUAL)
        all_differences += usual
        calls = {call for part in (first, second) if part for call, _ in part.calls}
        for call in sorted(calls, key=str):
            of_call = _differences(first, second, call)
            if [replace(each, call=USUAL) for each in of_call] != usual:
                all_differences += of_call
    return tuple(all_differences)


def _differences(
    first: ScaleExplanation | None, second: ScaleExplanation | None, call: CallArguments
) -> list[AnswerDifference]:
    differing: list[AnswerDifference] = []
    part = first or second
    if part is None:
        return differing
    edges = {0} | {s.min_nbytes for each in (first, second) if each for s in each.of(call)}
    starts = sorted(edges)
    ends = [edge - 1 for edge in starts[1:]] + [MAX_NBYTES]
    ours, theirs = _at(first, call, starts), _at(second, call, starts)
    for low, high, a, b in zip(starts, ends, ours, theirs, strict=True):
        if a != b:
            _add(
                differing,
                AnswerDifference(
                    collective=part.collective,
                    scale=part.scale,
                    min_nbytes=low,
                    max_nbytes=high,
                    one=a[0],
                    other=b[0],
                    one_without=a[1],
                    other_without=b[1],
                    call=call,
                ),
            )
    return differing


def _add(differing: list[AnswerDifference], difference: AnswerDifference) -> None:
    """Add a difference, joined with the one before where they touch: lines do not part them."""
    last = differing[-1] if differing else None
    touches = last is not None and last.max_nbytes + 1 == difference.min_nbytes
    if (
        last is not None
        and touches
        and replace(difference, min_nbytes=last.min_nbytes)
        == replace(last, max_nbytes=difference.max_nbytes)
    ):
        differing[-1] = replace(last, max_nbytes=difference.max_nbytes)
    else:
        differing.append(difference)


def _at(part: ScaleExplanation | None, call: CallArguments, starts: Sequence[int]) -> list[_Both]:
    """The answers with LL128 enabled, and without."""
    if part is None:
        return [(None, None)] * len(starts)
    ranges = part.of(call)
    begins = [each.min_nbytes for each in ranges]
    at_starts = (ranges[bisect_right(begins, start) - 1] for start in starts)
    return [(each.setting, each.without_ll128) for each in at_starts]
