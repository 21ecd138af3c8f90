"""What the module for jobs says in an output, and how it is run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

Run = Callable[..., subprocess.CompletedProcess[str]]


def lines(text: str) -> list[dict[str, Any]]:
    """The module's lines in an output."""
    return [json.loads(line) for line in text.splitlines() if '"rccltune": "steps"' in line]
