"""Lines to copy: what they name, and that the shell files are clean."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deliveries import CPX, NAME, Make, place, rules
from wording import lacks

from rccltune.deploy import Rules

LIBRARY = "librccl-tuner-rccltune.so"


ODD = (("NCCL_ODD", "^LL128;allreduce:LL 'x' $(id) `id` \\n"), ("RCCL_LL128_FORCE_ENABLE", "1"))
SPACED = (("NCCL_ODD", "^LL128;allreduce:LL 'x'"), ("RCCL_LL128_FORCE_ENABLE", "1"))
ONE_OAM = rules(f"{NAME[:-4]}_one-oam.csv", {**CPX, "placement": "one-oam"}, needs=())


@pytest.mark.parametrize(
    ("files", "dialect"),
    [
        ((rules(),), "sh"),
        ((rules("rccl_tuner.csv", {}, needs=(), verified="yes"),), "sh"),
        ((ONE_OAM,), "sh"),
        *(((rules(needs=SPACED), ONE_OAM), name) for name in ("sh", "dash", "bash", "busybox")),
    ],
)
def test_shellcheck_has_nothing_to_say(
    make: Make, tmp_path: Path, files: tuple[Rules, ...], dialect: str
) -> None:
    """Of any shell file, in any dialect that may read it; sourced files are followed."""
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("there is no shellcheck here: the group dev brings it")
    placed = place(make(*files, simulated=len(files) > 1, directory=tmp_path / "the site's"))
    names = [path for path in sorted(placed.folder.iterdir()) if path.suffix == ".sh"]
    assert len(names) == 4
    done = subprocess.run(
        [program, "--norc", "-x", "-s", dialect, *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout + done.stderr == ""
    assert done.returncode == 0


def test_every_text_is_ascii(make: Make) -> None:
    """A node's locale is often C, where some shells read nothing else."""
    placed = place(make(rules(needs=ODD), ONE_OAM, simulated=True))
    for path in placed.folder.rglob("*"):
        if path.is_file() and path.suffix != ".so":
            assert path.read_bytes().isascii(), path.name


def test_container_lines_name_the_mount(make: Make, tmp_path: Path) -> None:
    """--env-file has plain values only: Docker takes quotes as they are, Apptainer does not."""
    placed = place(make(rules(needs=(("NCCL_ODD", "a b"), ("RCCL_LL128_FORCE_ENABLE", "1")))))
    lines = (tmp_path / "site" / "container.env").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        f"NCCL_TUNER_PLUGIN=/opt/rccltune/{LIBRARY}",
        f"NCCL_TUNER_CONFIG_FILE=/opt/rccltune/{NAME}",
        "RCCL_LL128_FORCE_ENABLE=1",
    ]
    text = (tmp_path / "site" / "container.sh").read_text(encoding="utf-8")
    assert (
        f"--bind {placed.folder}:/opt/rccltune:ro --env-file {placed.folder}/container.env" in text
    )
    assert f"docker run -v {placed.folder}:/opt/rccltune:ro" in text
    # Apptainer's own --env has values split at commas and evaluated inside.
    assert text.count(" NCCL_ODD='a b' apptainer exec --bind ") == 2
    assert text.count("--env 'NCCL_ODD=a b'") == 3


def test_slurm_lines_run_and_stop_a_job_on_a_bad_node(make: Make, tmp_path: Path) -> None:
    """With an srun that starts the program here: this machine has no MI300X."""
    place(make())
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
    srun.chmod(0o755)

    def submitted() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-euc", f". '{tmp_path}/site/slurm.sh'; echo the job runs"],
            env={"PATH": f"{srun.parent}:{os.environ['PATH']}", "SLURM_JOB_NUM_NODES": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    done = submitted()
    assert done.returncode == 1
    assert lacks(done.stdout, "AMD", "GPU") == []
    assert "the job runs" not in done.stdout

    place(make(rules("rccl_tuner.csv", {})))
    done = submitted()
    assert done.returncode == 0
    assert lacks(done.stdout, "job runs") == []
