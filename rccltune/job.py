"""The user's own job, as it is and with the rules, in turns.

SESSION/job/2/                      one ``rccltune job``
    rules.csv bad-rules.csv         what runs get
    03-rules/                       stdout.log stderr.log steps-*.json plugin-*.log record-*.csv,
                                    and what the job writes into {run}
    answer.json                     numbers of all runs, and what they say

The plan is fixed before the first run that counts, by how long one run takes and never by what
runs say, so that one interval of all pairs is honest. The two runs of a pair follow each other, so
that what the machine does over minutes is in both; the logarithm of their ratio counts.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from rccltune import plugin
from rccltune.analyse import noise
from rccltune.launch import process, signals
from rccltune.launch.variables import chooses
from rccltune.model.brief import brief
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    LaunchError,
    MachineError,
    OutputError,
    RccltuneError,
    TooLittleDataError,
    reason_of,
)
from rccltune.model.estimate import Estimate
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import MAX_NBYTES, TUNABLE, format_time, join_lines, printable
from rccltune.rules.provenance import odd_needs, written_over
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.session import store
from rccltune.session.files import JOB, disk_errors, write_atomically
from rccltune.verify import verdict_store
from rccltune.why.evidence import JobLogs
from rccltune.why.lines import LineReader

# Pairs where no budget says otherwise; an even number, so that a drift is the same for both.
PAIRS: Final = 6
FEWEST: Final = 3
MOST: Final = 50
# Where runs are kept if no session can keep them.
OUTSIDE: Final = Path("rccltune-job")
STEPS: Final = "step time in ms"
DURATION: Final = "duration in s"
PRINTED: Final = "number that it prints"
# Finds what nccl-tests and rccl-tests print last; a pattern for --measure.
BENCHMARK: Final = "Avg bus bandwidth *: (?P<rate>[0-9.]+)"
# A run is ended when it takes so many times what the first took, and this more.
_PATIENCE: Final = 3.0
_MORE_S: Final = 30.0
# Of a run that takes less, its duration is mostly what starting and loading take.
_SHORT_S: Final = 1.0
# A loss below it is said and is no reason for another exit code: counting calls may cost as much.
_NEGLIGIBLE: Final = 0.005
# First losses of the same step differ by the order in which ranks add.
_SAME_LOSS: Final = 1e-3
# Share of marked steps that warm up: libraries compile, caches fill, communicators are made.
_WARMUP: Final = 0.2
_MARK: Final = '"rccltune": "steps"'
# Longer lines are no marks; a job's log may have any.
_LONGEST_LINE: Final = 1 << 22
_SIMULATED: Final = re.compile(rb"^# SIMULATED", re.MULTILINE)
_NOT: Final = "the rules were not in force:"


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
class JobRequest:
    """Request for a trial of a job with and without rules.

    Attributes:
        command: the user's words; ``{run}`` in them is a run's own folder.
        session: keeps the runs, and has the rules; None where there is none.
        rules: rule file; None is the session's.
        budget_s: for all runs together; None for PAIRS pairs, however long they take.
        measure: pattern of the number that the job prints.
        bad_rules: whether rules that are bad on purpose are tried, too.
    """

    command: tuple[str, ...]
    session: Path | None = None
    rules: Path | None = None
    budget_s: float | None = None
    measure: str | None = None
    bad_rules: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run that has ended.

    Attributes:
        pair: it belongs to, from 1; 0 is the first run, which warms caches up and is not counted.
        failure: how it ended, in words; None where it ended as a job should.
        value: number that runs are compared by; 0 where it failed.
        what: that is: STEPS, DURATION or PRINTED.
        first_loss: of the lowest rank that says it.
        calls: that the plugin was asked about, in all processes; None where none loaded it.
        hits: those that a rule answered.
        by_rule: (line of the rule file, setting): those that it answered.
    """

    pair: int
    kind: RunKind
    folder: Path
    seconds: float
    failure: str | None = None
    value: float = 0.0
    what: str = DURATION
    first_loss: float | None = None
    calls: int | None = None
    hits: int | None = None
    by_rule: Mapping[tuple[int, str], int] = field(default_factory=dict)

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json and answer.json."""
        return {
            "pair": self.pair,
            "arm": self.kind,
            "folder": self.folder.name,
            "seconds": self.seconds,
            "failure": self.failure,
            "value": None if self.failure else self.value,
            "first_loss": self.first_loss,
            "calls": self.calls,
            "hits": self.hits,
            "by_rule": [[*rule, n] for rule, n in self.by_rule.items()],
        }


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """Result of a job's runs in turns.

    Attributes:
        folder: that holds the runs.
        runs: in the order in which they were made.
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

    def gain_of(self, kind: RunKind) -> Estimate | None:
        """Ratio of the job as it is over runs of a kind, in pairs; None below two pairs."""
        as_is, theirs = (
            {run.pair: run.value for run in self._good(one)} for one in (RunKind.AS_IS, kind)
        )
        sign = -1 if self.is_rate else 1
        logs = [sign * math.log(as_is[pair] / theirs[pair]) for pair in theirs if pair in as_is]
        if len(logs) < 2:
            return None
        _, mean, high = noise.t_interval(logs)
        half = max(high - mean, noise.LEAST)
        return Estimate.of_logs(mean, mean - half, mean + half, len(logs))

    @property
    def is_harm(self) -> bool:
        """Whether the rules make the job slower by more than is negligible."""
        return self.gain is not None and self.gain.high < 1 - _NEGLIGIBLE

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, a sentence a line."""
        return tuple(
            line
            for line in (
                "SIMULATED, no hardware" if self.simulated else None,
                f"With the rules: {gain_words(self.gain) if self.gain else 'not known'}",
                self._said_of_bad_rules(),
                self._in_force(),
                self._ended_early(),
                f"Compared: {self.what}"
                + (" (more is better)" if self.is_rate else "")
                + "; the first run warms up and is not counted",
                *(f"Note: {text}" for text in self._notes()),
            )
            if line
        )

    @property
    def what(self) -> str:
        """Name of the number that runs are compared by."""
        return self.runs[0].what

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json and answer.json."""
        return {
            "simulated": self.simulated,
            "folder": self.folder,
            "measure": self.what,
            "more_is_better": self.is_rate,
            "planned": self.planned,
            "rules": self.gain,
            "bad_rules": self.gain_of(RunKind.BAD_RULES),
            "says": self.lines,
            "failure": self.failure.message if self.failure else None,
            "runs": self.runs,
        }

    def _good(self, kind: RunKind) -> list[JobRun]:
        """Counted runs of a kind that ended well."""
        return [run for run in self.runs if run.pair and run.kind is kind and not run.failure]

    def _said_of_bad_rules(self) -> str | None:
        runs = [run for run in self.runs if run.kind is RunKind.BAD_RULES]
        if not runs:
            return None
        failure = next((run.failure for run in runs if run.failure), None)
        if failure is not None:
            return f"With bad rules: the job {failure}"
        gain = self.gain_of(RunKind.BAD_RULES)
        if gain is None or not any(run.hits for run in runs):
            return "With bad rules: not known, since they answered no call"
        shown = (
            "what settings do to this job can be seen here"
            if gain.is_slower
            else "either settings hardly matter to this job, or its runs differ too much to see it"
        )
        return f"With bad rules: {gain_words(gain)}: {shown}"

    def _in_force(self) -> str | None:
        runs = self._good(RunKind.RULES)
        hits, calls = sum(run.hits or 0 for run in runs), sum(run.calls or 0 for run in runs)
        by_rule: Counter[tuple[int, str]] = Counter()
        for run in runs:
            by_rule.update(run.by_rule)
        each = ", ".join(f"line {line} {setting} {n}" for (line, setting), n in by_rule.items())
        return f"In force: rules answered {hits} of {calls} calls: {each}" if calls else None

    def _ended_early(self) -> str | None:
        if len(self._good(RunKind.RULES)) >= self.planned:
            return None
        who = "Interrupted" if self.is_interrupted else "The budget was over"
        return f"{'Ended' if self.failure else who} before all {self.planned} pairs were made"

    def _notes(self) -> Iterator[str]:
        """Notes that weaken the numbers: kinds that did other things, variables that choose."""
        as_is = self._first_losses(RunKind.AS_IS)
        for kind in (RunKind.RULES, RunKind.BAD_RULES):
            theirs = self._first_losses(kind)
            if as_is and theirs and _is_apart(as_is, theirs):
                yield (
                    f"first losses differ: {as_is[0]:.6g} as it is, {theirs[0]:.6g} {kind.words}: "
                    "check the results"
                )
        yield from _site_notes(self.site)

    def _first_losses(self, kind: RunKind) -> list[float]:
        return [run.first_loss for run in self._good(kind) if run.first_loss is not None]


