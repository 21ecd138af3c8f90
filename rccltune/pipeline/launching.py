"""One launch: its files, its run, what its log says, and what is known to have run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from rccltune import advice, emit, launch, plan, plugin, proof, session
from rccltune.errors import LaunchError, MachineError, RccltuneError
from rccltune.launch import Ending, Job
from rccltune.model import (
    Caution,
    Failure,
    Fingerprint,
    Launch,
    Notice,
    Outcome,
    Role,
    Rule,
    Sample,
    Setting,
    Status,
)
from rccltune.pipeline.proving import (
    is_walk,
    samples_before_the_end,
    samples_of_launch,
    setting_of,
    suspect_of,
    wrong_in,
)
from rccltune.pipeline.switching import is_switched, switches
from rccltune.units import MAX_NBYTES
from rccltune.vocab import Algorithm, Collective, Doubt

_COMPLETE: Final = b"# Avg bus bandwidth"
_RULES: Final = "forced.csv"
# Of an earlier run that was interrupted; ranks that meet at a file would wait for its dead.
_LEFTOVERS: Final = ("trace-*.csv", "nccl-*.log", "rendezvous*")
# From names and the whole environment to a launcher's options and the environment with them.
Carry = Callable[[Iterable[str], Mapping[str, str]], tuple[tuple[str, ...], Mapping[str, str]]]
_SCHEDULE: Final = "schedule"
# What a launch counts as; wrong results were measured all the same, and are kept with a doubt.
_STATUS: Final[Mapping[Failure | None, Status]] = {
    None: Status.OK,
    Failure.WRONG: Status.OK,
    Failure.HANG: Status.TIMED_OUT,
}
# The library says at start which tuner it uses; asked of one launch, since it is the same in all.
TELL_TUNER: Final = (
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_FILE", "{launch}/nccl-%h-%p.log"),
    ("NCCL_DEBUG_SUBSYS", "INIT,ENV,TUNING"),
)
FORCE: Final = (
    ("NCCL_TUNER_CONFIG_FILE", "{launch}/" + _RULES),
    ("RCCLTUNE_TRACE", "{launch}/trace-%h-%p.csv"),
)
WALK: Final = (
    ("RCCLTUNE_SCHEDULE", "{launch}/" + _SCHEDULE),
    ("RCCLTUNE_TRACE", "{launch}/trace-%h-%p-%c-%n.csv"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one launch gave."""

    launch: Launch
    outcome: Outcome
    samples: tuple[Sample, ...]
    tuner: str | None = None


def choosing(
    wanted: Launch, *, tunerless: bool = False, tells: bool = False
) -> tuple[tuple[str, str], ...]:
    """Environment that makes the plugin choose; paths are filled in when the launch runs.

    Args:
        wanted: what to run.
        tunerless: the library loads no plugin of ours; its own switches choose.
        tells: its log then says what ran.
    """
    if tunerless:
        return switches(setting_of(wanted), tells=tells)
    if is_walk(wanted):
        return (("NCCL_TUNER_PLUGIN", str(plugin.library())), *WALK)
    if setting_of(wanted).role is Role.FORCED:
        return (("NCCL_TUNER_PLUGIN", str(plugin.library())), *FORCE)
    return ()


def choosing_anew(wanted: Launch) -> Launch:
    """The same launch with what makes the plugin choose for it, and nothing of another way."""
    names = {name for name, _ in (*FORCE, *WALK)}
    kept = {name: value for name, value in wanted.environment if name not in names}
    return replace(wanted, environment=tuple(sorted({**kept, **dict(choosing(wanted))}.items())))


