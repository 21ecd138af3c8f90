"""A sweep by rccl-tests: one launch for each setting, and one for the library as it is.

``runs/<n>/`` has what was started (run.json, and command.txt for a shell), what it printed
(stdout.log), and how it ended (ending.json), which is written last: rccltune lost at any moment
loses the launch under way and nothing else. A setting whose launch fails is excluded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from rccltune.launch import overrides, signals, variables
from rccltune.logs.library_log import find_tuner
from rccltune.measure import hopeless_runs, rank_program, rccl_tests
from rccltune.measure.hosts import HostComparison
from rccltune.measure.instrument import (
    check_same_machine,
    check_same_setup,
    find_instrument,
    setup_of,
)
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.printed_devices import misplaced
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.request import Request, site_keys
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.measure.sweep_result import (
    SweepResult,
    begin_sweep,
    finish_sweep,
    unattributed,
)
from rccltune.measure.sweep_schema import PERF
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, LaunchError, MachineError
from rccltune.model.failure import ExcludedSetting, Failure
from rccltune.model.measurement import Notice, StatedFacts, Sweep
from rccltune.model.ranges import Range
from rccltune.model.reporter import Progress, Reporter
from rccltune.model.settings import BASELINE, LL128_FORCED, TREE_SIMPLE_FORCED, Role, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.ranks import plan, runs
from rccltune.ranks.hangs_and_crashes import find_excluded
from rccltune.ranks.runs import EndFile, Run, RunFile
from rccltune.session import files, lock, store
from rccltune.session.store import NODE_FILE, SessionSetup

_ALGORITHMS: Final = (Algorithm.TREE, Algorithm.RING)
# At its start the library says which tuner it uses; asked of the baseline alone, where the site
# keeps no log of its own.
_TELL_TUNER: Final = (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV"))
# Folder of the rank program's run that says what hosts are, and what its communicator is for.
_HOSTS: Final = "hosts"
# After so many failures in a row the machine may be what does not work.
_MOST_FAILURES: Final = 2
# Guesses, high ones, of what a launch takes: its start, and calls at 50 µs and 10 GB/s.
_START_S: Final = 2.0
_RANK_S: Final = 0.25
_CALL_S: Final = 50e-6
_BYTES_S: Final = 10e9


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRcclTests:
    """A sweep by rccl-tests that could start now.

    Attributes:
        request: what the user says about where to run.
        launches: of the whole sweep, before any is started.
        left_out: settings and collectives that are not measured here, in words.
        remarks: what a user should know before it starts.
        cleared: variables of the site that no rank sees where a setting is forced.
        passed: variables of the site that every rank sees.
        runs: that the session has.
    """

    folder: Path
    setup: SessionSetup
    sweep: Sweep
    where: RcclTestsSetup
    request: SiteRequest
    launches: tuple[RunFile, ...]
    left_out: tuple[str, ...]
    remarks: tuple[str, ...]
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]
    timeout_s: float | None
    budget_s: float | None
    keys: Mapping[str, Any]
    runs: list[Run] = field(default_factory=list)

    @property
    def site(self) -> Site:
        """Site where it measures."""
        return self.where.site

    @property
    def n_starts(self) -> int:
        """Starts of all ranks that they take."""
        return len(self.left)

    @property
    def left(self) -> tuple[RunFile, ...]:
        """Launches still to be made."""
        done = [_as_planned(run.file) for run in self.runs if run.has_log_table]
        barred = {(one.collective, one.setting) for one in self.excluded}
        return tuple(
            one for one in self.launches if one not in done and called_by(one) not in barred
        )

    @property
    def excluded(self) -> tuple[ExcludedSetting, ...]:
        """Settings that are measured no more."""
        return find_excluded(self.runs)

    @property
    def seconds(self) -> list[float]:
        """Seconds of each launch that ended well."""
        ends = (run.ended for run in self.runs if run.ended is not None)
        return [end.duration_s for end in ends if end.failure is None]

    @property
    def spent_s(self) -> float:
        """Seconds that the session's launches took."""
        return sum(run.ended.duration_s for run in self.runs if run.ended is not None)

    @property
    def budget_left_s(self) -> float | None:
        """Seconds of the budget that are left; None without one."""
        return None if self.budget_s is None else self.budget_s - self.spent_s

    @property
    def expected_s(self) -> float:
        """Seconds that the launches left roughly take: as those before did, else a high guess."""
        known = sorted(self.seconds)
        site, sweep = self.site, self.sweep
        each = _START_S + _RANK_S * site.scale.n_ranks if site.start_s is None else site.start_s
        if known:
            each = known[len(known) // 2]
        elif site.node is None:
            n_calls = (sweep.iterations + sweep.warmup + 1) * len(sweep.placements)
            each += sum(n_calls * (_CALL_S + nbytes / _BYTES_S) for nbytes in _sizes(sweep))
        return len(self.left) * each

    @property
    def plan_lines(self) -> Iterator[str]:
        """Launches that are left, each as for a shell."""
        folder = self.folder.resolve() / runs.FOLDER / "N"
        for one in self.left:
            environment = rccl_tests.environment_of(
                self.where, folder, added=_added(one, folder), as_it_is=_is_baseline(one)
            )
            yield f"{what_of(one)}:"
            yield f"  {rccl_tests.shell_line(self.where, one.argv, environment)}"

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            "runner": defaults.RUNNER,
            "runs": [
                {
                    "what": what_of(one),
                    "collective": called_by(one)[0],
                    "setting": str(called_by(one)[1]),
                    "argv": one.argv,
                    "environment": dict(one.added),
                }
                for one in self.left
            ],
            "left_out": self.left_out,
            "cleared": dict(self.cleared),
            "passed": dict(self.passed),
            "estimate_s": round(self.expected_s, 1),
            "simulated": self.site.node is not None,
        }


