"""The user's own job, as it is and with the rules, in turns.

SESSION/job/2/                      one ``rccltune job``
    rules.csv bad-rules.csv         what runs get
    03-rules/                       stdout.log stderr.log steps-*.json plugin-*.log, and what the
                                    job writes into {run}
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias

from rccltune import plugin
from rccltune.analyse import paired_intervals
from rccltune.launch import process, signals
from rccltune.launch.variables import chooses
from rccltune.model.brief import brief
from rccltune.model.errors import (
    CommandLineError,
    LaunchError,
    MachineError,
    OutputError,
    RccltuneError,
    TooLittleDataError,
)
from rccltune.model.estimate import Estimate
from rccltune.model.reporter import Reporter
from rccltune.model.text import join_lines, printable
from rccltune.model.units import MAX_NBYTES, format_time
from rccltune.model.vocabulary import TUNABLE
from rccltune.rules.header import written_over
from rccltune.rules.needs import check_needs
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.session import store
from rccltune.session.files import JOB, disk_errors, write_atomically
from rccltune.verify import verdict_store

# Kinds of runs, as their folders are named and in a sentence.
WORDS: Final = {"as-is": "as it is", "rules": "with the rules", "bad-rules": "with bad rules"}
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
# A loss below it is said and is no reason for another exit code: counting calls may cost as much.
_NEGLIGIBLE: Final = 0.005
# Share of marked steps that warm up: libraries compile, caches fill, communicators are made.
_WARMUP: Final = 0.2
_SIMULATED: Final = re.compile(rb"^# SIMULATED", re.MULTILINE)
# What the plugin says last of a communicator.
_COUNTED: Final = re.compile(r"summary calls=(\d+) hits=(\d+)")


# Runs a command to its end, or ends it and all that it started.
Start: TypeAlias = Callable[[process.LaunchCommand], process.LaunchEnd]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """A run that has ended.

    Attributes:
        pair: it belongs to, from 1; 0 is the first run, which warms caches up and is not counted.
        kind: one of WORDS.
        failure: how it ended, in words; None where it ended as a job should.
        value: number that runs are compared by; None where it failed.
        calls: that the plugin was asked about, in all processes; None where none loaded it.
        hits: those that a rule answered.
    """

    pair: int
    kind: str
    folder: Path
    seconds: float
    failure: str | None = None
    value: float | None = None
    calls: int | None = None
    hits: int = 0


@brief
@dataclass(slots=True, kw_only=True)
class JobResult:
    """Result of a job's runs in turns, as far as they were made.

    Attributes:
        folder: that holds the runs.
        measure: name of the number that runs are compared by.
        is_rate: more of the number is better.
        simulated: rules or runs are of a stand-in and not of hardware.
        site: ``NAME=VALUE`` of what chooses in the job as it is.
        planned: pairs.
        runs: in the order in which they were made.
    """

    folder: Path
    measure: str
    is_rate: bool = False
    simulated: bool = False
    site: tuple[str, ...] = ()
    planned: int = 0
    runs: list[JobRun] = field(default_factory=list)

    @property
    def gain(self) -> Estimate | None:
        """Speed with the rules over speed as it is; None below two pairs."""
        return self.gain_of("rules")

    def gain_of(self, kind: str) -> Estimate | None:
        """Ratio of the job as it is over runs of a kind, in pairs; None below two pairs."""
        as_is, theirs = self._values("as-is"), self._values(kind)
        sign = -1 if self.is_rate else 1
        logs = [sign * math.log(as_is[pair] / theirs[pair]) for pair in theirs if pair in as_is]
        return None if len(logs) < 2 else paired_intervals.mean_of(logs).ratio()

    @property
    def is_harm(self) -> bool:
        """Whether the rules make the job slower by more than is negligible."""
        return self.gain is not None and self.gain.high < 1 - _NEGLIGIBLE

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer, a sentence a line."""
        gain = self.gain
        n_pairs = len(self._values("as-is").keys() & self._values("rules").keys())
        runs = [run for run in self.runs if run.kind == "rules"]
        hits, calls = sum(run.hits for run in runs), sum(run.calls or 0 for run in runs)
        more = " (more is better)" if self.is_rate else ""
        return (
            *(["SIMULATED, no hardware"] if self.simulated else []),
            f"With the rules: {gain_words(gain) if gain else 'not known'}",
            *self._said_of_bad_rules(),
            f"In force: rules answered {hits} of {calls} calls",
            *([f"Ended after {n_pairs} of {self.planned} pairs"] if n_pairs < self.planned else []),
            f"Compared: {self.measure}{more}; the first run warms up and is not counted",
            *([f"Note: the job as it is has {', '.join(self.site)}"] if self.site else []),
        )

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json and answer.json."""
        return {
            "simulated": self.simulated,
            "folder": self.folder,
            "measure": self.measure,
            "more_is_better": self.is_rate,
            "planned": self.planned,
            "rules": self.gain,
            "bad_rules": self.gain_of("bad-rules"),
            "says": self.lines,
            "runs": self.runs,
        }

    def _values(self, kind: str) -> dict[int, float]:
        """Numbers of a kind's runs that count, by their pair."""
        runs = (run for run in self.runs if run.pair and run.kind == kind)
        return {run.pair: run.value for run in runs if run.value is not None}

    def _said_of_bad_rules(self) -> Sequence[str]:
        runs = [run for run in self.runs if run.kind == "bad-rules"]
        if not runs:
            return ()
        if runs[-1].failure:
            return (f"With bad rules: the job {runs[-1].failure}",)
        gain = self.gain_of("bad-rules")
        if gain is None or not runs[-1].hits:
            return ("With bad rules: not known, since they answered no call",)
        lines = (
            "what settings do to this job can be seen here"
            if gain.is_slower
            else "either settings hardly matter to this job, or its runs differ too much to see it"
        )
        return (f"With bad rules: {gain_words(gain)}: {lines}",)


