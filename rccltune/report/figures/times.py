"""Times of one target, measured and fitted; and the figure of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rccltune.model.chosen import Zone
from rccltune.model.curves import Crossover, Curve, Model, time_at
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import format_size, format_time
from rccltune.report.figures import axes
from rccltune.report.figures.axes import Frame, figure
from rccltune.report.figures.look import Polyline, model_paths
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.records import Figure, Line, Point


def times(scene: Scene, frame: Frame) -> Figure:
    """Measured points with the curves through them, and where the fastest setting changes."""
    data = time_data(scene)
    leads = [line.series for line in data.leads]
    shown = axes.shown_sizes(scene.sizes, len(leads), frame.most_points)
    x = axes.sizes_axis(scene.sizes)
    chosen = [axes.broad(axes.ink_of(one.setting), points) for one, points in data.chosen if points]
    fitted = [
        axes.thin(
            f"{line.series.label}, fitted",
            axes.ink_of(line.series.setting),
            path,
            key=line.series.label,
        )
        for line in data.leads
        for path in line.paths
    ]
    measured = [
        axes.line_of(
            series,
            (
                Point(
                    x=p.nbytes,
                    y=p.time_us,
                    words=f"{format_size(p.nbytes)}: {format_time(p.time_us)}",
                    low=p.low_us,
                    high=p.high_us,
                )
                for p in series.curve.points
            ),
            shown=shown,
            joined=False,
        )
        for series in leads
    ]
    drawn = [*leads, *(one for one, _ in data.chosen)]
    return figure(
        frame,
        "time",
        title="time per call, with the fitted curves",
        words=_crossing_words(data),
        x=x,
        y=axes.times_axis([p.time_us for one in drawn for p in one.curve.points]),
        lines=[*chosen, *fitted, *measured, *_crossings(data)],
        rows=axes.value_rows(
            shown, [{n: format_time(t) for n, t in one.time_by_size.items()} for one in leads]
        ),
        header=("message size", *(one.label for one in leads)),
        more=axes.left_out(scene.sizes, shown),
        bands=axes.zone_bands(scene, x),
    )


def _crossings(data: TimeData) -> list[Line]:
    known = [one for one in data.crossings if one.time_us is not None]
    points = tuple(
        Point(x=one.crossover.at_nbytes, y=one.time_us or 0.0, words=one.label) for one in known
    )
    line = Line(
        name="the fastest changes",
        points=points,
        ink="site",
        marker="diamond",
        filled=False,
        joined=False,
        labelled=False,
    )
    return [line] if points else []


def _crossing_words(data: TimeData) -> str:
    said = "Markers are measured, thin lines are the fitted curves."
    if data.chosen:
        said += " Broad strokes: what the rules choose."
    if data.crossings:
        listed = "; ".join(one.label for one in data.crossings)
        said += f" The fastest setting changes: {listed}."
    if data.n_crossings_left_out:
        said += f" {data.n_crossings_left_out} more crossings are in fit.json."
    return said


def residuals(scene: Scene, frame: Frame) -> Figure | None:
    """How far the models are off at measured sizes, None where no model can be."""
    data = time_data(scene)
    panels = data.residuals
    if not panels:
        return None
    shown = axes.shown_sizes(scene.sizes, len(panels), frame.most_points)
    wanted = {float(nbytes) for nbytes in shown}
    kept = [
        (panel, [(x, y) for x, y in (panel.segmented or panel.textbook) if x in wanted])
        for panel in panels
    ]
    values = [y for _, pairs in kept for _, y in pairs]
    lines = [
        axes.line_of(
            panel.series,
            (
                Point(x=x, y=y, words=f"{format_size(round(x))}: {y:+.1f} %, {panel.note}")
                for x, y in pairs
            ),
        )
        for panel, pairs in kept
    ]
    columns: list[Mapping[int, str]] = [
        {round(x): f"{y:+.1f} %" for x, y in pairs} for _, pairs in kept
    ]
    return figure(
        frame,
        "residuals",
        title="how far the fitted curves are off",
        words="(fitted − measured) / measured of the segmented model, of the straight line where "
        "there is no other. What is chosen rests on measured points, not on these curves.",
        x=axes.sizes_axis(scene.sizes),
        y=axes.straight_axis(values, "fitted − measured", " %"),
        lines=lines,
        rows=axes.value_rows(shown, columns),
        header=("message size", *(panel.series.label for panel in panels)),
        more=axes.left_out(scene.sizes, shown),
        level=(0.0, ""),
    )


MAX_CROSSINGS: Final = 8
MAX_PANELS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """One setting.

    Attributes:
        paths: the chosen model, a polyline for each segment.
    """

    series: Series
    paths: tuple[Polyline, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A crossover ready to be drawn.

    Attributes:
        time_us: height of the crossing on the curve below it, None where that is not known.
        label: sizes in words.
    """

    crossover: Crossover
    time_us: float | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualPanel:
    """(fitted - measured) / measured in percent, at each point of one curve.

    Attributes:
        textbook: of the straight line.
        segmented: of the segmented model.
        note: the chosen model and its held-out error.
    """

    series: Series
    textbook: Polyline
    segmented: Polyline
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeData:
    """All of the time figure.

    Attributes:
        chosen: the setting of each zone that chooses, with its points inside the zone.
    """

    scene: Scene
    leads: tuple[TimeLine, ...]
    chosen: tuple[tuple[Series, Polyline], ...]
    crossings: tuple[Crossing, ...]
    residuals: tuple[ResidualPanel, ...]
    n_crossings_left_out: int
    n_residuals_left_out: int


