"""What a verification launches: both arms in turns, every boundary from both sides, company."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import log2

import pytest
from grounds import GROUND
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.chosen import Rule
from rccltune.model.measured import Launch, Sweep
from rccltune.model.settings import RULES, SILENT, Scale, Setting, Variant
from rccltune.model.vocabulary import DTYPE_BYTES, Collective
from rccltune.plan.launches import Ground, Plan, with_ids
from rccltune.plan.octaves import ending_where_called, verified_sizes
from rccltune.plan.pairs import Pair, conditions, plan_pairs
from rccltune.plan.walks import schedule_text
from rccltune.session import store

MIB = 1 << 20
TUNED = Variant(name="tuned", environment=(("NCCL_TUNER_CONFIG_FILE", "x.csv"),))


def ground(n_ranks: int) -> Ground:
    """So many ranks of one node."""
    return replace(GROUND, scale=Scale(n_nodes=1, n_ranks=n_ranks))


def sweep(collective: Collective) -> Sweep:
    """From 1 KiB to 16 MiB."""
    return Sweep(
        collectives=(collective,), settings=(), min_nbytes=1024, max_nbytes=16 * MIB, factor=2
    )


def rule(collective: Collective, low: int, high: int) -> Rule:
    """Ring with Simple."""
    return Rule(
        collective=collective,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting.parse("ring/simple"),
    )


def told(one: Launch) -> dict[str, int]:
    """The sizes of its command line."""
    words = dict(zip(one.argv, one.argv[1:], strict=False))
    return {name: int(words[name]) for name in ("-b", "-e", "-f", "-i") if name in words}


def printed(one: Launch, collective: Collective, n_ranks: int, width: int, fine: bool) -> set[int]:
    """The sizes in the benchmark's table, as rccl-tests rounds them.

    src/all_gather.cu and reduce_scatter.cu: a rank's share is rounded down to 16 bytes, in releases
    of 2024 to 4 elements.
    """
    options = told(one)
    sizes = []
    size = options["-b"]
    while size <= options["-e"]:
        sizes.append(size)
        size = size + options["-i"] if "-i" in options else size * options["-f"]
    if collective is Collective.ALL_REDUCE:
        return {size // width * width for size in sizes}
    align = max(1, 16 // width) if fine else 4
    return {size // width // n_ranks // align * align * width * n_ranks for size in sizes}


def planned(
    rules: list[Rule], *, n_ranks: int = 8, look: int = 1, wanted: Sweep | None = None
) -> list[Pair]:
    """One look at rules, in launches that walk three times through both arms."""
    (own,) = conditions(wanted or sweep(Collective.ALL_REDUCE))
    return plan_pairs(
        own, ground(n_ranks), rules, TUNED, look, n_cycles=lambda _sweep, _collective: 3
    )


@given(
    collective=st.sampled_from(
        [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
    ),
    edge=st.integers(1 << 19, 1 << 27),
    dtype=st.sampled_from(sorted(DTYPE_BYTES)),
    n_ranks=st.sampled_from([2, 8, 63, 64]),
    fine=st.booleans(),
)
def test_each_side_of_a_boundary_is_reached_by_a_walk_over_the_whole_range(
    collective: Collective, edge: int, dtype: str, n_ranks: int, fine: bool
) -> None:
    """Whatever the benchmark rounds a size to: within half a percent, and never by a few sizes."""
    wanted = replace(sweep(collective), min_nbytes=8, max_nbytes=1 << 28, dtypes=(dtype,))
    above_it = replace(rule(collective, edge, 1 << 28), setting=Setting.parse("ring/ll"))
    rules = [rule(collective, 0, edge - 1), above_it]
    pairs = planned(rules, n_ranks=n_ranks, wanted=wanted)
    width = DTYPE_BYTES[dtype]
    tables = [printed(one.tuned, collective, n_ranks, width, fine) - {0} for one in pairs]
    sizes = sorted(set().union(*tables))
    grain = width if collective is Collective.ALL_REDUCE else n_ranks * max(16, 4 * width)
    below = [size for size in sizes if size < edge]
    above = [size for size in sizes if size >= edge]
    assert edge - below[-1] <= max(0.0051 * edge, grain)
    assert above[0] - edge <= max(0.0051 * edge, grain)
    # nccl-tests takes whole factors only, and a few neighbouring sizes are no job.
    assert all(told(one.tuned)["-f"] == 2 and "-i" not in told(one.tuned) for one in pairs)
    assert all(len(table) >= 6 for table in tables)


@given(
    collective=st.sampled_from(
        [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
    ),
    edge=st.integers(1 << 19, 1 << 27),
    n_ranks=st.sampled_from([2, 8, 63, 64]),
    least=st.sampled_from([8, 1024, 4096]),
)
def test_rules_that_are_verified_end_at_sizes_that_a_benchmark_calls(
    collective: Collective, edge: int, n_ranks: int, least: int
) -> None:
    """Half a percent beside a boundary is not left to rules that nobody tried there."""
    wanted = replace(sweep(collective), min_nbytes=least, max_nbytes=1 << 28)
    last = max(verified_sizes(wanted, collective, n_ranks))
    above_it = replace(rule(collective, edge, last), setting=Setting.parse("ring/ll"))
    rules = [rule(collective, 0, edge - 1), above_it]
    below, above = ending_where_called(wanted, rules, n_ranks)
    assert (below.min_nbytes, above.max_nbytes) == (0, last)
    tables = (
        printed(one.tuned, collective, n_ranks, 4, fine=True)
        for one in planned([below, above], n_ranks=n_ranks, wanted=wanted)
    )
    sizes = set().union(*tables)
    grain = 4 if collective is Collective.ALL_REDUCE else n_ranks * 16
    for end, moved in ((below.max_nbytes, edge - 1 - below.max_nbytes), (above.min_nbytes, 0)):
        assert moved >= 0
        # Where the benchmark's own sizes are coarse, none may be near.
        assert end in sizes or (end in (edge - 1, edge) and grain > 0.002 * edge)
    assert edge <= above.min_nbytes <= 1.016 * edge
    assert below.max_nbytes >= edge / 1.016


def test_an_end_stays_where_another_rule_would_answer_instead() -> None:
    """The first match answers: behind it a rule over all sizes would, where nobody tried it."""
    wanted = replace(sweep(Collective.ALL_REDUCE), min_nbytes=1024, max_nbytes=1 << 28)
    odd = rule(Collective.ALL_REDUCE, 1 << 20, 12_345_671)
    behind = replace(rule(Collective.ALL_REDUCE, 1024, 1 << 28), setting=Setting.parse("ring/ll"))
    assert ending_where_called(wanted, [odd, behind], 8) == [odd, behind]
    (alone,) = ending_where_called(wanted, [odd], 8)
    assert 12_345_671 / 1.005 <= alone.max_nbytes < 12_345_671


def test_between_two_rules_with_one_setting_nothing_is_looked_at() -> None:
    """They differ in what proves them; the same grid as without the boundary."""
    whole = planned([rule(Collective.ALL_REDUCE, MIB, 16 * MIB)])
    halves = [(MIB, 5_000_000), (5_000_001, 16 * MIB)]
    parted = planned([rule(Collective.ALL_REDUCE, *span) for span in halves])
    assert [told(one.tuned) for one in parted] == [told(one.tuned) for one in whole]


def test_four_sizes_an_octave_without_a_gap() -> None:
    """A loss over a quarter of an octave holds one of them, boundaries or not."""
    pairs = planned([rule(Collective.ALL_REDUCE, 5000, 3 * MIB)])
    sizes = sorted(
        set().union(*(printed(one.tuned, Collective.ALL_REDUCE, 8, 4, True) for one in pairs))
    )
    assert sizes[0] == 1024
    assert sizes[-1] == 16 * MIB
    assert all(high / low <= 2 ** (0.25 + 1 / 16 + 0.01) for low, high in pairwise(sizes))


def test_every_arm_follows_every_arm_equally_often() -> None:
    """Behind the passes that pay for connections: S S R R, over and over; silence comes twice."""
    walk = planned([rule(Collective.ALL_REDUCE, 4096, MIB)])[0].tuned
    assert walk.schedule is not None
    assert walk.schedule.questions is not None
    steps = walk.schedule.settings[walk.schedule.questions.leading :]
    assert steps[:2] == (SILENT, RULES)
    follows = Counter(pairwise(steps[1:]))
    assert follows[SILENT, SILENT] == follows[RULES, RULES] == follows[SILENT, RULES] == 3
    assert follows[RULES, SILENT] == 3
    # The benchmark prints its table once for each.
    words = dict(pairwise(walk.argv))
    assert words["-N"] == str(len(steps))
    assert schedule_lines(walk)[-1] == "silent"
    assert schedule_lines(walk).count("rules") == 1 + 2 * 3


def schedule_lines(walk: Launch) -> list[str]:
    """What the plugin reads."""
    assert walk.schedule is not None
    return schedule_text(walk.schedule).splitlines()


def test_an_untouched_launch_has_nothing_of_ours_and_the_same_sizes() -> None:
    """It stands next to its walk, before it and behind it in turns."""
    pairs = planned([rule(Collective.ALL_REDUCE, 4096, MIB)])
    assert all(one.untouched is not None for one in pairs)
    for one in pairs:
        assert one.untouched is not None
        assert told(one.untouched) == told(one.tuned)
        assert not one.untouched.environment
        assert one.untouched.variant.name == "default"
    first = Counter(one.launches[0] is one.untouched for one in pairs)
    assert abs(first[True] - first[False]) <= 1


def test_a_few_untouched_launches_stand_beside_walks_without_checks() -> None:
    """Checked runs are 1 % slower from 1 to 64 MiB (2 x H100): the plugin is not to pay for it."""
    (own,) = conditions(sweep(Collective.ALL_REDUCE))
    rules = [rule(Collective.ALL_REDUCE, 5000, 3 * MIB)]
    pairs = plan_pairs(own, ground(8), rules, TUNED, 1, n_cycles=lambda *_: 3, n_untouched=4)
    beside = [one for one in pairs if one.untouched is not None]
    assert len(beside) == 4
    assert all(dict(pairwise(one.tuned.argv))["-c"] == "0" for one in beside)
    # The first of all launches is one, and each is of another range of the grid.
    assert pairs[0].launches[0] is pairs[0].untouched
    assert len({told(one.tuned)["-b"] for one in beside}) == 4


def test_what_rules_need_is_measured_without_plugin_and_rules() -> None:
    """A recorded walk costs half a microsecond a call, which variables are not to pay for."""
    (own,) = conditions(sweep(Collective.ALL_REDUCE))
    needs = Variant(name="needs", environment=(("NCCL_MIN_NCHANNELS", "32"),))
    pairs = plan_pairs(
        own,
        ground(8),
        [rule(Collective.ALL_REDUCE, 5000, 3 * MIB)],
        TUNED,
        1,
        n_cycles=lambda *_: 3,
        n_untouched=4,
        needs=needs,
    )
    beside = [one for one in pairs if one.bare is not None]
    assert len(beside) == 4
    for one in beside:
        assert one.bare is not None
        assert one.untouched is not None
        assert one.bare.environment == needs.environment
        assert one.bare.argv == one.untouched.argv
        assert abs(one.launches.index(one.bare) - one.launches.index(one.untouched)) == 1


def test_a_boundary_has_one_launch_and_none_where_its_size_is_known() -> None:
    """The grid's ranges have two each, which tell the noise; a boundary at 3 MiB needs no more."""
    rules = [rule(Collective.ALL_REDUCE, 5000, 3 * MIB)]
    (own,) = conditions(sweep(Collective.ALL_REDUCE))
    walks = partial(
        plan_pairs,
        own,
        ground(8),
        rules,
        TUNED,
        1,
        n_cycles=lambda *_: 3,
        n_untouched=0,
        checks=False,
    )
    begins = Counter(told(one.tuned)["-b"] for one in walks())
    assert sorted(begins.values()).count(1) >= 1
    assert sorted(begins.values()).count(2) == 4
    known = {n for one in walks() for n in printed(one.tuned, Collective.ALL_REDUCE, 8, 4, True)}
    again = walks(known={Collective.ALL_REDUCE: known})
    assert Counter(told(one.tuned)["-b"] for one in again).most_common()[-1][1] == 2


