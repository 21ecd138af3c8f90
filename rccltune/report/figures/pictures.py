"""The figures of one target, for the page and for files: lines whose values can be read."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.model.defaults import TOLERANCE
from rccltune.model.vocabulary import format_size, format_time
from rccltune.report.figures import axes, gain, times
from rccltune.report.figures.axes import Frame, figure
from rccltune.report.figures.lines import (
    HIGHEST,
    LOWEST,
    BandwidthLine,
    ChannelLine,
    SpeedupData,
    SpeedupPoint,
    bandwidth_data,
    channel_data,
    speedup_data,
    variant_data,
)
from rccltune.report.figures.scene import Scene
from rccltune.report.records import Axis, Figure, Line, Point

_OTHERS = "thin: other numbers of channels"


def figures_of(scene: Scene, frame: Frame) -> tuple[Figure, ...]:
    """Every figure that the target has data for; the verification first, since it is the proof."""
    found = (
        _speedup(scene, frame),
        _bandwidth(scene, frame),
        times.times(scene, frame),
        times.residuals(scene, frame),
        _variants(scene, frame),
        _channels(scene, frame),
    )
    return (*gain.verified(scene, frame), *(one for one in found if one is not None))


def _speedup(scene: Scene, frame: Frame) -> Figure | None:
    data = speedup_data(scene)
    if data is None:
        return None
    shown = axes.shown_sizes(scene.sizes, len(data.leads), frame.most_points)
    x = axes.sizes_axis(scene.sizes)
    chosen = [axes.broad(axes.ink_of(c.series.setting), _ratios(c.points)) for c in data.chosen]
    others = [
        axes.thin(f.series.label, axes.ink_of(f.series.setting), _ratios(f.points), key=_OTHERS)
        for f in data.faint
    ]
    leads = [
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
        for line in data.leads
    ]
    columns = [{p.nbytes: _times_as(p) for p in line.points} for line in data.leads]
    return figure(
        frame,
        "speedup",
        title=f"how many times as fast as {data.baseline.label}",
        words=_speedup_words(data),
        x=x,
        y=axes.ratios_axis(data.reach, f"{data.baseline.label}'s time / time"),
        lines=[*chosen, *others, *leads],
        rows=axes.value_rows(shown, columns),
        header=("message size", *(line.series.label for line in data.leads)),
        more=axes.left_out(scene.sizes, shown),
        bands=axes.zone_bands(scene, x),
        level=(1.0, data.baseline.label),
    )


def _ratios(points: Sequence[SpeedupPoint]) -> tuple[tuple[float, float], ...]:
    return tuple((float(p.nbytes), p.ratio) for p in points)


def _times_as(point: SpeedupPoint) -> str:
    said = f"{point.ratio:.2f}×"
    if point.low is None or point.high is None:
        return said
    return f"{said} ({point.low:.2f} to {point.high:.2f})"


def _speedup_words(data: SpeedupData) -> str:
    """What it says in a sentence, and how it is read."""
    # Thin lines too, since a rule may be for one of them.
    rivals = [one for one in (*data.leads, *data.faint) if one.series.unselectable is None]
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
    if data.faint:
        said += " Thin: other numbers of channels."
    # Thin lines end at the edge, and have no markers to be put there.
    ratios = [p.ratio for one in data.leads for p in one.points]
    edges = [f"below {LOWEST:g}×"] if min(ratios) < LOWEST else []
    edges += [f"above {HIGHEST:g}×"] if max(ratios) > data.reach[1] >= HIGHEST else []
    if edges:
        said += f" Arrows at the edge: {' or '.join(edges)}."
    return said


def _bandwidth(scene: Scene, frame: Frame) -> Figure | None:
    data = bandwidth_data(scene)
    if data is None:
        return None
    shown = axes.shown_sizes(scene.sizes, len(data.leads), frame.most_points)
    limit = None if data.ceiling is None else data.ceiling.ceiling.gb_per_s
    values = [p.busbw for line in data.leads for p in line.points]
    peak, line = max(((max(p.busbw for p in x.points), x) for x in data.leads), key=lambda p: p[0])
    words = f"At most {peak:.3g} GB/s of bus bandwidth, with {line.series.label}."
    if data.faint:
        words += " Thin: other numbers of channels."
    if data.ceiling is not None:
        words += f" The level line is the {data.ceiling.label}."
    others = [
        axes.thin(f.series.label, axes.ink_of(f.series.setting), _speeds(f), key=_OTHERS)
        for f in data.faint
    ]
    leads = [
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
        for one in data.leads
    ]
    return figure(
        frame,
        "bandwidth",
        title="bus bandwidth",
        words=words,
        x=axes.sizes_axis(scene.sizes),
        y=axes.straight_axis([*values, *([limit] if limit else [])], "bus bandwidth in GB/s", ""),
        lines=[*others, *leads],
        rows=axes.value_rows(
            shown, [{p.nbytes: f"{p.busbw:.3g}" for p in one.points} for one in data.leads]
        ),
        header=("message size", *(f"{one.series.label}, GB/s" for one in data.leads)),
        more=axes.left_out(scene.sizes, shown),
        level=None if limit is None else (limit, "ceiling"),
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
            dashes=(3.0, 2.0) if line.lossy else (),
            filled=line.chosen,
        )
        for number, line in enumerate(data.lines)
    ]
    return figure(
        frame,
        "variants",
        title="variants, each with its own rules",
        words="Times as fast as the site with its rules.",
        x=axes.sizes_axis(sizes),
        y=axes.ratios_axis(data.ratios, "the site's time / time"),
        lines=lines,
        rows=axes.value_rows(
            shown, [{round(x): f"{y:.2f}×" for x, y in line.points} for line in data.lines]
        ),
        header=("message size", *(line.label for line in data.lines)),
        more=axes.left_out(sizes, shown),
        level=(1.0, "site with its rules"),
    )


def _channels(scene: Scene, frame: Frame) -> Figure | None:
    data = channel_data(scene)
    if not data:
        return None
    counts = sorted({n for line in data for n in line.fastest})
    lines = [
        Line(
            name=format_size(line.nbytes),
            points=tuple(
                Point(
                    x=n,
                    y=us / line.best_us,
                    words=f"{n} channels: {us / line.best_us:.2f}×, {format_time(us)}, {setting}",
                )
                for n, (us, setting) in line.fastest.items()
            ),
            ink=axes.PALETTE[number % len(axes.PALETTE)],
            marker=axes.MARKERS[number % len(axes.MARKERS)],
        )
        for number, line in enumerate(data)
    ]
    return figure(
        frame,
        "channels",
        title="what more channels buy",
        words="The fastest setting with so many channels, over the fastest of all at that size; 1 "
        "is the best. Each channel takes compute units from other kernels. Circled: the fewest "
        f"within {100 * TOLERANCE:.0f} % of the best.",
        x=Axis(
            label="channels",
            low=counts[0] / 1.1,
            high=counts[-1] * 1.1,
            ticks=tuple((float(n), str(n)) for n in _apart(counts)),
            fine=tuple((float(n), str(n)) for n in counts),
        ),
        y=axes.ratios_axis(
            [point.y for line in lines for point in line.points], "time / least time"
        ),
        lines=[*lines, _fewest(data)],
        rows=tuple(
            (str(n), *(format_time(one.fastest[n][0]) if n in one.fastest else "–" for one in data))
            for n in counts
        ),
        header=("channels", *(line.name for line in lines)),
        level=(1.0, ""),
    )


def _fewest(data: Sequence[ChannelLine]) -> Line:
    """At each size the number of channels that no more of them improve on."""
    points = tuple(
        Point(
            x=n,
            y=line.fastest[n][0] / line.best_us,
            words=f"{format_size(line.nbytes)}: {n} channels are enough",
        )
        for line in data
        for n in (line.fewest,)
    )
    name = "the fewest that are enough"
    return Line(name=name, points=points, ink="bad", marker="ring", joined=False, labelled=False)


def _apart(counts: Sequence[int]) -> list[int]:
    """Numbers whose labels do not run into each other on a logarithmic axis."""
    least = (counts[-1] / counts[0]) ** 0.04
    kept = list(counts[:1])
    for n in counts[1:]:
        kept += [n] if n >= least * kept[-1] else []
    return kept
