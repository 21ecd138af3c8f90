"""Two hosts on one kernel: each with its own network, name, mounts, /sys and sshd.

What hosts share is what they share here: the kernel (and so the boot id and /dev/shm) and every
folder over which nothing is mounted. Everything is gone with the process that holds a namespace.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import daemons
import pytest

ADDRESSES = {"hosta": "10.213.77.1", "hostb": "10.213.77.2"}

SSHD = """
Port 22
HostKey {folder}/key
PidFile none
AuthorizedKeysFile {folder}/key.pub
PermitRootLogin yes
PasswordAuthentication no
StrictModes no
UsePAM no
PermitUserEnvironment yes
"""
SSH = """#!/bin/sh
LD_LIBRARY_PATH={libraries} exec {programs}/bin/ssh -F {folder}/ssh_config "$@"
"""
SSH_CONFIG = """
IdentityFile {folder}/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
BatchMode yes
"""
# What a host is when it begins: a name, nothing in /run, its own /etc and /sys.
BEGIN = """
set -e
hostname {name}
mount -t tmpfs none /run
mkdir -p /run/sshd
mount --bind {folder}/hosts /etc/hosts
mount --bind {folder}/passwd-{name} /etc/passwd
# Of this network, as libraries of launchers look at it.
mkdir /run/sysfs
mount -t sysfs none /run/sysfs
for part in class/net devices/virtual devices/system fs/cgroup; do
    mkdir -p {sys}/$part
    case $part in
        fs/cgroup) mount --rbind /sys/$part {sys}/$part ;;
        *) mount --bind /run/sysfs/$part {sys}/$part ;;
    esac
