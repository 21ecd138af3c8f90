"""A real Slurm with its own controller and daemons, on loopback or on hosts that are namespaces.

Its programs are unpacked and not installed, so a Slurm that the machine already has is neither used
nor touched: own ports, own key, own folder, and the user who runs the tests.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import daemons
import pytest

# Tells the processes of one Slurm from those of another.
MARK = "SLURM_OF_THESE_TESTS"
PREFIX = "rccltune-slurm-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """A running one.

    Attributes:
        programs: the unpacked usr/.
        variables: for whoever calls srun, with the allocation's where there is one.
        folder: what its daemons say.
    """

    programs: Path
    variables: Mapping[str, str]
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node.

    Attributes:
        enter: makes a command line run there.
    """

    name: str
    address: str
    enter: Callable[[Sequence[str]], list[str]] = list


CONFIGURATION = """
ClusterName=rccltune
SlurmctldHost={host}({address})
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
PluginDir={plugins}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def running(programs: Path, nodes: Sequence[Node], *, allocates: bool = True) -> Iterator[Slurm]:
    """Controller and munged on the first node, a daemon on each, gone afterwards in any case.

    Args:
        programs: the unpacked usr/.
        nodes: at least one.
        allocates: whether all nodes are given to whoever calls srun.
    """
    if not (programs / "bin" / "srun").exists():
        pytest.skip("Slurm is not unpacked: scripts/launchers does it, from Debian's packages")
    _clear_up_after_killed_tests()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    # Slurm's configuration takes no path with a blank.
    linked = folder / "usr"
    linked.symlink_to(programs)
    started: list[subprocess.Popen[bytes]] = []
    try:
        found = _start(linked, folder, started, nodes)
        yield _allocated(found, nodes) if allocates else found
    finally:
        daemons.end(started)
        _kill_marked(folder)
        for process in started:
            process.wait(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    programs: Path, folder: Path, started: list[subprocess.Popen[bytes]], nodes: Sequence[Node]
) -> Slurm:
    libraries = next((programs / "lib").glob("*/slurm*/libslurmfull.so")).parent
    variables = {
        "LD_LIBRARY_PATH": f"{libraries.parent}:{libraries}",
        "SLURM_CONF": f"{folder}/slurm.conf",
        MARK: str(folder),
    }
    _configure(folder, libraries, nodes)
    first = nodes[0]

    def start(name: str, *options: str, node: Node = first) -> None:
        program = next(iter(sorted((programs / "sbin").glob(f"{name}*"))))
        out = folder / f"{name}-{node.name}.out"
        command = node.enter([str(program), *options])
        started.append(daemons.start(command, out, {**os.environ, **variables}))

    files = {
        f"--{name}": folder / f"munge.{name}"
        for name in ("key-file", "pid-file", "log-file", "seed-file")
    }
    start(
        "munged",
        "--foreground",
        "--force",
        f"--socket={folder}/munge.sock",
        *(f"{option}={path}" for option, path in files.items()),
    )
    _wait_for((folder / "munge.sock").exists, folder, started)
    start("slurmctld", "-D", "-c", "-f", f"{folder}/slurm.conf")
    stepd = next(iter(sorted((programs / "sbin").glob("slurmstepd*"))))
    for node in nodes:
        conf = f"{folder}/slurm.conf"
        start("slurmd", "-D", "-c", "-f", conf, "-d", str(stepd), node=node)

    found = Slurm(programs=programs, variables=variables, folder=folder)
    _wait_for(lambda: _ask(found, first, "sinfo", "-h", "-o", "%T") == "idle", folder, started)
    return found


def _allocated(found: Slurm, nodes: Sequence[Node]) -> Slurm:
    _ask(found, nodes[0], "salloc", "-Q", "--no-shell", f"-N{len(nodes)}", "--exclusive")
    job = _ask(found, nodes[0], "squeue", "-h", "-o", "%i")
    return replace(found, variables={**found.variables, "SLURM_JOB_ID": job})


def _ask(found: Slurm, node: Node, program: str, *options: str) -> str:
    return subprocess.run(
        node.enter([str(found.programs / "bin" / program), *options]),
        env={**os.environ, **found.variables},
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()


def _configure(folder: Path, plugins: Path, nodes: Sequence[Node]) -> None:
    (folder / "state").mkdir()
    for node in nodes:
        (folder / f"spool-{node.name}").mkdir()
    key = folder / "munge.key-file"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    controller, *daemons = _free_ports(1 + len(nodes))
    text = CONFIGURATION.format(
        host=nodes[0].name,
        address=nodes[0].address,
        nodes="\n".join(
            f"NodeName={node.name} NodeHostname={node.name} NodeAddr={node.address} "
            f"Port={port} CPUs={os.cpu_count()} State=UNKNOWN"
            for node, port in zip(nodes, daemons, strict=True)
        ),
        controller=controller,
        user=os.geteuid(),
        folder=folder,
        plugins=plugins,
    )
    (folder / "slurm.conf").write_text(text)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait_for(
    ready: Callable[[], bool], folder: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    deadline = time.monotonic() + 60
    while not ready():
        if time.monotonic() > deadline or any(p.poll() is not None for p in started):
            last = [
                line
                for path in sorted(folder.glob("*.out"))
                for line in path.read_text(errors="replace").splitlines()[-2:]
            ]
            pytest.skip(f"Slurm does not start on this machine: {'; '.join(last)[-500:]}")
        time.sleep(0.1)


def _clear_up_after_killed_tests() -> None:
    """Daemons end with the tests that started them, but a step's ranks outlive a killed daemon."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        maker = folder.name.removeprefix(PREFIX).partition("-")[0]
        mine = folder.stat().st_uid == os.geteuid()
        if mine and maker.isdigit() and not Path("/proc", maker).exists():
            _kill_marked(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _kill_marked(folder: Path) -> None:
    """Whatever this Slurm started and is still there; found by its variable, never by name."""
    wanted = f"{MARK}={folder}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(entry.name)
            if pid != os.getpid() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
