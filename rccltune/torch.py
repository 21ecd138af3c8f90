"""Step times of a PyTorch job, and rules for it: ``import rccltune.torch``.

Works without the rest of rccltune, as one file that is copied under another name, say
``rccltune_torch.py``: one named ``torch.py`` would hide torch itself. Needs nothing but torch.

    with rccltune.torch.step():
        loss = train(batch)
    rccltune.torch.loss(loss)        # optional: kept once, so that runs of a job can be compared

or, where there is an optimizer, ``rccltune.torch.watch(optimizer)``: a step then lasts from one
``optimizer.step()`` to the next. At the end of the process one line of JSON says what was seen.

On a GPU a step's time is what CUDA events measure on the current stream, from the mark at its
beginning to the mark at its end; nothing waits for them inside a step. Each process reports its
own.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import math
import os
import platform
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

# What a mark may cost: two events and a few microseconds of Python, at most 1 % of this.
_MARKED_EACH_S = 0.002
# So many times say how often to mark.
_TRIED = 16
# A GPU may wait for a rank that is gone; at the end of the process nothing waits for it longer.
_PATIENCE_S = 10.0
# More times than this are thinned to every second one.
_MOST = 4096
_WAITING = 64
# Where "rccltune job" wants the line: %h is the host, %p the process.
_FILE = "RCCLTUNE_JOB_STEPS"
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
# What rules may need (tests compare it with the catalog of variants): none of them loads code or
# opens a file.
_HARMLESS = frozenset(
    {
        "HIP_FORCE_DEV_KERNARG",
        "HSA_FORCE_FINE_GRAIN_PCIE",
        "MSCCLPP_READ_ALLRED",
        "NCCL_CTA_POLICY",
        "NCCL_CUMEM_ENABLE",
        "NCCL_GIN_MLOPART",
        "NCCL_LOCAL_REGISTER",
        "NCCL_MIN_NCHANNELS",
        "RCCL_CE_ALLREDUCE",
        "RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES",
        "RCCL_DDA_ALL_REDUCE_TREE_MAX_BYTES",
        "RCCL_DDA_ENABLE",
        "RCCL_DDA_NRANKS_RELAX",
        "RCCL_DDA_THRESHOLD",
        "RCCL_DIRECT_ALLGATHER_DISABLE",
        "RCCL_DIRECT_ALLGATHER_THRESHOLD",
        "RCCL_DIRECT_REDUCE_SCATTER_DISABLE",
        "RCCL_ENABLE_DDA_ALL_GATHER",
        "RCCL_ENABLE_DDA_ALL_REDUCE",
        "RCCL_ENABLE_DDA_ALL_TO_ALL",
        "RCCL_ENABLE_DDA_REDUCE_SCATTER",
        "RCCL_FORCE_CE_ALLREDUCE",
        "RCCL_HIERARCHICAL_ALLGATHER",
        "RCCL_LL128_FORCE_ENABLE",
        "RCCL_LOW_PRECISION_ENABLE",
        "RCCL_MSCCLPP_ENABLE",
        "RCCL_MSCCLPP_FORCE_ENABLE",
        "RCCL_MSCCLPP_THRESHOLD",
        "RCCL_MSCCL_ENABLE",
        "RCCL_MSCCL_ENABLE_SINGLE_PROCESS",
        "RCCL_MSCCL_FORCE_ENABLE",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
    }
)


class Steps:
    """Marks the steps of one process; the functions of this module use one of their own.

    A mark is an event on the current stream, or without a GPU a time of the host's clock in ns.
    PyTorch's documentation (``torch.cuda.Event``) has the conditions: an event belongs to the
    device that recorded it first, and ``elapsed_time`` wants both to have completed. An event that
    is recorded or asked for while its thread captures a graph breaks the capture.

    Attributes:
        n_steps: begun and ended so far.
        every: of so many steps one is marked.
    """

    def __init__(self) -> None:
        """No step was seen."""
        self.n_steps = 0
        self.every = 1
        self._is_begun = False
        self._is_tried = False
        self._is_done = False
        self._cuda: Any = None
        self._free: list[Any] = []
        self._rank = (0, 1)
        self._start: Any = None
        self._waiting: deque[tuple[int, Any, Any]] = deque()
        self._times: list[tuple[int, float]] = []
        self._loss: Any = None

    def __enter__(self) -> None:
        """A step begins."""
        if self.n_steps % self.every == 0:
            self._begin()
            self._start = self._mark()

    def __exit__(self, *_: object) -> None:
        """End the step."""
        if self._start is not None:
            end = self._mark()
            # Nothing is asked for while a graph is captured.
            if end is not None:
                self._waiting.append((self.n_steps, self._start, end))
                if len(self._waiting) > _WAITING or not self._is_tried:
                    self._collect()
            self._start = None
        self.n_steps += 1

    def _begin(self) -> None:
        """At the first step: a job without torch has no GPU to time; its group may end before."""
        if self._is_begun:
            return
        self._is_begun = True
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            self._cuda = torch.cuda
        self._rank = _rank()
        atexit.register(self.finish)

    def _mark(self) -> Any:  # noqa: ANN401 - an event or a time
        """What says now; None while a graph is captured, and where the GPU refuses."""
        if self._cuda is None:
            return time.perf_counter_ns()
        try:
            if self._cuda.is_current_stream_capturing():
                return None
            event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
            event.record()
        except RuntimeError:  # a stream of another device; a GPU that failed is the job's to tell
            return None
        return event

    def _ms_between(self, start: Any, end: Any) -> float | None:  # noqa: ANN401 - marks
        """Milliseconds between two marks; None where the GPU has not come there yet."""
        if self._cuda is None:
            return float(end - start) / 1e6
        if not (end.query() and start.query()):
            return None
        taken = float(start.elapsed_time(end))
        self._free += (start, end)
        return taken

    def _collect(self) -> None:
        """Read what is known by now."""
        while self._waiting:
            at, start, end = self._waiting[0]
            try:
                taken = self._ms_between(start, end)
            except RuntimeError:  # two devices; a GPU that failed is the job's to tell
                taken = 0.0
            if taken is None:
                break
            self._waiting.popleft()
            if taken > 0:
                self._times.append((at, taken))
        if not self._is_tried and len(self._times) >= _TRIED:
            self._is_tried = True
            # The shorter ones: the first steps compile and connect.
            usual_s = sorted(taken for _, taken in self._times[:_TRIED])[_TRIED // 4] / 1e3
            self.every = max(1, math.ceil(_MARKED_EACH_S / usual_s))
        if len(self._times) > _MOST:
            self.every *= 2
            self._times = [one for one in self._times if one[0] % self.every == 0]

    def loss(self, value: Any) -> None:  # noqa: ANN401 - a tensor or a number
        """Keep the first one; it is read at the end, so nothing waits for it here."""
        # What is cloned into a graph is made anew by each replay.
        if self._loss is None and not _is_capturing():
            self._loss = value.detach().clone() if hasattr(value, "detach") else value

    def finish(self) -> dict[str, Any] | None:
        """Say what was seen; once, at the end of the process if nobody does so before."""
        if self._is_done or not self._is_begun:
            return None
        self._is_done = True
        until = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(Exception):  # a Python that is half gone; what was read counts
            self._collect()
            while self._waiting and time.monotonic() < until:
                time.sleep(0.001)
                self._collect()
        loss = None
        # Reading it would wait for the same GPU.
        if self._loss is not None and not self._waiting:
            with contextlib.suppress(Exception):  # no number, or a GPU that failed
                loss = float(self._loss)
        said = {
            "rccltune": "steps",
            "format": 1,
            "host": platform.node(),
            "pid": os.getpid(),
            "rank": self._rank[0],
            "ranks": self._rank[1],
            "clock": "host" if self._cuda is None else "cuda",
            "steps": self.n_steps,
            "every": self.every,
            "at": [at for at, _ in self._times],
            "times_ms": [round(taken, 6) for _, taken in self._times],
            "first_loss": loss if loss is not None and math.isfinite(loss) else None,
        }
        _write(json.dumps(said))
        return said


_STEPS = Steps()


def step() -> Steps:
    """Mark one step: ``with rccltune.torch.step(): ...``."""
    return _STEPS


def watch(optimizer: Any) -> None:  # noqa: ANN401 - torch has no types here
    """Take each ``optimizer.step()`` for the end of a step and the beginning of the next.

    Args:
        optimizer: a ``torch.optim.Optimizer`` of PyTorch 2.0 or later.
    """
    begun = False

    def ended(*_: object) -> None:
        nonlocal begun
        if begun:
            _STEPS.__exit__()
        begun = True
        _STEPS.__enter__()

    optimizer.register_step_post_hook(ended)


def loss(value: Any) -> None:  # noqa: ANN401 - a tensor or a number
    """Keep the first step's loss, so that it can be seen whether two runs did the same."""
    _STEPS.loss(value)


