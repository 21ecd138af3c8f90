"""One launch of a session: its folder, its run, its outcome, which is written last.

``launches/<id>/`` has ``launch.json`` (what was asked for), ``command.txt`` (the same for a shell),
``environment.json``, both outputs, what the plugin and the library logged, and ``outcome.json``. A
launch without an outcome was interrupted and is made again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from rccltune.launch.process import LaunchEnd
from rccltune.launch.variables import LaunchEnvironment
from rccltune.logs.library import tuner_of
from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import RcclTestsSetup
from rccltune.measure.site import Site
from rccltune.model.errors import LaunchError, MachineError, RccltuneError
from rccltune.model.failure import Failure
from rccltune.model.measurement import Caution, Launch, Notice, Outcome, Sample, Status
from rccltune.model.settings import Role
from rccltune.model.vocabulary import json_text
from rccltune.session import place, store
from rccltune.session.files import check_room, disk_errors, write_atomically
from rccltune.session.launches import samples_of_launch, setting_of

FOLDER: Final = "launches"
# Folders in a launch's own, numbered from 1: what an interrupted run of it left.
_EARLIER: Final = "earlier-"
# Variables that tell a simulated launch from another, and where its clock is.
_OF_ONE: Final = ("RCCLTUNE_SIM_LAUNCH", "RCCLTUNE_SIM_EPOCH", "RCCLTUNE_SIM_CLOCK")
# A launch may take so many times what others took; before one ended nobody knows.
_PATIENCE: Final = 10
_LEAST_LIMIT_S: Final = 60.0
_FIRST_LIMIT_S: Final = 300.0
# What a launch counts as; wrong results were measured all the same, and are kept with a doubt.
_STATUS: Final[Mapping[Failure | None, Status]] = {
    None: Status.OK,
    Failure.WRONG: Status.OK,
    Failure.HANG: Status.TIMED_OUT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchResult:
    """What one launch of a session gave."""

    launch: Launch
    outcome: Outcome
    samples: tuple[Sample, ...]


def run_launch(
    one: Launch,
    where: RcclTestsSetup,
    folder: Path,
    *,
    timeout_s: float,
    removed: Iterable[str] = (),
    files: Sequence[tuple[str, str, str]] = (),
) -> LaunchResult:
    """Make a launch, its outcome last.

    Args:
        one: with ``{launch}`` for its folder in values of its environment.
        where: it runs.
        folder: the session, or what holds ``launches`` otherwise.
        timeout_s: after which it is ended.
        removed: further variables of the site that no rank gets.
        files: what hidden files set, as (file, name, value); recorded beside the environment.

    Raises:
        SessionError: the disk refuses; the launch then has no outcome and is made again.
        LaunchError: a process cannot be killed.
        MachineError: ranks ran on other devices than they were to; nothing of it counts.
        KeyboardInterrupt: after all that was started is gone.
    """
    own = (folder / FOLDER / one.id).resolve()
    _put_aside(own)
    environment = _environment(one, where, own, removed)
    write_atomically(own / "launch.json", store.dump_json(replace(one, timeout_s=timeout_s)))
    write_atomically(own / "command.txt", shell_line(one, where, own) + "\n")
    write_atomically(own / "environment.json", _environment_json(environment, files))
    started = datetime.now(tz=timezone.utc).isoformat(timespec="seconds")
    try:
        ending = rccl_tests.start(where, one.argv, own, environment, timeout_s=timeout_s)
    except LaunchError as error:
        # What cannot be killed hangs as no other does; it must count when the sweep goes on.
        _write(own, _unkillable(one, error, started, where))
        raise
    # A log that a full disk cut off would be blamed on the setting.
    check_room(folder)
    ran = _read(one, own, ending, where.site.library)
    elsewhere = place.misplaced(own / "stdout.log", where.site.seating.gpus)
    if elsewhere or where.site.changed():
        spoilt = Outcome(launch=one.id, status=Status.INTERRUPTED)
        ran = replace(ran, outcome=spoilt, samples=())
    outcome = replace(
        ran.outcome,
        started=started,
        duration_s=round(ending.duration_s, 3),
        fingerprint=where.site.fingerprint,
    )
    _write(own, outcome)
    if elsewhere:
        raise MachineError(
            f"the ranks did not run where the placement puts them: {elsewhere}",
            where=str(own / "stdout.log"),
            hint="something between rccltune and the benchmark chooses devices: a wrapper script, "
            "the scheduler's binding, or a device list of its own on the host.",
        )
    return replace(ran, outcome=outcome)


def shell_line(one: Launch, where: RcclTestsSetup, folder: Path) -> str:
    """A launch for a shell: its own variables, then its command line.

    What only tells a launch of a simulated node, or its processes, from others is left out.

    Args:
        one: the launch.
        where: it runs.
        folder: of the launch.
    """
    environment = _environment(one, where, folder, ())
    cleared = [part for name, _ in environment.cleared for part in ("-u", name)]
    own = [f"{name}={value}" for name, value in environment.added if not name.startswith(_OF_ONE)]
    told = replace(
        environment,
        added=tuple(pair for pair in environment.added if not pair[0].startswith(_OF_ONE)),
    )
    argv = rccl_tests.carried(where.site, one.argv, told, tag=False)[0]
    return shlex.join([*(("env", *cleared) if cleared else ()), *own, *argv])


def _environment(
    one: Launch, where: RcclTestsSetup, own: Path, removed: Iterable[str]
) -> LaunchEnvironment:
    return rccl_tests.environment_of(
        where,
        own,
        added=_filled(one, own),
        removed=removed,
        as_it_is=setting_of(one).role is Role.BASELINE,
    )


def _filled(one: Launch, own: Path) -> list[tuple[str, str]]:
    return [(name, value.replace("{launch}", str(own))) for name, value in one.environment]


def _put_aside(own: Path) -> None:
    """Keep what an interrupted run of a launch left where this one does not meet it."""
    left = [path for path in own.glob("*") if not path.name.startswith(_EARLIER)]
    if not left:
        return
    into = own / f"{_EARLIER}{sum(1 for _ in own.glob(_EARLIER + '*')) + 1}"
    with disk_errors(into):
        into.mkdir()
        for path in left:
            path.rename(into / path.name)


def _read(one: Launch, own: Path, ending: LaunchEnd, library: str | None) -> LaunchResult:
    """What a launch's files say; a failure becomes an outcome, never an exception."""
    failure, why = rccl_tests.why_failed(own, ending)
    samples: tuple[Sample, ...] = ()
    notices: list[Notice] = []
    version = None
    if failure is None:
        try:
            samples, reading, found = samples_of_launch(one, own)
        except RccltuneError as error:
            failure, why = Failure.UNREADABLE, str(error)
        else:
            notices += [*reading.notices, *found]
            version = reading.library_version or library
            failure, why = rccl_tests.judged(samples, own)
    if failure not in (None, Failure.WRONG):
        samples = ()
    if ending.lingered:
        notices.append(
            Notice(
                caution=Caution.LINGERED,
                message="the launcher did not return after all ranks were gone and was ended",
                remedy="nothing was lost; a newer Open MPI may not do it.",
                where=one.id,
            )
        )
    if why is not None:
        notices.append(_failed(one, why))
    outcome = Outcome(
        launch=one.id,
        status=_STATUS.get(failure, Status.FAILED),
        exit_code=ending.exit_code,
        signal=ending.signal,
        n_samples=len(samples),
        library_version=version,
        notices=tuple(notices),
        failure=failure,
    )
    return LaunchResult(launch=one, outcome=outcome, samples=samples)


