"""Notices of samples that no curve and no rule uses: stalls, wrong results, unusable rows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

import numpy as np
import pandas as pd

from rccltune.analyse import intervals
from rccltune.analyse.points import IDLE, KEYS
from rccltune.model.failure import ExcludedSetting, Failure
from rccltune.model.measurement import Caution, Notice
from rccltune.model.units import format_size
from rccltune.model.vocabulary import UnusableReason
from rccltune.session.samples import REPORT_WRONG

_NAMED: Final = ["collective", "setting"]


def wrong_counts(samples: pd.DataFrame) -> dict[tuple[str, str], int]:
    """Samples with wrong results by collective and setting."""
    rows = samples[samples["unusable"] == UnusableReason.WRONG.value]
    counted = rows.groupby(_NAMED, observed=True).size()
    return {(str(a), str(b)): int(n) for (a, b), n in counted.items()}


def notices(
    samples: pd.DataFrame, table: pd.DataFrame, excluded: Iterable[ExcludedSetting] = ()
) -> tuple[Notice, ...]:
    """Notices of left-out samples: stalls, wrong results, all other reasons in one line.

    Args:
        samples: all of a session.
        table: of :func:`rccltune.analyse.points.by_communicator`.
        excluded: settings of which is told already that their results were wrong.
    """
    told = {
        (one.collective.value, str(one.setting))
        for one in excluded
        if Failure.WRONG in one.failures
    }
    return (*_stalls(table), *_wrong(samples, told), *_flagged(samples))


def _stalls(table: pd.DataFrame) -> Iterator[Notice]:
    """One notice for each communicator and setting that stood still, whatever the number of sizes.

    Where nothing repeats a time, its size counts as not measured.
    """
    if not table["is_stalled"].any():
        return
    by_point = table.groupby([*KEYS, "nbytes"], observed=True, sort=False)
    log_us = table["log_us"].where(~table["is_stalled"])
    normal = log_us.groupby(by_point.ngroup()).transform("median")
    with_factors = table.assign(factor=np.exp(table["log_us"] - normal), alone=normal.isna())
    by = ["collective", "setting", "run", "alone"]
    for name, rows in with_factors[with_factors["is_stalled"]].groupby(by, observed=True):
        collective, setting, run, alone = (str(one) for one in name)
        yield _stalled(collective, setting, run, rows, is_alone=alone == "True")


def _stalled(
    collective: str, setting: str, run: str, rows: pd.DataFrame, *, is_alone: bool
) -> Notice:
    sizes = sorted({int(n) for n in rows["nbytes"]})
    where = format_size(sizes[0])
    if len(sizes) > 1:
        where += f" to {format_size(sizes[-1])}"
    if is_alone:
        factor, normal = f"over {intervals.STALL_ALONE:g}", "the neighbouring sizes allow"
    else:
        factor, normal = f"up to {rows['factor'].max():.3g}", "in another communicator"
    plural = len(rows) > 1
    return Notice(
        caution=Caution.BURST,
        message=f"{collective} {'with the plugin idle' if setting == IDLE else setting} took "
        f"{factor} times as long as {normal} at {len(sizes)} size{'s' if len(sizes) > 1 else ''} "
        f"({where}); {len(rows)} time{'s were' if plural else ' was'} left out",
        remedy="measure it again: no other communicator shows what is normal there, so these sizes "
        "count as not measured."
        if is_alone
        else "nothing to do where it stalled once; if it stalls in every sweep, look for other "
        "jobs on the node.",
        where=run,
        count=len(rows),
    )


def _wrong(samples: pd.DataFrame, told: Container[tuple[str, str]]) -> Iterator[Notice]:
    for (collective, setting), count in wrong_counts(samples).items():
        if (collective, setting) in told:
            continue
        yield Notice(
            caution=Caution.WRONG_RESULTS,
            message=f"{collective} {setting} gave WRONG RESULTS in {count} samples; it is "
            "disqualified for this collective",
            remedy=REPORT_WRONG,
        )


def _flagged(samples: pd.DataFrame) -> Iterator[Notice]:
    counted = samples["unusable"].value_counts()
    by_reason = {UnusableReason(str(word)): int(n) for word, n in counted.items() if word and n}
    if n := by_reason.pop(UnusableReason.INELIGIBLE, 0):
        yield Notice(
            caution=Caution.NOT_OFFERED,
            message=f"{n} samples were not used: {UnusableReason.INELIGIBLE.meaning}",
            remedy="nothing to do: that is asked to see it, as LL128 on AMD without its variable.",
            count=n,
        )
    others = {doubt: n for doubt, n in by_reason.items() if doubt is not UnusableReason.WRONG}
    if others:
        listed = "; ".join(f"{n} x {doubt.meaning}" for doubt, n in others.items())
        yield Notice(
            caution=Caution.DOUBTED_SAMPLES,
            message=f"{sum(others.values())} samples were not used: {listed}",
            remedy="samples.csv names each of them.",
            count=sum(others.values()),
        )
