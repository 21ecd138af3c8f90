"""The plan room: a sweep and what is there, turned into launches in an order that spreads drift.

Pure: it starts nothing and looks at nothing. Every setting of every collective is either in a
launch or in the list of what is impossible here, with the reason. ``launches`` plans one launch for
each setting, ``walks`` launches that walk through many, ``rounds`` those of one round of a search,
``controlling`` the separate launches that walks are compared with, ``continuing`` what comes after
a walk that failed.
"""

from rccltune.plan.calling import NEAR, called_sizes, grain, nearest
from rccltune.plan.continuing import alone, continuation, is_walked, n_kept
from rccltune.plan.controlling import N_CONTROL_SIZES, controls
from rccltune.plan.launches import (
    N_BASELINES,
    Ground,
    Impossible,
    Plan,
    arms,
    benchmark_options,
    default_settings,
    digest,
    estimate_s,
    launch_of,
    over_own,
    passes_of,
    plan,
    repeat_letter,
    sizes,
    sizes_of,
    why_impossible,
    with_ids,
)
from rccltune.plan.parting import parted
from rccltune.plan.rounds import Pace, plan_round, seconds
from rccltune.plan.varying import plan_variants
from rccltune.plan.verifying import Condition, conditions, plan_verification, verified_sizes
from rccltune.plan.walks import plan_walks, schedule_text, why_no_walk

__all__ = [
    "NEAR",
    "N_BASELINES",
    "N_CONTROL_SIZES",
    "Condition",
    "Ground",
    "Impossible",
    "Pace",
    "Plan",
    "alone",
    "arms",
    "benchmark_options",
    "called_sizes",
    "conditions",
    "continuation",
    "controls",
    "default_settings",
    "digest",
    "estimate_s",
    "grain",
    "is_walked",
    "launch_of",
    "n_kept",
    "nearest",
    "over_own",
    "parted",
    "passes_of",
    "plan",
    "plan_round",
    "plan_variants",
    "plan_verification",
    "plan_walks",
    "repeat_letter",
    "schedule_text",
    "seconds",
    "sizes",
    "sizes_of",
    "verified_sizes",
    "why_impossible",
    "why_no_walk",
    "with_ids",
]
