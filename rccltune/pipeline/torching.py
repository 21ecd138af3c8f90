"""The PyTorch runner as a site's benchmark: a Python that has torch, and the library behind it."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from rccltune import detect, launch, torchbench
from rccltune.detect import Loaded, LoadedLibrary
from rccltune.errors import CommandLineError, MachineError
from rccltune.launch import Launcher
from rccltune.model import Sweep
from rccltune.pipeline.benches import Bench
from rccltune.vocab import TUNABLE

GLOO_PRODUCT: Final = "CPU (gloo, for tests)"
_NO_GRAPHS: Final = frozenset("G")
# Of a hash, where a line has little room; launches' logs have all of it.
_SHOWN: Final = 16
UNTUNABLE: Final = "gloo on the CPU asks no tuner: it is measured as it is, for tests"


def check_wish(sweep: Sweep, backend: str, given: Sequence[str]) -> None:
    """Stop where torch cannot do what is wished for.

    Args:
        sweep: what is to be measured.
        backend: one of vocab.BACKENDS.
        given: options that mean rccl-tests or their library.

    Raises:
        CommandLineError: it cannot.
    """
    if given:
        raise CommandLineError(
            f"{given[0]} does not go with --runner torch",
            hint="PyTorch brings its own library, and --python says which PyTorch.",
        )
    for collective, dtype in product(sweep.collectives, sweep.dtypes):
        torchbench.check(
            collective=collective,
            dtype=dtype,
            redop=sweep.redop,
            graph=sweep.graph,
            placements=sweep.placements,
            backend=backend,
        )


def bench_of(python: str | None, backend: str, variables: Mapping[str, str]) -> Bench:
    """The runner in a Python's torch.

    Args:
        python: a path or a name on PATH; None for ours where it has torch, else python3.
        backend: one of vocab.BACKENDS.
        variables: the environment that launches will have.

    Raises:
        MachineError: no such Python, no torch, or no library in it.
    """
    found = _python(python)
    loaded = detect.loaded_by_torch(found, dict(variables))
    on_cpu = backend == "gloo"
    library = None if on_cpu else _library(loaded, backend)
    runner = f"{loaded.what.split(' of ')[0].replace('torch', 'PyTorch', 1)}, {backend}"
    if library is not None:
        digest = (library.sha256 or "unknown")[:_SHOWN]
        runner += f", {library.version or library.file.path.name} sha256={digest}"
    key = f"{torchbench.digest()} {runner}"
    return Bench(
        programs={collective: collective.value for collective in TUNABLE},
        runs=torchbench.argv(found, backend),
        letters=torchbench.LETTERS - _NO_GRAPHS if on_cpu else torchbench.LETTERS,
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        library=library.file.readable if library else None,
        version=library.version if library else None,
        runner=runner,
        untunable=UNTUNABLE if on_cpu else None,
        tells_steps=True,
        on_cpu=on_cpu,
        remarks=_remarks(loaded, library, backend),
    )


def _remarks(loaded: Loaded, library: LoadedLibrary | None, backend: str) -> tuple[str, ...]:
    said = [f"PyTorch runner: {loaded.what}, backend {backend}"]
    if library is not None:
        name = library.version or "a library that does not say its version"
        said.append(f"It talks to {name}: {library.file.path} (sha256 {library.sha256})")
    elif backend == "gloo":
        said.append(f"Nothing measured here is a GPU's: {UNTUNABLE}")
    return tuple(said)


def torchrun(bench: Bench) -> Launcher:
    """PyTorch's own launcher, of the Python that the runner runs in."""
    return launch.LAUNCHERS["torchrun"](program=Path(bench.runs[0]))


def _python(wish: str | None) -> str:
    """An absolute path: every rank is started from another folder.

    Raises:
        MachineError: there is none.
    """
    if wish is None and importlib.util.find_spec("torch") is not None:
        return sys.executable
    found = shutil.which(wish or "python3")
    if found is None:
        raise MachineError(
            f"there is no Python {wish or 'python3'}",
            hint="name the one that has torch with --python.",
        )
    # Not resolved: a virtual environment's Python is a link, and is told by its own path.
    return str(Path(found).absolute())


def _library(loaded: Loaded, backend: str) -> LoadedLibrary | None:
    """The library that torch brings; torchcomms brings its own, which its first communicator maps.

    Raises:
        MachineError: this torch has none.
    """
    if backend == "rcclx":
        return None
    if not loaded.libraries:
        raise MachineError(
            f"no librccl or libnccl in {loaded.what}",
            where=loaded.by,
            hint="torch for the CPU alone has none; --backend gloo measures the CPU, for tests.",
        )
    return loaded.libraries[0]
