"""Samples from tables of times, and made-up grids whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pytest
from sample_rows import Sample, frame

from rccltune.analyse import intervals, points, unusable_notices
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice, choose
from rccltune.analyse.fit_curves import curves
from rccltune.analyse.intervals import Array, LogTimes, SizeAxis
from rccltune.analyse.points import TimeGrid
from rccltune.model.curves import Curve
from rccltune.model.settings import CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement

Table = Mapping[str, Sequence[float]]
MakeSamples = Callable[..., list[Sample]]
ChooseFrom = Callable[..., Choice]
FitCurves = Callable[[Sequence[Sample]], tuple[Curve, ...]]


def make_samples(
    table: Table,
    *,
    sizes: Sequence[int] | None = None,
    placement: Placement = Placement.OUT_OF_PLACE,
    collective: Collective = Collective.ALL_REDUCE,
    scale: Scale | None = None,
    dtype: str | None = None,
    launches: Sequence[str] = ("a",),
    paired: bool = False,
    timing: str | None = None,
) -> list[Sample]:
    """Samples of settings by name, on sizes from 1 KiB upward by ×2; 0 is not measured.

    Each setting has launches of its own, as imported logs have; those that are paired share
    communicators of a run, whose number their name is.
    """
    return [
        Sample(
            key=CurveKey(
                collective=collective,
                setting=Setting.parse(name),
                placement=placement,
                scale=scale or Scale(n_nodes=1, n_ranks=8),
                dtype=dtype,
            ),
            launch=f"run-1:{int(launch, 36)}" if paired else f"{name}-{launch}",
            nbytes=sizes[index] if sizes else 1024 << index,
            time_us=float(time),
            timing=timing,
        )
        for name, row in table.items()
        for index, time in enumerate(row)
        if time
        for launch in launches
    ]


def choose_from(samples: Sequence[Sample], options: ChoiceOptions | None = None) -> Choice:
    """What is chosen from samples."""
    return choose(frame(samples), options)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """What a made-up grid is like: noise as the floor says, in every setting alike.

    Attributes:
        n: communicators, of all settings together where paired, else of each.
        is_graph: how calls are timed.
        paired: whether each communicator has all settings.
        views: how many.
        settings: beside the library.
        sizes: from 1 KiB on, by a factor of two.
        scale: of the noise, 1 where it is what the floor says.
        stalls: share of rows that stood still: 1.2 to 3 times as slow.
        gain: of the first setting, 0.1 for 10 %.
        gains: the first size at which it gains, by number, and the one behind the last.
    """

    n: int
    is_graph: bool = True
    paired: bool = True
    views: int = 1
    settings: int = 6
    sizes: int = 18
    scale: float = 1.0
    stalls: float = 0.02
    gain: float = 0.0
    gains: tuple[int, int] = (0, 0)


def draw(like: Drawn, rng: np.random.Generator) -> TimeGrid:
    """A grid of the library and some settings, all as fast, but for what is gained."""
    nbytes = 1024 << np.arange(like.sizes, dtype=np.int64)
    sizes = SizeAxis(nbytes, np.full(len(nbytes), like.is_graph))
    time_us = 14 + nbytes / 2e5
    apart = intervals.floor(time_us, sizes)[:, None] * like.scale
    beside = intervals.floor(time_us, sizes, paired=True)[:, None] * like.scale / np.sqrt(2)
    rows, n = like.settings + 1, like.n
    log_us = np.full((like.views, rows, len(nbytes), n if like.paired else n * rows), np.nan)
    if like.paired:
        shared = rng.normal(size=(like.views, 1, len(nbytes), n)) * apart
        log_us[:] = shared + rng.normal(size=log_us.shape) * beside
    else:
        for row in range(rows):
            own = rng.normal(size=(like.views, len(nbytes), n)) * apart
            log_us[:, row, :, row * n : (row + 1) * n] = own
    log_us += np.log(time_us)[:, None]
    is_stalled = rng.random(log_us.shape) < like.stalls
    log_us += is_stalled * np.log(rng.uniform(1.2, 3, log_us.shape))
    log_us[:, 1, slice(*like.gains)] -= np.log1p(like.gain)
    log_us = _without_stalls(log_us, sizes)
    return TimeGrid(
        target={},
        views=[(view,) for view in range(like.views)],
        candidates=["baseline", *(f"ring/ll/{4 * n + 4}" for n in range(like.settings))],
        sizes=sizes,
        times=LogTimes(log_us, np.where(np.isfinite(log_us), 0.0, np.nan)),
    )


def _without_stalls(log_us: Array, sizes: SizeAxis) -> Array:
    """As ``points.is_stalled`` leaves out what stands far above other communicators."""
    n = np.isfinite(log_us).sum(-1, keepdims=True)
    middle = intervals.median(log_us)[..., None]
    others = np.where(n > 2, middle, 2 * middle - log_us)
    known = np.nan_to_num(np.exp(others), nan=1.0).swapaxes(-1, -2)
    limit = intervals.stall_limit(known, sizes).swapaxes(-1, -2)
    return np.where((n > 1) & (log_us > others + limit), np.nan, log_us)


@pytest.fixture(name="make_samples", scope="session")
def make_samples_fixture() -> MakeSamples:
    """The function above, for test files that cannot import it."""
    return make_samples


@pytest.fixture(name="choose_from", scope="session")
def choose_from_fixture() -> ChooseFrom:
    """Likewise."""
    return choose_from


def fit_curves(samples: Sequence[Sample]) -> tuple[Curve, ...]:
    """Curves of samples."""
    found = frame(samples)
    table = points.by_communicator(points.usable(found))
    return curves(table, unusable_notices.wrong_counts(found))


@pytest.fixture(name="fit_curves", scope="session")
def fit_curves_fixture() -> FitCurves:
    """Likewise."""
    return fit_curves


@pytest.fixture(scope="session")
def drawing() -> ModuleType:
    """``Drawn`` and ``draw`` of this file, likewise."""
    found = ModuleType("drawing")
    found.__dict__.update(Drawn=Drawn, draw=draw)
    return found
