"""Plans: every step a line, read back as it was written, and nothing in them that nobody named."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from made_runs import FIRST, Told, as_asked, call, make, step
from wording import lacks

from rccltune.measure import passes
from rccltune.measure.passes import SweepScope
from rccltune.model.errors import OutputError
from rccltune.model.rule import Rule
from rccltune.model.settings import BASELINE, IDLE, RULES, Role, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.plan import Label, Step, TimingEffort
from rccltune.releases import release_of
from rccltune.verify import pairs

MIB = 1 << 20


def wanted(**more: object) -> SweepScope:
    """An all_reduce and an all_gather at three sizes, of which 4 MiB is timed in both modes."""
    sizes = (1024, 4 * MIB, 16 * MIB)
    known = {
        "sizes": {Collective.ALL_REDUCE: sizes, Collective.ALL_GATHER: sizes},
        "placements": (Placement.OUT_OF_PLACE, Placement.IN_PLACE),
        "dtype": "float",
        "op": "sum",
    }
    return SweepScope(**{**known, **more})  # type: ignore[arg-type]  # whatever a test varies


def steps_of(units: list[passes.RunPlan]) -> list[Step]:
    """Of all communicators."""
    return [one for unit in units for steps in unit.communicators.values() for one in steps]


def the_one(units: list[passes.RunPlan]) -> tuple[Step, ...]:
    """Steps of the only communicator of the only unit."""
    ((steps,),) = (unit.communicators.values() for unit in units)
    return steps


def test_a_plan_is_read_as_it_was_written() -> None:
    """An answer stands once before the steps that it is for; lines count from 1."""
    first = [
        step("check", "idle"),
        step("check", "ring/ll128"),
        step("measure", "ring/ll128", timing="loop"),
    ]
    second = [step("measure", "tree/simple/16", 2 * MIB, "graph")]
    text = plan.plan_text({FIRST: first, Label("verify", 3, "0123456789ab"): second})
    assert text.splitlines() == [
        "plan 2 2097152",
        "communicator first:0",
        "answer nothing",
        "check all_reduce float sum out 1024 -",
        "answer ring/ll128",
        "check all_reduce float sum out 1024 -",
        "measure all_reduce float sum out 1024 loop 1000 12 300000",
        "communicator verify/0123456789ab:3",
        "answer tree/simple/16",
        "measure all_reduce float sum out 2097152 graph 1000 12 300000",
    ]
    read = plan.read_plan(text, "plan.txt")
    assert [one.line for one in read] == [2, 4, 6, 7, 8, 10]
    assert [one.step for one in read if one.step] == [*first, *second]
    assert [one.communicator for one in read] == [0, 0, 0, 0, 1, 1]
    assert read[-1].label == Label("verify", 3, "0123456789ab")


def test_the_baseline_answers_nothing() -> None:
    """Its processes have no plugin, which would refuse to be told."""
    assert "answer" not in plan.plan_text({FIRST: [step("measure", "baseline", timing="loop")]})


@pytest.mark.parametrize(
    "line",
    [
        "measure all_reduce",
        "jump 3",
        "answer ring",
        "communicator",
        "communicator second",
        "check x float sum out 8 -",
    ],
)
def test_a_plan_that_is_none_is_told_with_its_line(line: str) -> None:
    """As a session that came by mail may have."""
    with pytest.raises(OutputError) as caught:
        plan.read_plan(f"plan 2 1024\ncommunicator first:0\n{line}\n", "p")
    assert caught.value.where == "p:3"


def test_nvls_and_collnet_are_never_planned_by_us() -> None:
    """Where NVLS is switched off, trying it does harm; a user may name it."""
    assert {setting.algorithm for one in Collective for setting in plan.usual_settings(one)} == {
        Algorithm.RING,
        Algorithm.TREE,
        Algorithm.PAT,
    }
    every = wanted(
        sizes=dict.fromkeys(plan.COLLECTIVES, (1024,)),
        counts=(2, 8),
    )
    table = rows.rows_of_runs([])
    units = [
        *passes.plan_first_pass(every),
        *passes.plan_loops(every, table),
        *passes.plan_second_pass(every, None),
    ]
    text = "\n".join(plan.plan_text(unit.communicators) for unit in units)
    assert "ring/ll128/8" in text
    assert "pat/simple" in text
    assert "nvls" not in text
    assert "collnet" not in text

    named = wanted(settings=(Setting.parse("nvls/simple"),))
    assert "answer nvls/simple" in plan.plan_text(passes.plan_first_pass(named)[0].communicators)


def test_the_first_pass_checks_before_it_times_and_loops_before_it_captures() -> None:
    """One communicator with our plugin; what is idle first at each size."""
    (unit,) = passes.plan_first_pass(wanted())
    steps = the_one([unit])
    kinds = [one.kind if one.timing == "" else one.timing for one in steps]
    assert [kind for kind, _ in itertools.groupby(kinds)] == ["call", "check", "loop", "graph"]
    assert unit.plugin
    assert {one.setting for one in steps if one.kind == "call"} == {IDLE}
    first = next(one for one in steps if one.timing == "loop")
    assert (first.setting, first.call.nbytes) == (IDLE, 4 * MIB)
    timings = {(one.call.nbytes, one.timing) for one in steps if one.timing}
    assert timings == {
        (1024, "graph"),
        (4 * MIB, "graph"),
        (4 * MIB, "loop"),
        (16 * MIB, "loop"),
    }
    trees = {one.call.collective for one in steps if one.setting.algorithm is Algorithm.TREE}
    assert trees == {Collective.ALL_REDUCE}


@pytest.mark.parametrize(("most", "checked"), [(None, 3), (4 * MIB, 2), (0, 0)])
def test_what_cannot_be_checked_is_called(most: int | None, checked: int) -> None:
    """Simulated ranks share a memory, and the real library's kernels do not run there."""
    scope = wanted(checked_up_to=most)
    steps = the_one(passes.plan_first_pass(scope))
    called = [one for one in steps if not one.timing and one.call in set(scope.calls())]
    kinds = {one.call.nbytes: one.kind for one in called}
    assert list(kinds.values()) == ["check"] * checked + ["call"] * (3 - checked)


