"""Verdicts and what they make of rules: false alarms bounded, true losses found, closed forms."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rccltune import verify
from rccltune.model import (
    Algorithm,
    Collective,
    CurveKey,
    Doubt,
    Judgement,
    Placement,
    Protocol,
    Rule,
    Sample,
    Scale,
    Setting,
    Variant,
)
from rccltune.verify import Cut

SCALE = Scale(n_nodes=1, n_ranks=8)
SIZES = [round(1024 * 2 ** (k / 4)) for k in range(64)]
TUNED = Variant(name="tuned", environment=(("X", "1"),))
Ratio = Callable[[int], float]


def rule(low: int, high: int, line: int = 1) -> Rule:
    """For the sizes between."""
    return Rule(
        collective=Collective.ALL_REDUCE,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting(algorithm=Algorithm.TREE, protocol=Protocol.LL),
        line=line,
    )


def samples(
    time_us: Ratio,
    variant: Variant | None,
    rng: random.Random,
    sigma: float,
    n: int = 3,
    sizes: Sequence[int] = SIZES,
) -> list[Sample]:
    """Launches with noise of each row and of each launch."""
    common = [rng.gauss(0, sigma / 2) for _ in range(n)]
    return [
        Sample(
            key=CurveKey(
                collective=Collective.ALL_REDUCE,
                setting=Setting.parse("baseline"),
                placement=placement,
                scale=SCALE,
                variant=variant or Variant(),
            ),
            launch=f"{'b' if variant else 'a'}{launch}",
            nbytes=nbytes,
            time_us=time_us(nbytes) * exp(common[launch] + rng.gauss(0, sigma)),
        )
        for launch in range(n)
        for placement in Placement
        for nbytes in sizes
    ]


def weighed(ratio: Ratio, seed: int = 0, sigma: float = 0.01) -> tuple[verify.Weighed, ...]:
    """Tuned runs that take the untouched time over the ratio."""
    rng = random.Random(seed)
    return verify.weigh(
        samples(lambda n: 50 + n / 1e3, None, rng, sigma),
        samples(lambda n: (50 + n / 1e3) / ratio(n), TUNED, rng, sigma),
    )


def test_every_size_and_half_has_a_ratio_with_its_interval() -> None:
    """A fifth faster everywhere: 1.2 lies in nine of ten intervals and more."""
    found = weighed(lambda _: 1.2)
    assert len(found) == len(SIZES) * 2
    held = [one.verdict.low <= 1.2 <= one.verdict.high for one in found]
    assert sum(held) / len(held) > 0.85
    for one in found:
        assert one.verdict.low <= one.verdict.ratio <= one.verdict.high
        assert one.verdict.judgement is Judgement.BETTER


def test_a_rules_ratios_are_sorted_and_its_sizes_counted_once() -> None:
    """Slower than 1.2 at the last size alone: that is the least; both halves share a size."""
    last = SIZES[-1]
    found = weighed(lambda n: 1.1 if n == last else 1.2, sigma=1e-5)
    [standing] = verify.standings([rule(0, 1 << 40)], SCALE, found, 0.02)
    assert standing.ratios == pytest.approx([1.1] * 2 + [1.2] * (2 * len(SIZES) - 2), rel=1e-3)
    assert standing.median == pytest.approx(1.2, rel=1e-3)
    assert standing.n_gaining == len(SIZES)


@pytest.mark.long
def test_equal_arms_harm_nothing_and_beat_nothing() -> None:
    """Of 40 x 128 comparisons of equals hardly one is called certain harm."""
    harmed = worse = total = 0
    for seed in range(40):
        found = weighed(lambda _: 1.0, seed)
        harmed += sum(one.harmed for one in found)
        worse += sum(one.verdict.judgement is Judgement.WORSE for one in found)
        total += len(found)
        [standing] = verify.standings([rule(0, 1 << 40)], SCALE, found, 0.02)
        assert not standing.stands
    assert harmed <= 4
    assert worse / total < 0.03


def moody(ratio: Ratio, seed: int, mood: Ratio, n: int = 3) -> tuple[verify.Weighed, ...]:
    """Launches off as a whole, by a sigma that depends on the size; rows hardly differ.

    Four sizes an octave lie in launches of their own, as verification measures them.
    """
    rng = random.Random(seed)

    def arm(variant: Variant | None, faster: Ratio) -> list[Sample]:
        found = []
        for part in range(4):
            moods = [rng.gauss(0, 1) for _ in range(n)]
            for sample in samples(lambda m: 20 / faster(m), variant, rng, 0, n, SIZES[part::4]):
                off = moods[int(sample.launch[1:])] * mood(sample.nbytes) + rng.gauss(0, 0.003)
                time_us = (sample.time_us or 0) * exp(off)
                name = f"{sample.launch}.{part}"
                found.append(replace(sample, launch=name, time_us=time_us))
        return found

    return verify.weigh(arm(None, lambda _: 1.0), arm(TUNED, ratio))


def latency(nbytes: int) -> float:
    """Launches of a virtual machine: 15 % apart in latency, half a percent in bandwidth."""
    return 0.15 if nbytes < 1 << 19 else 0.005


def test_launches_that_differ_as_a_whole_are_neither_gain_nor_harm() -> None:
    """Equal arms, 100 verifications: a rule for the small sizes stands in few, harm is rarer."""
    small = rule(0, (1 << 19) - 1)
    stands = harmed = 0
    for seed in range(100):
        found = moody(lambda _: 1.0, seed, latency)
        [standing] = verify.standings([small], SCALE, found, 0.02)
        stands += standing.certainty >= 0.95
        harmed += bool(verify.harmed(found))
    assert stands <= 5
    assert harmed <= 5


def test_six_percent_of_bandwidth_are_seen_beside_latencies_that_nobody_can_tell() -> None:
    """The spread of small sizes is not that of large ones: the rule for those always stands."""
    large = rule(1 << 19, 1 << 40)
    for seed in range(40):
        found = moody(lambda n: 1.06 if n >= 1 << 19 else 1.0, seed, latency)
        [standing] = verify.standings([large], SCALE, found, 0.02)
        assert standing.stands


@given(at=st.integers(8, 55), width=st.integers(1, 6), seed=st.integers(0, 50))
@hypothesis_settings(max_examples=40, deadline=None)
def test_a_loss_is_cut_out_from_good_size_to_good_size(at: int, width: int, seed: int) -> None:
    """A third slower over some sizes of a rule that gains a fifth elsewhere."""
    slow = SIZES[at : at + width]
    found = weighed(lambda n: 0.75 if n in slow else 1.2, seed)
    one = rule(0, 1 << 40)
    [standing] = verify.standings([one], SCALE, found, 0.02)
    assert standing.cuts
    parts = verify.without(one, standing.cuts)
    for nbytes in SIZES:
        inside = any(part.min_nbytes <= nbytes <= part.max_nbytes for part in parts)
        assert inside == (nbytes not in slow)
    # Nothing between a good size and a bad one is kept: nobody knows where it turns.
    low, high = SIZES[at - 1], SIZES[at + width] if at + width < len(SIZES) else 1 << 40
    assert not any(part.min_nbytes < p <= part.max_nbytes for part in parts for p in (low + 1,))
    assert all(part.max_nbytes <= low or part.min_nbytes >= high for part in parts)


EDGE = (1 << 20) - 4


def at_the_edge(ratio: float, seed: int) -> bool:
    """Whether a rule that gains a fifth is cut at the last two sizes before its boundary."""
    rng = random.Random(seed)
    edge = [EDGE - 4, EDGE]

    def tuned_us(nbytes: int) -> float:
        return 50.0 / (ratio if nbytes in edge else 1.2)

    sizes = [*(n for n in SIZES if n < EDGE - 4), *edge]
    untouched = samples(lambda _: 50.0, None, rng, 0.01, 2, sizes)
    found = verify.weigh(untouched, samples(tuned_us, TUNED, rng, 0.01, 2, sizes))
    [standing] = verify.standings([rule(0, EDGE)], SCALE, found, 0.02)
    return any(cut.max_nbytes == EDGE for cut in standing.cuts)


def test_a_few_percent_up_to_a_boundary_are_seen_in_its_two_sizes_together() -> None:
    """4 % beyond where two settings really cross, in two launches of each arm with 1 % of noise."""
    assert sum(at_the_edge(1 / 1.04, seed) for seed in range(100)) >= 90
    assert sum(at_the_edge(1.0, seed) for seed in range(100)) <= 5


def test_a_gain_over_part_of_a_range_keeps_that_part() -> None:
    """30 % up to 64 KiB and nothing beyond."""
    found = weighed(lambda n: 1.3 if n <= 1 << 16 else 1.0)
    one = rule(0, 1 << 40)
    [standing] = verify.standings([one], SCALE, found, 0.02)
    if not standing.stands:
        [left] = verify.without(one, standing.cuts)
        assert left.min_nbytes == 0
        assert left.max_nbytes >= 1 << 16


def test_wrong_results_disqualify_whatever_their_time() -> None:
    """Three times as fast, and wrong."""
    rng = random.Random(1)
    base = samples(lambda _: 90.0, None, rng, 0.01)
    tuned = samples(lambda _: 30.0, TUNED, rng, 0.01)
    bad = SIZES[20]
    tuned = [replace(s, doubt=Doubt.WRONG, n_wrong=2) if s.nbytes == bad else s for s in tuned]
    found = verify.weigh(base, tuned)
    wrong = {o.verdict.nbytes for o in found if o.verdict.judgement is Judgement.WRONG}
    assert wrong == {bad}
    [standing] = verify.standings([rule(0, 1 << 40)], SCALE, found, 0.02)
    [cut] = standing.cuts
    assert cut.reason == "wrong results"
    assert (cut.min_nbytes, cut.max_nbytes) == (SIZES[19] + 1, SIZES[21] - 1)


def test_only_the_first_match_is_judged() -> None:
    """A rule that another hides has no size of its own."""
    found = weighed(lambda _: 1.2)
    standings = verify.standings([rule(0, 1 << 40, 1), rule(0, 1 << 40, 2)], SCALE, found, 0.02)
    assert [one.rule.line for one in standings] == [1]


@given(
    low=st.integers(0, 100),
    high=st.integers(100, 200),
    cuts=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), max_size=5),
)
def test_what_is_left_is_the_rule_without_the_cuts(
    low: int, high: int, cuts: list[tuple[int, int]]
) -> None:
    """Size by size."""
    made = [
        Cut(collective=Collective.ALL_REDUCE, min_nbytes=a, max_nbytes=a + n, reason="x")
        for a, n in cuts
    ]
    parts = verify.without(rule(low, high), made)
    for nbytes in range(205):
        wanted = low <= nbytes <= high and not any(a <= nbytes <= a + n for a, n in cuts)
        assert wanted == any(p.min_nbytes <= nbytes <= p.max_nbytes for p in parts)


@pytest.mark.parametrize("line", [1, 2])
def test_a_cut_of_one_line_leaves_the_others(line: int) -> None:
    """What is not selectable goes alone; a fallback behind it stays."""
    cut = Cut(
        collective=Collective.ALL_REDUCE, min_nbytes=0, max_nbytes=1 << 40, reason="x", line=1
    )
    left = verify.without(rule(0, 100, line), [cut])
    assert bool(left) == (line != 1)


def test_a_small_loss_of_many_sizes_is_harm_and_noise_is_none() -> None:
    """5 % from 256 KiB on under 1 % of noise: certain at few sizes alone; equals are not harmed."""
    slow = weighed(lambda n: 0.95 if n >= 1 << 18 else 1.0)
    assert sum(one.harmed for one in slow) < 2 * len([n for n in SIZES if n >= 1 << 18])
    found = {one.verdict.nbytes for one in verify.harmed(slow)}
    assert {n for n in SIZES if n >= 1 << 19} <= found
    assert min(found) >= 1 << 16
    false_alarms = sum(bool(verify.harmed(weighed(lambda _: 1.0, s, 0.02))) for s in range(40))
    assert false_alarms <= 4
