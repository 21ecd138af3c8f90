"""The doctor: what would spoil or falsify a measurement here; reads, and changes nothing.

Each check is a function from circumstances to findings. A file that cannot be read is no finding:
not knowing is said by what the file would have told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rccltune.machine.checks import gpu, host, software
from rccltune.machine.checks.facts import Circumstances
from rccltune.machine.records import Finding, Severity
from rccltune.machine.situation import situations

CHECKS: Final[tuple[Callable[[Circumstances], Iterator[Finding]], ...]] = (
    *gpu.CHECKS,
    *host.KERNEL_CHECKS,
    *host.CHECKS,
    *software.VARIABLE_CHECKS,
    *software.CHECKS,
    *gpu.PRACTICES,
)
# Of a simulated node: what its ranks, which are processes here, share with this machine.
_SIMULATED: Final[tuple[Callable[[Circumstances], Iterator[Finding]], ...]] = (
    host.open_files,
    host.shared_memory,
    software.strays,
    software.launcher,
)
_ORDER: Final = tuple(Severity)


def doctor(facts: Circumstances) -> tuple[Finding, ...]:
    """All findings, what stops a sweep first."""
    found = [*situations(facts.system, facts.variables)]
    for check in CHECKS:
        found.extend(check(facts))
    return _sorted(found)


def doctor_of_simulation(facts: Circumstances) -> tuple[Finding, ...]:
    """The findings that matter to a sweep of a simulated node on this machine."""
    return _sorted([finding for check in _SIMULATED for finding in check(facts)])


def _sorted(found: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))
