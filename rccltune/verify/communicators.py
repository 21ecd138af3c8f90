"""Both sides in the communicators of the rank program."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.analyse.paired_intervals import LogMean
from rccltune.launch.variables import CHANNELS, launch_environment
from rccltune.measure import passes
from rccltune.measure.instrument import Instrument
from rccltune.measure.ongoing_sweep import OngoingSweep
from rccltune.measure.passes import SweepScope
from rccltune.measure.perf_sweep import call_words
from rccltune.measure.site import Site
from rccltune.model import defaults
from rccltune.model.errors import VerificationError
from rccltune.model.measurement import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule
from rccltune.model.settings import IDLE, RULES
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.hangs_and_crashes import wrong_rows
from rccltune.ranks.plan import GRAPH_UP_TO
from rccltune.rules.rule_file import read_rules
from rccltune.session import files, store
from rccltune.session.samples import load_frame
from rccltune.simulate import compiled
from rccltune.verify import pairs
from rccltune.verify.executed import Executed, read_executed
from rccltune.verify.pairs import VerificationCalls
from rccltune.verify.rewriting import hash_rules, select_rules, strip_comments
from rccltune.verify.site_and_idle import SiteAndIdle
from rccltune.verify.verdict_file import IdleEffect

if TYPE_CHECKING:
    import pandas as pd

# Of a node whose communicators take longer than this there are fewer.
_DEAR_S: Final = 1.0
# Sizes that all communicators of the sweep agree on so well are called in half of them.
_QUIET: Final = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """Times of both sides, and what was wrong or failed.

    Attributes:
        pairs: as :func:`rccltune.verify.pairs.pair_times` makes it.
        checked: sizes whose results were compared, with the rules.
        wrong: those of them that were wrong.
        failed: why nothing is known of a collective's rules, where they hung or crashed.
        n_replicates, n_processes: in which both were called.
        seconds: that it took in all.
        executed: what ran where rules answered, by collective and size, where a log says.
    """

    pairs: pd.DataFrame
    checked: Mapping[Collective, frozenset[int]]
    wrong: Mapping[Collective, frozenset[int]]
    failed: Mapping[Collective, str]
    n_replicates: int
    n_processes: int
    seconds: float
    executed: Executed = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CommunicatorPairs:
    """Calls the library and the rules in turns, whatever measured the session.

    Attributes:
        session: the folder.
        needs: of the rules, beyond what the sweep had; both sides get them.
        waiting: the sweep, whose ranks wait.
        n_communicators: None for the usual number.
        requested_dtype: None for the sweep's.
        timing: ``auto``, ``graph`` or ``loop``.
    """

    instrument: Instrument
    sweep: Sweep
    session: Path
    needs: tuple[tuple[str, str], ...]
    reporter: Reporter
    waiting: OngoingSweep | None = None
    n_communicators: int | None = None
    requested_dtype: str | None = None
    timing: str = defaults.TIMING

    @property
    def site(self) -> Site:
        """Site that both sides run on."""
        return self.instrument.site

    @cached_property
    def measuring(self) -> OngoingSweep:
        """Ranks and their rows: those of the sweep where they wait, unless rules need a variable.

        Raises:
            OutputError: a run that cannot be read.
        """
        if self.waiting is not None and not self.needs:
            return self.waiting
        ground = self.instrument.ground
        measuring = OngoingSweep(
            ground=replace(ground, added=(*ground.added, *self.needs)),
            scope=SweepScope(sizes={}, placements=(), dtype="", op=""),
            session=self.session,
            reporter=self.reporter,
            site=dict(os.environ),
            force=self.waiting is not None and self.waiting.force,
        )
        measuring.read()
        sizes = (nbytes for swept in self.swept.values() for nbytes in swept)
        measuring.largest = max(sizes, default=1)
        return measuring

    @cached_property
    def table(self) -> pd.DataFrame:
        """Rows of the sweep.

        Raises:
            OutputError: a run that cannot be read.
        """
        if self.waiting is not None:
            measured = self.waiting.table()
        else:
            measured = rows.rows_of_runs(runs.read_runs(self.session))
        swept: pd.DataFrame = measured[measured["purpose"] != plan.VERIFY]
        return swept

    @cached_property
    def swept(self) -> Mapping[Collective, tuple[int, ...]]:
        """Sizes in bytes that the sweep measured for each collective, rising."""
        timed = self.table[
            (self.table["step"] == plan.MEASURE) & (self.table["purpose"] == plan.FIRST)
        ]
        if self.table.empty:
            timed = load_frame(store.open_session(self.session), self.reporter)
        by_name = timed.groupby("collective", observed=True, sort=False)["nbytes"].unique()
        return {
            Collective(name): tuple(sorted(map(int, sizes)))
            for name, sizes in by_name.items()
            if Collective(name).is_tunable
        }

    @property
    def dtype(self) -> str:
        """Data type of the calls, in the rank program's word."""
        return self.requested_dtype or call_words(self.sweep)[0]

    @property
    def op(self) -> str:
        """Operation of the calls, likewise."""
        return call_words(self.sweep)[1]

    def idle_cost(self, collective: Collective, called: Sequence[int]) -> LogMean | None:
        """log(the site as it is / our plugin idle) in the mean over sizes."""
        return None if self.needs else self._idle.over(collective, called)

    def octaves(self) -> tuple[IdleEffect, ...]:
        """Site and idle plugin in each octave of the swept sizes."""
        return () if self.needs else tuple(self._idle.octaves(self.swept))

    @property
    def cost_ns(self) -> float | None:
        """Median of what a question costs with the rules, in ns; None on simulated devices."""
        costs = [one for run in self.measuring.runs for one in run.remarks.costs_ns]
        return statistics.median(costs) if costs and self.site.node is None else None

    @cached_property
    def _idle(self) -> SiteAndIdle:
        return SiteAndIdle(self.table)

    def call(self, text: str, only: Sequence[Rule] = ()) -> CallResult:
        """Call both sides; what failed with the rules is said of its collective.

        Raises:
            VerificationError: the library computes wrong results by itself.
            RccltuneError: as the rank program's runs do.
        """
        if self.site.node is not None:
            files.write_atomically(
                self.session / store.NODE_FILE, compiled.compile_node(self.site.node)
            )
        rules, calls = strip_comments(text), self._calls(text, only)
        digest = hash_rules(rules, self._conditions())
        measuring, since = self.measuring, time.monotonic()
        n = self.n_communicators or usual_communicators(
            self.site.scale.n_ranks, _communicator_s(self.table)
        )
        unit = pairs.plan_communicators(calls, n, digest, rules)
        if calls.sizes and not measuring.remaining(unit):
            self.reporter.say("Reused the measurement of these rules")
        measuring.complete(unit)
        table = measuring.table()
        table = table[(table["purpose"] == plan.VERIFY) & (table["rules"] == digest)]
        return CallResult(
            pairs=pairs.pair_times(table),
            checked=_checked(table),
            wrong=_wrong(table, self.session / runs.FOLDER),
            executed=read_executed(table),
            failed={
                one.collective: f"{', '.join(f.words for f in one.failures)} with the rules"
                for one in measuring.failed_rules(digest)
            },
            n_replicates=n,
            n_processes=int(table["process"].nunique()),
            seconds=time.monotonic() - since,
        )

    def _conditions(self) -> list[str]:
        """Library and variables: what times depend on beside the rules."""
        ground = self.instrument.ground
        environment = launch_environment(
            os.environ,
            (*ground.added, *self.needs),
            clear=ground.cleared,
            keep=CHANNELS,
        )
        return [str(ground.library.file), *environment.told()]

    def _calls(self, text: str, only: Sequence[Rule]) -> VerificationCalls:
        scale = self.site.scale
        rules = select_rules(read_rules(text.encode()), scale)
        # With other variables the library may change it elsewhere.
        changes = {} if self.needs else pairs.find_changes(self.table)
        captures = passes.captures(self.table)
        collectives = {one.collective for one in only}
        return VerificationCalls(
            sizes=tuple(
                pairs.choose_sizes(rules, one, sizes, changes.get(one.value, ()), scale, only=only)
                for one, sizes in self.swept.items()
                if not only or one in collectives
            ),
            placements=self.sweep.placements,
            dtype=self.dtype,
            op=self.op,
            captures=captures,
            registers=captures and pairs.tells_registered(self.table),
            timing=self.timing,
            checked_up_to=self.instrument.checked_up_to,
            quiet_from=_quiet_from(self.table),
        )


