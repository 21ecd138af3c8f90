"""The shipped CPX node on eight ranks: the same curves and noise for a tenth of the time.

A simulated benchmark asks the plugin for each of its ranks at each call, and rccltune reads what
each rank says; what is promised of rules and launches is the same on eight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yamls

from rccltune.simulate import sources

RANKS: Final = 8


def raw_node() -> dict[str, Any]:
    """What its file says; a test may change it."""
    text = sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8")
    raw: dict[str, Any] = yamls.loaded(text)
    raw["scale"] |= {"ranks": RANKS, "devices_per_oam": RANKS}
    raw["fill"] = [{"ranks": RANKS, "placement": "node"}]
    raw["curves"] = [c | {"ranks": RANKS} for c in raw["curves"] if c.get("placement") == "node"]
    return raw


def written(raw: dict[str, Any], path: Path) -> Path:
    """A node file of it; its whole path."""
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    return path.resolve()
