"""Marks by events of a GPU, on a stand-in for torch.cuda that keeps to PyTorch's documentation.

``torch.cuda.Event``: only streams of the device that recorded an event first may record it again;
``elapsed_time`` raises RuntimeError unless both events have completed. Recording and asking while
the thread captures a graph break the capture. Real events were tried at de9b49c0 by ``rccltune job``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from copied import Run, written

# A GPU whose work is done when `gpu.done` says so: a step is 3 ms of its own clock.
GPU = """
import sys, types
import rccltune_torch as mark

class Gpu:
    clock, done, device, capturing, stuck = 0.0, True, 0, False, False
    broken, n_events = False, 0

gpu = Gpu()

class Event:
    def __init__(self, enable_timing=False):
        assert enable_timing
        gpu.n_events += 1
        self.device = None
    def record(self):
        assert not gpu.capturing, "recorded into a graph"
        if self.device not in (None, gpu.device):
            raise RuntimeError("Event device does not match recording stream's device")
        self.device, self.at, self.stuck = gpu.device, gpu.clock, gpu.stuck
    def query(self):
        assert not gpu.capturing, "asked for in a capture"
        if gpu.broken:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return gpu.done and not self.stuck
    def elapsed_time(self, end):
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        if self.device != end.device:
            raise RuntimeError("invalid resource handle")
        return end.at - self.at

def synchronize():
    raise AssertionError("a whole device was waited for")

torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(
    Event=Event, synchronize=synchronize, is_available=lambda: True,
    is_current_stream_capturing=lambda: gpu.capturing, is_initialized=lambda: True,
)
sys.modules["torch"] = torch

def step(ms=3.0):
    with mark.step():
        gpu.clock += ms
"""


def test_steps_are_what_events_measure(run: Run, tmp_path: Path) -> None:
    """Hundred steps of 3 ms of the GPU's clock, by events that are used again."""
    done = run(GPU + "for _ in range(100): step()\nprint('events', gpu.n_events)")
    said = written(tmp_path)
    assert said["clock"] == "cuda"
    assert said["times_ms"] == pytest.approx([3.0] * 100)
    assert "events 130" in done.stdout


def test_a_gpu_that_never_comes_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    """A rank is gone and the others' kernels wait for ever: the process ends all the same."""
    done = run(
        GPU + "mark._PATIENCE_S = 0.2\n"
        "for _ in range(5): step()\n"
        "gpu.stuck = True\n"
        "for _ in range(5): step()\n"
        "sys.exit('rank 1 is gone')"
    )
    assert done.returncode == 1
    said = written(tmp_path)
    assert (said["steps"], said["times_ms"]) == (10, [3.0] * 5)
    assert done.stderr.strip() == "rank 1 is gone"


def test_a_capture_is_left_alone(run: Run, tmp_path: Path) -> None:
    """A graph that is captured inside a step is no part of its marks; nor is one begun in a step."""
    done = run(
        GPU + "gpu.done = False\nfor _ in range(80): step()\ngpu.done = True\n"
        "gpu.capturing = True\nstep()\ngpu.capturing = False\n"
        "with mark.step():\n    gpu.capturing = True\n"
        "gpu.capturing = False\n"
        "step()"
    )
    assert done.returncode == 0, done.stderr
    said = written(tmp_path)
    assert said["steps"] == 83
    assert len(said["times_ms"]) == 81
