"""Who a process is: by torchrun, by each MPI, by Slurm, or nobody."""

from __future__ import annotations

import pytest

from rccltune.model.errors import MachineError
from rccltune.torchbench.ranks import who

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "16",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
}
HYDRA = {"PMI_RANK": "5", "PMI_SIZE": "16", "MPI_LOCALRANKID": "2"}
SRUN = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "2"}


def test_torchrun() -> None:
    """Its ranks meet where it says."""
    me = who(TORCHRUN)
    assert (me.rank, me.n_ranks, me.local, me.by) == (3, 8, 1, "RANK")
    assert me.meets_by_variables


@pytest.mark.parametrize("variables", [OPEN_MPI, HYDRA, SRUN])
def test_each_mpi(variables: dict[str, str]) -> None:
    """Their own names; they meet elsewhere."""
    me = who(variables)
    assert (me.rank, me.n_ranks, me.local) == (5, 16, 2)
    assert not me.meets_by_variables


@pytest.mark.parametrize("variables", [OPEN_MPI, HYDRA, SRUN])
def test_a_rank_left_in_the_jobs_environment_does_not_win(variables: dict[str, str]) -> None:
    """Every rank of MPI would take itself for the same one."""
    left = {name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    assert who({**left, **variables}).rank == 5
    # And torchrun inside an MPI's or Slurm's job is torchrun.
    assert who({**variables, **TORCHRUN}).rank == 3


def test_bare_variables_count_where_nobody_else_started_it() -> None:
    """As frameworks' own launchers set them."""
    me = who({"RANK": "1", "WORLD_SIZE": "2"})
    assert (me.rank, me.n_ranks, me.local) == (1, 2, 1)


def test_a_batch_script_is_no_rank() -> None:
    """Slurm's own variables of a whole job are there without srun."""
    me = who({"SLURM_PROCID": "0", "SLURM_NTASKS": "64", "SLURM_LOCALID": "0"})
    assert (me.rank, me.n_ranks, me.by) == (0, 1, None)


@pytest.mark.parametrize(
    "variables", [{"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "first", "WORLD_SIZE": "2"}]
)
def test_nonsense_is_refused(variables: dict[str, str]) -> None:
    """Before the ranks wait for each other."""
    with pytest.raises(MachineError, match="RANK"):
        who(variables)
