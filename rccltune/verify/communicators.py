"""Both sides in the communicators of the rank program."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.analyse.paired import LogMean
from rccltune.launch.variables import CHANNELS, launch_environment
from rccltune.measure import passes
from rccltune.measure.instrument import Instrument
from rccltune.measure.ongoing_sweep import OngoingSweep
from rccltune.measure.passes import SweepScope
from rccltune.measure.perf_sweep import call_words
from rccltune.measure.site import Site
from rccltune.model import defaults
from rccltune.model.measurement import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.rule import Rule
from rccltune.model.settings import IDLE, RULES
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan, rows, runs
from rccltune.ranks.exclusion import wrong_rows
from rccltune.ranks.plan import GRAPH_UP_TO
from rccltune.rules.rule_file import read_rules
from rccltune.session import files, store
from rccltune.session.samples import load_frame
from rccltune.simulate import compiled
from rccltune.verify import pairs
from rccltune.verify.executed import executed_by
from rccltune.verify.pairs import VerificationCalls
from rccltune.verify.rewriting import of_scale
from rccltune.verify.rule_sides import CallResult, bare, digest_of, wrong_by_itself
from rccltune.verify.site_and_idle import SiteAndIdle
from rccltune.verify.verdict import IdleEffect

if TYPE_CHECKING:
    import pandas as pd

# Of a node whose communicators take longer than this there are fewer.
_DEAR_S: Final = 1.0
# Sizes that all communicators of the sweep agree on so well are called in half of them.
_QUIET: Final = 0.003


@dataclass(frozen=True, kw_only=True)
class CommunicatorPairs:
    """Calls the library and the rules in turns, whatever measured the session.

    Attributes:
        session: the folder.
        needs: of the rules, beyond what the sweep had; both sides get them.
        waiting: the sweep, whose ranks wait.
        asked: in how many communicators; None for the usual number.
        dtype_asked: None for the sweep's.
        timing: ``auto``, ``graph`` or ``loop``.
    """

    instrument: Instrument
    sweep: Sweep
    session: Path
    needs: tuple[tuple[str, str], ...]
    reporter: Reporter
    waiting: OngoingSweep | None = None
    asked: int | None = None
    dtype_asked: str | None = None
    timing: str = defaults.TIMING

    @property
    def site(self) -> Site:
        """Where."""
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
        made = OngoingSweep(
            ground=replace(ground, added=(*ground.added, *self.needs)),
            wanted=SweepScope(sizes={}, placements=(), dtype="", op=""),
            session=self.session,
            reporter=self.reporter,
            site=dict(os.environ),
            force=self.waiting is not None and self.waiting.force,
        )
        made.read()
        made.largest = max((one for sizes in self.swept.values() for one in sizes), default=1)
        return made

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
            Collective(name): tuple(sorted(int(n) for n in found))
            for name, found in by_name.items()
            if Collective(name).is_tunable
        }

    @property
    def dtype(self) -> str:
        """Data type of the calls, in the rank program's word."""
        return self.dtype_asked or call_words(self.sweep)[0]

    @property
    def op(self) -> str:
        """Operation of the calls, likewise."""
        return call_words(self.sweep)[1]

    def idle_cost(self, collective: Collective, called: Sequence[int]) -> LogMean | None:
        """log(the site as it is / our plugin idle) in the mean over sizes."""
        return None if self.needs else self._idle.over(collective, called)

    def octaves(self) -> tuple[IdleEffect, ...]:
        """What the two differ by in each octave of the swept sizes."""
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
            files.write_atomically(self.session / store.NODE_FILE, compiled.written(self.site.node))
        rules, calls = bare(text), self._calls(text, only)
        digest = digest_of(rules, self._under())
        measuring, since = self.measuring, time.monotonic()
        n = n_communicators(self.table, self.site.scale.n_ranks, self.asked)
        unit = pairs.unit(calls, n, digest, rules)
        if calls.sizes and not measuring.left(unit):
            self.reporter.say("Reused the measurement of these rules")
        measuring.complete(unit)
        table = measuring.table()
        table = table[(table["purpose"] == plan.VERIFY) & (table["rules"] == digest)]
        return CallResult(
            pairs=pairs.ratios(table),
            checked=_checked(table),
            wrong=_wrong(table, self.session / runs.FOLDER),
            executed=executed_by(table),
            failed={
                one.collective: f"{', '.join(f.words for f in one.failures)} with the rules"
                for one in measuring.failed_rules(digest)
            },
            n_replicates=n,
            n_processes=int(table["process"].nunique()),
            seconds=time.monotonic() - since,
        )

    def _under(self) -> list[str]:
        """What times depend on beside the rules."""
        ground = self.instrument.ground
        seen = launch_environment(
            os.environ,
            (*ground.added, *self.needs),
            clear=ground.cleared,
            keep=CHANNELS,
        )
        return [str(ground.library.file), *seen.told()]

    def _calls(self, text: str, only: Sequence[Rule]) -> VerificationCalls:
        scale = self.site.scale
        rules = of_scale(read_rules(text.encode()), scale)
        # With other variables the library may change it elsewhere.
        changes = {} if self.needs else pairs.changes_in(self.table)
        captures = passes.captures(self.table)
        named = {one.collective for one in only}
        return VerificationCalls(
            sizes=tuple(
                pairs.sizes_of(rules, one, sizes, changes.get(one.value, ()), scale, only=only)
                for one, sizes in self.swept.items()
                if not only or one in named
            ),
            placements=self.sweep.placements,
            dtype=self.dtype,
            op=self.op,
            captures=captures,
            registers=captures and pairs.registers(self.table),
            timing=self.timing,
            checked_up_to=self.instrument.checked_up_to,
            quiet_from=_quiet_from(self.table),
        )


