"""NVIDIA's GPUs: what nvidia-smi lists, else the driver in /proc, else the PCI bus.

nvidia-smi asks NVML, in a process of its own that is killed where the driver hangs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from typing import Final

from rccltune.machine import pci
from rccltune.machine.child_program import run_program
from rccltune.machine.sysroot import SystemRoot
from rccltune.machine.system import Gpu

_VENDOR: Final = 0x10DE
# Display and 3D controllers: a network card of the same maker is no GPU.
_CLASSES: Final = (0x0300, 0x0302)
_FOLDER: Final = "proc/driver/nvidia/gpus"
_LISTED: Final = re.compile(r"GPU (\d+): (.+?) \(UUID: ([\w-]+)\)")


def find_gpus(root: SystemRoot, variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that a job can use, from the first source that lists any."""
    text = _ask_program(variables, "-L") if root.is_live else ""
    gpus = tuple(
        Gpu(
            index=int(number),
            oam=f"gpu{number}",
            product=product,
            identity=uuid,
            source="nvidia-smi -L",
        )
        for number, product, uuid in _LISTED.findall(text)
    )
    return gpus or _read_driver(root) or _read_bus(root)


def list_processes(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Numbers of the processes that compute on the GPUs, as far as this container shows them."""
    text = _ask_program(variables, "--query-compute-apps=pid", "--format=csv,noheader")
    return tuple(dict.fromkeys(word for word in text.split() if word.isdecimal()))


def _ask_program(variables: Mapping[str, str], *options: str) -> str:
    program = shutil.which("nvidia-smi", path=variables.get("PATH"))
    return run_program([program, *options], timeout_s=10).out if program is not None else ""


def _read_driver(root: SystemRoot) -> tuple[Gpu, ...]:
    gpus = []
    for index, address in enumerate(root.entries(_FOLDER) or ()):
        place = f"{_FOLDER}/{address}/information"
        lines = (root.read(place, 8192) or b"").decode("utf-8", "replace").splitlines()
        pairs = [line.split(":", 1) for line in lines if ":" in line]
        values = {key.strip(): value.strip() for key, value in pairs}
        gpus.append(
            Gpu(
                index=index,
                oam=address,
                product=values.get("Model"),
                identity=values.get("GPU UUID"),
                source=f"/{place}",
            )
        )
    return tuple(gpus)


def _read_bus(root: SystemRoot) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, oam=address, source=f"/{pci.DEVICES}")
        for index, address in enumerate(pci.list_devices(root, _VENDOR, _CLASSES))
    )