@pytest.mark.parametrize("timing", ["loop", "graph"])
def test_one_clock_for_all_where_it_is_said(timing: str) -> None:
    """Each size once."""
    steps = the_one(passes.plan_first_pass(wanted(timing=timing)))
    assert {one.timing for one in steps if one.timing} == {timing}


def test_in_the_second_pass_each_setting_is_timed_between_idle_ones() -> None:
    """So that each is compared with its neighbours in time; loops before graphs."""
    (unit,) = passes.plan_second_pass(wanted(n_communicators=5), None)
    assert unit.plugin
    assert [str(one) for one in unit.communicators] == [f"second:{n}" for n in range(5)]
    for steps in unit.communicators.values():
        timings = [one.timing for one in steps]
        assert timings == sorted(timings, reverse=True)
        for _, own in itertools.groupby(steps, key=lambda one: (one.timing, one.call)):
            settings = [one.setting for one in own]
            assert len(settings) > 1
            assert set(settings[::2]) == {IDLE}
            assert IDLE not in settings[1::2]


def test_where_both_ran_different_things_eight_starts_of_each_take_turns(tmp_path: Path) -> None:
    """Of the sizes at which they did alone; what a start adds no communicator shows."""
    sizes = (1024, MIB)
    scope = wanted(sizes={Collective.ALL_REDUCE: sizes}, placements=(Placement.OUT_OF_PLACE,))
    first = the_one(passes.plan_first_pass(scope))
    called = the_one(passes.plan_questions(scope))

    def ran(word: str, at: int) -> Told:
        def told(one: Step, rank: int) -> dict[str, Any]:
            found = as_asked(one, rank)
            is_it = one.setting.role is not Role.FORCED and one.call.nbytes == at
            return {**found, "ran": word} if found.get("ran") and is_it else found

        return told

    make(tmp_path, first, ending={})
    make(
        tmp_path,
        called,
        number=2,
        plugin=False,
        told=ran("tree/ll/8", MIB),
        ending={},
    )
    table = rows.rows_of_runs(runs.read_runs(tmp_path))
    assert passes.sizes_that_differ(table) == {Collective.ALL_REDUCE: (MIB,)}
    units = passes.plan_site(scope, table)
    assert [one.plugin for one in units] == [False, True, True, False] * 4
    assert [len(one.communicators) for one in units] == [1] * 16
    assert all(one.is_alone for one in units)
    assert {one.call.nbytes for one in steps_of(units)} == {MIB}
    assert {one.setting for one in steps_of(units[:1])} == {BASELINE}
    settings = {one.setting for one in steps_of(units[1:2])}
    assert IDLE in settings
    assert len(settings) > 1
    # The same setting with the same channels is the same kernels: nothing is to be timed.
    make(tmp_path / "same", first, ending={})
    make(tmp_path / "same", called, number=2, plugin=False, ending={})
    assert passes.plan_site(scope, rows.rows_of_runs(runs.read_runs(tmp_path / "same"))) == []
    assert passes.plan_site(scope, None) == []