def run_launch(
    wanted: Launch,
    folder: Path,
    *,
    site: Sequence[tuple[str, str]],
    clear: Sequence[str],
    carry: Carry,
    fingerprint: Fingerprint,
    files: Sequence[tuple[str, str, str]] = (),
    changed: Callable[[], tuple[str, ...]] = tuple,
    strayed: Callable[[Path], str | None] = lambda _log: None,
) -> Ran:
    """Run one launch and write its folder, outcome last.

    Args:
        wanted: what to run.
        folder: the session.
        site: the environment that rccltune was started with.
        clear: further variables to clear.
        carry: the launcher's way to take variables to ranks on other hosts.
        fingerprint: the machine as it is known.
        files: what hidden files set, as (file, name, value); recorded beside the environment.
        changed: what of the machine is no longer as it was; a launch that saw a change counts as
            interrupted.
        strayed: which rank a log says to have run on another device than it was to.

    Raises:
        SessionError: the disk refuses; the launch then has no outcome and is made again.
        LaunchError: a process cannot be killed.
        MachineError: ranks ran on other devices than they were to; nothing of it counts.
    """
    own = (folder / "launches" / wanted.id).resolve()
    leftovers = (name for kind in _LEFTOVERS for name in own.glob(kind))
    for leftover in (*leftovers, own / "outcome.json"):
        leftover.unlink(missing_ok=True)
    filled = {"{launch}": str(own), "{session}": str(folder.resolve()), "{id}": wanted.id}
    environment = launch.environment(
        dict(site),
        [(name, _filled(value, filled)) for name, value in wanted.environment],
        clear=clear,
    )
    session.write_atomically(own / "launch.json", _json(wanted))
    session.write_atomically(own / "environment.json", _environment_json(environment, files))
    setting = setting_of(wanted)
    if is_walk(wanted) and wanted.schedule is not None:
        session.write_atomically(own / _SCHEDULE, plan.schedule_text(wanted.schedule))
    elif setting.role is Role.FORCED and not is_switched(wanted):
        session.write_atomically(own / _RULES, _forced(wanted, setting))
    argv = tuple(_filled(part, filled) for part in wanted.argv)
    options, variables = _carried(environment, carry)
    started = datetime.now(tz=timezone.utc).isoformat(timespec="seconds")
    job = Job(
        argv=(argv[0], *options, *argv[1:]),
        variables=variables,
        folder=own,
        timeout_s=wanted.timeout_s or 600.0,
        is_complete=_is_complete,
    )
    try:
        ending = launch.run(job)
    except LaunchError as error:
        # What cannot be killed hangs as no other does; it must count when the sweep goes on.
        _write_outcome(own, _hung(wanted, error, started, fingerprint))
        raise
    # A log that a full disk cut off would be blamed on the setting.
    session.check_room(folder)
    ran = _read(wanted, own, ending)
    elsewhere = strayed(own / "stdout.log")
    if changed() or elsewhere:
        ran = replace(ran, outcome=_spoilt(ran.outcome), samples=())
    outcome = replace(
        ran.outcome,
        started=started,
        duration_s=round(ending.duration_s, 3),
        fingerprint=fingerprint,
    )
    _write_outcome(own, outcome)
    if elsewhere:
        raise MachineError(
            f"the ranks did not run where the placement puts them: {elsewhere}",
            where=str(own / "stdout.log"),
            hint="something between rccltune and the benchmark chooses devices: a wrapper script, "
            "the scheduler's binding, or a device list of its own on the host.",
        )
    return replace(ran, outcome=outcome)


def _write_outcome(own: Path, outcome: Outcome) -> None:
    session.write_atomically(own / "outcome.json", _json(outcome))


def _spoilt(outcome: Outcome) -> Outcome:
    """Nothing of a launch counts during which the machine became another one."""
    return replace(
        outcome,
        status=Status.INTERRUPTED,
        failure=None,
        n_samples=0,
        n_steps=None,
        suspect=None,
        wrong=(),
    )


def _hung(wanted: Launch, error: LaunchError, started: str, fingerprint: Fingerprint) -> Outcome:
    """The outcome of a launch whose processes could not be ended."""
    why = Notice(
        caution=Caution.LAUNCH_FAILED,
        message=error.message,
        remedy=error.hint or "",
        where=wanted.id,
    )
    return Outcome(
        launch=wanted.id,
        status=Status.TIMED_OUT,
        started=started,
        fingerprint=fingerprint,
        notices=(why,),
        failure=Failure.HANG,
    )


