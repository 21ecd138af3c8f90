"""The smallest node on two GPUs, and the words of a sweep that takes a second there.

From 64 KiB on ring/simple is faster than ring/ll, which the library takes up to 256 KiB.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yamls

SMALLEST: Final = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
SESSION: Final = "rccltune-session"
RULES: Final = "rccl_tuner_gfx942_spx-nps1.csv"
KIB: Final = 1024
# Times at 64 KiB in the node file, in microseconds: the library's choice there, and the fastest.
LIBRARY_US, FASTEST_US = 60, 36

# LL128 is forced from the start, so that tune makes no second session for it.
ONE_SESSION: Final = ("--env", "RCCL_LL128_FORCE_ENABLE=1")


def node(path: Path, **changes: Any) -> Path:  # noqa: ANN401 - keys of a node file
    """A file of it with changes; its whole path."""
    raw = yamls.loaded(SMALLEST.read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 2
    path.write_text(yamls.dumped(raw | changes), encoding="utf-8")
    return path.resolve()


def words(where: Path | str, *settings: str) -> list[str]:
    """Options of a sweep or tune that measures two settings at five sizes."""
    named = settings or ("ring/ll", "ring/simple")
    return [
        *("--simulate", str(where), "--mode", "spx-nps1", "--collective", "all_reduce"),
        *("--min-bytes", "64K", "--max-bytes", "1M"),
        *(word for setting in named for word in ("--setting", setting)),
    ]


def rows(path: Path) -> list[list[str]]:
    """Data rows of a rule file as any reader of ten columns sees them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.split(",") for line in lines if line and not line.startswith("#")]
