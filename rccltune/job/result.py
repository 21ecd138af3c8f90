"""Result of runs in turns: whether the rules pay, by how much, and whether they were in force.

A pair is a run of the job as it is and one of another kind, made one after the other, so that what
the machine does over minutes is in both. The logarithm of the ratio of the two counts, and
:func:`rccltune.analyse.noise.t_interval` of all pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any, Final

from rccltune.analyse import noise
from rccltune.job.runs import JobRun, RunKind
from rccltune.model.brief import brief
from rccltune.model.errors import RccltuneError
from rccltune.model.estimate import Estimate
from rccltune.model.schema import to_plain

# A loss below it is said and is no reason for another exit code: counting calls may cost as much.
NEGLIGIBLE: Final = 0.005
# First losses of the same step differ by the order in which ranks add.
_SAME_LOSS: Final = 1e-3
_TUNER: Final = ("NCCL_TUNER_", "RCCLTUNE_CONFIG_DIR")


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of a job's runs: its pairs, gains and notes.

    Attributes:
        folder: that holds the runs.
        runs: in the order in which they were made, the first not counted.
        planned: pairs.
        is_rate: more of the number is better.
        simulated: rules or runs are of a stand-in and not of hardware.
        site: ``NAME=VALUE`` of what chooses in the job as it is.
        failure: why runs ended before the plan did; None where nothing failed.
        is_interrupted: the user ended them.
    """

    folder: Path
    runs: tuple[JobRun, ...]
    planned: int
    is_rate: bool = False
    simulated: bool = False
    site: tuple[str, ...] = ()
    failure: RccltuneError | None = None
    is_interrupted: bool = False

    @property
    def gain(self) -> Estimate | None:
        """Speed with the rules over speed as it is; None below two pairs."""
        return self.gain_of(RunKind.RULES)

    def gain_of(self, arm: RunKind) -> Estimate | None:
        """The same of a kind of run."""
        logs = self._logs(arm)
        if len(logs) < 2:
            return None
        _, mean, high = noise.t_interval(logs)
        half = max(high - mean, noise.LEAST)
        return Estimate.of_logs(mean, mean - half, mean + half, len(logs))

    def _logs(self, arm: RunKind) -> list[float]:
        """Log ratio of speeds of each pair that is complete."""
        of_kind, as_is = ({r.pair: r for r in self.good(one)} for one in (arm, RunKind.AS_IS))
        return [
            log(_value(as_is[pair]) / _value(of_kind[pair])) * (-1 if self.is_rate else 1)
            for pair in of_kind
            if pair in as_is
        ]

    def good(self, arm: RunKind) -> list[JobRun]:
        """Counted runs of a kind that ended well."""
        return [r for r in self.runs if r.pair and r.arm is arm and r.measured is not None]

    def hits(self, arm: RunKind) -> tuple[int, int]:
        """Calls that rules answered in all runs of a kind, and calls in all."""
        answers = [run.answers for run in self.good(arm) if run.answers is not None]
        return sum(one.hits for one in answers), sum(one.calls for one in answers)

    @property
    def what(self) -> str:
        """Name of the number that runs are compared by."""
        return next((run.measured.what for run in self.runs if run.measured), "nothing")

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, a sentence a line."""
        return tuple(
            line
            for line in (
                "SIMULATED, no hardware" if self.simulated else None,
                f"With the rules: {self._words(RunKind.RULES)}",
                self._bad_line(),
                *self._force_lines(),
                self._ended_early(),
                f"Compared: {self.what}"
                + (" (more is better)" if self.is_rate else "")
                + "; the first run warms up and is not counted",
                *(f"Note: {text}" for text in self.notes),
            )
            if line
        )

    def _words(self, arm: RunKind) -> str:
        """Faster, slower or no difference shown, with interval and pairs."""
        gain, logs = self.gain_of(arm), self._logs(arm)
        if gain is None and logs:
            return f"{ratio_text(exp(logs[0]))}, 1 pair: no interval, so nothing is shown"
        return "not known, no pair is complete" if gain is None else gain_words(gain)

    def _ended_early(self) -> str | None:
        if len(self.good(RunKind.RULES)) >= self.planned:
            return None
        who = "Interrupted" if self.is_interrupted else "The budget was over"
        return f"{'Ended' if self.failure else who} before all {self.planned} pairs were made"

    def _bad_line(self) -> str | None:
        runs = [run for run in self.runs if run.arm is RunKind.BAD_RULES]
        if not runs:
            return None
        failed = next((run.ended.failure for run in runs if run.ended.failure), None)
        if failed is not None:
            return f"With bad rules: the job {failed}"
        gain = self.gain_of(RunKind.BAD_RULES)
        if not self.hits(RunKind.BAD_RULES)[0] or gain is None:
            return "With bad rules: not known, since they answered no call"
        if gain.is_slower:
            return (
                f"With bad rules: {gain_words(gain)}: what settings do to this job can be seen here"
            )
        return (
            f"With bad rules: {gain_words(gain)}: either settings hardly matter to this job, or "
            "its runs differ too much to see it"
        )

    def _force_lines(self) -> Iterable[str]:
        hits, calls = self.hits(RunKind.RULES)
        if calls:
            by_rule: Counter[tuple[int, str]] = Counter()
            for run in self.good(RunKind.RULES):
                for line, setting, n in run.answers.by_rule if run.answers else ():
                    by_rule[line, setting] += n
            each = ", ".join(f"line {line} {setting} {n}" for (line, setting), n in by_rule.items())
            yield f"In force: rules answered {hits} of {calls} calls: {each}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that weaken the numbers: kinds that did other things, variables that choose."""
        notes = []
        ours = self._losses(RunKind.AS_IS)
        for arm in (RunKind.RULES, RunKind.BAD_RULES):
            theirs = self._losses(arm)
            if ours and theirs and _is_apart(ours, theirs):
                notes.append(
                    f"first losses differ: {ours[0]:.6g} as it is, {theirs[0]:.6g} {arm.words}: "
                    "check the results"
                )
        forced = {word for run in self.runs if run.measured for word in run.measured.choosing}
        return (*notes, *site_notes(sorted(forced.union(self.site))))

    def _losses(self, arm: RunKind) -> list[float]:
        told = [run.measured.first_loss for run in self.good(arm) if run.measured is not None]
        return [loss for loss in told if loss is not None]

    def as_plain(self) -> dict[str, Any]:
        """Form for --json and answer.json."""
        bad = self.gain_of(RunKind.BAD_RULES)
        return {
            "simulated": self.simulated,
            "folder": str(self.folder),
            "measure": self.what,
            "more_is_better": self.is_rate,
            "planned": self.planned,
            "rules": to_plain(self.gain) if self.gain else None,
            "bad_rules": to_plain(bad) if bad else None,
            "says": list(self.lines),
            "failure": self.failure.message if self.failure else None,
            "runs": [_run_plain(run) for run in self.runs],
        }