def test_without_channels_in_the_log_the_source_says_whether_idle_is_the_site(
    tmp_path: Path,
) -> None:
    """RCCL before 2.24 logs "Algo 1 proto 0": equal where its source was read, else timed."""
    sizes = (1024, MIB)
    scope = wanted(sizes={Collective.ALL_REDUCE: sizes}, placements=(Placement.OUT_OF_PLACE,))

    def told(one: Step, rank: int) -> dict[str, Any]:
        found = as_asked(one, rank)
        return {**found, "ran": found["ran"].rpartition("/")[0]} if found.get("ran") else found

    make(tmp_path, the_one(passes.plan_first_pass(scope)), told=told, ending={})
    make(
        tmp_path,
        the_one(passes.plan_questions(scope)),
        number=2,
        plugin=False,
        told=told,
        ending={},
    )
    table = rows.rows_of_runs(runs.read_runs(tmp_path))
    asked = passes.sizes_that_differ(table)[Collective.ALL_REDUCE]
    assert set(sizes) <= set(asked)
    source = release_of("RCCL 2.21.5")
    assert source is not None
    assert passes.sizes_that_differ(table, source.idle_source) == {}
    (said,) = passes.idle_by_source(table, source.idle_source)
    assert lacks(said, "derived", f"{len(asked)} sizes", "RCCL 2.21.5", "src/enqueue.cc:1652") == []
    newer = release_of("RCCL 2.27.7")
    assert newer is not None
    assert passes.idle_by_source(table, newer.idle_source) == []


def test_the_library_as_it_is_says_what_it_runs_and_is_not_timed() -> None:
    """In a start of its own, at four sizes an octave; with our plugin idle the same sizes are asked."""
    scope = wanted(sizes={Collective.ALL_REDUCE: (16384, 32768)})
    (unit,) = passes.plan_questions(scope)
    steps = the_one([unit])
    assert not unit.plugin
    assert {(one.kind, one.setting) for one in steps} == {("call", BASELINE)}
    asked = [one.call.nbytes for one in steps]
    assert asked == [16384, 19456, 23552, 27648, 32768]
    first = the_one(passes.plan_first_pass(scope))
    silent = {one.call.nbytes for one in first if one.setting == IDLE and not one.timing}
    assert silent == set(asked)


def test_collectives_that_no_tuner_is_asked_for_have_no_settings() -> None:
    """They are measured as they are, out of place."""
    units = passes.plan_first_pass(wanted(sizes={Collective.ALLTOALL: (1024,)}))
    assert {(one.setting, one.call.placement) for one in steps_of(units)} == {
        (IDLE, Placement.OUT_OF_PLACE)
    }


def test_sizes_are_multiples_of_what_can_be_called() -> None:
    """16 bytes, for each rank where each has a share; those that come to one count once."""
    assert plan.sizes_for((8, 16, 100, 100_000), Collective.ALL_REDUCE, 8) == (16, 96, 100_000)
    assert plan.sizes_for((64, 1024, 1500, 1024), Collective.ALL_GATHER, 64) == (1024,)


def test_steps_are_equal_whatever_effort_they_take() -> None:
    """So that a session goes on where another release would measure longer."""
    rough, fine = (
        Step("measure", IDLE, call(), "loop", TimingEffort(1000, least_calls, 300_000))
        for least_calls in (4, 12)
    )
    assert rough == fine
    assert rough.line != fine.line


