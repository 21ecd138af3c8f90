"""What a benchmark's error text usually means, and what to do.

Texts and causes: RCCL 2.28.3 ``src/init.cc``, ``src/misc``; rccl-tests ``src/common.cu``; Open MPI
5.0.11 and MPICH 5.0.2 as run; ROCm's troubleshooting pages. The first match of the table wins, so
specific texts stand before general ones.
"""

from __future__ import annotations

import re
from typing import Final

_MEANINGS: Final = {
    r"HSA_NO_SCRATCH_RECLAIM=1 must be set": (
        "this RCCL wants newer firmware or HIP; add --env HSA_NO_SCRATCH_RECLAIM=1 or "
        "update the firmware"
    ),
    r"(create|extend|map) shared memory|No space left on device": (
        "shared memory is too small (a container's default is 64 MB): start it with "
        "--ipc=host or --shm-size=16g, and remove stale /dev/shm/nccl-*"
    ),
    r"no socket interface found": (
        "no network interface fits: set NCCL_SOCKET_IFNAME in your environment"
    ),
    r"out of memory": (
        "a device's memory is full: lower --max-bytes, or end other jobs (24 GiB for each"
        " CPX partition)"
    ),
    r"The number of requested GPUs|invalid device ordinal|hipErrorInvalidDevice": (
        "fewer GPUs are visible than ranks were started: lower --np, check "
        "*_VISIBLE_DEVICES; a node that shows 63 of 64 partitions needs its ast display "
        "driver unloaded"
    ),
    r"no ROCm-capable device|Unable to open /dev/kfd": (
        "no GPU can be opened: check /dev/kfd and /dev/dri, and that you are in the "
        "groups render and video"
    ),
    r"Duplicate GPU detected|Multiple Ranks are using the same GPU": (
        "two ranks use one GPU: check --np against the devices and *_VISIBLE_DEVICES"
    ),
    r"Mismatched NCCL version": ("ranks load different libraries: use one --librccl everywhere"),
    r"Memory access fault by GPU|illegal memory access|hipErrorIllegalAddress": (
        "a GPU memory fault: the setting, the driver or the firmware is at fault; see dmesg"
    ),
    r"invalid option|invalid argument": ("the benchmark or library refused an option"),
    r"There are not enough slots": (
        "the launcher has fewer slots than ranks: check the hostfile or the allocation"
    ),
    r"PMIX_ERR_SYS_LIMITS_PIPES|Too many open files": (
        "too few open files are allowed: ulimit -n 65536"
    ),
    r"unsupported PMI version|not compatible with PMI1|OPAL ERROR: Unreachable|"
    r"Fatal error in internal_Init": (
        "the benchmark was built with another MPI than this launcher's; under srun set "
        "SLURM_MPI_TYPE (srun --mpi=list): pmix for Open MPI, pmi2 for MPICH"
    ),
    r"more processes than (cpus|ranks)|bind-to": ("binding failed: add --launcher none or fix it"),
    r"remote process exited or there was a network error": (
        "another rank failed first: its error is further up in the log"
    ),
    r"Out of bounds values : [1-9]\d* FAILED": ("results were WRONG: the setting is not usable"),
    r"unhandled (cuda|hip) error|Test (HIP|CUDA) failure": ("the GPU runtime failed"),
    r"unhandled system error": ("RCCL's system call failed: NCCL_DEBUG=INFO says which"),
    r"Test timeout": ("a collective did not finish"),
    r"exited\s+on\s+signal\s+9\b|Killed \(signal 9\)|Signal 9 \(SIGKILL\)": (
        "a rank was killed (out of host memory?)"
    ),
    r"exited\s+on\s+signal\s+11|Signal 11 \(SIGSEGV\)|Segmentation\s+fault": ("a rank crashed"),
    r"exited\s+on\s+signal\s+6\b|Aborted": ("a rank aborted"),
}
_MEMORY_FAULT: Final = re.compile(
    r"Memory access fault by GPU|illegal memory access|hipErrorIllegalAddress"
)
# Open MPI breaks its sentences at any blank.
_KILLED: Final = re.compile(
    r"exited\s+on\s+signal\s+9\b|Killed\s+\(signal\s+9\)|signal\s+9\s+\(Killed\)|"
    r"Signal\s+9\s+\(SIGKILL\)"
)
_CRASHED: Final = re.compile(
    r"Segmentation\s+fault|Aborted|Bus\s+error|[Ss]ignal:?\s+(4|6|7|8|11)\b"
)
_TABLE: Final = tuple((re.compile(text), meaning) for text, meaning in _MEANINGS.items())


def meaning_of(text: str) -> str | None:
    """What an error usually means and what to do; None where nothing in the text is known."""
    return next((meaning for pattern, meaning in _TABLE if pattern.search(text)), None)


def is_memory_fault(text: str) -> bool:
    """Whether a GPU touched memory that is not its own; ROCm's and CUDA's texts."""
    return _MEMORY_FAULT.search(text) is not None


def was_killed(text: str) -> bool:
    """Whether a launcher says that a rank got SIGKILL, and none of them crashed before.

    Launchers kill the others when one rank crashes. Texts as Open MPI 5.0.11, MPICH 5.0.2 and
    torchrun of PyTorch 2.13 printed them.
    """
    return _KILLED.search(text) is not None and _CRASHED.search(text) is None
