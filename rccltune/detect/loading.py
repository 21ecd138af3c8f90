"""Which collective library a program loads, and its version, before anything is started."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rccltune.content import mapped
from rccltune.detect import child
from rccltune.detect.software import VERSION

# What ld.so says for ldd: "librccl.so.1 => /opt/rocm/lib/librccl.so.1 (0x00007f…)".
_FOUND: Final = re.compile(r"lib[rn]ccl\.so[.\d]* => (/.*) \(0x[0-9a-f]+\)")
_MARK: Final = b"CCL version"
_LONGEST: Final = 64


def library_of(program: Path, variables: Mapping[str, str]) -> Path | None:
    """The librccl or libnccl that the loader finds for a program.

    Args:
        program: a benchmark.
        variables: the environment that it will be started in.

    Returns:
        None where that cannot be seen: a script around the benchmark, one linked statically, a
        library that is not there, no ldd.
    """
    ended = child.ask(["ldd", str(program)], timeout_s=20, variables=variables)
    match = _FOUND.search(ended.out)
    return Path(match[1]) if match is not None else None


def version_of(library: Path) -> str | None:
    """``RCCL 2.20.5+hip6.2``, as compiled into a library; None where it is not there.

    Built for every GPU a library has a gigabyte and more: it is searched where it lies.
    """
    try:
        with mapped(library) as content:
            return _version(content)
    except (OSError, ValueError):
        return None


def _version(content: bytes | mmap.mmap) -> str | None:
    at = content.find(_MARK)
    while at >= 0:
        match = VERSION.match(content[max(0, at - 1) : at + _LONGEST])
        if match is not None:
            return " ".join(group.decode("ascii", "replace") for group in match.groups())
        at = content.find(_MARK, at + 1)
    return None