@given(
    low=st.integers(1024, 8 * MIB), octaves=st.floats(0.3, 9.0), n_ranks=st.sampled_from([2, 63])
)
def test_results_are_checked_at_four_sizes_an_octave_of_every_rule_and_hardly_elsewhere(
    low: int, octaves: float, n_ranks: int
) -> None:
    """A check costs more than the calls: it has launches over what rules answer, and no others.

    nccl-tests -c 1 checks every row; a launch of a few sizes alone measures none of them well.
    """
    high = round(min(16 * MIB, low * 2**octaves))
    pairs = planned([rule(Collective.ALL_REDUCE, low, high)], n_ranks=n_ranks)
    checked = [one for one in pairs if dict(pairwise(one.tuned.argv))["-c"] == "1"]
    assert 1 <= len(checked) <= 4
    tables = [printed(one.tuned, Collective.ALL_REDUCE, n_ranks, 4, True) for one in checked]
    seen = sorted(size for size in set().union(*tables) if low <= size <= high)
    edges = [low, *seen, high]
    assert all(after / before <= 2**0.39 for before, after in pairwise(edges))
    octaves_of_rule = log2(high / low)
    assert all(6 <= len(table) <= max(6, octaves_of_rule + 2) for table in tables)


def test_another_look_has_launches_of_its_own() -> None:
    """What chose what is left of a rule does not prove it."""

    def ids(look: int) -> set[str]:
        pairs = planned([rule(Collective.ALL_REDUCE, 4096, MIB)], look=look)
        made = Plan(launches=tuple(x for one in pairs for x in one.launches), impossible=())
        return {one.id for one in with_ids(made, store.launch_id).launches}

    assert ids(1) == ids(1)
    assert not ids(1) & ids(2)


