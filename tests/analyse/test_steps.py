"""Latency split into a base and steps, and the two ways of counting steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from sample_rows import Sample

from rccltune.analyse.steps import blog_steps, rccl_steps, separate
from rccltune.model.curves import Curve, Separation
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement

CPX = Scale(n_nodes=1, n_ranks=64)


@pytest.mark.parametrize(
    ("collective", "algorithm", "scale", "steps"),
    [
        # RCCL 2.28.3 src/graph/tuning.cc; the table of latencies that follows from it is in the
        # facts about RCCL, §6.4 (all_reduce of 64 ranks: 12 + 126 × 0.9 = 125.4 µs for the tree).
        (Collective.ALL_REDUCE, Algorithm.RING, CPX, 126),
        (Collective.ALL_REDUCE, Algorithm.TREE, CPX, 126),
        (Collective.ALL_GATHER, Algorithm.RING, CPX, 63),
        (Collective.REDUCE_SCATTER, Algorithm.RING, Scale(n_nodes=1, n_ranks=8), 7),
        (Collective.BROADCAST, Algorithm.RING, Scale(n_nodes=1, n_ranks=8), 8),
        (Collective.ALL_REDUCE, Algorithm.TREE, Scale(n_nodes=4, n_ranks=32), 18),
        (Collective.ALL_GATHER, Algorithm.TREE, CPX, None),
        (Collective.ALLTOALL, Algorithm.RING, CPX, None),
    ],
)
def test_steps_are_those_of_rccls_model(
    collective: Collective, algorithm: Algorithm, scale: Scale, steps: int | None
) -> None:
    """Inside a node the tree is a chain and takes as many steps as the ring."""
    assert rccl_steps(collective, algorithm, scale) == steps


def test_the_articles_counts_are_127_and_12() -> None:
    """AMD's article on CPX: 2n-1 for the ring, 2 log2 n for the tree, all_reduce only."""
    assert blog_steps(Collective.ALL_REDUCE, Algorithm.RING, CPX) == 127
    assert blog_steps(Collective.ALL_REDUCE, Algorithm.TREE, CPX) == 12
    assert blog_steps(Collective.ALL_GATHER, Algorithm.RING, CPX) is None


FitCurves = Callable[[Sequence[Sample]], tuple[Curve, ...]]


def separated(
    fit_curves: FitCurves, scales: Sequence[tuple[int, int, str]]
) -> tuple[Separation, ...]:
    """Latency 12 µs + 0.9 µs a step at each (nodes, ranks, placement), 20 GB/s."""
    made = []
    for n_nodes, n_ranks, where in scales:
        scale = Scale(n_nodes=n_nodes, n_ranks=n_ranks)
        key = CurveKey(
            collective=Collective.ALL_REDUCE,
            setting=Setting.parse("ring/ll"),
            placement=Placement.OUT_OF_PLACE,
            scale=scale,
            rank_placement=where,
        )
        steps = rccl_steps(key.collective, key.setting.algorithm or Algorithm.RING, scale) or 0
        made += [
            Sample(key=key, launch="a", nbytes=2**n, time_us=12 + 0.9 * steps + 2**n / 2e4)
            for n in range(5, 24)
        ]
    return separate(fit_curves(made))


def test_two_scales_of_one_link_class_separate_base_and_step(fit_curves: FitCurves) -> None:
    """12 µs and 0.9 µs a hop come back out; both counts stand beside each other."""
    (separation,) = separated(fit_curves, [(1, 16, "node"), (1, 64, "node"), (1, 32, "node")])
    assert separation.base_us == pytest.approx(12, rel=1e-3)
    assert separation.per_step_us == pytest.approx(0.9, rel=1e-3)
    assert separation.steps == (30, 62, 126)
    assert separation.blog_steps == (31, 63, 127)


@pytest.mark.parametrize(
    "scales",
    [
        [(1, 64, "node")],
        [(1, 8, "one-oam"), (1, 64, "node")],
        [(1, 8, "node"), (2, 16, "node")],
    ],
)
def test_other_scales_are_never_mixed(
    fit_curves: FitCurves, scales: list[tuple[int, int, str]]
) -> None:
    """One scale, another link or another number of nodes separates nothing."""
    assert separated(fit_curves, scales) == ()