def usual_communicators(n_ranks: int, each_s: float = 0.0) -> int:
    """Communicators that both sides are called in; fewer where each costs seconds.

    Args:
        n_ranks: of a communicator.
        each_s: seconds that it takes to make one, where that is known.
    """
    if n_ranks >= defaults.MANY_RANKS or each_s > _DEAR_S:
        return defaults.FEWER_VERIFY_COMMUNICATORS
    return defaults.VERIFY_COMMUNICATORS


def _communicator_s(table: pd.DataFrame) -> float:
    """Seconds that a communicator of the sweep took to be made, in the median."""
    times_us = table[table["step"] == plan.COMMUNICATOR]["time_us"]
    return float(times_us.median()) * 1e-6 if len(times_us) else 0.0


def _quiet_from(table: pd.DataFrame) -> int | None:
    """Size in bytes from which on the sweep's communicators agree within 0.3 % at every size."""
    import numpy as np

    rows_of_idle = table[
        (table["setting"] == str(IDLE))
        & (table["purpose"] == plan.SECOND)
        & (table["step"] == plan.MEASURE)
        & (table["nbytes"] > GRAPH_UP_TO)
    ]
    cell = [rows_of_idle[name] for name in ("collective", "placement", "nbytes")]
    spread = np.log(rows_of_idle["time_us"].astype(float)).groupby(cell).std()
    by_size = spread.groupby("nbytes").max().sort_index(ascending=False)
    quiet = by_size[(by_size <= _QUIET).cummin()]
    return None if quiet.empty else int(quiet.index[-1])


def _checked(table: pd.DataFrame) -> dict[Collective, frozenset[int]]:
    """Sizes whose results were compared, with the rules."""
    is_compared = (table["step"] == plan.CHECK) & (table["checked"] > 0)
    return _sizes_by_collective(table[is_compared & (table["setting"] == str(RULES))])


def _wrong(table: pd.DataFrame, where: Path) -> dict[Collective, frozenset[int]]:
    """Sizes with wrong results under the rules, by collective.

    Raises:
        VerificationError: the library computes wrong results by itself.
    """
    spoiled = wrong_rows(table)
    without_rules = spoiled[spoiled["setting"] == str(IDLE)]
    if len(without_rules):
        span = format_span(without_rules["nbytes"].min(), without_rules["nbytes"].max())
        raise VerificationError(
            f"wrong results without rules: {without_rules['collective'].iloc[0]}, {span}",
            where=str(where),
            hint="no rule is to blame: this library or machine computes wrong results.",
        )
    return _sizes_by_collective(spoiled[spoiled["setting"] == str(RULES)])


def _sizes_by_collective(table: pd.DataFrame) -> dict[Collective, frozenset[int]]:
    by_name = table.groupby("collective")["nbytes"].unique()
    return {Collective(name): frozenset(map(int, sizes)) for name, sizes in by_name.items()}
