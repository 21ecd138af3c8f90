"""Duration of what follows a sweep, before a rule is known: choice, verification, verdict."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.measure import passes
from rccltune.measure.perf_sweep import PreparedPerfSweep
from rccltune.model.rule import Rule
from rccltune.model.settings import Setting
from rccltune.verify import pairs
from rccltune.verify.communicators import usual_communicators
from rccltune.verify.pairs import VerificationCalls

# Any setting has as many calls.
_SETTING = Setting.parse("ring/simple")
# Tables are made of the rows of all ranks, a row a step (s, of some processor of 2024).
_EACH_ROW_S = 1.2e-5
_EVALUATION_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofDuration:
    """Seconds that the rules of a sweep roughly take, one part after the other.

    Attributes:
        choosing_s: to make tables and curves of the sweep and choose.
        calls_s: to call the library and the rules in turns.
        judging_s: to make tables of all calls and judge.
    """

    choosing_s: float
    calls_s: float
    judging_s: float

    @property
    def total_s(self) -> float:
        """All of them."""
        return self.choosing_s + self.calls_s + self.judging_s


def expected_proof(prepared: PreparedPerfSweep) -> ProofDuration:
    """How long it takes with rules for all sizes of each collective."""
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
    n_swept = sum(one.n_steps for one in prepared.units)
    return ProofDuration(
        choosing_s=_evaluation_s(n_swept * scale.n_ranks),
        calls_s=passes.expected_s(unit.communicators, prepared.instrument.ground),
        judging_s=_evaluation_s((n_swept + unit.n_steps) * scale.n_ranks),
    )


def _evaluation_s(n_rows: int) -> float:
    return _EVALUATION_S + _EACH_ROW_S * n_rows
