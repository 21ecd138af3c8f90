"""The launches of a sweep one after another: what is tried again, and what stops the sweep."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from rccltune.measure.launches import run_launch
from rccltune.measure.ledger import lift
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.failure import Failure
from rccltune.model.measured import Launch, Outcome, Sample, Status
from rccltune.model.reporter import Reporter
from rccltune.model.settings import DEFAULT_VARIANT, Role, Setting
from rccltune.model.vocabulary import Collective
from rccltune.plan.launches import estimate_s
from rccltune.plan.launches import left_s as plan_left_s
from rccltune.session import place
from rccltune.session.launches import Ran, is_interrupted, is_walk, name_of, setting_of
from rccltune.session.samples import is_hopeless

if TYPE_CHECKING:
    from rccltune.measure.preparation import Prepared
    from rccltune.measure.site import Site


# Three untouched runs that differ by more than this at the median size are no ground to measure on.
_SPREAD: Final = 0.10
_FIRST_LIMIT_S: Final = 300.0
# A second setting that makes a GPU touch foreign memory says more about the GPU than about it.
_MEMORY_FAULTS: Final = 2
# A second failure in a row may be the machine's.
_IN_A_ROW: Final = 2
Best = dict[tuple[Collective, int], tuple[float, Setting]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Told after every launch.

    Attributes:
        number: launches made so far.
        of: launches that are to be made as far as is known; each failure adds one.
        left_s: what the others of these take, None while nobody knows.
        best: fastest time in µs and its setting, by collective and size, so far.
    """

    number: int
    of: int
    ran: Ran
    elapsed_s: float
    left_s: float | None
    best: Mapping[tuple[Collective, int], tuple[float, Setting]]


def run_all(
    prepared: Prepared,
    launches: Sequence[Launch],
    known: Mapping[str, Sequence[Sample]],
    *,
    reporter: Reporter,
    force: bool,
) -> Iterator[Ran]:
    """Make every launch that is left, and those that failed once more.

    A launch that fails is tried again when the others of its round are over, since what disturbs
    from outside mostly lasts longer than a moment; the baseline is tried again at once,
    since everything is compared with it. After two failures in a row it is asked whether the
    machine still works: a GPU that a hang has wedged would otherwise condemn every setting.

    A combined launch that fails is gone on with at once, without the setting at fault; when all
    others are measured, each of those is tried alone.

    Args:
        prepared: its ledger is filled.
        launches: those of its plan to be made now, where they are left.
        known: samples of the launches that the session has.
        reporter: told when a setting is quarantined.
        force: go on though equal runs differ.

    Raises:
        LaunchError: the untouched benchmark does not work, or GPUs have memory faults.
        MachineError: equal runs differ too much, or the machine changed.
    """
    runner = _Runner(prepared, known, reporter)
    judged = False
    walks = any(map(is_walk, prepared.plan.launches))
    for (is_forced, _), group in groupby(launches, key=_round):
        if is_forced and not judged:
            judged = _judge_noise(runner.samples, walks=walks, force=force)
        if is_forced:
            yield from runner.round(tuple(group))
            continue
        for one in group:
            yield from runner.insist(one)
    for one in filter(is_walk, prepared.plan.launches):
        yield from runner.try_suspects(one)
    if walks and not judged:
        # Only a search's second round repeats anything.
        _judge_noise(runner.samples, walks=True, force=force)


def _round(one: Launch) -> tuple[bool, int]:
    """Whether something of ours chooses, and which round it belongs to."""
    is_ours = setting_of(one).role is not Role.BASELINE or one.variant != DEFAULT_VARIANT
    return is_ours, one.repeat if is_ours else 0