def test_where_nothing_walks_rules_have_launches_of_their_own() -> None:
    """An old benchmark that prints its table once: both arms in turns, launch by launch."""
    (own,) = conditions(sweep(Collective.ALL_REDUCE))
    pairs = plan_pairs(
        own, ground(8), [rule(Collective.ALL_REDUCE, 4096, MIB)], TUNED, 1, n_cycles=None
    )
    assert all(one.tuned.schedule and one.tuned.schedule.questions is None for one in pairs)
    assert all(one.untouched is not None for one in pairs)


def test_other_conditions_are_each_by_themselves_and_have_no_boundaries() -> None:
    """Not every combination of them, which nobody has the time for."""
    wanted = sweep(Collective.ALL_REDUCE)
    found = conditions(
        wanted,
        dtypes=("bfloat16", wanted.dtypes[0], "bfloat16"),
        graphs=(0, 4),
        besides=((Collective.ALL_GATHER, 4 * MIB),),
    )
    assert [str(one) for one in found] == [
        "as swept",
        "bfloat16, without -G",
        "float, -G 4",
        "beside all_gather of 4 MiB",
    ]
    rules = [rule(Collective.ALL_REDUCE, 5000, 3 * MIB)]
    by = [
        [
            pair.tuned
            for pair in plan_pairs(
                one, ground(8), rules, TUNED, 1, n_cycles=lambda *_: 3, edges=one.is_own
            )
        ]
        for one in found
    ]
    assert len(by[0]) > 8
    # Four ranges, each with a replicate, and results of each.
    assert all(len(launches) == 8 + 4 for launches in by[1:])
    assert ["-d" in one.argv and "bfloat16" in one.argv for one in by[1]] == [True] * len(by[1])
    assert all(one.argv[one.argv.index("-G") + 1] == "4" for one in by[2])
    assert all(one.beside is not None for one in by[3])
    assert not any(one.beside for launches in by[:3] for one in launches)


@pytest.mark.parametrize("letter", ["N", "s"])
def test_what_runs_beside_goes_on_with_one_size(letter: str) -> None:
    """On as many ranks, with the launcher's word for sharing devices, unchecked."""
    on = replace(
        ground(8),
        letters=frozenset({letter, "A"}),
        launch=lambda n_ranks, program: ("srun", "-n", str(n_ranks), *program),
        shares=("--overlap",),
    )
    *_, crowd = conditions(
        sweep(Collective.ALL_REDUCE), besides=((Collective.ALL_GATHER, 4 * MIB),)
    )
    rules = [rule(Collective.ALL_REDUCE, 4096, MIB)]
    pairs = plan_pairs(crowd, on, rules, TUNED, 1, n_cycles=lambda *_: 3)
    beside = pairs[0].tuned.beside
    assert beside is not None
    assert beside.argv[:4] == ("srun", "--overlap", "-n", "8")
    words = dict(zip(beside.argv, beside.argv[1:], strict=False))
    assert (words["-b"], words["-e"], words["-c"]) == (str(4 * MIB), str(4 * MIB), "0")
    assert int(words[f"-{letter}"]) > 10**6
    assert "all_gather_perf" in " ".join(beside.argv)