def _environment_json(
    environment: launch.Environment, files: Sequence[tuple[str, str, str]]
) -> str:
    """What decided beside the command line, for whoever asks later why a time was what it was."""
    plain = {
        "cleared": dict(environment.cleared),
        "passed": dict(environment.passed),
        "added": dict(environment.added),
        "files": [list(item) for item in files],
    }
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _carried(
    environment: launch.Environment, carry: Carry
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Every rank of every arm sees what we set and what the site set, on other hosts too."""
    names = {name for name, _ in (*environment.added, *environment.passed)}
    # By the launch's tag its ranks are found again; it gets its value when they start.
    return carry({*names, launch.TAG}, {**environment.variables, launch.TAG: ""})


def read_launch(wanted: Launch, folder: Path, outcome: Outcome) -> tuple[Sample, ...]:
    """Samples of a launch that ended earlier, from its raw files."""
    own = folder / "launches" / wanted.id
    if outcome.status is Status.OK:
        return samples_of_launch(wanted, own)[0]
    return samples_before_the_end(wanted, own) if outcome.n_steps else ()


def interrupted_walks(folder: Path, fingerprint: Fingerprint) -> list[Ran]:
    """Walks that somebody interrupted: what they had proven until then counts from now on.

    One without a proven step stays as it is, and is made again.

    Raises:
        SessionError: the disk refuses, or a launch's own file is damaged.
    """
    found = []
    for own in sorted((folder / "launches").glob("*")):
        plan_file = own / "launch.json"
        if not plan_file.exists() or (own / "outcome.json").exists():
            continue
        wanted = session.read_launch(own)
        samples = _proven_before_the_end(wanted, own) if is_walk(wanted) else ()
        if not samples:
            continue
        began = datetime.fromtimestamp(plan_file.stat().st_mtime, tz=timezone.utc)
        outcome = Outcome(
            launch=wanted.id,
            status=Status.INTERRUPTED,
            started=began.isoformat(timespec="seconds"),
            n_samples=len(samples),
            fingerprint=fingerprint,
            n_steps=_n_steps(samples),
            wrong=wrong_in(samples),
        )
        _write_outcome(own, outcome)
        found.append(Ran(launch=wanted, outcome=outcome, samples=samples))
    return found


def _proven_before_the_end(wanted: Launch, own: Path) -> tuple[Sample, ...]:
    try:
        return samples_before_the_end(wanted, own)
    except (RccltuneError, OSError):
        # Cut off before its first row or its first step, or nothing of it belongs together.
        return ()


def _n_steps(samples: Sequence[Sample]) -> int | None:
    """How many steps of a walk these samples prove."""
    return max((s.step + 1 for s in samples if s.step is not None), default=None)


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _json(record: object) -> str:
    return json.dumps(session.to_plain(record), indent=1, ensure_ascii=False) + "\n"


def _forced(wanted: Launch, setting: Setting) -> str:
    """A rule file that wants one setting at every size of every collective that has it."""
    scale = wanted.scale
    rules = [
        Rule(
            collective=collective,
            min_nbytes=0,
            max_nbytes=MAX_NBYTES,
            setting=setting,
            n_nodes=scale.n_nodes if scale else None,
            n_ranks=scale.n_ranks if scale else None,
        )
        for collective in wanted.collectives
        if setting.algorithm is not Algorithm.TREE or collective is Collective.ALL_REDUCE
    ]
    return emit.render_rules("one setting, to measure it", rules)


def _is_complete(folder: Path) -> bool:
    with (folder / "stdout.log").open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 4096))
        return _COMPLETE in stream.read()


def _read(wanted: Launch, own: Path, ending: Ending) -> Ran:
    """What the launch's files say; a failure becomes an outcome, never an exception."""
    failure, why = _failure(own, ending)
    samples: tuple[Sample, ...] = ()
    notices: list[Notice] = []
    version = None
    if failure is None:
        try:
            samples, reading, found = samples_of_launch(wanted, own)
            notices += [*reading.notices, *found]
            version = reading.library_version
        except RccltuneError as error:
            failure, why = Failure.UNREADABLE, str(error)
        else:
            failure, why = _judge(samples, own)
            if failure is Failure.WRONG and is_walk(wanted):
                # The samples name the settings; the other ones were measured all the same.
                failure = None
    status = _STATUS.get(failure, Status.FAILED)
    suspect = None
    if status is not Status.OK:
        samples = _proven_before_the_end(wanted, own) if is_walk(wanted) else ()
        suspect = suspect_of(wanted, own)
        why = f"{why}{_told(wanted, suspect, samples)}"
    if ending.lingered:
        notices.append(
            Notice(
                caution=Caution.LINGERED,
                message="the launcher did not return after all ranks were gone and was ended",
                remedy="nothing was lost; a newer Open MPI may not do it.",
                where=wanted.id,
            )
        )
    if why is not None:
        notices.append(
            Notice(
                caution=Caution.LAUNCH_FAILED,
                message=why,
                remedy=f"the whole output is in launches/{wanted.id}/.",
                where=wanted.id,
            )
        )
    outcome = Outcome(
        launch=wanted.id,
        status=status,
        exit_code=ending.exit_code,
        signal=ending.signal,
        n_samples=len(samples),
        library_version=version,
        notices=tuple(notices),
        failure=failure,
        n_steps=_n_steps(samples),
        suspect=suspect,
        wrong=wrong_in(samples) if is_walk(wanted) else (),
    )
    logs = sorted(own.glob("nccl-*.log"))
    tuner = proof.tuner_of(logs[0].read_text(errors="replace")) if logs else None
    return Ran(launch=wanted, outcome=outcome, samples=samples, tuner=tuner)


def _told(wanted: Launch, suspect: Setting | None, samples: Sequence[Sample]) -> str:
    """Who is blamed for a walk that failed, and what of it counts."""
    if not is_walk(wanted) or wanted.schedule is None:
        return ""
    who = f" while {suspect} was in force" if suspect else ""
    n_steps = _n_steps(samples) or 0
    return f"{who}; {n_steps} of its {len(wanted.schedule.settings)} steps count"


def _failure(own: Path, ending: Ending) -> tuple[Failure | None, str | None]:
    """How the processes failed and why, before their output is read."""
    if ending.timed_out:
        return Failure.HANG, f"it ran for {ending.duration_s:.0f} s and was ended"
    if ending.lingered or (ending.exit_code == 0 and ending.signal is None):
        return None, None
    # rccl-tests exit with 1 where results are wrong; the table then is complete and says so.
    if ending.exit_code is not None and _is_complete(own):
        return None, None
    text = "\n".join(_tail(own / name) for name in ("stdout.log", "stderr.log"))
    how = f"signal {ending.signal}" if ending.signal else f"exit code {ending.exit_code}"
    known = advice.meaning_of(text)
    why = f"it ended with {how}" + (f": {known}" if known else "")
    if advice.is_memory_fault(text):
        return Failure.MEMORY_FAULT, why
    if ending.signal == signal.SIGKILL or advice.was_killed(text):
        return Failure.KILLED, why
    return Failure.CRASH, why


def _judge(samples: Sequence[Sample], own: Path) -> tuple[Failure | None, str | None]:
    """What is wrong with an output that could be read."""
    if not _is_complete(own):
        return Failure.UNREADABLE, "its output ends before the benchmark's summary"
    settings = wrong_in(samples)
    if not settings:
        return None, None
    n = sum(sample.doubt is Doubt.WRONG for sample in samples)
    return Failure.WRONG, f"{n} half-rows of {', '.join(map(str, settings))} have WRONG RESULTS"


def _tail(path: Path) -> str:
    with path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 65536))
        return stream.read().decode("utf-8", "replace")
