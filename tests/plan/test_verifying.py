"""What a verification measures: both arms in turns, every boundary from both sides, company."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from grounds import GROUND
from hypothesis import given
from hypothesis import strategies as st

from rccltune import plan, session
from rccltune.model import DTYPE_BYTES, Collective, Launch, Rule, Scale, Setting, Sweep, Variant

MIB = 1 << 20
TUNED = Variant(name="tuned", environment=(("NCCL_TUNER_CONFIG_FILE", "x.csv"),))


def ground(n_ranks: int) -> plan.Ground:
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


@given(
    collective=st.sampled_from(
        [Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER]
    ),
    edge=st.integers(1 << 14, 1 << 27),
    dtype=st.sampled_from(sorted(DTYPE_BYTES)),
    n_ranks=st.sampled_from([2, 8, 63, 64]),
    fine=st.booleans(),
)
def test_each_side_of_a_boundary_is_called_at_its_nearest_sizes(
    collective: Collective, edge: int, dtype: str, n_ranks: int, fine: bool
) -> None:
    """Whatever the benchmark rounds a size to: one side's last two sizes, the other's first two."""
    on = ground(n_ranks)
    wanted = replace(sweep(collective), min_nbytes=8, max_nbytes=1 << 28, dtypes=(dtype,), factor=2)
    rules = [rule(collective, 0, edge - 1), rule(collective, edge, 1 << 28)]
    (own,) = plan.conditions(wanted)
    launches = plan.plan_verification(own, on, rules, TUNED, range(3))
    width = DTYPE_BYTES[dtype]
    sizes = sorted(
        {size for one in launches for size in printed(one, collective, n_ranks, width, fine)}
    )
    below = [size for size in sizes if size < edge]
    above = [size for size in sizes if size >= edge]
    grain = width if collective is Collective.ALL_REDUCE else n_ranks * max(16, 4 * width)
    assert edge - below[-1] <= grain
    assert above[0] - edge < grain
    assert below[-1] - below[-2] <= grain
    assert above[1] - above[0] <= grain


def test_both_arms_have_the_same_launches_in_turns() -> None:
    """A B B A …: for each sizes of one arm there are those of the other right beside it."""
    (own,) = plan.conditions(sweep(Collective.ALL_REDUCE))
    rules = [rule(Collective.ALL_REDUCE, 4096, MIB)]
    launches = plan.plan_verification(own, ground(8), rules, TUNED, range(3))
    arms = ["tuned" if one.variant == TUNED else "untouched" for one in launches]
    pairs = list(zip(launches[::2], launches[1::2], strict=True))
    assert all({a.variant.name, b.variant.name} == {"default", "tuned"} for a, b in pairs)
    assert all(a.argv == b.argv for a, b in pairs)
    first = Counter(arms[::2])
    assert abs(first["tuned"] - first["untouched"]) <= 1
    # Nothing of ours in the other arm.
    assert all(not one.environment for one in launches if one.variant != TUNED)


def test_another_round_has_untouched_launches_of_its_own() -> None:
    """A machine drifts: what ran minutes ago is nothing to hold a narrowed file against."""
    (own,) = plan.conditions(sweep(Collective.ALL_REDUCE))
    rules = [rule(Collective.ALL_REDUCE, 4096, MIB)]

    def ids(repeats: range) -> set[str]:
        planned = plan.plan_verification(own, ground(8), rules, TUNED, repeats)
        made = plan.Plan(launches=tuple(planned), impossible=())
        return {one.id for one in plan.with_ids(made, session.launch_id).launches}

    assert ids(range(3)) == ids(range(3))
    assert not ids(range(3)) & ids(range(3, 6))


def test_other_conditions_are_each_by_themselves_and_have_no_boundaries() -> None:
    """Not every combination of them, which nobody has the time for."""
    wanted = sweep(Collective.ALL_REDUCE)
    found = plan.conditions(
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
    rules = [rule(Collective.ALL_REDUCE, 4096, MIB)]
    by = [plan.plan_verification(one, ground(8), rules, TUNED, range(2)) for one in found]
    assert any("-i" in told(one) for one in by[0])
    assert not any("-i" in told(one) for launches in by[1:] for one in launches)
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
    *_, crowd = plan.conditions(
        sweep(Collective.ALL_REDUCE), besides=((Collective.ALL_GATHER, 4 * MIB),)
    )
    launches = plan.plan_verification(
        crowd, on, [rule(Collective.ALL_REDUCE, 4096, MIB)], TUNED, range(2)
    )
    beside = launches[0].beside
    assert beside is not None
    assert beside.argv[:4] == ("srun", "--overlap", "-n", "8")
    words = dict(zip(beside.argv, beside.argv[1:], strict=False))
    assert (words["-b"], words["-e"], words["-c"]) == (str(4 * MIB), str(4 * MIB), "0")
    assert int(words[f"-{letter}"]) > 10**6
    assert "all_gather_perf" in " ".join(beside.argv)
