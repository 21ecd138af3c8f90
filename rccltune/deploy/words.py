"""Sentences and quoting that several of the files share."""

from __future__ import annotations

import textwrap
from typing import Final

from rccltune.deploy.records import Delivery

_WIDTH: Final = 98
SIMULATED: Final = (
    "SIMULATED: these rules come from a stand-in benchmark, not from hardware; not for production"
)
NOT_VERIFIED: Final = "NOT VERIFIED against the untouched site (rccltune verify)"


def remark(delivery: Delivery) -> str:
    """What everybody must know about the rules; empty where nothing speaks against them."""
    said = [SIMULATED] if delivery.simulated else []
    if any(one.verified is None for one in delivery.rules):
        said.append(NOT_VERIFIED)
    return "; ".join(said)


def header(delivery: Delivery, version: str, mark: str = "#") -> list[str]:
    """The first lines of every text: what it is of, and what speaks against it."""
    lines = [f"{mark} rccltune deployment, version {version}"]
    if delivery.simulated:
        lines.append(f"{mark} {SIMULATED}")
    # A backslash at its end makes Tcl take the next line into a comment.
    lines += [f"{mark} {text}".rstrip("\\") for text in textwrap.wrap(verdict(delivery), _WIDTH)]
    return lines


def verdict(delivery: Delivery) -> str:
    """Whether the rules were verified, in a sentence."""
    said = [
        f"{one.name}: {f'verified: {one.verified}' if one.verified else NOT_VERIFIED}"
        for one in delivery.rules
    ]
    return "; ".join(said)


def tcl(text: str) -> str:
    """A text as one Tcl word."""
    for letter in ("\\", '"', "$", "[", "]", "{", "}"):
        text = text.replace(letter, f"\\{letter}")
    return f'"{text}"'


def lua(text: str) -> str:
    """A text as a Lua string."""
    for letter, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(letter, written)
    return f'"{text}"'
