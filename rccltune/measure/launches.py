"""One launch: its files, its run, what its log says, and what is known to have run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.launch import family, process
from rccltune.launch.process import Job
from rccltune.launch.variables import Environment
from rccltune.launch.variables import environment as launch_environment
from rccltune.machine.overrides import is_switched, switches
from rccltune.measure.outcomes import BESIDE, has_row, is_complete, read
from rccltune.model import schema
from rccltune.model.chosen import Rule
from rccltune.model.errors import LaunchError, MachineError, SessionError
from rccltune.model.failure import Failure
from rccltune.model.measured import Caution, Fingerprint, Launch, Notice, Outcome, Status
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import MAX_NBYTES, Algorithm, json_text
from rccltune.plan import walks
from rccltune.rules.writer import render_rules
from rccltune.session.files import check_room, disk_errors, write_atomically
from rccltune.session.launches import Ran, is_walk, setting_of

_LONGEST_S: Final = 600.0
_RULES: Final = "forced.csv"
# Folders in a launch's own, numbered from 1: what earlier runs of it left.
_EARLIER: Final = "earlier-"
# Where the simulated clock stood at the end of a launch; in the folder of one that ended well.
CLOCK: Final = "clock"
# From names and the whole environment to a launcher's options and the environment with them.
Carry = Callable[[Iterable[str], Mapping[str, str]], tuple[tuple[str, ...], Mapping[str, str]]]
_SCHEDULE: Final = "schedule"
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

_OF_STEPS: Final = ("RCCLTUNE_SCHEDULE",)


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
    misplaced: Callable[[Path], str | None] = lambda _log: None,
    library: str | None = None,
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
        misplaced: which rank a log says to have run on another device than it was to.
        library: what the benchmark loads with its family, which its log does not name.

    Raises:
        SessionError: the disk refuses; the launch then has no outcome and is made again.
        LaunchError: a process cannot be killed.
        MachineError: ranks ran on other devices than they were to; nothing of it counts.
    """
    own = (folder / "launches" / wanted.id).resolve()
    _set_aside(own)
    began_s = simulated_s(folder)

    def job_in(where: Path, argv: Sequence[str]) -> tuple[Job, Environment]:
        """Of this launch, its files in a folder of their own."""
        values = {"{launch}": str(where), "{session}": str(folder.resolve()), "{id}": wanted.id}
        values["{clock}"] = f"{began_s:.9f}"
        # What runs beside has steps of its own and goes by the rules from first to last.
        names = _OF_STEPS if where != own else ()
        pairs = [pair for pair in wanted.environment if pair[0] not in names]
        added = [(name, _filled(value, values)) for name, value in pairs]
        environment = launch_environment(dict(site), added, clear=clear)
        options, variables = _carried(environment, carry)
        words = [_filled(part, values) for part in argv]
        job = Job(
            argv=(words[0], *options, *words[1:]),
            variables=variables,
            folder=where,
            timeout_s=wanted.timeout_s or _LONGEST_S,
            is_complete=is_complete,
        )
        return job, environment

    job, environment = job_in(own, wanted.argv)
    write_atomically(own / "launch.json", _json(wanted))
    write_atomically(own / "environment.json", _environment_json(environment, files))
    setting = setting_of(wanted)
    if is_walk(wanted) and wanted.schedule is not None:
        write_atomically(own / _SCHEDULE, walks.schedule_text(wanted.schedule))
    elif setting.role is Role.FORCED and not is_switched(wanted):
        write_atomically(own / _RULES, _forced(wanted, setting))
    started = datetime.now(tz=timezone.utc).isoformat(timespec="seconds")
    try:
        if wanted.beside is None:
            ending = process.run(job)
        else:
            other, _ = job_in(own / BESIDE, wanted.beside.argv)
            ending = process.run_beside(job, replace(other, is_complete=has_row))
    except LaunchError as error:
        # What cannot be killed hangs as no other does; it must count when the sweep goes on.
        _write_outcome(own, _hung(wanted, error, started, fingerprint))
        raise
    # A log that a full disk cut off would be blamed on the setting.
    check_room(folder)
    ran = read(wanted, own, ending, library)
    elsewhere = misplaced(own / "stdout.log")
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


def _set_aside(own: Path) -> None:
    """Keep what an earlier run of a launch left where this one does not meet it.

    Raises:
        SessionError: the disk refuses.
    """
    left = [path for path in own.glob("*") if not path.name.startswith(_EARLIER)]
    if not left:
        return
    into = own / f"{_EARLIER}{sum(1 for _ in own.glob(_EARLIER + '*')) + 1}"
    with disk_errors(into):
        into.mkdir()
        for path in left:
            path.rename(into / path.name)


def simulated_s(folder: Path) -> float:
    """The simulated clock of a session, in seconds: where the last launch that ended left it.

    Raises:
        SessionError: a launch's clock is no number.
    """
    ended = (path.parent for path in (folder / "launches").glob("*/outcome.json"))
    return max((_seconds(own / CLOCK) for own in ended if (own / CLOCK).exists()), default=0.0)


def _seconds(clock: Path) -> float:
    try:
        return float(clock.read_text(encoding="ascii"))
    except ValueError as error:
        raise SessionError(
            f"the simulated clock cannot be read: {error}",
            where=str(clock),
            hint="delete this launch's folder; the same command makes it anew.",
        ) from error


def _write_outcome(own: Path, outcome: Outcome) -> None:
    write_atomically(own / "outcome.json", _json(outcome))


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


def _environment_json(environment: Environment, files: Sequence[tuple[str, str, str]]) -> str:
    """What decided beside the command line, for whoever asks later why a time was what it was."""
    plain = {
        "cleared": dict(environment.cleared),
        "passed": dict(environment.passed),
        "added": dict(environment.added),
        "files": [list(item) for item in files],
    }
    return json_text(plain, indent=1) + "\n"


def _carried(environment: Environment, carry: Carry) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Every rank of every launch sees what we set and what the site set, on other hosts too."""
    names = {name for name, _ in (*environment.added, *environment.passed)}
    # By the launch's tag its ranks are found again; it gets its value when they start.
    return carry({*names, family.TAG}, {**environment.variables, family.TAG: ""})


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _json(record: object) -> str:
    return json_text(schema.to_plain(record), indent=1) + "\n"


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
        if setting.algorithm is not Algorithm.TREE or collective.has_tree
    ]
    return render_rules("one setting, to measure it", rules)
