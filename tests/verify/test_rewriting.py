"""What a rule file says of a verification, and what verdict.json has of the file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rccltune.model.estimate import Estimate
from rccltune.model.rule import Rule, RuleState
from rccltune.model.settings import Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.rules.rule_file import read_rules
from rccltune.verify import rewriting
from rccltune.verify.verdict_file import RuleVerdict

MIB = 1 << 20
NODE = Scale(n_nodes=1, n_ranks=64)
TEXT = """\
#@ format 1
#@ section allreduce nodes=1 ranks=64
allreduce,1048576,16777216,ring,simple,-1,1,64,-1,-1
#@ section allreduce nodes=1 ranks=8
#@ hole 0 99 verified: of another scale
#@ end 1
"""


def part(rule: Rule, low: int, high: int, state: RuleState, reason: str = "") -> RuleVerdict:
    """A part of the rule, with a gain of its own."""
    return replace(
        RuleVerdict.of(rule, state, reason),
        min_nbytes=low,
        max_nbytes=high,
        gain=Estimate(value=0.98, low=0.97, high=0.99, n=8),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Where the line stood, however often.
        (
            "#@ library NCCL 2.28.9\n#@ needs A=1\n#@ library NCCL 2.28.9\n",
            "#@ library NCCL 2.30.7\n#@ needs A=1\n",
        ),
        # Else behind what is required, above the columns, or in front.
        (
            "# a\n#@ requires cus=1\n#@ requires arch=gfx942\n# columns: x\n",
            "# a\n#@ requires cus=1\n#@ requires arch=gfx942\n#@ library NCCL 2.30.7\n# columns: x\n",
        ),
        ("# a\n# columns: x\n", "# a\n#@ library NCCL 2.30.7\n# columns: x\n"),
        ("# a\n", "#@ library NCCL 2.30.7\n# a\n"),
    ],
)
def test_a_verified_file_is_bound_to_the_library_that_verified_it(before: str, after: str) -> None:
    """What it said of another one is no longer true; where that is not known, it stays."""
    assert rewriting.bind_to_library(before, "NCCL 2.30.7") == after
    assert rewriting.bind_to_library(before, None) == before


def test_each_reason_has_its_sizes_and_the_next_verification_has_them_too() -> None:
    """What is cut once stays in the file; verdict.json of a later run says the same."""
    (rule,) = rewriting.select_rules(read_rules(TEXT.encode()), NODE)
    found = [
        part(rule, MIB, 8 * MIB, RuleState.NOT_PROVEN),
        part(rule, 10 * MIB, 12 * MIB, RuleState.NO_GAIN, "gains next to nothing"),
        part(rule, 14 * MIB, 16 * MIB, RuleState.SLOWER, "looks slower"),
    ]
    assert rule.setting == Setting.parse("ring/simple")
    made = rewriting.trim_rules(TEXT, [rule], found)
    (cut,) = made.cuts
    assert cut.reason == (
        "10 MiB to 12 MiB gains next to nothing, 0.98x (0.97 to 0.99); "
        "14 MiB to 16 MiB looks slower, 0.98x (0.97 to 0.99)"
    )
    assert (cut.collective, cut.min_nbytes) == (Collective.ALL_REDUCE, 8 * MIB + 1)
    assert rewriting.read_earlier_cuts(made.text, NODE) == (cut,)
    assert rewriting.read_earlier_cuts(TEXT, NODE) == ()


def test_one_reason_needs_no_sizes_of_its_own() -> None:
    """The cut has them."""
    (rule,) = rewriting.select_rules(read_rules(TEXT.encode()), NODE)
    made = rewriting.trim_rules(TEXT, [rule], [part(rule, MIB, 16 * MIB, RuleState.UNDECIDED)])
    assert [one.reason for one in made.cuts] == ["undecided, 0.98x (0.97 to 0.99)"]


def test_sizes_for_unregistered_buffers_become_a_row_of_their_own() -> None:
    """Side by side with the rest of their rule, whose row says nothing of buffers."""
    (rule,) = rewriting.select_rules(read_rules(TEXT.encode()), NODE)
    kept = part(rule, MIB, 8 * MIB, RuleState.NOT_PROVEN)
    others = part(replace(rule, reg_buff=0), 8 * MIB + 1, 16 * MIB, RuleState.NOT_PROVEN)
    made = rewriting.trim_rules(TEXT, [rule], [kept, others])
    assert made.cuts == ()
    rows = [line for line in made.text.splitlines() if line.startswith("allreduce")]
    assert rows == [
        "allreduce,1048576,8388608,ring,simple,-1,1,64,-1,-1",
        "allreduce,8388609,16777216,ring,simple,-1,1,64,-1,0",
    ]


def test_what_a_rule_hides_of_another_goes_with_it() -> None:
    """It was not timed, and would answer where the first one is slower."""
    text = """\