def limit_s(outcomes: Sequence[Outcome]) -> float:
    """Ten times what launches took so far; generous before one has ended well."""
    known = sorted(o.duration_s for o in outcomes if o.duration_s and o.status is Status.OK)
    return max(_LEAST_LIMIT_S, _PATIENCE * known[len(known) // 2]) if known else _FIRST_LIMIT_S


def stop_if_changed(site: Site, when: str) -> None:
    """Another mode, driver or start of the machine is another machine.

    Raises:
        MachineError: it changed.
    """
    if changes := site.changed():
        raise MachineError(
            f"the machine changed {when} a launch: {'; '.join(changes)}",
            hint="measure it anew into another session (-o); what was measured before is kept.",
        )


def tuner_in(folder: Path, launches: Iterable[Launch]) -> str | None:
    """Which tuner the library uses by itself, as its log of a launch without our plugin says.

    Args:
        folder: the session.
        launches: of the sweep, in their order.

    Returns:
        ``none``, ``plugin NAME``, ``built-in table FILE``; None where there is no such log.
    """
    for one in launches:
        untouched = setting_of(one).role is Role.BASELINE
        logs = sorted((folder / FOLDER / one.id).glob("nccl-*.log")) if untouched else []
        if logs:
            return tuner_of(logs[0].read_text(encoding="utf-8", errors="replace"))
    return None


def _failed(one: Launch, why: str) -> Notice:
    return Notice(
        caution=Caution.LAUNCH_FAILED,
        message=why,
        remedy=f"the whole output is in {FOLDER}/{one.id}/.",
        where=one.id,
    )


def _unkillable(one: Launch, error: LaunchError, started: str, where: RcclTestsSetup) -> Outcome:
    return Outcome(
        launch=one.id,
        status=Status.TIMED_OUT,
        started=started,
        fingerprint=where.site.fingerprint,
        notices=(_failed(one, error.message),),
        failure=Failure.HANG,
    )


def _write(own: Path, outcome: Outcome) -> None:
    write_atomically(own / "outcome.json", store.dump_json(outcome))


def _environment_json(environment: LaunchEnvironment, files: Sequence[tuple[str, str, str]]) -> str:
    """What decided beside the command line, for whoever asks later why a time was what it was."""
    plain = {
        "cleared": dict(environment.cleared),
        "passed": dict(environment.passed),
        "added": dict(environment.added),
        "files": [list(item) for item in files],
    }
    return json_text(plain, indent=1) + "\n"
