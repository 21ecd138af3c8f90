"""The passes of a sweep: which steps are made in which communicators.

The library as it is says first what it runs, at four sizes an octave, in a start of its own where
nothing is timed. All else is one start with our plugin. In the communicator of the first pass every
setting is checked and timed at every size. The second pass has several communicators: at every size
what could win follows each other with the idle plugin in between, so that each is compared with its
neighbours in time. It has more sizes, four an octave, where the library changes its own choice or a
setting begins or ends to be faster. Idle stands for the site where both ran the same; where they
did not, starts of both take turns.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from rccltune.analyse.points import by_timing
from rccltune.bits import probes
from rccltune.model import defaults
from rccltune.model.curves import GAP
from rccltune.model.settings import BASELINE, IDLE, Role, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.ranks import plan
from rccltune.ranks.plan import (
    GRAPH,
    GRAPH_UP_TO,
    LOOP,
    REGISTERED,
    CollectiveCall,
    Label,
    Step,
    setting_of,
)

if TYPE_CHECKING:
    import pandas as pd

    from rccltune.measure.rank_program import LaunchSetup

TIMINGS: Final = ("auto", GRAPH, LOOP)
# So many settings could win, before anything is known.
_FEW: Final = 3
# Of a setting against the library in the first pass: surely faster, perhaps.
_FASTER: Final = 1.03
_PERHAPS: Final = 1.01
# Sizes an octave where a rule may begin or end.
_AN_OCTAVE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepScope:
    """Calls to measure, and how.

    Attributes:
        sizes: of each collective, in bytes, as they can be called.
        settings: that the user names; empty for the usual ones.
        counts: channel counts that each setting is tried with beside the library's own.
        timing: one of TIMINGS.
        n_communicators: of the second pass.
        checked_up_to: largest call in bytes whose results are checked; None checks all, 0 none.
        n_ranks: of the communicator, 0 where nothing depends on it.
        one_trees: settings that may have one tree, of each collective that was probed.
        same_bits: probe the order in which settings add, and time those with one tree.
        probed_up_to: largest probe in bytes, None for the largest size.
        idle_source: what says that idle is the site where the log names no channels; see
            :class:`rccltune.releases.Release`.
    """

    sizes: Mapping[Collective, tuple[int, ...]]
    placements: tuple[Placement, ...]
    dtype: str
    op: str
    settings: tuple[Setting, ...] = ()
    counts: tuple[int, ...] = ()
    timing: str = defaults.TIMING
    n_communicators: int = defaults.COMMUNICATORS
    checked_up_to: int | None = None
    n_ranks: int = 0
    same_bits: bool = False
    one_trees: Mapping[Collective, tuple[Setting, ...]] = field(default_factory=dict)
    probed_up_to: int | None = None
    idle_source: str = ""

    def settings_of(self, collective: Collective) -> tuple[Setting, ...]:
        """Settings that are tried; none where no tuner is asked."""
        if not collective.is_tunable:
            return ()
        if self.settings:
            return tuple(one for one in self.settings if plan.has(collective, one))
        usual = plan.usual_settings(collective)
        more = (replace(s, channels=n) for s in usual for n in self.counts)
        return tuple(dict.fromkeys((*usual, *more, *self.one_trees.get(collective, ()))))

    def probed(self) -> Iterator[tuple[Collective, int]]:
        """Collectives whose order of adding is probed, up to how many bytes."""
        for collective in probes.ADDING if self.same_bits else ():
            if sizes := self.sizes.get(collective):
                most = sizes[-1] if self.probed_up_to is None else self.probed_up_to
                yield collective, min(sizes[-1], most)

    def with_one_trees(self, table: pd.DataFrame | None) -> SweepScope:
        """Add settings with fewer channels, where those alone have one tree."""
        if table is None or not self.same_bits:
            return self
        more = {one: probes.candidates(table, one) for one, _ in self.probed()}
        return replace(self, one_trees=more)

    def only(self, sizes: Mapping[Collective, Collection[int]]) -> SweepScope:
        """Replace the sizes to measure, in bytes."""
        return replace(self, sizes={name: tuple(sorted(some)) for name, some in sizes.items()})

    def with_sizes(self, more: Mapping[Collective, Sequence[int]]) -> SweepScope:
        """Add sizes to measure, in bytes."""
        sizes = {name: {*some, *more.get(name, ())} for name, some in self.sizes.items()}
        return self.only(sizes)

    def calls(self) -> Iterator[CollectiveCall]:
        """Every call, by collective, size and placement."""
        for collective, sizes in self.sizes.items():
            for nbytes in sizes:
                for placement in plan.placements_for(self.placements, collective):
                    yield CollectiveCall(collective, self.dtype, self.op, placement, nbytes)

    def kind_of_check(self, call: CollectiveCall) -> str:
        """Step that makes a call once: its result is compared where that is asked for."""
        most = self.checked_up_to
        return plan.CHECK if most is None or call.nbytes <= most else plan.CALL

    def timings(self, nbytes: int, *, captures: bool) -> tuple[str, ...]:
        """Timing modes of a size.

        Args:
            nbytes: of the call.
            captures: whether calls can be captured into a graph here.
        """
        if self.timing != "auto":
            return (self.timing,)
        if not captures or nbytes > GRAPH_UP_TO:
            return (LOOP,)
        return (LOOP, GRAPH) if nbytes == GRAPH_UP_TO else (GRAPH,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Communicators that ranks are to make, whole.

    Attributes:
        plugin: with our plugin; otherwise the site is as it is.
        communicators: steps of each.
        rules: text of the file that rules are answered by; empty where none are.
        is_alone: in a start of its own.
    """

    plugin: bool
    communicators: Mapping[Label, tuple[Step, ...]]
    rules: str = ""
    is_alone: bool = False

    @property
    def purpose(self) -> str:
        """Purpose that all of them have."""
        return next(iter(self.communicators)).purpose

    @property
    def what(self) -> str:
        """For people."""
        return {
            plan.FIRST: "first pass",
            plan.SECOND: "second pass",
            plan.QUESTIONS: "asking the library what it runs",
            plan.SITE: f"timing {'the idle plugin' if self.plugin else 'the library as it is'}",
            plan.ORDERS: "asking in which order settings add",
            plan.VERIFY: "verifying rules",
        }.get(self.purpose, "timing")

    @property
    def n_steps(self) -> int:
        """Steps of all communicators."""
        return sum(map(len, self.communicators.values()))


