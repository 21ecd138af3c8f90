"""Which library a job loads, and which file it needs: rules alone, the plugin, or with the mode."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from rccltune import plugin
from rccltune.machine import files, loaded_libraries, software, survey
from rccltune.machine.loaded_libraries import Loaded, LoadedLibrary, LoadedTuner
from rccltune.model.errors import MachineError
from rccltune.releases import LOADING_OURS, PAIRS, RELEASES, release_of
from rccltune.rules.other_readers import misread
from rccltune.rules.reader import read_rules

BEGIN: Final = "<!-- made by rccltune.rules.library; tests hold it against that -->"
_WORKING: Final = f"{LOADING_OURS} and later work."
END: Final = "<!-- end -->"


_RULES: Final = "NCCL_TUNER_CONFIG_FILE"


class Way(Enum):
    """What a library follows rules with."""

    FILE = "file alone"
    PLUGIN = "plugin"
    KEYED = "plugin with mode key"
    NOTHING = "nothing works"
    UNKNOWN = "unknown"


class Modes(Enum):
    """Whether one rule file is right wherever a job may run."""

    ONE = "one mode everywhere, or no partitions"
    SEVERAL = "modes that change, or differ between nodes"


EXPORTS: Final = {
    Way.FILE: "`NCCL_TUNER_CONFIG_FILE=FILE`",
    Way.PLUGIN: "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `NCCL_TUNER_CONFIG_FILE=FILE`",
    Way.KEYED: "`NCCL_TUNER_PLUGIN=$(rccltune plugin --path)` `RCCLTUNE_CONFIG_DIR=FOLDER`, with "
    "`rccl_tuner_<arch>_<mode>.csv` for each mode in it",
}


def way(abi: int, modes: Modes, *, built_in: bool) -> Way:
    """How a library is told rules.

    Args:
        abi: newest version of the tuner interface that it shares with the plugin, 0 for none.
        modes: of the GPUs that the job may meet.
        built_in: whether it reads rule files itself. Such a reader takes one file and checks
            nothing of what that requires.
    """
    if abi == 0 and not built_in:
        return Way.NOTHING
    if modes is Modes.SEVERAL:
        return Way.KEYED if abi else Way.NOTHING
    return Way.FILE if built_in else Way.PLUGIN


def table(offered: Sequence[int]) -> list[str]:
    """The table of releases and modes, in Markdown.

    Args:
        offered: versions of the interface that the plugin has.
    """
    lines = [
        f"| release | tuner ABI | {Modes.ONE.value} | {Modes.SEVERAL.value} | |",
        "|---|--:|---|---|---|",
    ]
    for one in {each.name: each for each in RELEASES}.values():
        abi = max((v for v in one.interfaces if v in offered), default=0)
        ways = (way(abi, modes, built_in=one.reads_rules).value for modes in Modes)
        lines.append(f"| {one.name} | {abi or '–'} | {' | '.join(ways)} | {one.remark} |")
    return lines


def document(offered: Sequence[int]) -> list[str]:
    """The part of docs/which-file.md that is made: the table, and what each way exports."""
    ways = [f"* **{one.value}**: {exports}" for one, exports in EXPORTS.items()]
    return [BEGIN, *table(offered), "", *ways, END]


class Need(Enum):
    """What a library needs to follow a rule file."""

    RULES = "rules"
    PLUGIN = "plugin"
    NOTHING_WORKS = "nothing works"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What one library needs.

    Attributes:
        looks_up: versions of the tuner interface, newest first; by its version where the file
            does not name them.
        sentence: the same for people.
        ways: by whether the job's GPUs have one mode everywhere.
    """

    library: LoadedLibrary
    looks_up: tuple[int, ...]
    need: Need
    sentence: str
    ways: tuple[tuple[Modes, Way], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCheck:
    """What a job loads, and what it needs.

    Attributes:
        ours: those of the tuners that it has loaded that are this install's file.
        rules: the rule file that the job's environment names; None where it names none.
        misread: lines of that which the library takes for something else than our plugin does.
        mode: of this machine's GPUs, ``cpx-nps4``; ``none`` where they have no partitions, None
            where there are none or nothing tells.
    """

    loaded: Loaded
    answers: tuple[Answered, ...]
    ours: tuple[LoadedTuner, ...]
    mode: str | None
    rules: str | None = None
    misread: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "what": self.loaded.what,
            "by": self.loaded.by,
            "libraries": [
                {
                    "path": str(one.library.file.path),
                    "deleted": one.library.file.deleted,
                    "version": one.library.version,
                    "sha256": one.library.sha256,
                    "looks_up": list(one.looks_up),
                    "built_in_tuner": one.library.built_in,
                    "need": one.need.value,
                    "sentence": one.sentence,
                    "ways": {modes.name.lower(): found.value for modes, found in one.ways},
                }
                for one in self.answers
            ],
            "tuners": [
                {
                    "path": str(one.file.path),
                    "deleted": one.file.deleted,
                    "sha256": one.sha256,
                    "offers": list(one.offers),
                    "ours": one in self.ours,
                }
                for one in self.loaded.tuners
            ],
            "variables": dict(self.loaded.variables),
            "rules": self.rules,
            "read_otherwise": list(self.misread),
            "mode": self.mode,
        }


