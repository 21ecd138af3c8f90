"""What a call takes: with the device's own events, or on the CPU with its clock.

Calls through Python take longer to make than a small collective takes to run, so a GPU is held
busy until all calls of a measurement are queued: what is timed is the device, as with a benchmark
in C++. The first call of a measurement is not timed; on the device it lets all ranks begin
together, which a barrier on the hosts does only to within tens of microseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

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