def gain_words(gain: Estimate) -> str:
    """``1.250× faster (1.249 to 1.251), 6 pairs``; slower is said by the inverse."""
    pairs = f"{gain.n} pairs"
    if gain.is_slower:
        value, low, high = (_ratio(1 / one) for one in (gain.value, gain.high, gain.low))
        return f"{value}× slower ({low} to {high}), {pairs}"
    interval = f"({_ratio(gain.low)} to {_ratio(gain.high)}), {pairs}"
    if gain.is_faster:
        return f"{_ratio(gain.value)}× faster {interval}"
    return f"no difference shown: {_ratio(gain.value)} {interval}"


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.4g}"


def _is_apart(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether two kinds began with other losses; each varies by its seed as it may."""
    gap = max(min(ours) - max(theirs), min(theirs) - max(ours))
    return gap > _SAME_LOSS * max(abs(one) for one in (*ours, *theirs))


def _site_notes(site: Sequence[str]) -> Iterator[str]:
    """Notes on the job as it is, from ``NAME=VALUE`` of the variables that choose in it."""
    tuner = [one for one in site if one.startswith(("NCCL_TUNER_", "RCCLTUNE_CONFIG_DIR"))]
    if tuner:
        yield f"the job as it is has a tuner already: {', '.join(tuner)}"
    forced = [one for one in site if one not in tuner]
    if forced:
        yield f"set in every run: {', '.join(forced)}; rules choose only what that leaves"


# Runs a command in a folder with variables, for so many seconds at most: the seconds that it took,
# and how it failed.
Start: TypeAlias = Callable[
    [Path, Sequence[str], Mapping[str, str], float], tuple[float, str | None]
]


def start_run(
    folder: Path, command: Sequence[str], variables: Mapping[str, str], limit_s: float
) -> tuple[float, str | None]:
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
        return ending.duration_s, f"was ended after {limit_s:.0f} s"
    return ending.duration_s, None if ending.exit_code == 0 else f"ended with {ending.how}"


def try_job(request: JobRequest, *, reporter: Reporter, start: Start = start_run) -> JobResult:
    """Run a job in turns, as it is and with the rules.

    Whoever interrupts it, or fails it later than the second pair, still gets what is known.

    Args:
        request: what is to be tried.
        reporter: told the plan, and of each pair.
        start: runs a command to its end.

    Raises:
        CommandLineError: no command, a bad pattern, no rules, or rules that may load code.
        InputFileError: a rule file that the plugin refuses.
        SessionError: no session there, or nothing can be written.
        MachineError: no plugin, or the ranks did not load it.
        LaunchError: the job fails.
        OutputError: what it prints is not understood.
        TooLittleDataError: too few runs fit into the budget, or no rule answered a call.
        KeyboardInterrupt: before two pairs were made.
    """
    trial = _Trial(request, reporter, start)
    failure: RccltuneError | None = None
    is_interrupted = False
    try:
        with signals.interruptible():
            trial.make()
    except KeyboardInterrupt:
        is_interrupted = True
        if trial.result().gain is None:
            raise
    except RccltuneError as error:
        failure = error
        if trial.result().gain is None:
            raise
    result = replace(trial.result(), failure=failure, is_interrupted=is_interrupted)
    write_atomically(result.folder / "answer.json", store.dump_json(result))
    return result


def pairs_in(budget_s: float | None, first_s: float, n_kinds: int) -> int:
    """Number of pairs that are planned.

    Args:
        budget_s: for all runs, the first one included; None for the usual number.
        first_s: that one took.
        n_kinds: kinds of runs.

    Raises:
        TooLittleDataError: too few fit.
    """
    if budget_s is None:
        return PAIRS
    fitting = int((budget_s - first_s) / (n_kinds * first_s))
    if fitting < FEWEST:
        wanted = math.ceil(first_s * (1 + n_kinds * FEWEST))
        raise TooLittleDataError(
            f"a run takes {format_time(1e6 * first_s)}: {max(0, fitting)} pairs fit into the "
            f"budget, and {FEWEST} are the fewest that tell anything",
            hint=f"give --budget {wanted}s, or let the job do fewer steps.",
        )
    return min(fitting, MOST)


class _Trial:
    """One job on its way."""

    def __init__(self, request: JobRequest, reporter: Reporter, start: Start) -> None:
        if not request.command:
            raise CommandLineError("no command", hint="write it behind --: -- torchrun train.py")
        self._request, self._reporter, self._start = request, reporter, start
        self._pattern = None if request.measure is None else pattern_of(request.measure)
        self._library = plugin.library()
        session = None if request.session is None else store.open_session(request.session)
        source = _rule_file(request)
        content = content_of(source)
        file = read_accepted(content, source, "correct these lines.")
        self._needs, self._overwritten = file.needs, written_over(content, file)
        if odd := odd_needs(self._needs):
            raise CommandLineError(
                f"these rules need {odd}, which may load code or open files",
                where=str(source),
                hint="export it in the job yourself, and take it out of the line '#@ needs'.",
            )
        self._simulated = _SIMULATED.search(content) is not None
        self._simulated |= session is not None and session.simulated
        self._kinds = [RunKind.AS_IS, RunKind.RULES]
        self._kinds += [RunKind.BAD_RULES] if request.bad_rules else []
        self._planned = 0
        self._runs: list[JobRun] = []
        self._site = tuple(f"{n}={v}" for n, v in sorted(os.environ.items()) if _is_said(n))
        self._folder = _new_folder(request.session)
        self._files = {
            RunKind.RULES: self._folder / "rules.csv",
            RunKind.BAD_RULES: self._folder / "bad-rules.csv",
        }
        write_atomically(self._files[RunKind.RULES], content)
        if request.bad_rules:
            write_atomically(self._files[RunKind.BAD_RULES], bad_rules())

    def result(self) -> JobResult:
        """Result of the runs made so far."""
        return JobResult(
            folder=self._folder,
            runs=tuple(self._runs),
            planned=self._planned,
            # More is better of a number whose group is named so.
            is_rate=self._pattern is not None and "rate" in self._pattern.groupindex,
            simulated=self._simulated,
            site=self._site,
        )

    def make(self) -> None:
        """Make all runs, or as many as the budget allows."""
        budget_s = self._request.budget_s
        self._reporter.say(f"Runs are kept in {self._folder}")
        for text in (*_site_notes(self._site), *self._overwritten):
            self._reporter.say(f"Warning: {text}")
        first = self._run(0, RunKind.AS_IS, budget_s or math.inf)
        first_s = first.seconds
        self._reporter.say(f"First run: {format_time(1e6 * first_s)}")
        if first.what == DURATION:
            self._check_duration(first_s)
        self._planned = pairs_in(budget_s, first_s, len(self._kinds))
        n_runs = self._planned * len(self._kinds)
        self._reporter.say(
            f"Plan: {self._planned} pairs, {n_runs} runs in turns, about "
            f"{format_time(1e6 * n_runs * first_s)}; compared: {first.what}"
        )
        limit_s = _PATIENCE * first_s + _MORE_S
        pair_s = 0.0
        for pair in range(1, self._planned + 1):
            spent_s = sum(run.seconds for run in self._runs)
            if budget_s is not None and pair > FEWEST and spent_s + pair_s > budget_s:
                return
            # A B, then B A, so that a drift is no gain.
            kinds = self._kinds if pair % 2 else self._kinds[::-1]
            made = {kind: self._run(pair, kind, limit_s) for kind in tuple(kinds)}
            pair_s = sum(run.seconds for run in made.values())
            said = (f"{_number(made[kind])} {kind.words}" for kind in RunKind if kind in made)
            self._reporter.say(f"Pair {pair}: {', '.join(said)}")

    def _check_duration(self, first_s: float) -> None:
        """Refuse to compare what simulated runs take; warn where they are short."""
        if self._simulated:
            raise CommandLineError(
                "a simulated job's duration is the simulator's, and says nothing of the rules",
                where=str(self._folder),
                hint=f"compare a number that it prints: --measure '{BENCHMARK}' takes the one of "
                "rccl-tests.",
            )
        if first_s < _SHORT_S:
            self._reporter.say(
                f"Warning: a run takes {format_time(1e6 * first_s)}, mostly to start: "
                "compare marked steps (rccltune.torch) or a number that it prints (--measure), or "
                "let it run longer"
            )

    def _run(self, pair: int, kind: RunKind, limit_s: float) -> JobRun:
        """Make one run, and stop where more would tell nothing."""
        folder = self._folder / f"{len(self._runs):02d}-{kind.value}"
        with disk_errors(folder):
            folder.mkdir()
        command = [word.replace("{run}", str(folder)) for word in self._request.command]
        seconds, failure = self._start(folder, command, self._variables(folder, kind), limit_s)
        run = JobRun(pair=pair, kind=kind, folder=folder, seconds=seconds, failure=failure)
        if kind is not RunKind.AS_IS:
            run = counted(run)
        if failure is None:
            run = measured(run, self._pattern)
        self._runs.append(run)
        with (folder / "stdout.log").open("rb") as stream:
            self._simulated |= _SIMULATED.search(stream.read(1 << 16)) is not None
        if failure is not None:
            if kind is not RunKind.BAD_RULES:
                raise _failed(run)
            # What bad rules break is an answer; once is enough.
            self._kinds.remove(kind)
        elif kind is RunKind.RULES:
            self._check_in_force(run)
        return run

    def _variables(self, folder: Path, kind: RunKind) -> dict[str, str]:
        """All variables of a run; the site's own stay, those that choose included."""
        variables = {n: v for n, v in os.environ.items() if not n.startswith("RCCLTUNE_CLI_")}
        variables["RCCLTUNE_JOB_RUN"] = str(folder)
        variables["RCCLTUNE_JOB_STEPS"] = str(folder / "steps-%h-%p.json")
        if kind is not RunKind.AS_IS:
            variables |= {
                "NCCL_TUNER_PLUGIN": str(self._library),
                "NCCL_TUNER_CONFIG_FILE": str(self._files[kind]),
                "RCCLTUNE_LOG": f"summary:{folder / 'plugin-%h-%p.log'}",
                "RCCLTUNE_RECORD": str(folder / "record-%h-%p.csv"),
                **dict(self._needs),
            }
        return variables

    def _check_in_force(self, run: JobRun) -> None:
        """Stop where the rules did nothing."""
        if run.calls is None:
            raise MachineError(
                f"{_NOT} no rank loaded the plugin in the run with them, so what runs differ by "
                "says nothing of the rules",
                where=str(run.folder),
                hint="let the launcher hand NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE and "
                "RCCLTUNE_* to the ranks (mpirun -x, the container's -e), and see whether their "
                "library loads tuners (rccltune plugin --check). gloo and MPI back ends load none.",
            )
        if not run.hits:
            raise TooLittleDataError(
                f"{_NOT} they answered none of {run.calls} calls",
                where=str(run.folder),
                hint=f"rccltune why {run.folder}/plugin-*.log {self._files[run.kind]} says why, "
                f"and rccltune workload {run.folder}/record-*.csv what the job calls.",
            )


def _number(run: JobRun) -> str:
    """The number of a run, or how it failed."""
    if run.failure is not None:
        return run.failure
    return format_time(1e6 * run.value) if run.what == DURATION else f"{run.value:.6g}"


def _is_said(name: str) -> bool:
    """Whether a variable of the job as it is chooses, so that everybody is told."""
    return chooses(name, keep=("RCCLTUNE_*",)) or name == "RCCLTUNE_CONFIG_DIR"


def _rule_file(request: JobRequest) -> Path:
    if request.rules is not None:
        if not request.rules.is_file():
            raise InputFileError("there is no such rule file", where=str(request.rules))
        return request.rules
    if request.session is None:
        raise CommandLineError(
            "neither a session nor a rule file",
            hint="name the session that was tuned, or give --rules FILE.",
        )
    paths = verdict_store.rule_paths(verdict_store.used_session(request.session))
    if len(paths) != 1:
        named = ", ".join(path.name for path in paths) or "none"
        raise CommandLineError(
            f"the session has not one rule file: {named}",
            where=str(request.session),
            hint="give --rules FILE; rccltune tune or rccltune emit-config makes one.",
        )
    return paths[0]


def bad_rules() -> str:
    """Rule file that is bad on purpose: one channel of ring/simple for everything.

    Every library offers it for every collective; as a wrong tuner's mistake it once cost a factor
    of 14.
    """
    rows = [f"{one.csv_name},0,{MAX_NBYTES},ring,simple,1,-1,-1,-1,-1" for one in TUNABLE]
    return "\n".join(["# Bad on purpose, for rccltune job --bad-rules. Not for use.", *rows, ""])


def _new_folder(session: Path | None) -> Path:
    """A folder for the runs, the next number in the session, or outside where none can keep it."""
    is_kept = session is not None and os.access(session, os.W_OK)
    home = (session / JOB if session is not None and is_kept else OUTSIDE).resolve()
    with disk_errors(home):
        home.mkdir(exist_ok=True)
        number = 1 + max((int(p.name) for p in home.iterdir() if p.name.isdecimal()), default=0)
        folder = home / str(number)
        folder.mkdir()
    return folder


def _failed(run: JobRun) -> LaunchError:
    """The error of a run that failed, with the last lines that it printed."""
    tail: list[str] = []
    for name in ("stdout.log", "stderr.log"):
        with (run.folder / name).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 4096))
            tail = stream.read().decode("utf-8", "replace").strip().splitlines() or tail
    return LaunchError(
        join_lines(
            [f"the job {run.kind.words} {run.failure}", *(f"  {line[:200]}" for line in tail[-5:])]
        ),
        where=str(run.folder),
        hint="stdout.log and stderr.log there say more.",
    )


