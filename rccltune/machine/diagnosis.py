"""The doctor: what would spoil or falsify a measurement here; reads, and changes nothing.

Each check is a function from circumstances to findings. A file that cannot be read is no finding:
not knowing is said by what the file would have told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rccltune.machine.checks import gpu, host, job_environment
from rccltune.machine.findings import Finding, Severity
from rccltune.machine.gpu_findings import find_gpu_findings
from rccltune.machine.host_state import HostState

CHECKS: Final[tuple[Callable[[HostState], Iterator[Finding]], ...]] = (
    *gpu.CHECKS,
    *host.CHECKS,
    *job_environment.CHECKS,
)
_ORDER: Final = tuple(Severity)


def diagnose_host(state: HostState) -> tuple[Finding, ...]:
    """All findings in order of harm: what stops a sweep, then what makes figures unrepeatable."""
    findings = [*find_gpu_findings(state.system, state.variables)]
    for check in CHECKS:
        findings.extend(check(state))
    return tuple(sorted(findings, key=lambda one: (_ORDER.index(one.severity), not one.spoils)))
