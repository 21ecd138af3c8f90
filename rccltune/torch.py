"""Step times of a PyTorch job, and rules for it: ``import rccltune.torch``.

Works without the rest of rccltune, as one file that is copied under another name, say
``rccltune_torch.py``: one named ``torch.py`` would hide torch itself. Needs nothing but torch.

    with rccltune.torch.step():
        loss = train(batch)

or, where there is an optimizer, ``rccltune.torch.watch(optimizer)``: a step then lasts from one
``optimizer.step()`` to the next. Under ``rccltune job`` each process writes its times at its end.

On a GPU a step's time is what CUDA events measure on the current stream, from the mark at its
beginning to the mark at its end; nothing waits for them inside a step.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import platform
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

# A GPU may wait for a rank that is gone; at the end of the process nothing waits for it longer.
_PATIENCE_S = 10.0
# More times than this are thinned to every second one.
_MOST = 4096
# So many marks may wait for the GPU before it is asked.
_WAITING = 64
# Where "rccltune job" wants the times: %h is the host, %p the process.
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
        self._is_done = False
        self._cuda: Any = None
        self._free: list[Any] = []
        self._rank = (0, 1)
        self._start: Any = None
        self._waiting: deque[tuple[int, Any, Any]] = deque()
        self._times: list[tuple[int, float]] = []

    def __enter__(self) -> None:
        """A step begins."""
        if not self._is_begun:
            self._begin()
        if self.n_steps % self.every == 0:
            self._start = self._mark()

    def __exit__(self, *_: object) -> None:
        """End the step."""
        end = None if self._start is None else self._mark()
        # Nothing is asked for while a graph is captured.
        if end is not None:
            self._waiting.append((self.n_steps, self._start, end))
            if len(self._waiting) > _WAITING:
                self._collect()
        self._start = None
        self.n_steps += 1

    def _begin(self) -> None:
        """At the first step: a job without torch has no GPU to time; its group may end before."""
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
        ms = float(start.elapsed_time(end))
        self._free += (start, end)
        return ms

    def _collect(self) -> None:
        """Read what is known by now."""
        while self._waiting:
            at, start, end = self._waiting[0]
            try:
                ms = self._ms_between(start, end)
            except RuntimeError:  # two devices; a GPU that failed is the job's to tell
                ms = 0.0
            if ms is None:
                break
            self._waiting.popleft()
            if ms > 0:
                self._times.append((at, ms))
        if len(self._times) > _MOST:
            self.every *= 2
            self._times = [one for one in self._times if one[0] % self.every == 0]

    def finish(self) -> dict[str, Any] | None:
        """Write what was seen; once, at the end of the process if nobody does so before."""
        if self._is_done or not self._is_begun:
            return None
        self._is_done = True
        until = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(Exception):  # a Python that is half gone; what was read counts
            self._collect()
            while self._waiting and time.monotonic() < until:
                time.sleep(0.001)
                self._collect()
        plain = {
            "rank": self._rank[0],
            "ranks": self._rank[1],
            "clock": "host" if self._cuda is None else "cuda",
            "steps": self.n_steps,
            "every": self.every,
            "times_ms": [round(taken, 6) for _, taken in self._times],
        }
        _write(plain)
        return plain


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


def finish() -> dict[str, Any] | None:
    """Write the times now, for processes that end without Python's own end (``os._exit``).

    Returns:
        What is written, with or without ``rccltune job``; None where no step was marked.
    """
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
    files = sorted(place.glob("rccl_tuner*.csv"))
    if len(files) > 1:
        names = ", ".join(path.name for path in files)
        raise ValueError(f"{place} has several rule files, name one of them: {names}")
    if files:
        return files[0].resolve()
    raise FileNotFoundError(f"{place} has no rule file (rccl_tuner*.csv)")


def _plugin(folder: Path) -> Path:
    name = "librccl-tuner-rccltune.so"
    if (folder / name).is_file():
        return folder / name
    with contextlib.suppress(ImportError):
        path: Path = importlib.import_module("rccltune.plugin").library()
        return path
    raise FileNotFoundError(f"{folder} has no {name}: name a folder that rccltune deploy made")


def _needs(rules: Path) -> dict[str, str]:
    needs: dict[str, str] = {}
    for line in rules.read_text(encoding="utf-8").splitlines():
        words = line[2:].split() if line.startswith("#@") else []
        for word in words[1:] if words[:1] == ["needs"] else ():
            name, _, value = word.partition("=")
            if name not in _HARMLESS or "/" in value or value.startswith((".", "~")):
                raise ValueError(f"{rules} needs {word}, which may load code: set it yourself")
            needs[name] = value
    return needs


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


def _write(record: dict[str, Any]) -> None:
    """Write into the job's file, where there is a job."""
    pattern = os.environ.get(_FILE)
    if not pattern:
        return
    name = pattern.replace("%h", platform.node()).replace("%p", str(os.getpid()))
    try:
        Path(name).write_text(json.dumps(record) + "\n", encoding="utf-8")
    except OSError as error:  # another host, or a container without that folder
        _say(f"step times cannot be written: {error}")


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"rccltune.torch: {text}\n")
