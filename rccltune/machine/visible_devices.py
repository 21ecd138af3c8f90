"""The devices that ``*_VISIBLE_DEVICES`` leaves to a job, as the runtimes read these variables.

ROCr's own hides devices from everything above it. Within what it leaves HIP counts again: by its
own variable or, where that is empty, by CUDA's (ROCclr, rocdevice.cpp). CUDA reads CUDA's alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rccltune.machine.system import Gpu
from rccltune.model.errors import MachineError

_ROCR: Final = "ROCR_VISIBLE_DEVICES"
_CUDA: Final = "CUDA_VISIBLE_DEVICES"
# AMD's documents say that HIP reads OpenCL's too; it is taken at its word and never set.
_HIP: Final = ("HIP_VISIBLE_DEVICES", _CUDA, "GPU_DEVICE_ORDINAL")
VISIBLE: Final = (_ROCR, *_HIP)


def read_visible_lists(vendor: str | None, variables: Mapping[str, str]) -> dict[str, str]:
    """The lists that a vendor's runtime reads, each within what the one before left."""
    if vendor == "nvidia":
        return {_CUDA: variables[_CUDA]} if _CUDA in variables else {}
    # An empty list of ROCr's hides all devices, an empty one of HIP's none.
    lists = {_ROCR: variables[_ROCR]} if _ROCR in variables else {}
    hip = next((name for name in _HIP if variables.get(name)), None)
    return lists | ({hip: variables[hip]} if hip is not None else {})


def find_visible_devices(
    gpus: Sequence[Gpu], vendor: str | None, variables: Mapping[str, str]
) -> tuple[Gpu, ...]:
    """The devices that a job sees, in the order in which it numbers them.

    Raises:
        MachineError: a list names an identity that several devices have, or a part of a GPU.
    """
    visible = tuple(gpus)
    for name, text in read_visible_lists(vendor, variables).items():
        visible = _apply_list(visible, name, text)
    return visible


def _apply_list(gpus: Sequence[Gpu], name: str, text: str) -> tuple[Gpu, ...]:
    """The devices of a list, up to its first word that is no device, or one that was there."""
    visible: list[Gpu] = []
    for word in (word.strip().lower() for word in text.split(",")):
        if word.startswith(("gpu-", "mig-")):
            # The runtimes take the beginning of an identity too.
            matches = [gpu for gpu in gpus if _format_identity(gpu).startswith(word)]
        else:
            matches = [gpus[int(word)]] if word.isdigit() and int(word) < len(gpus) else []
        if len(matches) > 1 or word.startswith("mig-"):
            raise MachineError(
                "which devices a job sees is not certain: they are named by an identity that is "
                "not one whole device's",
                where=f"{name}={text}",
                hint=f"say their numbers (rccltune detect -v has them), or unset {name}.",
            )
        if not matches or matches[0] in visible:
            break
        visible += matches
    return tuple(visible)


def _format_identity(gpu: Gpu) -> str:
    """An identity as the lists have it; KFD says it without the word before it."""
    identity = (gpu.identity or "").lower()
    return identity if identity.startswith("gpu-") else f"gpu-{identity}" if identity else ""


def make_device_variables(vendor: str | None, *numbers: int) -> tuple[tuple[str, str], ...]:
    """The environment in which a job sees these devices alone, in this order.

    ROCr's variable is the one that AMD's own instructions use. CUDA numbers by speed unless told
    otherwise, nvidia-smi by address.
    """
    devices = ",".join(map(str, numbers))
    if vendor == "nvidia":
        return (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), (_CUDA, devices))
    return ((_ROCR, devices),)
