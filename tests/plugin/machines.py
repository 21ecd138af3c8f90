"""Made-up machines as directory trees, from the descriptions in native_plugin/tests/machines.

The C tests (native_plugin/tests/tree.c) write the same trees from the same files, so the plugin
and the Python detection can be compared on every one of them. A description is lines of words:

    cpus N                      N CPU nodes in KFD's topology
    no-kfd                      no /sys/class/kfd at all
    pci                         /sys/bus/pci/devices exists, without an AMD GPU in it
    gpu at=BDF[,BDF…] KEY=…     the GPUs at these addresses, all alike: device, gfx, xccs, cus,
                                nodes (visible KFD nodes each), hidden (denied KFD nodes each),
                                compute, memory (no such file where absent), location=high
    nvidia at=BDF[,BDF…] model=A_B   GPUs that NVIDIA's driver shows; the model's blanks are underscores,
                                and without one the driver's file names none
    expect [hip=BDF] KEY=…      what the detector says, seen from that GPU
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

DESCRIPTIONS: Final = Path(__file__).resolve().parents[2] / "native_plugin" / "tests" / "machines"

# Reading it is denied to everybody, root included, as KFD's files outside the device cgroup are.
_DENIED: Final = Path("/proc/sys/vm/compact_memory")


@dataclass(frozen=True, slots=True)
class Machine:
    """One description: its name, its lines, and what is expected of a detector."""

    name: str
    lines: tuple[str, ...]

    @property
    def expectations(self) -> tuple[dict[str, str], ...]:
        """The ``expect`` lines as key-value pairs; ``hip`` is the GPU that asks."""
        return tuple(_pairs(line) for line in self.lines if line.startswith("expect "))

    def write(self, root: Path) -> Path:
        """Write the tree below ``root`` and return it."""
        kfd = "no-kfd" not in self.lines
        node = 0
        for line in self.lines:
            word, _, rest = line.partition(" ")
            if word == "cpus" and kfd:
                for _ in range(int(rest)):
                    _put(root, f"{_NODES}/{node}/gpu_id", "0")
                    _put(root, f"{_NODES}/{node}/properties", "cpu_cores_count 96\nsimd_count 0")
                    node += 1
            elif word == "pci":
                _put(root, "sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086")
            elif word == "gpu":
                pairs = _pairs(line)
                for address in pairs["at"].split(","):
                    if kfd:
                        node = _put_nodes(root, node, address, pairs)
                    _put_pci(root, address, pairs)
            elif word == "nvidia":
                pairs = _pairs(line)
                model = pairs.get("model", "").replace("_", " ")
                lines = [*([f"Model: \t\t {model}"] if model else []), "IRQ:   \t\t 16"]
                for address in pairs["at"].split(","):
                    _put(root, f"{_NVIDIA}/{address}.0/information", "\n".join(lines))
        return root


_NVIDIA: Final = "proc/driver/nvidia/gpus"
_NODES: Final = "sys/class/kfd/kfd/topology/nodes"


def all_machines() -> tuple[Machine, ...]:
    """Every described machine, by name."""
    return tuple(load(path) for path in sorted(DESCRIPTIONS.glob("*.machine")))


def load(path: Path) -> Machine:
    """Read one description."""
    return Machine(path.stem, tuple(path.read_text(encoding="ascii").splitlines()))


def _pairs(line: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def _put(root: Path, name: str, content: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content + "\n", encoding="ascii")


def _put_nodes(root: Path, first: int, address: str, gpu: dict[str, str]) -> int:
    domain, bus, device = (int(part, 16) for part in address.split(":"))
    visible, hidden = int(gpu.get("nodes", "0")), int(gpu.get("hidden", "0"))
    for index in range(visible + hidden):
        folder = f"{_NODES}/{first + index}"
        if index >= visible:
            (root / folder).mkdir(parents=True)
            (root / folder / "gpu_id").symlink_to(_DENIED)
            continue
        partition = index << 28 if gpu.get("location") == "high" else index
        properties = {
            "cpu_cores_count": 0,
            "simd_count": int(gpu["cus"]) * 4,
            "simd_per_cu": 4,
            "num_xcc": int(gpu["xccs"]),
            "gfx_target_version": int(gpu["gfx"]),
            "vendor_id": 0x1002,
            "device_id": int(gpu["device"], 16),
            "location_id": bus << 8 | device << 3 | partition,
            "domain": domain,
            "unique_id": bus + 1,
        }
        _put(root, f"{folder}/gpu_id", str(1000 + first + index))
        _put(root, f"{folder}/properties", "\n".join(f"{k} {v}" for k, v in properties.items()))
    return first + visible + hidden


def _put_pci(root: Path, address: str, gpu: dict[str, str]) -> None:
    folder = f"sys/bus/pci/devices/{address}.0"
    _put(root, f"{folder}/vendor", "0x1002")
    _put(root, f"{folder}/device", gpu["device"])
    for key in ("compute", "memory"):
        if key in gpu:
            _put(root, f"{folder}/current_{key}_partition", gpu[key])
    link = root / "sys/bus/pci/drivers/amdgpu" / f"{address}.0"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../../devices/{address}.0")
