"""A sweep from wish to session: plan, run, read, prove, keep; stoppable and resumable anywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from rccltune import __version__, advice, config, interrupts, launch, plan, session, simnode
from rccltune.errors import LaunchError, MachineError, SessionError
from rccltune.model import (
    KNOWN_VARIANTS,
    Launch,
    Outcome,
    Role,
    Sample,
    Setting,
    Status,
    Sweep,
    Variant,
)
from rccltune.pipeline import launching
from rccltune.pipeline.launching import Ran, setting_of
from rccltune.pipeline.site import Site
from rccltune.session import Session
from rccltune.vocab import Collective

# Three untouched runs that differ by more than this at the median size are no ground to measure on.
_SPREAD: Final = 0.10
_FIRST_LIMIT_S: Final = 300.0
_NODE_FILE: Final = "node.node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A sweep that could start now.

    Attributes:
        done: launches of the plan that the session already has.
        cleared: site variables that no rank will see.
        passed: site variables that every rank of every arm will see.
    """

    folder: Path
    sweep: Sweep
    site: Site
    plan: plan.Plan
    done: Mapping[str, Outcome]
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]

    @property
    def left(self) -> tuple[Launch, ...]:
        """Launches still to be made."""
        return tuple(one for one in self.plan.launches if one.id not in self.done)

    @property
    def estimate_s(self) -> float:
        """Seconds for what is left."""
        return plan.estimate_s(self.left, self.sweep, self.done.values(), self.site.start_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Told after every launch.

    Attributes:
        best: fastest time in µs and its setting, by collective and size, so far.
    """

    number: int
    of: int
    ran: Ran
    elapsed_s: float
    left_s: float
    best: Mapping[tuple[Collective, int], tuple[float, Setting]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How a sweep ended."""

    session: Session
    n_launches: int
    n_samples: int
    failed: tuple[Outcome, ...]
    tuner: str | None

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "session": str(self.session.path),
            "simulated": self.session.simulated,
            "launches": self.n_launches,
            "samples": self.n_samples,
            "failed": [outcome.launch for outcome in self.failed],
            "tuner_of_baseline": self.tuner,
        }


Tell = Callable[[Progress], None]
Note = Callable[[str], None]


def prepare(wanted: Sweep, site: Site, folder: Path, *, timeout_s: float | None) -> Prepared:
    """Plan a sweep and find out what of it the session already has. Nothing is started.

    Raises:
        SessionError: the session is of another machine.
    """
    ground = plan.Ground(
        programs=site.programs,
        letters=site.help_letters,
        launch=lambda n_ranks, program: site.launcher.argv(
            n_ranks, program, bind=site.binding, hostfile=site.hostfile
        ),
        scale=site.scale,
        arch=site.fingerprint.arch,
        has_patched_library=site.has_patched_library,
        environment=_environment(site),
    )
    made = _planned(wanted, ground)
    launches = tuple(_completed(one, site, timeout_s) for one in made.launches)
    named = plan.with_ids(replace(made, launches=_tell_tuner(launches)), session.launch_id)
    same_machine(folder, site)
    ended = {one.id: outcome for one, outcome in session.read_launches(folder)}
    kept = {name: o for name, o in ended.items() if o.status is Status.OK}
    seen = launch.environment(os.environ, (), clear=site.cleared)
    return Prepared(
        folder=folder,
        sweep=wanted,
        site=site,
        plan=named,
        done={one.id: kept[one.id] for one in named.launches if one.id in kept},
        cleared=seen.cleared,
        passed=seen.passed,
    )


def _planned(wanted: Sweep, ground: plan.Ground) -> plan.Plan:
    """By the method that is wished for.

    Raises:
        MachineError: this benchmark cannot walk.
    """
    if wanted.method != "one-launch":
        return plan.plan(wanted, ground)
    hindrance = plan.why_no_walk(wanted, ground)
    if hindrance is not None:
        raise MachineError(
            f"--method one-launch cannot be used here: {hindrance}",
            hint="leave it out, or say --method per-setting.",
        )
    return plan.plan_walks(wanted, ground)


def _environment(site: Site) -> tuple[tuple[str, str], ...]:
    if site.node is None:
        return site.environment
    return (
        *site.environment,
        ("RCCLTUNE_SIM_NODE", "{session}/" + _NODE_FILE),
        ("RCCLTUNE_SIM_CLOCK", "{session}/clock"),
    )


