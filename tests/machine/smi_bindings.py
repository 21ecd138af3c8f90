"""Made-up amdsmi bindings of ROCm 6, 7 and 10: a node's mode in a file, by each release's names.

What each has and does is amdsmi's CHANGELOG.md's: ROCm 6.0 to 6.2 have one name for each function,
and setting the memory mode reloads the driver; 7.0.0: setting it "no longer" does; 10.0.0: reloading
by amdsmi is gone, old names are deprecated and call the new ones.
"""

from __future__ import annotations

from pathlib import Path

from trees import put

VERSIONS = {6: "24.6.2", 7: "26.0.0", 10: "27.0.0"}
_COMMON = """
import enum
from pathlib import Path

HERE = Path(__file__).parent.parent
STATE, WAITING = HERE / "state", HERE / "waiting"
BUSES = ("05", "15", "65", "75", "85", "95", "e5", "f5")
PARTS = {"SPX": 1, "DPX": 2, "QPX": 4, "CPX": 8}
MEMORIES = {"SPX": ["NPS1"], "DPX": ["NPS1", "NPS2"], "QPX": ["NPS1"], "CPX": ["NPS1", "NPS2"]}


class AmdSmiLibraryException(Exception):
    def __init__(self, code):
        self.err_code = code


class AmdSmiMemoryPartitionType(enum.IntEnum):
    NPS1, NPS2, NPS4, NPS8 = 1, 2, 4, 8


def amdsmi_init():
    pass


def amdsmi_shut_down():
    pass


def _now():
    return STATE.read_text().split()


def amdsmi_get_processor_handles():
    return [(bus, part) for bus in BUSES for part in range(PARTS[_now()[0]])]


def amdsmi_get_gpu_device_bdf(handle):
    return f"0000:{handle[0]}:00.{handle[1]}"


def amdsmi_get_gpu_asic_info(handle):
    return {
        "market_name": "AMD Instinct MI355X",
        "device_id": "0x75a3",
        "target_graphics_version": "gfx950",
    }


def _set(compute=None, memory=None):
    now = _now()
    STATE.write_text(f"{compute or now[0]} {memory or now[1]}")
"""
_OLD = """

class AmdSmiComputePartitionType(enum.IntEnum):
    SPX, DPX, TPX, QPX, CPX = 1, 2, 3, 4, 5


def amdsmi_get_gpu_compute_partition(handle):
    return _now()[0]


def amdsmi_get_gpu_memory_partition(handle):
    return _now()[1]


def amdsmi_set_gpu_compute_partition(handle, partition):
    _set(compute=partition.name)


def amdsmi_set_gpu_memory_partition(handle, partition):
    _set(memory=partition.name)
"""
_NEW = """

TYPES = ("SPX", "DPX", "QPX", "CPX")


def amdsmi_get_gpu_accelerator_partition_profile(handle):
    return {"partition_id": [handle[1]], "partition_profile": {"profile_type": _now()[0]}}


def amdsmi_get_gpu_accelerator_partition_profile_config(handle):
    return {
        "profiles": [
            {"profile_type": name, "profile_index": n, "memory_caps": MEMORIES[name]}
            for n, name in enumerate(TYPES)
        ]
    }


def amdsmi_set_gpu_accelerator_partition_profile(handle, index):
    if _now()[1] not in MEMORIES[TYPES[index]]:
        raise AmdSmiLibraryException(55)
    _set(compute=TYPES[index])


def amdsmi_get_gpu_memory_partition_config(handle):
    return {"partition_caps": ["NPS1", "NPS2"], "mp_mode": _now()[1]}


def amdsmi_set_gpu_memory_partition_mode(handle, partition):
    if partition.name not in ("NPS1", "NPS2"):
        raise AmdSmiLibraryException(2)
    WAITING.write_text(partition.name)
"""
_DEPRECATED = """

def _deprecated(*arguments):
    (HERE / "deprecated").write_text("called")
    raise AmdSmiLibraryException(2)


amdsmi_get_gpu_compute_partition = amdsmi_get_gpu_memory_partition = _deprecated
amdsmi_set_gpu_compute_partition = amdsmi_set_gpu_memory_partition = _deprecated
"""


def write_bindings(folder: Path, release: int) -> Path:
    """Write the bindings of a ROCm over a node in SPX/NPS1; gives the file with its mode."""
    parts = {6: (_OLD,), 7: (_OLD, _NEW), 10: (_OLD, _NEW, _DEPRECATED)}[release]
    text = "".join((f"__version__ = '{VERSIONS[release]}'\n", _COMMON, *parts))
    put(folder, "amdsmi/__init__.py", text)
    return put(folder, "state", "SPX NPS1")


def reload_driver(folder: Path) -> None:
    """Take over the memory mode that waits, as a reload does, and the compute mode of the start."""
    waiting = folder / "waiting"
    memory = waiting.read_text(encoding="ascii")
    waiting.unlink()
    compute = {"NPS1": "SPX", "NPS2": "DPX"}[memory]
    put(folder, "state", f"{compute} {memory}")
