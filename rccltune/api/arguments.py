"""Arguments of the interface as the packages below take them, and reporters of progress."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeAlias

from rccltune.measure import sweep_file
from rccltune.model.reporter import Reporter

Place: TypeAlias = str | os.PathLike[str]


def options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Check options as those of a sweep file are, with all mistakes at once."""
    if not options:
        return {}
    import yaml

    text = yaml.safe_dump({name: _plain(value) for name, value in options.items()}, sort_keys=False)
    return sweep_file.read_sweep_file(text, "options")


def _plain(value: object) -> object:
    """Convert a value to what a YAML file holds; records of ours to their words."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def path_of(place: Place | None) -> Path | None:
    """Convert to a path; None stays None."""
    return None if place is None else Path(place)


def paths_of(places: Place | Sequence[Place]) -> tuple[Path, ...]:
    """Convert one or several to paths."""
    if isinstance(places, (str, os.PathLike)):
        return (Path(places),)
    return tuple(Path(place) for place in places)


_LOGGER: Final = logging.getLogger("rccltune")


class LogReporter(Reporter):
    """Sentences for people become records of the logger ``rccltune``."""

    def say(self, text: str) -> None:
        """Take a sentence."""
        _LOGGER.info("%s", text)
