"""What becomes of each command that a page shows: run as it stands, or not run, and why not."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# Why a line is not run here. The first pattern that is found in it counts.
NOT_RUN: Final = {
    r"^(srun|sbatch|salloc|scontrol)|--launcher srun|&& srun": "Slurm; tests/launchers run it",
    r"--hostfile|/shared/": "several hosts; tests/launchers/test_hosts.py has two",
    r"^git clone|install\.sh|fetch-rccl": "the network",
    r"-m venv|pip install|~/": "installs; tests/packaging does, and scripts/try",
    r"^scripts/(test|try)$": "runs this test; the tutorial has what scripts/try runs",
    r"^cmake": "builds; native_plugin/run-checks.sh does",
    r"TransferBench|transferbench": "TransferBench's output; tests/cli/test_transferbench.py has one",
    r"--librccl": "another librccl; tests/cli/test_site.py has one",
    r"rccltune npkit": "a library with NPKit; tests/cli/test_npkit.py has one",
    r"torchrun": "PyTorch; tests/examples do",
    r"enable-tree-simple": "a checkout of RCCL; tests/scripts runs it on excerpts",
    r"/opt/|/path/|/check --quick": "a path of the reader's; the tutorial has the same",
    r"\./app": "a program of the reader's; tests/job runs others",
    r"compare (old\.csv|session|torch)": "two files, sessions or libraries; tests/compare has them",
    r"\| jq": "jq is not everywhere; docs/machine.md has the command without it",
}
# What a reader would put for a word of the pages.
STANDS_FOR: Final = {
    r"/apps/": "apps/",
    r"\bDIR\b": "dir",
    r"rccl-tests/build": ".",
    r"\bSESSION\b": "rccltune-session",
}
# Without a GPU a sweep cannot run, and a shell is no job.
MAY_END_WITH: Final = {
    r"^rccltune doctor": 4,
    # The archive of the line before is there.
    r"^rccltune gather": 2,
}
# A real machine is played by the simulated one, through the environment: the line stays as shown.
_SMALL = {"COLLECTIVE": "all_reduce", "MAX_BYTES": "1M"}
_PLAYED = {"SIMULATE": "mi300x", "LAUNCHER": "none"}
PLAYED: Final = {
    "RCCLTUNE_CLI_IMPORT_OUTPUT": "imported",
    "RCCLTUNE_CLI_COMPARE_SIMULATE": "examples/nodes/smallest.yaml",
    "RCCLTUNE_CLI_COMPARE_MAX_BYTES": "64K",
    **{f"RCCLTUNE_CLI_VERIFY_{option}": value for option, value in _PLAYED.items()},
    "RCCLTUNE_CLI_CHECK_SIMULATE": "mi300x",
    **{
        f"RCCLTUNE_CLI_{verb}_{option}": value
        for verb in ("SWEEP", "TUNE")
        for option, value in {**_PLAYED, **_SMALL}.items()
    },
}
MEASURES: Final = r"rccltune (sweep|tune|verify|compare|check)\b|--links"


def why_not(text: str) -> str | None:
    """Why a line is not run, None where it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, text)), None)


def run(lines: Sequence[str], folder: Path, *, played: bool = True) -> str:
    """Run shell lines one after the other in one bash; returns what they said.

    Args:
        lines: as a page shows them.
        folder: the reader's.
        played: whether the simulated node stands for the real one.

    Raises:
        AssertionError: a line failed; its text and the end of all output are in it.
    """
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "MPLCONFIGDIR": str(folder / ".matplotlib"),
        **(PLAYED if played else {}),
    }
    done = subprocess.run(
        ["/bin/bash", "-c", "\n".join(["set -eo pipefail", *map(_guarded, lines)])],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


def _guarded(line: str) -> str:
    """A line that says itself first, with the reader's words in it and its exit code allowed."""
    text = line
    for pattern, word in STANDS_FOR.items():
        text = re.sub(pattern, word, text)
    if "--links" in line and "my-session" in line:
        # A session that was swept says on which node; the reader's own is there.
        text = text.replace("my-session", "rccltune-session")
    if re.match(r"rccltune (sweep|tune) .*--workload", line):
        # A workload says which sizes to measure.
        text = f"env -u RCCLTUNE_CLI_SWEEP_MAX_BYTES -u RCCLTUNE_CLI_TUNE_MAX_BYTES {text}"
    code = next((c for pattern, c in MAY_END_WITH.items() if re.search(pattern, line)), 0)
    said = f"echo {shlex.quote(f'+ {line}')}"
    return f"{said}\n{{ {text}\n}} || [ $? = {code} ]" if code else f"{said}\n{text}"
