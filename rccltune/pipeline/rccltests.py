"""rccl-tests as a site's benchmark: where they are, and which options they have."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rccltune import detect, session
from rccltune.errors import MachineError
from rccltune.pipeline.benches import Bench
from rccltune.vocab import Collective

_USUAL: Final = (Path("/opt/rocm/bin"), Path("/opt/rccl-tests/build"))
_OPTION: Final = re.compile(r"\[-(\w)[, ]")


def bench_of(wish: Path | None) -> Bench:
    """The real programs.

    Args:
        wish: their folder or the checkout; None looks on PATH and under /opt.

    Raises:
        MachineError: there are none, they do not start, or they are the stand-in's.
    """
    folder = _folder(wish)
    programs = programs_in(folder)
    first = Path(next(iter(programs.values())))
    if detect.SIMULATED_MARK in first.read_bytes():
        raise MachineError(
            "these are rccltune's stand-in benchmarks, not rccl-tests",
            where=str(folder),
            hint="use them with --simulate NODE; nothing simulated counts as a measurement.",
        )
    return Bench(
        programs=programs,
        letters=letters_of(str(first), os.environ),
        sha256=session.sha256_of(first),
        linked=first,
    )


def programs_in(folder: Path) -> dict[Collective, str]:
    """The benchmark of each collective in a folder.

    Raises:
        MachineError: there is none.
    """
    found = {
        collective: str((folder / collective.benchmark).resolve().parent / collective.benchmark)
        for collective in Collective
        if (folder / collective.benchmark).is_file()
    }
    if not found:
        raise MachineError(
            "there is no benchmark in this folder",
            where=str(folder),
            hint="name the folder that holds all_reduce_perf with --rccl-tests.",
        )
    return found


def letters_of(program: str, variables: Mapping[str, str]) -> frozenset[str]:
    """Option letters in what --help prints; benchmarks exit with 0 whatever they are asked.

    Raises:
        MachineError: it does not start.
    """
    try:
        done = subprocess.run(
            [program, "--help"],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"the benchmark does not start: {error}", where=program) from error
    return frozenset(_OPTION.findall(done.stdout + done.stderr))


def _folder(wish: Path | None) -> Path:
    if wish is not None:
        # Users name the checkout as often as its build folder.
        return wish / "build" if (wish / "build").is_dir() else wish
    found = shutil.which(Collective.ALL_REDUCE.benchmark)
    if found is not None:
        return Path(found).parent
    for folder in _USUAL:
        if (folder / Collective.ALL_REDUCE.benchmark).exists():
            return folder
    raise MachineError(
        "rccl-tests were not found on PATH nor under /opt/rocm",
        hint="build them with MPI=1 and name the folder with --rccl-tests; without a GPU use "
        "--simulate mi300x.",
    )
