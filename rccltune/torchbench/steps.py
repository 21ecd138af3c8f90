"""Telling the plugin which step of its schedule is in force; docs/schedule.md, "Told steps"."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rccltune.model import MachineError, grammar

# The warm-up of all sizes is the schedule's first step.
LEADING: Final = 1
_TOLD: Final = "advance=told"
_SYMBOL: Final = "rccltune_schedule_step_v1"
_MEANING: Final = {
    0: "no communicator follows the schedule: the library has not loaded the plugin, or its "
    "communicator has another number of ranks",
    -1: "the plugin is at a later step already",
    -2: "the schedule has fewer steps",
}


class Steps:
    """The steps of one process; does nothing where there is no schedule to tell."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """Find the function in the plugin's file, which the library has loaded or will load.

        Raises:
            MachineError: there is a schedule to tell, and no plugin that can be told.
        """
        self._tell = None
        schedule = variables.get("RCCLTUNE_SCHEDULE")
        if schedule is None or not _is_told(Path(schedule)):
            return
        plugin = variables.get("NCCL_TUNER_PLUGIN", "")
        try:
            library = ctypes.CDLL(plugin, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            tell = getattr(library, _SYMBOL)
        except (OSError, AttributeError) as error:
            raise MachineError(
                f"the plugin of the schedule cannot be told its steps: {error}",
                where=plugin or "NCCL_TUNER_PLUGIN is not set",
                hint="use the plugin of this rccltune: rccltune plugin --path.",
            ) from error
        tell.argtypes = (ctypes.c_uint32,)
        tell.restype = ctypes.c_int
        self._tell = tell

    def begin(self, cycle: int) -> None:
        """A pass over the sizes begins; the number of passes itself ends the last one.

        Raises:
            MachineError: nobody goes by the schedule, or not so far.
        """
        if self._tell is None:
            return
        n_moved = self._tell(LEADING + cycle)
        if n_moved < 1:
            raise MachineError(
                f"step {LEADING + cycle} of the schedule cannot begin: {_MEANING[n_moved]}",
                hint="NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=INIT,TUNING says why.",
            )


def _is_told(schedule: Path) -> bool:
    try:
        lines = grammar.lines(grammar.read_text(schedule))
    except OSError:
        return False  # the plugin complains of it, with the reason
    return any(_TOLD in grammar.instruction(line) for line in lines)
