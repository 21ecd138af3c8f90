"""The program that ranks run before anything is measured: each says what its host is.

``python -m rccltune.measure.host_report mpi|lines QUESTION``, started by the launcher that starts
the benchmarks. With mpi4py the ranks meet, and rank 0 alone prints; without it each rank prints for
itself. The only module that imports MPI, and no other imports it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rccltune import __version__
from rccltune.machine import conf_files, detection, hosts, records, software
from rccltune.machine.files import SystemRoot

NO_MPI: Final = "RCCLTUNE-NO-MPI"
# Open MPI 5 has hung on ranks that end at once.
_AT_LEAST_S: Final = 0.5
_CONF: Final = "NCCL_CONF_FILE"
# Rank among those of its host: Open MPI, Hydra and Intel MPI, srun.
_LOCAL: Final = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


def main(arguments: Sequence[str]) -> int:
    """Answer, by MPI or by lines of one's own."""
    how, question_file = arguments
    question = json.loads(Path(question_file).read_text(encoding="utf-8"))
    return _by_mpi(question) if how == "mpi" else _by_lines(question)


def _by_mpi(question: Mapping[str, Any]) -> int:
    host, boot_id = _who()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        said = " ".join(str(error).split())
        sys.stderr.write(f"{NO_MPI} {host}: {type(error).__name__}: {said}\n")
        return 3
    world = MPI.COMM_WORLD
    everybody = world.allgather((host, boot_id))
    is_first = everybody.index((host, boot_id)) == world.rank
    said_here = _answer(question, host, boot_id, is_first=is_first)
    answers = world.gather(said_here, root=0)
    if answers is not None:
        found = hosts.merged(answers)
        plain = {"n_ranks": world.size, "hosts": [asdict(one) for one in found]}
        _print(hosts.lines_of(plain, f"{host}:{os.getpid()}"))
    return 0


def _by_lines(question: Mapping[str, Any]) -> int:
    start = time.monotonic()
    host, boot_id = _who()
    # Where the launcher does not number its ranks, each of them looks: slower, and no less right.
    local = next((os.environ[name] for name in _LOCAL if name in os.environ), "0")
    answer = _answer(question, host, boot_id, is_first=local == "0")
    _print(hosts.lines_of(asdict(answer), f"{host}:{os.getpid()}"))
    time.sleep(max(0.0, _AT_LEAST_S - (time.monotonic() - start)))
    return 0


def _print(lines: Sequence[str]) -> None:
    """Each line in one write, which a pipe does not tear."""
    for line in lines:
        os.write(1, line.encode())


def _who() -> tuple[str, str | None]:
    boot_id = None
    with suppress(OSError):
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return os.uname().nodename, boot_id


def _answer(
    question: Mapping[str, Any], host: str, boot_id: str | None, *, is_first: bool
) -> hosts.RankReport:
    return hosts.RankReport(
        host=host,
        boot_id=boot_id,
        facts=_facts(question) if is_first else None,
        variables={name: value for name, value in os.environ.items() if hosts.compares(name)},
    )


def _facts(question: Mapping[str, Any]) -> dict[str, str]:
    """What must be alike, by the names that a table shows; what is not there is left out."""
    system = detection.with_nvidia(
        detection.detect_system(variables=os.environ, deep=False), os.environ
    )
    programs = [Path(name) for name in question["programs"]]
    files = {program.name: program for program in programs}
    files |= {what: Path(name) for what, name in question["files"].items()}
    found: dict[str, str | None] = {
        "mode": system.mode_text if system.reason is None else f"? ({system.reason})",
        "GPUs": str(len(system.gpus)),
        "product": system.product,
        "arch": system.arch,
        "CUs": str(system.cu_count) if system.cu_count else None,
        "driver": system.driver,
        "library": _library(programs[0], question["librccl"]),
        **{what: software.sha256_of(path) for what, path in files.items()},
        "rccltune": __version__,
        **_hidden(system),
    }
    return {what: value for what, value in found.items() if value is not None}


def _library(program: Path, named: str | None) -> str | None:
    """What the benchmark loads here; of a script around it the loader knows nothing."""
    path = software.library_of(program, os.environ) or (Path(named) if named else None)
    if path is None:
        return None
    return f"{software.version_of(path) or 'of unknown version'} {software.sha256_of(path)}"


def _hidden(system: records.System) -> dict[str, str]:
    """Variables that configuration files set here, whatever the environment says."""
    root, home = SystemRoot(system.root), conf_files.home_of_user()
    read = conf_files.library_conf_files(root, os.environ, home, amd=system.vendor != "nvidia")
    # Homes may have other names on other hosts; what matters is which of the files it is.
    names = [_CONF if one.whose == _CONF else one.path.name for one in read]
    said = [
        (f"{name}: {key}", value)
        for name, one in zip(names, read, strict=True)
        for key, value in one.pairs
    ]
    return dict(said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