def plan_questions(scope: SweepScope, _: pd.DataFrame | None = None) -> list[RunPlan]:
    """Calls by which the library as it is says what it runs; nothing is timed."""
    steps = tuple(Step(plan.CALL, BASELINE, call) for call in _calls_to_ask(scope))
    return [RunPlan(plugin=False, communicators={Label(plan.QUESTIONS, 0): steps})]


def _calls_to_ask(scope: SweepScope) -> Iterator[CollectiveCall]:
    """Calls at the sizes to measure and at three between each two of them an octave apart.

    A tuner is not told the placement.
    """
    for collective, sizes in scope.sizes.items():
        placement = plan.placements_for(scope.placements, collective)[0]
        between = itertools.chain(*(quarters(a, b) for a, b in itertools.pairwise(sizes)))
        for nbytes in sorted({*sizes, *between}):
            yield CollectiveCall(collective, scope.dtype, scope.op, placement, nbytes)


def plan_first_orders(scope: SweepScope, _: pd.DataFrame | None = None) -> list[RunPlan]:
    """Probes of each setting at its largest size."""
    steps = [
        step
        for collective, largest in scope.probed()
        for step in probes.first_steps(collective, largest, scope.n_ranks)
    ]
    unit = RunPlan(plugin=True, communicators={Label(plan.ORDERS, 0): tuple(steps)})
    return [unit] if steps else []


