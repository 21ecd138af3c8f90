"""A Chromium that the machine has, or that scripts/chromium unpacked; playwright drives it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser")


def find() -> tuple[str, dict[str, str]] | str:
    """The program and the environment that it needs, or why there is none."""
    place = Path(os.environ.get("RCCLTUNE_CHROMIUM") or _ROOT / ".venv-chromium")
    own = place / "usr/lib/chromium/chromium"
    if (place / "wanted").exists() and own.exists():
        # Its libraries are unpacked beside it, some in folders of their own.
        libraries = sorted({str(file.parent) for file in place.rglob("*.so*")})
        before = os.environ.get("LD_LIBRARY_PATH")
        path = ":".join([*libraries, *([before] if before else [])])
        return str(own), {**os.environ, "LD_LIBRARY_PATH": path}
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    return (found, dict(os.environ)) if found else "no Chromium here: scripts/chromium unpacks one"
