"""What rccl-tests say beside the rank program: the same settings, a few sizes, two programs.

After a sweep by the rank program every pair of algorithm and protocol, and the library as it is,
is launched once with rccl-tests, at sizes a factor of four apart: forced by NCCL_ALGO and
NCCL_PROTO, loop beside loop, and graph beside ``-G``. Nothing is chosen by it. ``crosscheck.csv``
has a row for each size that both measured.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.launch import signals
from rccltune.machine import overrides
from rccltune.measure import rccl_tests
from rccltune.measure.ongoing_sweep import SweepProgress
from rccltune.measure.perf_sweep import PreparedPerfSweep
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.request import Request
from rccltune.measure.site import find_site
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, LaunchError, MachineError
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import csv_text
from rccltune.model.settings import BASELINE, SILENT, Role, Setting
from rccltune.model.vocabulary import Collective, format_size
from rccltune.session import files, plan, rows
from rccltune.session.store import CROSSCHECK_FILE, NODE_FILE

if TYPE_CHECKING:
    import pandas as pd

FOLDER: Final = "crosscheck"
FACTOR: Final = 4
# Two programs agree where their times differ by no more.
AGREE: Final = 0.10
_TIMEOUT_S: Final = 180.0
# After so many failures nothing more is started: the sweep's times are there already.
_MOST_FAILURES: Final = 2
# What must be the same in both.
_CELL: Final = ["collective", "setting", "clock", "placement", "nbytes"]
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosscheckLaunch:
    """One launch: a setting of a collective, by one clock."""

    collective: Collective
    setting: Setting
    clock: str
    call: BenchmarkCall

    def __str__(self) -> str:
        """``all_reduce ring/ll graph``."""
        return f"{self.collective.value} {self.setting} {self.clock}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrosscheckResult:
    """What came of it.

    Attributes:
        table: columns collective, setting, clock, placement, nbytes, ours_us, theirs_us and ratio
            (theirs over ours).
        failed: launches that gave no table, each with the reason.
        seconds: of the launches that were made now.
        is_whole: neither budget nor failures left any out.
    """

    table: pd.DataFrame
    failed: tuple[str, ...]
    seconds: float
    is_whole: bool

    def rows(self) -> Iterator[tuple[str, str, str, str, str, str]]:
        """Collective, clock, sizes, share within 10 %, difference in the middle, the furthest."""
        import numpy as np

        for (collective, clock), own in self.table.groupby(["collective", "clock"], sort=False):
            ratio = own["ratio"].to_numpy()
            apart = np.abs(np.log(ratio))
            far = int(apart.argmax())
            size = format_size(int(own["nbytes"].iloc[far]))
            yield (
                str(collective),
                str(clock),
                f"{format_size(own['nbytes'].min())} to {format_size(own['nbytes'].max())}",
                f"{100 * np.mean(apart <= math.log1p(AGREE)):.0f} % of {len(own)}",
                _percent(float(np.median(ratio))),
                f"{_percent(float(ratio[far]))} {own['setting'].iloc[far]} at {size}",
            )

    def sentence(self) -> str:
        """Whether the two programs agree, in one sentence."""
        if self.table.empty:
            return "rccl-tests measured nothing that could be compared"
        apart = self.table["ratio"].map(lambda ratio: abs(math.log(ratio)))
        n_near = int((apart <= math.log1p(AGREE)).sum())
        said = (
            f"rccl-tests and rccltune-perf agree within {100 * AGREE:.0f} % at {n_near} of "
            f"{len(self.table)} times"
        )
        far = self.table[apart > math.log1p(AGREE)]
        if far.empty:
            return said
        named = far.groupby(["collective", "setting", "clock"], sort=False).size()
        worst = named.sort_values(ascending=False, kind="stable").index[:_SHOWN]
        listed = ", ".join(f"{c} {s} ({clock})" for c, s, clock in worst)
        return f"{said}; most often not for {listed}"

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "compared": len(self.table),
            "sentence": self.sentence(),
            "failed": list(self.failed),
            "seconds": round(self.seconds, 1),
            "whole": self.is_whole,
        }


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def is_wanted(request: Request) -> bool:
    """Whether a sweep is cross-checked where it can be; a simulated node only on request."""
    if request.crosscheck is None:
        return request.site.simulate is None
    return request.crosscheck


def find_where(request: Request, prepared: PreparedPerfSweep) -> RcclTestsSetup:
    """Where rccl-tests run beside the rank program.

    Raises:
        MachineError: there are none, no launcher, or they load another library.
        CommandLineError: what was said does not fit them.
    """
    asked = request.site
    if str(asked.librccl) in ("torch", "real"):
        raise CommandLineError(f"rccl-tests do not load the library '{asked.librccl}'")
    own = asked.launcher in ("auto", "local", "none", "torchrun")
    launcher = defaults.LAUNCHER if own else asked.launcher
    site = find_site(replace(asked, runner=defaults.RUNNER, launcher=launcher))
    mine, theirs = prepared.instrument.ground.library.version, site.library
    if None not in (mine, theirs) and mine != theirs:
        raise MachineError(
            f"rccl-tests load {theirs}, and {mine} was measured",
            hint="name one for both with --librccl FILE.",
        )
    return RcclTestsSetup(
        site=site, node=None if site.node is None else prepared.folder / NODE_FILE
    )


def launches_of(ours: pd.DataFrame, prepared: PreparedPerfSweep) -> list[CrosscheckLaunch]:
    """What is launched: the baseline and every pair that was measured, by each clock.

    Args:
        ours: times of the rank program, see :func:`ours_of`.
        prepared: the sweep.
    """
    sweep = prepared.sweep
    found = []
    for (collective, text, clock), own in ours.groupby(
        ["collective", "setting", "clock"], sort=False
    ):
        setting = Setting.parse(str(text))
        call = BenchmarkCall(
            collective=Collective(collective),
            min_nbytes=int(own["nbytes"].min()),
            max_nbytes=int(own["nbytes"].max()),
            factor=FACTOR,
            dtype=sweep.dtypes[0],
            op=sweep.redop,
            placements=sweep.placements,
            graph=clock == plan.GRAPH,
        )
        found.append(
            CrosscheckLaunch(
                collective=call.collective,
                setting=setting,
                clock=str(clock),
                call=call,
            )
        )
    # What cannot be called by itself has no setting: the baseline comes first.
    return sorted(found, key=lambda one: one.setting != BASELINE)


def ours_of(table: pd.DataFrame) -> pd.DataFrame:
    """Times of the rank program that are to be held against, medians over communicators.

    Args:
        table: rows of all runs.
    """
    timed = table[(table["step"] == plan.MEASURE) & (table["state"] == rows.GOOD)]
    # The idle plugin stands for the site where that was not timed.
    cell = timed.groupby(["collective", "nbytes"], sort=False).ngroup()
    has_site = (timed["setting"] == str(BASELINE)).groupby(cell).transform("any")
    stands = (timed["setting"] == str(SILENT)) & ~has_site
    timed = timed.assign(setting=timed["setting"].mask(stands, str(BASELINE)))
    forced = timed["setting"].map(_is_compared)
    middle = timed[forced].groupby(_CELL, sort=False)["time_us"].median()
    found: pd.DataFrame = middle.rename("ours_us").reset_index()
    return found


def _is_compared(text: str) -> bool:
    setting = Setting.parse(text)
    return setting == BASELINE or (setting.role is Role.FORCED and setting.channels is None)


def after_sweep(
    request: Request, prepared: PreparedPerfSweep, *, reporter: Reporter
) -> CrosscheckResult | None:
    """Cross-check a sweep that is over; what stands against it is told, and is no failure.

    Args:
        request: what the user asked for.
        prepared: the sweep.
        reporter: told how far it is, and why there is none.

    Raises:
        SessionError: another writer, or the disk refuses.
        KeyboardInterrupt: after all that was started is gone.
    """
    if not is_wanted(request):
        return None
    try:
        where = find_where(request, prepared)
    except (MachineError, CommandLineError) as error:
        reporter.say(f"Not cross-checked with rccl-tests: {error.message}")
        return None
    reporter.say("Cross-check with rccl-tests (--no-crosscheck leaves it out)")
    try:
        return crosscheck(prepared, where, reporter=reporter, left_s=prepared.measuring.left_s())
    except LaunchError as error:
        reporter.say(str(error))
        return None


def crosscheck(
    prepared: PreparedPerfSweep,
    where: RcclTestsSetup,
    *,
    reporter: Reporter,
    left_s: float | None = None,
) -> CrosscheckResult:
    """Launch rccl-tests for what the rank program measured, and keep what both say.

    A launch that ended well is not repeated; a failure is told and the others go on, but where the
    library as it is fails nothing else is tried.

    Args:
        prepared: a sweep by the rank program that is over.
        where: rccl-tests run.
        reporter: told how far it is.
        left_s: seconds that may be spent, None for as many as it takes.

    Raises:
        SessionError: another writer, or the disk refuses.
        LaunchError: the baseline fails, or a process cannot be killed.
        KeyboardInterrupt: after all that was started is gone.
    """
    import pandas as pd

    ours = ours_of(prepared.measuring.table())
    asked = launches_of(ours, prepared)
    parts: list[pd.DataFrame] = []
    failed: list[str] = []
    seconds, is_whole = 0.0, True
    with files.writing(prepared.folder, reporter), signals.interruptible():
        for number, one in enumerate(asked):
            if len(failed) >= _MOST_FAILURES or (left_s is not None and seconds >= left_s):
                is_whole = False
                break
            reporter.progress(SweepProgress(done=number, of=len(asked), what=f"rccl-tests: {one}"))
            done = _launched(prepared.folder, where, one)
            seconds += done.seconds
            if done.table is None:
                if one.setting == BASELINE:
                    raise LaunchError(
                        f"cross-check: rccl-tests fail with nothing forced: {done.words}",
                        where=str(done.folder),
                        hint="the sweep is kept; --no-crosscheck leaves rccl-tests out.",
                    )
                failed.append(f"{one}: {done.words}")
                continue
            parts.append(_held(done, one, ours))
        empty = pd.DataFrame({name: [] for name in (*_CELL, "ours_us", "theirs_us", "ratio")})
        table = pd.concat(parts, ignore_index=True) if any(map(len, parts)) else empty
        files.write_atomically(prepared.folder / CROSSCHECK_FILE, csv_text(table))
    return CrosscheckResult(table=table, failed=tuple(failed), seconds=seconds, is_whole=is_whole)


def _launched(folder: Path, where: RcclTestsSetup, one: CrosscheckLaunch) -> BenchmarkResult:
    """The launch, made now or read again."""
    argv = rccl_tests.command(where.site, one.call)
    stated = rccl_tests.stated_of(where.site, one.collective, one.setting)
    digest = hashlib.sha256("\0".join(argv).encode()).hexdigest()[:8]
    words = (one.collective.value, str(one.setting).replace("/", "-"), one.clock)
    own = (folder / FOLDER / f"{'-'.join(words)}-{digest}").resolve()
    if rccl_tests.is_complete(own):
        return rccl_tests.read_launched(own, stated)
    with files.disk_errors(own):
        shutil.rmtree(own, ignore_errors=True)
    return rccl_tests.launch(
        where,
        argv,
        own,
        stated,
        added=overrides.switches(one.setting),
        as_it_is=one.setting == BASELINE,
        timeout_s=_TIMEOUT_S,
    )


def _held(done: BenchmarkResult, one: CrosscheckLaunch, ours: pd.DataFrame) -> pd.DataFrame:
    """What both programs measured; where another setting ran than was asked for, nothing."""
    if done.table is None:
        raise ValueError("a launch that gave no table is not compared")
    theirs = done.table[done.table["unusable"] == ""]
    middle = theirs.groupby(["placement", "nbytes"], observed=True, sort=False)["time_us"].median()
    mine = ours[
        (ours["collective"] == one.collective.value)
        & (ours["setting"] == str(one.setting))
        & (ours["clock"] == one.clock)
    ]
    both: pd.DataFrame = mine.merge(
        middle.rename("theirs_us").reset_index(), on=["placement", "nbytes"]
    )
    both["ratio"] = both["theirs_us"] / both["ours_us"]
    return both
