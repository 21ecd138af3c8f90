"""Does it pay, and does communication matter to the job at all: in words and as a figure.

A round has one run of each kind, one after the other, so that what the machine does over minutes is
in all of them. What counts is the logarithm of the ratio of two runs of one round; an interval
comes from the rounds and from nothing inside a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import exp, inf, log
from pathlib import Path
from typing import Any, Final

from rccltune.job import looks
from rccltune.job.looks import Compared, Verdict
from rccltune.job.measures import in_words
from rccltune.job.runs import Arm, Run
from rccltune.report.figures import axes, files
from rccltune.report.records import Axis, Figure, Ink, Line, Marker, Point
from rccltune.report.renderers import replay, sheet
from rccltune.session.files import write_atomically

# Losses of one and the same first step differ by the order in which ranks add.
_SAME_LOSS: Final = 1e-3


class Importance(Enum):
    """What bad rules say of communication settings in general."""

    MATTERS = "communication settings matter to this job"
    NONE = "communication settings do not matter to this job"
    UNKNOWN = "whether communication settings matter to this job is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of a job.

    Attributes:
        what: was compared, ``step time, ms``.
        rate: whether more of it is better.
        rules: None where no round is whole.
        control: None without a control.
        slower_than: the control had loaded its rules and was ended when it had taken so many times
            as long as the job as it is; None where it was not.
        control_hits: calls that the bad rules answered.
        drift: of the job as it is from its first run to its last, as a fraction; None from fewer
            than three.
        differences: between kinds that should do the same, one sentence each.
    """

    what: str
    runs: tuple[Run, ...]
    rules: Compared | None
    control: Compared | None
    slower_than: float | None
    control_hits: int
    drift: float | None
    differences: tuple[str, ...]
    rate: bool = False
    simulated: bool = False

    @property
    def importance(self) -> Importance | None:
        """What the control says; None without one."""
        if self.control is None and self.slower_than is None:
            return None
        if self.slower_than is not None:
            return Importance.MATTERS
        told = self.control if self.control_hits else None
        if told is not None and told.costs_nothing and not self.rules_change_it:
            return Importance.NONE
        if self.rules_change_it or (told is not None and told.costs):
            return Importance.MATTERS
        return Importance.UNKNOWN

    @property
    def rules_change_it(self) -> bool:
        """Which shows that settings matter, whatever bad ones do."""
        return self.rules is not None and self.rules.changes_it

    def as_plain(self) -> dict[str, Any]:
        """For --json; ratios of speeds are fractions above or below 0."""
        importance = self.importance
        return {
            "measure": self.what,
            "simulated": self.simulated,
            "rules": _plain(self.rules),
            "control": _plain(self.control),
            "control_ended_at": self.slower_than,
            "communication": None if importance is None else importance.value,
            "drift": self.drift,
            "differences": list(self.differences),
            "runs": [_run_plain(one) for one in self.runs],
        }


def _plain(one: Compared | None) -> dict[str, Any] | None:
    if one is None:
        return None
    middle, low, high = (percent / 100 for percent in one.percent)
    known = one.speed.spread < inf
    return {
        "verdict": one.verdict.value,
        "speed": middle,
        "low": low if known else None,
        "high": high if known else None,
        "rounds": one.speed.n_launches,
    }


def _run_plain(run: Run) -> dict[str, Any]:
    said, answers = run.measured, run.answers
    return {
        "number": run.number,
        "arm": run.arm.value,
        "folder": str(run.folder),
        "duration_s": run.outcome.duration_s,
        "good": run.outcome.is_good,
        "ended": run.outcome.words,
        "value": said.value if said else None,
        "steps": said.n_steps if said else None,
        "left_out": said.left_out if said else None,
        "first_loss": said.first_loss if said else None,
        "ranks": said.n_ranks if said else None,
        "calls": answers.calls if answers else None,
        "hits": answers.hits if answers else None,
        "by_rule": [
            {"line": line, "setting": setting, "calls": calls}
            for line, setting, calls in (answers.by_rule if answers else ())
        ],
    }


def good(runs: Sequence[Run], arm: Arm) -> list[Run]:
    """The runs of a kind that ended well, by their number: the n-th is of the n-th round."""
    return [run for run in runs if run.arm is arm and run.measured is not None]


