"""The user's job in turns: a plan, then A B, B A, A B … to its end.

The plan is fixed before the first run that counts, by how long one run takes and never by what
runs say, so that one interval of all pairs is honest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.job import runs
from rccltune.job.result import JobResult, site_notes
from rccltune.job.run_time import BENCHMARK, DURATION, is_rate, measure_run, pattern_of
from rccltune.job.runs import JobRun, RunKind
from rccltune.launch import signals
from rccltune.launch.variables import chooses
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    LaunchError,
    MachineError,
    RccltuneError,
    TooLittleDataError,
)
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import format_time, join_lines
from rccltune.rules.provenance import odd_needs, written_over
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.session import store
from rccltune.session.files import JOB, disk_errors, write_atomically
from rccltune.verify import verdict_store
from rccltune.why.job import explain_job

# Pairs where no budget says otherwise; an even number, so that a drift is the same for both.
PAIRS: Final = 6
FEWEST: Final = 3
MOST: Final = 50
# Where runs are kept if no session can keep them.
OUTSIDE: Final = Path("rccltune-job")
# A run is ended when it takes so many times what the first took, and this more.
_PATIENCE: Final = 3.0
_MORE_S: Final = 30.0
# Of a run that takes less, its duration is mostly what starting and loading take.
_SHORT_S: Final = 1.0
_SIMULATED: Final = re.compile(rb"^# SIMULATED", re.MULTILINE)
_MOST_WHY: Final = 8
_NOT: Final = "the rules were not in force:"


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


def pairs_in(budget_s: float | None, first_s: float, n_arms: int) -> int:
    """Number of pairs that are planned.

    Args:
        budget_s: for all runs, the first one included; None for the usual number.
        first_s: that one took.
        n_arms: kinds of runs.

    Raises:
        TooLittleDataError: too few fit.
    """
    if budget_s is None:
        return PAIRS
    fitting = int((budget_s - first_s) / (n_arms * first_s))
    if fitting < FEWEST:
        wanted = ceil(first_s * (1 + n_arms * FEWEST))
        raise TooLittleDataError(
            f"a run takes {format_time(1e6 * first_s)}: {max(0, fitting)} pairs fit into the "
            f"budget, and {FEWEST} are the fewest that tell anything",
            hint=f"give --budget {wanted}s, or let the job do fewer steps.",
        )
    return min(fitting, MOST)


def runs_of_pair(pair: int, arms: Sequence[RunKind]) -> tuple[RunKind, ...]:
    """Kinds of a pair as they are run: A B, then B A, so that a drift is no gain."""
    return tuple(arms) if pair % 2 else tuple(reversed(arms))


def try_job(
    request: JobRequest, *, reporter: Reporter, start: runs.Start = runs.start
) -> JobResult:
    """Run a job in turns, as it is and with the rules.

    Whoever interrupts it, or fails it later than the second pair, still gets what is known.

    Args:
        request: what is to be tried.
        reporter: told the plan, and of each run.
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
        if not trial.tells:
            raise
        is_interrupted = True
    except RccltuneError as error:
        if not trial.tells:
            raise
        failure = error
    answer = replace(trial.answer(), failure=failure, is_interrupted=is_interrupted)
    write_atomically(answer.folder / "answer.json", store.dump_json(answer.as_plain()))
    return answer


