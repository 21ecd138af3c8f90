"""Which library and which tuner a process has loaded, or would; and how to load another.

A job's library is the one that it maps, whatever is installed: PyTorch's wheels bring their own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.launch.variables import environment
from rccltune.launch.variables import program as launch_program
from rccltune.machine import files, software
from rccltune.machine.files import Root, has_any, mapped
from rccltune.machine.software import library_of, sha256_of, version_of
from rccltune.model.errors import MachineError

# A line of /proc/PID/maps: addresses, rights, offset, device, inode, path, then "(deleted)".
_MAPPED: Final = re.compile(
    r"^([0-9a-f]+-[0-9a-f]+) \S+ \S+ \S+ \d+ +(/.*?)( \(deleted\))?$", re.MULTILINE
)
_LIBRARY: Final = re.compile(r"lib([rn])ccl\.so[.\d]*")
# Where the library is linked into something else.
_HOLDERS: Final = re.compile(r"libtorch_(hip|cuda)\.so")
_TUNERS: Final = re.compile(r"\S*(tuner|lib[rn]ccl-)\S*\.so[.\d]*")
_LOOKED_UP: Final = re.compile(rb"ncclTunerPlugin_v(\d+)")
# What its log lines say (csv_tuner.cc of RCCL 2.28.3 and later).
_BUILT_IN: Final = (b"TUNER/CsvTuner", b"Using built-in CSV tuner", b"RcclCsvTuner")
_CHOSEN: Final = re.compile(r"NCCL_TUNER_\w+|RCCLTUNE_\w+|NCCL_ALGO|NCCL_PROTO|RCCL_OVERRIDE_\w+")
_MARK: Final = "rccltune-torch "
_TORCH: Final = f"""
import json
import torch
lines = open("/proc/self/maps").read()
print("\\n{_MARK}" + json.dumps(dict(
    file=torch.__file__, version=str(torch.__version__), hip=getattr(torch.version, "hip", None),
    cuda=getattr(torch.version, "cuda", None), maps=lines)), flush=True)
