"""Data of the time figure: points, fitted curves, residuals and crossovers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rccltune.model import Crossover, Curve, Model, Setting, Zone, format_size, time_at
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.figures.shapes import Polyline, model_paths

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
