"""What rules can save at the most: calls times what the fastest measured setting spares, by hand."""

from __future__ import annotations

import pytest
from wording import lacks

from rccltune.job import Times, ceiling_of, ceiling_text
from rccltune.model import (
    BASELINE,
    Collective,
    Curve,
    CurveKey,
    CurvePoint,
    Model,
    Placement,
    Scale,
    Setting,
)
from rccltune.workload import Count, Recorder, Source, Workload

NODE = Scale(n_nodes=1, n_ranks=8)


def curve(setting: Setting, times: dict[int, float], n_wrong: int = 0) -> Curve:
    """Points with a spread of 10 % to either side."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        dtype="float",
        redop="sum",
        placement=Placement.IN_PLACE,
        scale=NODE,
        setting=setting,
    )
    points = tuple(
        CurvePoint(nbytes=n, time_us=us, low_us=0.9 * us, high_us=1.1 * us)
        for n, us in times.items()
    )
    return Curve(key=key, points=points, fits=(), chosen=Model.LOGLOG, n_wrong=n_wrong)


def workload(calls: dict[int, int], spent_us: int | None = None, n_ranks: int = 1) -> Workload:
    """Calls of all ranks together."""
    return Workload(
        counts=tuple(
            Count(
                collective=Collective.ALL_REDUCE,
                scale=NODE,
                min_nbytes=nbytes,
                max_nbytes=nbytes,
                calls=n,
                total_nbytes=n * nbytes,
            )
            for nbytes, n in calls.items()
        ),
        recorders=tuple(
            Recorder(
                source=Source.INSPECTOR,
                host="n",
                pid=pid,
                comm="1",
                context=pid,
                since="1",
                scale=NODE,
                calls=sum(calls.values()) // n_ranks,
                spent_us=spent_us,
            )
            for pid in range(n_ranks)
        ),
    )


CURVES = (
    curve(BASELINE, {1024: 20.0, 4096: 40.0}),
    curve(Setting.parse("tree/ll"), {1024: 10.0, 4096: 50.0}),
    curve(Setting.parse("ring/ll"), {1024: 15.0, 4096: 60.0}),
    curve(Setting.parse("ring/simple"), {1024: 1.0, 4096: 1.0}, n_wrong=1),
)


def test_the_most_that_is_spared() -> None:
    """200 calls of two ranks at 1 KiB spare 10 µs each; at 4 KiB nothing is faster.

    A rank: 100 × 20 + 50 × 40 µs = 4 ms, of which 1 ms at the most; with ends of spreads 18 - 11
    and 22 - 9 µs. At 4 KiB: 36 - 55 is nothing, and 44 - 45 is nothing.
    """
    found = ceiling_of(workload({1024: 200, 4096: 100}, 2500, n_ranks=2), Times(CURVES), steps=2)
    assert found.spared.before_us == pytest.approx(4000)
    assert found.spared.most_us == pytest.approx(1000)
    assert found.spared.low_us == pytest.approx(100 * 7)
    assert found.spared.high_us == pytest.approx(100 * 13)
    assert found.known == 1
    assert found.seen_s == pytest.approx(2.5e-3)
    assert (
        lacks(ceiling_text(found), "0.500", "0.350", "0.650", "2.000", "1.250", "in collectives")
        == []
    )


def test_sizes_that_were_not_measured() -> None:
    """Are no saving, and said."""
    found = ceiling_of(workload({1024: 30, 1 << 30: 10}), Times(CURVES))
    assert found.known == 0.75
    assert lacks(ceiling_text(found), "25.0", "not measured") == []
    nothing = ceiling_of(workload({1 << 30: 10}), Times(CURVES))
    assert ceiling_text(nothing).startswith("What rules can save: not known")