class _Runner:
    """Makes launches and keeps count."""

    def __init__(
        self, prepared: Prepared, known: Mapping[str, Sequence[Sample]], reporter: Reporter
    ) -> None:
        self.prepared = prepared
        self.samples = [sample for found in known.values() for sample in found]
        self.reporter = reporter
        self.start = time.monotonic()
        self.best: Best = {}
        self.outcomes = list(prepared.done)
        self.made = 0
        self.faults = 0
        self.in_a_row: list[Ran] = []
        # Failures of walks in which no setting of theirs was in force.
        self.unexplained: dict[str, list[Failure]] = {}
        _improve(self.best, self.samples)

    def round(self, launches: Sequence[Launch]) -> Iterator[Ran]:
        """Try each launch, and those that failed once more when all others are over.

        Raises:
            LaunchError: the machine works no more.
        """
        ledger = self.prepared.ledger
        again = [one for one in launches if ledger.is_left(one)]
        for one in again:
            if is_walk(one):
                yield from self.walk(one)
            elif ledger.is_left(one):
                yield from self.attempt(one)
        for one in again:
            if is_walk(one):
                while self.is_to_walk(one):
                    yield from self.walk(one)
                continue
            while ledger.is_left(one):
                yield from self.attempt(one)

    def is_to_walk(self, planned: Launch) -> bool:
        """Whether to go on with a combined launch; not where no setting is known to be at fault."""
        hopeless = is_hopeless(self.unexplained.get(planned.id, ()))
        return self.prepared.ledger.is_to_walk(planned) and not hopeless

    def walk(self, planned: Launch) -> Iterator[Ran]:
        """Go on until nothing is left, or until a launch fails and no setting can be blamed.

        Raises:
            LaunchError: the machine works no more.
        """
        while self.is_to_walk(planned):
            ran = yield from self.attempt(planned)
            if ran.outcome.failure is not None and ran.outcome.suspect is None:
                self.unexplained.setdefault(planned.id, []).append(ran.outcome.failure)
                return

    def try_suspects(self, planned: Launch) -> Iterator[Ran]:
        """Try settings with which a combined launch failed alone, until well or quarantined.

        Raises:
            LaunchError: the machine works no more.
        """
        ledger = self.prepared.ledger
        while suspects := ledger.suspects(planned):
            setting, failure = next(iter(suspects.items()))
            ran = yield from self.attempt(planned, alone=setting)
            if ran.outcome.failure is None:
                n_kept, n_planned = ledger.kept(planned, setting)
                self.reporter.say(_acquitted(ran, failure, n_kept, n_planned))

    def insist(self, planned: Launch) -> Iterator[Ran]:
        """Try an untouched launch until it ends well.

        Raises:
            LaunchError: it fails again.
        """
        failures: list[Failure] = []
        while self.prepared.ledger.is_left(planned):
            ran = self.run(self.prepared.ledger.next_attempt(planned))
            if ran.outcome.failure is not None:
                failures.append(ran.outcome.failure)
            yield ran
            if is_hopeless(failures):
                raise _no_baseline(ran, self.prepared.folder)

    def attempt(
        self, planned: Launch, *, alone: Setting | None = None
    ) -> Generator[Ran, None, Ran]:
        """Make a launch of settings; look after the machine where it fails as the one before did.

        Args:
            planned: as planned; what of it is left is made.
            alone: the setting of a combined launch to try instead.

        Raises:
            LaunchError: the machine works no more; nothing is blamed on the settings then.
        """
        ledger = self.prepared.ledger
        one = ledger.next_alone(planned, alone) if alone else ledger.next_attempt(planned)
        ran = self.run(one)
        yield ran
        # Wrong results were computed by a machine that works, and so was what came before a
        # failure; SIGKILL is no machine's.
        if ran.samples or ran.outcome.failure in (None, Failure.WRONG):
            self.in_a_row = []
        if ran.outcome.failure not in (None, Failure.WRONG, Failure.KILLED):
            self.in_a_row.append(ran)
        if len(self.in_a_row) >= _IN_A_ROW:
            control = self.run(ledger.next_attempt(self._untouched(planned)))
            yield control
            if control.outcome.failure is not None:
                self._forgive()
                raise _machine_is_out(self.in_a_row, control, self.prepared.folder)
            self.in_a_row = []
        self._tell_quarantine(ran)
        return ran

    def _untouched(self, planned: Launch) -> Launch:
        """An untouched launch of the same collective; every sweep begins with some."""
        ended = (one for one, _ in self.prepared.ledger.ended if one.argv and not one.attempt)
        return next(
            one
            for one in (*self.prepared.plan.launches, *ended)
            if not _round(one)[0] and one.collectives == planned.collectives
        )

    def _forgive(self) -> None:
        """What failed while the machine did not work says nothing of the settings."""
        for ran in self.in_a_row:
            lift(self.prepared.folder, self.prepared.ledger, ran.launch, ran.outcome)

    def run(self, one: Launch) -> Ran:
        """Make one launch and tell of it.

        Raises:
            LaunchError: another GPU memory fault, or a process that cannot be killed.
            MachineError: the machine changed.
            SessionError: the disk refuses.
        """
        prepared, ledger = self.prepared, self.prepared.ledger
        site = prepared.site
        stop_if_changed(site, "before")
        limit = limit_s(self.outcomes)
        if is_walk(one):
            # What launches of one pass took says nothing of many; as if it went over all sizes of
            # the sweep, since its settings may be far slower than what is usual.
            limit += estimate_s([replace(one, argv=())], prepared.sweep)
        if is_interrupted(prepared.folder / "launches" / one.id):
            self.reporter.say(f"launch {one.id} was interrupted and is made again")
        ran = run_launch(
            replace(one, timeout_s=one.timeout_s or limit),
            prepared.folder,
            site=tuple(os.environ.items()),
            clear=site.cleared,
            carry=site.launcher.carry,
            fingerprint=site.fingerprint,
            files=prepared.filled,
            changed=site.changed,
            misplaced=lambda log: place.misplaced(log, site.seating.gpus),
            library=site.library,
        )
        ledger.add(ran.launch, ran.outcome)
        self.made += 1
        self.samples += ran.samples
        self.outcomes.append(ran.outcome)
        _improve(self.best, ran.samples)
        stop_if_changed(site, "during")
        left = prepared.left
        self.reporter.progress(
            Progress(
                number=self.made,
                of=self.made + len(left),
                ran=ran,
                elapsed_s=time.monotonic() - self.start,
                left_s=plan_left_s(left, prepared.sweep, ledger.ended, self.share()),
                best=self.best,
            )
        )
        self._stop_after_faults(ran)
        return ran

    def share(self) -> float:
        """Time that goes by for each second of a launch; what is between them takes time, too."""
        made_s = sum(one.duration_s or 0.0 for one in self.outcomes[-self.made :])
        return max(1.0, (time.monotonic() - self.start) / made_s) if made_s else 1.0

    def _tell_quarantine(self, ran: Ran) -> None:
        found = [q for q in self.prepared.ledger.quarantined if ran.launch.id in q.launches]
        for one in found:
            log = self.prepared.folder / "launches" / ran.launch.id / "stdout.log"
            self.reporter.say(
                f"{one} is quarantined: {one.reason}. Nothing more is started for it in this "
                f"session; its log is {log}."
            )

    def _stop_after_faults(self, ran: Ran) -> None:
        self.faults += ran.outcome.failure is Failure.MEMORY_FAULT
        if ran.outcome.failure is Failure.MEMORY_FAULT and self.faults >= _MEMORY_FAULTS:
            raise LaunchError(
                f"{self.faults} launches ended with a GPU memory fault: the GPU, its driver or its "
                "firmware may be the cause, and what else is measured here could be wrong",
                where=str(self.prepared.folder / "launches" / ran.launch.id / "stderr.log"),
                hint="look into dmesg for resets and page faults, reset the GPUs (an "
                "administrator's: rocm-smi --gpureset) or the machine, try another driver or "
                "RCCL. The settings at fault are quarantined; the same command goes on with the "
                "others.",
            )


