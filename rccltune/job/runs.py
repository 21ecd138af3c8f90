"""One run of the user's command: its folder, its environment, how it ended, what it says.

SESSION/job/2/                      one ``rccltune job``
    rules.csv bad-rules.csv         what runs get
    03-rules/                       stdout.log stderr.log steps-*.json plugin-*.log record-*.csv,
                                    and what the job writes into {run}
    answer.json                     numbers of all runs, and what they say
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, TypeAlias

from rccltune.job.run_time import RunTime
from rccltune.launch import process
from rccltune.model.errors import OutputError, reason_of
from rccltune.model.vocabulary import MAX_NBYTES, TUNABLE
from rccltune.why.evidence import JobLogs
from rccltune.why.lines import LineReader

_LOG: Final = "plugin-%h-%p.log"
_RECORD: Final = "record-%h-%p.csv"
_STEPS: Final = "steps-%h-%p.json"
# Every library offers it for every collective. One channel of it was a wrong tuner's mistake once,
# and cost a factor of 14.
_BAD: Final = "ring,simple,1,-1,-1,-1,-1"


class RunKind(Enum):
    """A way to run the job; the value is its name in folders and files."""

    AS_IS = "as-is"
    RULES = "rules"
    BAD_RULES = "bad-rules"

    @property
    def words(self) -> str:
        """Name in a sentence."""
        return {"as-is": "as it is", "rules": "with the rules", "bad-rules": "with bad rules"}[
            self.value
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """End of a run.

    Attributes:
        seconds: that it took.
        failure: how it ended, in words; None where it ended as a job should.
    """

    seconds: float
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginAnswers:
    """Counts of a run's calls that the plugin answered, over all its processes.

    Attributes:
        calls: that the plugin was asked about.
        hits: calls that a rule answered.
        by_rule: (line of the rule file, setting, calls that it answered).
    """

    calls: int
    hits: int
    by_rule: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run that has ended.

    Attributes:
        pair: it belongs to, from 1; 0 is the first run, which warms caches up and is not counted.
        measured: None where it failed.
        answers: None where no process loaded the plugin.
    """

    pair: int
    arm: RunKind
    folder: Path
    ended: RunEnd
    measured: RunTime | None = None
    answers: PluginAnswers | None = None


def environment(
    site: Mapping[str, str],
    folder: Path,
    library: Path,
    rules: Path | None,
    needs: Sequence[tuple[str, str]] = (),
) -> dict[str, str]:
    """All variables of a run; the site's own stay, those that choose included.

    Args:
        site: variables that rccltune was started with.
        folder: of the run, absolute.
        library: the plugin.
        rules: None for the job as it is, which gets nothing but the places for its steps.
        needs: (name, value) that go with the rules.
    """
    variables = {n: v for n, v in site.items() if not n.startswith("RCCLTUNE_CLI_")}
    variables |= {"RCCLTUNE_JOB_RUN": str(folder), "RCCLTUNE_JOB_STEPS": str(folder / _STEPS)}
    if rules is not None:
        variables |= {
            "NCCL_TUNER_PLUGIN": str(library),
            "NCCL_TUNER_CONFIG_FILE": str(rules),
            "RCCLTUNE_LOG": f"summary:{folder / _LOG}",
            "RCCLTUNE_RECORD": str(folder / _RECORD),
            **dict(needs),
        }
    return variables


def bad_rules() -> str:
    """Rule file that is bad on purpose: one channel of ring/simple for everything."""
    rows = [f"{one.csv_name},0,{MAX_NBYTES},{_BAD}" for one in TUNABLE]
    return "\n".join(["# Bad on purpose, for rccltune job --bad-rules. Not for use.", *rows, ""])


# Folder, command, variables, limit in seconds.
Start: TypeAlias = Callable[[Path, Sequence[str], Mapping[str, str], float], RunEnd]


def start(
    folder: Path, command: Sequence[str], variables: Mapping[str, str], limit_s: float
) -> RunEnd:
    """Run a command to its end, or end it and all that it started.

    Raises:
        MachineError: the program cannot be started.
        LaunchError: a process cannot be killed.
        KeyboardInterrupt: after everything that was started is gone.
    """
    ending = process.run(
        process.LaunchCommand(
            argv=tuple(command),
            variables=variables,
            folder=folder,
            timeout_s=limit_s,
            is_complete=lambda _: False,
        )
    )
    if ending.timed_out:
        return RunEnd(seconds=ending.duration_s, failure=f"was ended after {limit_s:.0f} s")
    failure = None if ending.exit_code == 0 else f"ended with {ending.how}"
    return RunEnd(seconds=ending.duration_s, failure=failure)


def plugin_answers(folder: Path) -> PluginAnswers | None:
    """Sum of what the plugin's logs of a run say; None where no process wrote one.

    Raises:
        OutputError: a log cannot be read.
    """
    logs = sorted(path for path in folder.glob("plugin-*.log") if path.is_file())
    if not logs:
        return None
    job = JobLogs()
    reader = LineReader(job)
    for path in logs:
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                for number, line in enumerate(stream, 1):
                    reader.line(line, f"{path.name}:{number}", path.name)
        except OSError as error:
            raise OutputError(
                f"the plugin's log cannot be read: {reason_of(error)}", where=str(path)
            ) from error
    reader.finish()
    by_rule: Counter[tuple[int, str]] = Counter()
    for said in job.hits.values():
        for rule, hits in said.items():
            by_rule[rule.line, str(rule.setting)] += hits
    return PluginAnswers(
        calls=sum(one["calls"] for one in job.totals.values()),
        hits=sum(one["hits"] for one in job.totals.values()),
        by_rule=tuple((line, setting, n) for (line, setting), n in sorted(by_rule.items())),
    )
