"""All options of a sweep by name, as their declarations say them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, get_type_hints

from rccltune.measure.declaration import Declared
from rccltune.measure.options import SweepOptions


@cache
def declared() -> Mapping[str, Declared]:
    """All options by name, in the order of the help."""
    hints = get_type_hints(SweepOptions, include_extras=True)
    return {
        one.name: Declared.of(one.name, one.default, hints[one.name])
        for one in fields(SweepOptions)
    }


def orders() -> frozenset[str]:
    """Options that name programs, files and variables."""
    return frozenset(name for name, one in declared().items() if one.option.is_order)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those of a command line that were given; click has None and () for the others."""
    said = {name: value for name, value in values.items() if value is not None and value != ()}
    return {
        name: (value,) if declared()[name].is_list and not isinstance(value, tuple) else value
        for name, value in said.items()
    }
