"""What weakens a result, said with its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from rccltune.fields import Line, Text


class Caution(Enum):
    """The closed set of warnings; each is raised with its remedy."""

    ONE_RUN = "one-run"
    BURST = "burst"
    NO_BASELINE = "no-baseline"
    DOUBTED_SAMPLES = "doubted-samples"
    NOT_SELECTABLE = "not-selectable"
    UNSTATED_SETTING = "unstated-setting"
    MISSING_VIEW = "missing-view"
    TOLERANCE_NOT_MET = "tolerance-not-met"
    FILE_OVERRULED = "file-overruled"
    INCOMPLETE_LOG = "incomplete-log"
    LINGERED = "lingered"
    LAUNCH_FAILED = "launch-failed"
    QUARANTINED = "quarantined"
    SILENCE_DIFFERS = "silence-differs"
    METHODS_DISAGREE = "methods-disagree"
    DERIVED_TIME = "derived-time"
    ASSUMED = "assumed"
    BELIEFS_DIFFER = "beliefs-differ"
    EXTRAPOLATED = "extrapolated"
    FORCED_BY_SWITCHES = "forced-by-switches"
    PROTOCOL_OVERWRITTEN = "protocol-overwritten"

    @property
    def meaning(self) -> str:
        """One line for docs/exit-codes.md; the message of a notice says what happened this time."""
        return _MEANING[self]


_MEANING: Final = {
    Caution.ONE_RUN: "measured in one launch: a few percent are noise",
    Caution.BURST: "a time was far above what other launches had there, and was left out",
    Caution.NO_BASELINE: "the untouched library was not measured: nothing is said to beat it",
    Caution.DOUBTED_SAMPLES: "samples were not used, for the doubts below",
    Caution.NOT_SELECTABLE: "measured, and no rule can choose it",
    Caution.UNSTATED_SETTING: "nothing says which setting ran, so the samples are used for nothing",
    Caution.MISSING_VIEW: "not measured in every type and placement that other settings were",
    Caution.TOLERANCE_NOT_MET: "no setting is good everywhere: the least bad was taken",
    Caution.FILE_OVERRULED: "an option contradicts the file, and the option is believed",
    Caution.INCOMPLETE_LOG: "rows of a log are missing, cut or damaged",
    Caution.LINGERED: "the launcher outlived its ranks and was ended",
    Caution.LAUNCH_FAILED: "a launch failed; others go on",
    Caution.QUARANTINED: "a setting failed twice and is measured no more",
    Caution.SILENCE_DIFFERS: "our plugin answering nothing is not as fast as the untouched site",
    Caution.METHODS_DISAGREE: "one launch for all settings and separate launches differ",
    Caution.DERIVED_TIME: "times were worked out from bandwidths, with their few digits",
    Caution.ASSUMED: "the file does not say it, and something was assumed",
    Caution.BELIEFS_DIFFER: "the library predicted differently twice, or its trace is unreadable",
    Caution.EXTRAPOLATED: "predicted, not measured",
    Caution.FORCED_BY_SWITCHES: "the library measured has no tuner and cannot use the rules",
    Caution.PROTOCOL_OVERWRITTEN: "on several nodes the library sets the protocol after the tuner",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that weakens the result, with its remedy."""

    caution: Caution
    message: Text
    remedy: Text
    where: Line | None = None
