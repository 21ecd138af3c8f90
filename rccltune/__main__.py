"""``python -m rccltune``."""

from rccltune.cli import main

main()
