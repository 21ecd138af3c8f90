"""A sweep by the rank program: what a user asked for, held against what its session has."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.bits.probes import ADDING
from rccltune.launch import signals, variables
from rccltune.logs.library_log import find_tuner
from rccltune.measure import passes, workload_sizes
from rccltune.measure.instrument import (
    Instrument,
    check_collectives,
    check_same_machine,
    check_same_setup,
    find_instrument,
    setup_of,
)
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.ongoing_sweep import (
    OngoingSweep,
    not_offered,
    remarks_of_ranks,
    timings_differ,
)
from rccltune.measure.passes import SweepScope
from rccltune.measure.paths_here import paths_here
from rccltune.measure.request import Request, site_keys
from rccltune.measure.site import Site
from rccltune.measure.sweep_result import (
    SweepResult,
    begin_sweep,
    finish_sweep,
    unattributed,
)
from rccltune.measure.sweep_schema import PERF
from rccltune.model import defaults
from rccltune.model.errors import BudgetError, CommandLineError, LaunchError, MachineError
from rccltune.model.failure import ExcludedSetting
from rccltune.model.measurement import Sweep
from rccltune.model.ranges import Range
from rccltune.model.reporter import Reporter
from rccltune.model.settings import LL128_FORCED, Role, Setting
from rccltune.model.units import format_span
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.ranks import plan, runs
from rccltune.ranks.runs import Run
from rccltune.releases import release_of
from rccltune.session import lock
from rccltune.session.store import SessionSetup
from rccltune.variants.paths_past import PathPast, sentences

if TYPE_CHECKING:
    import pandas as pd

# Words of types that rccl-tests spells in two ways.
_TYPES: Final = {"f8e4m3": "fp8_e4m3", "f8e5m2": "fp8_e5m2"}
_FEW_RANKS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPerfSweep:
    """A sweep by the rank program that could start now.

    Attributes:
        sweep: as resolved, for the session's sweep.yaml.
        left_out: sizes that are not measured, in words.
        cleared: variables of the site that no rank sees where our plugin answers.
        passed: variables of the site that every rank sees.
    """

    folder: Path
    setup: SessionSetup
    sweep: Sweep
    instrument: Instrument
    measuring: OngoingSweep
    left_out: tuple[str, ...]
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]
    keys: Mapping[str, Any]

    @property
    def site(self) -> Site:
        """Site where it measures."""
        return self.instrument.site

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for a user before it starts."""
        return (*sentences(self.past), *self.site.remarks)

    @property
    def excluded(self) -> tuple[ExcludedSetting, ...]:
        """Settings that are measured no more."""
        return self.measuring.excluded()

    @property
    def budget_left_s(self) -> float | None:
        """Seconds of the budget that are left; None without one."""
        return self.measuring.remaining_s()

    @property
    def plan_lines(self) -> Iterator[str]:
        """Sizes and settings of each collective, and what is left of each start."""
        scope = self.measuring.scope
        for collective, sizes in scope.sizes.items():
            settings = ", ".join(map(str, scope.settings_of(collective))) or "as it is"
            span = format_span(sizes[0], sizes[-1])
            yield f"{collective.value}: {len(sizes)} sizes, {span}; {settings}"
        for one in self.left:
            n = len(one.communicators)
            yield f"{one.what}: {n} communicator{'s' * (n > 1)}"

    @property
    def units(self) -> list[passes.RunPlan]:
        """Starts of all ranks; those of the second pass are a guess before the first is done."""
        # Without a run there is no table, and pandas takes half a second to load.
        table = self.measuring.table() if self.measuring.runs else None
        units: list[passes.RunPlan] = []
        for stage in passes.STAGES:
            is_over = not any(self.measuring.remaining(one) for one in units)
            units += stage(self.measuring.scope, table if is_over else None)
        return units

    @property
    def past(self) -> tuple[PathPast, ...]:
        """Paths that take calls of its sizes before a tuner is asked."""
        return paths_here(self.instrument.site, self.sweep, dict(self.passed))

    @property
    def left(self) -> list[passes.RunPlan]:
        """Units of which something is left."""
        return [one for one in self.units if self.measuring.remaining(one)]

    @property
    def n_starts(self) -> int:
        """Starts of all ranks that they take."""
        units = self.left
        n_alone = sum(one.is_alone for one in units)
        return n_alone + len({one.plugin for one in units if not one.is_alone})

    @property
    def expected_s(self) -> float:
        """Seconds that they roughly take."""
        starts_s = self.n_starts * passes.start_s(self.instrument.ground)
        return starts_s + self.measuring.expected_s(self.left)

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "runner": PERF,
            "starts": self.n_starts,
            "runs": [
                {
                    "what": one.what,
                    "purpose": one.purpose,
                    "plugin": one.plugin,
                    "communicators": len(one.communicators),
                    "steps": sum(map(len, self.measuring.remaining(one).values())),
                }
                for one in self.left
            ],
            "library": self.instrument.ground.library.file,
            "past_tuner": self.past,
            "left_out": self.left_out,
            "cleared": dict(self.cleared),
            "passed": dict(self.passed),
            "estimate_s": round(self.expected_s, 1),
            "simulated": self.instrument.site.node is not None,
        }


