"""What the module for jobs writes, and how it is run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]


def written(folder: Path) -> dict[str, Any]:
    """What the module left of the one process that a job had."""
    [path] = folder.glob("steps-*.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
