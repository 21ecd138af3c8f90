"""How ranks are started: by which launcher, on which hosts, bound to what."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.launch import binding, hostfiles, launchers, process, variables
from rccltune.launch.binding import Binding
from rccltune.launch.launchers import Launcher
from rccltune.logs import messages
from rccltune.machine import installed_software, placement
from rccltune.machine.placement import RankDevices
from rccltune.measure.hosts import named_hosts
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.reporter import Reporter

if TYPE_CHECKING:
    from rccltune.measure.site import SiteRequest


def launcher_of(flavour: str, benchmark: Path | None) -> Launcher:
    """The launcher asked for, or the first that fits the benchmark's MPI.

    Raises:
        MachineError: there is none.
        CommandLineError: srun outside an allocation.
    """
    return launchers.find_launcher(
        flavour,
        path=os.environ.get("PATH"),
        family=installed_software.find_linked_mpi(benchmark) if benchmark is not None else None,
        in_allocation="SLURM_JOB_ID" in os.environ,
    )


def hosts_of(hostfile: Path | None, launcher: Launcher, n_ranks: int) -> tuple[str, ...]:
    """Hosts that the host file puts ranks on; none without a file.

    Raises:
        CommandLineError: nothing would read it.
        InputFileError: it cannot be read.
    """
    if hostfile is None:
        return ()
    check_reads_hosts(launcher)
    return hostfiles.hosts_used(hostfile, launcher.flavour, n_ranks)


def over_hosts(
    request: SiteRequest, launcher: Launcher, seating: RankDevices, n_gpus: int
) -> tuple[RankDevices, tuple[str, ...]]:
    """Placement of ranks on the hosts of the host file, and these hosts; none without a file.

    Args:
        request: what the user says about where to run.
        launcher: starts the ranks.
        seating: of this host's ranks.
        n_gpus: devices of this host.

    Raises:
        CommandLineError: nothing would read the file, or how many ranks to start is not known.
        InputFileError: the file cannot be read.
        MachineError: the launcher cannot start its daemons there.
    """
    hosts = hosts_of(request.hostfile, launcher, seating.n_started)
    if len(hosts) <= 1:
        return seating, hosts
    # They hand their own path to a shell as it is (Open MPI 4.1.8 and 5.0.11, Intel MPI 2021.18.1).
    if launcher.flavour in ("openmpi", "intel") and " " in str(launcher.program):
        raise MachineError(
            "this launcher starts nothing on other hosts: its path has a blank",
            where=str(launcher.program),
            hint="install it in a folder without blanks.",
        )
    seating = placement.place_over_hosts(request.placement, seating, len(hosts), n_gpus)
    if request.n_ranks is None:
        # This host's devices are not those of all hosts.
        raise CommandLineError(
            f"how many ranks to start on {len(hosts)} hosts is not known",
            where=str(request.hostfile),
            hint="say it with --np: one rank for each GPU or partition of all of them.",
        )
    return seating, hosts


def check_reads_hosts(launcher: Launcher) -> None:
    """Stop where hosts are named and nothing starts ranks there.

    Raises:
        CommandLineError: nothing would read the host file.
    """
    if launcher.program is None:
        raise CommandLineError(
            "--hostfile needs a launcher that reads it",
            hint="leave out --hostfile, or --launcher none.",
        )


def binding_of(
    launcher: Launcher,
    n_ranks: int,
    *,
    hostfile: Path | None,
    added: Sequence[tuple[str, str]],
) -> Binding:
    """Try the launcher with ranks that do nothing, in the environment that launches will have.

    Raises:
        MachineError: it starts nothing, or takes hosts that nobody named.
    """
    environment = variables.launch_environment(os.environ, added)
    with tempfile.TemporaryDirectory(prefix="rccltune-") as folder:
        try:
            bound = binding.find_binding(
                launcher,
                n_ranks,
                hostfile=hostfile,
                variables=environment.variables,
                folder=Path(folder),
            )
        except MachineError as error:
            meaning = messages.meaning_of(error.message)
            raise MachineError(
                error.message, where=error.where, hint=meaning or error.hint
            ) from error
    if hostfile is None:
        _check_one_host(bound.hosts)
    return bound


def _check_one_host(hosts: tuple[str, ...]) -> None:
    """Launchers take an allocation's nodes without being told, and times would be of several."""
    if len(hosts) > 1:
        raise MachineError(
            f"the launcher puts the ranks on {len(hosts)} hosts by itself: {named_hosts(hosts)}",
            hint="name those to be measured with --hostfile, so that they can be compared and the "
            "rules know how many nodes they are for; or ask for an allocation of one node.",
        )


def remarks(binding: Binding) -> tuple[str, ...]:
    """Remarks on how ranks are bound."""
    if binding.refused is None:
        return ()
    text = "Ranks are not bound to their NUMA sets, times may vary more: the launcher refused"
    return (f"{text} ({binding.refused})",)


def end_leftovers(folder: Path, reporter: Reporter) -> None:
    """End it: it would disturb what is measured next, if not worse.

    Args:
        folder: in which launches are kept.
        reporter: told how many processes there were.

    Raises:
        LaunchError: a process cannot be killed (it hangs in the driver).
    """
    # Ended launches too: one may have left a process that could not be killed then.
    files = (
        *folder.glob(f"launches/**/{process.RUN_ID}"),
        *folder.glob(f"runs/*/{process.RUN_ID}"),
        *folder.glob(f"hosts/runs/*/{process.RUN_ID}"),
    )
    n_left = process.end_leftovers(path.parent for path in files)
    if n_left:
        reporter.say(
            f"{n_left} processes of an interrupted launch were still there; they are gone now"
        )
