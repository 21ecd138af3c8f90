"""Why a timing of a log is unusable; ``ranks/unusable_rows.py`` says it of the rank program's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Final

from rccltune.logs.facts import LogRun
from rccltune.logs.timings import number_mixes
from rccltune.model.settings import CurveKey, Role, Setting
from rccltune.model.vocabulary import DTYPE_BYTES, Collective, UnusableReason

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


def why_unusable_timings(
    run: LogRun,
    rows: pd.DataFrame,
    curves: Sequence[CurveKey],
    ran: pd.Series[int],
    settings: Sequence[Setting | None],
) -> np.ndarray[Any, Any]:
    """Why each timing of a run must not be used; empty where it may. The first reason counts.

    Args:
        run: of a log.
        rows: its samples, a row a timing, but for this column.
        curves: key of each curve, by its number in ``rows``.
        ran: number of the setting that ran at each row, -1 where it is not known.
        settings: by that number; the last one is None, for -1.
    """
    import numpy as np

    def of_curve(read: Callable[[CurveKey], Any]) -> np.ndarray[Any, Any]:
        return np.array([read(one) for one in curves])[rows["key"]]

    # The summary counts wrong results; where no row shows which, none can be trusted.
    all_wrong = run.out_of_bounds > 0 and not (rows["wrong"] > 0).any()
    is_forced = of_curve(lambda one: one.setting.role is Role.FORCED)
    bypassed = run.timings["bypassed"].to_numpy()
    is_checked = ~of_curve(lambda one: one.collective.has_own_algbw)
    is_type_known = of_curve(lambda one: one.dtype is None or one.dtype in DTYPE_BYTES)
    reasons = (
        (UnusableReason.WRONG, (rows["wrong"] > 0) | all_wrong),
        (UnusableReason.ZERO_BYTES, rows["nbytes"] == 0),
        (UnusableReason.NO_TIME, rows["time_us"].isna()),
        (UnusableReason.ONE_RANK, of_curve(lambda one: one.scale.n_ranks == 1)),
        (UnusableReason.INCONSISTENT, run.timings["odd"] & is_checked),
        (UnusableReason.BYPASSED, bypassed & is_forced),
        # Whatever path an untouched library takes is what it does.
        (None, bypassed & ~is_forced),
        (UnusableReason.UNKNOWN_TYPE, ~is_type_known),
        (UnusableReason.INCONSISTENT, _are_counts_wrong(rows, of_curve) & is_checked),
        (UnusableReason.SUBSTITUTED, _find_substituted(rows["key"], ran, curves, settings)),
        (UnusableReason.UNPROVEN, of_curve(lambda one: one.setting.role is Role.UNSTATED)),
    )
    return np.select(
        [np.asarray(flag, dtype=bool) for _, flag in reasons],
        ["" if reason is None else reason.value for reason, _ in reasons],
        "",
    )


def _find_substituted(
    key: pd.Series[int],
    ran: pd.Series[int],
    curves: Sequence[CurveKey],
    settings: Sequence[Setting | None],
) -> np.ndarray[Any, Any]:
    """Whether another setting ran at each row than was asked for."""
    import numpy as np
    import pandas as pd

    mix, first = number_mixes(pd.DataFrame({"key": key, "ran": ran}), ["key", "ran"])
    differs = []
    for at, number in first.to_numpy():
        setting = settings[number]
        differs.append(setting is not None and curves[at].setting.contradicts(setting))
    return np.array(differs)[mix]


# A tool may write sizes of a share in either way: of one rank, or of all.
_WHOLE: Final = frozenset(
    (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE, Collective.SENDRECV)
)


def _are_counts_wrong(
    rows: pd.DataFrame, of_curve: Callable[[Callable[[CurveKey], Any]], np.ndarray[Any, Any]]
) -> pd.Series[bool]:
    """Whether size and count of elements are not of one row.

    The count is that of one rank's share in newer benchmarks, of the whole in older ones.
    """
    width = of_curve(lambda one: DTYPE_BYTES.get(one.dtype or "", nan))
    share = of_curve(lambda one: 1 if one.collective in _WHOLE else one.scale.n_ranks)
    total = rows["count"] * width
    differs = (total != rows["nbytes"]) & (total * share != rows["nbytes"])
    is_wrong: pd.Series[bool] = total.notna() & differs
    return is_wrong