done
mount --rbind {sys} /sys
touch {folder}/{name}.ready
exec sleep 3600
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoHosts:
    """Both are up, and reach each other by name over ssh.

    Attributes:
        folder: keys, what the daemons said, and ``home-<host>``, each host's own home.
        holders: the process of each host that keeps its namespaces.
        variables: what launchers need to use this ssh.
    """

    folder: Path
    holders: Mapping[str, int]
    variables: Mapping[str, str]

    def enter(self, host: str, command: Sequence[str]) -> list[str]:
        """A command line that runs on a host, in the working directory of the caller."""
        pid = str(self.holders[host])
        # nsenter's own --wd opens the folder before it enters, which then is another mount's.
        there = ["sh", "-c", 'cd "$0" && exec "$@"', str(Path.cwd())]
        return ["nsenter", "-t", pid, "-n", "-u", "-m", *there, *command]

    def run(
        self, host: str, command: Sequence[str], **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run something on a host to its end."""
        return subprocess.run(
            self.enter(host, command),
            env={**os.environ, **self.variables, **variables},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def hide(self, host: str, folder: Path) -> None:
        """Put an empty disk of the host's own over a folder."""
        done = self.run(host, ["mount", "-t", "tmpfs", "none", str(folder)])
        assert done.returncode == 0, done.stderr

    def replace(self, host: str, file: Path, content: bytes) -> None:
        """Let a host have another file of this name."""
        other = self.folder / f"{host}-{file.name}"
        other.write_bytes(content)
        other.chmod(file.stat().st_mode)
        done = self.run(host, ["mount", "--bind", str(other), str(file.resolve())])
        assert done.returncode == 0, done.stderr


@contextlib.contextmanager
def two_hosts(folder: Path, ssh: Path, systems: Mapping[str, Path]) -> Iterator[TwoHosts]:
    """Both hosts, gone afterwards whatever happened.

    Args:
        folder: for keys and what the daemons say.
        ssh: the unpacked ``usr`` of Debian's openssh packages.
        systems: the ``/sys`` of each host.
    """
    _skip_where_it_cannot_be(ssh)
    started: list[subprocess.Popen[bytes]] = []
    try:
        yield _start(folder, ssh, systems, started)
    finally:
        daemons.end(started)
        for process in started:
            process.kill()
            process.wait(timeout=10)


def _skip_where_it_cannot_be(ssh: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces of one's own need root")
    for program in ("ip", "nsenter", "unshare", "mount"):
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine")
    if not (ssh / "sbin" / "sshd").exists():
        pytest.skip("sshd is not unpacked: scripts/launchers does it, from Debian's packages")
    tried = subprocess.run(
        [
            str(shutil.which("unshare")),
            "-n",
            "-u",
            "-m",
            "sh",
            "-c",
            "mount -t tmpfs none /run && hostname x",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode != 0:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()[-200:]}")


def _start(
    folder: Path, ssh: Path, systems: Mapping[str, Path], started: list[subprocess.Popen[bytes]]
) -> TwoHosts:
    libraries = ":".join(str(path) for path in sorted((ssh / "lib").glob("*-linux-gnu*")))
    values = {
        "folder": folder,
        "programs": shlex.quote(str(ssh)),
        "libraries": shlex.quote(libraries),
    }
    _write(folder, ssh, libraries, values)
    holders = {}
    for name, tree in systems.items():
        script = BEGIN.format(name=name, sys=tree, folder=folder)
        command = ["unshare", "-n", "-u", "-m", "sh", "-c", script]
        holders[name] = _spawn(command, folder / f"{name}.out", started).pid
        _wait_for(folder / f"{name}.ready", folder / f"{name}.out")
    found = TwoHosts(
        folder=folder,
        holders=holders,
        variables={
            "PRTE_MCA_plm_ssh_agent": str(folder / "ssh"),
            "OMPI_MCA_plm_rsh_agent": str(folder / "ssh"),
            "HYDRA_LAUNCHER_EXEC": str(folder / "ssh"),
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": str(folder / "ssh"),
        },
    )
    _connect(found)
    for name in systems:
        daemon = [str(ssh / "sbin" / "sshd"), "-D", "-e", "-f", str(folder / "sshd_config")]
        command = found.enter(name, ["env", f"LD_LIBRARY_PATH={libraries}", *daemon])
        _spawn(command, folder / f"{name}.sshd", started)
    for name in systems:
        _until_it_answers(found, name)
    return found


def _write(folder: Path, ssh: Path, libraries: str, values: Mapping[str, object]) -> None:
    subprocess.run(
        [ssh / "bin" / "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"],
        env={**os.environ, "LD_LIBRARY_PATH": libraries},
        check=True,
    )
    (folder / "sshd_config").write_text(SSHD.format(**values))
    (folder / "ssh_config").write_text(SSH_CONFIG.format(**values))
    (folder / "ssh").write_text(SSH.format(**values))
    (folder / "ssh").chmod(0o755)
    lines = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in ADDRESSES.items())]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    for name in ADDRESSES:
        home = folder / f"home-{name}"
        home.mkdir()
        (folder / f"passwd-{name}").write_text(
            f"root:x:0:0:root:{home}:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
        )


def _connect(found: TwoHosts) -> None:
    """One cable between the two."""
    (one, pid), (other, peer) = found.holders.items()
    link = ["ip", "link", "add", "eth0", "netns", str(pid), "type", "veth"]
    commands = [[*link, "peer", "name", "eth0", "netns", str(peer)]]
    for name in (one, other):
        commands += [
            found.enter(name, ["ip", *rest.split()])
            for rest in (
                "link set lo up",
                f"addr add {ADDRESSES[name]}/24 dev eth0",
                "link set eth0 up",
            )
        ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no network between namespaces here: {done.stderr.strip()[-200:]}")


def _until_it_answers(found: TwoHosts, name: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        done = found.run("hosta", [str(found.folder / "ssh"), name, "uname", "-n"])
        if done.stdout.strip() == name:
            return
        if time.monotonic() > deadline:
            said = (found.folder / f"{name}.sshd").read_text(errors="replace")
            pytest.skip(f"sshd does not answer here: {done.stderr}{said}"[-400:])
        time.sleep(0.2)


def _spawn(
    command: Sequence[str], out: Path, started: list[subprocess.Popen[bytes]]
) -> subprocess.Popen[bytes]:
    started.append(daemons.start(command, out))
    return started[-1]


def _wait_for(file: Path, out: Path) -> None:
    deadline = time.monotonic() + 20
    while not file.exists():
        if time.monotonic() > deadline:
            pytest.skip(f"a host does not begin here: {out.read_text(errors='replace')[-300:]}")
        time.sleep(0.05)