class _Trial:
    """One job on its way."""

    def __init__(self, request: JobRequest, reporter: Reporter, start: runs.Start) -> None:
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
        self._arms = (
            RunKind.AS_IS,
            RunKind.RULES,
            *([RunKind.BAD_RULES] if request.bad_rules else []),
        )
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
            write_atomically(self._files[RunKind.BAD_RULES], runs.bad_rules())

    @property
    def tells(self) -> bool:
        """Whether there are pairs enough for an interval."""
        return self.answer().gain is not None

    def answer(self) -> JobResult:
        """Result of the runs made so far."""
        return JobResult(
            folder=self._folder,
            runs=tuple(self._runs),
            planned=self._planned,
            is_rate=is_rate(self._pattern),
            simulated=self._simulated,
            site=self._site,
        )

    def make(self) -> None:
        """Make all runs, or as many as the budget allows."""
        budget_s = self._request.budget_s
        self._reporter.say(f"Runs are kept in {self._folder}")
        for text in (*site_notes(self._site), *self._overwritten):
            self._reporter.say(f"Warning: {text}")
        first_s = self._run(0, RunKind.AS_IS, budget_s or inf).ended.seconds
        self._reporter.say(f"First run: {format_time(1e6 * first_s)}")
        what = self.answer().what
        if what == DURATION:
            self._check_duration(first_s)
        self._planned = pairs_in(budget_s, first_s, len(self._arms))
        n_runs = self._planned * len(self._arms)
        self._reporter.say(
            f"Plan: {self._planned} pairs, {n_runs} runs in turns, about "
            f"{format_time(1e6 * n_runs * first_s)}; compared: {what}"
        )
        limit_s = _PATIENCE * first_s + _MORE_S
        for pair in range(1, self._planned + 1):
            if budget_s is not None and pair > FEWEST and self._is_spent(budget_s):
                return
            for arm in runs_of_pair(pair, self._arms):
                if arm in self._arms:
                    self._run(pair, arm, limit_s)
            self._tell(pair)

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

    def _is_spent(self, budget_s: float) -> bool:
        """Whether a pair that takes as long as the last one would end after the budget."""
        last = self._runs[-1].pair
        last_s = sum(run.ended.seconds for run in self._runs if run.pair == last)
        return sum(run.ended.seconds for run in self._runs) + last_s > budget_s

    def _run(self, pair: int, arm: RunKind, limit_s: float) -> JobRun:
        """Make one run, tell of it, and stop where more would tell nothing."""
        folder = self._folder / f"{len(self._runs):02d}-{arm.value}"
        with disk_errors(folder):
            folder.mkdir()
        needs = () if arm is RunKind.AS_IS else self._needs
        variables = runs.environment(os.environ, folder, self._library, self._files.get(arm), needs)
        command = [word.replace("{run}", str(folder)) for word in self._request.command]
        ended = self._start(folder, command, variables, limit_s)
        run = JobRun(
            pair=pair, arm=arm, folder=folder, ended=ended, answers=runs.plugin_answers(folder)
        )
        if ended.failure is None:
            run = replace(run, measured=measure_run(folder, self._pattern, ended.seconds))
        self._runs.append(run)
        self._simulated |= _SIMULATED.search(_beginning(folder / "stdout.log")) is not None
        if ended.failure is not None:
            if arm is not RunKind.BAD_RULES:
                raise _failed(run)
            # What bad rules break is an answer; once is enough.
            self._arms = tuple(one for one in self._arms if one is not arm)
        elif arm is RunKind.RULES:
            self._check_in_force(run)
        return run

    def _tell(self, pair: int) -> None:
        """Tell the numbers of a pair, the job as it is first."""
        runs_ = {run.arm: run for run in self._runs if run.pair == pair}
        words = (f"{_value(runs_[arm])} {arm.words}" for arm in RunKind if arm in runs_)
        self._reporter.say(f"Pair {pair}: {', '.join(words)}")

    def _check_in_force(self, run: JobRun) -> None:
        """Stop where the rules did nothing."""
        if run.answers is None:
            raise MachineError(
                f"{_NOT} no rank loaded the plugin in the run with them, so what runs differ by "
                "says nothing of the rules",
                where=str(run.folder),
                hint="let the launcher hand NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE and "
                "RCCLTUNE_* to the ranks (mpirun -x, the container's -e), and see whether their "
                "library loads tuners (rccltune plugin --check). gloo and MPI back ends load none.",
            )
        if not run.answers.hits:
            raise TooLittleDataError(
                join_lines(
                    [f"{_NOT} they answered none of {run.answers.calls} calls", *self._why(run)]
                ),
                where=str(run.folder),
                hint="rules for these sizes, ranks and nodes are needed: rccltune workload "
                f"{run.folder}/record-*.csv says what the job calls.",
            )

    def _why(self, run: JobRun) -> Iterator[str]:
        """Reasons in the words of rccltune why."""
        logs = [*sorted(run.folder.glob("plugin-*.log")), run.folder / "stdout.log"]
        printed = [path for path in logs if path.stat().st_size]
        try:
            report = explain_job([*printed, self._files[RunKind.RULES]])
        except RccltuneError as error:
            yield f"  {error.message}"
            return
        for answer in report.answers[:_MOST_WHY]:
            yield f"  {answer.where}: {answer.kind.value}: {answer.text}"


def _value(run: JobRun) -> str:
    """The number of a run, or how it failed."""
    if run.measured is None:
        return str(run.ended.failure)
    if run.measured.what == DURATION:
        return format_time(1e6 * run.measured.value)
    return f"{run.measured.value:.6g}"


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
    return LaunchError(
        join_lines([f"the job {run.arm.words} {run.ended.failure}", *_tail(run.folder)]),
        where=str(run.folder),
        hint="stdout.log and stderr.log there say more.",
    )


def _tail(folder: Path) -> list[str]:
    """Last lines that a run printed."""
    for name in ("stderr.log", "stdout.log"):
        with (folder / name).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 4096))
            lines = stream.read().decode("utf-8", "replace").strip().splitlines()
        if lines:
            return [f"  {line[:200]}" for line in lines[-5:]]
    return []


def _beginning(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(1 << 16)
