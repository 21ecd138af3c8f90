"""``python -m rccltune``."""

from __future__ import annotations

from rccltune.cli import main

main()
