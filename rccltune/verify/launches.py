"""Both sides in launches of rccl-tests, for sessions that rccl-tests measured.

A launch of the library as it is, without our plugin, and one with the rules are a pair, and pairs
follow each other in turns. A launch is what is repeated here, and its sizes are the benchmark's.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune import plugin
from rccltune.analyse.paired import Estimate
from rccltune.launch.variables import CLEARED, launch_environment
from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.site import Site
from rccltune.model import defaults
from rccltune.model.choice import Rule
from rccltune.model.errors import LaunchError
from rccltune.model.failure import Failure
from rccltune.model.measurement import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.settings import RULES, SILENT
from rccltune.model.vocabulary import Collective
from rccltune.perf.plan import GRAPH, LOOP
from rccltune.session.samples import load_frame
from rccltune.session.store import NODE_FILE, open_session
from rccltune.verify.sides import CallResult, folder_of, variables_for, wrong_by_itself
from rccltune.verify.verdict import IdleEffect
from rccltune.verify.verdict_store import FOLDER

if TYPE_CHECKING:
    import pandas as pd

_TIMEOUT_S: Final = 300.0
_DONE: Final = "seconds"
_DECISION: Final = re.compile(r"decision collective=\w+ nbytes=(\d+) answer=(\S+)")
# The library and the rules take turns as in communicators: L R R L.
_TURNS: Final = ((SILENT, RULES), (RULES, SILENT))


@dataclass(frozen=True, kw_only=True)
class LaunchPairs:
    """Calls both sides by rccl-tests; see :class:`rccltune.verify.sides.SidesCaller`.

    Attributes:
        session: the folder.
        needs: of the rules, beyond what the sweep had; both sides get them.
        asked: pairs of launches; None for the usual number.
        graph: calls are replayed from graphs (``-G``).
        timeout_s: after which a launch is ended; None for five minutes.
    """

    site: Site
    sweep: Sweep
    session: Path
    needs: tuple[tuple[str, str], ...]
    reporter: Reporter
    asked: int | None = None
    graph: bool = False
    timeout_s: float | None = None
    replicate: str = "launch"

    @cached_property
    def swept(self) -> Mapping[Collective, tuple[int, ...]]:
        """Sizes in bytes that the sweep measured, rising."""
        frame = load_frame(open_session(self.session), self.reporter)
        by_name = frame.groupby("collective", observed=True)["nbytes"].unique()
        return {
            Collective(name): tuple(sorted(int(n) for n in found))
            for name, found in by_name.items()
            if Collective(name).is_tunable
        }

    @property
    def dtype(self) -> str:
        """Of the calls."""
        return self.sweep.dtypes[0]

    @property
    def op(self) -> str:
        """Of the calls."""
        return self.sweep.redop

    def idle_cost(self, *_: object) -> Estimate | None:
        """None: the library's side is the site as it is, without our plugin."""
        return None

    def octaves(self) -> tuple[IdleEffect, ...]:
        """Nothing, likewise."""
        return ()

    def call(self, text: str, only: Sequence[Rule] = ()) -> CallResult:
        """Launch both sides in turns; what failed with the rules is said of its collective.

        Raises:
            LaunchError: the library as it is fails.
            VerificationError: it computes wrong results by itself.
            RccltuneError: as launches do.
        """
        import pandas as pd

        named = {one.collective for one in only}
        site = self.site
        seen = launch_environment(os.environ, (*site.environment, *self.needs), keep=CLEARED)
        folder, file = folder_of(text, self.session / FOLDER, seen.told())
        n = self.asked or defaults.VERIFY_COMMUNICATORS
        turns = [
            self._turns(folder, file, collective, sizes, n)
            for collective, sizes in self.swept.items()
            if not only or collective in named
        ]
        tables = [table for one in turns for table in one.tables]
        return CallResult(
            pairs=_pairs(pd.concat(tables), GRAPH if self.graph else LOOP),
            checked={one.collective: frozenset(one.checked) for one in turns if one.checked},
            wrong={one.collective: frozenset(one.wrong) for one in turns if one.wrong},
            failed={one.collective: one.failed for one in turns if one.failed},
            n_replicates=n,
            n_processes=2 * n,
            seconds=sum(one.seconds for one in turns),
        )

    def _turns(
        self, folder: Path, rules: Path, collective: Collective, sizes: Sequence[int], n: int
    ) -> _LaunchTurns:
        """Launches of one collective; none with the rules any more once one failed."""
        made = _LaunchTurns(collective)
        for number in range(n):
            for who in _TURNS[number % 2]:
                if who == RULES and made.failed:
                    continue
                name = f"{collective.value}-{'rules' if who == RULES else 'library'}-{number}"
                call = BenchmarkCall(
                    collective=collective,
                    min_nbytes=sizes[0],
                    max_nbytes=sizes[-1],
                    factor=self.sweep.factor,
                    dtype=self.dtype,
                    op=self.op,
                    placements=self.sweep.placements,
                    graph=self.graph,
                )
                is_ruled = who == RULES
                one = self._launched(call, folder / "launches" / name, rules, is_ruled=is_ruled)
                made.add(one, number, str(who), is_ruled=is_ruled)
        return made

    def _launched(
        self, call: BenchmarkCall, own: Path, rules: Path, *, is_ruled: bool
    ) -> BenchmarkResult:
        """A launch, or what is there of it from an earlier command."""
        node = self.session / NODE_FILE if self.site.node is not None else None
        where = RcclTestsSetup(site=self.site, node=node)
        if (own / _DONE).exists():
            seconds = float((own / _DONE).read_text("ascii"))
            return rccl_tests.read_launched(where, call, own, seconds=seconds)
        if own.exists():
            shutil.rmtree(own)
        self.reporter.detail(f"launch {own.name}")
        log = own.resolve() / "decisions-%h-%p-%c.log"
        told = [
            ("NCCL_TUNER_PLUGIN", str(plugin.library())),
            ("RCCLTUNE_LOG", f"decisions:{log}"),
            *variables_for(self.site, rules),
        ]
        made = rccl_tests.launch(
            where,
            call,
            own,
            added=[*self.needs, *(told if is_ruled else [])],
            as_it_is=not is_ruled,
            timeout_s=self.timeout_s or _TIMEOUT_S,
        )
        if made.failure in (None, Failure.WRONG):
            (own / _DONE).write_text(f"{made.seconds:.3f}", "ascii")
        return made


