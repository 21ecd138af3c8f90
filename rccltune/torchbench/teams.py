"""The ranks together: a group to meet and count with, and what a call takes.

Calls through Python take longer to make than a small collective takes to run, so a GPU is held
busy until all calls of a measurement are queued: what is timed is the device, as with a benchmark
in C++. The first call of a measurement is not timed; on the device it lets all ranks begin
together, which a barrier on the hosts does only to within tens of microseconds.

What is measured never carries anything else: barriers, times and counts of wrong elements go
through gloo between the hosts, so that the library's communicator sees the measured calls alone,
and a schedule's questions can be counted exactly.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias

from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import Collective
from rccltune.torchbench.options import Average
from rccltune.torchbench.ranks import Who
from rccltune.torchbench.table import Seat

# torch has no types here: it is imported when the benchmark runs, from whatever Python has it.
Torch: TypeAlias = Any
Call: TypeAlias = Callable[[], object]
# The first measurement knows nothing of how long calls take to queue; afterwards twice what it
# was the last time.
_FIRST_HOLD_US: Final = 1000.0
_HOLD_MARGIN: Final = 2.0
_LONGEST_HOLD_US: Final = 100_000.0
_CALIBRATION_CYCLES: Final = 200_000


class Clock(Protocol):
    """Times calls and waits for them."""

    def time_us(self, call: Call, n: int) -> float:
        """Microseconds of one of n calls, after one more that is not timed."""

    def time_graph_us(self, call: Call, n: int, replays: int) -> float:
        """The same for a replayed graph of n calls, which are made once, when they are captured."""

    def settle(self) -> None:
        """Wait until nothing is under way."""


class CpuClock:
    """Calls that return when they are done."""

    def __init__(self, barrier: Call) -> None:
        """The barrier lets all ranks begin together."""
        self._barrier = barrier

    def time_us(self, call: Call, n: int) -> float:
        """Microseconds of one of n calls, by the CPU's clock."""
        call()
        self._barrier()
        start = time.perf_counter()
        for _ in range(n):
            call()
        return (time.perf_counter() - start) * 1e6 / n

    def time_graph_us(self, call: Call, n: int, replays: int) -> float:
        """There are no graphs on the CPU."""
        raise NotImplementedError(f"{n} calls of {call} cannot be replayed {replays} times")

    def settle(self) -> None:
        """Nothing is under way."""


