"""A machine alone, where rccltune is not installed: ``python3 -m gather`` beside this folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .machine import as_text, gather
from .scrub import Scrubber


def main() -> int:
    """Write the file, or say what would be in it."""
    parser = argparse.ArgumentParser(
        prog="gather-system",
        description="Gathers what rccltune's detection needs of a machine into one text file. "
        "It changes nothing and sends nothing.",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("gathered-system.txt"))
    parser.add_argument("--root", type=Path, default=Path("/"), help="a captured machine's files")
    parser.add_argument("--list", action="store_true", help="say what would be taken, and stop")
    options = parser.parse_args()
    if not options.root.is_dir():
        parser.error(f"{options.root} is no folder")
    names = Scrubber()
    blocks = gather(options.root, names)
    if options.list:
        print("\n".join(f"{block.kind} {block.name}" for block in blocks))
        return 0
    try:
        with options.output.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(as_text(blocks, names))
    except OSError as error:
        parser.error(f"{options.output} cannot be written: {error.strerror}; name another with -o")
    kinds = [block.kind for block in blocks]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    print(f"{options.output}: {counts}. Nothing was sent. Read it before you send it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