"""
TORCH_TIMEOUT_S: Final = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """One file that a process has mapped.

    Attributes:
        path: as the process sees it.
        readable: where we can read it; None where it is gone or another's.
        deleted: whether it was removed or replaced since it was loaded.
    """

    path: Path
    readable: Path | None
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLibrary:
    """A file with a collective library in it, and what it says of itself.

    Attributes:
        version: ``RCCL 2.28.3+hip7.13``, None where it does not say.
        looks_up: versions of the tuner interface that it asks a plugin for, newest first.
        built_in: whether it reads rule files itself, without any plugin.
    """

    file: Mapped
    version: str | None
    sha256: str | None
    looks_up: tuple[int, ...]
    built_in: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTuner:
    """A file with a tuner in it that a process has mapped.

    Attributes:
        offers: versions of the interface that it has.
    """

    file: Mapped
    sha256: str | None
    offers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a job has, or would have.

    Attributes:
        what: the process or the program, for people.
        by: how it was found.
        variables: of those that choose, the ones that a process was started with.
    """

    what: str
    by: str
    libraries: tuple[LoadedLibrary, ...]
    tuners: tuple[LoadedTuner, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


def loaded_by_process(pid: int, root: Root | None = None) -> Loaded:
    """What a running process has mapped.

    Raises:
        MachineError: it is gone, another user's, or has nothing mapped.
    """
    proc = (root or Root()).at(f"proc/{pid}")
    try:
        text = (proc / "maps").read_text(encoding="utf-8", errors="replace")
    except PermissionError as error:
        raise MachineError(
            f"what process {pid} of {_owner(proc)} has loaded may not be looked at",
            where=str(proc / "maps"),
            hint="run this as that user or as root, on the same host.",
        ) from error
    except OSError as error:
        raise MachineError(
            f"there is no process {pid} on this host",
            where=str(proc),
            hint="take a pid from ps on the node where the job runs, while it runs.",
        ) from error
    if not text:
        raise MachineError(
            f"process {pid} has nothing mapped: it has ended, or is the kernel's own",
            where=str(proc / "maps"),
            hint="name the process that calls the library, a rank of the job.",
        )
    return _loaded(
        f"process {pid} ({_name(proc)})", "what it has mapped", _mapped(text, proc), proc
    )


def loaded_by_torch(
    python: str, variables: Mapping[str, str] | None = None, timeout_s: float = TORCH_TIMEOUT_S
) -> Loaded:
    """What a Python maps when it imports torch.

    Args:
        python: the interpreter, a path or a name on PATH.
        variables: its environment, None for ours.
        timeout_s: importing torch from a shared file system may take a minute.

    Raises:
        MachineError: it does not start, has no torch, or torch does not import.
    """
    ended = files.ask(
        list(launch_program(python, _TORCH)), timeout_s=timeout_s, variables=variables
    )
    line = next((x for x in ended.out.split("\n") if x.startswith(_MARK)), None)
    if line is None:
        raise _no_torch(python, ended, timeout_s)
    told = json.loads(line.removeprefix(_MARK))
    kind = f"HIP {told['hip']}" if told["hip"] else f"CUDA {told['cuda']}"
    built = kind if told["hip"] or told["cuda"] else "the CPU alone"
    what = f"torch {told['version']} of {python}, built for {built} ({told['file']})"
    mapped_files = _mapped(told["maps"], None)
    found = _loaded(what, "what importing torch maps", mapped_files, None)
    if found.libraries:
        return found
    # Loaded later: what the loader would find for torch's own libraries, then what lies there.
    folder = Path(told["file"]).parent / "lib"
    holders = [path for name in ("hip", "cuda") for path in folder.glob(f"libtorch_{name}.so")]
    resolved = [library_of(path, variables or dict(os.environ)) for path in holders]
    there = [path for path in resolved if path] or sorted(folder.glob("lib[rn]ccl.so*"))
    beside = [Mapped(path=path, readable=path, deleted=False) for path in there]
    return _loaded(what, f"what lies in {folder}, or ld.so finds from it", beside, None)


def _no_torch(python: str, ended: files.Ended, timeout_s: float) -> MachineError:
    last = (ended.err.strip() or ended.out.strip()).split("\n")[-1]
    if ended.timed_out:
        said, hint = f"did not import torch in {timeout_s:.0f} s", "try again on an idle node."
    elif ended.code is None:
        said, hint = f"does not start ({last})", "name the job's own Python with its path."
    elif "No module named 'torch'" in ended.err:
        said, hint = "has no torch", "name the Python of the job's environment with --python."
    else:
        said = f"cannot import torch: {last or f'exit code {ended.code}'}"
        hint = "run it as the job does, with the same modules and LD_LIBRARY_PATH."
    return MachineError(f"{python} {said}", hint=hint)


def _loaded(what: str, by: str, mapped: Iterable[Mapped], proc: Path | None) -> Loaded:
    files = tuple(mapped)
    libraries = [_library(one) for one in files if _LIBRARY.fullmatch(one.path.name)]
    if not libraries:
        held = (_library(one) for one in files if _HOLDERS.fullmatch(one.path.name))
        libraries = [one for one in held if one.version is not None]
    tuners = (
        _tuner(one)
        for one in files
        if _TUNERS.fullmatch(one.path.name) and not _LIBRARY.fullmatch(one.path.name)
    )
    return Loaded(
        what=what,
        by=by,
        libraries=tuple(libraries),
        tuners=tuple(one for one in tuners if one.offers or one.file.readable is None),
        variables=_variables(proc) if proc is not None else (),
    )


def _mapped(text: str, proc: Path | None) -> list[Mapped]:
    """Every file once, in the order of addresses."""
    found: dict[tuple[str, str], Mapped] = {}
    for span, name, deleted in _MAPPED.findall(text):
        if (name, deleted) not in found:
            found[name, deleted] = Mapped(
                path=Path(name),
                readable=_readable(proc, span, name, deleted=bool(deleted)),
                deleted=bool(deleted),
            )
    return list(found.values())


def _readable(proc: Path | None, span: str, name: str, *, deleted: bool) -> Path | None:
    """The file itself, also where the process sees other folders, or it was replaced."""
    tries = [] if deleted else [Path(name)]
    if proc is not None and not deleted:
        # In a container the path is another's.
        tries = [proc / "root" / name.lstrip("/"), Path(name)]
    elif proc is not None:
        # By its addresses it is there even when removed; root alone may look.
        tries = [proc / "map_files" / span]
    return next((path for path in tries if os.access(path, os.R_OK)), None)


def _library(file: Mapped) -> LoadedLibrary:
    path = file.readable
    return LoadedLibrary(
        file=file,
        version=version_of(path) if path else None,
        sha256=sha256_of(path) if path else None,
        looks_up=_interfaces(path),
        built_in=_has_any(path, _BUILT_IN),
    )


def _tuner(file: Mapped) -> LoadedTuner:
    path = file.readable
    return LoadedTuner(
        file=file, sha256=sha256_of(path) if path else None, offers=_interfaces(path)
    )


def _interfaces(path: Path | None) -> tuple[int, ...]:
    """Versions of the tuner interface that a file names."""
    if path is None:
        return ()
    try:
        with mapped(path) as content:
            found = {int(number) for number in _LOOKED_UP.findall(content)}
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found, reverse=True))


def _has_any(path: Path | None, marks: Iterable[bytes]) -> bool:
    if path is None:
        return False
    try:
        return has_any(path, *marks)
    except (OSError, ValueError):
        return False


def _variables(proc: Path) -> tuple[tuple[str, str], ...]:
    try:
        text = (proc / "environ").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ()
    pairs = (entry.partition("=")[::2] for entry in text.split("\0"))
    return tuple(sorted((name, value) for name, value in pairs if _CHOSEN.fullmatch(name)))


def _name(proc: Path) -> str:
    try:
        return (proc / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"


def _owner(proc: Path) -> str:
    try:
        return f"user {proc.owner()}"
    except (OSError, KeyError):
        return "another user"


_NAMES: Final = ("librccl.so.1", "librccl.so", "libnccl.so.2", "libnccl.so")


def named_library(named: Path) -> Path:
    """The file that was named, or the librccl in the folder that was.

    Raises:
        MachineError: there is no such file.
    """
    found = next((named / name for name in _NAMES if (named / name).is_file()), named)
    if not found.is_file():
        raise MachineError(
            "there is no such library",
            where=str(named),
            hint="--librccl takes a librccl.so or libnccl.so, or a folder with one.",
        )
    return found.resolve()


def loads(library: Path | None) -> tuple[tuple[str, str], ...]:
    """What makes the benchmark load a library instead of the site's."""
    if library is None:
        return ()
    folders = (str(library.parent), os.environ.get("LD_LIBRARY_PATH"))
    return (("LD_LIBRARY_PATH", os.pathsep.join(filter(None, folders))),)


def loaded(
    program: Path,
    library: Path | None,
    added: Sequence[tuple[str, str]],
) -> Path | None:
    """The library that the benchmark will load, None where that is not seen."""
    seen = environment(os.environ, added)
    # Of a script around the benchmark the loader knows nothing; what was named counts then.
    return software.library_of(program, seen.variables) or library