def limit_s(outcomes: Sequence[Outcome]) -> float:
    """Ten times what launches took so far; generous before anything is known."""
    known = [o.duration_s for o in outcomes if o.duration_s and o.status is Status.OK]
    return max(60.0, 10 * median(known)) if known else _FIRST_LIMIT_S


def _acquitted(ran: Ran, failure: Failure, n_kept: int, n_planned: int) -> str:
    """What is told of a setting with which a combined launch failed and that ends well alone."""
    who = f"{ran.launch.collectives[0].value} {name_of(ran.launch)}"
    if failure is Failure.WRONG:
        return (
            f"{who} gave wrong results among other settings and right ones alone: it is not "
            "quarantined, and its wrong results disqualify it all the same"
        )
    return (
        f"{who}: the launch of many settings {failure.words} with it, and it ends well "
        f"alone; it is measured {n_kept} of {n_planned} times"
    )


def _improve(best: Best, samples: Sequence[Sample]) -> None:
    for sample in samples:
        if sample.doubt is None and sample.time_us is not None:
            key = (sample.key.collective, sample.nbytes)
            if key not in best or sample.time_us < best[key][0]:
                best[key] = (sample.time_us, sample.key.setting)


def stop_if_changed(site: Site, when: str) -> None:
    """Another mode, driver or start of the machine is another machine."""
    changes = site.changed()
    if changes:
        raise MachineError(
            f"the machine changed {when} a launch: {'; '.join(changes)}",
            hint="sweep it anew into another session (-o); what was measured before is kept.",
        )


