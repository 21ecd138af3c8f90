"""Real launchers, each from a folder of its own; Slurm with its own controller and daemon.

``scripts/launchers`` makes the folders. Slurm's programs are unpacked there and not installed, so a
Slurm that the machine already has is neither used nor touched: own ports, own key, own folder, and
the user who runs the tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("RCCLTUNE_LAUNCHERS") or REPOSITORY / ".venv-mpi")
NAMES = ("openmpi5", "openmpi4", "mpich", "intel", "srun")
# Tells the processes of one Slurm from those of another.
MARK = "SLURM_OF_THESE_TESTS"
PREFIX = "rccltune-slurm-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """One launcher to be started for real.

    Attributes:
        flavour: as --launcher has it.
        folder: where its program is.
        variables: what must be set for it to work.
    """

    flavour: str
    folder: Path
    variables: Mapping[str, str]


@pytest.fixture
def real(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Real]:
    """Puts a launcher first on PATH and says what it is; skips where it is not installed."""

    def choose(name: str) -> Real:
        if name == "srun":
            found = _srun(request)
        else:
            folder = (Path(sys.prefix) if name == "openmpi5" else FOLDER / name) / "bin"
            if not (folder / "mpirun").exists():
                pytest.skip(f"{name} is not installed: scripts/launchers does it")
            found = Real(flavour=name.rstrip("45"), folder=folder, variables={})
        # rccltune looks beside Python first, where another launcher may be.
        monkeypatch.setattr("rccltune.launch.finding.own_folder", lambda: found.folder)
        monkeypatch.setenv("PATH", f"{found.folder}:{os.environ['PATH']}")
        for variable, value in found.variables.items():
            monkeypatch.setenv(variable, value)
        return found

    return choose


def _srun(request: pytest.FixtureRequest) -> Real:
    slurm: Slurm = request.getfixturevalue("slurm")
    return Real(flavour="srun", folder=slurm.programs / "bin", variables=slurm.variables)


# An ssh to another host: options dropped, nothing of the environment carried, the command run here.
SSH = """#!/bin/sh
: >"$0.used"
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH=/usr/bin:/bin HOME=/tmp ON_ANOTHER_HOST=there sh -c "$*"
"""
# Where Open MPI 5 and 4, Hydra and Intel MPI are told what to use for ssh.
AGENTS = (
    "PRTE_MCA_plm_ssh_agent",
    "OMPI_MCA_plm_rsh_agent",
    "HYDRA_LAUNCHER_EXEC",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC",
)


@pytest.fixture
def another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """127.0.0.2 is another host for every launcher."""
    agent = tmp_path / "ssh"
    agent.write_text(SSH)
    agent.chmod(0o755)
    for name in AGENTS:
        monkeypatch.setenv(name, str(agent))


# --- Slurm ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """A running one, with an allocation of all its nodes.

    Attributes:
        programs: the unpacked usr/.
        variables: for whoever calls srun.
    """

    programs: Path
    variables: Mapping[str, str]


CONFIGURATION = """
ClusterName=rccltune
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
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


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """Controller, daemon and munged on loopback, gone afterwards whatever happened."""
    with _running(1) as found:
        yield found


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Slurm]:
    """The same with three daemons, each a node of its own on this host."""
    with _running(3) as found:
        yield found


@contextlib.contextmanager
def _running(n_nodes: int) -> Iterator[Slurm]:
    programs = FOLDER / "slurm" / "usr"
    if not (programs / "bin" / "srun").exists():
        pytest.skip("Slurm is not unpacked: scripts/launchers does it, from Debian's packages")
    _clear_up_after_killed_tests()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield _start(programs, folder, started, n_nodes)
    finally:
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        _kill_marked(folder)
        for process in started:
            process.wait(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    programs: Path, folder: Path, started: list[subprocess.Popen[bytes]], n_nodes: int
) -> Slurm:
    libraries = next((programs / "lib").glob("*/slurm*/libslurmfull.so")).parent
    variables = {
        "LD_LIBRARY_PATH": f"{libraries.parent}:{libraries}",
        "SLURM_CONF": f"{folder}/slurm.conf",
        MARK: str(folder),
    }
    nodes = _configure(folder, libraries, n_nodes)

    def start(name: str, *options: str) -> None:
        program = next(iter(sorted((programs / "sbin").glob(f"{name}*"))))
        with (folder / f"{name}.out").open("ab") as out:
            started.append(
                subprocess.Popen(
                    [program, *options],
                    env={**os.environ, **variables},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - it takes no lock
                )
            )

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
        which = ("-N", node) if n_nodes > 1 else ()
        start("slurmd", "-D", "-c", "-f", f"{folder}/slurm.conf", "-d", str(stepd), *which)

    def ask(program: str, *options: str) -> str:
        return subprocess.run(
            [programs / "bin" / program, *options],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()

    _wait_for(lambda: ask("sinfo", "-h", "-o", "%T") == "idle", folder, started)
    ask("salloc", "-Q", "--no-shell", f"-N{n_nodes}", "--exclusive")
    job = ask("squeue", "-h", "-o", "%i")
    return Slurm(programs=programs, variables=variables | {"SLURM_JOB_ID": job})


def _configure(folder: Path, plugins: Path, n_nodes: int) -> list[str]:
    """Write slurm.conf and the key; returns the nodes' names."""
    (folder / "state").mkdir()
    key = folder / "munge.key-file"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    names = [host] if n_nodes == 1 else [f"node{number}" for number in range(n_nodes)]
    controller, *daemons = _free_ports(1 + n_nodes)
    text = CONFIGURATION.format(
        host=host,
        controller=controller,
        user=os.geteuid(),
        folder=folder,
        plugins=plugins,
        nodes="\n".join(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
            f"CPUs={os.cpu_count()} State=UNKNOWN"
            for name, port in zip(names, daemons, strict=True)
        ),
    )
    (folder / "slurm.conf").write_text(text)
    return names


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


def _die_with_the_tests() -> None:
    """In the child: SIGTERM if the tests are killed (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


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
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            pid = int(entry.parent.name)
            if pid != os.getpid() and wanted in entry.read_bytes().split(b"\0"):
                os.kill(pid, signal.SIGKILL)