def check_process(pid: int, root: Path | None = None) -> JobCheck:
    """What a running process has loaded.

    Raises:
        MachineError: it is gone or another's, or has no collective library.
    """
    loaded = loaded_libraries.loaded_by_process(pid, files.Root(root) if root else None)
    return _checked(
        loaded,
        "look again once it has made its first communicator, or at another of its processes; a "
        "library linked into a program does not show.",
        root,
        rules=dict(loaded.variables).get(_RULES),
    )


def check_python(python: str) -> JobCheck:
    """What a Python's torch would load.

    Raises:
        MachineError: it does not start, has no torch, or that has no collective library.
    """
    return _checked(
        loaded_libraries.loaded_by_torch(python),
        "torch for the CPU alone has none; else look at a running job with --pid.",
        rules=os.environ.get(_RULES),
    )


def _checked(loaded: Loaded, hint: str, root: Path | None = None, *, rules: str | None) -> JobCheck:
    if not loaded.libraries:
        raise MachineError(f"no librccl or libnccl in {loaded.what}", where=loaded.by, hint=hint)
    offered = tuple(int(abi) for abi in plugin.build_info().get("abi_versions", ()))
    digest = software.sha256_of(plugin.library())
    ours = tuple(one for one in loaded.tuners if one.sha256 == digest)
    return JobCheck(
        loaded=loaded,
        answers=tuple(_answered(one, offered) for one in loaded.libraries),
        ours=ours,
        mode=_mode(root),
        rules=rules,
        misread=() if ours or not rules else _misread(Path(rules)),
    )


def _misread(path: Path) -> tuple[str, ...]:
    """What is read otherwise in a file; nothing of one that is not to be seen from here."""
    try:
        content = path.read_bytes()
    except OSError:
        return ()
    return tuple(map(str, misread(content, read_rules(content))))


def _mode(root: Path | None) -> str | None:
    found = survey.look(root or Path("/"), os.environ, deep=False).mode
    return None if found is None else str(found)


def _answered(library: LoadedLibrary, offered: Sequence[int]) -> Answered:
    release = release_of(library.version)
    looks_up = library.looks_up or (release.interfaces if release is not None else ())
    common = [abi for abi in looks_up if abi in offered]
    name = library.version or "this library"
    if library.built_in:
        need = Need.RULES
        said = (
            f"{name} reads rule files itself: set NCCL_TUNER_CONFIG_FILE to the rule file; no "
            "plugin is needed. Its own table is dropped either way: emit-config --base auto keeps "
            "its rows. With the plugin the file's mode and placement are checked."
        )
    elif common:
        need = Need.PLUGIN
        said = (
            f"{name} asks a plugin (interface version {max(common)}): set NCCL_TUNER_PLUGIN to "
            "rccltune's plugin, and NCCL_TUNER_CONFIG_FILE to the rule file."
        )
        if max(common) == 2:
            said += f" There {PAIRS}."
    elif looks_up:
        need = Need.NOTHING_WORKS
        said = (
            f"{name} is too old: it asks for interface version {max(looks_up)}, which rccltune's "
            f"plugin has not. {_WORKING}"
        )
    elif library.version is None:
        need = Need.UNKNOWN
        said = "its file cannot be read, or does not say what it is: nothing is known of it."
    else:
        need = Need.NOTHING_WORKS
        said = f"{name} asks for no tuner plugin: it is too old. {_WORKING}"
    if need is Need.UNKNOWN:
        ways = tuple((modes, Way.UNKNOWN) for modes in Modes)
    else:
        newest = max(common, default=0)
        ways = tuple((modes, way(newest, modes, built_in=library.built_in)) for modes in Modes)
    return Answered(library=library, looks_up=looks_up, need=need, sentence=said, ways=ways)
