"""What a rule file will do, asked of the real plugin at every version of its interface."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import machine, plugin, zones
from rccltune.model import (
    DEFAULT_VARIANT,
    TUNABLE,
    Algorithm,
    Collective,
    CommandLineError,
    InputFileError,
    Mode,
    Protocol,
    Rule,
    Scale,
    Setting,
    Target,
    Vendor,
    VerificationError,
    grammar,
)
from rccltune.rules import decision, documents
from rccltune.rules.decision import Decision
from rccltune.rules.documents import Audit
from rccltune.rules.host import Host
from rccltune.rules.reader import RuleFile, StatedHole
from rccltune.rules.seals import accepted

_CORRECT: Final = "correct these lines; sizes are plain bytes, names lower case."
# Version 2 hosts take an answer unchecked, so some are withheld there; version 3 hosts cannot say
# whether buffers are registered, so rules that ask for it never match there.
_DIFFERENT_BY_DESIGN = (2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Sizes with one answer, and the line that gives it.

    Attributes:
        without_ll128: the answer where LL128 is not enabled.
        line: of the rule that answers, None where none does.
        reason: the file's own words for a hole.
        vendor: whether that line is of the vendor's table, taken over behind ours.
    """

    min_nbytes: int
    max_nbytes: int
    setting: Setting | None
    without_ll128: Setting | None
    line: int | None
    reason: str | None
    vendor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One collective at one scale.

    Attributes:
        old_hosts: (ABI version, what its hosts are answered) where that differs by design:
            2 is ROCm 6.3, 3 is ROCm 6.4.
        overwritten: which releases choose the protocol again after these answers, None where no
            release does.
    """

    collective: Collective
    scale: Scale
    stretches: tuple[Stretch, ...]
    old_hosts: tuple[tuple[int, tuple[Decision, ...]], ...]
    overwritten: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Whether the plugin uses a file that is for one placement of ranks.

    Attributes:
        with_it: where RCCLTUNE_PLACEMENT names the placement.
        without: where nothing does, as far as this machine shows where its devices are.
    """

    name: str
    with_it: bool
    without: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A whole file.

    Attributes:
        never: (line, reason) of rules for cells that the library never offers.
        never_by_amd: where nothing says whose GPUs it is for, the same for RCCL on AMD's.
        placement: where the file is for one placement of ranks only.
    """

    path: Path
    file: RuleFile
    audit: Audit
    parts: tuple[Explained, ...]
    never: tuple[tuple[int, str], ...]
    never_by_amd: tuple[tuple[int, str], ...] = ()
    placement: Declared | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked about; None is everything that the file names."""

    collective: Collective | None = None
    n_nodes: int | None = None
    n_ranks: int | None = None
    mode: Mode | None = None


def asked_about(path: Path, question: Question) -> list[tuple[Collective, Scale]]:
    """What a file names of a question: collectives, and the scales of each.

    Raises:
        InputFileError: as :func:`explain`.
    """
    file = accepted(_content(path), path, _CORRECT)
    return _named(_for_mode(file.rules, question.mode), question)


def explain(
    path: Path, question: Question, also: Sequence[tuple[Collective, Scale]] = ()
) -> Explanation:
    """Ask the plugin about one file.

    Args:
        path: of the file.
        question: what about.
        also: collectives and scales beside those that it names.

    Raises:
        InputFileError: the file cannot be read or is refused; the message has every mistake.
        VerificationError: the plugin's answer is not what the file says; a bug of ours.
    """
    content = _content(path)
    file = accepted(content, path, _CORRECT)
    rules = _for_mode(file.rules, question.mode)
    host = Host(plugin.library())
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        copy = Path(folder) / "rules.csv"
        copy.write_bytes(_without_requirements(content))
        parts = tuple(
            _explain_one(
                _Case(
                    host=host,
                    path=copy,
                    rules=rules,
                    file=file,
                    collective=collective,
                    scale=scale,
                    mode=question.mode,
                )
            )
            for collective, scale in dict.fromkeys((*_named(rules, question), *also))
        )
        copy.write_bytes(_with_placement_alone(content, file))
        declared = _declared(host, copy, file, parts, question.mode)
    return Explanation(
        path=path,
        file=file,
        audit=documents.audit(rules),
        parts=parts,
        never=_never(rules, _whose(file, question.mode)),
        never_by_amd=() if _whose(file, question.mode) else _never(rules, Vendor.AMD.value),
        placement=declared,
    )


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputFileError(
            f"the rule file cannot be read: {error.strerror}", where=str(path)
        ) from error


