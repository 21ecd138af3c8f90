"""Rules that win alone and lose beside computing, by what ``verify --beside`` measured before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from rccltune.analyse.paired import PairedRatios
from rccltune.model.choice import Rule
from rccltune.model.vocabulary import format_span
from rccltune.perf import plan, rows, runs
from rccltune.perf.rows import setting_of
from rccltune.perf.samples import by_clock
from rccltune.verify import pairs
from rccltune.verify.verdict import Ratio
from rccltune.verify.verdict_store import FOLDER


def lost_beside(session: Path, rules: Sequence[Rule]) -> Iterator[str]:
    """Sentences about rules that are slower than the library beside computing, with certainty.

    Nothing where no verification beside computing called their sizes with their setting.

    Args:
        session: the folder.
        rules: that were verified alone.

    Raises:
        OutputError: a run that cannot be read.
    """
    for folder in sorted((session / FOLDER).glob("*/")):
        measured = [run for run in runs.read_runs(folder) if _is_beside(run)]
        if not measured:
            continue
        table = rows.rows_of_runs(measured)
        name = str(table.loc[table["step"] == plan.BESIDE, "beside"].iloc[0])
        both = by_clock(pairs.ratios(table), ["collective", "placement", "nbytes"]).copy()
        both["setting"] = [str(setting_of(word)) for word in both["answer"]]
        for rule in rules:
            own = both[
                (both["collective"] == rule.collective.value)
                & (both["setting"] == str(rule.setting))
                & both["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
            ]
            found = _ratio(own)
            if found is not None and found.high < 1:
                span = format_span(int(own["nbytes"].min()), int(own["nbytes"].max()))
                yield (
                    f"{rule.collective.value} {span}: {rule.setting} wins alone and loses beside "
                    f"{name}: {found} (--beside gemm chooses by both)"
                )


def _is_beside(run: runs.PerfRun) -> bool:
    return any(one.step is not None and one.step.kind == plan.BESIDE for one in run.steps)


def _ratio(both: pd.DataFrame) -> Ratio | None:
    """The library over the rules in the mean over sizes, of the placement that gains least."""
    if both.empty:
        return None
    cells = both.pivot_table(values="gain", index="replicate", columns=["placement", "nbytes"])
    sizes = np.unique(both["nbytes"].to_numpy())
    views = list(dict.fromkeys(both["placement"]))
    logs = np.full((len(cells), len(views), len(sizes)), np.nan)
    for (placement, nbytes), column in cells.items():
        logs[:, views.index(placement), np.searchsorted(sizes, nbytes)] = column
    found = PairedRatios(sizes, logs).over(np.ones(len(sizes), dtype=bool))
    return Ratio.of(min(found, key=lambda one: one.log)) if found else None