def values(runs: Sequence[Run], arm: Arm) -> list[float]:
    """Their numbers."""
    return [run.measured.value for run in good(runs, arm) if run.measured is not None]


def compared_runs(runs: Sequence[Run], arm: Arm, *, rate: bool) -> Compared | None:
    """A kind beside the job as it is, by rounds that have both; None without one.

    Args:
        runs: of all kinds.
        arm: to be compared.
        rate: whether more is better.
    """
    as_is, own = values(runs, Arm.AS_IS), values(runs, arm)
    return looks.compared(arm, own, as_is) if rate else looks.compared(arm, as_is, own)


def drift(runs: Sequence[Run]) -> float | None:
    """Of the job as it is from its first run to its last, by a straight line; None from too few."""
    found = good(runs, Arm.AS_IS)
    if len(found) < 3:
        return None
    times = [run.outcome.began for run in found]
    logs = [log(value) for value in values(runs, Arm.AS_IS)]
    middle, mean = sum(times) / len(times), sum(logs) / len(logs)
    squares = sum((at - middle) ** 2 for at in times)
    if not squares:
        return None
    pairs = zip(times, logs, strict=True)
    slope = sum((at - middle) * (value - mean) for at, value in pairs) / squares
    return exp(slope * (times[-1] - times[0])) - 1


def differences(runs: Sequence[Run]) -> tuple[str, ...]:
    """What kinds should have in common and have not, and what weakens their numbers."""
    said: list[str] = []
    base = good(runs, Arm.AS_IS)
    for arm in (Arm.RULES, Arm.CONTROL):
        other = good(runs, arm)
        for name, ours, theirs in (
            ("steps", _set(base, "n_steps"), _set(other, "n_steps")),
            ("ranks", _set(base, "n_ranks"), _set(other, "n_ranks")),
        ):
            if base and other and ours != theirs:
                said.append(
                    f"{name} differ: {_listed(ours)} {Arm.AS_IS.words}, {_listed(theirs)} "
                    f"{arm.words}"
                )
        said += _losses(base, other, arm)
    remarks: dict[str, int] = {}
    for run in runs:
        for text in run.measured.remarks if run.measured else ():
            remarks[text] = remarks.get(text, 0) + 1
    said += [f"{text} ({n} of {len(runs)} runs)" for text, n in remarks.items()]
    forced = sorted({word for run in runs if run.measured for word in run.measured.choosing})
    if forced:
        said.append(f"the job sets {', '.join(forced)}: rules choose only what that leaves")
    return tuple(said)


def _set(runs: Sequence[Run], name: str) -> set[int]:
    return {getattr(run.measured, name) for run in runs} - {None}


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _losses(base: Sequence[Run], other: Sequence[Run], arm: Arm) -> list[str]:
    """Kinds that began with another loss did something else; each varies by its seed as it may."""
    ours, theirs = (
        [run.measured.first_loss for run in runs if run.measured and run.measured.first_loss]
        for runs in (base, other)
    )
    if not ours or not theirs:
        return []
    gap = max(min(ours) - max(theirs), min(theirs) - max(ours))
    if gap <= _SAME_LOSS * max(abs(one) for one in (*ours, *theirs)):
        return []
    return [f"first losses differ: {ours[0]:.6g} {Arm.AS_IS.words}, {theirs[0]:.6g} {arm.words}"]


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
    with sheet.house_style():
        content = files.encode(replay.draw_figure(one), "png", one.title, "rccltune job")
    path = folder / NAME
    write_atomically(path, content)
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
        y=axes.straight_axis(values, "speed beside the job as it is", " %"),
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
    base = values(found.runs, Arm.AS_IS)
    if not base:
        return
    mean = sum(map(log, base)) / len(base)
    one = {Arm.RULES: found.rules, Arm.CONTROL: found.control}.get(arm)
    ends = one.percent[1:] if one is not None and _is_known(one) else (None, None)
    runs = good(found.runs, arm)
    for run, value in zip(runs, values(found.runs, arm), strict=True):
        faster = log(value) - mean if found.rate else mean - log(value)
        percent = (exp(faster) - 1) * 100
        yield Point(x=run.number, y=percent, words=f"{value:.4g}", low=ends[0], high=ends[1])


def _is_known(one: Compared) -> bool:
    return one.speed.spread < inf