class GpuClock:
    """Events on the current stream of the current device."""

    def __init__(self, torch: Torch, barrier: Call) -> None:
        """Find out how long a spin of the device takes, where torch can have it spin."""
        self._torch = torch
        self._barrier = barrier
        self._hold_us = _FIRST_HOLD_US
        self._spin = getattr(torch.cuda, "_sleep", None)
        self._cycles_per_us = 0.0
        if self._spin is not None:
            self._spin(_CALIBRATION_CYCLES)
            start, end = self._events()
            start.record()
            self._spin(_CALIBRATION_CYCLES)
            end.record()
            end.synchronize()
            self._cycles_per_us = _CALIBRATION_CYCLES / max(1.0, start.elapsed_time(end) * 1e3)

    def time_us(self, call: Call, n: int) -> float:
        """Microseconds of one of n calls, by the device's clock."""

        def calls() -> None:
            for _ in range(n):
                call()

        return self._time_us(call, calls) / n

    def time_graph_us(self, call: Call, n: int, replays: int) -> float:
        """Microseconds of one of n calls of a replayed graph."""
        graph = self._torch.cuda.CUDAGraph()
        call()
        self.settle()
        # What torch's own watchdog asks from its thread meanwhile must not end the capture.
        with self._torch.cuda.graph(graph, capture_error_mode="thread_local"):
            for _ in range(n):
                call()

        def all_replays() -> None:
            for _ in range(replays):
                graph.replay()

        taken = self._time_us(graph.replay, all_replays) / (n * replays)
        self.settle()
        return taken

    def settle(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize()

    def _time_us(self, first: Call, calls: Call) -> float:
        start, end = self._events()
        self.settle()
        self._barrier()
        began = time.perf_counter()
        self._hold()
        first()
        start.record()
        calls()
        end.record()
        queued_us = (time.perf_counter() - began) * 1e6
        end.synchronize()
        self._hold_us = min(_LONGEST_HOLD_US, max(_FIRST_HOLD_US, _HOLD_MARGIN * queued_us))
        return float(start.elapsed_time(end)) * 1e3

    def _hold(self) -> None:
        if self._spin is not None:
            self._spin(int(self._hold_us * self._cycles_per_us))

    def _events(self) -> tuple[Torch, Torch]:
        event = self._torch.cuda.Event
        return event(enable_timing=True), event(enable_timing=True)


Tensor: TypeAlias = Any
_GLOO_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
_REDOPS: Final = {"sum": "SUM", "prod": "PRODUCT", "max": "MAX", "min": "MIN", "avg": "AVG"}
_SEAT_NBYTES: Final = 1024
CPU_PRODUCT: Final = "CPU (gloo, for tests)"


class Library(Protocol):
    """What does the collectives."""

    def call(
        self, collective: Collective, receive: Tensor, send: Tensor, redop: str, root: int
    ) -> object:
        """Make one call; where there is one buffer both are the same."""

    def close(self) -> None:
        """End its communicator, so that a tuner's trace is whole."""


class TorchLibrary:
    """torch.distributed's own: RCCL or NCCL behind ``nccl``, or gloo."""

    def __init__(self, dist: Torch, group: Torch) -> None:
        """A group of all ranks."""
        self._dist = dist
        self._group = group
        # The later names of all_gather_into_tensor and reduce_scatter_tensor (PyTorch 2.13).
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    def call(
        self, collective: Collective, receive: Tensor, send: Tensor, redop: str, root: int
    ) -> object:
        """What users call, with its own checks and its own cost."""
        dist, group = self._dist, self._group
        op = getattr(dist.ReduceOp, _REDOPS[redop])
        match collective:
            case Collective.ALL_REDUCE:
                return dist.all_reduce(receive, op=op, group=group)
            case Collective.ALL_GATHER:
                return self._gather(receive, send, group=group)
            case Collective.REDUCE_SCATTER:
                return self._scatter(receive, send, op=op, group=group)
            case Collective.BROADCAST:
                return dist.broadcast(receive, src=root, group=group)
            case Collective.REDUCE:
                return dist.reduce(receive, dst=root, op=op, group=group)
            case _:
                raise ValueError(f"{collective.value} is not measured through torch")

    def close(self) -> None:
        """The group and its communicator."""
        self._dist.destroy_process_group(self._group)


class TorchComm:
    """A backend of torchcomms, by its published interface (meta-pytorch/torchcomms, _comms.pyi)."""

    def __init__(self, torchcomms: Torch, comm: Torch) -> None:
        """A communicator of all ranks."""
        self._ops = torchcomms.ReduceOp
        self._comm = comm

    def call(
        self, collective: Collective, receive: Tensor, send: Tensor, redop: str, root: int
    ) -> object:
        """The same five; async_op=False puts them on the current stream."""
        comm, op = self._comm, getattr(self._ops, _REDOPS[redop])
        match collective:
            case Collective.ALL_REDUCE:
                return comm.all_reduce(receive, op, async_op=False)
            case Collective.ALL_GATHER:
                return comm.all_gather_single(receive, send, async_op=False)
            case Collective.REDUCE_SCATTER:
                return comm.reduce_scatter_single(receive, send, op, async_op=False)
            case Collective.BROADCAST:
                return comm.broadcast(receive, root, async_op=False)
            case Collective.REDUCE:
                return comm.reduce(receive, root, op, async_op=False)
            case _:
                raise ValueError(f"{collective.value} is not measured through torchcomms")

    def close(self) -> None:
        """The communicator."""
        self._comm.finalize()


class Team:
    """This rank among the others."""

    def __init__(self, torch: Torch, who: Who, backend: str, store: str | None) -> None:
        """Meet the others, and take a device.

        Args:
            torch: the module.
            who: this rank.
            backend: as the command line has it.
            store: file at which the ranks meet where variables name no place.

        Raises:
            MachineError: there is no such device or backend, or the ranks cannot meet.
        """
        self.torch = torch
        self.rank, self.n_ranks = who.rank, who.n_ranks
        self._dist = importlib.import_module("torch.distributed")
        self.device = _device(torch, who, backend)
        _use_loopback(who)
        place = _place(self._dist, who, store)
        self._dist.init_process_group("gloo", store=place, rank=who.rank, world_size=who.n_ranks)
        self.library: Library = (
            _torchcomms(self.device, place, who)
            if backend == "rcclx"
            else _own(torch, self._dist, backend)
        )
        self.clock: Clock = (
            CpuClock(self._dist.barrier)
            if backend == "gloo"
            else GpuClock(torch, self._dist.barrier)
        )

    def seats(self) -> list[Seat]:
        """Where all ranks run."""
        # Without torch's own way for objects, which needs numpy in that Python.
        text = json.dumps(self._seat()).encode()[:_SEAT_NBYTES].ljust(_SEAT_NBYTES)
        mine = self.torch.tensor(list(text), dtype=self.torch.uint8)
        each = [self.torch.zeros_like(mine) for _ in range(self.n_ranks)]
        self._dist.all_gather(each, mine)
        return [Seat(**json.loads(bytes(one.tolist()))) for one in each]

    def mean(self, value: float, how: Average) -> float:
        """One number of all ranks'."""
        each = self._all(value)
        match how:
            case Average.RANK_0:
                return each[0]
            case Average.MEAN:
                return sum(each) / len(each)
            case Average.MIN:
                return min(each)
            case Average.MAX:
                return max(each)

    def total(self, value: int) -> int:
        """The sum over all ranks."""
        return int(sum(self._all(float(value))))

    def close(self) -> None:
        """End communicators, the measured one first."""
        self.clock.settle()
        self._dist.barrier()
        self.library.close()
        with suppress(Exception):  # the measurement is over; some releases end this one twice
            self._dist.destroy_process_group()

    def _all(self, value: float) -> list[float]:
        mine = self.torch.tensor([value], dtype=self.torch.float64)
        each = [self.torch.zeros_like(mine) for _ in range(self.n_ranks)]
        self._dist.all_gather(each, mine)
        return [float(one.item()) for one in each]

    def _seat(self) -> dict[str, Any]:
        host = socket.gethostname().split(".")[0]
        seat = {"rank": self.rank, "pid": os.getpid(), "host": host}
        if self.device.type == "cpu":
            return {**seat, "device": 0, "bus": "cpu", "product": CPU_PRODUCT}
        known = self.torch.cuda.get_device_properties(self.device)
        return {**seat, "device": self.device.index, "bus": _bus(known), "product": known.name}


def _bus(known: Torch) -> str:
    """PCI address, as far as this torch tells it."""
    parts = [getattr(known, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if None in parts:
        return "?"
    domain, bus, device = (int(part) for part in parts if part is not None)
    return f"{domain:04x}:{bus:02x}:{device:02x}"


def _device(torch: Torch, who: Who, backend: str) -> Torch:
    if backend == "gloo":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise MachineError(
            f"this PyTorch ({torch.__version__}) sees no GPU",
            hint="it may be a build for the CPU or for other GPUs; --backend gloo measures the "
            "CPU, for tests.",
        )
    n = torch.cuda.device_count()
    # A wrapper that shows each rank its own device alone has them all as device 0.
    index = 0 if n == 1 else who.local
    if index >= n:
        raise MachineError(
            f"rank {who.rank} is number {who.local} of its host, which shows {n} GPUs"
        )
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def _use_loopback(who: Who) -> None:
    """Ranks of one host meet over loopback: the host's name may lead nowhere in a container."""
    variables: Mapping[str, str] = os.environ
    n_local = next(
        (variables[name] for name in _LOCAL_SIZES if variables.get(name, "").isdigit()), None
    )
    if n_local is not None and int(n_local) == who.n_ranks and _GLOO_INTERFACE not in variables:
        os.environ[_GLOO_INTERFACE] = "lo"


_LOCAL_SIZES: Final = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")


def _place(dist: Torch, who: Who, store: str | None) -> Torch:
    """Where the ranks meet."""
    if who.n_ranks == 1 and not who.meets_by_variables:
        return dist.HashStore()
    if who.meets_by_variables:
        rendezvous = importlib.import_module("torch.distributed.rendezvous")
        os.environ.update(RANK=str(who.rank), WORLD_SIZE=str(who.n_ranks))
        place, _, _ = next(iter(rendezvous.rendezvous("env://", who.rank, who.n_ranks)))
        return place
    if store is None:
        raise MachineError(
            "where the ranks meet is not said",
            hint="start them with torchrun, set MASTER_ADDR and MASTER_PORT, or name a file that "
            "all of them see with --store.",
        )
    return dist.FileStore(store, who.n_ranks)


def _own(torch: Torch, dist: Torch, backend: str) -> Library:
    if backend == "nccl" and not dist.is_nccl_available():
        raise MachineError(f"this PyTorch ({torch.__version__}) has no nccl backend")
    return TorchLibrary(dist, dist.new_group(backend=backend))


def _torchcomms(device: Torch, place: Torch, who: Who) -> Library:
    try:
        torchcomms = importlib.import_module("torchcomms")
    except ImportError as error:
        raise MachineError(
            f"torchcomms is not installed in this Python: {error}",
            hint="install it with its RCCLX backend, or leave out --backend rcclx.",
        ) from error
    os.environ.update(RANK=str(who.rank), WORLD_SIZE=str(who.n_ranks))
    try:
        comm = torchcomms.new_comm("rcclx", device, name="rccltune", store=place)
    except (RuntimeError, ValueError) as error:
        raise MachineError(f"torchcomms gives no rcclx communicator: {error}") from error
    return TorchComm(torchcomms, comm)


def names_of(dtypes: Sequence[str], torch: Torch) -> dict[str, Torch]:
    """Types of torch by the names that rccl-tests print."""
    own = {"half": "float16", "float": "float32", "double": "float64"}
    return {name: getattr(torch, own.get(name, name)) for name in dtypes}
