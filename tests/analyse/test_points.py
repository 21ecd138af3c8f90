"""From samples to points: what is a point's time, and which samples count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rccltune.analyse import points

KIB = 1024
MIB = 1024 * KIB


def row(time_us: float, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - columns of samples.csv
    """One sample, as a table of a session has it."""
    plain = {
        "run": "run-1",
        "process": 0,
        "communicator": 0,
        "collective": "all_reduce",
        "n_nodes": 1,
        "n_ranks": 8,
        "rank_placement": "node",
        "dtype": "float",
        "op": "sum",
        "placement": "in",
        "setting": "ring/ll",
        "nbytes": 64 * KIB,
        "timing": "loop",
        "rough": False,
        "time_us": time_us,
        "unusable": "",
    }
    return plain | fields


def table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Usable samples by communicator."""
    return points.by_communicator(points.usable(pd.DataFrame(rows)))


def point(rows: Sequence[dict[str, Any]]) -> pd.Series[Any]:
    """The only point of some samples."""
    found = points.points(table(rows))
    assert len(found) == 1
    return found.iloc[0]


# --- medians -------------------------------------------------------------------------------------


def test_a_time_is_the_median_over_communicators_of_the_medians_over_passes() -> None:
    """Passes 10, 11, 30 and 12, 12, 12 and 13: 11, 12 and 13, and not the median of all, 12."""
    times = {0: (10.0, 11.0, 30.0), 1: (12.0, 12.0, 12.0), 2: (11.5,)}
    found = point([row(t, communicator=c) for c, each in times.items() for t in each])
    assert found["time_us"] == pytest.approx(11.5)
    assert (found["low_us"], found["high_us"]) == (pytest.approx(11), pytest.approx(12))
    assert (found["n_communicators"], found["n_passes"], found["n_stalled"]) == (3, 7, 0)


# --- stalls --------------------------------------------------------------------------------------


def stalled(times: Sequence[float], **fields: Any) -> list[bool]:  # noqa: ANN401 - columns
    """Which of several communicators stood still at one size."""
    found = table([row(time, communicator=c, **fields) for c, time in enumerate(times)])
    return [bool(one) for one in found["is_stalled"]]


@pytest.mark.parametrize("others", [[100.0], [100.0, 100.0], [99.0, 100.0, 101.0]])
@pytest.mark.parametrize(
    ("timing", "nbytes"), [("graph", KIB), ("graph", MIB), ("loop", 512 * KIB), ("loop", KIB)]
)
def test_a_stall_is_half_as_slow_again_as_the_others(
    others: list[float], timing: str, nbytes: int
) -> None:
    """At 100 µs the floor never is so much that 5.4 of it were more than a factor 1.5."""
    fields = {"timing": timing, "nbytes": nbytes}
    assert not any(stalled([*others, 149.0], **fields))
    assert stalled([*others, 152.0], **fields) == [False] * len(others) + [True]


def alone(times: Sequence[float]) -> list[bool]:
    """Which times of one communicator stood still, from 64 KiB on by a factor of two."""
    found = table([row(time, nbytes=64 * KIB << at) for at, time in enumerate(times)])
    return [bool(one) for one in found.sort_values("nbytes")["is_stalled"]]


def test_what_nothing_repeats_is_held_against_its_curve() -> None:
    """Six times what a larger size took; or, a byte, six times what a smaller one did."""
    assert alone([10, 10, 59, 10, 10]) == [False] * 5
    assert alone([10, 10, 61, 10, 10]) == [False, False, True, False, False]
    # At the end of a curve: 20 µs at half the size allow 40, and so 240.
    assert alone([10, 20, 239]) == [False] * 3
    assert alone([10, 20, 241]) == [False, False, True]
    # A curve that steps by five, and goes on there, is one.
    assert alone([10, 10, 50, 50, 100]) == [False] * 5


# --- what counts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("nbytes", "timing"), [(4 * MIB, "graph"), (4 * MIB + 1, "loop")])
def test_graphs_count_up_to_4_mib_and_loops_above(nbytes: int, timing: str) -> None:
    """Where both were timed; each timing alone counts everywhere."""
    both = [row(10.0, nbytes=nbytes, timing="graph"), row(14.0, nbytes=nbytes, timing="loop")]
    assert point(both)["is_graph"] == (timing == "graph")
    for one in both:
        assert point([one])["is_graph"] == (one["timing"] == "graph")


def test_all_settings_of_a_size_are_timed_by_one_clock() -> None:
    """A setting that was timed by loops alone is not compared with graphs of another."""
    rows = [row(14.0, setting="tree/ll"), row(14.0), row(10.0, timing="graph")]
    assert point(rows)["setting"] == "ring/ll"
    # At another size, and in another view, a loop is all that there is.
    rows += [row(20.0, nbytes=128 * KIB), row(15.0, placement="out")]
    found = points.points(table(rows))
    assert list(zip(found["nbytes"], found["is_graph"], strict=True)) == [
        (64 * KIB, True),
        (128 * KIB, False),
        (64 * KIB, False),
    ]


def test_what_was_measured_with_care_counts_in_place_of_what_was_roughly() -> None:
    """Setting by setting: one that was dropped after the rough pass keeps its rough time."""
    rows = [
        row(10.0, rough=True),
        row(11.0, communicator=1),
        row(20.0, rough=True, setting="tree/ll"),
    ]
    found = points.points(table(rows)).set_index("setting")["time_us"]
    assert found.to_dict() == pytest.approx({"ring/ll": 11.0, "tree/ll": 20.0})


@pytest.mark.parametrize("bad", [{"unusable": "wrong"}, {"time_us": np.nan}, {"time_us": 0.0}])
def test_what_must_not_be_used_is_not(bad: dict[str, Any]) -> None:
    """Neither a doubted time nor one that is none."""
    assert point([row(10.0), row(5.0) | bad])["time_us"] == pytest.approx(10)


# --- grids ---------------------------------------------------------------------------------------


def test_a_grid_is_one_of_a_target_with_a_place_for_each_view_setting_and_size() -> None:
    """NaN where nothing was measured: a grid is no pivot that invents a time."""
    known = product(("ring/ll", "tree/ll"), ("in", "out"), (KIB, 2 * KIB))
    rows = [
        row(10.0 + at, setting=s, placement=p, nbytes=n)
        for at, (s, p, n) in enumerate(known)
        if at != 7
    ]
    rows.append(row(99.0, n_ranks=16))
    small, large = points.grids(table(rows))
    assert (small.target["n_ranks"], large.target["n_ranks"]) == (8, 16)
    assert small.candidates == ["ring/ll", "tree/ll"]
    assert [view[2] for view in small.views] == ["in", "out"]
    expected = [[[10, 11], [14, 15]], [[12, 13], [16, np.nan]]]
    assert np.exp(small.median) == pytest.approx(np.array(expected), nan_ok=True)
    assert np.exp(large.median) == pytest.approx(np.array([[[99.0]]]))
