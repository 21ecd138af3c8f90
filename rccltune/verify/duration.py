"""How long a verification takes at most, before a rule is known."""

from __future__ import annotations

from rccltune.measure import passes
from rccltune.measure.perf_sweep import PreparedPerfSweep
from rccltune.model import defaults
from rccltune.model.choice import Rule
from rccltune.model.settings import Setting
from rccltune.verify import pairs
from rccltune.verify.pairs import VerificationCalls

# Any setting has as many calls.
_SETTING = Setting.parse("ring/simple")


def expected_s(prepared: PreparedPerfSweep) -> float:
    """Seconds that it takes at most: a rule for all sizes of each collective, narrowed once."""
    wanted, scale = prepared.measuring.wanted, prepared.instrument.site.scale
    sizes = []
    for collective, swept in wanted.sizes.items():
        if collective.is_tunable:
            rule = Rule(
                collective=collective,
                min_nbytes=swept[0],
                max_nbytes=swept[-1],
                setting=_SETTING,
            )
            sizes.append(pairs.sizes_of([rule], collective, swept, (), scale))
    calls = VerificationCalls(
        sizes=tuple(sizes),
        placements=wanted.placements,
        dtype=wanted.dtype,
        op=wanted.op,
        timing=wanted.timing,
        checked_up_to=wanted.checked_up_to,
    )
    n = defaults.VERIFY_COMMUNICATORS
    if scale.n_ranks >= defaults.MANY_RANKS:
        n = defaults.FEWER_VERIFY_COMMUNICATORS
    return 2 * passes.expected_s(pairs.unit(calls, n, "", "").communicators, scale.n_ranks)
