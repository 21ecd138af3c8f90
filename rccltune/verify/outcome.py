"""Records of a verification, and the evidence that the rule file gets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rccltune.measure.site import Site, SiteRequest
from rccltune.model import defaults
from rccltune.model.brief import brief
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import round_record
from rccltune.model.rule import RESTORES, LeftToLibrary, Rule, RuleCount, RuleState
from rccltune.model.settings import Scale
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective
from rccltune.rules.provenance import unchecked
from rccltune.rules.rule_file import read_rules
from rccltune.rules.rule_order import count_rules
from rccltune.verify import rewriting
from rccltune.verify.communicators import CallResult, CommunicatorPairs
from rccltune.verify.executed import find_ends
from rccltune.verify.judge_rules import JudgedFile
from rccltune.verify.rewriting import select_rules
from rccltune.verify.verdict_file import (
    BitsTime,
    RanAt,
    RuleVerdict,
    VerdictFile,
    replicates_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """A request to verify a rule file.

    Attributes:
        folder: the session.
        rules: the file to verify.
        output: where what stays goes.
        min_gain: what a rule must gain, 0.02 for 2 %.
        n_communicators: None for the usual number.
        keep_losers: leave the file as it is, whatever loses.
        dtype: type to verify with; None for the sweep's.
        timing: ``auto``, ``graph`` or ``loop``.
        confirms: where rccl-tests are looked for, which have the last word; None leaves them out.
        allowed: variables beyond the harmless ones that ranks may be given for the rules.
        environment: of the session and ``--env``, set on both sides.
    """

    folder: Path
    rules: Path
    output: Path
    min_gain: float = defaults.MIN_GAIN
    n_communicators: int | None = None
    keep_losers: bool = False
    dtype: str | None = None
    timing: str = defaults.TIMING
    confirms: SiteRequest | None = None
    allowed: frozenset[str] = frozenset()
    environment: tuple[tuple[str, str], ...] = ()


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationResult:
    """Result of a verification.

    Attributes:
        text: the rule file as it stands.
        file: for verdict.json and --json.
    """

    text: str
    file: VerdictFile

    @property
    def path(self) -> Path | None:
        """The rule file; None where nothing was written."""
        return None if self.file.path is None else Path(self.file.path)

    @property
    def count(self) -> RuleCount:
        """Rules that the file has now for this scale."""
        return RuleCount(rules=self.file.rules, fallbacks=self.file.fallbacks)

    @property
    def standings(self) -> tuple[RuleVerdict, ...]:
        """Every rule of the file."""
        return self.file.standings

    @property
    def losers(self) -> tuple[RuleVerdict, ...]:
        """Rules that do not stand as they are."""
        return tuple(one for one in self.standings if not one.is_kept)

    @property
    def lost_exports(self) -> dict[str, str]:
        """Variables that nobody should export any more, and why; without rules all of them."""
        unused = () if self.file.rules else rewriting.USE
        names = (*self.file.lost_needs, *unused)
        return dict.fromkeys(names, "is not exported: no rule needs it")


@dataclass(slots=True, kw_only=True)
class OngoingVerification:
    """A verification under way.

    Attributes:
        n_replicates, n_processes, seconds: of all that was called so far.
        executed: what ran where rules answered, by collective and size.
        bits_times: what keeping the bits costs, of a file with ``#@ bits``.
    """

    request: VerifyRequest
    sides: CommunicatorPairs
    reporter: Reporter
    n_replicates: int = 0
    n_processes: int = 0
    seconds: float = 0.0
    executed: dict[Collective, dict[int, RanAt]] = field(default_factory=dict)
    bits_times: tuple[BitsTime, ...] = ()

    @property
    def site(self) -> Site:
        """Site that both sides run on."""
        return self.sides.site

    @property
    def scale(self) -> Scale:
        """Nodes and ranks of the communicator."""
        return self.sides.site.scale

    def add(self, result: CallResult) -> None:
        """Count calls, and keep what ran."""
        self.n_replicates += result.n_replicates
        self.n_processes += result.n_processes
        self.seconds += result.seconds
        for name, by_size in result.executed.items():
            self.executed.setdefault(name, {}).update(by_size)


def make_result(
    verifying: OngoingVerification,
    text: str,
    *,
    judged: JudgedFile,
    cuts: Sequence[LeftToLibrary],
    before: RuleCount,
) -> VerificationResult:
    """All that was found, as one record."""
    request, site, sides = verifying.request, verifying.site, verifying.sides
    rules = select_rules(read_rules(text.encode()), verifying.scale)
    standings = tuple(
        replace(
            _in_file(one, rules),
            ran=find_ends(
                verifying.executed.get(one.collective, {}), one.min_nbytes, one.max_nbytes
            ),
        )
        for one in judged.rules
    )
    unneeded: tuple[str, ...] = ()
    if not request.keep_losers:
        text = _with_evidence(verifying, text, standings)
        text, unneeded = rewriting.drop_unneeded_needs(text, verifying.request.environment)
    after = read_rules(text.encode())
    standings = tuple(_in_file(one, select_rules(after, verifying.scale)) for one in standings)
    beside = sides.octaves()
    count = count_rules(select_rules(after, verifying.scale))
    file = VerdictFile(
        path=None if request.keep_losers else str(request.output),
        simulated=site.node is not None,
        runner=site.fingerprint.runner,
        scale=verifying.scale,
        rank_placement=site.seating.place.name,
        dtype=sides.dtype,
        op=sides.op,
        rules_before=before.rules,
        rules=count.rules,
        fallbacks=count.fallbacks,
        replicates=verifying.n_replicates,
        processes=verifying.n_processes,
        seconds=round(verifying.seconds, 1),
        cost_ns=sides.cost_ns,
        rules_sha256=hashlib.sha256(request.rules.read_bytes()).hexdigest(),
        verdicts=judged.sizes,
        standings=standings,
        cuts=tuple(dict.fromkeys(cuts)),
        beside=tuple(one for one in beside if not one.is_equal),
        needs=dict(after.needs),
        environment=dict(_beyond_needs(verifying, after.needs)),
        requires=dict(after.requires),
        lost_needs=unneeded,
        bits=after.bits,
        bits_times=verifying.bits_times,
    )
    return VerificationResult(text=text, file=round_record(file))


def _beyond_needs(
    verifying: OngoingVerification, needs: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Variables that both sides had beside what the rules need."""
    return [pair for pair in verifying.request.environment if pair not in needs]