def called_by(one: RunFile) -> tuple[Collective, Setting]:
    """The collective and the setting of a launch."""
    stated = one.stated
    if stated is None or stated.collective is None or stated.setting is None:
        raise ValueError(f"this is no launch of rccl-tests: {one.argv}")
    return stated.collective, stated.setting


def what_of(one: RunFile) -> str:
    """``all_reduce ring/ll``: what a launch measures."""
    collective, setting = called_by(one)
    return f"{collective.value} {setting}"


def _as_planned(one: RunFile) -> RunFile:
    """A launch before it was started."""
    return replace(one, process="", started="")


def prepare_rccl_tests(request: Request, folder: Path) -> PreparedRcclTests:
    """Find out what is there, what was asked for, and what of it the session already has.

    Nothing is started or written.

    Args:
        request: all of it.
        folder: the session.

    Raises:
        CommandLineError: what was said does not fit together.
        MachineError: no benchmark, no launcher, or a hidden file chooses for every launch.
        SessionError: the session is of another machine, runner, library or environment.
    """
    site = find_site(request.site)
    if request.sweep.wanted or request.workload is not None:
        raise CommandLineError(
            "rccl-tests step through a range of sizes, and call no single ones",
            hint="leave --runner out for the sizes of a workload, or say a range.",
        )
    for setting in request.sweep.settings:
        if setting.role is not Role.FORCED:
            raise CommandLineError(
                f"'{setting}' cannot be forced: a setting names an algorithm and a protocol",
                hint="write ring/ll128 or ring/ll128/16; the baseline is measured anyway.",
            )
    setup = setup_of(request.site, site)
    check_same_setup(folder, setup)
    check_same_machine(folder, site)
    sweep = replace(request.sweep, rank_placement=site.seating.place.name, scales=(site.scale,))
    mode = site.fingerprint.mode
    if not request.named_sizes and mode is not None and mode.compute == "CPX":
        sweep = replace(sweep, max_nbytes=defaults.MAX_NBYTES_CPX)
    environment = variables.launch_environment(
        os.environ, site.environment, clear=site.cleared, keep=variables.CHANNELS
    )
    _refuse_hidden_choices(site, environment.variables)
    launches, left_out = _plan_launches(sweep, site)
    collectives = tuple(dict.fromkeys(called_by(one)[0] for one in launches))
    if not launches:
        raise CommandLineError(
            f"nothing of what was asked for can be called by {site.scale.n_ranks} ranks",
            hint="ask for larger sizes (--max-bytes).",
        )
    return PreparedRcclTests(
        folder=folder,
        setup=setup,
        sweep=replace(sweep, collectives=collectives),
        where=RcclTestsSetup(site=site, node=None if site.node is None else folder / NODE_FILE),
        request=request.site,
        launches=launches,
        left_out=left_out,
        remarks=(*site.remarks, *_remarks(site)),
        cleared=environment.cleared,
        passed=environment.passed,
        timeout_s=request.timeout_s,
        budget_s=request.budget_s,
        keys={**site_keys(request.site, folder), "timing": request.timing},
        runs=_read_launches(folder),
    )


