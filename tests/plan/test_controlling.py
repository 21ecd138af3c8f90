"""The control of a walk: two launches, comparable with it, for any sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from grounds import GROUND, option
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.measured import Sweep
from rccltune.model.settings import LL128_FORCED, Setting
from rccltune.model.vocabulary import Collective
from rccltune.plan import launches, variants

SWEEP = Sweep(
    collectives=(Collective.ALL_REDUCE,), settings=(), min_nbytes=8, max_nbytes=1 << 27, repeats=3
)


def named(sweep: Sweep, ground: launches.Ground = GROUND) -> list[str]:
    """Collective and setting of each control."""
    return [
        f"{one.collectives[0].value} {one.schedule.settings[0]}"
        for one in variants.controls(sweep, ground)
        if one.schedule
    ]


def asked(argv: tuple[str, ...]) -> set[int]:
    """The sizes that rccl-tests steps through with these options."""
    found = {option(argv, "-b")}
    while True:
        last = max(found)
        following = last * option(argv, "-f") if "-f" in argv else last + option(argv, "-i")
        if following > option(argv, "-e") or following == last:
            return found
        found.add(following)


def test_two_settings_as_unlike_as_can_be() -> None:
    """Another algorithm and another protocol, of the default variant."""
    assert named(SWEEP) == ["all_reduce tree/ll", "all_reduce ring/simple"]
    assert [one.variant.name for one in variants.controls(SWEEP, GROUND)] == ["default"] * 2


@pytest.mark.parametrize(
    ("collectives", "settings", "wanted"),
    [
        (["all_gather"], [], ["all_gather ring/ll", "all_gather ring/simple"]),
        (["sendrecv", "reduce"], [], ["reduce ring/ll", "reduce ring/simple"]),
        (["all_reduce"], ["ring/ll"], []),
        (["all_reduce"], ["ring/ll", "tree/ll"], ["all_reduce ring/ll", "all_reduce tree/ll"]),
        (["sendrecv"], [], []),
        # One in the default variant, none to compare it with there.
        (["all_reduce"], ["ring/ll", "tree/ll128", "tree/simple"], []),
        # Each collective has one; two settings of two collectives are no pair.
        (["all_gather", "reduce"], ["ring/ll"], []),
    ],
)
def test_what_there_is_decides(
    collectives: list[str], settings: list[str], wanted: list[str]
) -> None:
    """The first collective that has two settings in one variant; else nothing."""
    sweep = replace(
        SWEEP,
        collectives=tuple(Collective(name) for name in collectives),
        settings=tuple(map(Setting.parse, settings)),
    )
    assert named(sweep) == wanted


def test_another_variant_where_the_default_one_has_no_pair() -> None:
    """LL128 alone needs its variable, in the control as in the walk."""
    sweep = replace(SWEEP, settings=(Setting.parse("tree/ll128"), Setting.parse("ring/ll128")))
    made = variants.controls(sweep, GROUND)
    assert [one.variant for one in made] == [LL128_FORCED] * 2
    assert all(set(LL128_FORCED.environment) <= set(one.environment) for one in made)


@given(
    low=st.sampled_from([8, 1 << 10, 3000]),
    octaves=st.integers(0, 24),
    factor=st.integers(2, 5),
    step=st.none() | st.integers(8, 1 << 16),
)
def test_a_control_is_short_and_measures_sizes_of_the_sweep(
    low: int, octaves: int, factor: int, step: int | None
) -> None:
    """What the walk did not measure could not be compared."""
    high = low << octaves if step is None else low + step * octaves
    sweep = replace(SWEEP, min_nbytes=low, max_nbytes=high, factor=factor, step_nbytes=step)
    for one in variants.controls(sweep, GROUND):
        sizes = asked(one.argv)
        assert sizes <= set(launches.sizes(sweep))
        assert len(sizes) <= variants.N_CONTROL_SIZES
        # As spread out as the sweep's own.
        assert len(sizes) >= min(len(launches.sizes(sweep)), variants.N_CONTROL_SIZES // 2)


def test_a_control_is_an_ordinary_launch_of_its_setting() -> None:
    """One step, no walk: it is run, proven and kept as any other."""
    for one in variants.controls(SWEEP, GROUND):
        assert one.schedule is not None
        assert (len(one.schedule.settings), one.schedule.questions) == (1, None)
        # Its first pass is thrown away, as every setting's in a walk is.
        assert one.argv[one.argv.index("-N") + 1] == "2"
    assert variants.controls(SWEEP, GROUND) == variants.controls(SWEEP, GROUND)