def time_data(scene: Scene) -> TimeData:
    """Times and models; crossings between chosen settings come before others when too many."""
    wanted = sorted(scene.crossovers, key=lambda c: _not_a_border(scene, c))[:MAX_CROSSINGS]
    panels = [panel for series in scene.leads if (panel := _panel(series)) is not None]
    return TimeData(
        scene=scene,
        leads=tuple(_line(s) for s in scene.leads),
        chosen=tuple((s, _inside(zone, s)) for zone, s in scene.chosen),
        crossings=tuple(_crossing(scene, c) for c in sorted(wanted, key=lambda c: c.at_nbytes)),
        residuals=tuple(panels[:MAX_PANELS]),
        n_crossings_left_out=len(scene.crossovers) - len(wanted),
        n_residuals_left_out=max(0, len(panels) - MAX_PANELS),
    )


def _line(series: Series) -> TimeLine:
    return TimeLine(series=series, paths=model_paths(series.curve, series.curve.chosen))


def _inside(zone: Zone, series: Series) -> Polyline:
    times = series.time_by_size.items()
    return tuple((float(x), y) for x, y in times if zone.min_nbytes <= x <= zone.max_nbytes)


def _not_a_border(scene: Scene, crossover: Crossover) -> bool:
    """False for a crossover at which the rules change from one of its settings to the other."""
    settings = [zone.setting for zone in scene.zones]
    return (crossover.below, crossover.above) not in set(pairwise(settings))


def _crossing(scene: Scene, crossover: Crossover) -> Crossing:
    low, high = crossover.low_nbytes, crossover.high_nbytes
    label = (
        f"{crossover.below} → {crossover.above} at {format_size(crossover.at_nbytes)} "
        f"({format_size(low)} to {format_size(high)})"
    )
    return Crossing(
        crossover=crossover,
        time_us=_height(scene, crossover.below, crossover.at_nbytes),
        label=label,
    )


def _height(scene: Scene, setting: Setting, nbytes: float) -> float | None:
    found = next((s for s in scene.everyone if s.setting == setting), None)
    if found is None:
        return None
    points = found.curve.points
    return time_at([p.nbytes for p in points], [p.time_us for p in points], nbytes)


def _panel(series: Series) -> ResidualPanel | None:
    """None for a curve without a model that could miss its points."""
    curve = series.curve
    textbook = _residuals(curve, Model.LINEAR)
    segmented = _residuals(curve, Model.SEGMENTED)
    if not textbook and not segmented:
        return None
    fit = curve.fit(curve.chosen)
    note = curve.chosen.value
    if fit is not None and fit.held_out_error is not None:
        note += f" {fit.held_out_error:.1%}"
    return ResidualPanel(series=series, textbook=textbook, segmented=segmented, note=note)


def _residuals(curve: Curve, model: Model) -> Polyline:
    fit = curve.fit(model)
    if fit is None:
        return ()
    pairs = zip(curve.points, fit.residuals, strict=True)
    return tuple((float(point.nbytes), residual * 100) for point, residual in pairs)
