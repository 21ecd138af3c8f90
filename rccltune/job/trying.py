"""The user's job in turns: which run comes next, when it is enough, and what must stop it."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.fit.session import fit_session
from rccltune.job import answer as judging
from rccltune.job import runs
from rccltune.job.answer import Answer
from rccltune.job.looks import FEWEST_ROUNDS, MOST_ROUNDS, Compared, is_hopeless, is_over
from rccltune.job.measures import in_words, pattern_of
from rccltune.job.runs import Arm, Rules, Run, folder_of, read_runs, run
from rccltune.launch import process, signals
from rccltune.model import curves, schema, vocabulary
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    LaunchError,
    MachineError,
    RccltuneError,
    TooLittleDataError,
)
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Line, Whole
from rccltune.model.vocabulary import format_time, lay
from rccltune.rules import provenance, refusals
from rccltune.session import store
from rccltune.session.files import write_atomically, writing
from rccltune.verify import verdict_store
from rccltune.why import job

JOB_FILE: Final = "job.json"
BUDGET_S: Final = 600.0
_FORMAT: Final = 1
# A run is ended when it takes so many times as long as the slowest that ended well, and this more.
_PATIENCE: Final = 3.0
_MORE_S: Final = 30.0
_TRIES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is wanted.

    Attributes:
        command: the user's words, ``{run}`` not yet replaced.
        folder: where the runs are kept.
        session: for rules and for the worst settings; None where there is none.
        rules: the rule file; None is the session's.
        measure: a pattern, ``wall``, or None for step times.
        budget_s: for all runs together.
        control: whether bad rules are tried.
        allowed: variables beyond the harmless ones that rules may need.
    """

    command: tuple[str, ...]
    folder: Path
    session: Path | None
    rules: Path | None
    measure: str | None = None
    budget_s: float = BUDGET_S
    control: bool = False
    allowed: frozenset[str] = frozenset()

    @property
    def rate(self) -> bool:
        """Whether more is better: of a pattern whose group is named so."""
        return self.measure is not None and "rate" in pattern_of(self.measure).groupindex


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """What the folder's runs are of; another job needs another folder."""

    command: tuple[Line, ...]
    measure: Line | None
    rules_sha256: Line
    control_sha256: Line | None
    rate: bool = False
    format: Whole = _FORMAT


def try_job(request: Request, *, reporter: Reporter) -> Answer:
    """Run a job in turns and say whether rules pay.

    What is there of the same command is gone on with.

    Args:
        request: what is wanted.
        reporter: told of each run.

    Raises:
        CommandLineError: no command, a bad pattern, or another job's folder.
        InputFileError: a rule file that the plugin refuses.
        MachineError: no plugin; or the ranks did not load it.
        LaunchError: the job fails.
        OutputError: what it prints is not understood.
        TooLittleDataError: too few runs fit into the budget, or no rule answered a call.
        KeyboardInterrupt: after everything that was started is gone.
    """
    trial = _Trial(request, reporter)
    with writing(request.folder, reporter), signals.interruptible():
        trial.prepare()
        trial.make()
    return trial.answer()


