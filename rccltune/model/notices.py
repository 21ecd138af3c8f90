"""What weakens a result, said with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Caution(Enum):
    """The closed set of warnings; each is raised with its remedy."""

    FEW_SAMPLES = "few-samples"
    ONE_RUN = "one-run"
    BURST = "burst"
    NO_BASELINE = "no-baseline"
    DOUBTED_SAMPLES = "doubted-samples"
    NOT_SELECTABLE = "not-selectable"
    UNSTATED_SETTING = "unstated-setting"
    MIXED_VARIANTS = "mixed-variants"
    MISSING_VIEW = "missing-view"
    TOLERANCE_NOT_MET = "tolerance-not-met"
    FILE_OVERRULED = "file-overruled"
    INCOMPLETE_LOG = "incomplete-log"
    LINGERED = "lingered"
    LAUNCH_FAILED = "launch-failed"
    QUARANTINED = "quarantined"
    NOISY_MACHINE = "noisy-machine"
    SILENCE_DIFFERS = "silence-differs"
    METHODS_DISAGREE = "methods-disagree"
    DERIVED_TIME = "derived-time"
    ASSUMED = "assumed"
    BELIEFS_DIFFER = "beliefs-differ"
    EXTRAPOLATED = "extrapolated"
    FORCED_BY_SWITCHES = "forced-by-switches"
    PROTOCOL_OVERWRITTEN = "protocol-overwritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that weakens the result, with its remedy."""

    caution: Caution
    message: str
    remedy: str
    where: str | None = None
