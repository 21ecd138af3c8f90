"""The records that rooms hand to each other: frozen, validated, without any input or output.

A missing number is ``None``, never NaN or 0, and unknown agrees with unknown only. Times are
microseconds, sizes bytes as the tuner sees them (totals over ranks for all_gather and
reduce_scatter, which is the size column of rccl-tests).
"""

from __future__ import annotations

from rccltune.model.agreement import Equivalence, Silence, SizeRatio, Stretch
from rccltune.model.chosen import (
    BASELINE_UNKNOWN,
    NOT_BEATEN,
    NOT_MEASURED,
    NOTHING_SELECTABLE,
    Gain,
    Judgement,
    LeftOut,
    Proof,
    Rule,
    Verdict,
    Zone,
)
from rccltune.model.failing import Failure, Quarantine
from rccltune.model.fitted import (
    Crossover,
    Curve,
    CurvePoint,
    Evidence,
    Fit,
    Model,
    Segment,
    Separation,
)
from rccltune.model.links import (
    LinkClass,
    LinkMap,
    LinkRow,
    PairTimes,
    Spread,
)
from rccltune.model.measured import (
    Fingerprint,
    Launch,
    Outcome,
    Questions,
    Sample,
    Schedule,
    Stated,
    Status,
    Sweep,
)
from rccltune.model.notices import (
    Caution,
    Notice,
)
from rccltune.model.settings import (
    BASELINE,
    DEFAULT_VARIANT,
    KNOWN_VARIANTS,
    LL128_FORCED,
    SILENT,
    TREE_SIMPLE_PATCHED,
    UNSTATED,
    CurveKey,
    Mode,
    Role,
    Scale,
    Setting,
    Target,
    Variant,
    View,
    base_variant,
)

__all__ = [
    "BASELINE",
    "BASELINE_UNKNOWN",
    "DEFAULT_VARIANT",
    "KNOWN_VARIANTS",
    "LL128_FORCED",
    "NOTHING_SELECTABLE",
    "NOT_BEATEN",
    "NOT_MEASURED",
    "SILENT",
    "TREE_SIMPLE_PATCHED",
    "UNSTATED",
    "Caution",
    "Crossover",
    "Curve",
    "CurveKey",
    "CurvePoint",
    "Equivalence",
    "Evidence",
    "Failure",
    "Fingerprint",
    "Fit",
    "Gain",
    "Judgement",
    "Launch",
    "LeftOut",
    "LinkClass",
    "LinkMap",
    "LinkRow",
    "Mode",
    "Model",
    "Notice",
    "Outcome",
    "PairTimes",
    "Proof",
    "Quarantine",
    "Questions",
    "Role",
    "Rule",
    "Sample",
    "Scale",
    "Schedule",
    "Segment",
    "Separation",
    "Setting",
    "Silence",
    "SizeRatio",
    "Spread",
    "Stated",
    "Status",
    "Stretch",
    "Sweep",
    "Target",
    "Variant",
    "Verdict",
    "View",
    "Zone",
    "base_variant",
]
