"""Settings that a session measures no more.

A setting that hangs, crashes or gives wrong results is excluded for its collective, and so is one
with which runs are killed again and again. No setting sends SIGKILL: somebody did, or the kernel
where memory is short, and that is borne twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from rccltune.model.failure import ExcludedSetting, Failure
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Collective
from rccltune.ranks import plan
from rccltune.ranks.runs import Run

if TYPE_CHECKING:
    import pandas as pd

# After so many a setting takes too much memory, or what kills it will go on.
MOST_KILLED: Final = 3


def is_tried_again(failures: Sequence[Failure]) -> bool:
    """Whether what failed so is tried again: it was killed, and not too often.

    Args:
        failures: of one setting, or of one size.
    """
    return len(failures) < MOST_KILLED and all(one is Failure.KILLED for one in failures)


def find_excluded(
    runs: Iterable[Run], table: pd.DataFrame | None = None, *, rules: str = ""
) -> tuple[ExcludedSetting, ...]:
    """Settings that are measured no more.

    Args:
        runs: all runs of a session.
        table: their rows (:mod:`rccltune.ranks.rows`), of which wrong results are looked at;
            None looks at how runs ended alone.
        rules: digest of a rule file whose rules are looked at instead of settings.
    """
    by_number = {run.number: run for run in runs}
    failures: dict[tuple[Collective, Setting], list[tuple[Run, Failure]]] = {}
    for run in by_number.values():
        end = run.ended
        if end is None or end.failure is None or end.rules != rules:
            continue
        if end.setting is not None and end.collective is not None:
            failures.setdefault((end.collective, end.setting), []).append((run, end.failure))
    failures = {
        name: pairs
        for name, pairs in failures.items()
        if not is_tried_again([failure for _, failure in pairs])
    }
    if table is not None:
        wrong = wrong_rows(table)
        columns = [wrong[name] for name in ("collective", "setting", "run")]
        for collective, word, number in dict.fromkeys(zip(*columns, strict=True)):
            setting = Setting.parse(word)
            if setting.role is Role.FORCED:
                name = (Collective(collective), setting)
                failures.setdefault(name, []).append((by_number[number], Failure.WRONG))
    return tuple(
        ExcludedSetting(
            collective=collective,
            setting=setting,
            scale=pairs[0][0].scale,
            rank_placement=pairs[0][0].file.rank_placement,
            launches=tuple(run.name for run, _ in pairs),
            failures=tuple(failure for _, failure in pairs),
        )
        for (collective, setting), pairs in failures.items()
    )


def wrong_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows whose results were wrong; what a probe of the order of adding counts is none of them."""
    wrong: pd.DataFrame = table[(table["wrong"] > 0) & (table["step"] != plan.ORDER)]
    return wrong