def _completed(one: Launch, site: Site, timeout_s: float | None) -> Launch:
    """Add what forcing needs, and the time limit."""
    extra = dict(launching.choosing(one))
    if site.node is not None:
        # Noise depends on what is measured and not on how it is started, so that one process
        # and 64 give the same samples.
        name = f"{one.collectives[0].value} {launching.name_of(one)} {one.repeat}"
        extra["RCCLTUNE_SIM_LAUNCH"] = name
        if one.variant.patched:
            extra["RCCLTUNE_SIM_PATCHES"] = "force-tree-simple"
    environment = tuple(sorted({**dict(one.environment), **extra}.items()))
    return replace(one, environment=environment, timeout_s=timeout_s)


def _tell_tuner(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Let the first launch say which tuner the site uses, unless the site logs by itself."""
    first = launches[0] if launches else None
    if first is None or any(name.startswith("NCCL_DEBUG") for name in os.environ):
        return tuple(launches)
    environment = tuple(sorted({**dict(first.environment), **dict(launching.TELL_TUNER)}.items()))
    return (replace(first, environment=environment), *launches[1:])


def same_machine(folder: Path, site: Site) -> None:
    """Stop where a folder is a session of another machine, or no session but not empty.

    Raises:
        SessionError: it is.
    """
    if (folder / "session.json").exists():
        known = session.open_session(folder).fingerprint
        try:
            session.combined_fingerprint([(str(folder), known), ("this machine", site.fingerprint)])
        except SessionError as error:
            raise SessionError(
                error.message, where=str(folder), hint="choose another session with -o."
            ) from error
    elif folder.is_dir() and any(folder.iterdir()):
        raise SessionError(
            "this folder is not empty and no session",
            where=str(folder),
            hint="choose another with -o.",
        )


def plan_as_plain(prepared: Prepared) -> dict[str, Any]:
    """A plan for --json."""
    return {
        "launches": [
            {"id": one.id, "argv": list(one.argv), "environment": dict(one.environment)}
            for one in prepared.left
        ],
        "impossible": session.to_plain(prepared.plan.impossible),
        "cleared": dict(prepared.cleared),
        "passed": dict(prepared.passed),
        "estimate_s": prepared.estimate_s,
    }


def sweep(prepared: Prepared, *, tell: Tell, note: Note, command: str, force: bool) -> Swept:
    """Run what is left of a plan.

    Interrupted at any moment, the session keeps every launch that ended, and the same command
    goes on with the rest.

    Raises:
        LaunchError: nothing could be measured, or the baseline never ended well.
        MachineError: untouched runs differ too much (unless ``force``).
        KeyboardInterrupt: after all that was started is gone and the session is whole.
    """
    folder = prepared.folder
    with session.writing(folder, note), interrupts.interruptible():
        _begin(prepared, command)
        samples: list[Sample] = []
        outcomes = dict(prepared.done)
        for one in prepared.plan.launches:
            if one.id in prepared.done:
                samples += launching.read_launch(one, folder, prepared.done[one.id])
        try:
            for ran in _run_all(prepared, samples, tell=tell, force=force):
                outcomes[ran.launch.id] = ran.outcome
        finally:
            done = _finish(prepared, samples)
    failed = tuple(o for o in outcomes.values() if o.status is not Status.OK)
    if not samples:
        raise LaunchError(
            "no launch gave a sample",
            where=str(folder / "launches"),
            hint=failed[0].notices[-1].message if failed and failed[0].notices else None,
        )
    return Swept(
        session=done,
        n_launches=len(outcomes),
        n_samples=len(samples),
        failed=failed,
        tuner=_tuner(folder, prepared.plan.launches),
    )


def _begin(prepared: Prepared, command: str) -> None:
    folder, site = prepared.folder, prepared.site
    if not (folder / "session.json").exists():
        session.write_header(_header(prepared, command))
    session.write_atomically(folder / "sweep.yaml", config.dump_sweep(prepared.sweep))
    if site.node is not None:
        session.write_atomically(folder / _NODE_FILE, simnode.written(site.node))


def _header(prepared: Prepared, command: str) -> Session:
    own = {one.variant.name: one.variant for one in prepared.plan.launches}
    variants: dict[str, Variant] = {n: v for n, v in own.items() if n not in KNOWN_VARIANTS}
    return Session(
        path=prepared.folder,
        command=command,
        tool=f"rccltune {__version__}",
        fingerprint=prepared.site.fingerprint,
        variants=tuple(variants.values()),
    )


def _finish(prepared: Prepared, samples: Sequence[Sample]) -> Session:
    folder = prepared.folder
    have = {one.id for one in prepared.plan.launches}
    opened = session.open_session(folder)
    stored = [
        sample
        for one, outcome in session.read_launches(folder)
        if one.id not in have
        for sample in launching.read_launch(one, folder, outcome)
    ]
    return session.commit(opened, [], [*stored, *samples])


def _run_all(
    prepared: Prepared, samples: list[Sample], *, tell: Tell, force: bool
) -> Iterator[Ran]:
    start = time.monotonic()
    left = prepared.left
    best: dict[tuple[Collective, int], tuple[float, Setting]] = {}
    _improve(best, samples)
    outcomes = list(prepared.done.values())
    judged = False
    for number, one in enumerate(left, start=1):
        if not judged and setting_of(one).role is not Role.BASELINE:
            _judge_baseline(samples, force=force)
            judged = True
        stop_if_changed(prepared.site, "before")
        ran = launching.run_launch(
            replace(one, timeout_s=one.timeout_s or limit_s(outcomes)),
            prepared.folder,
            site=tuple(os.environ.items()),
            clear=prepared.site.cleared,
            carry=prepared.site.launcher.carry,
            fingerprint=prepared.site.fingerprint,
            explain=advice.meaning_of,
            changed=prepared.site.changed,
        )
        samples += ran.samples
        outcomes.append(ran.outcome)
        _improve(best, ran.samples)
        stop_if_changed(prepared.site, "during")
        _stop_without_baseline(outcomes, ran)
        tell(
            Progress(
                number=number,
                of=len(left),
                ran=ran,
                elapsed_s=time.monotonic() - start,
                left_s=plan.estimate_s(left[number:], prepared.sweep, outcomes),
                best=best,
            )
        )
        yield ran


def limit_s(outcomes: Sequence[Outcome]) -> float:
    """Ten times what launches took so far; generous before anything is known."""
    known = [o.duration_s for o in outcomes if o.duration_s and o.status is Status.OK]
    return max(60.0, 10 * median(known)) if known else _FIRST_LIMIT_S


def _improve(
    best: dict[tuple[Collective, int], tuple[float, Setting]], samples: Sequence[Sample]
) -> None:
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


def _stop_without_baseline(outcomes: Sequence[Outcome], ran: Ran) -> None:
    """Two baselines that fail at once mean that nothing here works; say why and stop."""
    is_baseline = setting_of(ran.launch).role is Role.BASELINE
    if is_baseline and len(outcomes) >= 2 and all(o.status is not Status.OK for o in outcomes):
        last = outcomes[-1].notices[-1] if outcomes[-1].notices else None
        raise LaunchError(
            f"the untouched benchmark does not work: {last.message if last else 'no reason given'}",
            where=f"launches/{ran.launch.id}/",
            hint="run its command by hand (launch.json has it) until it works.",
        )


def _judge_baseline(samples: Sequence[Sample], *, force: bool) -> None:
    """Compare the untouched runs with each other before anything is compared with them."""
    times: dict[tuple[object, int], list[float]] = {}
    for sample in samples:
        usable = sample.doubt is None and sample.time_us is not None
        if usable and sample.key.setting.role is Role.BASELINE and sample.time_us:
            times.setdefault((sample.key, sample.nbytes), []).append(sample.time_us)
    spreads = [max(t) / min(t) - 1 for t in times.values() if len(t) > 1]
    if spreads and median(spreads) > _SPREAD and not force:
        raise MachineError(
            f"untouched runs differ by {100 * median(spreads):.0f} % at the median size: "
            "nothing measured now could be trusted",
            hint="look for other jobs on the GPUs, NUMA balancing "
            "(cat /proc/sys/kernel/numa_balancing), changing clocks and too few cores; --force "
            "measures all the same.",
        )


def _tuner(folder: Path, launches: Sequence[Launch]) -> str | None:
    from rccltune import proof

    for one in launches[:1]:
        logs = sorted((folder / "launches" / one.id).glob("nccl-*.log"))
        if logs:
            return proof.tuner_of(logs[0].read_text(errors="replace"))
    return None
