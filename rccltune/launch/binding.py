"""Trying a launcher before it is trusted with an hour: do all ranks start, and bound to what.

Ranks bound to the NUMA set of their device measure steadier times, so that is asked for first.
Some machines cannot bind (containers, virtual machines): there the launcher refuses to start, and
the ranks are left unbound, which the user is told.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.launch.launchers import Launcher
from rccltune.launch.process import LaunchCommand, LaunchEnd, run
from rccltune.model.errors import MachineError

_SAYS: Final = "rccltune-rank"
# Open MPI 5 has hung on ranks that end at once; half a second has never failed.
_RANK: Final = ("/bin/sh", "-c", f'sleep 0.5; echo "{_SAYS} $(uname -n)"')
_HOST: Final = re.compile(rf"{_SAYS} (\S+)")
_LIMIT_S: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Binding of ranks to processors.

    Attributes:
        bind: ``numa``, ``none``; None where nothing starts the ranks.
        refused: what the launcher said to ``numa``, None where it did it.
        hosts: that ranks started on, by their own names; empty where nothing starts them.
    """

    bind: str | None
    refused: str | None = None
    hosts: tuple[str, ...] = ()


def find_binding(
    launcher: Launcher,
    n_ranks: int,
    *,
    hostfile: Path | None,
    variables: Mapping[str, str],
    folder: Path,
) -> Binding:
    """Start as many ranks as a launch would, that do nothing, and see how.

    Args:
        launcher: found before.
        n_ranks: as many as will be started.
        hostfile: where ranks go, None for this host.
        variables: the whole environment.
        folder: for what they print.

    Raises:
        MachineError: they do not start bound, nor unbound; or not as many as asked for.
    """
    if launcher.program is None:
        return Binding(bind=None)
    refusals: list[str] = []
    for bind in ("numa", "none"):
        ending = run(
            LaunchCommand(
                argv=launcher.argv(n_ranks, _RANK, bind=bind, hostfile=hostfile),
                variables=variables,
                folder=folder,
                timeout_s=_LIMIT_S,
                is_complete=lambda at: _started(at) == n_ranks,
            )
        )
        if _started(folder) == n_ranks and (ending.lingered or ending.exit_code == 0):
            text = (folder / "stdout.log").read_text(errors="replace")
            return Binding(
                bind=bind,
                refused=refusals[0] if refusals else None,
                hosts=tuple(sorted(set(_HOST.findall(text)))),
            )
        refusals.append(_reason(folder, ending, n_ranks))
    command = launcher.argv(n_ranks, ("hostname",), hostfile=hostfile)
    raise MachineError(
        f"{launcher.flavour} {launcher.version} does not start {n_ranks} ranks: {refusals[-1]}",
        where=str(launcher.program),
        hint=f"mend this until it works: {shlex.join(command)}",
    )


def _started(folder: Path) -> int:
    return (folder / "stdout.log").read_text(errors="replace").count(_SAYS)


def _reason(folder: Path, ending: LaunchEnd, n_ranks: int) -> str:
    """First line that says something; launchers frame theirs with dashes and name themselves."""
    text = (folder / "stderr.log").read_text(errors="replace")
    text += (folder / "stdout.log").read_text(errors="replace")
    # A sentence goes on over lines until an empty one.
    for paragraph in re.split(r"-{20,}|\n\s*\n", text):
        words = " ".join(paragraph.split())
        if words and _SAYS not in words:
            return words[:300]
    how = f"{_LIMIT_S:.0f} s" if ending.timed_out else ending.how
    return f"{_started(folder)} of {n_ranks} had started, {how}"