def finish() -> dict[str, Any] | None:
    """Write the line now, for processes that end without Python's own end (``os._exit``)."""
    return _STEPS.finish()


def enable(place: str | os.PathLike[str]) -> None:
    """Set the plugin, the rules and what they need, before the first communicator.

    Under ``rccltune job`` nothing is set: there the run decides.

    Args:
        place: a session, a folder that ``rccltune deploy`` made, or a rule file in one of them.

    Raises:
        RuntimeError: it is too late, a process group is there already.
        FileNotFoundError: no rule file there, or no plugin.
        ValueError: several rule files; rules that need a variable that may load code.
    """
    if "RCCLTUNE_JOB_RUN" in os.environ:
        _say(f"enable({os.fspath(place)!r}) sets nothing: rccltune job sets this run's own")
        return
    if _distributed() is not None:
        raise RuntimeError(
            "rccltune.torch.enable comes too late: torch.distributed is initialized, and a "
            "communicator may have read its environment; call it before init_process_group"
        )
    rules = _rule_file(Path(place))
    needs = _needs(rules)
    os.environ["NCCL_TUNER_PLUGIN"] = str(_plugin(rules.parent))
    os.environ["NCCL_TUNER_CONFIG_FILE"] = str(rules)
    os.environ.update(needs)