def n_communicators(table: pd.DataFrame, n_ranks: int, asked: int | None) -> int:
    """In how many communicators both sides are called; fewer where each costs seconds.

    Args:
        table: rows of the sweep's runs.
        n_ranks: of a communicator.
        asked: what the user says, None for the usual number.
    """
    if asked is not None:
        return asked
    if n_ranks >= defaults.MANY_RANKS:
        return defaults.FEWER_VERIFY_COMMUNICATORS
    made = table[table["step"] == plan.COMMUNICATOR]["time_us"]
    each_s = float(made.median()) * 1e-6 if len(made) else 0.0
    if each_s > _DEAR_S:
        return defaults.FEWER_VERIFY_COMMUNICATORS
    return defaults.VERIFY_COMMUNICATORS


def _quiet_from(table: pd.DataFrame) -> int | None:
    """Size in bytes from which on the sweep's communicators agree within 0.3 % at every size."""
    import numpy as np

    own = table[
        (table["setting"] == str(IDLE))
        & (table["purpose"] == plan.SECOND)
        & (table["step"] == plan.MEASURE)
        & (table["nbytes"] > GRAPH_UP_TO)
    ]
    if own.empty:
        return None
    cell = ["collective", "placement", "nbytes"]
    spread = np.log(own["time_us"]).groupby([own[name] for name in cell]).std()
    by_size = spread.groupby("nbytes").max().sort_index(ascending=False)
    found = None
    for nbytes, each in by_size.items():
        if not each <= _QUIET:
            break
        found = int(nbytes)
    return found


def _checked(table: pd.DataFrame) -> dict[Collective, frozenset[int]]:
    """Sizes whose results were compared, with the rules."""
    own = table[(table["step"] == plan.CHECK) & (table["checked"] > 0)]
    sizes = own[own["setting"] == str(RULES)].groupby("collective")["nbytes"].unique()
    return {Collective(name): frozenset(map(int, found)) for name, found in sizes.items()}


def _wrong(table: pd.DataFrame, where: Path) -> dict[Collective, frozenset[int]]:
    """Sizes with wrong results under the rules, by collective.

    Raises:
        VerificationError: the library computes wrong results by itself.
    """
    spoiled = wrong_rows(table)
    own = spoiled[spoiled["setting"] == str(IDLE)]
    if len(own):
        raise wrong_by_itself(str(own["collective"].iloc[0]), list(own["nbytes"]), where)
    ruled = spoiled[spoiled["setting"] == str(RULES)].groupby("collective")["nbytes"].unique()
    return {Collective(name): frozenset(map(int, sizes)) for name, sizes in ruled.items()}