def _read_launches(folder: Path) -> list[Run]:
    """Launches of a session that ended; runs of the rank program verified it."""
    return [
        run
        for run in runs.read_runs(folder, most_ranks=0)
        if run.file.stated is not None and run.ended is not None
    ]


def _refuse_hidden_choices(site: Site, environment: Mapping[str, str]) -> None:
    """Stop where a file chooses for every launch, which the environment cannot take back.

    Raises:
        MachineError: one does.
    """
    choosing = [
        (one.path, f"{one.path} sets {name}={value}")
        for one in site.hidden
        for name, value in one.fills(environment)
        if variables.chooses(name, site.cleared)
    ]
    if choosing:
        path = choosing[0][0]
        raise MachineError(
            "a configuration file chooses for every launch, the baseline's too: "
            f"{'; '.join(words for _, words in choosing)}",
            where=str(path),
            hint=f"mv {path} {path}.off while measuring.",
        )


def _remarks(site: Site) -> Iterator[str]:
    if site.tunerless is not None:
        yield f"{site.tunerless} looks for no tuner plugin: rules made here need a newer library"
    if "A" not in site.help_letters:
        yield (
            "These benchmarks do not print what ran (they have no -A): a setting is what NCCL_ALGO "
            "and NCCL_PROTO state"
        )


def _sizes(sweep: Sweep) -> tuple[int, ...]:
    return Range(
        min_nbytes=sweep.min_nbytes, max_nbytes=sweep.max_nbytes, factor=sweep.factor
    ).sizes


def _plan_launches(sweep: Sweep, site: Site) -> tuple[tuple[RunFile, ...], tuple[str, ...]]:
    """Each collective's baseline, then its settings; and what is left out, with the reason."""
    launches: list[RunFile] = []
    left_out: list[str] = []
    for collective in sweep.collectives:
        if collective not in site.programs:
            left_out.append(f"there is no {collective.benchmark} beside the other benchmarks")
            continue
        if not plan.sizes_for(_sizes(sweep), collective, site.scale.n_ranks):
            left_out.append(
                f"{collective.value}: no size is large enough for {site.scale.n_ranks} ranks"
            )
            continue
        for setting in (BASELINE, *_settings(sweep, collective)):
            reason = why_left_out(setting, site, is_named=bool(sweep.settings))
            if reason is None:
                launches.append(_launch_of(sweep, site, collective, setting))
            else:
                left_out.append(f"{collective.value} {setting}: {reason}")
    return tuple(launches), tuple(left_out)


def _settings(sweep: Sweep, collective: Collective) -> tuple[Setting, ...]:
    """Settings that are named, or the pairs of AMD's documents; none where no tuner is asked."""
    if not collective.is_tunable:
        return ()
    if sweep.settings:
        return tuple(one for one in sweep.settings if plan.has(collective, one))
    usual = [one for one in plan.usual_settings(collective) if one.algorithm in _ALGORITHMS]
    return (*usual, *(replace(one, channels=n) for one in usual for n in sweep.counts))


def why_left_out(setting: Setting, site: Site, *, is_named: bool) -> str | None:
    """Why a setting is not measured; None where it is.

    Args:
        setting: which.
        site: where.
        is_named: the user asked for it.
    """
    if not site.is_gated:
        return None
    is_forced = site.has_patched_library and TREE_SIMPLE_FORCED in site.environment
    is_tree = (setting.algorithm, setting.protocol) == (Algorithm.TREE, Protocol.SIMPLE)
    if is_tree and not is_forced:
        return (
            "this RCCL leaves Tree with Simple out on one node; --librccl FILE of a build after "
            "scripts/enable-tree-simple measures it, with --env "
            f"{'='.join(TREE_SIMPLE_FORCED)}"
        )
    is_tried = is_named or LL128_FORCED in site.environment
    if setting.protocol is Protocol.LL128 and not is_tried:
        return (
            f"this RCCL leaves LL128 out on one node; --env {'='.join(LL128_FORCED)} measures it, "
            "in a session of its own"
        )
    return None


