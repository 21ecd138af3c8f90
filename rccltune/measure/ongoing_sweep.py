"""A sweep under way: units follow each other until nothing of them is left.

Where a setting hangs or crashes (``ranks/hangs_and_crashes.py``) the rest goes on in a new start.
What has a row of every rank is never measured again: whatever is killed, the same sweep goes on
from the next row.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.measure import hopeless_runs, passes, rank_program
from rccltune.measure.hosts import HostComparison
from rccltune.measure.passes import RunPlan, SweepScope
from rccltune.measure.rank_program import LaunchSetup, WaitingRanks
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.failure import ExcludedSetting
from rccltune.model.reporter import Progress, Reporter
from rccltune.model.settings import IDLE, Setting
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.hangs_and_crashes import find_excluded, most_failures, wrong_rows
from rccltune.ranks.plan import GRAPH, GRAPH_UP_TO, LOOP, Label, Step
from rccltune.ranks.runs import EndFile, Run

if TYPE_CHECKING:
    import pandas as pd

# Of a list, for people.
_SHOWN: Final = 3
# A device's clock is not quite constant.
_CLOCK_MOVED: Final = 0.02
# Where both timing modes measure, they should say the same.
_AGREE: Final = 0.05


@dataclass(slots=True, kw_only=True)
class OngoingSweep:
    """A sweep under way, and the ranks that stay for it.

    Attributes:
        runs: of the session so far.
        budget_s: seconds for all runs of the session, None for as many as it takes.
        is_over: the budget is spent.
        largest: bytes of the largest step that ranks are to have buffers for.
        force: go on though several hosts are not alike.
        after_s: seconds that the verb is expected to take behind this sweep, or behind a unit that
            is completed.
        name: of the session, where a verb measures several.
    """

    ground: LaunchSetup
    scope: SweepScope
    session: Path
    reporter: Reporter
    budget_s: float | None = None
    site: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    runs: list[Run] = field(default_factory=list)
    is_over: bool = False
    largest: int = 1
    force: bool = False
    after_s: float = 0.0
    name: str = ""
    _ranks: dict[bool, tuple[WaitingRanks, ExitStack]] = field(default_factory=dict)
    _rows: dict[int, pd.DataFrame] = field(default_factory=dict)
    _table: tuple[tuple[tuple[int, int], ...], pd.DataFrame] | None = None
    _failures: Counter[bool] = field(default_factory=Counter)
    _warned: set[str] = field(default_factory=set)
    _hosts: HostComparison | None = None

    def table(self) -> pd.DataFrame:
        """Rows of all runs."""
        state = tuple((run.number, run.n_done) for run in self.runs)
        if self._table is None or self._table[0] != state:
            self._table = state, rows.rows_of_runs(self.runs, self._rows)
        return self._table[1]

    def excluded(self) -> tuple[ExcludedSetting, ...]:
        """Settings that are measured no more."""
        return find_excluded(self.runs, self.table()) if self.runs else ()

    def failed_rules(self, rules: str) -> tuple[ExcludedSetting, ...]:
        """Collectives with which the rules of a file hung or crashed.

        Args:
            rules: digest of the file.
        """
        return find_excluded(self.runs, rules=rules)

    def remaining(self, unit: RunPlan) -> dict[Label, list[Step]]:
        """Steps of a unit that are still to be made, by communicator."""
        done = Counter(
            (one.label, one.step)
            for run in self.runs
            if run.file.plugin == unit.plugin and not run.hidden_choices
            for one in run.steps[: run.n_done]
        )
        barred = {(one.collective, one.setting) for one in self.excluded()}
        barred |= {
            (one.collective, one.setting)
            for rules in {label.rules for label in unit.communicators}
            for one in self.failed_rules(rules)
        }
        rest: dict[Label, list[Step]] = {}
        for label, steps in unit.communicators.items():
            for step in steps:
                # Made in this order, so that the first ones of equal steps are those that were.
                if done[label, step] > 0:
                    done[label, step] -= 1
                elif (step.call.collective, step.setting) not in barred:
                    rest.setdefault(label, []).append(step)
        return rest

    def remaining_s(self) -> float | None:
        """Seconds that the budget leaves, None without one."""
        if self.budget_s is None:
            return None
        spent = sum(run.ended.duration_s for run in self.runs if run.ended)
        return self.budget_s - spent - sum(ranks.seconds for ranks, _ in self._ranks.values())

    def read(self) -> None:
        """Read what the session has already.

        Raises:
            OutputError: a file that is none of ours, with its place.
        """
        self.runs = list(runs.read_runs(self.session))

    def sweep(self) -> None:
        """Measure what is left of all passes; ranks with our plugin stay until :meth:`close`.

        Raises:
            LaunchError: the library as it is fails.
            MachineError: library, devices or a configuration file of the site stand against it.
            SessionError: the disk refuses.
            OutputError: ranks were answered differently.
            KeyboardInterrupt: after everything that was started is gone.
        """
        for number, stage in enumerate(passes.STAGES, start=1):
            units = [] if self.is_over else stage(self.scope, self.table())
            guessed = [u for later in passes.STAGES[number:] for u in later(self.scope, None)]
            for at, unit in enumerate(units, start=1):
                self._complete(unit, [*units[at:], *guessed])
            self._end(with_plugin=False)

    def complete(self, unit: RunPlan) -> None:
        """Measure what is left of a unit; raises as :meth:`sweep` does."""
        self._complete(unit, ())

    def close(self) -> None:
        """Let all ranks end.

        Raises:
            LaunchError: a process cannot be killed (it hangs in the driver).
        """
        for with_plugin in list(self._ranks):
            self._end(with_plugin=with_plugin)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Let all ranks end behind the block; where it is interrupted they are killed."""
        try:
            yield
        except Exception:
            self.close()
            raise
        except BaseException as interrupted:
            for _, stack in self._ranks.values():
                stack.__exit__(type(interrupted), interrupted, None)
            self._ranks.clear()
            raise
        self.close()

    def expected_s(self, units: Iterable[RunPlan]) -> float:
        """Seconds that what is left of units roughly takes, without starts."""
        return sum(passes.expected_s(self.remaining(one), self.ground) for one in units)

    def _complete(self, unit: RunPlan, later: Sequence[RunPlan]) -> None:
        """Let ranks make a unit until nothing of it is left, without what fails.

        Args:
            unit: what to make.
            later: what comes behind it, as far as is known.
        """
        total, after_s = unit.n_steps, self.after_s
        if self.remaining(unit):
            after_s += self.expected_s(later)
        while not self.is_over and (rest := self.remaining(unit)):
            seconds = self.remaining_s()
            if seconds is not None and seconds <= 0:
                self.is_over = True
                return
            before = total - sum(map(len, rest.values()))
            each_s = list(passes.each_s(rest, self.ground))
            if unit.is_alone or unit.plugin not in self._ranks:
                each_s[0] += passes.start_s(self.ground)
            left_s = [after_s + n for n in itertools.accumulate(reversed(each_s), initial=0.0)]
            show = partial(self._show, unit.what, total, before, left_s[::-1])
            show(0)
            self._make(unit, rest, seconds, show)

    def _make(
        self,
        unit: RunPlan,
        rest: plan.Communicators,
        seconds: float | None,
        show: Callable[[int], None],
    ) -> None:
        """Let ranks make what is left of a unit, as far as it goes."""
        if unit.is_alone:
            stack = ExitStack()
            ranks = stack.enter_context(self._start(unit.plugin))
            with stack:
                self._send(ranks, unit, rest, seconds, show)
                run = ranks.end()
            self._keep(run)
        else:
            run = self._send(self._waiting(unit), unit, rest, seconds, show)
            if run.ended is not None:
                self._end(with_plugin=unit.plugin)
        self._go_on_or_stop(unit, run)

    def _send(
        self,
        ranks: WaitingRanks,
        unit: RunPlan,
        rest: plan.Communicators,
        seconds: float | None,
        show: Callable[[int], None],
    ) -> Run:
        if unit.rules:
            ranks.answer_by(unit.rules)
        until = None if seconds is None else time.monotonic() + seconds
        is_first = ranks.first_us is None
        run = ranks.make(rest, until=until, show=show)
        if is_first and ranks.first_us is not None and unit.purpose == plan.FIRST:
            self.reporter.detail(
                f"a communicator of {self.ground.n_ranks} ranks took {ranks.first_us / 1e6:.1f} s"
            )
        self._keep(run)
        return run

    def _waiting(self, unit: RunPlan) -> WaitingRanks:
        """Ranks that wait, or new ones where those have ended or lack room."""
        known = self._ranks.get(unit.plugin)
        if known is not None and known[0].largest >= self.largest and not known[0].is_over:
            return known[0]
        self._end(with_plugin=unit.plugin)
        stack = ExitStack()
        ranks = stack.enter_context(self._start(unit.plugin))
        self._ranks[unit.plugin] = ranks, stack
        return ranks

    def _start(self, with_plugin: bool) -> AbstractContextManager[WaitingRanks]:
        self._hosts = self._hosts or HostComparison(
            named=self.ground.hosts,
            session=self.session,
            reporter=self.reporter,
            force=self.force,
        )
        return rank_program.waiting_ranks(
            self.ground,
            self.session,
            site=self.site,
            with_plugin=with_plugin,
            largest=self.largest,
            check=self._hosts.check,
        )

    def _end(self, *, with_plugin: bool) -> None:
        """Let ranks end, where there are some."""
        if with_plugin in self._ranks:
            ranks, stack = self._ranks[with_plugin]
            self._keep(ranks.end())
            stack.close()
            del self._ranks[with_plugin]

    def _keep(self, run: Run) -> None:
        """Put a run in the place of what was known of it."""
        self.runs = [*(one for one in self.runs if one.number != run.number), run]

    def _show(
        self, what: str, total: int, before: int, left_s: Sequence[float], n_rows: int
    ) -> None:
        """Tell how far a unit is, of which steps were made before; ``left_s`` is after each."""
        n = min(n_rows, len(left_s) - 1)
        self.reporter.progress(
            Progress(what=what, done=before + n, of=total, left_s=left_s[n], where=self.name)
        )

    def _go_on_or_stop(self, unit: RunPlan, run: Run) -> None:
        """Go on, without a setting, or stop."""
        refuse_hidden_choices([run])
        hopeless_runs.raise_if_hopeless(run)
        self._say_wrong(run)
        end = run.ended
        if end is None or end.failure is None:
            # Its time was over.
            self.is_over = self.is_over or bool(self.remaining(unit))
            return
        why = f"{_under_way(end)} {end.failure.words}{f' ({end.words})' if end.words else ''}"
        if end.setting is not None:
            failed = (*self.excluded(), *self.failed_rules(end.rules))
            is_excluded = any(
                (one.collective, one.setting) == (end.collective, end.setting) for one in failed
            )
            self.reporter.say(
                f"{why}: it is excluded, the rest goes on"
                if is_excluded
                else f"{why}, from outside: tried once more"
            )
            return
        self._failures[unit.plugin] += 1
        if self._failures[unit.plugin] >= most_failures(end.failure):
            who = "with our plugin idle" if unit.plugin else "as it is, without our plugin"
            raise LaunchError(
                f"the library, {who}, failed {_times(self._failures[unit.plugin])}: {why}",
                where=str(run.folder / runs.LOG_FILE),
                hint="mend this first, nothing could be compared: rccltune doctor looks for usual "
                "causes; --timeout gives slow steps longer.",
            )
        self.reporter.say(f"{why}, with nothing chosen: tried once more")

    def _say_wrong(self, run: Run) -> None:
        """Say loudly which settings compute wrong results."""
        table = self.table()
        wrong = wrong_rows(table[table["run"] == run.number])
        for (collective, setting), group in wrong.groupby(["collective", "setting"], sort=False):
            name = f"{collective} {setting}"
            if name in self._warned:
                continue
            self._warned.add(name)
            who = "the library's own choice" if setting == str(IDLE) else str(setting)
            sizes = ", ".join(format_size(n) for n in sorted(set(group["nbytes"]))[:_SHOWN])
            only_replays = not (group["step"] == plan.CHECK).any()
            what = " in replayed graphs" if only_replays else ""
            so = "; --timing loop -o DIR measures without graphs" if only_replays else ""
            self.reporter.say(
                f"WRONG RESULTS{what}: {collective} {who} at {sizes}: {int(group['wrong'].sum())} "
                f"of {int(group['checked'].sum())} elements (runs/{run.number}); it is chosen "
                f"nowhere{so}"
            )


