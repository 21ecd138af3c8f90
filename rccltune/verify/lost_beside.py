"""Rules that win alone and lose beside computing, by what ``verify --beside`` measured before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from rccltune.model.choice import Rule
from rccltune.model.settings import SILENT
from rccltune.model.vocabulary import format_span
from rccltune.perf import plan, rows, runs
from rccltune.perf.rows import setting_of
from rccltune.verify import pairs
from rccltune.verify.sizes import SLIGHT, PairTable
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
        alone = table[(table["step"] == plan.BESIDE) & (table["setting"] == str(SILENT))]
        if alone.empty:
            # It was interrupted before that.
            continue
        name = _computing(alone)
        both = pairs.ratios(table)
        answered = pd.Series([str(setting_of(word)) for word in both["answer"]], index=both.index)
        for rule in rules:
            own = both[
                (both["collective"] == rule.collective.value)
                & (answered == str(rule.setting))
                & both["nbytes"].between(rule.min_nbytes, rule.max_nbytes)
            ]
            if own.empty:
                continue
            paired, _ = PairTable(own).paired
            worst = paired.least(np.ones(len(paired.nbytes), dtype=bool))
            if worst is not None and worst.log < SLIGHT and worst.high() < 0:
                span = format_span(int(own["nbytes"].min()), int(own["nbytes"].max()))
                yield (
                    f"{rule.collective.value} {span}: {rule.setting} wins alone and loses beside "
                    f"{name}, in the mean {Ratio.of(worst)} (--beside gemm chooses by both)"
                )


def _computing(alone: pd.DataFrame) -> str:
    """``gemm bf16 4096, about 80 % of the work``, of the library's rounds."""
    products = alone["products"] * alone["product_us"]
    share = (products / (products + alone["calls"] * alone["alone_us"])).median()
    return f"{alone['beside'].iloc[0]}, about {100 * share:.0f} % of the work"


def _is_beside(run: runs.PerfRun) -> bool:
    return any(one.step is not None and one.step.kind == plan.BESIDE for one in run.steps)