def _launch_of(sweep: Sweep, site: Site, collective: Collective, setting: Setting) -> RunFile:
    call = BenchmarkCall(
        collective=collective,
        min_nbytes=sweep.min_nbytes,
        max_nbytes=sweep.max_nbytes,
        factor=sweep.factor,
        dtype=sweep.dtypes[0],
        op=sweep.op,
        placements=sweep.placements,
        graph=bool(sweep.graph),
        iterations=sweep.iterations,
        warmup=sweep.warmup,
    )
    switches = dict(overrides.switches(setting))
    if site.node is not None:
        # Noise depends on what is measured.
        switches["RCCLTUNE_SIM_LAUNCH"] = f"{collective.value} {setting}" + " graph" * call.graph
    return RunFile(
        process="",
        plugin=False,
        n_nodes=site.scale.n_nodes,
        n_ranks=site.scale.n_ranks,
        rank_placement=sweep.rank_placement,
        library=None if site.library_file is None else str(site.library_file),
        library_version=site.library,
        runtime=None,
        argv=rccl_tests.command(site, call),
        added=tuple(sorted({**dict(site.environment), **switches}.items())),
        started="",
        stated=rccl_tests.stated_of(site, collective, setting),
    )


def measure_with_rccl_tests(
    prepared: PreparedRcclTests, *, reporter: Reporter, command: str, force: bool = False
) -> SweepResult:
    """Make the launches that are left, and the session's samples of all that is there.

    Args:
        prepared: what is to be measured.
        reporter: told of each launch.
        command: as typed, for the session.
        force: go on though several hosts are not alike.

    Raises:
        LaunchError: the library as it is fails, or settings fail in a row.
        MachineError: the machine changed, or hosts are not alike.
        SessionError: another writer, or the disk refuses.
        KeyboardInterrupt: after all that was started is gone and the session is whole.
    """
    folder, site = prepared.folder, prepared.site
    with lock.lock_session(folder, reporter), signals.interruptible():
        begin_sweep(
            folder, site, prepared.setup, prepared.sweep, keys=prepared.keys, command=command
        )
        end_leftovers(folder, reporter)
        _compare_hosts(prepared, reporter, force=force)
        # Read again: another rccltune may have gone on with it before we held it.
        prepared.runs[:] = _read_launches(folder)
        try:
            is_over = _launch_rest(prepared, reporter)
        finally:
            opened, samples = finish_sweep(folder)
    versions = [run.library_version for run in prepared.runs if run.library_version]
    return SweepResult(
        session=opened,
        runner=defaults.RUNNER,
        n_starts=len(prepared.runs),
        n_samples=int((samples["unusable"] == "").sum()),
        excluded=prepared.excluded,
        remarks=tuple(unattributed(samples)),
        is_over=is_over,
        seconds=prepared.spent_s,
        library=site.library or (versions[0] if versions else "unknown"),
        tuner=_tuner_of_baseline(prepared.runs),
    )


def _compare_hosts(prepared: PreparedRcclTests, reporter: Reporter, *, force: bool) -> None:
    """Let the rank program say what several hosts are, with the library of the benchmarks.

    Raises:
        MachineError: hosts differ, or ranks do not start on all of them.
        SessionError: a host does not see the session.
    """
    site, request = prepared.site, prepared.request
    if len(site.hosts) < 2:
        return
    request = replace(request, runner=PERF, librccl=site.library_file or request.librccl)
    try:
        ground = find_instrument(request, prepared.folder, prepared.timeout_s).ground
    except (CommandLineError, MachineError) as error:
        reporter.say(f"The hosts are not compared: {error.message}")
        return
    comparison = HostComparison(
        named=site.hosts, session=prepared.folder, reporter=reporter, force=force
    )
    with rank_program.waiting_ranks(
        replace(ground, launcher=site.launcher),
        prepared.folder / _HOSTS,
        site=os.environ,
        with_plugin=False,
        largest=1,
        check=comparison.check,
    ) as ranks:
        ranks.make({plan.Label(_HOSTS, 0): []})
        run = ranks.end()
    if run.ended is not None and not comparison.sentence:
        if run.ended.exit_code not in hopeless_runs.UNFIT:
            hopeless_runs.raise_if_hopeless(run)
        reporter.say(f"The hosts are not compared: {run.ended.words}")