def _rule_file(place: Path) -> Path:
    if place.is_file():
        return place.resolve()
    found = sorted(place.glob("rccl_tuner*.csv"))
    if len(found) > 1:
        named = ", ".join(path.name for path in found)
        raise ValueError(f"{place} has several rule files, name one of them: {named}")
    if found:
        return found[0].resolve()
    raise FileNotFoundError(f"{place} has no rule file (rccl_tuner*.csv)")


def _plugin(folder: Path) -> Path:
    name = "librccl-tuner-rccltune.so"
    if (folder / name).is_file():
        return folder / name
    with contextlib.suppress(ImportError):
        found: Path = importlib.import_module("rccltune.plugin").library()
        return found
    raise FileNotFoundError(f"{folder} has no {name}: name a folder that rccltune deploy made")


def _needs(rules: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in rules.read_text(encoding="utf-8").splitlines():
        words = line[2:].split() if line.startswith("#@") else []
        for word in words[1:] if words[:1] == ["needs"] else ():
            name, _, value = word.partition("=")
            if name not in _HARMLESS or "/" in value or value.startswith((".", "~")):
                raise ValueError(f"{rules} needs {word}, which may load code: set it yourself")
            found[name] = value
    return found


def _is_capturing() -> bool:
    torch = sys.modules.get("torch")
    # A build for the CPU has no such thing, and raises.
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(torch.cuda.is_current_stream_capturing())


def _distributed() -> Any:  # noqa: ANN401 - torch has no types here
    """``torch.distributed`` where a process group is there, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    return distributed if distributed.is_initialized() else None


def _rank() -> tuple[int, int]:
    """This rank and how many there are."""
    distributed = _distributed()
    if distributed is not None:
        return distributed.get_rank(), distributed.get_world_size()
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    return int(rank), int(os.environ.get("WORLD_SIZE", "1"))


def _write(line: str) -> None:
    """Into the job's file, or on stdout."""
    pattern = os.environ.get(_FILE)
    if pattern:
        with contextlib.suppress(OSError):  # a container without that folder: stdout then
            name = pattern.replace("%h", platform.node()).replace("%p", str(os.getpid()))
            Path(name).write_text(line + "\n", encoding="utf-8")
            return
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"rccltune.torch: {text}\n")
