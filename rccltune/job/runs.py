"""One run of the user's command: started in a folder of its own, ended whole, kept.

FOLDER/job.json                     what is tried
FOLDER/rules.csv control.csv        what each kind gets
FOLDER/runs/007-rules/              stdout.log stderr.log steps-*.json plugin-*.log record-*.csv
                                    outcome.json (written last), and what the job writes there
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rccltune import launch, model, session, why
from rccltune.job.arms import Arm
from rccltune.job.measures import Measured, measured
from rccltune.model import Line, Number, OutputError, Whole, reason_of

OUTCOME: Final = "outcome.json"
_NAME: Final = re.compile(r"([0-9]{3,})-(as-is|rules|control)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended; written when it has.

    Attributes:
        began: seconds since 1970.
        limit_s: it would have been ended after so long.
        exit_code: None where a signal or we ended it.
    """

    began: Number
    duration_s: Number
    limit_s: Number
    exit_code: Whole | None
    signal: Whole | None = None
    timed_out: bool = False

    @property
    def is_good(self) -> bool:
        """Whether it ended as a job should."""
        return self.exit_code == 0

    @property
    def words(self) -> str:
        """How it ended, for people."""
        if self.timed_out:
            return f"was ended after {self.limit_s:.0f} s"
        if self.signal:
            return f"ended with signal {self.signal}"
        return f"ended with exit code {self.exit_code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What the plugin says of its calls, over all processes of a run.

    Attributes:
        n_processes: that wrote a log.
        hits: calls that a rule answered.
        by_rule: line and setting of a rule, and the calls that it answered.
    """

    n_processes: int = 0
    calls: int = 0
    hits: int = 0
    misses: int = 0
    not_selectable: int = 0
    by_rule: tuple[tuple[int, Line, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as its folder says.

    Attributes:
        measured: None where it did not end well.
        answers: of the plugin, None where no process loaded it.
    """

    number: int
    arm: Arm
    folder: Path
    outcome: Outcome
    measured: Measured | None = None
    answers: Answers | None = field(default=None)


def folder_of(job: Path, number: int, arm: Arm) -> Path:
    """Where a run lies."""
    return job / "runs" / f"{number:03d}-{arm.value}"


def run(
    folder: Path, command: Sequence[str], variables: Mapping[str, str], limit_s: float
) -> Outcome:
    """Run a command to its end, or end it and all that it started.

    Args:
        folder: of the run; what is left of a run that was interrupted there is thrown away.
        command: with nothing left to put in.
        variables: all of them.
        limit_s: how long it may take.

    Raises:
        MachineError: the program cannot be started.
        LaunchError: a process cannot be killed.
        KeyboardInterrupt: after everything that was started is gone.
    """
    launch.end_leftovers([folder])
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    began = time.time()
    ending = launch.run(
        launch.Job(
            argv=tuple(command),
            variables=variables,
            folder=folder,
            timeout_s=limit_s,
            is_complete=_never,
        )
    )
    outcome = Outcome(
        began=began,
        duration_s=ending.duration_s,
        limit_s=limit_s,
        exit_code=ending.exit_code,
        signal=ending.signal,
        timed_out=ending.timed_out,
    )
    session.write_atomically(folder / OUTCOME, model.json_text(model.to_plain(outcome)))
    return outcome


def _never(_folder: Path) -> bool:
    return False


def read_runs(job: Path, pattern: str | None) -> list[Run]:
    """All runs that have ended, by their number.

    Raises:
        OutputError: what one says is not understood.
        SessionError: an outcome that cannot be read.
    """
    found = []
    for folder in sorted((job / "runs").glob("*")):
        named = _NAME.fullmatch(folder.name)
        if named is not None and (folder / OUTCOME).is_file():
            found.append(_read(folder, int(named[1]), Arm(named[2]), pattern))
    return sorted(found, key=lambda one: one.number)


def _read(folder: Path, number: int, arm: Arm, pattern: str | None) -> Run:
    path = folder / OUTCOME
    outcome = model.read_json(
        Outcome, path.read_bytes(), str(path), "remove its folder; the run is then made again."
    )
    return Run(
        number=number,
        arm=arm,
        folder=folder,
        outcome=outcome,
        measured=measured(folder, pattern, outcome.duration_s) if outcome.is_good else None,
        answers=answers(folder),
    )


def answers(folder: Path) -> Answers | None:
    """What the plugin's logs of a run sum up; None where no process wrote one.

    Raises:
        OutputError: a log cannot be read.
    """
    logs = sorted(path for path in folder.glob("plugin-*.log") if path.is_file())
    if not logs:
        return None
    evidence = why.Evidence()
    own = why.OwnLines(evidence)
    for path in logs:
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    own.line(path.name, line)
        except OSError as error:
            raise OutputError(
                f"the plugin's log cannot be read: {reason_of(error)}", where=str(path)
            ) from error
    job = evidence.finish({})
    totals = job.totals.values()
    by_rule: dict[tuple[int, str], int] = {}
    for counted in job.hit_rules.values():
        for said, hits in counted.items():
            key = (said.line, str(said.setting))
            by_rule[key] = by_rule.get(key, 0) + hits
    return Answers(
        n_processes=len(logs),
        calls=sum(one.calls for one in totals),
        hits=sum(one.hits for one in totals),
        misses=sum(one.misses for one in totals),
        not_selectable=sum(one.not_selectable for one in totals),
        by_rule=tuple((line, setting, hits) for (line, setting), hits in sorted(by_rule.items())),
    )
