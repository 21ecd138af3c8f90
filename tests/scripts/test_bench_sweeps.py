"""What scripts/bench sweep and scripts/bench channels make of samples whose truth is known."""

from __future__ import annotations

import importlib
import random
import statistics
from types import ModuleType

import pandas as pd
import pytest


@pytest.fixture(scope="module")
def bench_sweep() -> ModuleType:
    """scripts/bench_sweep.py."""
    return importlib.import_module("bench_sweep")


@pytest.fixture(scope="module")
def bench_channels() -> ModuleType:
    """scripts/bench_channels.py."""
    return importlib.import_module("bench_channels")


def samples(*rows: tuple[str, str, str]) -> pd.DataFrame:
    """Half-rows of one size: launch, setting, doubt."""
    made = pd.DataFrame(list(rows), columns=["launch", "setting", "doubt"])
    return made.assign(placement="out", nbytes=8, time_us=1.0)


def test_samples_are_complete_with_the_launch_that_brought_the_last(
    bench_sweep: ModuleType,
) -> None:
    """Doubted ones do not count, nor do those of settings that have enough."""
    found = samples(
        ("a", "tree/ll", ""),
        ("b", "tree/ll", "connecting"),
        ("b", "ring/ll", ""),
        ("c", "tree/ll", ""),
        ("c", "ring/ll", ""),
        ("d", "ring/ll", ""),
    )
    order, healthy = ["a", "b", "c", "d"], ["tree/ll", "ring/ll"]
    assert bench_sweep.until_complete(found, order, healthy, 2) == (3, 0)
    assert bench_sweep.until_complete(found, order, healthy, 3) == (None, 1)
    assert bench_sweep.until_complete(found, order, [*healthy, "tree/ll128"], 1) == (None, 1)


def test_a_launch_that_failed_may_have_brought_samples(bench_sweep: ModuleType) -> None:
    """The order says which were made, whatever became of them."""
    found = samples(("cut-off", "tree/ll", ""), ("whole", "ring/ll", ""))
    order = ["baseline", "cut-off", "whole"]
    assert bench_sweep.until_complete(found, order, ["tree/ll"], 1) == (2, 0)


def test_the_three_faults_are_among_the_24_settings(bench_sweep: ModuleType) -> None:
    """Otherwise nothing would be hit by them."""
    assert len(bench_sweep.faulty()) == 3
    assert bench_sweep.faulty() < set(bench_sweep.SETTINGS)


def test_the_best_of_many_equal_settings_gains_nothing(bench_channels: ModuleType) -> None:
    """40 settings of a knob that does nothing, 2 % noise: the luck of the best is about 2 %."""
    noise = random.Random(7)

    def times() -> list[float]:
        return [100 * noise.lognormvariate(0, 0.02) for _ in range(3)]

    gains, naive = [], []
    for _ in range(200):
        of_size = {f"ring/ll/{count}": times() for count in range(1, 41)}
        best = bench_channels.best_of(of_size, 100.0)
        gains.append(best.gain)
        naive.append(100 / best.time_us - 1)
    assert abs(statistics.fmean(gains)) < 0.003
    assert statistics.fmean(naive) > 0.015


def test_a_better_channel_count_is_named_with_its_gain(bench_channels: ModuleType) -> None:
    """A third less time is half as fast again; one disturbed repeat changes neither."""
    times = {
        "baseline": [90.0, 90.0, 90.0],
        "ring/simple": [90.0, 90.0, 90.0],
        "ring/simple/32": [60.0, 200.0, 60.0],
    }
    best = bench_channels.best_of(times, 90.0)
    assert (best.pair, best.channels) == ("ring/simple", "32")
    assert best.gain == pytest.approx(0.5)


def test_doubted_and_in_place_times_are_not_compared(bench_channels: ModuleType) -> None:
    """Only what ran as asked, and one half of a row."""
    found = samples(("a", "tree/ll", ""), ("a", "tree/ll", ""), ("a", "ring/ll", "substituted"))
    found.loc[1, "placement"] = "in"
    assert bench_channels.times_of(found) == {8: {"tree/ll": [1.0]}}
