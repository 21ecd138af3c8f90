"""Environments against the library as it is, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rccltune.model import Environment


def environment_lines(environments: Iterable[Environment]) -> list[str]:
    """What each variant gains and costs, and which one the rules are for."""
    from rccltune.rules import finding_lines

    lines: list[str] = []
    for one in environments:
        fate = _fate(one)
        exports = " ".join(f"{name}={value}" for name, value in one.variant.environment)
        lines.append(f"variant {one.variant.name} ({exports or 'no environment'}): {fate}")
        lines += [f"  {line}" for gain in one.gains for line in finding_lines(gain)]
    return lines


def _fate(one: Environment) -> str:
    if one.chosen:
        return "the rules are for it"
    if one.recommended:
        return "it wins more than rules alone: rules for it are in a file of their own"
    return one.against or "another gains more"