def test_rules_are_verified_with_registered_buffers_too_where_a_library_says_it_has_such() -> None:
    """Last in each communicator; what a rule asks of buffers is timed by calls that have none."""
    own = [(MIB, 2 * MIB, None), (8 * MIB, 16 * MIB, None), (32 * MIB, 64 * MIB, 0), (512, 1024, 0)]
    rules = [
        Rule(
            collective=Collective.ALL_REDUCE,
            min_nbytes=low,
            max_nbytes=high,
            setting=Setting.parse("ring/ll"),
            reg_buff=reg_buff,
        )
        for low, high, reg_buff in own
    ]
    sizes = pairs.choose_sizes(rules, Collective.ALL_REDUCE, (), (), Scale(n_nodes=1, n_ranks=2))
    for registers, timing, quiet_from in (
        (True, "auto", None),
        (True, "auto", 8 * MIB),
        (True, "loop", None),
        (False, "auto", None),
    ):
        calls = pairs.VerificationCalls(
            sizes=(sizes,),
            placements=(Placement.OUT_OF_PLACE,),
            dtype="float",
            op="sum",
            registers=registers,
            timing=timing,
            quiet_from=quiet_from,
        )
        timings: dict[str, set[int]] = {}
        for steps in pairs.plan_communicators(calls, 8, "0123456789ab", "").communicators.values():
            assert [one.timing == "registered" for one in steps] == sorted(
                one.timing == "registered" for one in steps
            )
            for one in (one for one in steps if one.call.dtype == "float"):
                timings.setdefault(one.timing, set()).add(one.call.nbytes)
        assert ("registered" in timings) is (registers and timing == "auto")
        if registers and timing == "auto":
            called = timings["loop"] | timings["graph"]
            assert timings["registered"] == {n for n in called if MIB <= n <= 16 * MIB}
            # Calls one by one are not registered.
            assert min(timings["graph"]) == MIB
            assert {512, 1024} <= timings["loop"]
        elif timing == "auto":
            assert min(timings["graph"]) == 512


def test_rules_that_reduce_are_verified_in_bfloat16_too() -> None:
    """At their ends and in their middle; what is only copied has no type."""
    names = (Collective.ALL_REDUCE, Collective.ALL_GATHER)
    rules = [
        Rule(collective=one, min_nbytes=MIB, max_nbytes=16 * MIB, setting=Setting.parse("ring/ll"))
        for one in names
    ]
    scale = Scale(n_nodes=1, n_ranks=2)
    for dtype, expected in (("float", {MIB, 4 * MIB, 16 * MIB}), ("bfloat16", set())):
        calls = pairs.VerificationCalls(
            sizes=tuple(pairs.choose_sizes(rules, one, (), (), scale) for one in names),
            placements=(Placement.OUT_OF_PLACE,),
            dtype=dtype,
            op="sum",
        )
        unit = pairs.plan_communicators(calls, 2, "0123456789ab", "")
        for number, steps in enumerate(unit.communicators.values()):
            other = [one for one in steps if one.call.dtype != dtype]
            assert {one.call.nbytes for one in other} == expected
            assert {one.call.collective for one in other} <= {Collective.ALL_REDUCE}
            timed = [one.setting for one in other if one.kind == "measure"]
            turn = [IDLE, RULES] if number == 0 else [RULES, IDLE]
            assert timed == turn * len(expected)


def test_rooted_collectives_are_verified_with_one_root_too() -> None:
    """Loops that overlap, before any graph; other collectives have no root."""
    rules = [
        Rule(collective=one, min_nbytes=MIB, max_nbytes=16 * MIB, setting=Setting.parse("ring/ll"))
        for one in (Collective.REDUCE, Collective.ALL_REDUCE)
    ]
    scale = Scale(n_nodes=1, n_ranks=2)
    calls = pairs.VerificationCalls(
        sizes=tuple(pairs.choose_sizes(rules, one.collective, (), (), scale) for one in rules),
        placements=(Placement.OUT_OF_PLACE,),
        dtype="float",
        op="sum",
    )
    for unit in [pairs.plan_communicators(calls, 8, "0123456789ab", "")]:
        for label, steps in unit.communicators.items():
            timed = [one for one in steps if one.kind == "measure"]
            overlapping = [one for one in timed if one.timing == "one-root"]
            assert {one.call.collective for one in overlapping} == {Collective.REDUCE}
            turned = {
                one.call
                for one in timed
                if one.call.collective is Collective.REDUCE and one.call.dtype == "float"
            }
            assert {one.call for one in overlapping} == turned
            assert [one.timing == "graph" for one in timed] == sorted(
                one.timing == "graph" for one in timed
            )
            text = plan.plan_text({label: steps})
            assert [one.step for one in plan.read_plan(text, "plan.txt") if one.step] == list(steps)
