"""What rows say of a call beside its size, and what the order of thousands of rows means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.rule import Rule
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective
from rccltune.rules.explanation import RuleQuestion, compare, differences, explain
from rccltune.rules.rule_order import audit_order, first_at

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "allreduce,1024,4096,ring,ll,-1,1,8,-1,-1\n"
REGISTERED = "allreduce,8192,16384,tree,ll,-1,1,8,-1,1\n"
GROUPED = "allreduce,8192,16384,tree,ll,-1,1,8,1,-1\n"


def test_registered_buffers_are_asked_about(tmp_path: Path) -> None:
    """A row for regBuff=1 answers there and nowhere else, and --diff shows it."""
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text(PLAIN)
    other.write_text(PLAIN + REGISTERED)
    (part,) = explain(other, RuleQuestion()).parts
    assert [s.setting for s in part.ranges] == [None, Setting.parse("ring/ll"), None]
    ((call, ranges),) = part.calls
    assert (call.num_pipe_ops, call.reg_buff) == (1, 1)
    assert [(s.min_nbytes, s.max_nbytes, s.line) for s in ranges if s.setting] == [
        (1024, 4096, 1),
        (8192, 16384, 2),
    ]
    (found,) = differences(*compare(one, other, RuleQuestion()))
    assert (found.min_nbytes, found.max_nbytes, found.call) == (8192, 16384, call)


def test_groups_that_a_row_leaves_out_are_asked_about(tmp_path: Path) -> None:
    """A row for one operation says nothing of two, which the usual call does not show."""
    path = tmp_path / "rules.csv"
    path.write_text(PLAIN + GROUPED)
    (part,) = explain(path, RuleQuestion()).parts
    assert part.ranges[3].setting == Setting.parse("tree/ll")
    ((call, ranges),) = part.calls
    assert (call.num_pipe_ops, call.reg_buff) == (2, 0)
    assert [s.line for s in ranges if s.setting] == [1]


def test_files_of_usual_rows_ask_once(tmp_path: Path) -> None:
    """Nothing more to say where no row tells calls apart."""
    path = tmp_path / "rules.csv"
    path.write_text(PLAIN)
    assert explain(path, RuleQuestion()).parts[0].calls == ()
    assert differences(*compare(path, path, RuleQuestion())) == ()


RULES = st.lists(
    st.builds(
        lambda low, size, cell, nodes, registered: Rule(
            collective=Collective.ALL_REDUCE,
            min_nbytes=low,
            max_nbytes=low + size,
            setting=Setting.parse(cell),
            n_nodes=nodes,
            reg_buff=registered,
        ),
        st.integers(0, 12),
        st.integers(0, 8),
        st.sampled_from(["ring/ll", "tree/ll", "-/-/4"]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, 0, 1]),
    ),
    max_size=8,
)


@given(RULES)
def test_dead_and_fallback_by_looking_at_every_size(rules: list[Rule]) -> None:
    """By the definition: each size of the rule is taken before, by its own cell or by any."""

    def wide(earlier: Rule, rule: Rule) -> bool:
        pairs = ((earlier.n_nodes, rule.n_nodes), (earlier.reg_buff, rule.reg_buff))
        return all(a is None or a == b for a, b in pairs)

    dead, fallbacks = [], []
    for number, rule in enumerate(rules):
        before = [each for each in rules[:number] if wide(each, rule)]
        cells = (rule.setting.algorithm, None)
        same = [each for each in before if each.setting.algorithm in cells]
        sizes = range(rule.min_nbytes, rule.max_nbytes + 1)
        if all(any(each.reaches(n) for each in same) for n in sizes):
            dead.append(rule)
        elif all(any(each.reaches(n) for each in before) for n in sizes):
            fallbacks.append(rule)
    found = audit_order(rules)
    assert [id(rule) for rule in found.dead] == [id(rule) for rule in dead]
    assert [id(rule) for rule in found.fallbacks] == [id(rule) for rule in fallbacks]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))), st.lists(st.integers(0, 25)))
def test_the_first_interval_at_a_size(pairs: list[tuple[int, int]], sizes: list[int]) -> None:
    """As a search through all of them finds it."""
    expected = [
        next((i for i, (low, high) in enumerate(pairs) if low <= n <= high), None)
        for n in sorted(sizes)
    ]
    assert first_at(pairs, sorted(sizes)) == expected


def test_neighbouring_rules_of_one_setting_are_each_named_by_their_line(tmp_path: Path) -> None:
    """Verification makes two of one at 4 MiB; two files that differ in no more answer alike."""
    path, whole = tmp_path / "rules.csv", tmp_path / "whole.csv"
    path.write_text(PLAIN + "allreduce,4097,8192,ring,ll,-1,1,8,-1,0\n")
    whole.write_text("allreduce,1024,8192,ring,ll,-1,1,8,-1,-1\n")
    (part,) = explain(path, RuleQuestion()).parts
    assert [(s.min_nbytes, s.max_nbytes, s.line) for s in part.ranges if s.setting] == [
        (1024, 4096, 1),
        (4097, 8192, 2),
    ]
    found = differences(*compare(path, whole, RuleQuestion()))
    assert {one.call.reg_buff for one in found} == {1}