def pattern_of(text: str) -> re.Pattern[str]:
    """Pattern that finds a number: its first group, or all of it.

    Raises:
        CommandLineError: it is no pattern, or has several groups.
    """
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise CommandLineError(f"--measure: '{text}' is no pattern: {error}") from error
    if pattern.groups > 1:
        raise CommandLineError(
            f"--measure: '{text}' has {pattern.groups} groups",
            hint="put brackets around the number alone, or (?:…) around all else.",
        )
    return pattern


def measured(run: JobRun, pattern: re.Pattern[str] | None) -> JobRun:
    """The run with its number: what the pattern finds, else its marked steps, else its duration.

    A run is one number, since two runs of one command differ by more than their steps tell. Of
    marked steps it is the median behind the warm-up, and over ranks the median again; a checkpoint
    now and then does not move it.

    Args:
        run: that ended well.
        pattern: of ``--measure``.

    Raises:
        OutputError: the pattern finds no number; a line of step times is not understood.
    """
    ranks = sorted(_marks(run.folder), key=lambda one: int(one["rank"]))
    value, what = run.seconds, DURATION
    if pattern is not None:
        value, what = _printed(run.folder, pattern), PRINTED
    elif ranks:
        value, what = median(_step_ms(one) for one in ranks), STEPS
    losses = (one["first_loss"] for one in ranks if one["first_loss"] is not None)
    return replace(
        run,
        value=value,
        what=what,
        first_loss=next(losses, None),
    )


