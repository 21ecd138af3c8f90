"""The figures of one target: what ``rccltune plot`` draws, as lines whose values can be read."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.model import format_size, format_time
from rccltune.report.figure import Axis, Figure, Line, Point
from rccltune.report.figures.bandwidth import BandwidthLine, bandwidth_data
from rccltune.report.figures.channels import ChannelData, channel_data
from rccltune.report.figures.scene import Scene
from rccltune.report.figures.speedup import HIGHEST, LOWEST, SpeedupData, SpeedupPoint, speedup_data
from rccltune.report.figures.variants import variant_data
from rccltune.report.sections import axes, times
from rccltune.report.sections.axes import Frame, figure


def figures_of(scene: Scene, frame: Frame) -> tuple[Figure, ...]:
    """Every figure that the target has data for."""
    found = (
        _speedup(scene, frame),
        _bandwidth(scene, frame),
        times.times(scene, frame),
        times.residuals(scene, frame),
        times.belief(scene, frame),
        _variants(scene, frame),
        _channels(scene, frame),
    )
    return tuple(one for one in found if one is not None)


def _speedup(scene: Scene, frame: Frame) -> Figure | None:
    data = speedup_data(scene)
    if data is None:
        return None
    leads = [line for line in data.leads if axes.is_read_off(line.series, scene)]
    behind = [*data.faint, *(line for line in data.leads if line not in leads)]
    shown = axes.shown_sizes(scene.sizes, len(leads), frame.most_points)
    low, high = data.reach
    x = axes.sizes_axis(scene.sizes)
    lines = [
        *(
            axes.broad("chosen", axes.ink_of(c.series.setting), _ratios(c.points))
            for c in data.chosen
        ),
        *(
            axes.thin(f.series.label, axes.ink_of(f.series.setting), _ratios(f.points))
            for f in behind
        ),
        *(
            axes.line_of(
                line.series,
                (
                    Point(
                        x=p.nbytes,
                        y=p.ratio,
                        words=f"{format_size(p.nbytes)}: {_times_as(p)}",
                        low=p.low,
                        high=p.high,
                    )
                    for p in line.points
                ),
                shown=shown,
            )
            for line in leads
        ),
    ]
    columns = [{p.nbytes: _times_as(p) for p in line.points} for line in leads]
    return figure(
        frame,
        "speedup",
        title=f"how many times as fast as {data.baseline.label}",
        words=_speedup_words(data, scene),
        x=x,
        y=axes.ratios_axis((low, high), f"{data.baseline.label}'s time / time"),
        lines=lines,
        rows=axes.value_rows(shown, columns),
        header=("message size", *(line.series.label for line in leads)),
        more=axes.left_out(scene.sizes, shown, len(behind)),
        bands=axes.zone_bands(scene, x),
        level=1.0,
    )


def _ratios(points: Sequence[SpeedupPoint]) -> tuple[tuple[float, float], ...]:
    return tuple((float(p.nbytes), p.ratio) for p in points)


def _times_as(point: SpeedupPoint) -> str:
    said = f"{point.ratio:.2f}×"
    if point.low is None or point.high is None:
        return said
    return f"{said} ({point.low:.2f} to {point.high:.2f})"


def _speedup_words(data: SpeedupData, scene: Scene) -> str:
    """What it says in a sentence, and how it is read."""
    # Thin lines too, since a rule may be for one of them; our plugin's silence is no setting.
    rivals = [
        line
        for line in (*data.leads, *data.faint)
        if line.series.unselectable is None and axes.is_read_off(line.series, scene)
    ]
    points = [(p, line) for line in rivals for p in line.points]
    best, line = max(points, key=lambda pair: pair[0].ratio, default=(None, None))
    said = ""
    if best is not None and line is not None and best.ratio > 1:
        at = format_size(best.nbytes)
        said = f"At most {best.ratio:.2f} times as fast: {line.series.label} at {at}. "
    elif best is not None:
        said = "No setting is faster anywhere. "
    said += "Above 1 is faster."
    if any(p.low is not None for one in data.leads for p in one.points):
        said += " Shaded: from the worst to the best case of both intervals."
    if data.chosen:
        said += " Broad strokes: what the rules choose."
    ratios = [p.ratio for one in (*data.leads, *data.faint) for p in one.points]
    edges = [f"{LOWEST:g}×"] if min(ratios) < LOWEST else []
    edges += [f"{HIGHEST:g}×"] if max(ratios) > data.reach[1] >= HIGHEST else []
    if edges:
        said += f" Points beyond {' and '.join(edges)} lie on the edge."
    return said


def _bandwidth(scene: Scene, frame: Frame) -> Figure | None:
    data = bandwidth_data(scene)
    if data is None:
        return None
    leads = [line for line in data.leads if axes.is_read_off(line.series, scene)]
    behind = [*data.faint, *(line for line in data.leads if line not in leads)]
    shown = axes.shown_sizes(scene.sizes, len(leads), frame.most_points)
    limit = None if data.ceiling is None else data.ceiling.ceiling.gb_per_s
    values = [p.busbw for line in leads for p in line.points]
    peak, line = max(((max(p.busbw for p in x.points), x) for x in leads), key=lambda p: p[0])
    words = f"At most {peak:.3g} GB/s of bus bandwidth, with {line.series.label}."
    if data.ceiling is not None:
        words += f" The level line is the {data.ceiling.label}."
    lines = [
        *(axes.thin(f.series.label, axes.ink_of(f.series.setting), _speeds(f)) for f in behind),
        *(
            axes.line_of(
                one.series,
                (
                    Point(
                        x=p.nbytes,
                        y=p.busbw,
                        words=f"{format_size(p.nbytes)}: {p.busbw:.3g} GB/s",
                        low=p.low,
                        high=p.high,
                    )
                    for p in one.points
                ),
                shown=shown,
            )
            for one in leads
        ),
    ]
    return figure(
        frame,
        "bandwidth",
        title="bus bandwidth",
        words=words,
        x=axes.sizes_axis(scene.sizes),
        y=axes.straight_axis([*values, *([limit] if limit else [])], "bus bandwidth in GB/s", ""),
        lines=lines,
        rows=axes.value_rows(
            shown, [{p.nbytes: f"{p.busbw:.3g}" for p in one.points} for one in leads]
        ),
        header=("message size", *(f"{one.series.label}, GB/s" for one in leads)),
        more=axes.left_out(scene.sizes, shown, len(behind)),
        level=limit,
    )


def _speeds(line: BandwidthLine) -> tuple[tuple[float, float], ...]:
    return tuple((float(p.nbytes), p.busbw) for p in line.points)


def _variants(scene: Scene, frame: Frame) -> Figure | None:
    data = variant_data(scene)
    if data is None:
        return None
    sizes = sorted({round(x) for line in data.lines for x, _ in line.points})
    shown = axes.shown_sizes(sizes, len(data.lines), frame.most_points)
    wanted = set(shown)
    lines = [
        Line(
            name=line.label,
            points=tuple(
                Point(x=x, y=y, words=f"{format_size(round(x))}: {y:.2f}×")
                for x, y in line.points
                if round(x) in wanted
            ),
            ink=axes.PALETTE[number % len(axes.PALETTE)],
            marker=axes.MARKERS[number % len(axes.MARKERS)],
        )
        for number, line in enumerate(data.lines)
    ]
    return figure(
        frame,
        "variants",
        title="environments, each with its own rules",
        words="Times as fast as the library's own choice; an environment is what one exports.",
        x=axes.sizes_axis(sizes),
        y=axes.ratios_axis(data.ratios, "baseline time / time"),
        lines=lines,
        rows=axes.value_rows(
            shown, [{round(x): f"{y:.2f}×" for x, y in line.points} for line in data.lines]
        ),
        header=("message size", *(line.label for line in data.lines)),
        more=axes.left_out(sizes, shown),
        level=1.0,
    )


def _channels(scene: Scene, frame: Frame) -> Figure | None:
    data = channel_data(scene)
    if data is None:
        return None
    fronts = [_front(data, number) for number in range(len(data.panels))]
    counts = sorted({n for front in fronts for n in front})
    lines = [
        Line(
            name=format_size(panel.nbytes),
            points=tuple(
                Point(x=n, y=us / min(front.values()), words=f"{n} channels: {format_time(us)}")
                for n, us in sorted(front.items())
            ),
            ink=axes.PALETTE[number % len(axes.PALETTE)],
            marker=axes.MARKERS[number % len(axes.MARKERS)],
        )
        for number, (panel, front) in enumerate(zip(data.panels, fronts, strict=True))
    ]
    ratios = [us / min(front.values()) for front in fronts for us in front.values()]
    low, high = (counts[0] / 2, counts[-1] * 2) if len(counts) == 1 else (counts[0], counts[-1])
    return figure(
        frame,
        "channels",
        title="what more channels buy",
        words="The fastest setting with so many channels, over the fastest of all at that size; 1 "
        "is the best. Each channel takes compute units from other kernels.",
        x=Axis(
            label="channels",
            low=low / 1.1,
            high=high * 1.1,
            ticks=tuple((float(n), str(n)) for n in counts),
        ),
        y=axes.ratios_axis(ratios, "time / least time"),
        lines=lines,
        rows=tuple(
            (str(n), *(format_time(front[n]) if n in front else "–" for front in fronts))
            for n in counts
        ),
        header=("channels", *(format_size(panel.nbytes) for panel in data.panels)),
        level=1.0,
    )


def _front(data: ChannelData, number: int) -> dict[int, float]:
    """Least time with each number of channels at one size."""
    front: dict[int, float] = {}
    for line in data.panels[number].lines:
        for point in line:
            front[point.channels] = min(point.time_us, front.get(point.channels, float("inf")))
    return front
