"""Why a row of the rank program is unusable, and what a whole session adds: failed settings.

A time is its setting's own where the library asked about every call, was answered what was asked
for, and said at a check or call of the same setting, collective, type and size that it ran just
that; otherwise it has an :class:`~rccltune.model.vocabulary.UnusableReason`. Baseline and idle are
whatever the library does by itself. ``logs/unusable_timings.py`` says it of timings in a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rccltune.model.failure import ExcludedSetting
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import UnusableReason
from rccltune.ranks import plan
from rccltune.ranks.plan import setting_of

if TYPE_CHECKING:
    import pandas as pd


def why_unusable_rows(table: pd.DataFrame) -> list[str]:
    """Why the time of each row is not its setting's own; empty where it is, or nothing is timed.

    Args:
        table: of :mod:`rccltune.ranks.rows`, but for this column.
    """
    names = ("step", "setting", "time_us", "made", "asked", "answer", "ran")
    columns = zip(*(table[name] for name in names), strict=True)
    reasons = []
    for step, word, time_us, n_calls, tuner_calls, answer, ran in columns:
        reason: UnusableReason | None = None
        if step == plan.MEASURE and not time_us > 0:
            reason = UnusableReason.NO_TIME
        elif step == plan.MEASURE:
            reason = _why_unusable_time(
                Setting.parse(word),
                answered=setting_of(answer),
                executed=setting_of(ran),
                # More is no fault: NCCL 2.29.2 and 2.29.3 ask twice about a call that a symmetric
                # kernel could serve, by the same arguments (src/scheduler/symmetric_sched.cc:103);
                # what ran decides.
                is_bypassed=not tuner_calls >= n_calls,
            )
        reasons.append("" if reason is None else reason.value)
    return reasons


def _why_unusable_time(
    setting: Setting, *, answered: Setting | None, executed: Setting | None, is_bypassed: bool
) -> UnusableReason | None:
    """Why a time is not its setting's own; None where it is.

    Args:
        setting: that is timed.
        answered: by the plugin; None where it answered nothing.
        executed: as the library said; None where it said nothing.
        is_bypassed: the library made calls without a question that counts.
    """
    if setting.role is not Role.FORCED:
        is_other = setting.role is Role.IDLE and answered is not None
        return UnusableReason.SUBSTITUTED if is_other else None
    if is_bypassed:
        return UnusableReason.BYPASSED
    if answered is None:
        return UnusableReason.INELIGIBLE
    if setting.contradicts(answered) or (executed and setting.contradicts(executed)):
        return UnusableReason.SUBSTITUTED
    return UnusableReason.UNPROVEN if executed is None else None


def why_unusable_samples(samples: pd.DataFrame, excluded: Iterable[ExcludedSetting]) -> pd.Series:
    """Why each time of a session must not be used; empty where it may.

    Args:
        samples: a table of samples (:mod:`rccltune.session.sample_table`), with what its source
            itself says against a time in ``unusable``.
        excluded: settings that are measured no more.
    """
    import pandas as pd

    names = {(one.collective.value, str(one.setting)) for one in excluded}
    pairs = zip(samples["collective"], samples["setting"], strict=True)
    is_excluded = pd.Series([pair in names for pair in pairs], index=samples.index, dtype=bool)
    reasons = samples["unusable"].astype(object)
    is_wrong = (samples["wrong"] > 0).fillna(value=False) | (reasons == UnusableReason.WRONG.value)
    reasons = reasons.mask(is_excluded, UnusableReason.EXCLUDED.value)
    final: pd.Series = reasons.mask(is_wrong.astype(bool), UnusableReason.WRONG.value)
    return final