def _printed(folder: Path, pattern: re.Pattern[str]) -> float:
    """Last number that the pattern finds, on stdout before stderr: jobs print better and better."""
    for path in (folder / "stdout.log", folder / "stderr.log"):
        matches = list(pattern.finditer(path.read_text(encoding="utf-8", errors="replace")))
        if matches:
            break
    else:
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds nothing in what the job printed",
            where=str(folder),
            hint="look what it prints, and write the pattern with brackets around the number.",
        )
    word = matches[-1][pattern.groups]
    try:
        value = float(word.replace(",", ""))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds '{printable(word)[:60]}', which is no number "
            "above 0",
            where=str(path),
            hint="put brackets around the number alone: 'time ([0-9.]+) ms'.",
        )
    return value


def _step_ms(marks: dict[str, Any]) -> float:
    """Median time of a rank's steps behind its warm-up."""
    begin = math.ceil(_WARMUP * marks["steps"])
    kept = [ms for at, ms in zip(marks["at"], marks["times_ms"], strict=True) if at >= begin]
    if not kept:
        raise OutputError(
            "a rank marked no step from its beginning to its end",
            hint="put the work into 'with rccltune.torch.step():', or use --measure.",
        )
    return float(median(kept))


def _marks(folder: Path) -> list[dict[str, Any]]:
    """Step marks that ranks wrote into their files, or printed where they could not write."""
    marks: dict[tuple[str, int], dict[str, Any]] = {}
    files = [path for path in sorted(folder.glob("steps-*.json")) if path.is_file()]
    for path in (*files, folder / "stdout.log"):
        with path.open(encoding="utf-8", errors="replace") as stream:
            for text in stream:
                if _MARK in text and len(text) < _LONGEST_LINE:
                    line = _mark(text, path)
                    marks[str(line["host"]), line["pid"]] = line
    return list(marks.values())


