"""A finding about the machine: what is there, who said so, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial


class Severity(Enum):
    """Severity of a finding for a sweep."""

    STOPS = "stops"
    WARNS = "warns"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the machine that a user should know, with what to do about it.

    Attributes:
        name: one word with hyphens, the same in every release.
        message: what is there.
        where: file, variable or program that said so.
        remedy: the command, or one imperative sentence.
        spoils: whether results stop being repeatable.
    """

    severity: Severity
    name: str
    message: str
    where: str
    remedy: str = field(kw_only=True)
    spoils: bool = field(default=False, kw_only=True)


stops = partial(Finding, Severity.STOPS)
warns = partial(Finding, Severity.WARNS)
notes = partial(Finding, Severity.NOTES)


def allows_sweep(findings: tuple[Finding, ...], *, strict: bool) -> bool:
    """Whether a sweep may run."""
    bad = (Severity.STOPS, Severity.WARNS) if strict else (Severity.STOPS,)
    return not any(finding.severity in bad for finding in findings)
