"""Files that a job would load or start, and their versions: libraries, benchmarks, launchers."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rccltune.launch import launchers
from rccltune.machine.child_program import run_program
from rccltune.machine.sysroot import SystemRoot, is_file, is_folder
from rccltune.machine.system import Benchmark, LauncherProgram, Library
from rccltune.model.errors import CommandLineError
from rccltune.model.vocabulary import Collective

SIMULATED_MARK: Final = b"# SIMULATED"
# What a folder may hold, RCCL's before NCCL's.
NAMES: Final = ("librccl.so.1", "librccl.so", "libnccl.so.2", "libnccl.so")
_SYSTEM: Final = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/lib",
    "usr/local/cuda/lib64",
    "usr/local/nccl/lib",
)
_LISTED: Final = re.compile(r"^\s*lib[rn]ccl\.so[.\d]* .*=> (/\S+)$", re.MULTILINE)
_WHEELS: Final = (
    ("PyTorch", "torch/lib"),
    ("ROCm wheels", "_rocm_sdk_libraries_*/lib"),
    ("NCCL wheel", "nvidia/nccl/lib"),
)
# As compiled in so that `strings` shows it: "RCCL version 2.18.6+hip6.0", "RCCL version : 2.22.3-
# develop:abc", "NCCL version 2.28.3+cuda12.9" (init.cc). A format with %d is not a version.
VERSION: Final = re.compile(rb"([RN]CCL) version *:? *(\d+\.\d+\.\d+[\w.+:-]*)")
_TESTS: Final = re.compile(rb"[rn]ccl-tests(?:: Version| version) *:? *(\d[\w.+-]*)")
_MPI: Final = ((b"libmpi.so.40", "openmpi"), (b"libmpi.so.12", "mpich"), (b"libmpi", None))


def find_libraries(
    root: SystemRoot, variables: Mapping[str, str], site_packages: Iterable[Path]
) -> tuple[Library, ...]:
    """Libraries that a job could load; the same file under several names is one.

    Args:
        root: where the system's own folders are.
        variables: the environment.
        site_packages: folders whose wheels bring their own library.
    """
    folders = list_library_folders(root, variables)
    for packages in site_packages:
        for owner, pattern in _WHEELS:
            folders += [(owner, folder) for folder in sorted(packages.glob(pattern))]
    owners: dict[Path, str] = {}
    for owner, path in list_library_files(folders):
        owners.setdefault(path.resolve(), owner)
    with ThreadPoolExecutor(4) as pool:
        return tuple(pool.map(_read_library, owners.values(), owners))


def list_library_folders(root: SystemRoot, variables: Mapping[str, str]) -> list[tuple[str, Path]]:
    """(owner, folder) of places that libraries are installed in, in the loader's order."""
    on_path = filter(None, variables.get("LD_LIBRARY_PATH", "").split(":"))
    return [
        *(("LD_LIBRARY_PATH", root.at(folder)) for folder in on_path),
        ("ROCm", find_rocm(root, variables) / "lib"),
        *(("the system", folder) for folder in (_list_loader_folders() if root.is_live else ())),
        *(("the system", root.at(folder)) for folder in _SYSTEM),
    ]


def _list_loader_folders() -> Iterable[Path]:
    """Folders that ldconfig lists, those with RCCL before those with NCCL."""
    program = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    text = run_program([program, "-p"], timeout_s=60).out if program is not None else ""
    files = sorted(map(Path, _LISTED.findall(text)), key=lambda path: "nccl" in path.name)
    return dict.fromkeys(path.parent for path in files)


def list_library_files(folders: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, Path]]:
    """(owner, file) of each library in some folders."""
    for owner, folder in folders:
        for name in NAMES:
            if is_file(folder / name):
                yield owner, folder / name


def _read_library(owner: str, path: Path) -> Library:
    return Library(path=path, owner=owner, version=read_version(path), sha256=hash_file(path))


