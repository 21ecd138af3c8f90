"""A sweep in two passes: every setting once and roughly, then those that could win with care.

The first pass is one communicator with our plugin in which every setting is checked and timed at
every size. The second has processes without the plugin, which are the baseline, and processes with
it, in turns, each with a few communicators; in each communicator the settings follow each other
at every size, so that what is compared is measured close together.

A setting that hangs, crashes or computes wrong results is set aside for that collective, and the
rest goes on in new processes. What has a row of every rank is never measured again: whatever is
killed, the same sweep goes on from the next row.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.model import (
    BASELINE,
    DEFAULT_VARIANT,
    KNOWN_VARIANTS,
    SILENT,
    Collective,
    LaunchError,
    MachineError,
    Placement,
    Quarantine,
    Reporter,
    Role,
    Setting,
    Variant,
    format_size,
)
from rccltune.perf import plan, ranks, rows, samples
from rccltune.perf.plan import FINE, GRAPH, LOOP, ROUGH, Call, Step
from rccltune.perf.ranks import Ground, Order
from rccltune.perf.rows import Run, setting_of

if TYPE_CHECKING:
    import pandas as pd

TIMINGS: Final = ("auto", GRAPH, LOOP)
N_COMMUNICATORS: Final = 4
_IN_ONE_PROCESS: Final = 2
# A setting that is so near to the best at some size could win.
_NEAR: Final = 1.25
# Failures of the library as it is after which nothing else is tried.
_MOST_FAILURES: Final = 2
# Where both clocks measure, they should say the same.
_AGREE: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to measure.

    Attributes:
        sizes: of each collective, in bytes, as they can be called.
        settings: that the user names; empty for the usual ones.
        counts: channel counts that each setting is tried with beside the library's own.
        timing: one of TIMINGS.
        n_communicators: of each process kind in the second pass, in all.
        checked_up_to: largest call in bytes whose results are checked; None checks all, 0 none.
    """

    sizes: Mapping[Collective, tuple[int, ...]]
    placements: tuple[Placement, ...]
    dtype: str
    op: str
    settings: tuple[Setting, ...] = ()
    counts: tuple[int, ...] = ()
    variants: tuple[Variant, ...] = (DEFAULT_VARIANT,)
    timing: str = "auto"
    n_communicators: int = N_COMMUNICATORS
    checked_up_to: int | None = None

    def settings_of(self, collective: Collective, variant: Variant) -> tuple[Setting, ...]:
        """Settings that are tried; none where no tuner is asked."""
        if not collective.is_tunable or variant.path:
            return ()
        if self.settings:
            return self.settings
        usual = plan.usual_settings(collective)
        return (*usual, *(replace(s, channels=n) for s in usual for n in self.counts))

    def calls(self, variant: Variant) -> Iterator[Call]:
        """Every call, by collective, size and placement."""
        for collective, sizes in self.sizes.items():
            if variant.serves and collective not in variant.serves:
                continue
            for nbytes in sizes:
                for placement in plan.placements_for(self.placements, collective):
                    yield Call(collective, self.dtype, self.op, placement, nbytes)

    def clocks(self, nbytes: int, *, captures: bool) -> tuple[str, ...]:
        """Clocks that a size is timed by.

        Args:
            nbytes: of the call.
            captures: whether calls can be captured into a graph here.
        """
        if self.timing != "auto":
            return (self.timing,)
        if not captures or nbytes > samples.GRAPH_UP_TO:
            return (LOOP,)
        return (LOOP, GRAPH) if nbytes == samples.GRAPH_UP_TO else (GRAPH,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What one start of all ranks is to measure, whole.

    Attributes:
        communicators: steps of each of its communicators.
    """

    purpose: str
    variant: Variant
    number_of: int
    plugin: bool
    communicators: tuple[tuple[Step, ...], ...]

    @property
    def what(self) -> str:
        """For people."""
        who = "settings" if self.plugin else "the library as it is"
        where = "" if self.variant == DEFAULT_VARIANT else f" in {self.variant.name}"
        return f"{who}{where}, {'once each' if self.purpose == rows.ROUGH else 'with care'}"

    def is_of(self, run: Run) -> bool:
        """Whether a run measured a part of it."""
        file = run.file
        return (file.purpose, file.variant, file.number_of, file.plugin) == (
            self.purpose,
            self.variant.name,
            self.number_of,
            self.plugin,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is."""

    done: int
    of: int
    what: str


@dataclass(slots=True, kw_only=True)
class Measuring:
    """A sweep under way.

    Attributes:
        runs: of the session so far.
        budget_s: seconds for all runs of the session, None for as many as it takes.
        is_over: the budget is spent.
    """

    ground: Ground
    wanted: Wanted
    session: Path
    reporter: Reporter
    budget_s: float | None = None
    site: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    runs: list[Run] = field(default_factory=list)
    is_over: bool = False
    _rows: dict[int, pd.DataFrame] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    _warned: set[str] = field(default_factory=set)

    @property
    def variants(self) -> dict[str, Variant]:
        """All variants by name."""
        return {**KNOWN_VARIANTS, **{one.name: one for one in self.wanted.variants}}

    def table(self) -> pd.DataFrame:
        """Rows of all runs."""
        return rows.table(self.runs, self._rows)

    def aside(self) -> tuple[Quarantine, ...]:
        """Settings that are measured no more."""
        known = self.variants
        mine = [run for run in self.runs if run.file.variant in known]
        return samples.set_aside(mine, rows.table(mine, self._rows), known)

    def left(self, unit: Unit) -> dict[int, list[Step]]:
        """Steps of a unit that are still to be made, by communicator."""
        done = {
            (run.file.communicators[one.communicator], one.step)
            for run in self.runs
            if unit.is_of(run) and not run.hidden_choices
            for one in run.steps[: run.n_done]
        }
        barred = {
            (one.collective, one.setting)
            for one in self.aside()
            if one.variant.name == unit.variant.name
        }
        found = {
            number: [
                step
                for step in steps
                if (number, step) not in done and (step.call.collective, step.setting) not in barred
            ]
            for number, steps in enumerate(unit.communicators)
        }
        return {number: steps for number, steps in found.items() if steps}

    def left_s(self) -> float | None:
        """Seconds that the budget leaves, None without one."""
        if self.budget_s is None:
            return None
        return self.budget_s - sum(run.ended.duration_s for run in self.runs if run.ended)


def read(measuring: Measuring) -> None:
    """Read what the session has already.

    Raises:
        OutputError: a file that is none of ours, with its place.
    """
    measuring.runs = list(rows.read_runs(measuring.session))


def sweep(measuring: Measuring) -> None:
    """Measure what is left of both passes.

    Raises:
        LaunchError: the library as it is fails.
        MachineError: the library, the devices or a configuration file of the site stand against it.
        SessionError: the disk refuses.
        OutputError: ranks were answered differently.
        KeyboardInterrupt: after everything that was started is gone.
    """
    for stage in (rough_units, loop_units, fine_units):
        for unit in stage(measuring.wanted, measuring.table()):
            _complete(measuring, unit)
            if measuring.is_over:
                return


def _complete(measuring: Measuring, unit: Unit) -> None:
    """Run a unit until nothing of it is left, without what fails."""
    total = sum(map(len, unit.communicators))
    while left := measuring.left(unit):
        seconds = measuring.left_s()
        if seconds is not None and seconds <= 0:
            measuring.is_over = True
            return
        n_left = sum(map(len, left.values()))

        def grown(n_rows: int, before: int = total - n_left) -> None:
            progress = Progress(done=min(before + n_rows, total), of=total, what=unit.what)
            measuring.reporter.progress(progress)

        grown(0)
        order = Order(
            purpose=unit.purpose,
            variant=unit.variant,
            number_of=unit.number_of,
            communicators=tuple(left),
            plugin=unit.plugin,
            said=unit.plugin and unit.purpose == rows.ROUGH,
        )
        made = ranks.run(
            measuring.ground,
            order,
            list(left.values()),
            measuring.session,
            site=measuring.site,
            most_s=seconds,
            grown=grown,
        )
        measuring.runs.append(made)
        _judge(measuring, unit, made)


def _judge(measuring: Measuring, unit: Unit, made: Run) -> None:
    """Go on, without a setting, or stop."""
    refuse_hidden_choices([made])
    ranks.stop_if_hopeless(made)
    _warn_of_wrong(measuring, made)
    end = made.ended
    if end is None or end.failure is None:
        if made.n_done < len(made.steps):
            measuring.is_over = True
        return
    what = ranks.setting_words(end)
    if end.setting is not None:
        measuring.reporter.say(
            f"{what} {end.failure.words}{_said(end.words)}: it is set aside, the rest goes on"
        )
        return
    name = f"{unit.plugin} {unit.variant.name}"
    measuring._failures[name] += 1  # noqa: SLF001 - its own module's
    if measuring._failures[name] >= _MOST_FAILURES:  # noqa: SLF001 - ditto
        who = "with our plugin answering nothing" if unit.plugin else "as it is, without our plugin"
        raise LaunchError(
            f"the library, {who}, failed twice: {what} {end.failure.words}{_said(end.words)}",
            where=str(made.folder / rows.LOG_FILE),
            hint="mend this first: nothing is to be compared with. rccltune doctor looks for usual "
            "causes; --timeout gives slow steps longer.",
        )
    measuring.reporter.say(
        f"{what} {end.failure.words}{_said(end.words)}, with nothing chosen: tried once more"
    )


def _said(words: str) -> str:
    return f" ({words})" if words else ""


def refuse_hidden_choices(runs: Iterable[Run]) -> None:
    """Stop where a configuration file chooses what was cleared.

    Raises:
        MachineError: one does.
    """
    for run in runs:
        if run.hidden_choices:
            said = ", ".join(f"{name}={value}" for name, value in run.hidden_choices)
            raise MachineError(
                f"the library still sees {said}, though it was cleared: a configuration file sets "
                "it, and no setting can be measured then",
                where=str(run.folder / "rank-0.csv"),
                hint="look at NCCL_CONF_FILE, ~/.nccl.conf, ~/.rccl.conf and /etc/*ccl.conf, and "
                "take it out while measuring; jobs would not follow rules either.",
            )


def _warn_of_wrong(measuring: Measuring, made: Run) -> None:
    """Say loudly which settings compute wrong results."""
    table = rows.table([made], measuring._rows)  # noqa: SLF001 - its own module's
    wrong = table[(table["step"] == plan.CHECK) & (table["wrong"] > 0)]
    for (collective, setting), own in wrong.groupby(["collective", "setting"], sort=False):
        name = f"{collective} {setting} {made.file.variant}"
        if name in measuring._warned:  # noqa: SLF001 - ditto
            continue
        measuring._warned.add(name)  # noqa: SLF001 - ditto
        who = "the library's own choice" if setting == str(SILENT) else str(setting)
        sizes = ", ".join(format_size(n) for n in sorted(set(own["nbytes"]))[:3])
        measuring.reporter.say(
            f"WRONG RESULTS: {collective} {who} at {sizes}: {int(own['wrong'].sum())} of "
            f"{int(own['checked'].sum())} elements (runs/{made.number}); it is chosen nowhere"
        )


def rough_units(wanted: Wanted, table: pd.DataFrame) -> list[Unit]:
    """First pass: every setting once, with results checked and what ran said by the library."""
    del table
    return [_rough(wanted, variant) for variant in wanted.variants]


def _rough(wanted: Wanted, variant: Variant) -> Unit:
    checks, timed = [], []
    for call in wanted.calls(variant):
        tried = (SILENT, *wanted.settings_of(call.collective, variant))
        most = wanted.checked_up_to
        kind = plan.CHECK if most is None or call.nbytes <= most else plan.CALL
        checks += [Step(kind, setting, call) for setting in tried]
        timed += [
            Step(plan.MEASURE, setting, call, clock, ROUGH)
            for clock in wanted.clocks(call.nbytes, captures=True)
            for setting in tried
        ]
    return Unit(
        purpose=rows.ROUGH,
        variant=variant,
        number_of=0,
        plugin=True,
        communicators=((*checks, *loops_first(timed)),),
    )


def loops_first(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps in their order, loops before graphs: a captured graph makes later loops dearer."""
    return tuple(sorted(steps, key=lambda step: step.clock == GRAPH))


def captures(table: pd.DataFrame, variant: Variant) -> bool:
    """Whether calls could be captured into graphs; also where that was not tried."""
    own = table[(table["variant"] == variant.name) & (table["clock"] == GRAPH)]
    return own.empty or bool((own["state"] != rows.UNTIMED).any())


def loop_units(wanted: Wanted, table: pd.DataFrame) -> list[Unit]:
    """Sizes that were to be timed by graphs, by loops, where no graph could be captured."""
    found = []
    for variant in wanted.variants:
        if wanted.timing != "auto" or captures(table, variant):
            continue
        steps = [
            Step(plan.MEASURE, setting, call, LOOP, ROUGH)
            for call in wanted.calls(variant)
            if LOOP not in wanted.clocks(call.nbytes, captures=True)
            for setting in (SILENT, *wanted.settings_of(call.collective, variant))
        ]
        found.append(
            Unit(
                purpose=rows.ROUGH,
                variant=variant,
                number_of=1,
                plugin=True,
                communicators=(tuple(steps),),
            )
        )
    return found


def fine_units(wanted: Wanted, table: pd.DataFrame) -> list[Unit]:
    """Second pass: the library as it is, and what could win, in processes that take turns."""
    found = []
    n_processes = math.ceil(wanted.n_communicators / _IN_ONE_PROCESS)
    for number in range(n_processes):
        n_own = min(_IN_ONE_PROCESS, wanted.n_communicators - number * _IN_ONE_PROCESS)
        for variant in wanted.variants:
            captured = captures(table, variant)
            tried = could_win(table, variant)
            for plugin in (False, True):
                steps = _fine(wanted, variant, tried if plugin else None, captured=captured)
                found.append(
                    Unit(
                        purpose=rows.FINE,
                        variant=variant,
                        number_of=number,
                        plugin=plugin,
                        communicators=(steps,) * n_own,
                    )
                )
    return found


_Cells = Mapping[tuple[str, str, str, int], Sequence[Setting]]


def _fine(
    wanted: Wanted, variant: Variant, tried: _Cells | None, *, captured: bool
) -> tuple[Step, ...]:
    """Steps of one communicator; ``tried`` is None without our plugin."""
    steps = []
    for call in wanted.calls(variant):
        cell = (call.collective.value, call.dtype, call.placement.value, call.nbytes)
        settings = (BASELINE,) if tried is None else (SILENT, *tried.get(cell, ()))
        steps += [
            Step(plan.MEASURE, setting, call, clock, FINE)
            for clock in wanted.clocks(call.nbytes, captures=captured)
            for setting in settings
        ]
    return loops_first(steps)


def could_win(table: pd.DataFrame, variant: Variant) -> _Cells:
    """Settings worth measuring with care, at each size where they ran as asked for.

    Those are within 25 % of the best or of the library's own choice at some size, and what the
    library takes by itself.

    Args:
        table: rows of the first pass.
        variant: the environment.

    Returns:
        By collective, type, placement and size.
    """
    rough = table[
        (table["variant"] == variant.name)
        & (table["purpose"] == rows.ROUGH)
        & (table["step"] == plan.MEASURE)
        & table["counts"]
    ]
    rough = samples.by_clock(rough)
    names = ["collective", "dtype", "placement", "nbytes"]
    cells = [rough[name] for name in names]
    own = rough["time_us"].where(rough["setting"] == str(SILENT)).groupby(cells).transform("min")
    best = rough["time_us"].groupby(cells).transform("min")
    limit = own.fillna(best).clip(lower=best) * _NEAR
    near = rough[rough["time_us"] <= limit]
    chosen = set(zip(near["collective"], near["setting"], strict=True))
    chosen |= {
        (collective, str(replace(setting, channels=None)))
        for collective, word in zip(rough["collective"], rough["library"], strict=True)
        if (setting := setting_of(word)) is not None and setting.role is Role.FORCED
    }
    found: dict[tuple[str, str, str, int], list[Setting]] = {}
    for collective, dtype, placement, nbytes, word in zip(
        *(rough[name] for name in (*names, "setting")), strict=True
    ):
        setting = Setting.parse(word)
        if (collective, word) in chosen and setting.role is Role.FORCED:
            settings = found.setdefault((collective, dtype, placement, nbytes), [])
            if setting not in settings:
                settings.append(setting)
    return found


def not_offered(table: pd.DataFrame) -> list[tuple[str, Collective, Setting]]:
    """Settings that the library lets be chosen at no size: variant, collective, setting."""
    timed = table[(table["step"] == plan.MEASURE) & (table["purpose"] == rows.ROUGH)]
    timed = timed[timed["state"] != rows.UNTIMED]
    never = (timed["state"] == rows.NOT_OFFERED).groupby(
        [timed[name] for name in ("variant", "collective", "setting")], sort=False
    )
    return [
        (str(variant), Collective(collective), Setting.parse(str(setting)))
        for (variant, collective, setting), closed in never.all().items()
        if closed
    ]


def strayed(table: pd.DataFrame) -> list[str]:
    """Sentences about times that are no setting's own: where, and why."""
    why = {
        rows.BYPASSED: "the library asked no tuner",
        rows.OVERRIDDEN: "the library ran something else than it was told",
        rows.UNKNOWN: "the library did not say what it ran",
    }
    timed = table[table["state"].isin(list(why))]
    found = []
    for (variant, collective, state), own in timed.groupby(
        ["variant", "collective", "state"], sort=False
    ):
        sizes = f"{format_size(own['nbytes'].min())} to {format_size(own['nbytes'].max())}"
        where = "" if variant == DEFAULT_VARIANT.name else f" in {variant}"
        settings = sorted(set(own["setting"]))
        named = ", ".join(settings) if len(settings) < 4 else f"{len(settings)} settings"
        found.append(
            f"{collective}{where}, {sizes}: {why[str(state)]}, so {len(own)} times of {named} "
            "are no setting's own"
        )
    return found


def clocks_differ(table: pd.DataFrame) -> list[str]:
    """Sentences about sizes at which loop and graph differ by more than 5 %: they should not."""
    own = table[(table["purpose"] == rows.FINE) & (table["nbytes"] == samples.GRAPH_UP_TO)]
    own = own[(own["setting"] == str(BASELINE)) & (own["state"] == rows.GOOD)]
    names = ["variant", "collective", "placement"]
    middle = own.pivot_table(values="time_us", index=names, columns="clock", aggfunc="median")
    if not {LOOP, GRAPH} <= set(middle.columns):
        return []
    ratio = middle[LOOP] / middle[GRAPH]
    return [
        f"{collective} at {format_size(samples.GRAPH_UP_TO)} ({placement} of place) takes "
        f"{value:.2f} times as long launched one by one as in a graph"
        for (_, collective, placement), value in ratio.items()
        if abs(math.log(value)) > math.log1p(_AGREE)
    ]


def expected_s(left: Mapping[int, Sequence[Step]], n_ranks: int) -> float:
    """Seconds that a run roughly takes, start included.

    Args:
        left: steps that are still to be made, by communicator.
        n_ranks: of the communicator.
    """
    if not left:
        return 0.0
    seconds = _START_S + _EACH_RANK_S * n_ranks + _COMMUNICATOR_S * len(left)
    for steps in left.values():
        for step in steps:
            call_us = _LEAST_CALL_US + step.call.nbytes / _BYTES_A_US
            effort = step.effort
            timed = min(max(effort.least_us, effort.least_calls * call_us), effort.most_us)
            seconds += 1e-6 * (1.5 * timed if step.kind == plan.MEASURE else 10 * call_us)
            seconds += _STEP_S
    return seconds


# Of two GPUs of NVIDIA's: a start, a communicator, a step's barriers, and calls of 100 GB/s.
_START_S: Final = 1.0
_EACH_RANK_S: Final = 0.05
_COMMUNICATOR_S: Final = 0.5
_STEP_S: Final = 0.001
_LEAST_CALL_US: Final = 10.0
_BYTES_A_US: Final = 100_000.0