def plan_orders(scope: SweepScope, table: pd.DataFrame | None) -> list[RunPlan]:
    """Probes of what may have one tree, at all sizes, in fresh communicators."""
    steps = [
        step
        for collective, largest in scope.probed()
        for step in probes.all_steps(
            collective,
            probes.candidates(table, collective) if table is not None else (),
            largest,
            scope.n_ranks,
        )
    ]
    unit = RunPlan(plugin=True, communicators={Label(plan.ORDERS, 1): tuple(steps)})
    return [unit] if steps else []


def plan_first_pass(scope: SweepScope, table: pd.DataFrame | None = None) -> list[RunPlan]:
    """First pass: every setting once, with results checked and what ran said by the library."""
    scope = scope.with_one_trees(table)
    calls = set(scope.calls())
    checks = [Step(plan.CALL, IDLE, call) for call in _calls_to_ask(scope) if call not in calls]
    timed = []
    for call in scope.calls():
        tried = (IDLE, *scope.settings_of(call.collective))
        kind = scope.kind_of_check(call)
        checks += [Step(kind, setting, call) for setting in tried]
        timed += [
            Step(plan.MEASURE, setting, call, timing, plan.effort_of(call.nbytes))
            for timing in scope.timings(call.nbytes, captures=True)
            for setting in tried
        ]
    steps = (*checks, *loops_first(timed))
    return [RunPlan(plugin=True, communicators={Label(plan.FIRST, 0): steps})]


