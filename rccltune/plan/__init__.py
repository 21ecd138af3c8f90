"""The plan room: a sweep and what is there, turned into launches in an order that spreads drift.

Pure: it starts nothing and looks at nothing. Every setting of every collective is either in a
launch or in the list of what is impossible here, with the reason. ``launches`` plans one launch for
each setting, ``walks`` launches that walk through many, ``continuing`` what comes after a walk that
failed.
"""

from rccltune.plan.continuing import alone, continuation, is_walked, n_kept
from rccltune.plan.launches import (
    N_BASELINES,
    Ground,
    Impossible,
    Plan,
    benchmark_options,
    default_settings,
    digest,
    estimate_s,
    plan,
    sizes,
    why_impossible,
    with_ids,
)
from rccltune.plan.walks import LONGEST_S, plan_walks, schedule_text, why_no_walk

__all__ = [
    "LONGEST_S",
    "N_BASELINES",
    "Ground",
    "Impossible",
    "Plan",
    "alone",
    "benchmark_options",
    "continuation",
    "default_settings",
    "digest",
    "estimate_s",
    "is_walked",
    "n_kept",
    "plan",
    "plan_walks",
    "schedule_text",
    "sizes",
    "why_impossible",
    "why_no_walk",
    "with_ids",
]