def _times(n: int) -> str:
    return "twice" if n == 2 else f"{n} times"


def _under_way(end: EndFile) -> str:
    """``all_reduce tree/ll``: what was under way when a run failed."""
    if end.collective is None:
        return "the making of a communicator"
    return " ".join([end.collective.value, *([str(end.setting)] if end.setting else [])])


def refuse_hidden_choices(runs: Iterable[Run]) -> None:
    """Stop where a configuration file chooses what was cleared.

    Raises:
        MachineError: one does.
    """
    for run in runs:
        if run.hidden_choices:
            variables = ", ".join(f"{name}={value}" for name, value in run.hidden_choices)
            raise MachineError(
                f"the library still sees {variables}, though it was cleared: a configuration file "
                "sets it, and no setting can be measured then",
                where=str(run.folder / "rank-0.csv"),
                hint="look at NCCL_CONF_FILE, ~/.nccl.conf, ~/.rccl.conf and /etc/*ccl.conf, and "
                "take it out while measuring; jobs would not follow rules either.",
            )


def not_offered(table: pd.DataFrame) -> list[tuple[Collective, Setting]]:
    """Settings that the library lets be chosen at no size."""
    timed = table[(table["step"] == plan.MEASURE) & (table["purpose"] == plan.FIRST)]
    timed = timed[timed["unusable"] != UnusableReason.NO_TIME.value]
    never = (timed["unusable"] == UnusableReason.INELIGIBLE.value).groupby(
        [timed[name] for name in ("collective", "setting")], sort=False
    )
    return [
        (Collective(collective), Setting.parse(str(setting)))
        for (collective, setting), closed in never.all().items()
        if closed
    ]


