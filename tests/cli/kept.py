"""Sweeps whose session is where a test begins: made once by a worker, copied from then on."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from rccltune.cli import run

_made: dict[tuple[str, ...], Path] = {}
# Where they lie; the tests' session sets it (conftest.py).
folder = Path()


def sweep_once(words: Sequence[str], session: Path) -> int:
    """The exit code of ``run(["sweep", "--runner", "rccl-tests", *words, "-o", session])``, which says nothing where it is copied.

    Args:
        words: of the command line. A file among them counts by what it says, not by its name.
        session: where to; what lies there goes on, and is swept as ever.
    """
    said = tuple(Path(word).read_text() if Path(word).is_file() else word for word in words)
    if session.exists():
        return run(["sweep", "--runner", "rccl-tests", *words, "-o", str(session)])
    if said not in _made:
        kept = folder / str(len(_made))
        # A session goes on with the file that it was made with, and a test may write over its own.
        code = run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *(_of_its_own(word, kept) for word in words),
                "-o",
                str(kept),
            ]
        )
        if code:
            return code
        _made[said] = kept
    shutil.copytree(_made[said], session)
    return 0


def _of_its_own(word: str, kept: Path) -> str:
    if not Path(word).is_file():
        return word
    place = kept.with_name(f"{kept.name}-files")
    place.mkdir(exist_ok=True)
    return shutil.copy(word, place)