def _without_requirements(content: bytes) -> bytes:
    """The file as it is on the machine that it is for: this one need not be that machine."""
    # One character a byte, so that nothing else is changed.
    lines = grammar.lines(grammar.unmarked(content).decode("latin-1"))
    kept = ("#" if grammar.instruction(line)[:1] == ["requires"] else line for line in lines)
    return "".join(f"{line}\n" for line in kept).encode("latin-1")


def _with_placement_alone(content: bytes, file: RuleFile) -> bytes:
    """The file with nothing required but its placement, which depends on the job."""
    placement = dict(file.requires).get("placement")
    head = f"#@ requires placement={placement}\n" if placement else ""
    return head.encode("latin-1") + _without_requirements(content)


def _declared(
    host: Host, path: Path, file: RuleFile, parts: Sequence[Explained], mode: Mode | None
) -> Declared | None:
    """Ask the plugin with RCCLTUNE_PLACEMENT and without it."""
    placement = dict(file.requires).get("placement")
    part = next((p for p in parts if any(s.setting is not None for s in p.stretches)), None)
    if placement is None or part is None:
        return None
    arch = _whose(file, mode)
    table = decision.cost_table(_offered(part.collective, part.scale, arch, ll128=True))

    told = {"NCCL_TUNER_CONFIG_FILE": str(path)}
    if mode is not None:
        told["RCCLTUNE_MODE"] = str(mode)

    def answers(declared: Mapping[str, str]) -> bool:
        with host.communicator(
            abi=max(host.abi_versions),
            n_nodes=part.scale.n_nodes,
            n_ranks=part.scale.n_ranks,
            env={**told, **declared},
        ) as communicator:
            hints = {stretch.min_nbytes for stretch in part.stretches}
            decided = decision.decisions(communicator, part.collective, table, hints)
        return any(one.setting is not None for one in decided)

    return Declared(
        name=placement,
        with_it=answers({"RCCLTUNE_PLACEMENT": placement}),
        without=answers({}),
    )


def _for_mode(rules: Sequence[Rule], mode: Mode | None) -> tuple[Rule, ...]:
    if mode is None:
        named = sorted({str(r.only_mode) for r in rules if r.only_mode is not None})
        if named:
            raise CommandLineError(
                f"rows of this file are for one partition mode only: {', '.join(named)}",
                hint="say which machine is meant with --mode.",
            )
        return tuple(rules)
    return tuple(r for r in rules if r.only_mode is None or r.only_mode.compute == mode.compute)


def _named(rules: Sequence[Rule], question: Question) -> list[tuple[Collective, Scale]]:
    return [(c, s) for c in _collectives(rules, question) for s in _scales(rules, c, question)]


def _collectives(rules: Sequence[Rule], question: Question) -> list[Collective]:
    wanted = TUNABLE if question.collective is None else (question.collective,)
    return [c for c in wanted if any(rule.collective is c for rule in rules)]


def _scales(rules: Sequence[Rule], collective: Collective, question: Question) -> list[Scale]:
    """Scales that the file names; a wildcard is shown at one node with eight ranks."""
    mine = [rule for rule in rules if rule.collective is collective]
    found = set()
    for rule in mine:
        n_nodes = question.n_nodes or rule.n_nodes or 1
        n_ranks = question.n_ranks or rule.n_ranks or 8 * n_nodes
        if n_ranks >= n_nodes:
            found.add(Scale(n_nodes=n_nodes, n_ranks=n_ranks))
    return sorted(found, key=lambda s: (s.n_nodes, s.n_ranks))


def _offered(
    collective: Collective, scale: Scale, arch: str | None, *, ll128: bool
) -> set[tuple[Algorithm, Protocol]]:
    return {
        (a, p)
        for a in Algorithm
        for p in Protocol
        if _why_not(collective, scale, a, p, arch) is None and (ll128 or p is not Protocol.LL128)
    }


