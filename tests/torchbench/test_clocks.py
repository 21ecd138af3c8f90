"""The order of what a measurement does on a device, with a stand-in that writes it down.

No GPU is here; what a real one made of it, docs/torch.md says.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rccltune.torchbench.teams import CpuClock, GpuClock


class Device:
    """torch.cuda as far as a clock uses it; time passes by 1 ms a spin of 1e6 cycles."""

    def __init__(self, *, spins: bool = True) -> None:
        """Nothing was asked of it yet."""
        self.said: list[str] = []
        self.now_ms = 0.0
        self.captured = 0
        self.cuda = SimpleNamespace(
            Event=self.event, synchronize=lambda: self.said.append("settle"), CUDAGraph=self.graphs
        )
        self.cuda.graph = self.capture
        if spins:
            self.cuda._sleep = self.spin

    def spin(self, cycles: int) -> None:
        """Keep the device busy."""
        self.said.append(f"spin {cycles}")
        self.now_ms += cycles / 1e6

    def call(self) -> None:
        """One collective of 5 µs."""
        self.said.append("call")
        self.now_ms += 0.005

    def event(self, *, enable_timing: bool) -> SimpleNamespace:
        """One that knows when it was recorded."""
        assert enable_timing
        made = SimpleNamespace(at=0.0)

        def record() -> None:
            made.at = self.now_ms
            self.said.append("record")

        made.record = record
        made.synchronize = lambda: self.said.append("wait")
        made.elapsed_time = lambda other: other.at - made.at
        return made

    def capture(self, graph: SimpleNamespace, capture_error_mode: str) -> _Capture:
        """What is called inside is captured."""
        assert graph.replay
        return _Capture(self, capture_error_mode)

    def graphs(self) -> SimpleNamespace:
        """A graph of what was captured."""

        def replay() -> None:
            self.said.append("replay")
            self.now_ms += 0.002 * self.captured

        return SimpleNamespace(replay=replay)


class _Capture:
    def __init__(self, device: Device, mode: str) -> None:
        assert mode == "thread_local"
        self.device = device

    def __enter__(self) -> None:
        self.before = self.device.said.count("call")

    def __exit__(self, *_: object) -> None:
        self.device.captured = self.device.said.count("call") - self.before


def test_a_measurement_times_the_calls_behind_the_first() -> None:
    """Barrier, spin, one call, event, n calls, event: n calls of 5 µs are 5 µs each."""
    device = Device()
    clock = GpuClock(device, lambda: device.said.append("barrier"))
    device.said.clear()
    assert clock.time_us(device.call, 3) == pytest.approx(5.0)
    kinds = [text.split()[0] for text in device.said]
    assert kinds == [
        *("settle", "barrier", "spin", "call", "record", "call", "call", "call", "record", "wait")
    ]


def test_the_device_is_held_at_least_a_millisecond() -> None:
    """1e6 cycles were a millisecond when it was calibrated; longer where queueing took longer."""
    device = Device()
    clock = GpuClock(device, lambda: None)
    device.said.clear()
    clock.time_us(device.call, 1)
    clock.time_us(device.call, 1)
    spins = [int(text.split()[1]) for text in device.said if text.startswith("spin")]
    assert spins[0] == pytest.approx(1e6, rel=0.01)
    assert all(spin >= 0.99e6 for spin in spins)


def test_without_a_spin_it_measures_all_the_same() -> None:
    """torch.cuda._sleep is no promise of torch's."""
    device = Device(spins=False)
    assert GpuClock(device, lambda: None).time_us(device.call, 4) == pytest.approx(5.0)


def test_a_graph_is_captured_once_and_replayed() -> None:
    """A call before it, n captured, one replay to begin together, then those that are timed."""
    device = Device()
    clock = GpuClock(device, lambda: None)
    device.said.clear()
    assert clock.time_graph_us(device.call, 10, 3) == pytest.approx(2.0)
    assert device.said.count("call") == 1 + 10
    assert device.said.count("replay") == 1 + 3


def test_on_the_cpu_all_begin_at_a_barrier() -> None:
    """The first call is not timed there either."""
    said: list[str] = []
    clock = CpuClock(lambda: said.append("barrier"))
    assert clock.time_us(lambda: said.append("call"), 2) > 0
    assert said == ["call", "barrier", "call", "call"]
    clock.settle()
    with pytest.raises(NotImplementedError):
        clock.time_graph_us(lambda: None, 1, 1)
