"""Two sides measured in turns: inside one process where they can be, else in starts of all ranks.

Inside a process (same library and variables, our plugin on both sides) communicators are what is
repeated, and each has both sides at every size right after each other. Two rule files cannot be in
one communicator: communicators of either take turns. Across processes each start of all ranks is
one repeat, A B B A: what a process adds to its times no communicator shows.

Every start calls the sizes in the same order: on 2 x H200 the order alone moved 1 MiB by 2 %.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rccltune.compare import judge_sizes
from rccltune.compare.judge_sizes import A, B
from rccltune.compare.sides import Side
from rccltune.measure import hopeless_runs, passes, rank_program
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import Instrument
from rccltune.measure.ongoing_sweep import refuse_hidden_choices
from rccltune.measure.passes import SweepScope
from rccltune.measure.rank_program import WaitingRanks
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.failure import Failure
from rccltune.model.reporter import Progress, Reporter
from rccltune.model.settings import BASELINE, LL128_FORCED, RULES, Role, Setting
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective, Protocol
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.hangs_and_crashes import is_tried_again, most_failures, wrong_rows
from rccltune.ranks.plan import GRAPH, CollectiveCall, Label, Step
from rccltune.ranks.runs import EndFile, Run

if TYPE_CHECKING:
    import pandas as pd

# What communicators are for; a side's letter stands behind the word where they are of one side.
ASK: Final = "ask"
COMPARE: Final = "compare"
REFINE: Final = "refine"
# Timings of a size in a start; inside a process A B B A has as many of each side.
_TIMINGS: Final = 2
_TURNS: Final = ((A, B, B, A), (B, A, A, B))
# Of sizes with which B hangs or crashes; then the rest is left alone.
_MOST_FAILED: Final = 3

# What is derived from the runs, until another one is there.
_OF_RUNS: Final = ("_run_that_counts", "captures", "same")

Cell: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSide:
    """A side where it is measured.

    Attributes:
        answers: what our plugin answers at single sizes, whatever the side answers elsewhere.
    """

    letter: str
    side: Side
    instrument: Instrument
    answers: Mapping[Cell, Setting] = field(default_factory=dict)

    @property
    def setting(self) -> Setting:
        """Setting that its steps ask the plugin for; the site as it is has none."""
        return BASELINE if self.side.answer is None else self.side.answer

    def setting_at(self, call: CollectiveCall) -> Setting:
        """Setting that a step with this call asks the plugin for."""
        return self.answers.get(cell_of(call), self.setting)

    @property
    def shares(self) -> tuple[object, ...]:
        """Library and variables: what two sides must share to run the same kernels."""
        ground = self.instrument.ground
        return (ground.library.file, tuple(sorted(ground.added)))


@dataclass(frozen=True, slots=True)
class SideFailure:
    """A hang, a crash or a kill of a side.

    Attributes:
        cell: collective and size that were called; None where a communicator was being made.
    """

    letter: str
    cell: Cell | None
    end: EndFile
    run: Run


@dataclass(kw_only=True)
class OngoingComparison:
    """A comparison under way.

    Attributes:
        sides: A, B, and a third one where it explains what they differ by.
        scope: sizes one an octave, type, operation and timing.
        n_starts: of either side, or communicators inside a process.
        budget_s: seconds for all starts, None for as many as it takes.
        is_refined: whether sizes beside those that differ are looked at, too.
        is_over: the budget is spent.
    """

    folder: Path
    sides: tuple[MeasuredSide, ...]
    scope: SweepScope
    n_starts: int
    margin: float
    reporter: Reporter
    hosts: HostComparison
    budget_s: float | None = None
    is_refined: bool = True
    is_over: bool = False
    runs: list[Run] = field(default_factory=list)
    _rows: dict[int, pd.DataFrame] = field(default_factory=dict)
    # By side: which rows of which runs, and their table.
    _tables: dict[str, tuple[tuple[tuple[int, int], ...], pd.DataFrame]] = field(
        default_factory=dict
    )
    # Ranks that stay, where one process is both sides.
    _ranks: WaitingRanks | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    @property
    def is_inside(self) -> bool:
        """Whether one process can be both sides."""
        a, b = self.sides[:2]
        return a.side.has_plugin and b.side.has_plugin and a.shares == b.shares

    def read(self) -> None:
        """Read what the folder has already.

        Raises:
            OutputError: a file that is none of ours, with its place.
        """
        self.runs = list(runs.read_runs(self.folder))

    def measure(self) -> None:
        """Measure what is left.

        Raises:
            LaunchError: A cannot run, or B not at all; A computes wrong results.
            MachineError: the library offers a side's setting at no size; a configuration file of
                the site stands against it, or memory.
            SessionError: the disk refuses.
            OutputError: ranks were answered differently.
            KeyboardInterrupt: after everything that was started is gone.
        """
        with self._stack:
            self._ask()
            self._refuse_unoffered()
            self._check_a()
            self._take_turns(COMPARE, list(self.scope.calls()))
            if between := self.between():
                self._take_turns(REFINE, list(self.scope.only(between).calls()))
            self._check_a()
            if self._ranks is not None:
                self._keep(self._ranks.end())

    def between(self) -> dict[Collective, list[int]]:
        """Sizes in bytes beside those at which the sides differ, four an octave."""
        judged = self.judged(only=COMPARE)
        differs = judged[judged["verdict"].isin([one.value for one in judge_sizes.DIFFERS])]
        return self._sizes_beside(set(zip(differs["collective"], differs["nbytes"], strict=True)))

    def _sizes_beside(self, cells: set[tuple[str, int]]) -> dict[Collective, list[int]]:
        """Quarters of an octave beside each of these sizes, where a collective has some."""
        beside: dict[Collective, list[int]] = {}
        for collective, sizes in self.scope.sizes.items():
            for low, high in itertools.pairwise(sizes):
                if {(collective.value, low), (collective.value, high)} & cells:
                    beside.setdefault(collective, []).extend(self._quarters(collective, low, high))
        return beside

    def _quarters(self, collective: Collective, low: int, high: int) -> tuple[int, ...]:
        if not self.is_refined:
            return ()
        n_ranks = self.sides[0].instrument.ground.n_ranks
        sizes = plan.sizes_for(passes.quarters(low, high), collective, n_ranks)
        return tuple(one for one in sizes if low < one < high)

    # --- what ran --------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Let each side call every size once, untimed, so that the library says what ran."""
        if self.is_inside:
            self._complete(self.sides, self.expected_s(0))
            return
        for n, one in enumerate(self.sides, start=1):
            self._complete([one], self.expected_s(len(self.sides) - n))

    def expected_s(self, n_asked: int) -> float:
        """Seconds that it roughly takes where the sides do not differ.

        Args:
            n_asked: sides that are still to be asked what they run.
        """
        n_turns = self.n_starts * len(self.sides)
        asking_s = n_asked * self._cost_s(self._asking(self.sides[0]))
        return asking_s + n_turns * self._turn_s(list(self.scope.calls()))

    def _refuse_unoffered(self) -> None:
        """Stop where the library offers a side's setting nowhere: it would run its own choice."""
        for one in self.sides:
            if self.unoffered_sizes(one) and not any(self._offered(one)):
                hint = "rccltune sweep lists what it offers."
                site = one.instrument.site
                if site.is_gated and one.setting.protocol is Protocol.LL128:
                    hint = f"with LL128 forced it does: {one.side.name}+{'='.join(LL128_FORCED)}."
                raise MachineError(
                    f"{one.letter.upper()} asks for {one.setting}, and the library offers that at "
                    "none of these sizes: it would run its own choice",
                    hint=hint,
                )

    def unoffered_sizes(self, one: MeasuredSide) -> list[int]:
        """Sizes in bytes at which a tuner was asked, and a side's one setting was not offered."""
        if one.setting.role is not Role.FORCED:
            return []
        calls = self.untimed_calls(one)
        calls = calls[(calls["asked"] > 0) & ~np.array(self._offered(one), dtype=bool)]
        return sorted(map(int, calls["nbytes"].unique()))

    def _offered(self, one: MeasuredSide) -> list[bool]:
        """Whether the plugin answered, by untimed call of a side."""
        return [plan.setting_of(word) is not None for word in self.untimed_calls(one)["answer"]]

    def _asking(self, one: MeasuredSide) -> list[Step]:
        """Calls at all sizes and three between each two, and one graph, to see whether it works."""
        steps = []
        for collective, sizes in self.scope.sizes.items():
            between = [
                nbytes
                for low, high in itertools.pairwise(sizes)
                for nbytes in self._quarters(collective, low, high)
            ]
            scope = self.scope.only({collective: {*sizes, *between}})
            for call in scope.calls():
                kind = self.scope.kind_of_check(call) if call.nbytes in sizes else plan.CALL
                kind = plan.CALL if one.side.is_lossy else kind
                steps.append(Step(kind, one.setting_at(call), call))
        first = next(iter(self.scope.calls()))
        if GRAPH in self.scope.timings(first.nbytes, captures=True):
            steps.append(
                Step(
                    plan.MEASURE, one.setting_at(first), first, GRAPH, plan.effort_of(first.nbytes)
                )
            )
        return steps

    def _complete(self, sides: Sequence[MeasuredSide], later_s: float) -> None:
        """Start ranks until nothing is left to ask these sides, without what fails."""
        while not self.is_over and not self._gave_up():
            left: dict[Label, tuple[Step, ...]] = {}
            for one in sides:
                label, bad = self._label(ASK, 0, one), self.failed_cells(one.letter)
                done = set(itertools.chain(*self._made(label).values()))
                rest = [s for s in self._asking(one) if cell_of(s.call) not in bad]
                if rest := [step for step in rest if step not in done]:
                    left[label] = tuple(rest)
            if not left:
                return
            self._start(sides[0], left, "asking what runs", later_s)

    def untimed_calls(self, one: MeasuredSide) -> pd.DataFrame:
        """Untimed calls of a side, a row a size: columns collective, nbytes, ran, answer and more.

        Columns as :mod:`rccltune.ranks.rows` has them.
        """
        table = self.table(one)
        is_call = table["step"].isin((plan.CHECK, plan.CALL))
        mine = table[is_call & (table["purpose"] == f"{ASK}-{one.letter}")]
        calls: pd.DataFrame = mine.drop_duplicates(["collective", "nbytes"], keep="last")
        return calls

    @cached_property
    def captures(self) -> bool:
        """Whether calls can be captured into graphs by both sides."""
        for one in self.sides:
            table = self.table(one)
            graph_calls = table[
                (table["timing"] == GRAPH) & (table["purpose"] == f"{ASK}-{one.letter}")
            ]
            if len(graph_calls) and not (graph_calls["time_us"] > 0).any():
                return False
        return True

    @cached_property
    def same(self) -> dict[Cell, str]:
        """Sizes at which both ran the same kernels, and how that is known.

        The same algorithm, protocol and channels in the same library and environment. Where a
        release's log names no channels and nobody asked for any, its source may say that they are
        the same (:class:`rccltune.releases.Release`), or both answered one setting.
        """
        a, b = self.sides[:2]
        if a.shares != b.shares:
            return {}
        first, second = (
            {
                (str(collective), int(nbytes)): (plan.setting_of(ran), plan.setting_of(answer))
                for collective, nbytes, ran, answer in zip(
                    *(calls[name] for name in ("collective", "nbytes", "ran", "answer")),
                    strict=True,
                )
            }
            for calls in (self.untimed_calls(one) for one in self.sides)
        )
        how_known: dict[Cell, str] = {}
        for cell, (ran, answer) in first.items():
            other, other_answer = second.get(cell, (None, None))
            if ran is None or ran != other:
                continue
            if ran.channels is not None:
                how_known[cell] = "the same setting"
            elif not any(one and one.channels for one in (answer, other_answer)) and (
                self.scope.idle_source or answer == other_answer is not None
            ):
                how_known[cell] = "the same setting, channels derived"
        return how_known

    # --- turns -----------------------------------------------------------------------------------

    def _take_turns(self, stage: str, calls: Sequence[CollectiveCall]) -> None:
        """Time both sides at these calls, but for those that are equal, wrong or failed."""
        if self.is_inside:
            # One start has all communicators of both sides.
            self._turn(stage, 0, self.sides[0], calls, self._behind_s(stage))
            return
        n_turns = self.n_starts * len(self.sides)
        for number in range(self.n_starts):
            order = self.sides if number % 2 == 0 else self.sides[::-1]
            for at, one in enumerate(order, start=number * len(self.sides) + 1):
                later_s = (n_turns - at) * self._turn_s(calls)
                self._turn(stage, number, one, calls, later_s + self._behind_s(stage))
            if self.is_over or self._gave_up():
                return

    def _turn_s(self, calls: Sequence[CollectiveCall]) -> float:
        """Seconds that one side roughly takes at these calls, once."""
        return self._cost_s(self._timing(Label(COMPARE, 1), A, self._to_time(calls)))

    def _cost_s(self, steps: Sequence[Step]) -> float:
        ground = self.sides[0].instrument.ground
        start_s = 0.0 if self.is_inside else passes.start_s(ground)
        return start_s + passes.expected_s({Label(COMPARE, 1): steps}, ground)

    def _behind_s(self, stage: str) -> float:
        """Seconds behind a stage: sizes between, then the reasons, as it looks so far."""
        if not self.is_refined:
            return 0.0
        timed = self.timings()
        middle = timed.pivot_table(
            values="time_us", index=["collective", "nbytes"], columns="side", aggfunc="median"
        )
        if not {A, B} <= set(middle.columns):
            return 0.0
        ratios = middle[B] / middle[A]
        cells = set(ratios.index[np.abs(np.log(ratios)) > np.log1p(self.margin)])
        between = self._sizes_beside(cells) if stage == COMPARE else {}
        n_turns = self.n_starts * len(self.sides)
        seconds = n_turns * self._turn_s(list(self.scope.only(between).calls()))
        a, b = self.sides[:2]
        if cells and a.shares != b.shares:
            sizes_of_both = {
                one: {n for name, n in cells if name == one.value} | {*between.get(one, ())}
                for one in self.scope.sizes
            }
            n_turns = self.n_starts * (len(self.sides) + 1)
            seconds += n_turns * self._turn_s(list(self.scope.only(sizes_of_both).calls()))
        return seconds

    def _turn(
        self,
        stage: str,
        number: int,
        one: MeasuredSide,
        calls: Sequence[CollectiveCall],
        later_s: float,
    ) -> None:
        """One start of a side; inside a process all communicators that are left in one start."""
        while not self.is_over and not self._gave_up():
            to_time = self._to_time(calls)
            labels = self._labels(stage, number, one)
            left = {
                label: steps
                for label, who in labels.items()
                if (steps := self._timing(label, who, to_time)) and not self._has(label, steps)
            }
            if not left:
                return
            what = {COMPARE: "timing", REFINE: "timing sizes between"}[stage]
            if not self.is_inside:
                what += f", start {number + 1} of {self.n_starts}"
            self._start(one, left, what, later_s)

    def _labels(self, stage: str, number: int, one: MeasuredSide) -> dict[Label, str]:
        """Communicators that a start makes, and whose side each is of: a letter, both letters."""
        if not self.is_inside:
            return {self._label(stage, number, one): one.letter}
        numbers = range(number, self.n_starts)
        if not self._has_two_files:
            rules = next((who.side.digest for who in self.sides if who.side.digest), "")
            return {Label(stage, n, rules): A + B for n in numbers}
        return {
            self._label(stage, n, who): who.letter
            for n in numbers
            for who in (self.sides if n % 2 == 0 else self.sides[::-1])
        }

    @property
    def _has_two_files(self) -> bool:
        return all(one.setting == RULES for one in self.sides)

    def _label(self, stage: str, number: int, one: MeasuredSide) -> Label:
        return Label(f"{stage}-{one.letter}", number, one.side.digest)

    def _timing(
        self, label: Label, whose: str, calls: Sequence[CollectiveCall]
    ) -> tuple[Step, ...]:
        """Steps of one communicator; loops before graphs, and the sizes always in one order."""
        by_letter = {one.letter: one for one in self.sides}
        turns = _TURNS[label.number % 2] if whose == A + B else whose * _TIMINGS
        steps = [
            Step(
                plan.MEASURE,
                by_letter[letter].setting_at(call),
                call,
                self._timing_mode(call),
                plan.effort_of(call.nbytes),
            )
            for call in calls
            for letter in turns
        ]
        checks = []
        if label.purpose.startswith(REFINE) and label.number == 0:
            checks = [
                Step(self.scope.kind_of_check(call), by_letter[letter].setting_at(call), call)
                for call in calls
                for letter in whose
                if not any(one.side.is_lossy for one in self.sides)
            ]
        return (*checks, *passes.loops_first(steps))

    def _timing_mode(self, call: CollectiveCall) -> str:
        """Graphs up to 4 MiB where they work, loops above."""
        return self.scope.timings(call.nbytes, captures=self.captures)[-1]

    def _to_time(self, calls: Iterable[CollectiveCall]) -> list[CollectiveCall]:
        """Calls at which there is something to find out by their times."""
        settled = set(self.same)
        for one in self.sides[1:]:
            settled |= self.failed_cells(one.letter) | self.wrong(one)
        return [call for call in calls if cell_of(call) not in settled]

    def _has(self, label: Label, steps: Sequence[Step]) -> bool:
        """Whether one start made a communicator whole."""
        return any(not Counter(steps) - Counter(parts) for parts in self._made(label).values())

    def _made(self, label: Label) -> dict[int, list[Step]]:
        """Steps that were made for a label, by run."""
        return {
            run.number: [
                one.step
                for one in run.steps[: run.n_done]
                if one.label == label and one.step is not None
            ]
            for run in self.runs
        }

    # --- starts ----------------------------------------------------------------------------------

    def _start(
        self,
        one: MeasuredSide,
        left: Mapping[Label, tuple[Step, ...]],
        what: str,
        later_s: float,
    ) -> None:
        """Let all ranks make what is left; those of both sides stay for more.

        Args:
            one: the side.
            left: steps, by communicator.
            what: is done, for people.
            later_s: seconds that are expected behind it.
        """
        seconds = self.left_s()
        if seconds is not None and seconds <= 0:
            self.is_over = True
            return
        until = None if seconds is None else time.monotonic() + seconds
        ground = one.instrument.ground
        each_s = list(passes.each_s(left, ground))
        if self._ranks is None:
            each_s[0] += passes.start_s(ground)
        left_s = [later_s + n for n in itertools.accumulate(reversed(each_s), initial=0.0)][::-1]
        name = "both sides" if self.is_inside else f"{one.letter.upper()} ({one.side.name})"

        def show(done: int) -> None:
            done = min(done, len(each_s))
            self.reporter.progress(
                Progress(what=f"{what}: {name}", done=done, of=len(each_s), left_s=left_s[done])
            )

        show(0)
        if self.is_inside:
            if self._ranks is None:
                self._ranks = self._stack.enter_context(self._waiting(one))
            run = self._make(self._ranks, left, until, show)
            if run.ended is not None:
                self._ranks = None
        else:
            with self._waiting(one) as ranks:
                self._make(ranks, left, until, show)
                run = ranks.end()
        self._keep(run)
        self.is_over = until is not None and time.monotonic() >= until
        refuse_hidden_choices([run])
        self._look(run)

    def _waiting(self, one: MeasuredSide) -> AbstractContextManager[WaitingRanks]:
        return rank_program.waiting_ranks(
            one.instrument.ground,
            self.folder,
            site=dict(os.environ),
            with_plugin=one.side.has_plugin,
            largest=max(n for sizes in self.scope.sizes.values() for n in sizes),
            check=self.hosts.check,
        )

    def _make(
        self,
        ranks: WaitingRanks,
        left: Mapping[Label, tuple[Step, ...]],
        until: float | None,
        show: Callable[[int], None],
    ) -> Run:
        """Let ranks make communicators, each with the rules of its side."""
        texts = {each.side.digest: each.side.rules for each in self.sides}
        before = 0
        for label, steps in left.items():
            if label.rules:
                ranks.answer_by(texts[label.rules])

            def grown(n: int, before: int = before) -> None:
                show(before + n)

            run = ranks.make({label: steps}, until=until, show=grown)
            before += len(steps)
            if run.ended is not None:
                break
        return ranks.run

    def _keep(self, latest: Run) -> None:
        """Put a run in the place of what was known of it."""
        self.runs = [*(run for run in self.runs if run.number != latest.number), latest]
        for known in _OF_RUNS:
            vars(self).pop(known, None)

    def left_s(self) -> float | None:
        """Seconds that the budget leaves, None without one."""
        return None if self.budget_s is None else self.budget_s - self.spent_s

    @property
    def spent_s(self) -> float:
        """Seconds that starts of all ranks took so far."""
        return sum(run.ended.duration_s for run in self.runs if run.ended)

    def _look(self, run: Run) -> None:
        """Stop where a side cannot run; say what failed otherwise."""
        try:
            hopeless_runs.raise_if_hopeless(run)
        except MachineError as error:
            raise LaunchError(error.message, where=error.where, hint=error.hint) from error
        mine = [one for one in self.failed() if one.run.number == run.number]
        for one in mine:
            which = next(each for each in self.sides if each.letter == one.letter)
            sentence = f"{one.letter.upper()} ({which.side.name}): {_words(one)}"
            again = [each for each in self.failed() if each.letter == one.letter]
            again = [each for each in again if each.cell == one.cell or one.letter == A]
            most = most_failures(one.end.failure)
            if (one.cell is None or one.letter == A) and len(again) >= most:
                raise LaunchError(
                    f"{sentence}, {'twice' if most == 2 else f'{most} times'}: "
                    "nothing can be compared",
                    where=str(run.folder / runs.LOG_FILE),
                    hint="mend this side first"
                    + ("; --timeout gives slow steps longer." if one.cell else "."),
                )
            is_out = one.cell is not None and one.cell in self.failed_cells(one.letter)
            self.reporter.say(f"{sentence}: {'the rest goes on' if is_out else 'tried once more'}")

    def failed(self) -> Iterator[SideFailure]:
        """Hangs, crashes and kills so far."""
        by_setting = {str(one.setting): one.letter for one in self.sides[::-1]}
        for run in self.runs:
            end = run.ended
            if end is None or end.failure is None:
                continue
            at = next((one for one in run.steps if one.line == end.line), None)
            at = at or (run.steps[0] if run.steps else None)
            letter = A if at is None else at.label.purpose.rpartition("-")[2]
            step = None if at is None else at.step
            if letter not in {each.letter for each in self.sides}:
                letter = A if step is None else by_setting[str(step.setting)]
            cell = None if step is None else cell_of(step.call)
            yield SideFailure(letter, cell, end, run)

    def failed_cells(self, letter: str) -> set[Cell]:
        """Sizes with which a side hangs or crashes; who is killed from outside is tried again."""
        if letter == A:
            return set()
        failures_at: dict[Cell, list[Failure]] = {}
        for one in self.failed():
            if one.letter == letter and one.cell is not None and one.end.failure is not None:
                failures_at.setdefault(one.cell, []).append(one.end.failure)
        return {cell for cell, failures in failures_at.items() if not is_tried_again(failures)}

    def _gave_up(self) -> bool:
        return any(len(self.failed_cells(one.letter)) >= _MOST_FAILED for one in self.sides)

    # --- results ---------------------------------------------------------------------------------

    def table(self, one: MeasuredSide) -> pd.DataFrame:
        """Rows of a side's runs; inside a process those of both."""
        mine = self.runs_of(one)
        state = tuple((run.number, run.n_done) for run in mine)
        letters = A + B if self.is_inside else one.letter
        known = self._tables.get(letters)
        if known is None or known[0] != state:
            # A table without rows has numbers in every column.
            table = rows.rows_of_runs(mine, self._rows).astype({"purpose": "object"})
            known = self._tables[letters] = state, table
        return known[1]

    def runs_of(self, one: MeasuredSide) -> list[Run]:
        """Runs of a side; inside a process those of both."""
        return [run for run in self.runs if self.is_inside or _letter_of(run) == one.letter]

    def wrong(self, one: MeasuredSide) -> set[Cell]:
        """Sizes at which results of a side were wrong."""
        wrong = wrong_rows(self.table(one))
        is_mine = wrong["purpose"].str.endswith(f"-{one.letter}")
        if self.is_inside and not self._has_two_files:
            is_mine = wrong["setting"] == str(one.setting)
        mine = wrong[is_mine]
        return {(str(c), int(n)) for c, n in zip(mine["collective"], mine["nbytes"], strict=True)}

    def _check_a(self) -> None:
        wrong = sorted(self.wrong(self.sides[0]), key=lambda cell: cell[1])
        if wrong:
            collective, nbytes = wrong[0]
            raise LaunchError(
                f"A ({self.sides[0].side.name}) computes wrong results: {collective} at "
                f"{format_size(nbytes)}: nothing can be held against it",
                where=str(self.folder / runs.FOLDER),
            )

    def timings(self, only: str | None = None) -> pd.DataFrame:
        """Timings of communicators that were made whole, as ``judge_sizes`` wants them.

        Args:
            only: of this stage; None for all.
        """
        import pandas as pd

        parts = []
        for one in self.sides:
            table = self.table(one)
            timed = table[(table["step"] == plan.MEASURE) & (table["time_us"] > 0)]
            stage = timed["purpose"].map(lambda word: word.partition("-")[0])
            letter = timed["purpose"].map(lambda word: word.partition("-")[2])
            is_mine = (letter == one.letter) | (
                (letter == "") & (timed["setting"] == str(one.setting))
            )
            is_stage = stage == only if only else stage.isin((COMPARE, REFINE))
            mine = timed[is_mine & is_stage]
            names = zip(mine["run"], mine["number"], mine["purpose"], strict=True)
            mine = mine[np.array([self._counts(*name) for name in names], dtype=bool)]
            parts.append(
                pd.DataFrame(
                    {
                        "side": one.letter,
                        # Of no rows the words are objects, which pandas over Arrow does not add.
                        "replicate": stage[mine.index].astype(str) + mine["number"].astype(str),
                        "collective": mine["collective"],
                        "nbytes": mine["nbytes"],
                        "timing": mine["timing"],
                        "time_us": mine["time_us"],
                    }
                )
            )
        joined: pd.DataFrame = pd.concat(parts, ignore_index=True)
        return joined

    @cached_property
    def _run_that_counts(self) -> dict[tuple[str, int], int]:
        """Number of the run that counts of each communicator, by its purpose and number.

        It is the one that has most of its steps, all of them done, and did not fail there.
        """
        best: dict[tuple[str, int], tuple[int, int]] = {}
        for run in self.runs:
            n_steps = Counter((one.label.purpose, one.label.number) for one in run.steps)
            unfinished = {(one.label.purpose, one.label.number) for one in run.steps[run.n_done :]}
            last = run.steps[-1].label if run.steps else None
            for (purpose, number), n in n_steps.items():
                is_last = last is not None and (last.purpose, last.number) == (purpose, number)
                failed = run.ended is not None and run.ended.failure is not None
                if (purpose, number) in unfinished or (is_last and failed):
                    continue
                known = best.get((purpose, number), (0, 0))
                best[purpose, number] = max(known, (n, run.number))
        return {name: run for name, (_, run) in best.items()}

    def _counts(self, run: int, number: int, purpose: str) -> bool:
        return self._run_that_counts.get((purpose, number)) == run

    def judged(self, only: str | None = None) -> pd.DataFrame:
        """Verdicts by size of what was timed."""
        return judge_sizes.judge(self.timings(only), margin=self.margin, paired=self.is_inside)


def cell_of(call: CollectiveCall) -> Cell:
    """Collective and size of a call."""
    return call.collective.value, call.nbytes


def _letter_of(run: Run) -> str:
    return run.steps[0].label.purpose.rpartition("-")[2] if run.steps else ""


def _words(one: SideFailure) -> str:
    at = (
        "the making of a communicator"
        if one.cell is None
        else (f"{one.cell[0]} at {format_size(one.cell[1])}")
    )
    how = "failed" if one.end.failure is None else one.end.failure.words
    return f"{at} {how}{f' ({one.end.words})' if one.end.words else ''}"