def site_notes(site: Sequence[str]) -> Iterable[str]:
    """Notes on the job as it is, from ``NAME=VALUE`` of the variables that choose in it."""
    tuner = [one for one in site if one.startswith(_TUNER)]
    if tuner:
        yield f"the job as it is has a tuner already: {', '.join(tuner)}"
    forced = [one for one in site if one not in tuner]
    if forced:
        yield f"set in every run: {', '.join(forced)}; rules choose only what that leaves"


def gain_words(gain: Estimate) -> str:
    """``1.250× faster (1.249 to 1.251), 6 pairs``; slower is said by the inverse."""
    pairs = f"{gain.n} pairs"
    if gain.is_slower:
        slower = [ratio_text(1 / one) for one in (gain.value, gain.high, gain.low)]
        return f"{slower[0]}× slower ({slower[1]} to {slower[2]}), {pairs}"
    interval = f"({ratio_text(gain.low)} to {ratio_text(gain.high)}), {pairs}"
    if gain.is_faster:
        return f"{ratio_text(gain.value)}× faster {interval}"
    return f"no difference shown: {ratio_text(gain.value)} {interval}"


def is_harm(gain: Estimate) -> bool:
    """Whether a job is slower by more than is negligible."""
    return gain.high < 1 - NEGLIGIBLE


def ratio_text(value: float) -> str:
    """A ratio as it is printed."""
    return f"{value:.3f}" if value < 10 else f"{value:.4g}"


def _value(run: JobRun) -> float:
    if run.measured is None:
        raise ValueError("a run that failed has no number")
    return run.measured.value


def _is_apart(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether two kinds began with other losses; each varies by its seed as it may."""
    gap = max(min(ours) - max(theirs), min(theirs) - max(ours))
    return gap > _SAME_LOSS * max(abs(one) for one in (*ours, *theirs))


def _run_plain(run: JobRun) -> dict[str, Any]:
    measured, answers = run.measured, run.answers
    return {
        "pair": run.pair,
        "arm": run.arm.value,
        "folder": run.folder.name,
        "seconds": run.ended.seconds,
        "failure": run.ended.failure,
        "value": measured.value if measured else None,
        "first_loss": measured.first_loss if measured else None,
        "calls": answers.calls if answers else None,
        "hits": answers.hits if answers else None,
        "by_rule": [list(one) for one in answers.by_rule] if answers else [],
    }
