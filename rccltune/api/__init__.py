"""Interface for programs and notebooks: a session as tables, and the verbs as functions.

    import rccltune

    session = rccltune.load("rccltune-session")
    session.samples        # pandas DataFrames: samples, curves, crossovers, rules, verdict, …
    rccltune.api.fit("rccltune-session")

No function prints or exits. What the command line would say goes to the logger ``rccltune``; what
it would end with is raised, a :class:`rccltune.model.errors.RccltuneError` with its ``exit_code``.
"""

from rccltune.api.comparing import compare
from rccltune.api.frames import read_rules
from rccltune.api.loaded import Loaded, load
from rccltune.api.measuring_verbs import sweep, tune, verify
from rccltune.api.verbs import (
    deploy,
    detect,
    doctor,
    emit_config,
    explain,
    fit,
    import_logs,
    job,
    plot,
    report,
    why,
    workload,
)
from rccltune.model.units import format_size

__all__ = [
    "Loaded",
    "compare",
    "deploy",
    "detect",
    "doctor",
    "emit_config",
    "explain",
    "fit",
    "format_size",
    "import_logs",
    "job",
    "load",
    "plot",
    "read_rules",
    "report",
    "sweep",
    "tune",
    "verify",
    "why",
    "workload",
]