def _mark(text: str, path: Path) -> dict[str, Any]:
    """A line of rccltune.torch, whatever a launcher puts in front of it."""
    try:
        return _checked(json.loads(text[text.index("{") :]))
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(
            join_lines(["a line of step times is not understood:", f"  {text.strip()[:120]}"]),
            where=str(path),
            hint=f"{printable(error)}; another rccltune.torch may have written it: take this one's "
            "(rccltune/torch.py).",
        ) from error


def _checked(marks: dict[str, Any]) -> dict[str, Any]:
    if marks["format"] != 1:
        raise ValueError("another format")
    for name in ("rank", "steps", "pid"):
        marks[name] = int(marks[name])
    if len(marks["at"]) != len(marks["times_ms"]) or "first_loss" not in marks:
        raise ValueError("not all is there")
    if not all(math.isfinite(ms) and ms > 0 for ms in marks["times_ms"]):
        raise ValueError("a time that is no time")
    return marks


def counted(run: JobRun) -> JobRun:
    """The run with what the plugin's logs say of its calls; as it was where no process wrote one.

    Raises:
        OutputError: a log cannot be read.
    """
    logs = sorted(path for path in run.folder.glob("plugin-*.log") if path.is_file())
    if not logs:
        return run
    said = JobLogs()
    reader = LineReader(said)
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
    for hits in said.hits.values():
        by_rule.update({(rule.line, str(rule.setting)): n for rule, n in hits.items()})
    return replace(
        run,
        calls=sum(one["calls"] for one in said.totals.values()),
        hits=sum(one["hits"] for one in said.totals.values()),
        by_rule=dict(sorted(by_rule.items())),
    )