def prepare_measuring(request: Request, folder: Path, reporter: Reporter) -> PreparedPerfSweep:
    """Find out what is there, what was asked for, and what of it the session already has.

    Nothing is started or written.

    Args:
        request: all of it.
        folder: the session.
        reporter: told what is worth telling while it is measured.

    Raises:
        CommandLineError: what was said does not fit together.
        MachineError: there is no library, or no GPU.
        SessionError: the session is of another machine, runner, library or environment.
        OutputError: a run of the session cannot be read.
    """
    instrument = find_instrument(request.site, folder, request.timeout_s)
    site = instrument.site
    check_collectives(request.sweep.collectives)
    setup = setup_of(request.site, site)
    check_same_setup(folder, setup)
    check_same_machine(folder, site, is_perf=True)
    sweep = request.sweep
    left_out: tuple[str, ...] = ()
    if request.workload is not None:
        sweep, left_out = workload_sizes.with_sizes(
            sweep, request.workload, site.scale, named_collectives=request.named_collectives
        )
    mode = site.fingerprint.mode
    if not request.named_sizes and mode is not None and mode.compute == "CPX":
        sweep = replace(sweep, max_nbytes=defaults.MAX_NBYTES_CPX)
    sweep = replace(sweep, rank_placement=site.seating.place.name, scales=(site.scale,))
    scope = _make_scope(request, sweep, instrument)
    environment = variables.launch_environment(
        os.environ, site.environment, clear=site.cleared, keep=variables.CHANNELS
    )
    measuring = OngoingSweep(
        ground=instrument.ground,
        scope=scope,
        session=folder,
        reporter=reporter,
        budget_s=request.budget_s,
        largest=max(one for sizes in scope.sizes.values() for one in sizes),
    )
    measuring.read()
    return PreparedPerfSweep(
        folder=folder,
        setup=setup,
        sweep=sweep,
        instrument=instrument,
        measuring=measuring,
        left_out=left_out,
        cleared=environment.cleared,
        passed=environment.passed,
        keys={
            **site_keys(request.site, folder),
            "communicators": request.communicators,
            "timing": request.timing,
        },
    )


def _make_scope(request: Request, sweep: Sweep, instrument: Instrument) -> SweepScope:
    """Scope of the sweep, as the rank program takes it.

    Raises:
        CommandLineError: nothing of it can be called, or a setting is not complete.
    """
    for setting in sweep.settings:
        if setting.role is not Role.FORCED or not setting.is_complete:
            raise CommandLineError(
                f"'{setting}' cannot be measured: a setting names an algorithm and a protocol",
                hint="write ring/ll128 or ring/ll128/16; baseline and idle are measured anyway.",
            )
    n_ranks = instrument.site.scale.n_ranks
    every = Range(
        min_nbytes=sweep.min_nbytes, max_nbytes=sweep.max_nbytes, factor=sweep.factor
    ).sizes
    named = dict(sweep.wanted)
    sizes = {
        one: plan.sizes_for(named.get(one, () if named else every), one, n_ranks)
        for one in sweep.collectives
    }
    sizes = {one: sizes[one] for one in sizes if sizes[one]}
    if not sizes:
        raise CommandLineError(
            f"nothing of what was asked for can be called by {n_ranks} ranks",
            hint="ask for larger sizes (--max-bytes).",
        )
    if sweep.same_bits:
        _check_bits(sweep, instrument)
    dtype, op = call_words(sweep)
    release = release_of(instrument.ground.library.version)
    return SweepScope(
        sizes=sizes,
        placements=sweep.placements,
        dtype=dtype,
        op=op,
        settings=sweep.settings,
        counts=sweep.counts,
        timing=request.timing,
        n_communicators=request.communicators,
        checked_up_to=instrument.checked_up_to,
        n_ranks=n_ranks,
        same_bits=sweep.same_bits,
        probed_up_to=None if instrument.site.node is None else probed_of_simulated(n_ranks),
        idle_source=release.idle_source if release is not None else "",
    )