def _why_not(
    collective: Collective, scale: Scale, a: Algorithm, p: Protocol, arch: str | None
) -> str | None:
    target = Target(
        collective=collective, scale=scale, rank_placement=None, variant=DEFAULT_VARIANT
    )
    return zones.why_not_selectable(Setting(algorithm=a, protocol=p), target, arch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One collective at one scale, with what is needed to ask about it."""

    host: Host
    path: Path
    rules: tuple[Rule, ...]
    file: RuleFile
    collective: Collective
    scale: Scale
    mode: Mode | None


def _explain_one(case: _Case) -> Explained:
    answers = {abi: _ask(case, abi) for abi in case.host.abi_versions}
    newest = max(answers)
    for abi, answer in answers.items():
        if abi not in _DIFFERENT_BY_DESIGN and answer != answers[newest]:
            raise VerificationError(
                f"the plugin answers differently at ABI versions {abi} and {newest} "
                f"({case.collective.value}, {case.scale})",
                where=str(case.host.path),
                hint="please report this with the rule file: it is a bug.",
            )
    return Explained(
        collective=case.collective,
        scale=case.scale,
        stretches=_stretches(case, *answers[newest]),
        old_hosts=tuple(
            (abi, answers[abi][0])
            for abi in _DIFFERENT_BY_DESIGN
            if abi in answers and answers[abi][0] != answers[newest][0]
        ),
        overwritten=machine.overwrite_explained(case.collective, case.scale),
    )


def _ask(case: _Case, abi: int) -> tuple[tuple[Decision, ...], tuple[Decision, ...]]:
    """Decisions with LL128 enabled and without."""
    arch = _whose(case.file, case.mode)
    tables = [
        decision.cost_table(_offered(case.collective, case.scale, arch, ll128=ll128))
        for ll128 in (True, False)
    ]
    hints = {bound for r in case.rules for bound in (r.min_nbytes, r.max_nbytes)}
    env = {"NCCL_TUNER_CONFIG_FILE": str(case.path)}
    if case.mode is not None:
        env["RCCLTUNE_MODE"] = str(case.mode)
    scale = case.scale
    with case.host.communicator(
        abi=abi, n_nodes=scale.n_nodes, n_ranks=scale.n_ranks, env=env
    ) as communicator:
        one, other = (
            decision.decisions(communicator, case.collective, table, hints) for table in tables
        )
    return one, other


def _stretches(
    case: _Case, with_ll128: Sequence[Decision], without: Sequence[Decision]
) -> tuple[Stretch, ...]:
    decided = {d.min_nbytes for d in (*with_ll128, *without)}
    holes = [h for h in case.file.holes if h.is_of(case.collective, case.scale)]
    edges = sorted(decided | {h.min_nbytes for h in holes})
    ends = [edge - 1 for edge in edges[1:]] + [with_ll128[-1].max_nbytes]
    made = []
    for low, high in zip(edges, ends, strict=True):
        setting = _decided(with_ll128, low)
        rule = _answering(case, low, setting)
        if setting is not None and rule is None:
            raise VerificationError(
                f"the plugin answers {setting} for {case.collective.value} of {low} bytes, and "
                "no rule of the file says so",
                hint="please report this with the rule file: it is a bug.",
            )
        made.append(
            Stretch(
                min_nbytes=low,
                max_nbytes=high,
                setting=setting,
                without_ll128=_decided(without, low),
                line=rule.line if rule else None,
                reason=_reason(holes, low) if setting is None else None,
                vendor=rule is not None and rule.vendor,
            )
        )
    return tuple(made)


def _decided(found: Sequence[Decision], nbytes: int) -> Setting | None:
    return next(d.setting for d in found if d.min_nbytes <= nbytes <= d.max_nbytes)


def _answering(case: _Case, nbytes: int, setting: Setting | None) -> Rule | None:
    matching = (r for r in case.rules if r.matches(case.collective, nbytes, case.scale))
    return next((r for r in matching if r.setting == setting), None)


def _reason(holes: Sequence[StatedHole], nbytes: int) -> str | None:
    return next((h.reason for h in holes if h.min_nbytes <= nbytes <= h.max_nbytes), None)


def _whose(file: RuleFile, mode: Mode | None) -> str | None:
    """Arch or vendor of the GPUs that are meant; only AMD's have partition modes."""
    has_mode = mode is not None and mode.compute is not None
    return file.arch_or_vendor or (Vendor.AMD.value if has_mode else None)


def _never(rules: Sequence[Rule], arch: str | None) -> tuple[tuple[int, str], ...]:
    found = []
    for rule in rules:
        algorithm, protocol = rule.setting.algorithm, rule.setting.protocol
        if algorithm is None or protocol is None:
            continue
        n_nodes = rule.n_nodes or 2
        scale = Scale(n_nodes=n_nodes, n_ranks=max(rule.n_ranks or 8 * n_nodes, n_nodes))
        why = _why_not(rule.collective, scale, algorithm, protocol, arch)
        if why is not None and rule.line is not None:
            found.append((rule.line, why))
    return tuple(found)
