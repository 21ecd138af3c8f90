"""``rccltune doctor``: what would spoil a measurement here."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common
from rccltune.cli.detect import told
from rccltune.cli.help import verb
from rccltune.cli.options import of_a_machine
from rccltune.cli.sweep_options import sweep_option
from rccltune.model.errors import MachineError
from rccltune.model.settings import Mode

if TYPE_CHECKING:
    from rccltune.launch.launchers import Launcher
    from rccltune.machine.records import Finding


@verb("doctor")
@click.option("--strict", is_flag=True, help="Exit with 4 on warnings too.")
@of_a_machine
@sweep_option("simulate", help="Look only at what a sweep of this simulated node needs.")
@sweep_option("mode", help="Mode of the simulated node: cpx-nps4, spx-nps1, …")
@common
def doctor(
    *,
    console: Console,
    strict: bool,
    root: Path | None,
    rccl_tests: Path | None,
    simulate: str | None,
    mode: Mode | None,
) -> None:
    """Say what would spoil or falsify a measurement here, and the command that mends it.

    Reads and changes nothing. Each finding says what is there, where it was read, what is expected,
    the remedy, and whether it makes results unrepeatable. "stops": a sweep cannot run; "warns": it
    runs and its figures may be wrong; "notes": to know and to keep the same.

    \b
    Example:
      rccltune doctor --strict && rccltune sweep
      rccltune doctor --simulate mi300x --mode cpx-nps4

    Exit codes: 0 done, also with warnings; 4 a sweep cannot run here (--strict: or a warning).
    """
    from rccltune.machine import this_machine
    from rccltune.machine.checks.doctor import doctor as machine_doctor
    from rccltune.machine.checks.doctor import doctor_of_simulation
    from rccltune.machine.records import finding_as_plain

    system = this_machine.here(root, rccl_tests)
    facts = this_machine.circumstances(system, live=root is None)
    if simulate is not None:
        console.say(_simulated(simulate, mode))
        findings = doctor_of_simulation(facts)
    else:
        findings = machine_doctor(facts)
    plain = {"format": 1, "findings": [finding_as_plain(finding) for finding in findings]}
    console.result(plain, told(findings, console) or "Nothing in the way.")
    _end(findings, strict=strict)
    console.say(f"Next: {_next(simulate, mode)}")


def _simulated(simulate: str, mode: Mode | None) -> str:
    """What would be measured; that it can be is seen on the way."""
    from rccltune.measure.site import SiteRequest, find_site

    site = find_site(SiteRequest(mode=mode, simulate=simulate))
    name = site.node.name if site.node is not None else simulate
    started = f"{site.scale}, started by {_launcher(site.launcher)}"
    return f"SIMULATED node {name}: {started}; no hardware is measured"


def _launcher(launcher: Launcher) -> str:
    return " ".join(word for word in (launcher.flavour, launcher.version) if word)


def _next(simulate: str | None, mode: Mode | None) -> str:
    if simulate is None:
        return "rccltune tune"
    return f"rccltune tune --simulate {shlex.quote(simulate)}{f' --mode {mode}' if mode else ''}"


def _end(findings: tuple[Finding, ...], *, strict: bool) -> None:
    from rccltune.machine.records import Severity

    counts = Counter(finding.severity for finding in findings)
    if counts[Severity.STOPS]:
        named = ", ".join(f.name for f in findings if f.severity is Severity.STOPS)
        raise MachineError(
            f"a sweep cannot run here: {named}",
            hint="mend what 'stops' above; without a GPU: rccltune tune --simulate mi300x "
            "--mode cpx-nps4.",
        )
    if strict and counts[Severity.WARNS]:
        raise MachineError(
            f"{counts[Severity.WARNS]} warnings, and --strict was said",
            hint="mend what 'warns' above.",
        )
