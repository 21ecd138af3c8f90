"""Lines to copy: batch jobs and containers."""

from __future__ import annotations

import re
import shlex
from typing import Final

from rccltune.deploy.records import Delivery, header

# Where a version is seen in a container, whatever its path outside.
MOUNT: Final = "/opt/rccltune"
# Docker takes a value as it stands and Apptainer has a shell read it: alike for these alone.
# Others go to Docker by --env. Apptainer's has them split at commas and evaluated inside; what
# is in its own environment it passes on as it stands.
_PLAIN: Final = re.compile(r"[\w./:,+=@%-]*")


def slurm(delivery: Delivery, version: str) -> str:
    """``slurm.sh``: what an sbatch script does before its steps."""
    directory = delivery.directory
    names = [name for name, _ in delivery.variables("")]
    exported = " ".join(f"-x {name}" for name in names)
    return "\n".join(
        (
            *header(delivery, version),
            "# Copy these lines into a batch script (sbatch), before its steps. Once per job and",
            "# not once per task (TaskProlog): a switch of versions between two tasks would give",
            "# ranks of one job different rules, and such a job hangs.",
            f". {shlex.quote(f'{directory}/env.sh')} || exit 1",
            "# A job that was submitted with --export=NONE, or with a list, passes nothing of it",
            "# on to its steps, unless this is uncommented (or each srun has --export=ALL):",
            "#   unset SLURM_EXPORT_ENV",
            "# Every node, once, for the version that was sourced; ends the job where one is not",
            "# ready, or where the variables do not arrive:",
            "check=${NCCL_TUNER_PLUGIN%/*}/check.sh",
            "# Where a plugin of the user's own stayed, any of ours says so.",
            f'[ -x "$check" ] || check={shlex.quote(f"{directory}/check.sh")}',
            'srun --ntasks-per-node=1 --ntasks="$SLURM_JOB_NUM_NODES" "$check" --sourced || exit 1',
            "# (A heterogeneous job: for each component, with --het-group and its own nodes.)",
            "# env.sh is sourced in the job (as above), not only in the shell that calls sbatch.",
            f"# Open MPI's mpirun over several hosts: mpirun {exported} ./job",
            f"# MPICH and Intel MPI: mpiexec -genvlist {','.join(names)} ./job",
            "",
        )
    )


def container_environment(delivery: Delivery, version: str) -> str:
    """``container.env`` for --env-file; no quotes, for Docker would pass them on."""
    lines = [*header(delivery, version)]
    lines += [f"{name}={value}" for name, value in _plain(delivery)]
    return "\n".join(lines) + "\n"


def containers(delivery: Delivery, version: str) -> str:
    """``container.sh``: how the version gets into containers."""
    folder = f"{delivery.directory}/versions/{version}"
    bind = shlex.quote(f"{folder}:{MOUNT}:ro")
    env_file = shlex.quote(f"{folder}/container.env")
    odd = [pair for pair in delivery.variables(MOUNT) if pair not in _plain(delivery)]
    apart = "".join(f" --env {shlex.quote(f'{name}={value}')}" for name, value in odd)
    before = "".join(f"{name}={shlex.quote(value)} " for name, value in odd)
    apptainer = f"{before}apptainer exec --bind {bind} --env-file {env_file}"
    docker = f"-v {bind} --env-file {env_file}{apart}"
    return "\n".join(
        (
            *header(delivery, version),
            f"# Lines to copy. The version is seen as {MOUNT} inside; --env-file names it there.",
            "# It is this version and not 'current', so that all ranks of a job read one file.",
            "#",
            "# env.sh alone does not do: its paths are passed on, and are not there inside.",
            "# --env-file wins over them.",
            "#",
            "# Apptainer, Singularity:",
            f"#   {apptainer} IMAGE ./job",
            "# Docker, Podman:",
            f"#   docker run {docker} OPTIONS IMAGE ./job",
            f"#   podman run {docker} OPTIONS IMAGE ./job",
            "# The image's C library must be new enough, and its GPUs in the right mode:",
            f"#   {apptainer} IMAGE {MOUNT}/check.sh --sourced",
            f"#   docker run {docker} OPTIONS IMAGE {MOUNT}/check.sh --sourced",
            "# In an image (a Dockerfile with the deployed folder as its context):",
            f"#   COPY versions/{version} {MOUNT}",
            *(f"#   ENV {name}={shlex.quote(v)}" for name, v in delivery.variables(MOUNT)),
            "",
        )
    )


def _plain(delivery: Delivery) -> list[tuple[str, str]]:
    return [pair for pair in delivery.variables(MOUNT) if _PLAIN.fullmatch(pair[1])]
