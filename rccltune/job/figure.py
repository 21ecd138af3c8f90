"""Runs in their order, by arm: what each took, and what the arms are beside each other."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any, Final

from rccltune.job import answer as judging
from rccltune.job.answer import Answer
from rccltune.job.arms import Arm
from rccltune.job.looks import Compared, Verdict
from rccltune.job.measures import in_words

NAME: Final = "job.png"
# Dark enough on white, and told apart by those who do not see red and green.
_LOOK: Final = {
    Arm.AS_IS: ("#595959", "o"),
    Arm.RULES: ("#0072b2", "s"),
    Arm.CONTROL: ("#d55e00", "^"),
}


def draw(folder: Path, found: Answer) -> Path:
    """Write the figure beside the runs; returns its path."""
    from matplotlib.figure import Figure

    from rccltune.report import encode, house_style, write

    with house_style():
        figure = Figure(figsize=(8.0, 3.6), layout="constrained")
        runs, beside = figure.subplots(1, 2, width_ratios=(2, 1))
        _draw_runs(runs, found)
        _draw_beside(beside, found)
        title = headline(found)
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        content = encode(figure, "png", title, "rccltune job")
    path = folder / NAME
    write(path, content)
    return path


def headline(found: Answer) -> str:
    """The answer in a few words."""
    stamp = "SIMULATED: " if found.simulated else ""
    one = found.rules
    if one is None or not _is_known(one):
        return f"{stamp}Rules: not known"
    most = max(abs(end) for end in one.percent[1:])
    if one.verdict is Verdict.UNKNOWN:
        return f"{stamp}Rules: no difference found ({most:.1f} % at most)"
    if one.verdict is Verdict.SAME:
        return f"{stamp}Rules make no difference ({most:.1f} % at most)"
    middle = abs(one.percent[0])
    if one.verdict is Verdict.PERHAPS_SLOWER:
        return f"{stamp}Rules perhaps make the job {middle:.1f} % slower"
    return f"{stamp}Rules make the job {middle:.1f} % {one.verdict.value}"


def _draw_runs(axes: Any, found: Answer) -> None:  # noqa: ANN401 - matplotlib's axes
    for arm, (color, marker) in _LOOK.items():
        runs = judging.good(found.runs, arm)
        if runs:
            axes.plot(
                [run.number for run in runs],
                judging.values(found.runs, arm),
                color=color,
                marker=marker,
                linewidth=0.8,
                label=arm.words,
            )
    axes.set_xlabel("run, in the order in which they were made")
    axes.set_ylabel(in_words(found.what))
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)


def _draw_beside(axes: Any, found: Answer) -> None:  # noqa: ANN401 - matplotlib's axes
    shown = [one for one in (found.rules, found.control) if one is not None and _is_known(one)]
    for at, one in enumerate(shown):
        middle, low, high = one.percent
        color, marker = _LOOK[one.arm]
        axes.errorbar(
            at,
            middle,
            yerr=[[middle - low], [high - middle]],
            color=color,
            marker=marker,
            capsize=4,
        )
    axes.axhline(0, color=_LOOK[Arm.AS_IS][0], linewidth=0.8)
    axes.set_xticks(range(len(shown)), [one.arm.words for one in shown])
    axes.set_xlim(-0.6, max(1, len(shown)) - 0.4)
    axes.set_ylabel("speed beside the job as it is, %\n(95 % interval)")


def _is_known(one: Compared) -> bool:
    return one.speed.spread < inf
