"""Times of one target: measured, fitted, and as the library itself predicts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rccltune.model import AS_GOOD, format_size, format_time
from rccltune.report.figure import Axis, Band, Figure, Line, Point
from rccltune.report.figures.belief import BeliefData, belief_data
from rccltune.report.figures.scene import Scene
from rccltune.report.figures.shapes import Band as PlotBand
from rccltune.report.figures.timing import TimeData, time_data
from rccltune.report.sections import axes
from rccltune.report.sections.axes import Frame, figure
from rccltune.report.sections.words import percent


def times(scene: Scene, frame: Frame) -> Figure:
    """Measured points with the curves through them, and where the fastest setting changes."""
    data = time_data(scene)
    leads = [line for line in data.leads if axes.is_read_off(line.series, scene)]
    shown = axes.shown_sizes(scene.sizes, len(leads), frame.most_points)
    x = axes.sizes_axis(scene.sizes)
    fitted = [
        axes.thin(f"{line.series.label}, fitted", axes.ink_of(line.series.setting), path)
        for line in leads
        for path in line.paths
    ]
    measured = [
        axes.line_of(
            line.series,
            (
                Point(
                    x=p.nbytes,
                    y=p.time_us,
                    words=f"{format_size(p.nbytes)}: {format_time(p.time_us)}",
                    low=p.low_us,
                    high=p.high_us,
                )
                for p in line.series.curve.points
            ),
            shown=shown,
            joined=False,
        )
        for line in leads
    ]
    times = [p.time_us for line in leads for p in line.series.curve.points]
    return figure(
        frame,
        "time",
        title="time per call, with the fitted curves",
        words=_crossing_words(data),
        x=x,
        y=axes.times_axis(times),
        lines=[*fitted, *measured],
        rows=axes.value_rows(
            shown,
            [{n: format_time(t) for n, t in line.series.time_by_size.items()} for line in leads],
        ),
        header=("message size", *(line.series.label for line in leads)),
        more=axes.left_out(scene.sizes, shown),
        bands=axes.zone_bands(scene, x),
    )


def _crossing_words(data: TimeData) -> str:
    said = "Markers are measured, thin lines are the fitted curves."
    if data.crossings:
        listed = "; ".join(one.label for one in data.crossings)
        said += f" The fastest setting changes at: {listed}."
    if data.n_crossings_left_out:
        said += f" {data.n_crossings_left_out} more crossings are in fit.json."
    return said


def residuals(scene: Scene, frame: Frame) -> Figure | None:
    """How far the models are off at measured sizes, None where no model can be."""
    data = time_data(scene)
    panels = [panel for panel in data.residuals if axes.is_read_off(panel.series, scene)]
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
        level=0.0,
    )


def belief(scene: Scene, frame: Frame) -> Figure | None:
    """Measured beside predicted times, None where no prediction is known."""
    data = belief_data(scene)
    if data is None or not data.lines:
        return None
    sizes = sorted({round(x) for line in data.lines for x, _ in (*line.measured, *line.predicted)})
    shown = axes.shown_sizes(sizes, len(data.lines), frame.most_points)
    wanted = set(shown)
    x = axes.sizes_axis(sizes)
    lines: list[Line] = []
    columns: list[Mapping[int, str]] = []
    header = ["message size"]
    for line in data.lines:
        ink, label = axes.ink_of(line.series.setting), line.series.label
        predicted = {round(at): us for at, us in line.predicted}
        if line.predicted:
            lines.append(axes.thin(f"{label}, predicted", ink, line.predicted, (4.0, 3.0)))
        points = (
            Point(
                x=at,
                y=us,
                words=f"{format_size(round(at))}: measured {format_time(us)}"
                + (
                    f", predicted {format_time(predicted[round(at)])}"
                    if round(at) in predicted
                    else ""
                ),
            )
            for at, us in line.measured
            if round(at) in wanted
        )
        lines.append(axes.line_of(line.series, points))
        columns += [
            {round(at): format_time(us) for at, us in line.measured},
            {at: format_time(us) for at, us in predicted.items()},
        ]
        header += [f"{label}, measured", f"{label}, predicted"]
    times = [us for line in data.lines for _, us in (*line.measured, *line.predicted)]
    return figure(
        frame,
        "belief",
        title="measured, and what the library predicts by itself",
        words=_belief_words(data),
        x=x,
        y=axes.times_axis(times),
        lines=lines,
        rows=axes.value_rows(shown, columns),
        header=tuple(header),
        more=axes.left_out(sizes, shown),
        bands=(
            ("its choice", _bands(data.chosen, x)),
            ("fastest", _bands(data.fastest, x)),
        ),
    )


def _belief_words(data: BeliefData) -> str:
    known = [one for one in data.held if one.loss is not None]
    beaten = [one for one in known if one.is_beaten]
    said = "Markers are measured; thin dashes are what the library's own model predicts."
    if not known:
        return said
    if not beaten:
        return f"{said} At no size is its own choice beaten by more than {percent(AS_GOOD, 0)}."
    worst = max(beaten, key=lambda one: one.loss or 0.0)
    return (
        f"{said} At {len(beaten)} of {len(known)} sizes its own choice is beaten by more than "
        f"{percent(AS_GOOD, 0)}; most at {format_size(worst.nbytes)}, where {worst.choice} takes "
        f"{100 * (worst.loss or 0.0):.0f} % longer than {worst.best}."
    )


def _bands(found: Sequence[PlotBand], axis: Axis) -> tuple[Band, ...]:
    """Stretches of one algorithm and protocol; the model knows nothing of channels."""
    made: list[Band] = []
    for band in found:
        low, high = max(band.low, axis.low), min(band.high, axis.high)
        if low >= high:
            continue
        setting = replace(band.setting, channels=None) if band.setting else None
        name = str(setting) if setting else band.labels[0]
        if made and made[-1].name == name:
            made[-1] = replace(made[-1], high=high)
            continue
        made.append(
            Band(low=low, high=high, name=name, ink=axes.ink_of(setting) if setting else None)
        )
    return tuple(made)