def hash_file(path: Path) -> str | None:
    """Hash of a file of any size, None where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()


def find_benchmarks(folders: Iterable[Path]) -> tuple[Benchmark, ...]:
    """Programs of rccl-tests in the folders; of a program in several, the first counts."""
    programs: dict[str, Benchmark] = {}
    for folder in folders:
        for collective in Collective:
            path = folder / collective.benchmark
            if collective.benchmark not in programs and is_file(path):
                programs[collective.benchmark] = _read_benchmark(path)
    return tuple(programs.values())


def list_benchmark_folders(root: SystemRoot, variables: Mapping[str, str]) -> list[Path]:
    """Folders that may hold benchmarks: those on PATH and the usual places."""
    on_path = [root.at(folder) for folder in variables.get("PATH", "").split(":") if folder]
    return [*on_path, find_rocm(root, variables) / "bin", root.at("opt/rccl-tests/build")]


def _read_benchmark(path: Path) -> Benchmark:
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    version = _TESTS.search(content)
    return Benchmark(
        name=path.name,
        path=path,
        version=version[1].decode("ascii", "replace") if version else None,
        sha256=hashlib.sha256(content).hexdigest() if content else None,
        mpi=_find_family(content),
        simulated=SIMULATED_MARK in content,
    )


def find_linked_mpi(program: Path) -> str | None:
    """Family of MPI that a program is linked to, None where that cannot be read off.

    A script around the benchmark, or one linked statically, names no library.
    """
    try:
        family = _find_family(program.read_bytes())
    except OSError:
        return None
    return None if family == "none" else family


def _find_family(content: bytes) -> str | None:
    """``none`` where no MPI library is named, None for one that is not known."""
    return next((family for mark, family in _MPI if mark in content), "none")


def find_launchers(variables: Mapping[str, str]) -> tuple[LauncherProgram, ...]:
    """Launchers beside the running Python and on PATH, each asked what it is."""
    return tuple(
        LauncherProgram(
            path=Path(one.program),
            flavour=one.launcher.flavour if one.launcher else None,
            version=one.launcher.version if one.launcher else None,
            detail=None if one.launcher else one.version_text.strip().split("\n")[0],
        )
        for one in launchers.identify_launchers(variables.get("PATH"))
    )


def find_rocm(root: SystemRoot, variables: Mapping[str, str]) -> Path:
    """The ROCm installation: what the environment names, else /opt/rocm, else the newest there."""
    named = [variables[name] for name in ("ROCM_PATH", "ROCM_HOME") if variables.get(name)]
    folders = [root.at(name) for name in (*named, "opt/rocm")]
    folders += sorted(root.at("opt").glob("rocm-*"))[::-1]
    return next((folder for folder in folders if is_folder(folder)), folders[0])


def find_named_library(path: Path) -> Path:
    """The file that was named, or the librccl in the folder that was.

    Raises:
        CommandLineError: there is no such file.
    """
    file = next((path / name for name in NAMES if (path / name).is_file()), path)
    if not file.is_file():
        raise CommandLineError(
            "there is no such library",
            where=str(path),
            hint="--librccl takes a librccl.so or libnccl.so, or a folder with one.",
        )
    return file.resolve()


# What ld.so says for ldd: "librccl.so.1 => /opt/rocm/lib/librccl.so.1 (0x00007f…)".
_FOUND: Final = re.compile(r"lib[rn]ccl\.so[.\d]* => (/.*) \(0x[0-9a-f]+\)")
_MARK: Final = b"CCL version"
_LONGEST: Final = 64


def find_loaded_library(program: Path, variables: Mapping[str, str]) -> Path | None:
    """The librccl or libnccl that the loader finds for a program.

    Args:
        program: a benchmark.
        variables: the environment that it will be started in.

    Returns:
        None where that cannot be seen: a script around the benchmark, one linked statically, a
        library that is not there, no ldd.
    """
    ended = run_program(["ldd", str(program)], timeout_s=20, variables=variables)
    match = _FOUND.search(ended.out)
    return Path(match[1]) if match is not None else None


def read_version(library: Path) -> str | None:
    """``RCCL 2.20.5+hip6.2``, as compiled into a library; None where it is not there.

    Built for every GPU a library has a gigabyte and more: it is searched where it lies.
    """
    with suppress(OSError, ValueError), map_file(library) as content:
        at = content.find(_MARK)
        while at >= 0:
            match = VERSION.match(content[max(0, at - 1) : at + _LONGEST])
            if match is not None:
                return " ".join(group.decode("ascii", "replace") for group in match.groups())
            at = content.find(_MARK, at + 1)
    return None


@contextmanager
def map_file(path: Path) -> Iterator[bytes | mmap.mmap]:
    """Its bytes, mapped and not read.

    Raises:
        OSError: it cannot be read.
        ValueError: it cannot be mapped.
    """
    with path.open("rb") as stream:
        # Of an empty file nothing can be mapped.
        if os.fstat(stream.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content


def contains_any(path: Path, *marks: bytes) -> bool:
    """Whether one of these stands in it; raises as :func:`mapped` does."""
    with map_file(path) as content:
        return any(content.find(mark) >= 0 for mark in marks)


# What RCCL's own reader of rule files says in its log (csv_tuner.cc of 2.28.3 and later).
_OWN_READER: Final = (b"TUNER/CsvTuner", b"Using built-in CSV tuner", b"RcclCsvTuner")


def reads_rules(library: Path) -> bool:
    """Whether a library has a reader of rule files itself, as its own words tell."""
    try:
        return contains_any(library, *_OWN_READER)
    except (OSError, ValueError):
        return False
