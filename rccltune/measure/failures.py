"""How runs end: which setting is to blame, and what no setting is to blame for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from rccltune.launch.process import LaunchEnd
from rccltune.model.errors import LaunchError, MachineError, SessionError
from rccltune.model.failure import Failure
from rccltune.model.settings import Role
from rccltune.session import runs
from rccltune.session.plan import PlacedStep
from rccltune.session.runs import EndFile, PerfRun

_SAID: Final = re.compile(rf"{runs.PROGRAM}: (?:rank \d+: )?(.*)")
# A rank that only says that another one is gone.
_ECHO: Final = re.compile(r"is gone|other ranks")
_GONE: Final = re.compile(r"rank (\d+) is gone")
# What the program ends with where a rank was ended by a signal.
_BY_SIGNAL: Final = 128
_SIGKILL: Final = 9


def end_of_run(made: PerfRun, ending: LaunchEnd, *, stalled: bool) -> EndFile:
    """How a run ended, and which setting is to blame where it failed."""
    end = EndFile(
        exit_code=ending.exit_code, signal=ending.signal, duration_s=round(ending.duration_s, 3)
    )
    flying = made.in_flight
    # A launcher may fail to see that its ranks have ended well.
    all_done = made.remarks.n_done == made.file.n_ranks
    if flying is None and (ending.exit_code == 0 or all_done):
        return end
    words = _words(made, stalled=stalled)
    at = _failed_at(made) or flying
    step = at.step if at else None
    return replace(
        end,
        failure=_failure(ending, stalled=stalled),
        line=at.line if at else None,
        collective=step.call.collective if step else None,
        setting=step.setting if step and step.setting.role in (Role.FORCED, Role.RULES) else None,
        rules=at.label.rules if at and step and step.setting.role is Role.RULES else "",
        words=words or ("" if stalled else f"it ended with {ending.how}; {_last(made)}"),
    )


def _failure(ending: LaunchEnd, *, stalled: bool) -> Failure:
    if stalled:
        return Failure.HANG
    killed = ending.signal == _SIGKILL or ending.exit_code == _BY_SIGNAL + _SIGKILL
    return Failure.KILLED if killed else Failure.CRASH


def _failed_at(made: PerfRun) -> PlacedStep | None:
    """The step that a rank itself says to have failed at, or that a rank was at which is gone."""
    failed = made.remarks.failed
    lines = {line for _, line, words in failed if not _ECHO.search(words)}
    # Of two ranks that end at once the slower one may lack a row that the other has.
    gone = {int(match[1]) for *_, words in failed if (match := _GONE.search(words))}
    quiet = gone - {rank for rank, *_ in failed}
    reached = [len(made.ranks[rank]) for rank in quiet if rank < len(made.ranks)]
    lines |= {made.steps[n].line for n in reached if n < len(made.steps)}
    return next((one for one in made.steps[made.n_done :] if one.line in lines), None)


def _words(made: PerfRun, *, stalled: bool) -> str:
    """What the program or the library said: the first rank's words that are about itself."""
    said = [words for _, _, words in made.remarks.failed]
    try:
        log = (made.folder / runs.LOG_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        log = ""
    said += [match[1] for match in map(_SAID.match, log.splitlines()) if match]
    own = [words for words in said if not _ECHO.search(words)]
    # Ranks that hang are ended by us, and see each other go: that says nothing of why they hung.
    return next(iter(own if stalled else [*own, *said]), "")[:400]


def _last(made: PerfRun) -> str:
    """The last line that anybody wrote."""
    log = made.folder / runs.LOG_FILE
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing was said")[
        :200
    ]


# Exit codes of the program that no setting is to blame for.
_USAGE, _LIBRARY, _DEVICES, _MEMORY, _ROWS, _SIMULATION = 2, 3, 4, 5, 8, 64


def raise_if_hopeless(made: PerfRun) -> None:
    """Raise what a run ended with, where trying again or without a setting cannot help.

    Raises:
        MachineError: no library, no devices, or too little device memory.
        SessionError: no space left.
        LaunchError: the program refused its own plan.
    """
    end = made.ended
    if end is None or end.failure is None:
        return
    where = str(made.folder / runs.LOG_FILE)
    hints = {
        _LIBRARY: "name the library with --librccl FILE, and see that its runtime loads.",
        _DEVICES: "say fewer ranks with --np; rccltune detect shows the devices.",
        _MEMORY: "say a smaller --max-bytes; what was measured so far is kept.",
        _SIMULATION: "simulate another node, or say fewer ranks with --np.",
    }
    code = end.exit_code
    if code in hints:
        raise MachineError(end.words, where=where, hint=hints[code])
    if code == _ROWS:
        raise SessionError(
            end.words,
            where=str(made.folder),
            hint="free space, then run the same command again; what was measured so far is kept.",
        )
    if code == _USAGE:
        raise LaunchError(f"the rank program refused its plan: {end.words}", where=where)
