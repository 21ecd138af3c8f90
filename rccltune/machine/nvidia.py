"""NVIDIA's GPUs: what nvidia-smi lists, else the driver, else the PCI bus."""

from __future__ import annotations

import re
from pathlib import Path
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


def nvidia_gpus(root: SystemRoot, nvidia_smi: Path | None) -> tuple[Gpu, ...]:
    """The GPUs that a job can use: nvidia-smi's list, else the driver's, else the PCI bus."""
    listed = _from_program(nvidia_smi) if nvidia_smi is not None else ()
    return listed or _from_driver(root) or _from_bus(root)


def _from_program(program: Path) -> tuple[Gpu, ...]:
    ended = run_program([str(program), "-L"], timeout_s=10)
    return tuple(
        Gpu(
            index=int(number),
            oam=f"gpu{number}",
            product=product,
            identity=uuid,
            source=f"{program} -L",
        )
        for number, product, uuid in _LISTED.findall(ended.out)
    )


def _from_driver(root: SystemRoot) -> tuple[Gpu, ...]:
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


def _from_bus(root: SystemRoot) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(index=index, oam=address, source=f"/{pci.DEVICES}")
        for index, address in enumerate(pci.devices_of(root, _VENDOR, _CLASSES))
    )