def _launch_rest(prepared: PreparedRcclTests, reporter: Reporter) -> bool:
    """Make the launches that are left; whether the budget ended it."""
    total, n_failed = len(prepared.left), 0
    while left := prepared.left:
        one = left[0]
        if prepared.budget_left_s is not None and prepared.budget_left_s <= 0:
            return True
        left_s = prepared.expected_s
        reporter.progress(
            Progress(what=what_of(one), done=total - len(left), of=total, left_s=left_s)
        )
        run, end, notices = _make(prepared, one)
        prepared.runs.append(run)
        if end.failure is None:
            n_failed = 0
            for notice in notices:
                reporter.say(f"{what_of(one)}: {notice.message}")
            continue
        where = f"{run.folder}/"
        if _is_baseline(one):
            raise LaunchError(
                f"{what_of(one)}, with nothing forced: {end.words}",
                where=where,
                hint="run command.txt there by hand until it works, or leave the collective out "
                "(--collective names those to measure); the same command then goes on.",
            )
        is_out = called_by(one) in {(o.collective, o.setting) for o in prepared.excluded}
        so = f"excluded ({where})" if is_out else "from outside: tried once more"
        reporter.say(f"{what_of(one)} {end.failure.words} ({end.words}): {so}")
        n_failed += is_out and end.failure is not Failure.WRONG
        if n_failed >= _MOST_FAILURES:
            raise LaunchError(
                f"{n_failed} settings failed one after the other, the last of them "
                f"{what_of(one)}: the machine may not work any more",
                where=where,
                hint="look into dmesg and for processes that are still on the GPUs, and reset them "
                "if need be (an administrator's work). The same command goes on "
                "without these settings; delete their folders in runs/ to have them tried again.",
            )
    return False


def _make(prepared: PreparedRcclTests, planned: RunFile) -> tuple[Run, EndFile, tuple[Notice, ...]]:
    """One launch with its folder, how it ended last; and what was noticed in its log.

    Raises:
        MachineError: the machine changed, or ranks ran on other devices; nothing of it counts.
    """
    site = prepared.site
    name = runs.next_name(prepared.folder)
    folder = store.folder_named(prepared.folder, name).resolve()
    started = datetime.now(tz=timezone.utc).isoformat(timespec="seconds")
    one = replace(planned, process=name, started=started)
    files.write_atomically(folder / runs.RUN_FILE, store.dump_json(one))
    result = rccl_tests.launch(
        prepared.where,
        one.argv,
        folder,
        one.stated or StatedFacts(),
        added=_added(one, folder),
        as_it_is=_is_baseline(one),
        timeout_s=prepared.timeout_s or rccl_tests.limit_s(prepared.seconds),
    )
    # A log that a full disk cut off would be blamed on the setting.
    files.check_room(prepared.folder)
    if changes := site.changed():
        raise MachineError(
            f"the machine changed during a launch: {'; '.join(changes)}",
            hint="measure it anew into another session (-o); what was measured before is kept.",
        )
    if elsewhere := misplaced(folder / store.RAW_LOG, site.seating.gpus):
        raise MachineError(
            f"the ranks did not run where the placement puts them: {elsewhere}",
            where=str(folder / store.RAW_LOG),
            hint="something between rccltune and the benchmark chooses devices: a wrapper script, "
            "the scheduler's binding, or a device list of its own on the host.",
        )
    end = _end_of(one, result)
    files.write_atomically(folder / runs.END_FILE, store.dump_json(end))
    return runs.read_run(folder), end, result.notices


def _is_baseline(one: RunFile) -> bool:
    return called_by(one)[1] == BASELINE


def _added(one: RunFile, folder: Path) -> list[tuple[str, str]]:
    """Variables of a launch; a baseline's let the library say which tuner the site uses.

    What the library says goes into files of its own: between the parts of a row it spoils the row.
    """
    names = {*os.environ, *dict(one.added)}
    is_quiet = not any(name.startswith("NCCL_DEBUG") for name in names)
    tells = _TELL_TUNER if _is_baseline(one) and is_quiet else ()
    file = () if "NCCL_DEBUG_FILE" in names else (("NCCL_DEBUG_FILE", f"{folder}/nccl-%h-%p.log"),)
    return [*one.added, *tells, *file]


def _end_of(one: RunFile, result: BenchmarkResult) -> EndFile:
    """How a launch ended, and the setting that is to blame where it failed."""
    collective, setting = called_by(one)
    is_to_blame = result.failure is not None and setting.role is Role.FORCED
    return EndFile(
        exit_code=result.exit_code,
        signal=result.signal,
        duration_s=round(result.seconds, 3),
        failure=result.failure,
        collective=collective,
        setting=setting if is_to_blame else None,
        words=result.words or "",
        library_version=result.library,
    )


def _tuner_of_baseline(session_runs: Sequence[Run]) -> str | None:
    """Tuner that the library uses by itself, as its log of a baseline says."""
    for run in session_runs:
        if run.file.stated is not None and _is_baseline(run.file):
            for log in sorted(run.folder.glob("nccl-*.log")):
                return find_tuner(log.read_text(encoding="utf-8", errors="replace"))
    return None