#@ format 1
allreduce,1048576,2097152,tree,simple,-1,1,64
allreduce,65536,4194304,ring,ll128,-1,1,64
#@ end 2
"""
    apart = rewriting.split_hidden(text, rewriting.select_rules(read_rules(text.encode()), NODE))
    rules = rewriting.select_rules(read_rules(apart.encode()), NODE)
    wide = [(one.min_nbytes, one.max_nbytes) for one in rules if not one.fallback][1:]
    assert wide == [(65536, MIB - 1), (2 * MIB + 1, 4 * MIB)]
    found = [
        RuleVerdict.of(one, RuleState.PROVEN if number else RuleState.SLOWER)
        for number, one in enumerate(one for one in rules if not one.fallback)
    ]
    left = read_rules(rewriting.trim_rules(apart, rules, found).text.encode())
    assert [(one.min_nbytes, one.max_nbytes) for one in left.rules] == wide
    assert rewriting.split_hidden(apart, rules) == apart


def test_what_a_rule_behind_does_not_answer_is_left_to_the_library() -> None:
    """Of a rule that cannot be chosen the file names the sizes that nobody answers."""
    text = """\
#@ format 1
#@ section allreduce nodes=1 ranks=64
allreduce,1048576,8388608,ring,ll128,-1,1,64
allreduce,6291456,8388608,ring,simple,-1,1,64
#@ end 2
"""
    first, behind = rewriting.select_rules(read_rules(text.encode()), NODE)
    gone = part(first, MIB, 8 * MIB, RuleState.NOT_SELECTABLE, "the library does not let it")
    kept = part(behind, 6 * MIB, 8 * MIB, RuleState.PROVEN)
    found = [replace(gone, gain=None), kept]
    made = rewriting.trim_rules(text, [first, behind], found)
    assert [(cut.min_nbytes, cut.max_nbytes) for cut in made.cuts] == [(MIB, 6 * MIB - 1)]
    (left,) = read_rules(made.text.encode()).rules
    assert (left.min_nbytes, left.setting) == (6 * MIB, behind.setting)


def test_rules_for_registered_buffers_and_others_hide_nothing_of_each_other() -> None:
    """Either answers calls of its own."""
    text = """\
#@ format 1
allreduce,1048576,2097152,tree,simple,-1,1,64,-1,1
allreduce,1048576,2097152,ring,ll128,-1,1,64,-1,0
allreduce,1048576,2097152,ring,simple,-1,1,64,-1,0
#@ end 3
"""
    rules = rewriting.select_rules(read_rules(text.encode()), NODE)
    assert [one.fallback for one in rules] == [False, False, True]
    assert rewriting.split_hidden(text, rules) == text


def test_a_proof_of_many_words_goes_whole_when_the_file_is_verified_again() -> None:
    """A comment that takes several lines says on each of them whose it is."""
    line = next(one.line for one in read_rules(TEXT.encode()).rules)
    said = " ".join(f"word{number}" for number in range(60))
    text = rewriting.write_evidence(TEXT, {line: said}, [said])
    assert text.count("# verified: ") > 3
    assert rewriting.strip_evidence(text) == TEXT
