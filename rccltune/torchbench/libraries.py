"""Which RCCL or NCCL this process talks to: the file that it has mapped, its version and hash."""

from __future__ import annotations

import ctypes
import hashlib
import re
from pathlib import Path
from typing import Final

_LIBRARY: Final = re.compile(r"(/\S*/lib([rn])ccl(?:x)?\.so[.\d]*)$")
# Where the library is linked into torch's own.
_HOLDER: Final = re.compile(r"(/\S*/libtorch_(?:cuda|hip)\.so)$")


def mapped() -> Path | None:
    """The file with the library in it, None where this process has none."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    for pattern in (_LIBRARY, _HOLDER):
        found = [match for match in map(pattern.search, lines) if match is not None]
        if found:
            return Path(found[0][1])
    return None


def said(path: Path) -> list[str]:
    """Lines that name it, for the benchmark's head."""
    kind = "NCCL" if "nccl" in path.name or "cuda" in path.name else "RCCL"
    version = _version(path)
    lines = [f"Library: {path} sha256={_sha256(path)}"]
    # As rccl-tests with a new RCCL say it.
    return lines if version is None else [f"{kind} version : {version}", *lines]


def _version(path: Path) -> str | None:
    """As the loaded library says it itself."""
    try:
        ask = ctypes.CDLL(str(path)).ncclGetVersion
    except (OSError, AttributeError):
        return None
    number = ctypes.c_int()
    if ask(ctypes.byref(number)) != 0:
        return None
    # Five digits since 2.9 (NCCL 2.30.7 src/nccl.h.in, NCCL_VERSION).
    return f"{number.value // 10_000}.{number.value % 10_000 // 100}.{number.value % 100}"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()
