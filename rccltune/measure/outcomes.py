"""What a launch's files say of how it ended: a failure becomes an outcome, never an exception."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from rccltune.launch.process import Ending
from rccltune.logs.library import tuner_of
from rccltune.logs.resolver import is_memory_fault, meaning_of, was_killed
from rccltune.model.errors import RccltuneError
from rccltune.model.failure import Failure
from rccltune.model.measured import Caution, Launch, Notice, Outcome, Sample, Status
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Doubt
from rccltune.session.launches import (
    Ran,
    is_walk,
    n_steps_of,
    proven_before_the_end,
    samples_of_launch,
    suspect_of,
    wrong_in,
)

_COMPLETE: Final = b"# Avg bus bandwidth"
# The first row of a table: what runs beside a launch is under way.
_ROW: Final = re.compile(rb"^ +\d+ +\d+ .*\d\n", re.MULTILINE)
# Folder of what ran at the same time, in the launch's own.
BESIDE: Final = "beside"
# What a launch counts as; wrong results were measured all the same, and are kept with a doubt.
_STATUS: Final[Mapping[Failure | None, Status]] = {
    None: Status.OK,
    Failure.WRONG: Status.OK,
    Failure.HANG: Status.TIMED_OUT,
}


def is_complete(folder: Path) -> bool:
    """Whether the benchmark has printed its summary."""
    with (folder / "stdout.log").open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 4096))
        return _COMPLETE in stream.read()


def read(wanted: Launch, own: Path, ending: Ending, library: str | None = None) -> Ran:
    """What the launch's files say; a failure becomes an outcome, never an exception.

    Args:
        wanted: the launch.
        own: its folder.
        ending: how it ended.
        library: what it loads with its family, which its log does not name.
    """
    failure, why = _failure(own, ending)
    samples: tuple[Sample, ...] = ()
    notices: list[Notice] = []
    version = None
    if failure is None:
        try:
            samples, reading, found = samples_of_launch(wanted, own, library)
            notices += [*reading.notices, *found]
            version = reading.library_version or library
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
        samples = proven_before_the_end(wanted, own, library) if is_walk(wanted) else ()
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
        n_steps=n_steps_of(samples),
        suspect=suspect,
        wrong=wrong_in(samples) if is_walk(wanted) else (),
    )
    logs = sorted(own.glob("nccl-*.log"))
    tuner = tuner_of(logs[0].read_text(errors="replace")) if logs else None
    return Ran(launch=wanted, outcome=outcome, samples=samples, tuner=tuner)


def _told(wanted: Launch, suspect: Setting | None, samples: Sequence[Sample]) -> str:
    """Who is blamed for a combined launch that failed, and what of it counts."""
    if not is_walk(wanted) or wanted.schedule is None:
        return ""
    who = f" while {suspect} was in force" if suspect else ""
    n_steps = n_steps_of(samples) or 0
    return f"{who}; {n_steps} of its {len(wanted.schedule.settings)} steps count"


def _failure(own: Path, ending: Ending) -> tuple[Failure | None, str | None]:
    """How the processes failed and why, before their output is read."""
    if ending.alone is not None:
        known = meaning_of(_last_words(own / BESIDE))
        return Failure.CRASH, ending.alone + (f": {known}" if known else "")
    return _failure_of_its_own(own, ending)


def _failure_of_its_own(own: Path, ending: Ending) -> tuple[Failure | None, str | None]:
    if ending.timed_out:
        return Failure.HANG, f"it ran for {ending.duration_s:.0f} s and was ended"
    if ending.lingered or (ending.exit_code == 0 and ending.signal is None):
        return None, None
    # rccl-tests exit with 1 where results are wrong; the table then is complete and says so.
    if ending.exit_code is not None and is_complete(own):
        return None, None
    text = _last_words(own)
    known = meaning_of(text)
    why = f"it ended with {ending.how}" + (f": {known}" if known else "")
    if is_memory_fault(text):
        return Failure.MEMORY_FAULT, why
    if ending.signal == signal.SIGKILL or was_killed(text):
        return Failure.KILLED, why
    return Failure.CRASH, why


def _judge(samples: Sequence[Sample], own: Path) -> tuple[Failure | None, str | None]:
    """What is wrong with an output that could be read."""
    if not is_complete(own):
        return Failure.UNREADABLE, "its output ends before the benchmark's summary"
    settings = wrong_in(samples)
    if not settings:
        return None, None
    n = sum(sample.doubt is Doubt.WRONG for sample in samples)
    return Failure.WRONG, f"{n} timings of {', '.join(map(str, settings))} have WRONG RESULTS"


def _last_words(folder: Path) -> str:
    return "\n".join(_tail(folder / name) for name in ("stdout.log", "stderr.log"))


def _tail(path: Path) -> str:
    with path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 65536))
        return stream.read().decode("utf-8", "replace")


def has_row(folder: Path) -> bool:
    """Whether a benchmark has printed the first row of its table."""
    with suppress(OSError), (folder / "stdout.log").open("rb") as stream:
        return _ROW.search(stream.read(1 << 16)) is not None
    return False
