"""Files by which NCCL and RCCL set variables that nobody sees in the environment.

At start they read NAME=VALUE lines of a user's and of every user's file, and put them into the
environment where it does not have them already (``setEnvFile`` in ``src/misc/param.cc``). So
clearing a variable makes room for the file's. Where NCCL_CONF_FILE is set, newer releases leave
the home's file out and older ones do not know the variable: both are listed.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.sysroot import SystemRoot

_LINE: Final = re.compile(rb"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*")
_MOST: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryConfFile:
    """One such file that is there.

    Attributes:
        whose: why the library reads it.
        pairs: (name, value) in the file's order, each name once with its last value.
    """

    path: Path
    whose: str
    pairs: tuple[tuple[str, str], ...]

    def fills(self, variables: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Pairs of the file that take effect in an environment."""
        return tuple((name, value) for name, value in self.pairs if name not in variables)


def find_home() -> Path | None:
    """The user's home as passwd says, which is where the library looks, whatever HOME is."""
    with suppress(KeyError):
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    return None


def find_conf_files(
    root: SystemRoot, variables: Mapping[str, str], home: Path | None, *, amd: bool
) -> tuple[LibraryConfFile, ...]:
    """The files that a library would read here, in the order in which it does.

    Args:
        root: where files are looked for.
        variables: the environment, for ``NCCL_CONF_FILE``.
        home: the user's, None where passwd has none.
        amd: RCCL's names instead of NCCL's.
    """
    stems = (".rccl.conf", "rccl.conf") if amd else (".nccl.conf", "nccl.conf")
    places: list[tuple[str, Path]] = []
    if home is not None:
        places.append(("the home that passwd names", root.at(str(home)) / stems[0]))
    places.append(("every user's", root.at(f"etc/{stems[1]}")))
    extra = variables.get("NCCL_CONF_FILE")
    if extra:
        places.append(("NCCL_CONF_FILE", root.at(extra)))
    there = []
    for whose, path in places:
        pairs = _read_pairs(path)
        if pairs is not None:
            there.append(LibraryConfFile(path=path, whose=whose, pairs=tuple(pairs.items())))
    return tuple(there)


def _read_pairs(path: Path) -> dict[str, str] | None:
    try:
        with path.open("rb") as stream:
            content = stream.read(_MOST)
    except OSError:
        return None
    lines = (_LINE.fullmatch(line.split(b"#", 1)[0]) for line in content.split(b"\n"))
    return {m[1].decode(): m[2].decode("utf-8", "replace") for m in lines if m is not None}
