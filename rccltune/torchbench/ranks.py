"""Who this process is among its ranks, as whatever started it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rccltune.model import MachineError

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
