"""The fit room: samples to curves, curves to crossovers. Pure; numpy stays inside.

Why three models: a latency plus bytes over bandwidth is what RCCL itself believes and what a
person can read, but real curves have plateaus, steps and kinks (17-76 % off on public data), so a
model with several straight pieces and the measured points themselves stand beside it, and the
error at sizes left out says which of them to trust.
"""

from __future__ import annotations

from rccltune.fit.constants import fit_constants, foresee
from rccltune.fit.crossing import crossovers, winner_order
from rccltune.fit.equivalence import equivalence_notices, equivalences
from rccltune.fit.fitting import Fitted, curves
from rccltune.fit.predicting import predict, times
from rccltune.fit.silence import silence_notices, silences, strengthened
from rccltune.fit.steps import STEPS_NOTE, blog_steps, rccl_steps, separate

__all__ = [
    "STEPS_NOTE",
    "Fitted",
    "blog_steps",
    "crossovers",
    "curves",
    "equivalence_notices",
    "equivalences",
    "fit_constants",
    "foresee",
    "predict",
    "rccl_steps",
    "separate",
    "silence_notices",
    "silences",
    "strengthened",
    "times",
    "winner_order",
]
