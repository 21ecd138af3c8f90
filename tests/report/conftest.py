"""Curves to draw: a published table, a sweep of channels, a baseline alone."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from rccltune.model.chosen import Zone
from rccltune.model.curves import Crossover, Curve, CurvePoint, Evidence, Fit, Model, Segment
from rccltune.model.settings import (
    BASELINE,
    DEFAULT_VARIANT,
    TREE_SIMPLE_PATCHED,
    CurveKey,
    Scale,
    Setting,
    Variant,
)
from rccltune.model.vocabulary import Collective, Placement
from rccltune.report.figures.scene import PlotInput

KIB, MIB = 1024, 1024**2
END = 2**63 - 1
# AMD's published AllReduce times on 64 ranks of an MI300X node in CPX/NPS4 mode, in µs.
SIZES = (32, KIB, 16 * KIB, 256 * KIB, MIB, 4 * MIB, 128 * MIB)
PUBLISHED = {
    "tree/ll": (76, 94, 87, 119, 286, 831, 21541),
    "ring/ll": (70, 154, 129, 148, 390, 701, 18970),
    "tree/ll128": (106, 123, 111, 143, 258, 652, 13251),
    "ring/ll128": (97, 203, 197, 706, 708, 726, 11720),
    "ring/simple": (198, 268, 271, 306, 314, 418, 9996),
    "tree/simple": (244, 248, 302, 359, 549, 836, 19503),
}


class Curves:
    """Makes curves by hand, so that no other room is needed."""

    scale = Scale(n_nodes=1, n_ranks=64)

    def curve(
        self,
        setting: str | Setting,
        times: Mapping[int, float],
        *,
        placement: Placement = Placement.OUT_OF_PLACE,
        graph: bool | None = None,
        variant: Variant = DEFAULT_VARIANT,
        spread: float = 0.0,
        scale: Scale | None = None,
        collective: Collective = Collective.ALL_REDUCE,
    ) -> Curve:
        """A curve through the given times, with a straight line that is 10 % above each."""
        points = tuple(
            CurvePoint(
                nbytes=nbytes,
                time_us=time,
                low_us=time * (1 - spread),
                high_us=time * (1 + spread),
                n_samples=3 if spread else 1,
                n_communicators=3 if spread else 1,
            )
            for nbytes, time in sorted(times.items())
        )
        line = Segment(
            min_nbytes=points[0].nbytes,
            max_nbytes=points[-1].nbytes,
            latency_us=points[0].time_us,
            us_per_byte=1e-5,
        )
        missed = tuple(0.1 for _ in points)
        nothing = tuple(0.0 for _ in points)
        return Curve(
            key=CurveKey(
                collective=collective,
                setting=Setting.parse(setting) if isinstance(setting, str) else setting,
                placement=placement,
                scale=scale or self.scale,
                dtype="float",
                redop="sum",
                graph=graph,
                variant=variant,
            ),
            points=points,
            fits=(
                Fit(model=Model.LINEAR, segments=(line,), residuals=missed, held_out_error=0.1),
                Fit(model=Model.LOGLOG, segments=(), residuals=nothing, held_out_error=0.03),
            ),
            chosen=Model.LOGLOG,
        )

    def zones(self, curve: Curve, *rows: tuple[int, str | None]) -> tuple[Zone, ...]:
        """Zones from 0 on, each up to and with a size; None is a hole."""
        made, start = [], 0
        for last, text in rows:
            made.append(
                Zone(
                    target=curve.key.target,
                    min_nbytes=start,
                    max_nbytes=last,
                    setting=Setting.parse(text) if text else None,
                    reason=None if text else "baseline not beaten",
                )
            )
            start = last + 1
        return tuple(made)

    def crossover(self, curve: Curve, below: str, above: str, at: float) -> Crossover:
        """A crossover with a bracket of a factor of two each way."""
        return Crossover(
            target=curve.key.target,
            view=curve.key.view,
            below=Setting.parse(below),
            above=Setting.parse(above),
            at_nbytes=at,
            low_nbytes=at / 2,
            high_nbytes=at * 2,
            evidence=Evidence.BRACKET,
        )


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The makers, in a type that test modules can name without importing this one."""
    maker = Curves()
    return SimpleNamespace(curve=maker.curve, zones=maker.zones, crossover=maker.crossover)


