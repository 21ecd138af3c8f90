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
    *host.CHECKS,
    *software.CHECKS,
)
_ORDER: Final = tuple(Severity)


def doctor(facts: Circumstances) -> tuple[Finding, ...]:
    """All findings in order of harm: what stops a sweep, then what makes figures unrepeatable."""
    found = [*situations(facts.system, facts.variables)]
    for check in CHECKS:
        found.extend(check(facts))
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.severity), not one.spoils)))