def _check_bits(sweep: Sweep, instrument: Instrument) -> None:
    """Stop where no order of adding is probed.

    Raises:
        CommandLineError: why.
    """
    why = ""
    if instrument.site.scale.n_nodes > 1:
        why = "trees of several nodes were never held against GPUs"
    elif instrument.site.node is None and instrument.ground.simulated:
        why = "the real library runs no kernels without a GPU, so nothing is added"
    elif sweep.op != "sum":
        why = f"only sums are probed, and --op is {sweep.op}"
    elif not set(sweep.collectives) & set(ADDING):
        why = "none of these collectives adds by an order that can be probed"
    if why:
        raise CommandLineError(
            f"--same-bits: {why}",
            hint="probe all_reduce or reduce_scatter of one node, --op sum (docs/bits.md).",
        )


def probed_of_simulated(n_ranks: int) -> int:
    """Bytes up to which simulated ranks, on a few processors, add in seconds."""
    return 1 << 20 if n_ranks <= _FEW_RANKS else 1 << 18


def call_words(sweep: Sweep) -> tuple[str, str]:
    """Type and operation of a sweep's calls, as the rank program spells them."""
    dtype = sweep.dtypes[0]
    return _TYPES.get(dtype, dtype), "sum" if sweep.op == "none" else sweep.op


def measure_with_perf(
    prepared: PreparedPerfSweep,
    *,
    reporter: Reporter,
    command: str,
    force: bool,
    stays: bool = False,
) -> SweepResult:
    """Measure what is left, and make the session's samples of all that is there.

    Args:
        prepared: what is to be measured.
        reporter: told what goes on.
        command: as typed, for the session.
        force: go on though several hosts are not alike.
        stays: let ranks with our plugin wait for more; who says so closes the sweep.

    Raises:
        BudgetError: the budget allows nothing.
        LaunchError: the library as it is fails.
        MachineError: library, devices, hosts or a configuration file stand against it.
        SessionError: another writer, or the disk refuses.
        OutputError: ranks were answered differently.
        KeyboardInterrupt: after all that was started is gone and the session is whole.
    """
    measuring, folder, site = prepared.measuring, prepared.folder, prepared.instrument.site
    measuring.reporter, measuring.force = reporter, force
    with lock.lock_session(folder, reporter), signals.interruptible():
        begin_sweep(
            folder, site, prepared.setup, prepared.sweep, keys=prepared.keys, command=command
        )
        end_leftovers(folder, reporter)
        # Read again: another rccltune may have gone on with it before we held it.
        measuring.read()
        try:
            with nullcontext() if stays else measuring.closing():
                measuring.sweep()
        finally:
            opened, samples = finish_sweep(folder)
            n_samples = int((samples["unusable"] == "").sum())
        if changed := site.changed():
            raise MachineError(
                f"the machine changed while it was measured: {'; '.join(changed)}",
                where=str(folder),
                hint="measure again into another session with -o.",
            )
    if not n_samples and measuring.is_over:
        raise BudgetError("the budget allows no timing at all", hint="give more with --budget.")
    if not n_samples:
        raise LaunchError("no run gave a time", where=str(folder / runs.FOLDER))
    table = measuring.table()
    return SweepResult(
        session=opened,
        runner=PERF,
        n_starts=len(measuring.runs),
        n_samples=n_samples,
        excluded=measuring.excluded(),
        not_offered=tuple(_not_offered(prepared, table)),
        remarks=(
            *unattributed(samples),
            *passes.idle_by_source(table, measuring.scope.idle_source),
            *timings_differ(table),
            *remarks_of_ranks(measuring.runs),
        ),
        is_over=measuring.is_over,
        seconds=sum(one.ended.duration_s for one in measuring.runs if one.ended),
        library=prepared.instrument.ground.library.version or "unknown",
        tuner=tuner_of_baseline(measuring.runs),
    )


def tuner_of_baseline(session_runs: Sequence[Run]) -> str | None:
    """Tuner that the library used where our plugin was not loaded.

    Args:
        session_runs: of which the first one without our plugin says it.
    """
    for run in session_runs:
        log = run.folder / runs.LIBRARY_LOG
        if not run.file.plugin and log.exists():
            return find_tuner(log.read_text(encoding="utf-8", errors="replace"))
    return None


def _not_offered(prepared: PreparedPerfSweep, table: pd.DataFrame) -> Iterator[str]:
    """A sentence for each setting that could not be chosen, and what would let it be."""
    site = prepared.instrument.site
    by_setting: dict[Setting, list[Collective]] = {}
    for collective, setting in not_offered(table):
        by_setting.setdefault(setting, []).append(collective)
    for setting, collectives in by_setting.items():
        why = ""
        if site.is_gated and setting.protocol is Protocol.LL128:
            why = f"; --env {'='.join(LL128_FORCED)} makes it, in a session of its own"
        is_tree = setting.algorithm is Algorithm.TREE and setting.protocol is Protocol.SIMPLE
        if site.is_gated and is_tree:
            why = "; this RCCL leaves Tree with Simple out on one node"
        names = ", ".join(one.value for one in collectives)
        yield f"{names} {setting}: the library does not let it be chosen{why}"
