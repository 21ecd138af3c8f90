"""Duration of a verification, before a rule is known."""

from __future__ import annotations

from rccltune.measure import passes
from rccltune.measure.perf_sweep import PreparedPerfSweep
from rccltune.model.rule import Rule
from rccltune.model.settings import Setting
from rccltune.verify import pairs
from rccltune.verify.communicators import usual_communicators
from rccltune.verify.pairs import VerificationCalls

# Any setting has as many calls.
_SETTING = Setting.parse("ring/simple")


def expected_s(prepared: PreparedPerfSweep) -> float:
    """Seconds that it takes with rules for all sizes of each collective."""
    wanted, scale = prepared.measuring.scope, prepared.instrument.site.scale
    sizes = []
    for collective, swept in wanted.sizes.items():
        if collective.is_tunable:
            rule = Rule(
                collective=collective,
                min_nbytes=swept[0],
                max_nbytes=swept[-1],
                setting=_SETTING,
            )
            sizes.append(pairs.choose_sizes([rule], collective, swept, (), scale))
    calls = VerificationCalls(
        sizes=tuple(sizes),
        placements=wanted.placements,
        dtype=wanted.dtype,
        op=wanted.op,
        timing=wanted.timing,
        checked_up_to=wanted.checked_up_to,
    )
    unit = pairs.plan_communicators(calls, usual_communicators(scale.n_ranks), "", "")
    return passes.expected_s(unit.communicators, prepared.instrument.ground)