def _machine_is_out(failed: Sequence[Ran], control: Ran, folder: Path) -> LaunchError:
    """Settings failed one after the other, and then the untouched benchmark did too."""
    names = ", ".join(dict.fromkeys(name_of(ran.launch) for ran in failed))
    first = failed[0].launch.id
    last = control.outcome.notices[-1] if control.outcome.notices else None
    return LaunchError(
        f"the benchmark with nothing forced worked before {names} failed and does not now: "
        f"{last.message if last else 'no reason given'}",
        where=f"{folder / 'launches' / first}/ and {folder / 'launches' / control.launch.id}/",
        hint="a hang or a crash may have wedged a GPU: look into dmesg and for processes that are "
        "still on the GPUs, reset them (an administrator's: rocm-smi --gpureset), then run the "
        "same command again; none of these failures counts.",
    )


def _no_baseline(ran: Ran, folder: Path) -> LaunchError:
    """An untouched run that fails again means that nothing here works; say why and stop."""
    last = ran.outcome.notices[-1] if ran.outcome.notices else None
    collective = ran.launch.collectives[0]
    return LaunchError(
        f"the benchmark does not work, with nothing forced ({collective.value}): "
        f"{last.message if last else 'no reason given'}",
        where=f"{folder / 'launches' / ran.launch.id}/",
        hint="run its command by hand (launch.json has it) until it works, or leave the collective "
        "out (--collective names those to measure); the same command then goes on.",
    )


def _judge_noise(samples: Sequence[Sample], *, walks: bool, force: bool) -> bool:
    """Compare equal runs with each other before anything else is compared; whether there were any.

    Where settings are compared inside one launch, launches may differ: by 50 % below 512 KiB on a
    virtual machine whose passes agree within 3 %.

    Args:
        samples: of all launches so far.
        walks: settings are compared inside launches.
        force: go on whatever they say.

    Raises:
        MachineError: they differ too much.
    """
    times: dict[tuple[object, ...], list[float]] = {}
    for sample in samples:
        role = sample.key.setting.role
        if sample.doubt is not None or not sample.time_us or walks is (role is Role.BASELINE):
            continue
        # Passes of one launch are named 1.0, 1.1 and so on.
        launch = sample.launch.partition(".")[0] if walks else ""
        times.setdefault((sample.key, sample.nbytes, launch), []).append(sample.time_us)
    spreads = [max(p) / min(p) - 1 for found in times.values() for p in pairwise(found)]
    if spreads and median(spreads) > _SPREAD and not force:
        what = "passes of one setting in one launch" if walks else "runs with nothing forced"
        raise MachineError(
            f"{what} differ by {100 * median(spreads):.0f} % at the median size: "
            "nothing measured now could be trusted",
            hint="look for other jobs on the GPUs, NUMA balancing "
            "(cat /proc/sys/kernel/numa_balancing), changing clocks and too few cores; --force "
            "measures all the same.",
        )
    return bool(spreads)
