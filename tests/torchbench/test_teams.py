"""Which functions are called with what, and which device a rank takes; nothing here needs torch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.torchbench import teams
from rccltune.torchbench.ranks import Who


class Written:
    """An object whose methods write down how they were called."""

    def __init__(self, *absent: str) -> None:
        """All but these names are there."""
        self.said: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._absent = absent

    def __getattr__(self, name: str) -> object:
        """Any method, and the operations."""
        if name in self._absent:
            raise AttributeError(name)
        if name == "ReduceOp":
            return SimpleNamespace(SUM="sum", PRODUCT="prod", MAX="max", MIN="min", AVG="avg")
        return lambda *words, **named: self.said.append((name, words, named))


def who(rank: int = 1, n_ranks: int = 4, local: int = 1) -> Who:
    """A rank that torchrun started."""
    return Who(rank=rank, n_ranks=n_ranks, local=local, by="RANK", meets_by_variables=True)


@pytest.mark.parametrize(
    ("absent", "gather", "scatter"),
    [
        ((), "all_gather_single", "reduce_scatter_single"),
        (
            ("all_gather_single", "reduce_scatter_single"),
            "all_gather_into_tensor",
            "reduce_scatter_tensor",
        ),
    ],
)
def test_torchs_own_functions(absent: tuple[str, ...], gather: str, scatter: str) -> None:
    """Their arguments are torch.distributed's documented ones; newer names where there are any."""
    dist = Written(*absent)
    library = teams.TorchLibrary(dist, "group")
    for collective in TUNABLE:
        library.call(collective, "out", "in", "max", 2)
    assert dist.said == [
        ("broadcast", ("out",), {"src": 2, "group": "group"}),
        ("reduce", ("out",), {"dst": 2, "op": "max", "group": "group"}),
        (gather, ("out", "in"), {"group": "group"}),
        (scatter, ("out", "in"), {"op": "max", "group": "group"}),
        ("all_reduce", ("out",), {"op": "max", "group": "group"}),
    ]
    with pytest.raises(ValueError, match="not measured"):
        library.call(Collective.ALLTOALL, "out", "in", "sum", 0)


def test_torchcomms_functions() -> None:
    """As its published interface has them (_comms.pyi); it could not be installed here."""
    comm = Written()
    library = teams.TorchComm(Written(), comm)
    for collective in TUNABLE:
        library.call(collective, "out", "in", "sum", 2)
    library.close()
    now = {"async_op": False}
    assert comm.said == [
        ("broadcast", ("out", 2), now),
        ("reduce", ("out", 2, "sum"), now),
        ("all_gather_single", ("out", "in"), now),
        ("reduce_scatter_single", ("out", "in", "sum"), now),
        ("all_reduce", ("out", "sum"), now),
        ("finalize", (), {}),
    ]
    with pytest.raises(ValueError, match="not measured"):
        library.call(Collective.ALLTOALL, "out", "in", "sum", 0)


def torch_with(n_gpus: int) -> SimpleNamespace:
    """torch on a host with so many GPUs."""
    taken: list[int] = []
    cuda = SimpleNamespace(
        is_available=lambda: n_gpus > 0, device_count=lambda: n_gpus, set_device=taken.append
    )
    return SimpleNamespace(cuda=cuda, device=lambda *words: words, taken=taken, __version__="2.9.1")


@pytest.mark.parametrize(("n_gpus", "index"), [(8, 1), (2, 1), (1, 0)])
def test_a_rank_takes_its_own_device(n_gpus: int, index: int) -> None:
    """By its number on the host; the only one where a wrapper shows each rank one alone."""
    torch = torch_with(n_gpus)
    assert teams._device(torch, who(), "nccl") == ("cuda", index)
    assert torch.taken == [index]


def test_more_ranks_than_devices_is_an_error() -> None:
    """NCCL would say something about duplicates later."""
    with pytest.raises(MachineError, match="number"):
        teams._device(torch_with(2), who(local=3), "nccl")
    with pytest.raises(MachineError, match="sees"):
        teams._device(torch_with(0), who(), "nccl")


def test_addresses_are_written_as_rccl_tests_do() -> None:
    """Where this torch tells them; none is made up."""
    known = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xE5, pci_device_id=0)
    assert teams._bus(known) == "0000:e5:00"
    assert teams._bus(SimpleNamespace(pci_bus_id=5)) == "?"


def test_without_torchcomms_rcclx_is_told_to_be_missing() -> None:
    """Exit code 4, and what to install."""
    with pytest.raises(MachineError, match="torchcomms"):
        teams._torchcomms("device", "store", who())


def test_a_torch_without_nccl_is_told() -> None:
    """A build for the CPU."""
    dist = SimpleNamespace(is_nccl_available=lambda: False)
    with pytest.raises(MachineError, match="backend"):
        teams._own(torch_with(0), dist, "nccl")
