"""Findings by what they mean: a sweep is stopped, its figures are uncertain, or only to know."""

from __future__ import annotations

from functools import partial

from rccltune.machine.records import Finding, Severity


def _finding(
    severity: Severity,
    name: str,
    message: str,
    where: str,
    *,
    remedy: str,
    expected: str | None = None,
    spoils: bool = False,
) -> Finding:
    return Finding(
        name=name,
        severity=severity,
        message=message,
        where=where,
        expected=expected,
        remedy=remedy,
        spoils=spoils,
    )


stops = partial(_finding, Severity.STOPS)
warns = partial(_finding, Severity.WARNS)
notes = partial(_finding, Severity.NOTES)