class _Trial:
    """One job on its way."""

    def __init__(self, request: Request, reporter: Reporter) -> None:
        if not request.command:
            raise CommandLineError("no command", hint="write it behind --: -- torchrun train.py")
        if request.measure is not None:
            pattern_of(request.measure)
        self.request = request
        self.reporter = reporter
        self.site = runs.site_variables()
        runs.check_site(self.site)
        self.library = plugin.library()
        self.source = _rule_file(request)
        content = refusals.content_of(self.source)
        file = refusals.accepted(content, self.source, "correct these lines.")
        provenance.check_needs(file.needs, request.allowed, where=str(self.source))
        self.needs = file.needs
        self.content = content
        self.curves, self.simulated = _curves(request.session, reporter)
        self.control = runs.bad_rules(self.curves).encode() if request.control else None
        self.failed: Counter[Arm] = Counter()
        self.runs: list[Run] = []

    def prepare(self) -> None:
        """The folder, with what is tried in it; or the same as was there."""
        folder = self.request.folder
        wanted = JobFile(
            command=self.request.command,
            measure=self.request.measure,
            rules_sha256=hashlib.sha256(self.content).hexdigest(),
            control_sha256=hashlib.sha256(self.control).hexdigest() if self.control else None,
            rate=self.request.rate,
        )
        path = folder / JOB_FILE
        if path.exists():
            _check_same(path, wanted)
        else:
            write_atomically(folder / "rules.csv", self.content)
            if self.control is not None:
                write_atomically(folder / "control.csv", self.control)
            write_atomically(path, vocabulary.json_text(schema.to_plain(wanted), indent=1))
        for word in runs.set_in(self.site):
            self.reporter.say(
                f"Warning: {word} is set in every run: rules choose only what it leaves."
            )

    def make(self) -> None:
        """Runs, until it is enough."""
        self._read()
        while (arm := self._next()) is not None:
            number = 1 + max((one.number for one in self.runs), default=0)
            # An interrupted run has left its folder, and is made again in its place.
            folder = folder_of(self.request.folder, number, arm).resolve()
            for stale in folder.parent.glob(f"{number:03d}-*"):
                process.end_leftovers([stale])
                shutil.rmtree(stale)
            self._run(folder, arm)
            self._read()
            self._tell()
            self._check()

    def _read(self) -> None:
        self.runs = read_runs(self.request.folder, self.request.measure)

    def _run(self, folder: Path, arm: Arm) -> None:
        own = {
            Arm.AS_IS: None,
            Arm.RULES: Rules(path=self._file("rules.csv"), needs=self.needs),
            Arm.CONTROL: Rules(path=self._file("control.csv"), needs=self.needs),
        }[arm]
        variables = runs.environment(self.site, folder, own, self.library)
        command = runs.command_of(self.request.command, folder)
        run(folder, command, variables, self._limit_s())

    def _file(self, name: str) -> Path:
        return (self.request.folder / name).resolve()

    def _limit_s(self) -> float:
        taken = [one.outcome.duration_s for one in self.runs if one.measured is not None]
        return _PATIENCE * max(taken) + _MORE_S if taken else self.request.budget_s

    # --- what comes next --------------------------------------------------------------------------

    def _active(self) -> tuple[Arm, ...]:
        """Kinds that still have something to tell."""
        rules = self._compared(Arm.RULES)
        found = []
        if rules is None or not self._is_told(rules):
            found.append(Arm.RULES)
        # Where rules change the job, bad ones have nothing to add.
        if (found or rules is None or not rules.changes_it) and self._wants_control():
            found.append(Arm.CONTROL)
        return (Arm.AS_IS, *found) if found else ()

    def _compared(self, arm: Arm) -> Compared | None:
        return judging.compared_runs(self.runs, arm, rate=self.request.rate)

    def _is_told(self, found: Compared) -> bool:
        """Whether a kind is told apart, or cannot be within the budget."""
        if is_over(found):
            return True
        n_rounds = found.speed.n_launches
        n_more = int((self.request.budget_s - self._spent_s()) / self._round_s(found.arm))
        return is_hopeless(found, min(MOST_ROUNDS, n_rounds + max(0, n_more)))

    def _wants_control(self) -> bool:
        """Whether the control is not yet told apart, answers calls, and ends in time."""
        if self.control is None or self._control_timed_out():
            return False
        done = judging.good(self.runs, Arm.CONTROL)
        if done and not _hits(done):
            return False
        found = self._compared(Arm.CONTROL)
        return found is None or not self._is_told(found)

    def _control_timed_out(self) -> Run | None:
        ended = (one for one in self.runs if one.arm is Arm.CONTROL and one.outcome.timed_out)
        return next(ended, None)

    def _next(self) -> Arm | None:
        active = self._active()
        if not active:
            return None
        counts = {arm: len(judging.good(self.runs, arm)) for arm in active}
        n_rounds = min(counts.values())
        if max(counts.values()) == n_rounds and self._is_enough(n_rounds, active):
            return None
        return next(arm for arm in runs.turn(n_rounds, active) if counts[arm] <= n_rounds)

    def _is_enough(self, n_rounds: int, active: Sequence[Arm]) -> bool:
        if n_rounds >= MOST_ROUNDS:
            return True
        left_s = self.request.budget_s - self._spent_s()
        return n_rounds > 0 and self._round_s(*active) > left_s

    def _spent_s(self) -> float:
        return sum(one.outcome.duration_s for one in self.runs)

    def _round_s(self, *active: Arm) -> float:
        """What a round of these kinds takes at the most, the job as it is among them."""
        return sum(
            max(one.outcome.duration_s for one in found)
            for arm in {Arm.AS_IS, *active}
            if (found := judging.good(self.runs, arm))
        )

    # --- what is said, and what stops it ----------------------------------------------------------

    def _tell(self) -> None:
        last = self.runs[-1]
        said = last.measured
        if said is None:
            self.reporter.say(
                f"Run {last.number} {last.arm.words} {last.outcome.words}; kept: {last.folder}"
            )
            return
        hits = (
            f", rules answered {last.answers.hits} of {last.answers.calls} calls"
            if (last.answers)
            else ""
        )
        steps = f", {said.n_steps} steps" if said.n_steps is not None else ""
        self.reporter.say(
            f"Run {last.number} {last.arm.words}: {said.value:.6g} "
            f"({in_words(said.what)}{steps}{hits}), {format_time(1e6 * last.outcome.duration_s)}"
        )

    def _check(self) -> None:
        """Stop where more runs would tell no more."""
        last = self.runs[-1]
        if last.measured is None:
            self._check_failed(last)
        elif last.arm is Arm.RULES:
            self._check_rules(last)

    def _check_failed(self, last: Run) -> None:
        if last.arm is Arm.CONTROL and last.outcome.timed_out:
            return  # bad rules may be as bad as that: the answer says so
        self.failed[last.arm] += 1
        first = last.arm is Arm.AS_IS and not judging.good(self.runs, Arm.AS_IS)
        if not first and self.failed[last.arm] < _TRIES:
            return
        again = "" if first else " again"
        raise LaunchError(
            lay([f"the job {last.arm.words}{again} {last.outcome.words}", *_tail(last.folder)]),
            where=str(last.folder),
            hint="stdout.log and stderr.log there say more. The same command goes on with the runs "
            "that ended well.",
        )

    def _check_rules(self, last: Run) -> None:
        if last.answers is None:
            raise MachineError(
                "no rank loaded the plugin in the runs with the rules: what runs differ by says "
                "nothing of the rules",
                where=str(last.folder),
                hint="let the launcher hand NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE and "
                "RCCLTUNE_* to the ranks (mpirun -x, the container's -e), and see whether their "
                "library loads tuners (rccltune plugin --check). gloo and MPI back ends load none.",
            )
        if not last.answers.hits:
            raise TooLittleDataError(
                lay([f"the rules answered none of {last.answers.calls} calls", *self._why(last)]),
                where=str(last.folder),
                hint="rules for these sizes, ranks and nodes are needed: rccltune workload "
                f"{last.folder}/record-*.csv says what the job calls.",
            )

    def _why(self, last: Run) -> list[str]:
        """In the words of rccltune why."""
        files = [*sorted(last.folder.glob("plugin-*.log")), last.folder / "stdout.log"]
        try:
            found = job.explain_job([*files, self._file("rules.csv")])
        except RccltuneError as error:
            return [f"  {error.message}"]
        return [f"  {one.where}: {one.kind.value}: {one.text}" for one in found.answers[:8]]

    def answer(self) -> Answer:
        """All that is known now.

        Raises:
            TooLittleDataError: too few rounds fitted into the budget.
        """
        found = self._compared(Arm.RULES)
        n_rounds = found.speed.n_launches if found else 0
        if n_rounds < FEWEST_ROUNDS:
            wanted = 60 * int(1 + self._spent_s() * FEWEST_ROUNDS / max(1, n_rounds) / 60)
            raise TooLittleDataError(
                f"{n_rounds} rounds fit into the budget, and {FEWEST_ROUNDS} are the fewest that "
                "tell anything",
                where=str(self.request.folder),
                hint=f"give --budget {wanted // 60}m (the same command goes on), or let the "
                "job do fewer steps.",
            )
        late = self._control_timed_out()
        taken = [one.outcome.duration_s for one in judging.good(self.runs, Arm.AS_IS)]
        what = next(one.measured.what for one in self.runs if one.measured is not None)
        return Answer(
            what=what,
            runs=tuple(self.runs),
            rules=found,
            control=self._compared(Arm.CONTROL),
            slower_than=late.outcome.limit_s / max(taken) if late and late.answers else None,
            control_hits=_hits([one for one in self.runs if one.arm is Arm.CONTROL]),
            drift=judging.drift(self.runs),
            differences=judging.differences(self.runs),
            rate=self.request.rate,
            simulated=self.simulated or _is_simulated(self.runs),
        )


