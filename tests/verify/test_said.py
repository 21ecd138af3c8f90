"""What stdout says of a verification, from its record alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rccltune.cli.verify import text_of
from rccltune.model.estimate import Estimate
from rccltune.model.rule import RuleState
from rccltune.model.settings import Scale, Setting
from rccltune.model.verdict import SizeVerdict, Verdict
from rccltune.model.vocabulary import Collective, Placement
from rccltune.verify.outcome import VerificationResult
from rccltune.verify.verdict_file import RuleVerdict, VerdictFile

MIB = 1 << 20
NODE = Scale(n_nodes=1, n_ranks=8)


def stood(low: int, high: int, state: RuleState, n_sizes: int, n_undecided: int = 0) -> RuleVerdict:
    """A rule that was verified."""
    return RuleVerdict(
        collective=Collective.ALL_REDUCE,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting.parse("ring/ll"),
        state=state,
        gain=Estimate(value=1.1, low=1.05, high=1.15, n=8),
        n_sizes=n_sizes,
        n_undecided=n_undecided,
        reason="" if state is RuleState.PROVEN else state.value,
    )


def undecided(nbytes: int) -> SizeVerdict:
    """A size at which a loss of 2 % is not excluded."""
    return SizeVerdict(
        collective=Collective.ALL_REDUCE,
        placement=Placement.IN_PLACE,
        timing="loop",
        nbytes=nbytes,
        baseline_us=1.0,
        tuned_us=1.0,
        gain=Estimate(value=1.0, low=0.9, high=1.1, n=8),
        n_wrong=0,
        verdict=Verdict.UNDECIDED,
    )


def test_a_rule_s_worst_size_is_of_the_timing_that_counts() -> None:
    """By graphs to 4 MiB and by loops above, in either placement, within the rule alone."""
    rule = replace(stood(MIB, 8 * MIB, RuleState.PROVEN, 3), timing="graph and loop")
    gains = {
        (MIB, "graph"): 1.3,
        (MIB, "loop"): 1.0,
        (4 * MIB, "graph"): 1.2,
        (8 * MIB, "loop"): 1.4,
        (16 * MIB, "loop"): 0.9,
    }
    sizes = [
        replace(
            undecided(nbytes), timing=timing, gain=Estimate(value=gain, low=gain, high=gain, n=8)
        )
        for (nbytes, timing), gain in gains.items()
    ]
    assert rule.worst_gain(sizes) == 1.2
    assert rule.worst_gain(sizes[:1]) is None


def verified(
    *standings: RuleVerdict, keeps: bool, needs: dict[str, str] | None = None
) -> VerificationResult:
    """How it ended, with or without a file that was written."""
    kept = sum(one.is_kept for one in standings)
    n = len(standings)
    return VerificationResult(
        text="",
        file=VerdictFile(
            path=None if keeps else "rules.csv",
            simulated=False,
            scale=NODE,
            rank_placement="node",
            dtype="float",
            op="sum",
            rules_before=n,
            rules=n if keeps else kept,
            fallbacks=0,
            replicates=8,
            processes=2,
            seconds=3.0,
            rules_sha256="",
            verdicts=(undecided(2 * MIB),),
            standings=standings,
            cuts=(),
            needs=needs or {},
        ),
    )


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal in which no cell of a table goes on below."""
    monkeypatch.setenv("COLUMNS", "300")


def test_sizes_in_the_rules_lines_add_up_to_those_below() -> None:
    """One that was called once has no verdict, and counts in both."""
    rules = [
        stood(MIB, 4 * MIB, RuleState.PROVEN, 10, 2),
        stood(8 * MIB, 9 * MIB, RuleState.PROVEN, 3),
    ]
    said = str(text_of(verified(*rules, keeps=False)))
    assert "none of 13 sizes with a rule is slower; at 2 a loss of 2 % is not excluded" in said
    assert "2 rules of 2 stand after 8 communicators of 2 starts" in said


def test_a_look_shows_every_rule_and_contradicts_itself_nowhere() -> None:
    """With --keep-losers: what stands, what does not and why; nothing goes."""
    rules = [
        stood(MIB, 4 * MIB, RuleState.PROVEN, 10),
        stood(8 * MIB, 9 * MIB, RuleState.SLOWER, 3),
    ]
    said = str(text_of(verified(*rules, keeps=True)))
    assert [line.split()[-1] for line in said.splitlines()[2:4]] == ["proven", "slower"]
    assert "1 rule of 2 does not stand after 8 communicators" in said
    assert "; 2 rules left as they were" in said
    alone = str(text_of(verified(rules[1], keeps=True)))
    assert "1 rule of 1 does not stand" in alone
    assert "no rule is left" not in alone


def test_what_a_question_costs_is_said() -> None:
    """Of real processors alone."""
    done = verified(stood(MIB, MIB, RuleState.PROVEN, 1), keeps=False)
    assert "asking the plugin" not in str(text_of(done))
    measured = replace(done, file=replace(done.file, cost_ns=14.2))
    assert "asking the plugin takes 14 ns a call" in str(text_of(measured))


def test_what_a_verified_file_needs_is_said() -> None:
    """As emit-config says it."""
    needs = {"RCCL_LL128_FORCE_ENABLE": "1"}
    said = str(text_of(verified(stood(MIB, MIB, RuleState.PROVEN, 1), keeps=False, needs=needs)))
    assert "They need RCCL_LL128_FORCE_ENABLE=1 in the job's environment" in said
