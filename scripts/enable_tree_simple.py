"""Lets Tree+Simple be chosen in a checkout of RCCL's sources, where RCCL leaves it out.

RCCL skips that cell of its table on gfx94x and gfx950 when all GPUs of the topology take part
(``src/graph/tuning.cc``), so that no tuner can choose it. After this edit RCCL_FORCE_TREE_SIMPLE=1
keeps it; without the variable nothing changes. Only the text is edited: building is RCCL's own.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "RCCL_FORCE_TREE_SIMPLE"
# RCCL's own repository, and the monorepo that it moved into in 2025.
LAYOUTS = ("", "projects/rccl")
TUNING = Path("src/graph/tuning.cc")
PARAMETERS = Path("src/include/param.h")
EXIT_REFUSED = 3

# The skip, however it is laid out: its condition names cell, architecture and all ranks.
SKIP = re.compile(
    r"if\s*\(\s*a\s*==\s*NCCL_ALGO_TREE\s*&&\s*p\s*==\s*NCCL_PROTO_SIMPLE(?P<here>)\s*&&"
    r"(?P<rest>[^;{}]*)\)\s*\{?\s*continue\s*;"
)
# Where the file's own parameters begin, at the left edge and under no condition of a function.
PARAMETER = re.compile(r"^NCCL_PARAM\(", re.MULTILINE)
MACRO = re.compile(r"^#define RCCL_PARAM\(", re.MULTILINE)
ASKS = " && !rcclParamForceTreeSimple()"
DECLARES = (
    f"// Added by rccltune: {VARIABLE}=1 leaves Tree+Simple to be chosen on a single node.",
    'RCCL_PARAM(ForceTreeSimple, "FORCE_TREE_SIMPLE", 0);',
    "",
)


class RefusedError(Exception):
    """The place is not as it is known; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An edit of one file.

    Attributes:
        path: of the file.
        old: its text as it is.
        new: as it should be; the same where it has been edited before.
    """

    path: Path
    old: str
    new: str

    @property
    def diff(self) -> str:
        """Unified, with the file's path below the checkout on both sides."""
        old, new = (text.splitlines(keepends=True) for text in (self.old, self.new))
        return "".join(difflib.unified_diff(old, new, f"a/{TUNING}", f"b/{TUNING}"))


def plan(checkout: Path) -> Change:
    """Find the place in a checkout.

    Raises:
        RefusedError: this is no checkout of RCCL, or it is not written as it is known.
    """
    root = _root(checkout)
    path = root / TUNING
    old = _text(path)
    if "ForceTreeSimple" in old:
        return Change(path=path, old=old, new=old)
    if MACRO.search(_text(root / PARAMETERS)) is None:
        raise RefusedError(
            f"{root / PARAMETERS} has no RCCL_PARAM: this is not RCCL (2.21 or newer)"
        )
    return Change(path=path, old=old, new=_edited(path, old))


def _root(checkout: Path) -> Path:
    for layout in LAYOUTS:
        if (checkout / layout / TUNING).is_file():
            return checkout / layout
    raise RefusedError(
        f"{checkout} has neither {TUNING} nor {LAYOUTS[1]}/{TUNING}: name the root of a checkout of "
        "ROCm/rccl or ROCm/rocm-systems"
    )


def _text(path: Path) -> str:
    try:
        # Line ends are kept as they are.
        with path.open(encoding="utf-8", newline="") as stream:
            return stream.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{path} cannot be read: {error}") from error


def _edited(path: Path, old: str) -> str:
    skips = [found for found in SKIP.finditer(old) if _is_ours(found["rest"])]
    if len(skips) != 1:
        raise RefusedError(
            f"{path} skips Tree+Simple for whole topologies in {len(skips)} places, not in one: "
            "this release is not known, look for NCCL_PROTO_SIMPLE in it"
        )
    first = PARAMETER.search(old)
    if first is None or first.start() > skips[0].start():
        raise RefusedError(f"{path} declares no NCCL_PARAM before the place: it is not known")
    end = "\r\n" if "\r\n" in old else "\n"
    at = skips[0].start("here")
    declared = "".join(line + end for line in DECLARES)
    return old[: first.start()] + declared + old[first.start() : at] + ASKS + old[at:]


def _is_ours(rest: str) -> bool:
    """Whether the rest of the condition is the one about architecture and all ranks."""
    return "gfx9" in rest and "nRanks" in rest


def write(change: Change) -> None:
    """Replace the file in one step, with its permissions."""
    handle, name = tempfile.mkstemp(dir=change.path.parent, prefix=change.path.name)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
        stream.write(change.new)
    fresh = Path(name)
    fresh.chmod(change.path.stat().st_mode & 0o7777)
    fresh.replace(change.path)


def main(arguments: list[str] | None = None) -> int:
    """Edit, or with --check only show; 0 done, 3 refused."""
    parser = argparse.ArgumentParser(
        prog="enable-tree-simple",
        description=f"Make {VARIABLE}=1 work in your own checkout of RCCL. Shows the difference.",
        epilog="Then build RCCL by its own instructions and name the library: rccltune sweep "
        "--librccl BUILD/librccl.so. Take it back with: git checkout -- src/graph/tuning.cc",
    )
    parser.add_argument("checkout", type=Path, help="root of ROCm/rccl or ROCm/rocm-systems")
    parser.add_argument("--check", action="store_true", help="show the difference, write nothing")
    options = parser.parse_args(arguments)
    try:
        change = plan(options.checkout)
    except RefusedError as error:
        print(f"Refused, nothing was changed: {error}.", file=sys.stderr)
        return EXIT_REFUSED
    if change.new == change.old:
        print(f"{change.path} has it already; nothing was changed.", file=sys.stderr)
        return 0
    print(change.diff, end="")
    if options.check:
        print(f"Only looked: {change.path} is as it was.", file=sys.stderr)
        return 0
    write(change)
    print(f"{change.path} was edited; build RCCL as it says itself.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
