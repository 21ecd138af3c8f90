"""Which variables must be alike on all hosts, and what of their values may differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# All that the libraries read. LD_LIBRARY_PATH is left out: launchers put a folder of their own
# before it on other hosts, and the hash of the library that it leads to is compared.
_COMPARED: Final = re.compile(
    r"(NCCL|RCCL|RCCLTUNE|MSCCL|MSCCLPP|HSA|HIP|ROCR|ROCM|GPU|AMD|CUDA|UCX|FI|NVSHMEM|TORCH_NCCL|"
    r"TORCH_SYMM_MEM)_\w+|LD_PRELOAD"
)
# Of one job and not of a host.
_OF_THE_JOB: Final = ("RCCLTUNE_RUN_ID",)
# Each rank may have a device of its own, by number or by a name that no other host has.
_DEVICES: Final = re.compile(r"\w+_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL")


def compares(name: str) -> bool:
    """Whether a variable must be the same on all hosts."""
    return _COMPARED.fullmatch(name) is not None and name not in _OF_THE_JOB


def value_of(name: str, values: Iterable[str | None]) -> str:
    """What the ranks of one host have for a variable, in a form that other hosts may equal.

    Ranks of one host may differ; then every value is said. Of devices that are named by a
    serial number only how many there are is.

    Args:
        name: of the variable.
        values: of all ranks of the host, None where it is not set.
    """
    found = {"(not set)" if one is None else _plain(name, one) for one in values}
    return " | ".join(sorted(found))


def _plain(name: str, value: str) -> str:
    if _DEVICES.fullmatch(name) is None:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if all(part.isdigit() for part in parts):
        return ",".join(parts)
    return f"{len(parts)} by name"
