"""The mode that is wished for against the mode that is there."""

from __future__ import annotations

from rccltune.detect.records import System, mode_text
from rccltune.errors import MachineError
from rccltune.model import Mode
from rccltune.showing import lay


def check_mode(wish: Mode | None, system: System) -> None:
    """Stop where a sweep would measure another mode than the one asked for.

    Args:
        wish: None takes the machine as it is.
        system: what was detected.

    Raises:
        MachineError: the modes differ, or the machine's own is not one that is known; the
            message has both, the hint the commands.
    """
    # Where the driver names no mode, the user's word is the only one there is.
    unsaid = system.status == "known" and system.mode is None
    if wish is None or unsaid or fits(wish, system):
        return
    found = system.mode_text if system.status != "unknown" else f"not clear ({system.reason})"
    raise MachineError(
        f"--mode {mode_text(wish)} was asked for, and the mode of this machine is {found}",
        where="/sys/bus/pci/drivers/amdgpu/*/current_{compute,memory}_partition",
        hint=_hint(wish, system),
    )


def fits(wish: Mode, system: System) -> bool:
    """Whether the machine is in a mode; a memory mode that nobody knows or names fits any."""
    mode = system.mode
    if system.status == "unknown" or mode is None:
        return False
    return mode.compute == wish.compute and (
        wish.memory is None or mode.memory is None or mode.memory == wish.memory
    )


def commands(wish: Mode) -> tuple[str, ...]:
    """What an administrator types to get a mode; compute first, as AMD's manual does."""
    said = []
    if wish.compute is not None:
        said.append(f"amd-smi set --gpu all --compute-partition {wish.compute}")
    if wish.memory is not None:
        said.append(f"amd-smi set --gpu all --memory-partition {wish.memory}")
    return tuple(said)


def _hint(wish: Mode, system: System) -> str:
    if system.vendor != "amd":
        return "say --mode none: these GPUs have no partitions."
    if wish.compute is None:
        return "say --mode auto, or the mode that the machine is in."
    return lay(
        [
            "set it (idle GPUs; a memory mode reloads the driver):",
            *(f"        sudo {command}" for command in commands(wish)),
            f"      or let --apply-mode do it and put it back; or say --mode {system.mode_text}.",
        ]
    )
