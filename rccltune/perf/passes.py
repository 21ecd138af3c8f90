"""The two passes of a sweep: which steps are made in which processes.

The first pass is one communicator with our plugin in which every setting is checked and timed at
every size. The second has processes without the plugin, which are the baseline, and processes with
it, in turns, each with a few communicators; in each communicator the settings follow each other
at every size, so that what is compared is measured close together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from rccltune.model import defaults
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT, SILENT, Role, Setting, Variant
from rccltune.model.vocabulary import Collective, Placement
from rccltune.perf import plan, rows, runs, samples
from rccltune.perf.plan import FINE, GRAPH, LOOP, ROUGH, Call, Step
from rccltune.perf.rows import setting_of
from rccltune.perf.runs import Run

if TYPE_CHECKING:
    import pandas as pd

TIMINGS: Final = ("auto", GRAPH, LOOP)
# A new process adds next to nothing to what new communicators differ by (scripts/bench
# communicators), and costs 1.4 s on two GPUs, 3 on four.
_IN_ONE_PROCESS: Final = 4
# So many settings could win, before anything is known.
_FEW: Final = 3
# A setting that is so near to the best at some size could win; and once it could somewhere, it is
# looked at again wherever it is not hopeless.
_NEAR: Final = 1.1
_HOPELESS: Final = 1.5


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
    timing: str = defaults.TIMING
    n_communicators: int = defaults.COMMUNICATORS
    checked_up_to: int | None = None

    def settings_of(self, collective: Collective, variant: Variant) -> tuple[Setting, ...]:
        """Settings that are tried; none where no tuner is asked."""
        if not collective.is_tunable or variant.path:
            return ()
        if self.settings:
            return tuple(one for one in self.settings if plan.has(collective, one))
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
        return f"{who}{where}, {'once each' if self.purpose == runs.ROUGH else 'with care'}"

    def is_of(self, run: Run) -> bool:
        """Whether a run measured a part of it."""
        file = run.file
        return (file.purpose, file.variant, file.number_of, file.plugin) == (
            self.purpose,
            self.variant.name,
            self.number_of,
            self.plugin,
        )


def rough_units(wanted: Wanted) -> list[Unit]:
    """First pass: every setting once, with results checked and what ran said by the library."""
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
        purpose=runs.ROUGH,
        variant=variant,
        number_of=0,
        plugin=True,
        communicators=((*checks, *loops_first(timed)),),
    )


def loops_first(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps in their order, loops before graphs: a captured graph makes later loops dearer."""
    return tuple(sorted(steps, key=lambda step: step.clock == GRAPH))


def captures(table: pd.DataFrame | None, variant: Variant) -> bool:
    """Whether calls could be captured into graphs; also where that was not tried."""
    if table is None:
        return True
    own = table[(table["variant"] == variant.name) & (table["clock"] == GRAPH)]
    return own.empty or bool((own["state"] != rows.UNTIMED).any())


def loop_units(wanted: Wanted, table: pd.DataFrame | None) -> list[Unit]:
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
                purpose=runs.ROUGH,
                variant=variant,
                number_of=1,
                plugin=True,
                communicators=(tuple(steps),),
            )
        )
    return found


def fine_units(wanted: Wanted, table: pd.DataFrame | None) -> list[Unit]:
    """Second pass: the library as it is, and what could win, in processes that take turns.

    Args:
        wanted: what to measure.
        table: rows of the first pass; None before it is over, when a few settings are taken to be
            worth it everywhere.
    """
    found = []
    n_processes = math.ceil(wanted.n_communicators / _IN_ONE_PROCESS)
    for number in range(n_processes):
        n_own = len(range(number, wanted.n_communicators, n_processes))
        for variant in wanted.variants:
            captured = captures(table, variant)
            tried = _guessed(wanted, variant) if table is None else could_win(table, variant)
            for plugin in (False, True):
                steps = _fine(wanted, variant, tried if plugin else None, captured=captured)
                before = () if plugin or number > 0 else _called(wanted, variant)
                found.append(
                    Unit(
                        purpose=runs.FINE,
                        variant=variant,
                        number_of=number,
                        plugin=plugin,
                        communicators=((*before, *steps), *((steps,) * (n_own - 1))),
                    )
                )
    return found


def _called(wanted: Wanted, variant: Variant) -> tuple[Step, ...]:
    """Calls by which the library as it is says what it runs, before anything is timed."""
    return tuple(Step(plan.CALL, BASELINE, call) for call in wanted.calls(variant))


def _guessed(wanted: Wanted, variant: Variant) -> Cells:
    return {
        (call.collective.value, call.dtype, call.placement.value, call.nbytes): wanted.settings_of(
            call.collective, variant
        )[:_FEW]
        for call in wanted.calls(variant)
    }


Cells: TypeAlias = Mapping[tuple[str, str, str, int], Sequence[Setting]]


def _fine(
    wanted: Wanted, variant: Variant, tried: Cells | None, *, captured: bool
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


def could_win(table: pd.DataFrame, variant: Variant) -> Cells:
    """Settings worth measuring with care, at each size where they ran as asked for.

    Those that are within 10 % of the best at some size, and what the library takes by itself; each
    where it is less than half slower than the best.

    Args:
        table: rows of the first pass.
        variant: the environment.

    Returns:
        By collective, type, placement and size.
    """
    rough = table[
        (table["variant"] == variant.name)
        & (table["purpose"] == runs.ROUGH)
        & (table["step"] == plan.MEASURE)
        & table["counts"]
    ]
    rough = samples.by_clock(rough)
    names = ["collective", "dtype", "placement", "nbytes"]
    best = rough["time_us"].groupby([rough[name] for name in names]).transform("min")
    near = rough[rough["time_us"] <= best * _NEAR]
    chosen = set(zip(near["collective"], near["setting"], strict=True))
    chosen |= {
        (collective, str(replace(setting, channels=None)))
        for collective, word in zip(rough["collective"], rough["library"], strict=True)
        if (setting := setting_of(word)) is not None and setting.role is Role.FORCED
    }
    rough = rough[rough["time_us"] <= best * _HOPELESS]
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


def expected_s(left: Mapping[int, Sequence[Step]], n_ranks: int) -> float:
    """Seconds that a run roughly takes, start included.

    Args:
        left: steps that are still to be made, by communicator.
        n_ranks: of the communicator.
    """
    if not left:
        return 0.0
    seconds = _START_S + (_EACH_RANK_S + _COMMUNICATOR_EACH_S * len(left)) * n_ranks
    for steps in left.values():
        for step in steps:
            call_us = _LEAST_CALL_US + _EACH_RANK_US * n_ranks + step.call.nbytes / _BYTES_A_US
            effort = step.effort
            timed = min(max(effort.least_us, effort.least_calls * call_us), effort.most_us)
            seconds += 1e-6 * (1.5 * timed if step.kind == plan.MEASURE else 10 * call_us)
            seconds += _STEP_S
    return seconds


# Of NVIDIA's GPUs: a start, a communicator (0.1 s of two ranks, seconds of 64), a step's barriers,
# and calls of 100 GB/s; AMD's small calls of 64 ranks take 60 µs (article on CPX, 2026).
_START_S: Final = 1.0
_EACH_RANK_S: Final = 0.05
_COMMUNICATOR_EACH_S: Final = 0.05
_STEP_S: Final = 0.001
_LEAST_CALL_US: Final = 8.0
_EACH_RANK_US: Final = 0.8
_BYTES_A_US: Final = 100_000.0
