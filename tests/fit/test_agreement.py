"""Two ways of measuring one thing: false alarms, true differences, and what comes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.fit import agreement, points
from rccltune.fit.beliefs import own_choices
from rccltune.model.belief import Belief
from rccltune.model.curves import Curve
from rccltune.model.measured import Caution, Sample
from rccltune.model.settings import (
    BASELINE,
    LL128_FORCED,
    SILENT,
    CurveKey,
    Scale,
    Setting,
    Variant,
)
from rccltune.model.vocabulary import Collective, Doubt, Placement

TREE = Setting.parse("tree/ll")
RING = Setting.parse("ring/simple")
PLAIN = CurveKey(
    collective=Collective.ALL_REDUCE,
    setting=BASELINE,
    placement=Placement.OUT_OF_PLACE,
    scale=Scale(n_nodes=1, n_ranks=64),
)
# What a walk's passes and launches of their own are called.
PASSES = ("w.1", "w.2", "w.3")
APART = ("a", "b", "c")
Effect = Callable[[int], float]


def keys(setting: Setting, n_views: int = 2) -> list[CurveKey]:
    """A key of the setting for each placement."""
    return [replace(PLAIN, setting=setting, placement=p) for p in list(Placement)[:n_views]]


def measured(
    setting: Setting,
    names: Sequence[str],
    *,
    rng: random.Random | None = None,
    sizes: Sequence[int] = range(20),
    effect: Effect = lambda _: 1.0,
    noise: float = 0.02,
    launch_noise: float = 0.01,
    outliers: float = 0.0,
    slow: Sequence[str] = (),
    n_views: int = 2,
) -> list[Sample]:
    """Samples at 1 KiB << n; passes of one launch share its factor. Without ``rng`` exact.

    ``outliers`` is the share of rows that take 60 % longer, ``slow`` names launches that do as a
    whole.
    """
    factors = {name.partition(".")[0]: 1.6 if name in slow else 1.0 for name in names}
    if rng:
        factors = {name: f * (1 + rng.gauss(0, launch_noise)) for name, f in factors.items()}
    found = []
    for key in keys(setting, n_views):
        for name in names:
            for index in sizes:
                time = (20 + 2**index / 10) * effect(index) * factors[name.partition(".")[0]]
                if rng:
                    time *= 1 + rng.gauss(0, noise)
                    time *= 1.6 if rng.random() < outliers else 1.0
                found.append(
                    Sample(
                        key=key,
                        launch=name,
                        nbytes=1024 << index,
                        time_us=time,
                    )
                )
    return found


def silent_session(seed: int, effect: Effect = lambda _: 1.0, **noise: object) -> list[Curve]:
    """Silence and two settings in a walk, the untouched site in launches of its own."""
    rng = random.Random(seed)
    slow = noise.pop("slow", ())
    samples = measured(SILENT, PASSES, rng=rng, effect=effect, **noise)
    samples += measured(BASELINE, APART, rng=rng, slow=slow, **noise)
    return list(points.curves(samples).curves)


def alarms(sessions: Sequence[Sequence[Curve]]) -> int:
    """Sessions in which silence is said to differ at any size."""
    return sum(any(one.stretches for one in agreement.silences(curves)) for curves in sessions)


def sizes_that_differ(curves: Sequence[Curve]) -> list[set[int]]:
    """By view, as exponents of 1 KiB << n."""
    return [
        {s.nbytes.bit_length() - 11 for stretch in one.stretches for s in stretch.sizes}
        for one in agreement.silences(curves)
    ]


# --- silence ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"noise": 0.05},
        {"noise": 0.005, "launch_noise": 0.02},
        {"outliers": 0.02},
        {"slow": ("b",)},
        {"n_views": 1, "sizes": range(5)},
    ],
)
def test_silence_that_is_the_site_gives_no_alarm(case: dict[str, object]) -> None:
    """A hundred sessions, each with launches off as a whole by 1 or 2 %: less than one in twenty.

    Rare rows, and one launch of the site, take 60 % longer.
    """
    assert alarms([silent_session(seed, **case) for seed in range(100)]) < 5


@pytest.mark.parametrize("stretch", [(6, 11), (0, 6), (15, 20), (8, 20)])
def test_six_percent_on_a_stretch_of_sizes_are_found(stretch: tuple[int, int]) -> None:
    """With 2 % noise and three repeats each; nearly all of its sizes and few others."""
    where = range(*stretch)
    sessions = [silent_session(s, lambda i: 1.06 if i in where else 1.0) for s in range(100)]
    assert alarms(sessions) >= 95
    found = [view for curves in sessions for view in sizes_that_differ(curves)]
    assert sum(len(view & set(where)) for view in found) >= 0.75 * len(where) * len(found)
    assert sum(len(view - set(where)) for view in found) <= 0.5 * len(found)


@pytest.mark.parametrize("ratio", [1.13, 0.87])
def test_a_difference_everywhere_is_more_than_a_launch_off_as_a_whole(ratio: float) -> None:
    """13 % are found in every session, at nearly all sizes."""
    sessions = [silent_session(seed, lambda _: ratio) for seed in range(30)]
    found = [view for curves in sessions for view in sizes_that_differ(curves)]
    assert sum(map(len, found)) >= 0.95 * 20 * len(found)


def test_what_differs_is_named_with_its_ratio() -> None:
    """Without noise: exactly those sizes, exactly that much, one stretch for each run."""
    ratios = {3: 1.13, 4: 1.13, 5: 1.13, 9: 0.9}
    curves = points.curves(
        measured(SILENT, PASSES, effect=lambda i: ratios.get(i, 1.0), n_views=1)
        + measured(BASELINE, APART, n_views=1)
    ).curves
    (found,) = agreement.silences(curves)
    assert found.n_sizes == 20
    assert found.median_ratio == pytest.approx(1.0)
    assert [(s.min_nbytes >> 10, s.max_nbytes >> 10) for s in found.stretches] == [
        (8, 32),
        (512, 512),
    ]
    assert [s.ratio for s in found.stretches] == pytest.approx([1.13, 0.9])
    (notice,) = agreement.silence_notices([found])
    assert notice.caution is Caution.SILENCE_DIFFERS
    assert "13 % slower from 8 KiB to 32 KiB, 10 % faster at 512 KiB" in notice.message
    assert "without the plugin" in notice.remedy
    assert notice.where == "all_reduce, 64 ranks on 1 node"


def test_what_does_not_matter_is_not_said() -> None:
    """1.5 %, as sure as can be."""
    samples = measured(SILENT, PASSES, effect=lambda _: 1.015) + measured(BASELINE, APART)
    assert not any(one.stretches for one in agreement.silences(points.curves(samples).curves))


def test_silence_of_another_variant_says_nothing() -> None:
    """Its variable alone changes what the library chooses."""
    silent = [
        replace(s, key=replace(s.key, variant=LL128_FORCED)) for s in measured(SILENT, PASSES)
    ]
    curves = points.curves(silent + measured(BASELINE, APART)).curves
    assert agreement.silences(curves) == ()
    assert agreement.strengthened(curves) == curves


def test_without_any_repeat_nothing_is_said() -> None:
    """One run of each shows no noise, so nothing is beyond it, and nothing is known to agree."""
    samples = measured(SILENT, PASSES[:1]) + measured(BASELINE, APART[:1])
    curves = points.curves(samples).curves
    assert agreement.silences(curves) == ()
    assert agreement.strengthened(curves) == curves


# --- what silence adds to the baseline --------------------------------------------------------


def baseline_of(curves: Sequence[Curve]) -> Curve:
    """The only one."""
    (found,) = [curve for curve in curves if curve.key.setting == BASELINE]
    return found


def test_where_they_agree_launches_are_pooled() -> None:
    """All six count, with their median; ends and counts are those of both."""
    samples = [
        Sample(key=key, launch=name, nbytes=1024 << i, time_us=time)
        for key, names, step in (
            (replace(PLAIN, setting=SILENT), ("m.1", "m.2", "m.3"), 1),
            (PLAIN, ("z", "b", "c"), None),
        )
        for i in range(6)
        for name, time in zip(
            names, (101.0, 103.0, 105.0) if step else (100.0, 102.0, 104.0), strict=True
        )
    ]
    point = baseline_of(agreement.strengthened(points.curves(samples).curves)).points[2]
    assert point.time_us == 102.5
    assert point.launches == ("b", "c", "m.1", "m.2", "m.3", "z")
    assert point.launch_times_us == (102.0, 104.0, 101.0, 103.0, 105.0, 100.0)
    assert (point.low_us, point.high_us) == (100.0, 105.0)
    assert (point.n_launches, point.n_samples) == (6, 6)


def test_sizes_of_silence_alone_count_where_its_neighbours_agree() -> None:
    """The search measures further sizes in walks only; beyond an end the last one decides."""
    coarse = (2, 5, 8, 11, 14)
    samples = measured(BASELINE, APART, sizes=coarse, n_views=1)
    samples += measured(
        SILENT, PASSES, sizes=range(17), n_views=1, effect=lambda i: 1.3 if 10 <= i < 14 else 1.0
    )
    curves = points.curves(samples).curves
    made = baseline_of(agreement.strengthened(curves))
    taken = {p.nbytes.bit_length() - 11: p.n_launches for p in made.points}
    # 11 differs: the site's own three launches; 9, 10, 12 and 13 are next to it.
    assert taken == dict.fromkeys((0, 1, 3, 4, 6, 7, 11, 15, 16), 3) | {2: 6, 5: 6, 8: 6, 14: 6}
    assert [p for p in made.points if p.nbytes == 1024 << 11] == [
        p for p in baseline_of(curves).points if p.nbytes == 1024 << 11
    ]
    assert all(len(one.residuals) == len(made.points) for one in made.fits)


def test_without_any_tuner_a_rule_must_beat_the_faster_of_silence_and_site() -> None:
    """Both are one thing then; below 512 KiB launches differ by tens of percent, and passes stand.

    Index 9 is 512 KiB.
    """
    ratios = {3: 0.8, 4: 0.8, 5: 1.25, 9: 1.25, 10: 0.8}
    samples = measured(BASELINE, APART, sizes=range(12), n_views=1)
    samples += measured(
        SILENT, PASSES, sizes=range(16), n_views=1, effect=lambda i: ratios.get(i, 1.0)
    )
    curves = points.curves(samples).curves
    site = {p.nbytes: p.time_us for p in baseline_of(curves).points}
    made = {
        p.nbytes: p.time_us
        for p in baseline_of(agreement.strengthened(curves, tunerless=True, inside=True)).points
    }
    assert set(made) == {1024 << i for i in range(16)}
    for i in range(12):
        ratio = ratios.get(i, 1.0)
        wanted = site[1024 << i] * (ratio if i < 9 else min(1.0, ratio))
        assert made[1024 << i] == pytest.approx(wanted)
    (silence,) = agreement.silences(curves)
    (notice,) = agreement.silence_notices([silence], tunerless=True)
    assert "no tuner is loaded" in notice.remedy


def test_passes_of_what_the_library_runs_by_itself_are_passes_of_the_baseline() -> None:
    """At those sizes alone; the setting keeps them as well."""
    samples = measured(BASELINE, APART, sizes=range(4), n_views=1)
    samples += measured(SILENT, PASSES, sizes=range(4), n_views=1)
    samples += measured(RING, PASSES, sizes=range(4), n_views=1, effect=lambda _: 0.9)
    curves = points.curves(samples).curves
    target = curves[0].key.target
    made = agreement.strengthened(curves, own={target: {2048: RING, 4096: TREE}})
    counts = {p.nbytes: p.n_launches for p in baseline_of(made).points}
    assert counts == {1024: 6, 2048: 9, 4096: 6, 8192: 6}
    ring = [c for c in curves if c.key.setting == RING]
    assert [c for c in made if c.key.setting == RING] == ring


def test_what_the_library_runs_is_what_was_seen_else_the_least_of_its_table() -> None:
    """A table counts where no other tuner answers first."""
    target = PLAIN.target
    seen = Belief(target=target, nbytes=1024, offered=(), choice=RING, ran=TREE)
    guessed = Belief(target=target, nbytes=2048, offered=(), choice=RING)
    unknown = Belief(target=target, nbytes=4096, offered=(), choice=None)
    beliefs = (seen, guessed, unknown)
    assert own_choices(beliefs, tunerless=True) == {target: {1024: TREE, 2048: RING}}
    assert own_choices(beliefs, tunerless=False) == {target: {1024: TREE}}


def test_an_end_that_differs_gives_nothing_beyond_it() -> None:
    """Nearest is what decides where there is one neighbour only."""
    samples = measured(BASELINE, APART, sizes=range(4, 12), n_views=1)
    samples += measured(
        SILENT, PASSES, sizes=range(14), n_views=1, effect=lambda i: 1.3 if i < 6 else 1.0
    )
    made = baseline_of(agreement.strengthened(points.curves(samples).curves))
    assert {p.nbytes.bit_length() - 11 for p in made.points} == set(range(4, 14))


@given(
    st.lists(st.sampled_from([BASELINE, TREE, RING, SILENT]), min_size=1, unique=True),
    st.integers(0, 9),
)
def test_only_a_baseline_beside_silence_ever_changes(settings: list[Setting], seed: int) -> None:
    """Without both, curves are what they were; with both, all others are, and no point is lost."""
    rng = random.Random(seed)
    samples = [
        s for one in settings for s in measured(one, APART, rng=rng, sizes=range(4), n_views=1)
    ]
    curves = points.curves(samples).curves
    made = agreement.strengthened(curves)
    assert [c.key for c in made] == [c.key for c in curves]
    for old, new in zip(curves, made, strict=True):
        if old.key.setting != BASELINE or SILENT not in settings:
            assert new == old
        assert {p.nbytes for p in new.points} >= {p.nbytes for p in old.points}


CHANNELS = Variant(name="channels-32", environment=(("NCCL_MIN_NCHANNELS", "32"),))


@pytest.mark.parametrize(("slower", "stands"), [(1.0, True), (1.3, False)])
def test_silence_stands_for_a_baseline_that_nobody_measured_in_an_environment(
    slower: float, stands: bool
) -> None:
    """If it is the untouched site where both were measured; a site without a tuner is it anyway."""
    there = [
        replace(s, key=replace(s.key, variant=CHANNELS), launch=f"v{s.launch}")
        for s in measured(SILENT, PASSES, rng=random.Random(1))
    ]
    here = measured(SILENT, PASSES, rng=random.Random(2), effect=lambda _: slower)
    curves = points.curves([*there, *here, *measured(BASELINE, APART, rng=random.Random(3))]).curves
    for tunerless, wanted in ((False, stands), (True, True)):
        made = agreement.strengthened(curves, tunerless=tunerless)
        found = [c for c in made if c.key.setting == BASELINE and c.key.variant == CHANNELS]
        assert bool(found) == wanted
        silent = [c.points for c in made if c.key.setting == SILENT and c.key.variant == CHANNELS]
        assert not found or [c.points for c in found] == silent


def test_silence_with_wrong_results_adds_nothing() -> None:
    """What was disqualified is no evidence."""
    wrong = replace(measured(SILENT, PASSES)[0], doubt=Doubt.WRONG, n_wrong=3)
    samples = [*measured(SILENT, PASSES), *measured(BASELINE, APART), wrong]
    curves = points.curves(samples).curves
    assert agreement.strengthened(curves) == curves