@dataclass(slots=True)
class _LaunchTurns:
    """What launches of one collective gave so far."""

    collective: Collective
    tables: list[pd.DataFrame] = field(default_factory=list)
    checked: set[int] = field(default_factory=set)
    wrong: set[int] = field(default_factory=set)
    failed: str = ""
    seconds: float = 0.0

    def add(self, one: BenchmarkResult, number: int, who: str, *, is_ruled: bool) -> None:
        """Keep a launch.

        Raises:
            LaunchError: the library as it is fails.
            VerificationError: it computes wrong results by itself.
        """
        self.seconds += one.seconds
        bad = _wrong_of(one)
        if not is_ruled and bad:
            raise wrong_by_itself(self.collective.value, sorted(bad), one.folder)
        if one.table is None and not is_ruled:
            raise LaunchError(f"the library as it is failed: {one.words}", where=str(one.folder))
        self.wrong |= bad
        if one.table is None:
            self.failed = f"{one.words} with the rules"
            return
        if is_ruled:
            self.checked |= set(map(int, one.table[one.table["n_wrong"].notna()]["nbytes"]))
        self.tables.append(
            one.table.assign(
                collective=self.collective.value,
                replicate=str(number),
                who=who,
                answer=_answers(one.folder, one.table) if is_ruled else "",
            )
        )


def _wrong_of(one: BenchmarkResult) -> frozenset[int]:
    if one.table is None:
        return frozenset()
    return frozenset(int(n) for n in one.table[one.table["n_wrong"] > 0]["nbytes"])


def _answers(folder: Path, table: pd.DataFrame) -> pd.Series:
    """What the plugin answered at each size; empty where nobody asked it."""
    said: dict[int, str] = {}
    for path in folder.glob("decisions-*.log"):
        for nbytes, answer in _DECISION.findall(path.read_text(errors="replace")):
            said[int(nbytes)] = answer
    found: pd.Series = table["nbytes"].map(said).fillna("")
    return found


def _pairs(table: pd.DataFrame, clock: str) -> pd.DataFrame:
    """Launches as :func:`rccltune.verify.pairs.ratios` has communicators."""
    good = table[table["time_us"] > 0]
    cell = ["collective", "placement", "nbytes", "replicate"]
    made = good.pivot_table(values="time_us", index=cell, columns="who", aggfunc="median")
    made = made.reindex(columns=[str(SILENT), str(RULES)])
    made = made.rename(columns={str(SILENT): "library_us", str(RULES): "rules_us"})
    made["gain"] = np.log(made["library_us"]) - np.log(made["rules_us"])
    answers = good[good["who"] == str(RULES)].groupby(cell)["answer"].first()
    made["answer"] = answers.reindex(made.index).fillna("")
    made["is_asked"] = made["answer"] != ""
    # One side runs without our plugin.
    made["is_alike"] = False
    for name in ("stalls_library", "stalls_rules"):
        made[name] = 0
    for name in ("n_library", "n_rules"):
        made[name] = 1
    made["left_over"] = 0.0
    found: pd.DataFrame = made.reset_index().assign(clock=clock)
    return found