def _in_file(one: RuleVerdict, rules: Sequence[Rule]) -> RuleVerdict:
    """A rule that is kept, as the file has it."""
    if not one.is_kept:
        return one
    for rule in rules:
        if replace(rule, line=one.line, fallback=one.fallback) == one.rule:
            return replace(one, line=rule.line, fallback=rule.fallback)
    return one


def _with_evidence(
    verifying: OngoingVerification, text: str, standings: Sequence[RuleVerdict]
) -> str:
    """The file with what its rules rest on."""
    on = "on this machine"
    if verifying.site.node is not None:
        on = f"SIMULATED, no hardware{unchecked(verifying.site.fingerprint.runner)}"
    bits = read_rules(text.encode()).bits
    what = (
        "with and without the rules in turns" if bits is None else f"results keep the bits {bits}"
    )
    how = (
        f"{what}, {on}, {verifying.scale}, "
        f"{replicates_of(verifying.n_replicates, verifying.n_processes)}"
    )
    beyond = _beyond_needs(verifying, read_rules(text.encode()).needs)
    if beyond:
        how += f"; with {' '.join(f'{a}={b}' for a, b in beyond)} on both sides"
    evidence = {one.line: describe_evidence(one) for one in standings if one.is_kept and one.line}
    return rewriting.write_evidence(text, evidence, [how])


def describe_evidence(one: RuleVerdict) -> str:
    """``1.20x (1.18 to 1.22) by graph over 12 sizes; launched one by one 1.01x (0.97 to 1.05)``."""
    if one.state is RuleState.KEEPS_BITS:
        return f"the same bits at {one.n_sizes} sizes" if one.n_sizes else "adds nothing"
    by = f" by {one.timing}" if one.timing else ""
    sentence = f"{one.gain}{by} over {one.n_sizes} sizes"
    if one.loop is not None:
        sentence += f"; {loop_words(one)}"
    if one.one_root is not None:
        sentence += f"; with one root {one.one_root}"
    if one.bfloat16 is not None:
        sentence += f"; in bfloat16 {one.bfloat16}"
    if one.state is RuleState.RESTORES:
        sentence += f"; {RESTORES}"
    if one.n_undecided:
        sentence += f"; undecided at {one.n_undecided}"
    if one.ran:
        sentence += f"; {ran_words(one)}"
    if one.registered is not None:
        sentence += f"; with registered buffers {one.registered}"
    if one.reg_buff == 0:
        sentence += "; for unregistered buffers only"
    return sentence


def ran_words(one: RuleVerdict) -> str:
    """Settings that the library ran at the ends of a rule, in words."""
    if one.overwritten:
        return "; ".join(map(str, one.overwritten))
    ends = dict.fromkeys(format_size(end.nbytes) for end in one.ran)
    return f"ran as answered at {' and '.join(ends)}"


def loop_words(one: RuleVerdict) -> str:
    """Gain by the loop of a rule that graphs prove, in words."""
    if one.loop is None:
        return ""
    if one.is_loop_noisy:
        return f"launched one by one{one.up_to_graphs}: too noisy to say"
    return f"launched one by one{one.up_to_graphs} {one.loop}"