def loops_first(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Steps in their order, loops before graphs: a captured graph makes later loops dearer.

    Graphs with registered buffers, which are others, come last.
    """
    later = {GRAPH: 1, REGISTERED: 2}
    return tuple(sorted(steps, key=lambda step: later.get(step.timing, 0)))


def captures(table: pd.DataFrame | None) -> bool:
    """Whether calls could be captured into graphs; also where that was not tried."""
    if table is None:
        return True
    graphs = table[(table["timing"] == GRAPH) & (table["step"] == plan.MEASURE)]
    return graphs.empty or bool((graphs["unusable"] != UnusableReason.NO_TIME.value).any())


def plan_loops(scope: SweepScope, table: pd.DataFrame | None) -> list[RunPlan]:
    """Sizes that were to be timed by graphs, by loops, where no graph could be captured."""
    if scope.timing != "auto" or captures(table):
        return []
    steps = [
        Step(plan.MEASURE, setting, call, LOOP, plan.effort_of(call.nbytes))
        for call in scope.calls()
        if LOOP not in scope.timings(call.nbytes, captures=True)
        for setting in (IDLE, *scope.settings_of(call.collective))
    ]
    return [RunPlan(plugin=True, communicators={Label(plan.FIRST, 1): tuple(steps)})]


def plan_second_pass(scope: SweepScope, table: pd.DataFrame | None) -> list[RunPlan]:
    """Second pass: the idle plugin, and what could win, in several communicators.

    Args:
        scope: what to measure.
        table: rows of the first pass; None before it is over, when a few settings are taken to be
            worth it everywhere.
    """
    captured = captures(table)
    scope = scope.with_one_trees(table)
    refined, tried = scope, _guess_settings(scope)
    more: tuple[Step, ...] = ()
    if table is not None:
        quick = quick_rows(table)
        between = sizes_between(quick, scope)
        could_win = settings_that_could_win(quick, between)
        refined = scope.with_sizes(between)
        tried = _with_one_trees(scope, quick, without_losers(quick, could_win), between)
        more = _checks_of(scope, _with_one_trees(scope, quick, could_win, between), between)
    steps = _in_turns(refined, tried, captured=captured)
    return [
        RunPlan(
            plugin=True,
            communicators={
                Label(plan.SECOND, number): (*(more if number == 0 else ()), *steps)
                for number in range(scope.n_communicators)
            },
        )
    ]


def _with_one_trees(
    scope: SweepScope,
    quick: pd.DataFrame,
    tried: Cells,
    between: Mapping[Collective, Sequence[int]],
) -> Cells:
    """Settings worth measuring, and the fastest of those that may have one tree."""
    cells = {cell: list(settings) for cell, settings in tried.items()}
    for collective, settings in scope.one_trees.items():
        is_one_tree = quick["setting"].isin([str(one) for one in settings])
        rows = quick[(quick["collective"] == collective.value) & is_one_tree]
        for cell, more in settings_that_could_win(rows, between).items():
            known = cells.setdefault(cell, [])
            known += [one for one in more if one not in known]
    return cells


def plan_site(scope: SweepScope, table: pd.DataFrame | None) -> list[RunPlan]:
    """Starts of the library as it is and of our plugin, in turns, where both ran different things.

    A tuner that is loaded may take something away: a table of the library's own, or an override
    that only libraries without a tuner have. What a process adds to its times no communicator
    shows, so each start is one repeat.

    Args:
        scope: what to measure.
        table: rows of the passes before; None before they are over.
    """
    cells = {} if table is None else sizes_that_differ(table, scope.idle_source)
    if table is None or not cells:
        return []
    quick, captured = quick_rows(table), captures(table)
    tried = settings_that_could_win(quick, cells)
    steps = {
        plugin: _in_turns(scope.only(cells), tried if plugin else None, captured=captured)
        for plugin in (False, True)
    }
    # At sizes between those of the passes before the library was called with idle alone.
    known = quick.groupby("collective")["nbytes"].unique()
    between = {
        name: sorted(set(sizes) - set(known.get(name.value, ()))) for name, sizes in cells.items()
    }
    checks = _checks_of(scope, tried, between)
    return [
        RunPlan(
            plugin=plugin,
            communicators={
                Label(plan.SITE, number): (
                    *(checks if plugin and number == 0 else ()),
                    *steps[plugin],
                )
            },
            is_alone=True,
        )
        for number in range(defaults.STARTS)
        for plugin in ((False, True) if number % 2 == 0 else (True, False))
    ]


def sizes_that_differ(
    table: pd.DataFrame, idle_source: str = ""
) -> dict[Collective, tuple[int, ...]]:
    """Sizes in bytes at which the library as it is ran another setting than with our plugin idle.

    Where a side did not say what it ran, nothing is known, and nothing differs.

    Args:
        table: rows of the sweep's runs.
        idle_source: where the library's log names no channels, what of its source says that they
            are the same with a tuner that answers nothing. Without it such sizes differ.
    """
    different: dict[Collective, list[int]] = {}
    for (collective, nbytes), (site, idle) in _library_choices(table).items():
        if site != idle or (_has_no_channels(site) and not idle_source):
            different.setdefault(Collective(collective), []).append(nbytes)
    return {name: tuple(sorted(sizes)) for name, sizes in different.items()}


def idle_by_source(table: pd.DataFrame, idle_source: str) -> list[str]:
    """The sentence about sizes at which idle stands for the site because the source says so.

    Args:
        table: rows of the sweep's runs.
        idle_source: what of the library's source says it; see :func:`sizes_that_differ`.
    """
    same = [site for site, idle in _library_choices(table).values() if site == idle]
    n_derived = sum(map(_has_no_channels, same)) if idle_source else 0
    if not n_derived:
        return []
    sentence = (
        f"derived, not measured: the plugin idle stands for the site at {n_derived} sizes at which "
        "both ran the same algorithm and protocol; this library's log names no channels, and its "
        f"source gives a tuner that answers nothing no say in them ({idle_source})"
    )
    return [sentence]


def _library_choices(
    table: pd.DataFrame,
) -> dict[tuple[str, int], tuple[Setting | None, Setting | None]]:
    """Settings that the site and the idle plugin ran, by collective and size, where both say it."""
    rows = table[table["ran"] != ""]
    site, idle = (
        rows[rows["setting"] == str(one)].groupby(["collective", "nbytes"])["ran"].first()
        for one in (BASELINE, IDLE)
    )
    return {
        (str(collective), int(nbytes)): (
            setting_of(site[collective, nbytes]),
            setting_of(idle[collective, nbytes]),
        )
        for collective, nbytes in site.index.intersection(idle.index)
    }


def _has_no_channels(setting: Setting | None) -> bool:
    return setting is not None and setting.channels is None


# What is measured, one after the other. Each takes what to measure and the rows of all before it;
# None before those are measured, when what it says is a guess.
STAGES: Final[tuple[Callable[[SweepScope, pd.DataFrame | None], list[RunPlan]], ...]] = (
    plan_questions,
    plan_first_orders,
    plan_orders,
    plan_first_pass,
    plan_loops,
    plan_second_pass,
    plan_site,
)


def _guess_settings(scope: SweepScope) -> Cells:
    return {cell_of(call): scope.settings_of(call.collective)[:_FEW] for call in scope.calls()}


Cell: TypeAlias = tuple[str, str, str, int]
Cells: TypeAlias = Mapping[Cell, Sequence[Setting]]


def cell_of(call: CollectiveCall) -> Cell:
    """Collective, type, placement and size of a call."""
    return (call.collective.value, call.dtype, call.placement.value, call.nbytes)


def _in_turns(scope: SweepScope, tried: Cells | None, *, captured: bool) -> tuple[Step, ...]:
    """Steps of one communicator; ``tried`` is None without our plugin."""
    steps = []
    for call in scope.calls():
        could_win = () if tried is None else tried.get(cell_of(call), ())
        if tried is not None and not could_win and scope.settings_of(call.collective):
            continue
        settings = [BASELINE] if tried is None else [IDLE]
        for setting in could_win:
            settings += [setting, IDLE]
        steps += [
            Step(plan.MEASURE, setting, call, timing, plan.effort_of(call.nbytes))
            for timing in scope.timings(call.nbytes, captures=captured)
            for setting in settings
        ]
    return loops_first(steps)


def quick_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Timings of the first pass that ran as asked for, by the timing mode that counts.

    Args:
        table: rows of the sweep's runs.
    """
    quick = table[(table["purpose"] == plan.FIRST) & (table["step"] == plan.MEASURE)]
    return by_timing(quick[quick["unusable"] == ""])


def sizes_between(quick: pd.DataFrame, scope: SweepScope) -> dict[Collective, tuple[int, ...]]:
    """Sizes in bytes between those of the first pass at which a rule may begin or end.

    Four an octave where the library changes its own choice, and from sizes at which a setting is
    surely faster than the library to the next at which none is. Gaps of more than a factor of four
    stay as they are: no rule reaches over them.

    Args:
        quick: timings of the first pass.
        scope: what is measured; its ranks' number is in the sizes, which can be called.
    """
    between = {}
    for collective, sizes in scope.sizes.items():
        rows = quick[quick["collective"] == collective.value]
        time_us = rows.pivot_table(
            values="time_us", index=["placement", "nbytes"], columns="setting", aggfunc="median"
        )
        if str(IDLE) not in time_us.columns or len(time_us.columns) < 2:
            continue
        gains = time_us.rdiv(time_us.pop(str(IDLE)), axis=0)
        best = gains.groupby("nbytes").min().max(axis=1).reindex(sizes)
        words = rows.groupby("nbytes")["library"].agg(lambda one: "|".join(sorted(set(one))))
        between[collective] = tuple(
            nbytes
            for low, high in edges(sizes, best.to_list(), words.reindex(sizes).to_list())
            for nbytes in quarters(low, high)
        )
    return between


def edges(
    sizes: Sequence[int], best: Sequence[float], words: Sequence[str]
) -> list[tuple[int, int]]:
    """Neighbouring sizes between which what is best, or the library's own choice, changes.

    Args:
        sizes: in bytes, rising.
        best: the library's time over that of the fastest setting, by size.
        words: what the library chooses.
    """
    changes = {i for i in range(len(sizes) - 1) if words[i] != words[i + 1]}
    for order in (range(len(sizes)), range(len(sizes) - 1, -1, -1)):
        is_open = False
        for before, at in itertools.pairwise(order):
            is_open = best[before] >= _FASTER or (is_open and best[before] >= _PERHAPS)
            if is_open and not best[at] >= _FASTER:
                changes.add(min(before, at))
    pairs = ((sizes[i], sizes[i + 1]) for i in sorted(changes))
    return [(low, high) for low, high in pairs if high <= GAP * low]


def quarters(low: int, high: int) -> Iterator[int]:
    """Sizes a quarter of an octave apart between two, in whole KiB where those are."""
    unit = next(n for n in (1024, 16, 1) if low % n == high % n == 0)
    n_steps = round(math.log2(high / low) * _AN_OCTAVE)
    for step in range(1, n_steps):
        nbytes = round(low * (high / low) ** (step / n_steps) / unit) * unit
        if low < nbytes < high:
            yield nbytes


# Times of a setting over the best's in the first pass: one that is so near at some size could win;
# where it is further away it is not looked at again.
_NEAR: Final = 1.1
_HOPELESS: Final = 1.5
# Times of a setting over the library's in the first pass: one that is so much slower does not win.
_SLOWER: Final = 1.06


def settings_that_could_win(
    quick: pd.DataFrame, between: Mapping[Collective, Sequence[int]] | None = None
) -> Cells:
    """Settings worth measuring with care, at each size where they ran as asked for.

    Those that are near the best at some size, and what the library takes by itself; each where it
    is not hopeless. Between two sizes those of both.

    Args:
        quick: timings of the first pass.
        between: sizes in bytes that it did not measure.

    Returns:
        By collective, type, placement and size.
    """
    names = ["collective", "dtype", "placement", "nbytes"]
    at_a_size = quick["time_us"].groupby([quick[name] for name in names])
    best = at_a_size.transform("min")
    near = quick[quick["time_us"] <= best * _NEAR]
    chosen = set(zip(near["collective"], near["setting"], strict=True))
    chosen |= {
        (collective, str(replace(setting, channels=None)))
        for collective, word in zip(quick["collective"], quick["library"], strict=True)
        if (setting := setting_of(word)) is not None and setting.role is Role.FORCED
    }
    quick = quick[quick["time_us"] <= best * _HOPELESS]
    cells: dict[Cell, list[Setting]] = {}
    for collective, dtype, placement, nbytes, word in zip(
        *(quick[name] for name in (*names, "setting")), strict=True
    ):
        setting = Setting.parse(word)
        if (collective, word) in chosen and setting.role is Role.FORCED:
            settings = cells.setdefault((collective, dtype, placement, nbytes), [])
            if setting not in settings:
                settings.append(setting)
    measured: dict[tuple[str, str, str], list[int]] = {}
    for collective, dtype, placement, nbytes in sorted(cells):
        measured.setdefault((collective, dtype, placement), []).append(nbytes)
    for (collective, dtype, placement), sizes in measured.items():
        for nbytes in (between or {}).get(Collective(collective), ()):
            at = bisect(sizes, nbytes)
            beside = [
                cells[collective, dtype, placement, one] for one in sizes[max(at - 1, 0) : at + 1]
            ]
            both = list(dict.fromkeys(itertools.chain(*beside)))
            cells[collective, dtype, placement, nbytes] = both
    return cells


def without_losers(quick: pd.DataFrame, tried: Cells) -> Cells:
    """Settings without those that surely do not win, at the sizes of the first pass.

    They are slower than the library, or what it takes by itself: that is the same kernels.

    Args:
        quick: timings of the first pass.
        tried: settings worth measuring.
    """
    names = ["collective", "dtype", "placement", "nbytes"]
    idle = quick[quick["setting"] == str(IDLE)].set_index(names)
    idle_us, choices = idle["time_us"].to_dict(), idle["library"].map(setting_of).to_dict()
    times = {
        word: at.set_index(names)["time_us"].to_dict() for word, at in quick.groupby("setting")
    }

    def may_win(cell: Cell, setting: Setting) -> bool:
        if cell not in idle_us:
            return True  # between sizes of the first pass
        choice = choices[cell]
        is_same = choice is not None and setting == replace(choice, channels=None)
        return not is_same and times[str(setting)][cell] <= _SLOWER * idle_us[cell]

    return {
        cell: [one for one in settings if may_win(cell, one)] for cell, settings in tried.items()
    }


def _checks_of(
    scope: SweepScope, tried: Cells, between: Mapping[Collective, Sequence[int]]
) -> tuple[Step, ...]:
    """Calls at sizes that the first pass did not make, whose results are compared."""
    steps = []
    for call in scope.only(between).calls():
        kind = scope.kind_of_check(call)
        steps += [Step(kind, setting, call) for setting in (IDLE, *tried.get(cell_of(call), ()))]
    return tuple(steps)


def start_s(ground: LaunchSetup) -> float:
    """Seconds that a start roughly takes."""
    each_s = _EACH_SIMULATED_S if ground.simulated else _EACH_RANK_S
    return (0.0 if ground.simulated else _START_S) + each_s * ground.n_ranks


def expected_s(communicators: plan.Communicators, ground: LaunchSetup) -> float:
    """Seconds that communicators roughly take.

    Args:
        communicators: their steps, of which nothing is made yet.
        ground: what makes them.
    """
    return sum(each_s(communicators, ground))


def each_s(communicators: plan.Communicators, ground: LaunchSetup) -> Iterator[float]:
    """Seconds that each step roughly takes, the first of a communicator with its making."""
    n_ranks = ground.n_ranks
    for steps in communicators.values():
        made_s = (_EACH_SIMULATED_S if ground.simulated else _COMMUNICATOR_EACH_S) * n_ranks
        for step in steps:
            call_us = _LEAST_CALL_US + _EACH_RANK_US * n_ranks + step.call.nbytes / _BYTES_A_US
            step_s = _STEP_S + 1e-6 * _expected_us(step, call_us)
            yield made_s + (_SIMULATED_STEP_S * n_ranks if ground.simulated else step_s)
            made_s = 0.0


def _expected_us(step: Step, call_us: float) -> float:
    effort = step.effort
    if step.kind == plan.MEASURE:
        return 1.5 * min(max(effort.least_us, effort.least_calls * call_us), effort.most_us)
    if step.kind == plan.ORDER:
        # Thirty calls of eight ranks, and looking at what came of them.
        return 30 * call_us + step.call.nbytes / _LOOKED_AT_A_US
    return 10 * call_us


# Of NVIDIA's GPUs: a start, a communicator (0.1 s of two ranks, seconds of 64), a step's barriers,
# and calls of 100 GB/s; AMD's small calls of 64 ranks take 60 µs (article on CPX, 2026).
_START_S: Final = 1.0
_EACH_RANK_S: Final = 0.05
_COMMUNICATOR_EACH_S: Final = 0.05
_STEP_S: Final = 0.001
# Of simulated ranks on a few processors.
_EACH_SIMULATED_S: Final = 0.005
_SIMULATED_STEP_S: Final = 1e-4
_LEAST_CALL_US: Final = 8.0
_EACH_RANK_US: Final = 0.8
_BYTES_A_US: Final = 100_000.0
# What a rank's processor looks at.
_LOOKED_AT_A_US: Final = 100.0