def _hits(runs: Sequence[Run]) -> int:
    return sum(one.answers.hits for one in runs if one.answers is not None)


def _check_same(path: Path, wanted: JobFile) -> None:
    hint = "move this folder away, or run the other job in a folder of its own."
    kept = schema.read_json(JobFile, path.read_bytes(), str(path), hint)
    if kept != wanted:
        names = [n for n in JobFile.__slots__ if getattr(kept, n) != getattr(wanted, n)]
        raise CommandLineError(
            f"runs of another job are kept here; not the same: {', '.join(names)}",
            where=str(path),
            hint=hint,
        )


def _rule_file(request: Request) -> Path:
    if request.rules is not None:
        if not request.rules.is_file():
            raise InputFileError("there is no such rule file", where=str(request.rules))
        return request.rules
    if request.session is None:
        raise CommandLineError(
            "neither a session nor a rule file",
            hint="name the session that was tuned, or give --rules FILE.",
        )
    found = verdict_store.used_rule_paths(request.session)
    if len(found) != 1:
        named = ", ".join(path.name for path in found) or "none"
        raise CommandLineError(
            f"the session has not one rule file: {named}",
            where=str(request.session),
            hint="give --rules FILE; rccltune tune or rccltune emit-config makes one.",
        )
    return found[0]


def _curves(folder: Path | None, reporter: Reporter) -> tuple[tuple[curves.Curve, ...], bool]:
    """For the worst settings; a session without samples has none."""
    if folder is None:
        return (), False
    try:
        done = fit_session(folder, reporter=reporter)
    except TooLittleDataError:
        return (), store.open_session(folder).simulated
    return done.curves, done.session.simulated


def _tail(folder: Path) -> list[str]:
    """The last lines of what it said."""
    for name in ("stderr.log", "stdout.log"):
        with (folder / name).open("rb") as stream:
            stream.seek(0, 2)
            stream.seek(max(0, stream.tell() - 4096))
            lines = stream.read().decode("utf-8", "replace").strip().splitlines()
        if lines:
            return [f"  {line[:200]}" for line in lines[-5:]]
    return []


def _is_simulated(runs: Sequence[Run]) -> bool:
    for one in runs:
        with (one.folder / "stdout.log").open("rb") as stream:
            if b"# SIMULATED" in stream.read(1 << 16):
                return True
    return False


def written(folder: Path, found: Answer) -> Path:
    """Keep the answer beside the runs that it was made from, to be made again from them."""
    path = folder / "answer.json"
    write_atomically(path, json.dumps(found.as_plain(), indent=1))
    return path
