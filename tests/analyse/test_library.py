"""What the library does by itself: what it takes, where it asks nobody, what our plugin changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from sample_rows import Sample, frame

from rccltune.analyse import points
from rccltune.analyse.library_behaviour import (
    Bypass,
    IdleComparison,
    IdleDifference,
    bypasses,
    compare_idle,
    idle_notices,
    library_settings,
)
from rccltune.analyse.points import TARGET
from rccltune.model.settings import BASELINE, IDLE, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason

KIB, MIB = 1024, 1 << 20
SIZES = tuple(KIB << n for n in range(16))
KEY = CurveKey(
    collective=Collective.ALL_REDUCE,
    setting=BASELINE,
    placement=Placement.OUT_OF_PLACE,
    scale=Scale(n_nodes=1, n_ranks=8),
)
Effect = Callable[[int], float]


def measured(
    effect: Effect, *, spread: float = 0.002, n: int = 4, seed: int = 1, timing: str = "graph"
) -> list[Sample]:
    """Baseline and idle in so many communicators each, idle by so much slower at each size."""
    rng = np.random.default_rng(seed)
    return [
        Sample(
            key=replace(KEY, setting=setting, placement=placement),
            launch=f"run-{1 + (setting is IDLE)}:{k}",
            nbytes=nbytes,
            time_us=(20 + nbytes / 1e4)
            * (effect(nbytes) if setting is IDLE else 1)
            * float(np.exp(rng.normal(0, spread))),
            timing=timing,
        )
        for setting in (BASELINE, IDLE)
        for placement in Placement
        for k in range(n)
        for nbytes in SIZES
    ]


def held(samples: Sequence[Sample]) -> IdleComparison:
    """What is said of the only target."""
    found = points.usable(frame(samples))
    (one,) = compare_idle(points.grids(points.by_communicator(found)))
    return one


def test_a_plugin_that_replaces_a_tuner_is_told_with_its_sizes() -> None:
    """13 % slower from 16 KiB to 256 KiB, where the library had a table of its own."""
    one = held(measured(lambda n: 1.13 if 16 * KIB <= n <= 256 * KIB else 1.0))
    (change,) = one.changes
    assert (change.min_nbytes, change.max_nbytes) == (16 * KIB, 256 * KIB)
    assert change.ratio == pytest.approx(1.13, rel=0.01)
    (notice,) = idle_notices([one])
    assert "13 % slower from 16 KiB to 256 KiB" in notice.message
    assert notice.where == "all_reduce, 8 ranks on 1 node"


def test_what_noise_hides_is_unknown() -> None:
    """Loops at small sizes differ by tens of percent: neither equal nor different is claimed."""
    one = held(measured(lambda _: 1.0, spread=0.15, timing="loop", n=2))
    assert set(one.unknown) >= {n for n in SIZES if n <= 64 * KIB}
    assert one.changes == ()


def drawn(drawing: ModuleType, seed: int, idle: float) -> IdleComparison:
    """A grid of baseline and idle as noisy as the floor says, idle so many times as slow."""
    like = drawing.Drawn(n=4, paired=False, views=2, settings=1, stalls=0.0)
    made = drawing.draw(like, np.random.default_rng(seed))
    made.times.log_us[:, 1] += np.log(idle)
    grid = replace(
        made,
        target=dict(zip(TARGET, ("all_reduce", 1, 8, "node"), strict=True)),
        candidates=["baseline", "idle"],
    )
    (one,) = compare_idle([grid])
    return one


def test_equal_sessions_hardly_ever_raise_an_alarm(drawing: ModuleType, is_quick: bool) -> None:
    """200 sessions without a difference: one in a hundred at most is said to have one."""
    n = 50 if is_quick else 200
    assert sum(bool(drawn(drawing, seed, 1.0).changes) for seed in range(n)) <= max(1, n // 100)


def test_a_difference_beyond_the_margin_is_rarely_called_equal(
    drawing: ModuleType, is_quick: bool
) -> None:
    """Idle 3 % slower everywhere: a twentieth of sizes at most passes for equal."""
    n_equal = n_sizes = 0
    for one in (drawn(drawing, seed, 1.03) for seed in range(30 if is_quick else 100)):
        n_equal += one.n_sizes - len(one.unknown) - sum(map(_n_sizes, one.changes))
        n_sizes += one.n_sizes
    assert n_equal <= 0.05 * n_sizes


def _n_sizes(change: IdleDifference) -> int:
    return (change.max_nbytes // change.min_nbytes).bit_length()


def test_what_the_library_ran_by_itself_is_known_where_all_that_was_seen_agrees() -> None:
    """Channels are the library's own; a size at which two settings were seen is left out."""
    tree, ring = Setting.parse("tree/ll/8"), Setting.parse("ring/simple/16")
    seen = [(KIB, tree), (KIB, replace(tree, channels=4)), (4 * KIB, tree), (4 * KIB, ring)]
    samples = [
        Sample(key=KEY, launch=f"run-1:{i}", nbytes=n, time_us=9.0, executed=ran)
        for i, (n, ran) in enumerate([*seen, (16 * KIB, None)])
    ]
    forced = replace(KEY, setting=ring)
    samples.append(Sample(key=forced, launch="a", nbytes=MIB, time_us=9.0, executed=ring))
    (one,) = library_settings(frame(samples))
    assert (one.nbytes, str(one.setting)) == (KIB, "tree/ll")
    assert one.target == KEY.target


def test_sizes_that_ask_no_tuner_are_one_range_for_each_collective() -> None:
    """From the smallest to the largest size seen."""
    samples = [
        Sample(key=KEY, launch="a", nbytes=n, time_us=9.0, doubt=UnusableReason.BYPASSED)
        for n in (4 * KIB, KIB, 64 * KIB)
    ]
    found = bypasses(frame(samples))
    assert found == (
        Bypass(
            collective=Collective.ALL_REDUCE,
            scale=KEY.scale,
            min_nbytes=KIB,
            max_nbytes=64 * KIB,
        ),
    )