def gain_words(gain: Estimate) -> str:
    """``1.250× faster (1.249 to 1.251), 6 pairs``; slower is said by the inverse."""
    numbers = (gain.value, gain.low, gain.high)
    if gain.is_slower:
        numbers = (1 / gain.value, 1 / gain.high, 1 / gain.low)
    value, low, high = (f"{one:.3f}" if one < 10 else f"{one:.4g}" for one in numbers)
    interval = f"({low} to {high}), {gain.n} pairs"
    if gain.is_slower or gain.is_faster:
        return f"{value}× {'slower' if gain.is_slower else 'faster'} {interval}"
    return f"no difference shown: {value} {interval}"


def try_job(
    command: Sequence[str],
    *,
    session: Path | None = None,
    rules: Path | None = None,
    budget_s: float | None = None,
    measure: str | None = None,
    bad_rules: bool = False,
    reporter: Reporter,
    start: Start = process.run,
) -> JobResult:
    """Run a job in turns, as it is and with the rules.

    Where it is interrupted or fails behind the second pair, what is known is said and kept.

    Args:
        command: the user's words; ``{run}`` in them is a run's own folder.
        session: keeps the runs, and has the rules; None where there is none.
        rules: rule file; None is the session's.
        budget_s: for all runs together; None for PAIRS pairs, however long they take.
        measure: pattern of the number that the job prints; None for its steps, or its duration.
        bad_rules: whether rules that are bad on purpose are tried, too.
        reporter: told the plan, and of each pair.
        start: runs a command to its end, or ends it and all that it started.

    Raises:
        CommandLineError: no command, a bad pattern, no rules, or rules that may load code.
        InputFileError: a rule file that the plugin refuses.
        SessionError: no session there, or nothing can be written.
        MachineError: no plugin, or the ranks did not load it.
        LaunchError: the job fails.
        OutputError: what it prints is not understood.
        TooLittleDataError: too few runs fit into the budget, or no rule answered a call.
    """
    if not command:
        raise CommandLineError("no command", hint="write it behind --: -- torchrun train.py")
    pattern = None if measure is None else pattern_of(measure)
    if session is not None:
        store.open_session(session)
    source = rules or _session_rules(session)
    content = content_of(source)
    file = read_accepted(content, source, "correct these lines.")
    check_needs(file.needs, (), where=str(source))
    result = JobResult(
        folder=_new_folder(session),
        measure=DURATION if pattern is None else PRINTED,
        # More is better of a number whose group is named so.
        is_rate=pattern is not None and "rate" in pattern.groupindex,
        simulated=_SIMULATED.search(content) is not None,
        site=tuple(
            f"{name}={value}"
            for name, value in sorted(os.environ.items())
            if chooses(name, keep=("RCCLTUNE_*",))
        ),
    )
    trial = _Trial(command, result, pattern, reporter, start)
    trial.add_rules("rules", content, file.needs)
    if bad_rules:
        trial.add_rules("bad-rules", make_bad_rules().encode())
    reporter.say(f"Runs are kept in {result.folder}")
    for text in written_over(content, file):
        reporter.say(f"Warning: {text}")
    try:
        with signals.interruptible():
            trial.make_runs(budget_s)
    except (KeyboardInterrupt, RccltuneError):
        if result.gain is not None:
            reporter.say(join_lines(result.lines))
        raise
    finally:
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
        needed_s = math.ceil(first_s * (1 + n_kinds * FEWEST))
        raise TooLittleDataError(
            f"a run takes {format_time(1e6 * first_s)}: {max(0, fitting)} pairs fit into the "
            f"budget, and {FEWEST} are the fewest that tell anything",
            hint=f"give --budget {needed_s}s, or let the job do fewer steps.",
        )
    return min(fitting, MOST)


