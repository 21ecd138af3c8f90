"""How runs end: which setting is to blame, and what no setting is to blame for."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from rccltune.launch.process import LaunchEnd
from rccltune.model.errors import LaunchError, MachineError, SessionError
from rccltune.model.failure import Failure
from rccltune.model.settings import Role
from rccltune.ranks import runs
from rccltune.ranks.plan import PlacedStep
from rccltune.ranks.runs import EndFile, Run

_SAID: Final = re.compile(rf"{runs.PROGRAM}: (?:rank \d+: )?(.*)")
_SIMULATED: Final = re.compile(r"^rccltune simulated node: (.*)", re.MULTILINE)
# A rank that only says that another one is gone.
_ECHO: Final = re.compile(r"is gone|other ranks")
_GONE: Final = re.compile(r"rank (\d+) is gone")
# A host has no such folder, or another one of this name (check_folder() in host.c).
_NOT_HERE: Final = re.compile(r"the run's folder .* is not here")
# Launchers put what they have to say between such lines.
_RULER: Final = re.compile(r"^-{20,}$", re.MULTILINE)
# What the program ends with where a rank was ended by a signal.
_BY_SIGNAL: Final = 128
_SIGKILL: Final = 9


def end_of_run(run: Run, ending: LaunchEnd, *, stalled: bool) -> EndFile:
    """How a run ended, and which setting is to blame where it failed."""
    end = EndFile(
        exit_code=ending.exit_code, signal=ending.signal, duration_s=round(ending.duration_s, 3)
    )
    pending = run.in_flight
    # A launcher may fail to see that its ranks have ended well.
    all_done = run.remarks.n_done == run.file.n_ranks
    if pending is None and (ending.exit_code == 0 or all_done):
        return end
    words = _words(run, stalled=stalled)
    at = _failed_at(run) or pending
    step = at.step if at else None
    return replace(
        end,
        failure=_failure(ending, stalled=stalled),
        line=at.line if at else None,
        collective=step.call.collective if step else None,
        setting=step.setting if step and step.setting.role in (Role.FORCED, Role.RULES) else None,
        rules=at.label.rules if at and step and step.setting.role is Role.RULES else "",
        words=words or ("" if stalled else f"it ended with {ending.how}; {_last_words(run)}"),
    )


def _failure(ending: LaunchEnd, *, stalled: bool) -> Failure:
    if stalled:
        return Failure.HANG
    killed = ending.signal == _SIGKILL or ending.exit_code == _BY_SIGNAL + _SIGKILL
    return Failure.KILLED if killed else Failure.CRASH


def _failed_at(run: Run) -> PlacedStep | None:
    """The step that a rank itself says to have failed at, or that a rank was at which is gone."""
    failed = run.remarks.failed
    lines = {line for _, line, words in failed if not _ECHO.search(words)}
    # Of two ranks that end at once the slower one may lack a row that the other has.
    gone = {int(match[1]) for *_, words in failed if (match := _GONE.search(words))}
    quiet = gone - {rank for rank, *_ in failed}
    reached = [len(run.ranks[rank]) for rank in quiet if rank < len(run.ranks)]
    lines |= {run.steps[n].line for n in reached if n < len(run.steps)}
    return next((one for one in run.steps[run.n_done :] if one.line in lines), None)


def _words(run: Run, *, stalled: bool) -> str:
    """Words of the program or the library: the first rank's words that are about itself."""
    sentences = [words for _, _, words in run.remarks.failed]
    try:
        log = (run.folder / runs.LOG_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        log = ""
    sentences += [match[1] for match in map(_SAID.match, log.splitlines()) if match]
    causes = [words for words in sentences if not _ECHO.search(words)]
    if not causes and not stalled and (match := _SIMULATED.search(log)):
        causes = [match[1]]
    # Ranks that hang are ended by us, and see each other go: that says nothing of why they hung.
    return next(iter(causes if stalled else [*causes, *sentences]), "")[:400]


def _last_words(run: Run) -> str:
    """Text that a launcher put between rulers, else the last line that anybody wrote."""
    log = run.folder / runs.LOG_FILE
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    parts = _RULER.split(text)
    if len(parts) > 2:
        return " ".join(parts[1].split())[:400]
    lines = (line.strip() for line in reversed(text.splitlines()))
    return next((line[:200] for line in lines if line), "nothing was said")


# Exit codes of the program that no setting is to blame for.
_USAGE, _LIBRARY, _DEVICES, _MEMORY, _ROWS, _SIMULATION = 2, 3, 4, 5, 8, 64
# Of these what says that it cannot run with this library here.
UNFIT: Final = (_LIBRARY, _DEVICES, _MEMORY, _SIMULATION)


def raise_if_hopeless(run: Run) -> None:
    """Raise what a run ended with, where trying again or without a setting cannot help.

    Raises:
        MachineError: no library, no devices, too little device memory, or a launcher that does
            not start all ranks.
        SessionError: no space left, or a host that does not see the session.
        LaunchError: the program refused its own plan.
    """
    end = run.ended
    if end is None or end.failure is None:
        return
    where = str(run.folder / runs.LOG_FILE)
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
            where=str(run.folder),
            hint="put the session on a file system that all hosts share with -o SESSION; /tmp is "
            "mostly each host's own."
            if _NOT_HERE.search(end.words)
            else "free space, then run the same command again; what was measured so far is kept.",
        )
    began = [(run.folder / f"rank-{rank}.csv").exists() for rank in range(run.file.n_ranks)]
    if run.file.n_nodes > 1 and end.failure is not Failure.KILLED and not all(began):
        raise MachineError(
            f"{sum(began)} of {len(began)} ranks started: {end.words or 'nothing was said'}",
            where=where,
            hint="every host needs the rank program at the same path, and a launcher that starts "
            "it there; mend this until it starts 'hostname' on all of them.",
        )
    if code == _USAGE:
        raise LaunchError(f"the rank program refused its plan: {end.words}", where=where)
