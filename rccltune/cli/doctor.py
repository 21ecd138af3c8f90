"""``rccltune doctor``: what would spoil a measurement here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common, styled
from rccltune.cli.help import verb
from rccltune.model.errors import MachineError
from rccltune.model.text import JoinedLines, join_lines

if TYPE_CHECKING:
    from rccltune.machine.findings import Finding


@verb("doctor")
@click.option("--strict", is_flag=True, help="Exit with 4 on warnings too.")
@common
def doctor(*, console: Console, strict: bool) -> None:
    """Say what would spoil or falsify a measurement here, and the command that mends it.

    Reads and changes nothing. Each finding says what is there, where it was read, the remedy, and
    whether it makes results unrepeatable. "stops": a sweep cannot run; "warns": it runs and its
    figures may be wrong; "notes": to know and to keep the same. RCCLTUNE_SYSROOT names a captured
    machine to look at instead.

    \b
    Example:
      rccltune doctor --strict && rccltune sweep

    Exit codes: 0 done, also with warnings; 4 a sweep cannot run here (--strict: or a warning).
    """
    from rccltune.machine import this_machine
    from rccltune.machine.diagnosis import diagnose_host
    from rccltune.machine.findings import allows_sweep
    from rccltune.machine.host_state import read_host_state

    captured = os.environ.get("RCCLTUNE_SYSROOT")
    system = this_machine.detect_this_machine(Path(captured) if captured else None)
    findings = diagnose_host(read_host_state(system))
    is_ready = allows_sweep(findings, strict=strict)
    ending = ["Ready: nothing here stops a measurement."] * is_ready
    console.result(
        {"format": 1, "findings": findings},
        join_lines(
            (part for part in (_print_findings(findings, console), *ending) if part), gap="\n\n"
        ),
    )
    _end(findings, strict=strict)
    console.say("Next: rccltune tune")


def _end(findings: tuple[Finding, ...], *, strict: bool) -> None:
    from rccltune.machine.findings import Severity

    counts = Counter(finding.severity for finding in findings)
    if counts[Severity.STOPS]:
        stoppers = ", ".join(f.name for f in findings if f.severity is Severity.STOPS)
        raise MachineError(
            f"a sweep cannot run here: {stoppers}",
            hint="mend what 'stops' above; without a GPU: rccltune tune --simulate mi300x "
            "--mode cpx-nps4.",
        )
    if strict and counts[Severity.WARNS]:
        raise MachineError(
            f"{counts[Severity.WARNS]} warnings, and --strict was said",
            hint="mend what 'warns' above.",
        )


def _print_findings(findings: Iterable[Finding], console: Console) -> JoinedLines:
    """Findings as text, one paragraph each."""
    colors = {"stops": "red", "warns": "yellow", "notes": "cyan"}

    def paragraph(finding: Finding) -> JoinedLines:
        word = finding.severity.value
        head = styled(word, colors[word] if console.color else None)
        lines = [
            join_lines([head, f"  {finding.name}: {finding.message}"], gap=""),
            f"       at: {finding.where}",
        ]
        lines.append(f"       remedy: {finding.remedy}")
        if finding.spoils:
            verb = "must stay the same for" if word == "notes" else "spoils"
            lines.append(f"       {verb} repeatable results")
        return join_lines(lines)

    return join_lines(map(paragraph, findings), gap="\n\n")