class _Trial:
    """One job on its way; its result grows with each run."""

    def __init__(
        self,
        command: Sequence[str],
        result: JobResult,
        pattern: re.Pattern[str] | None,
        reporter: Reporter,
        start: Start,
    ) -> None:
        self._command, self._result, self._pattern = command, result, pattern
        self._reporter, self._start = reporter, start
        # What each kind of run is given; all have the site's variables.
        self._given: dict[str, dict[str, str]] = {"as-is": {}}

    def add_rules(self, kind: str, content: bytes, needs: Sequence[tuple[str, str]] = ()) -> None:
        """Keep rules beside the runs, for a kind of them."""
        path = self._result.folder / f"{kind}.csv"
        write_atomically(path, content)
        self._given[kind] = {
            "NCCL_TUNER_PLUGIN": str(plugin.library()),
            "NCCL_TUNER_CONFIG_FILE": str(path),
            **dict(needs),
        }

    def make_runs(self, budget_s: float | None) -> None:
        """Make all runs, or as many as the budget allows."""
        first = self._make_run(0, "as-is", budget_s or math.inf)
        self._refuse_simulated_durations(first)
        result, n_kinds = self._result, len(self._given)
        result.planned = pairs_in(budget_s, first.seconds, n_kinds)
        n_runs = result.planned * n_kinds
        self._reporter.say(
            f"First run: {format_time(1e6 * first.seconds)}. Plan: {result.planned} pairs, "
            f"{n_runs} runs in turns, about {format_time(1e6 * n_runs * first.seconds)}; "
            f"compared: {result.measure}"
        )
        limit_s = _PATIENCE * first.seconds + _MORE_S
        pair_s = 0.0
        for pair in range(1, result.planned + 1):
            spent_s = sum(run.seconds for run in result.runs)
            if budget_s is not None and pair > FEWEST and spent_s + pair_s > budget_s:
                return
            # A B, then B A, so that a drift is no gain.
            kinds = tuple(self._given) if pair % 2 else tuple(self._given)[::-1]
            runs = {kind: self._make_run(pair, kind, limit_s) for kind in kinds}
            pair_s = sum(run.seconds for run in runs.values())
            line = (
                f"{run.failure or f'{run.value:.4g}'} {WORDS[kind]}"
                for kind in WORDS
                if (run := runs.get(kind))
            )
            self._reporter.say(f"Pair {pair}: {', '.join(line)}")

    def _refuse_simulated_durations(self, first: JobRun) -> None:
        """Stop where runs would be compared by what the simulator takes."""
        printed = (first.folder / "stdout.log").read_bytes()
        result = self._result
        result.simulated |= _SIMULATED.search(printed) is not None
        if result.measure == DURATION and result.simulated:
            raise CommandLineError(
                "a simulated job's duration is the simulator's, and says nothing of the rules",
                where=str(result.folder),
                hint=f"compare a number that it prints: --measure '{BENCHMARK}' takes the one of "
                "rccl-tests.",
            )

    def _make_run(self, pair: int, kind: str, limit_s: float) -> JobRun:
        """Make one run, and stop where more would tell nothing."""
        folder = self._result.folder / f"{len(self._result.runs):02d}-{kind}"
        with disk_errors(folder):
            folder.mkdir()
        variables = {n: v for n, v in os.environ.items() if not n.startswith("RCCLTUNE_CLI_")}
        variables |= self._given[kind]
        variables["RCCLTUNE_JOB_RUN"] = str(folder)
        variables["RCCLTUNE_JOB_STEPS"] = str(folder / "steps-%h-%p.json")
        if kind != "as-is":
            variables["RCCLTUNE_LOG"] = f"summary:{folder / 'plugin-%h-%p.log'}"
        ending = self._start(
            process.LaunchCommand(
                argv=tuple(word.replace("{run}", str(folder)) for word in self._command),
                variables=variables,
                folder=folder,
                timeout_s=limit_s,
                is_complete=lambda _: False,
            )
        )
        failure = None if ending.exit_code == 0 else f"ended with {ending.how}"
        if ending.timed_out:
            failure = f"was ended after {limit_s:.0f} s"
        calls, hits = count_calls(folder)
        run = JobRun(
            pair=pair,
            kind=kind,
            folder=folder,
            seconds=ending.duration_s,
            failure=failure,
            value=None if failure else self._measure(folder, ending.duration_s),
            calls=calls,
            hits=hits,
        )
        self._result.runs.append(run)
        if failure is None and kind == "rules":
            _check_in_force(run)
        elif failure is not None and kind == "bad-rules":
            # What bad rules break is an answer; once is enough.
            del self._given[kind]
        elif failure is not None:
            raise _failed(run)
        return run

    def _measure(self, folder: Path, seconds: float) -> float:
        """Number of a run: what the pattern finds, else its marked steps, else its duration.

        Two runs of one command differ by more than their steps tell, so a run is one number.
        Whether there are steps the first run says.
        """
        if self._pattern is not None:
            return find_number(folder, self._pattern)
        step_ms = median_step(folder)
        if not self._result.runs and step_ms is not None:
            self._result.measure = STEPS
        if self._result.measure == DURATION:
            return seconds
        if step_ms is None:
            raise OutputError("no rank wrote its steps, as in the first run", where=str(folder))
        return step_ms