@pytest.fixture(scope="session")
def published(make: SimpleNamespace) -> PlotInput:
    """AMD's table with the four zones that it asks for."""
    curves = tuple(
        make.curve(
            name,
            dict(zip(SIZES, times, strict=True)),
            variant=TREE_SIMPLE_PATCHED if name == "tree/simple" else DEFAULT_VARIANT,
        )
        for name, times in PUBLISHED.items()
    )
    borders = ((70, "ring/ll"), (637 * KIB, "tree/ll"), (1600 * KIB, "tree/ll128"))
    return PlotInput(
        curves=curves,
        zones=make.zones(curves[0], *borders, (END, "ring/simple")),
        crossovers=(
            make.crossover(curves[0], "tree/ll", "tree/ll128", 637 * KIB),
            make.crossover(curves[0], "tree/ll128", "ring/simple", 1600 * KIB),
        ),
        source="AMD ROCm blog 2026-06-30, table",
        machine="MI300X, cpx-nps4",
        published=True,
    )


@pytest.fixture(scope="session")
def swept(make: SimpleNamespace) -> PlotInput:
    """Three families with five channel counts each, and a baseline, at eighteen sizes."""
    sizes = [4096 * 2**i for i in range(18)]
    families = {"tree/ll": (20, 2e3), "ring/ll": (25, 3e3), "ring/simple": (42, 1e4)}
    curves = [
        make.curve(
            f"{name}/{channels}",
            {n: latency + n / (rate * channels) for n in sizes},
            spread=0.02,
        )
        for name, (latency, rate) in families.items()
        for channels in (1, 4, 16, 32, 56)
    ]
    base = make.curve(BASELINE, {n: 40 + n / 4e5 for n in sizes}, spread=0.02)
    zones = make.zones(base, (64 * KIB, "tree/ll/16"), (MIB, "ring/ll/56"), (END, None))
    return PlotInput(curves=(base, *curves), zones=zones, machine="8 x MI355X", simulated=True)


@pytest.fixture(scope="session")
def real_sweep(make: SimpleNamespace, shared_data: Path) -> PlotInput:
    """MI355X, one node, 30 settings and the default (another project's data, read in place)."""
    path = shared_data / "sweeps" / "mi355x_1n8r_allreduce_algo_proto_ch.csv"
    if not path.is_file():
        pytest.skip(f"{path.name} is not there")
    times: dict[Setting, dict[int, float]] = defaultdict(dict)
    with path.open() as file:
        for row in csv.DictReader(file):
            forced = f"{row['algo']}/{row['proto']}/{row['nchannels']}"
            setting = Setting.parse(forced) if row["requested"] == "forced" else BASELINE
            times[setting][int(row["size_bytes"])] = float(row["time_oop_us"])
    scale = Scale(n_nodes=1, n_ranks=8)
    return PlotInput(curves=tuple(make.curve(s, t, scale=scale) for s, t in times.items()))


@pytest.fixture
def tidy() -> Callable[[Figure], None]:
    """Asserts that every label is inside its figure, and that none covers another."""
    return _assert_tidy


def _assert_tidy(figure: Figure) -> None:
    figure.set_dpi(150)  # as files are
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [*figure.texts]
    for axes in figure.axes:
        labels = [*axes.get_xticklabels(), *axes.get_yticklabels()] if axes.axison else []
        names = [axes.xaxis.label, axes.yaxis.label] if axes.axison else []
        texts += [*axes.texts, *names, *labels]
    boxes = [
        (text.get_text(), box)
        for text in texts
        # Not an annotation's own extent, which has its leader in it.
        if text.get_text() and (box := Text.get_window_extent(text, renderer)).width
    ]
    for words, box in boxes:
        assert box.x0 >= 0, words
        assert box.y0 >= 0, words
        assert box.x1 <= figure.bbox.x1, words
        assert box.y1 <= figure.bbox.y1, words
    for (one, first), (other, second) in combinations(boxes, 2):
        # A font's box is taller than its letters; a point of it may be shared.
        assert not first.shrunk(0.97, 0.85).overlaps(second.shrunk(0.97, 0.85)), (one, other)
