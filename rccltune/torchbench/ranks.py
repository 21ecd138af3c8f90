"""A rank: who it is, which library it talks to, which step of the plugin's schedule is in force."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.errors import MachineError

# (rank, ranks, rank on this host). MPI's first: a job's own RANK may stand in every process of it.
# srun says a step's tasks only inside a step; a batch script has the whole job's SLURM_NTASKS.
_TORCHRUN: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_OTHERS: Final = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
)
_ELASTIC: Final = "TORCHELASTIC_RUN_ID"
_MASTER: Final = ("MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """One rank.

    Attributes:
        local: its number among those of this host.
        by: the variable that told the rank, None for a process that nobody started as one.
        meets_by_variables: MASTER_ADDR and MASTER_PORT say where the ranks meet.
    """

    rank: int
    n_ranks: int
    local: int
    by: str | None
    meets_by_variables: bool


def who(variables: Mapping[str, str]) -> Who:
    """This process.

    Raises:
        MachineError: the variables contradict each other.
    """
    kinds = (_TORCHRUN, *_OTHERS) if _ELASTIC in variables else (*_OTHERS, _TORCHRUN)
    found = next((kind for kind in kinds if {kind[0], kind[1]} <= variables.keys()), None)
    has_place = set(_MASTER) <= variables.keys()
    if found is None:
        return Who(rank=0, n_ranks=1, local=0, by=None, meets_by_variables=False)
    rank, n_ranks = (_number(variables, name) for name in found[:2])
    if not rank < n_ranks:
        raise MachineError(f"{found[0]}={rank} is no rank of {found[1]}={n_ranks}")
    # Without it ranks are taken to be on one host.
    local = _number(variables, found[2]) if found[2] in variables else rank
    return Who(rank=rank, n_ranks=n_ranks, local=local, by=found[0], meets_by_variables=has_place)


def _number(variables: Mapping[str, str], name: str) -> int:
    text = variables[name]
    if not text.isdigit():
        raise MachineError(f"{name}='{text}' is no number")
    return int(text)


_LIBRARY: Final = re.compile(r"(/\S*/lib([rn])ccl(?:x)?\.so[.\d]*)$")
# Where the library is linked into torch's own.
_HOLDER: Final = re.compile(r"(/\S*/libtorch_(?:cuda|hip)\.so)$")


def mapped() -> Path | None:
    """The file with the library in it, None where this process has none."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    for pattern in (_LIBRARY, _HOLDER):
        found = [match for match in map(pattern.search, lines) if match is not None]
        if found:
            return Path(found[0][1])
    return None


def said(path: Path) -> list[str]:
    """Lines that name it, for the benchmark's head."""
    kind = "NCCL" if "nccl" in path.name or "cuda" in path.name else "RCCL"
    version = _version(path)
    lines = [f"Library: {path} sha256={_sha256(path)}"]
    # As rccl-tests with a new RCCL say it.
    return lines if version is None else [f"{kind} version : {version}", *lines]


def _version(path: Path) -> str | None:
    """As the loaded library says it itself."""
    try:
        ask = ctypes.CDLL(str(path)).ncclGetVersion
    except (OSError, AttributeError):
        return None
    number = ctypes.c_int()
    if ask(ctypes.byref(number)) != 0:
        return None
    # Five digits since 2.9 (NCCL 2.30.7 src/nccl.h.in, NCCL_VERSION).
    return f"{number.value // 10_000}.{number.value % 10_000 // 100}.{number.value % 100}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


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