def _check_in_force(run: JobRun) -> None:
    """Stop where the rules did nothing."""
    if run.calls is None:
        raise MachineError(
            "the rules were not in force: no rank loaded the plugin in the run with them, so what "
            "runs differ by says nothing of the rules",
            where=str(run.folder),
            hint="let the launcher hand NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE and "
            "RCCLTUNE_* to the ranks (mpirun -x, the container's -e), and see whether their "
            "library loads tuners (rccltune plugin --check). gloo and MPI back ends load none.",
        )
    if not run.hits:
        raise TooLittleDataError(
            f"the rules were not in force: they answered none of {run.calls} calls",
            where=str(run.folder),
            hint=f"rccltune why {run.folder}/plugin-*.log {run.folder.parent}/rules.csv says why.",
        )


def _session_rules(session: Path | None) -> Path:
    if session is None:
        raise CommandLineError(
            "neither a session nor a rule file",
            hint="name the session that was tuned, or give --rules FILE.",
        )
    paths = verdict_store.rule_paths(verdict_store.used_session(session))
    if len(paths) != 1:
        names = ", ".join(path.name for path in paths) or "none"
        raise CommandLineError(
            f"the session has not one rule file: {names}",
            where=str(session),
            hint="give --rules FILE; rccltune tune or rccltune emit-config makes one.",
        )
    return paths[0]


def make_bad_rules() -> str:
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


def _printed(folder: Path) -> dict[str, str]:
    """Text of both outputs of a run."""
    paths = (folder / "stdout.log", folder / "stderr.log")
    return {path.name: path.read_text(encoding="utf-8", errors="replace") for path in paths}


def _failed(run: JobRun) -> LaunchError:
    """The error of a run that failed, with the last lines that it printed."""
    out, err = _printed(run.folder).values()
    last = (err.strip() or out.strip()).splitlines()[-5:]
    lines = [f"the job {WORDS[run.kind]} {run.failure}", *(f"  {line[:200]}" for line in last)]
    hint = "stdout.log and stderr.log there say more."
    return LaunchError(join_lines(lines), where=str(run.folder), hint=hint)


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


def find_number(folder: Path, pattern: re.Pattern[str]) -> float:
    """Last number that a pattern finds in a run's stdout, or else in its stderr.

    Raises:
        OutputError: it finds nothing, or no number above 0.
    """
    out, err = ([*pattern.finditer(text)] for text in _printed(folder).values())
    words = [match[pattern.groups] for match in out or err]
    try:
        value = float(words[-1].replace(",", "")) if words else 0.0
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        word = f"'{printable(words[-1])[:60]}', which is no number above 0" if words else "nothing"
        raise OutputError(
            f"--measure: '{pattern.pattern}' finds {word}",
            where=str(folder),
            hint="put brackets around the number alone in what the job prints: "
            "'time ([0-9.]+) ms'.",
        )
    return value


def median_step(folder: Path) -> float | None:
    """Median time of a run's marked steps in ms behind its warm-up, over ranks the median again.

    So a checkpoint now and then does not move it.

    Returns:
        None where no rank left marks.

    Raises:
        OutputError: a file of rccltune.torch is not understood.
    """
    ranks: list[float] = []
    for path in sorted(folder.glob("steps-*.json")):
        try:
            times_ms = json.loads(path.read_text(encoding="utf-8"))["times_ms"]
            ranks.append(float(median(times_ms[math.ceil(_WARMUP * len(times_ms)) :])))
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(
                f"step times are not understood: {printable(error)}",
                where=str(path),
                hint="put the work into 'with rccltune.torch.step():' of this rccltune "
                "(rccltune/torch.py).",
            ) from error
    return median(ranks) if ranks else None


def count_calls(folder: Path) -> tuple[int | None, int]:
    """Calls that the plugin was asked about in a run, and those that a rule answered.

    Returns:
        None and 0 where no process loaded the plugin.
    """
    logs = [path.read_text(errors="replace") for path in folder.glob("plugin-*.log")]
    pairs_of = [_COUNTED.findall(text) for text in logs]
    calls, hits = (sum(int(pair[of]) for pairs in pairs_of for pair in pairs) for of in (0, 1))
    return calls if logs else None, hits
