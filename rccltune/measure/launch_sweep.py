"""A sweep by rccl-tests: its launches one after the other, each kept, none made twice.

Everything is derived from the launches on disk: losing rccltune at any moment loses the launch
under way and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune import __version__
from rccltune.launch import signals
from rccltune.logs.decisions import PATTERN
from rccltune.machine.overrides import is_watched
from rccltune.measure import one_launch, sweep_file
from rccltune.measure.hosts import same_hosts
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.one_launch import LaunchResult
from rccltune.measure.prepared_launches import PreparedLaunches, refuse_hidden_choices, what_of
from rccltune.measure.sweep_result import SweepResult
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, LaunchError
from rccltune.model.failure import Failure
from rccltune.model.measurement import Launch
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Role
from rccltune.model.vocabulary import UnusableReason, format_span
from rccltune.releases import LOADING_OURS
from rccltune.session import files, folders, store
from rccltune.session.launches import setting_of
from rccltune.session.place import PLACE_FILE
from rccltune.session.samples import (
    failure_of,
    frame_from_logs,
    is_good,
)
from rccltune.session.store import NODE_FILE, Session
from rccltune.simulate import compiled

if TYPE_CHECKING:
    import pandas as pd

GRAPH: Final = "graph"
# Failures of the library as it is after which nothing else is tried; and of settings, one after the
# other, after which it is asked whether the machine still works.
_MOST_FAILURES: Final = 2
# Why times are no setting's own.
_NOT_ITS_OWN: Final = (
    UnusableReason.BYPASSED,
    UnusableReason.INELIGIBLE,
    UnusableReason.SUBSTITUTED,
    UnusableReason.UNPROVEN,
)
# A GPU's second memory fault says more about the GPU than about the setting.
_MEMORY_FAULTS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchProgress:
    """Told after every launch.

    Attributes:
        done: launches of the plan that are over, those of before included.
        left_s: what the others roughly take.
    """

    done: int
    of: int
    what: str
    ran: LaunchResult
    left_s: float


def measure_by_launches(
    prepared: PreparedLaunches, *, reporter: Reporter, command: str, force: bool = False
) -> SweepResult:
    """Make the launches that are left, and the session's samples of all that is there.

    Args:
        prepared: what is to be measured.
        reporter: told of each launch.
        command: as typed, for the session.
        force: go on though several hosts are not alike.

    Raises:
        CommandLineError: the budget allows no launch.
        LaunchError: the library as it is fails, or GPUs have memory faults.
        MachineError: a hidden file chooses, the machine changed, or hosts are not alike.
        SessionError: another writer, or the disk refuses.
        KeyboardInterrupt: after all that was started is gone and the session is whole.
    """
    folder, site = prepared.folder, prepared.where.site
    refuse_hidden_choices(prepared.filled, site)
    with files.writing(folder, reporter), signals.interruptible():
        _begin(prepared, command)
        end_leftovers(folder, reporter)
        same_hosts(site, folder, reporter=reporter, force=force)
        # Read again: another rccltune may have gone on with it before we held it.
        prepared.ended[:] = store.read_launches(folder)
        maker = _LaunchRunner(prepared, reporter)
        try:
            maker.make_all()
        finally:
            opened, samples = _finish(folder)
            n_samples = int((samples["unusable"] == "").sum())
    if not n_samples and maker.is_over:
        raise CommandLineError(
            f"the budget allows not even one launch, which takes about "
            f"{prepared.expected_s(prepared.launches[:1]):.0f} s",
            hint="give more with --budget.",
        )
    if not n_samples:
        raise LaunchError("no launch gave a time", where=str(folder / one_launch.FOLDER))
    good = [pair for pair in prepared.ended if is_good(pair)]
    versions = [outcome.library_version for _, outcome in good if outcome.library_version]
    return SweepResult(
        session=opened,
        runner=defaults.RUNNER,
        n_starts=len(good),
        n_samples=n_samples,
        aside=prepared.aside,
        remarks=tuple(_unattributed(samples)),
        is_over=maker.is_over,
        seconds=prepared.spent_s,
        library=site.library or (versions[0] if versions else "unknown"),
        tuner=one_launch.tuner_in(folder, prepared.launches),
    )


class _LaunchRunner:
    """Makes launches one after the other, and decides what a failure means."""

    def __init__(self, prepared: PreparedLaunches, reporter: Reporter) -> None:
        self.prepared = prepared
        self.reporter = reporter
        self.is_over = False
        # Failures of settings since the last launch that ended well.
        self.in_a_row: list[LaunchResult] = []
        self.faults = 0

    def make_all(self) -> None:
        """Make what is left; what failed is tried again when the others of its turn are over.

        Raises:
            LaunchError: the library as it is fails, or GPUs have memory faults.
            MachineError: the machine changed.
        """
        launches = self.prepared.launches
        for repeat in dict.fromkeys(one.repeat for one in launches):
            turn = [one for one in launches if one.repeat == repeat]
            for one in turn:
                if self.prepared.is_left(one) and not self._make(one):
                    return
            for one in turn:
                while self.prepared.is_left(one):
                    if not self._make(one):
                        return

    def _make(self, planned: Launch) -> bool:
        """Make one launch; whether to go on."""
        if not self._affords(planned):
            self.is_over = True
            return False
        ran = self._run(planned)
        how = failure_of(ran.outcome)
        one_launch.stop_if_changed(self.prepared.where.site, "during")
        if how is None:
            self.in_a_row = []
            return True
        if _is_untouched(planned):
            return self._insist(planned, ran)
        self._tell(ran, how)
        if how not in (Failure.WRONG, Failure.KILLED):
            self.in_a_row.append(ran)
        if len(self.in_a_row) >= _MOST_FAILURES:
            self._ask_the_machine(planned)
        return True

    def _affords(self, planned: Launch) -> bool:
        budget = self.prepared.budget_s
        cost = self.prepared.expected_s([planned])
        return budget is None or self.prepared.spent_s + cost <= budget

    def _insist(self, planned: Launch, failed: LaunchResult) -> bool:
        """Try the library as it is once more; whether to go on.

        Raises:
            LaunchError: it fails again.
        """
        self.reporter.say(
            f"{what_of(planned)}: {_why(failed)}, with nothing forced: tried once more"
        )
        again = self._run(planned)
        if failure_of(again.outcome) is not None:
            raise LaunchError(
                f"the benchmark does not work, with nothing forced "
                f"({planned.collectives[0].value}): {_why(again)}",
                where=f"{self.prepared.folder / one_launch.FOLDER / again.launch.id}/",
                hint="run command.txt there by hand until it works, or leave the collective out "
                "(--collective names those to measure); the same command then goes on.",
            )
        return True

    def _ask_the_machine(self, planned: Launch) -> None:
        """Run the library as it is again after failures in a row.

        Raises:
            LaunchError: it does not work any more; nothing is blamed on the settings then.
        """
        untouched = next(
            one
            for one in self.prepared.launches
            if _is_untouched(one) and one.collectives == planned.collectives
        )
        control = self._run(untouched)
        if failure_of(control.outcome) is None:
            self.in_a_row = []
            return
        for ran in self.in_a_row:
            self._forgive(ran)
        names = ", ".join(dict.fromkeys(what_of(ran.launch) for ran in self.in_a_row))
        raise LaunchError(
            f"the benchmark with nothing forced worked before {names} failed and does not now: "
            f"{_why(control)}",
            where=f"{self.prepared.folder / one_launch.FOLDER / control.launch.id}/",
            hint="a hang or a crash may have wedged a GPU: look into dmesg and for processes that "
            "are still on the GPUs, reset them (an administrator's: rocm-smi --gpureset), then run "
            "the same command again; none of these failures counts.",
        )

    def _forgive(self, ran: LaunchResult) -> None:
        """Let a failure count no more, since the machine did not work; its log stays."""
        outcome = replace(ran.outcome, lifted=True)
        path = self.prepared.folder / one_launch.FOLDER / ran.launch.id / "outcome.json"
        files.write_atomically(path, store.dump_json(outcome))

    def _run(self, planned: Launch) -> LaunchResult:
        prepared = self.prepared
        one_launch.stop_if_changed(prepared.where.site, "before")
        ran = one_launch.run_launch(
            prepared.next_attempt(planned),
            prepared.where,
            prepared.folder,
            timeout_s=prepared.timeout_s or one_launch.limit_s(prepared.outcomes),
            files=prepared.filled,
        )
        took = f"{ran.outcome.duration_s or 0:.1f} s"
        self.reporter.detail(f"{what_of(planned)}: {ran.outcome.status.value}, {took}")
        prepared.ended.append((ran.launch, ran.outcome))
        left = prepared.left
        self.reporter.progress(
            LaunchProgress(
                done=len(prepared.launches) - len(left),
                of=len(prepared.launches),
                what=what_of(planned),
                ran=ran,
                left_s=prepared.expected_s(left),
            )
        )
        self._stop_after_faults(ran)
        self._stop_without_plugin(ran)
        return ran

    def _stop_without_plugin(self, ran: LaunchResult) -> None:
        """Stop where no rank loaded the plugin that is to say what ran: no setting would count.

        Raises:
            LaunchError: none did.
        """
        own = self.prepared.folder / one_launch.FOLDER / ran.launch.id
        if not is_watched(ran.launch) or not ran.samples or any(own.glob(PATTERN)):
            return
        raise LaunchError(
            "the library did not load our plugin, so nothing says which setting ran",
            where=str(own),
            hint=f"one before {LOADING_OURS} looks for none: with --librccl naming its file that "
            "is seen, and its log or the benchmark's columns say what ran.",
        )

    def _tell(self, ran: LaunchResult, how: Failure) -> None:
        aside = [one for one in self.prepared.aside if ran.launch.id in one.launches]
        log = self.prepared.folder / one_launch.FOLDER / ran.launch.id / "stdout.log"
        if how is Failure.WRONG:
            self.reporter.say(
                f"WRONG RESULTS: {what_of(ran.launch)}: {_why(ran)} ({log}); it is chosen nowhere"
            )
        elif not aside:
            self.reporter.say(f"{what_of(ran.launch)} {how.words} ({_why(ran)}): tried once more")
        for one in aside:
            self.reporter.say(f"{one} is set aside, {one.reason}; the rest goes on ({log})")

    def _stop_after_faults(self, ran: LaunchResult) -> None:
        self.faults += ran.outcome.failure is Failure.MEMORY_FAULT
        if ran.outcome.failure is Failure.MEMORY_FAULT and self.faults >= _MEMORY_FAULTS:
            raise LaunchError(
                f"{self.faults} launches ended with a GPU memory fault: the GPU, its driver or its "
                "firmware may be the cause, and what else is measured here could be wrong",
                where=str(self.prepared.folder / one_launch.FOLDER / ran.launch.id / "stderr.log"),
                hint="look into dmesg for resets and page faults, reset the GPUs (an "
                "administrator's: rocm-smi --gpureset) or the machine, try another driver or RCCL; "
                "the same command goes on with the other settings.",
            )


def _is_untouched(one: Launch) -> bool:
    return setting_of(one).role is Role.BASELINE


def _why(ran: LaunchResult) -> str:
    return ran.outcome.notices[-1].message if ran.outcome.notices else "no reason given"


def _unattributed(samples: pd.DataFrame) -> Iterator[str]:
    """Sentences about times that are no setting's own, or no rule's: where, and why."""
    reasons = {one.value: one for one in _NOT_ITS_OWN}
    own = samples[samples["unusable"].isin(list(reasons))]
    names = ["collective", "setting", "unusable"]
    for (collective, setting, why), rows in own.groupby(names, observed=True, sort=False):
        span = format_span(int(rows["nbytes"].min()), int(rows["nbytes"].max()))
        yield f"{collective} {setting}, {span}: not used, {reasons[str(why)].meaning}"


def _begin(prepared: PreparedLaunches, command: str) -> None:
    folder, site = prepared.folder, prepared.where.site
    made = Session(
        path=folder,
        command=command,
        tool=f"rccltune {__version__}",
        fingerprint=site.fingerprint,
        setup=prepared.setup,
    )
    if (folder / store.HEADER).exists():
        made = replace(store.open_session(folder), setup=prepared.setup)
    store.write_header(made)
    files.write_atomically(folder / PLACE_FILE, store.dump_json(site.seating.place))
    files.write_atomically(
        folder / folders.SWEEP_FILE, sweep_file.dump_sweep(prepared.sweep, prepared.keys)
    )
    folders.remember(folder)
    if site.node is not None:
        files.write_atomically(folder / NODE_FILE, compiled.written(site.node))


def _finish(folder: Path) -> tuple[Session, pd.DataFrame]:
    """Make samples.csv of all that is there."""
    opened = store.open_session(folder)
    samples = frame_from_logs(opened)
    return store.commit(opened, [], samples), samples