def remarks_of_ranks(runs: Sequence[Run]) -> list[str]:
    """Sentences about how ranks ran that may have cost them time."""
    remarks = [run.remarks for run in runs]
    sentences = [
        f"ranks were bound to no NUMA node: {reason}"
        for reason in dict.fromkeys(one.unbound for one in remarks if one.unbound)
    ]
    if any(one.keeps_logging for one in remarks):
        sentences.append("this library cannot end its log: small calls in a loop are timed with it")
    return [*sentences[:2], *_clock_changes(runs)]


def _clock_changes(runs: Iterable[Run]) -> Iterator[str]:
    """Sentences about communicators that began and ended with devices at another clock."""
    for run in runs:
        labels = {one.communicator: str(one.label) for one in run.steps}
        changes: dict[int, list[tuple[int, int, int]]] = {}
        for rank, communicator, before, after in run.remarks.clocks:
            if abs(after - before) > _CLOCK_MOVED * before:
                changes.setdefault(communicator, []).append((rank, before, after))
        for communicator, ranks in changes.items():
            rank, before, after = max(ranks, key=lambda one: abs(one[2] - one[1]))
            others = f" and those of {len(ranks) - 1} more" if len(ranks) > 1 else ""
            yield (
                f"runs/{run.number}, {labels.get(communicator, communicator)}: the clock of rank "
                f"{rank}{others} went from {before} to {after} MHz"
            )


def timings_differ(table: pd.DataFrame) -> list[str]:
    """Sentences about sizes at which loop and graph differ by more than 5 %: they should not."""
    both = table[(table["purpose"] == plan.SECOND) & (table["nbytes"] == GRAPH_UP_TO)]
    both = both[(both["setting"] == str(IDLE)) & (both["unusable"] == "")]
    names = ["collective", "placement"]
    middle = both.pivot_table(values="time_us", index=names, columns="timing", aggfunc="median")
    if not {LOOP, GRAPH} <= set(middle.columns):
        return []
    ratio = middle[LOOP] / middle[GRAPH]
    return [
        f"{collective} at {format_size(GRAPH_UP_TO)} ({placement}) takes "
        f"{value:.2f} times as long launched one by one as in a graph"
        for (collective, placement), value in ratio.items()
        if abs(math.log(value)) > math.log1p(_AGREE)
    ]
