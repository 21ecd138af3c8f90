"""Library that is measured: the one that is named, ROCm's, the system's, or PyTorch's own.

PyTorch's wheels bring a library and a runtime of their own, which belong together. They are found
by where the wheel lies; nothing of torch is imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune import plugin
from rccltune.launch.variables import program as launch_program
from rccltune.machine import installed_software
from rccltune.machine.sysroot import SystemRoot
from rccltune.measure import real_rccl
from rccltune.measure.rank_program import LibraryUnderTest
from rccltune.model.errors import MachineError, reason_of

TORCH: Final = "torch"
_MIB: Final = 1 << 20
_HERE: Final = SystemRoot()
# From the folder that holds the wheel's packages.
_TORCH_LIBRARIES: Final = (
    "torch/lib/librccl.so*",
    "_rocm_sdk_libraries*/lib/librccl.so*",
    "nvidia/nccl/lib/libnccl.so.2",
    "torch/lib/libnccl.so*",
)
_TORCH_RUNTIMES: Final = {
    "librccl": ("torch/lib/libamdhip64.so*", "_rocm_sdk_core*/lib/libamdhip64.so*"),
    "libnccl": (
        "nvidia/cuda_runtime/lib/libcudart.so.*",
        "nvidia/cu13/lib/libcudart.so.*",
        "torch/lib/libcudart*.so.*",
    ),
}
_PRINT_ORIGIN: Final = """
import importlib.util, json
spec = importlib.util.find_spec("torch")
print(json.dumps([spec.origin if spec else None, sys.path]))
"""
_TIMEOUT_S: Final = 60.0
HIP: Final = "hip/libamdhip64.so.7"
STAND_IN: Final = "sim/librccl.so.1"
_HINT: Final = (
    "name its file with --librccl FILE, or say --librccl torch for the one that an installed "
    "PyTorch brings; --simulate mi300x shows all of it without a GPU."
)


def find_library(path: Path | None, variables: Mapping[str, str]) -> LibraryUnderTest:
    """The library of this machine that is to be measured.

    Args:
        path: a file, its folder, or ``torch``; None looks for one.
        variables: the environment.

    Raises:
        MachineError: there is none; it says where was looked, and how to name one.
    """
    if str(path) == real_rccl.REAL:
        raise MachineError(
            "'real' is the RCCL of simulated nodes", hint="name a librccl.so, or use --simulate."
        )
    if path is not None and str(path) != TORCH:
        file = installed_software.find_named_library(path)
        return _library_under_test(file, None, "as named")
    if path is not None:
        return library_of_torch()
    folders = installed_software.list_library_folders(_HERE, variables)
    installed = next(installed_software.list_library_files(folders), None)
    if installed is not None:
        owner, file = installed
        return _library_under_test(file.resolve(), None, owner)
    library = _beside_torch(_origin(), sys.path)
    if library is not None:
        return library
    places = ", ".join(dict.fromkeys(str(folder) for _, folder in folders))
    raise MachineError(
        f"no librccl or libnccl was found in {places}, what ldconfig lists and torch of "
        f"{sys.executable}",
        hint=_HINT,
    )


def _library_under_test(file: Path, runtime: Path | None, what: str) -> LibraryUnderTest:
    return LibraryUnderTest(
        file=file, runtime=runtime, version=installed_software.read_version(file), what=what
    )


def library_of_torch() -> LibraryUnderTest:
    """The library and the runtime inside PyTorch: of our Python, else of ``python3`` on PATH.

    Raises:
        MachineError: no torch, or one without a library.
    """
    origin, paths, python = _origin(), list(sys.path), sys.executable
    if origin is None:
        other = shutil.which("python3")
        if other is not None and Path(other).resolve() != Path(sys.executable).resolve():
            python = other
            origin, paths = _ask_python(other)
    if origin is None:
        raise MachineError(
            f"there is no torch in {sys.executable}"
            + (f" nor in {python}" if python != sys.executable else ""),
            hint="activate the environment that has it, so that its python3 is first on PATH; or "
            "name the library itself with --librccl FILE.",
        )
    library = _beside_torch(origin, paths)
    if library is None:
        raise MachineError(
            "this torch brings no librccl or libnccl: it is built for the CPU alone, or for the "
            "system's library",
            where=str(origin.parent),
            hint="name the library with --librccl FILE.",
        )
    return library


def _origin() -> Path | None:
    """``torch/__init__.py`` of our Python, without importing it."""
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _ask_python(python: str) -> tuple[Path | None, list[str]]:
    """``torch/__init__.py`` of another Python, and where that looks for packages."""
    try:
        answer = subprocess.run(
            list(launch_program(python, _PRINT_ORIGIN)),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        origin, paths = json.loads(answer.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None, []
    return (Path(origin) if origin else None), [str(path) for path in paths]


def _beside_torch(origin: Path | None, paths: Iterable[str]) -> LibraryUnderTest | None:
    """Library and runtime that came with a torch; None where it has none of its own.

    Args:
        origin: its ``__init__.py``.
        paths: where its Python looks for packages; wheels of NVIDIA may be in another folder.
    """
    if origin is None:
        return None
    home = origin.parent.parent
    homes = [home, *(Path(path) for path in paths if path and Path(path) != home)]
    library = _first(homes, _TORCH_LIBRARIES)
    if library is None:
        return None
    kind = library.name[: len("librccl")]
    runtime = _first(homes, _TORCH_RUNTIMES[kind])
    return _library_under_test(library, runtime, f"PyTorch's, in {home}")


def _first(homes: Iterable[Path], patterns: Iterable[str]) -> Path | None:
    files = (
        path.resolve()
        for home in homes
        for pattern in patterns
        for path in sorted(home.glob(pattern))
        if path.is_file()
    )
    return next(files, None)


def digest_of(file: Path) -> str:
    """SHA-256 by which a library is known again: of its size and its first, middle and last MiB.

    Libraries have some hundred megabytes, all of which would take half a second; what names their
    build stands at the beginning.

    Raises:
        MachineError: it cannot be read.
    """
    try:
        size = file.stat().st_size
        digest = hashlib.sha256(str(size).encode())
        with file.open("rb") as stream:
            for at in (0, size // 2, max(size - _MIB, 0)):
                stream.seek(at)
                digest.update(stream.read(_MIB))
    except OSError as error:
        raise MachineError(f"it cannot be read: {reason_of(error)}", where=str(file)) from error
    return digest.hexdigest()


def stand_in() -> LibraryUnderTest:
    """The library that imitates RCCL's choices, over the simulated machine.

    Raises:
        MachineError: it is not in this install.
    """
    return LibraryUnderTest(file=_native(STAND_IN), runtime=_native(HIP), what="stand-in")


def find_real(path: Path, variables: Mapping[str, str]) -> LibraryUnderTest:
    """The real RCCL over the simulated machine.

    Args:
        path: ``real`` for the one that scripts/fetch-rccl downloaded, or its file.
        variables: the environment, which may say where the cache is.

    Raises:
        MachineError: nothing was downloaded, or there is no such file.
    """
    if str(path) == TORCH:
        raise MachineError(
            "PyTorch's library does not run on a simulated node",
            hint="name 'real', which scripts/fetch-rccl downloads, or a librccl.so.",
        )
    file, runtime = real_rccl.real_library(path, variables), _native(HIP)
    beside = file.parent / "ld-linux-x86-64.so.2"
    loader = beside if beside.exists() else Path("/lib64") / beside.name
    preloaded = _native("hip/zero_pages.so", hint="run it from a checkout: scripts/try makes one.")
    starts = (
        *(str(loader), "--library-path", f"{preloaded.parent}:{file.parent}"),
        # By its name, looked for in that path: a blank would end a longer one.
        *("--preload", preloaded.name),
    )
    needs = (
        # Tells the machine what each kernel does.
        ("NCCL_PROFILER_PLUGIN", str(runtime)),
        ("NCCL_TOPO_FILE", "/simulated/topology.xml"),
        ("RCCL_USE_ROCM_SMI_LIB", "1"),
    )
    library = _library_under_test(file, runtime, "the real RCCL")
    return replace(library, starts=starts, needs=needs)


def _native(name: str, hint: str = "install rccltune again.") -> Path:
    path = plugin.native_folder() / name
    if not path.is_file():
        raise MachineError("a stand-in library is missing", where=str(path), hint=hint)
    return path.resolve()
