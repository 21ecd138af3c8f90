"""Crossovers: where two known curves cross, and how sure one can be."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.fit import crossings, points
from rccltune.model.curves import Evidence
from rccltune.model.measured import Sample
from rccltune.model.settings import (
    LL128_FORCED,
    TREE_SIMPLE_PATCHED,
    CurveKey,
    Scale,
    Setting,
    Variant,
)
from rccltune.model.vocabulary import Collective, Placement

SIZES = [2**n for n in range(10, 26)]
Time = Callable[[int], float]


def low(nbytes: int) -> float:
    """20 µs and 10 GB/s."""
    return 20 + nbytes / 1e4


def high(nbytes: int) -> float:
    """60 µs and 40 GB/s: equal to ``low`` at 40 µs × 1e4 × 4/3 = 533,333 bytes."""
    return 60 + nbytes / 4e4


def samples(
    name: str,
    time: Time,
    sizes: Sequence[int] = SIZES,
    launches: Sequence[str] = ("a",),
    variant: Variant | None = None,
) -> list[Sample]:
    """One setting in one view."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=Setting.parse(name),
        placement=Placement.OUT_OF_PLACE,
        scale=Scale(n_nodes=1, n_ranks=8),
        variant=variant or Variant(),
    )
    return [
        Sample(key=key, launch=launch, nbytes=n, time_us=time(n))
        for n, launch in product(sizes, launches)
    ]


def test_two_lines_cross_where_algebra_says() -> None:
    """The linear crossover is exact; the log-log one is within a grid step's curvature."""
    curves = points.curves(samples("tree/ll", low) + samples("ring/simple", high)).curves
    (found,) = crossings.crossovers(curves)
    assert (str(found.below), str(found.above)) == ("tree/ll", "ring/simple")
    assert found.linear_nbytes == pytest.approx(533_333, rel=1e-3)
    assert found.at_nbytes == pytest.approx(533_333, rel=0.03)
    assert found.evidence is Evidence.BRACKET
    assert (found.low_nbytes, found.high_nbytes) == (2**19, 2**20)


def test_power_laws_cross_exactly_in_log_log() -> None:
    """Between measured sizes the crossing of two straight log-log lines is a closed form."""
    curves = points.curves(
        samples("tree/ll", lambda n: 0.01 * n**0.9) + samples("ring/ll", lambda n: 0.5 * n**0.5)
    ).curves
    (found,) = crossings.crossovers(curves)
    assert found.at_nbytes == pytest.approx(50 ** (1 / 0.4), rel=1e-9)


def test_curves_that_do_not_cross_have_no_crossover() -> None:
    """The faster everywhere is the only winner."""
    curves = points.curves(
        samples("tree/ll", low) + samples("ring/ll", lambda n: 2 * low(n))
    ).curves
    assert crossings.crossovers(curves) == ()
    pair = (Setting.parse("tree/ll"), Setting.parse("ring/ll"))
    assert crossings.crossovers(curves, [pair]) == ()


def test_noise_within_tolerance_makes_no_crossovers() -> None:
    """Two equal settings with 0.5 % of noise are one winner."""
    noise = random.Random(2)
    both = samples("tree/ll", lambda n: low(n) * (1 + 0.005 * noise.gauss(0, 1)))
    both += samples("ring/ll", lambda n: low(n) * (1 + 0.005 * noise.gauss(0, 1)))
    assert crossings.crossovers(points.curves(both).curves) == ()


def test_settings_of_a_widening_variant_cross_with_the_default_ones() -> None:
    """LL128 under its variable stands beside the rest; a patched library's setting does not."""
    curves = points.curves(
        samples("tree/ll", low)
        + samples("tree/ll128", high, variant=LL128_FORCED)
        + samples("tree/simple", lambda n: 0.1 * low(n), variant=TREE_SIMPLE_PATCHED)
    ).curves
    (found,) = crossings.crossovers(curves)
    assert (str(found.below), str(found.above)) == ("tree/ll", "tree/ll128")


def test_a_requested_pair_is_answered_in_the_order_asked() -> None:
    """Asked the other way round, the pair has no crossover: ring/simple never wins first."""
    curves = points.curves(samples("tree/ll", low) + samples("ring/simple", high)).curves
    tree, ring = Setting.parse("tree/ll"), Setting.parse("ring/simple")
    assert len(crossings.crossovers(curves, [(tree, ring)])) == 1
    assert crossings.crossovers(curves, [(ring, tree)]) == ()


def test_repeats_give_an_interval_around_the_crossing() -> None:
    """From three launches on each side the evidence is an interval, the same every time."""
    noise = random.Random(4)
    both = samples("tree/ll", lambda n: low(n) * (1 + 0.01 * noise.gauss(0, 1)), launches="abc")
    both += samples("ring/ll", lambda n: high(n) * (1 + 0.01 * noise.gauss(0, 1)), launches="def")
    curves = points.curves(both).curves
    (found,) = crossings.crossovers(curves)
    assert found.evidence is Evidence.BOOTSTRAP
    assert found.low_nbytes < found.at_nbytes < found.high_nbytes
    assert crossings.crossovers(curves) == (found,)


@pytest.mark.parametrize("launches", [("abc", "def"), ("abc", "abc"), ("ab", "cd")])
def test_the_interval_covers_the_true_crossing_as_often_as_it_says(
    launches: tuple[str, str],
) -> None:
    """95 % intervals cover at least 85 % of the time, with launches slow or fast as a whole.

    The true crossing is that of the noiseless curves in log-log. A hundred repetitions leave
    ±6 %, and two or three launches cannot do better than roughly.
    """
    pair = (Setting.parse("tree/ll"), Setting.parse("ring/ll"))
    noiseless = points.curves(samples("tree/ll", low) + samples("ring/ll", high)).curves
    true = crossings.crossovers(noiseless, [pair])[0].at_nbytes
    noise = random.Random(11)
    hits = 0
    for _ in range(100):
        effect = {launch: 1 + 0.02 * noise.gauss(0, 1) for launch in "abcdef"}
        made = [
            replace(sample, time_us=(sample.time_us or 0) * effect[sample.launch] * shake)
            for name, time, ids in (("tree/ll", low, launches[0]), ("ring/ll", high, launches[1]))
            for sample in samples(name, time, launches=ids)
            if (shake := 1 + 0.02 * noise.gauss(0, 1))
        ]
        (found,) = crossings.crossovers(points.curves(made).curves, [pair])
        hits += found.low_nbytes <= true <= found.high_nbytes
    assert hits >= 85


@given(st.lists(st.lists(st.integers(100, 110), min_size=6, max_size=6), min_size=1, max_size=3))
def test_the_winner_order_is_as_short_as_any(table: list[list[int]]) -> None:
    """No sequence of settings within tolerance changes less often: all of them are tried."""
    sizes = SIZES[:6]
    names = ["ring/ll", "ring/ll128", "ring/simple"][: len(table)]
    made = []
    for name, row in zip(names, table, strict=True):
        by_size = dict(zip(sizes, row, strict=True))
        made += samples(name, lambda n, by=by_size: float(by[n]), sizes)
    order = crossings.winner_order(points.curves(made).curves, 0.02)
    best = [min(column) for column in zip(*table, strict=True)]
    fewest = min(
        1 + sum(a != b for a, b in pairwise(path))
        for path in product(range(len(table)), repeat=6)
        if all(table[arm][i] <= 1.02 * best[i] for i, arm in enumerate(path))
    )
    assert len(order) == fewest
