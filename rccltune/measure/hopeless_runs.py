"""Runs that ended so that no setting is to blame, and trying again cannot help."""

from __future__ import annotations

import re
from typing import Final

from rccltune.model.errors import LaunchError, MachineError, SessionError
from rccltune.model.failure import Failure
from rccltune.ranks import runs
from rccltune.ranks.runs import Run

# A host has no such folder, or another one of this name (check_folder() in host.c).
_NOT_HERE: Final = re.compile(r"the run's folder .* is not here")
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
        _SIMULATION: "say what the node knows (--collective, --np), or simulate another node.",
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
