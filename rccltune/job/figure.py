"""Runs in their order, by kind: how fast each was beside the job as it is, and what is certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, inf, log
from pathlib import Path
from typing import Final

from rccltune import report
from rccltune.job import answer as judging
from rccltune.job.answer import Answer
from rccltune.job.arms import Arm
from rccltune.job.looks import Compared, Verdict
from rccltune.job.measures import in_words
from rccltune.report import Axis, Figure, Ink, Line, Marker, Point

NAME: Final = "job.png"
_LOOK: Final[Mapping[Arm, tuple[Ink, Marker]]] = {
    Arm.AS_IS: ("site", "circle"),
    Arm.RULES: ("p1", "square"),
    Arm.CONTROL: ("p2", "triangle"),
}
# More whole numbers than these have no room on the axis.
_MOST_TICKS: Final = 20


def draw(folder: Path, found: Answer) -> Path:
    """Write the figure beside the runs; returns its path."""
    one = job_figure(found)
    with report.house_style():
        content = report.encode(report.draw_figure(one), "png", one.title, "rccltune job")
    path = folder / NAME
    report.write(path, content)
    return path


def job_figure(found: Answer) -> Figure:
    """Each run's speed beside the mean of the job as it is, in percent, with 95 % intervals."""
    lines = [line for arm in Arm if (line := _line(arm, found)) is not None]
    points = [point for line in lines for point in line.points]
    values = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    said = {point.x: (line.name, point.words) for line in lines for point in line.points}
    last = max((run.number for run in found.runs), default=1)
    return Figure(
        name="job",
        title=headline(found),
        words="Each mark is a run, in the order in which they were made. Shaded: 95 % intervals "
        "of the gain, from neighbouring runs.",
        stamp="SIMULATED, no hardware" if found.simulated else "measured",
        loud=found.simulated,
        x=_runs_axis(last),
        y=report.straight_axis(values, "speed beside the job as it is", " %"),
        lines=tuple(lines),
        header=("run", "how", in_words(found.what)),
        rows=tuple((f"{at:g}", *said[at]) for at in sorted(said)),
        source=f"Runs are compared by: {in_words(found.what)}.",
        level=(0.0, ""),
    )


def headline(found: Answer) -> str:
    """The answer in a few words."""
    one = found.rules
    if one is None or not _is_known(one):
        return "Rules: not known"
    most = max(abs(end) for end in one.percent[1:])
    if one.verdict is Verdict.UNKNOWN:
        return f"Rules: no difference found ({most:.1f} % at most)"
    if one.verdict is Verdict.SAME:
        return f"Rules make no difference ({most:.1f} % at most)"
    middle = abs(one.percent[0])
    if one.verdict is Verdict.PERHAPS_SLOWER:
        return f"Rules perhaps make the job {middle:.1f} % slower"
    return f"Rules make the job {middle:.1f} % {one.verdict.value}"


def _runs_axis(last: int) -> Axis:
    step = -(-last // _MOST_TICKS)
    ticks = tuple((float(n), str(n)) for n in range(step, last + 1, step))
    return Axis(label="run", low=0.5, high=last + 0.5, ticks=ticks, logarithmic=False)


def _line(arm: Arm, found: Answer) -> Line | None:
    points = tuple(_points(arm, found))
    ink, marker = _LOOK[arm]
    return Line(name=arm.words, points=points, ink=ink, marker=marker) if points else None


def _points(arm: Arm, found: Answer) -> Iterator[Point]:
    base = judging.values(found.runs, Arm.AS_IS)
    if not base:
        return
    mean = sum(map(log, base)) / len(base)
    one = {Arm.RULES: found.rules, Arm.CONTROL: found.control}.get(arm)
    ends = one.percent[1:] if one is not None and _is_known(one) else (None, None)
    runs = judging.good(found.runs, arm)
    for run, value in zip(runs, judging.values(found.runs, arm), strict=True):
        faster = log(value) - mean if found.rate else mean - log(value)
        percent = (exp(faster) - 1) * 100
        yield Point(x=run.number, y=percent, words=f"{value:.4g}", low=ends[0], high=ends[1])


def _is_known(one: Compared) -> bool:
    return one.speed.spread < inf
