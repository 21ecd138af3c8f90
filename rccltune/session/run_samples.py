"""Rows of the rank program as rows of samples.csv, and which of them count.

A communicator is what is repeated. Every timing stands in the table, with what its row says
against it (:mod:`rccltune.session.sample_table` has the columns). Where settings were timed
by both clocks at a size, replayed graphs count up to 4 MiB and loops above; where a setting was
timed roughly and again with care, care counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, UnusableReason
from rccltune.session import plan
from rccltune.session.rows import setting_of
from rccltune.session.runs import Run

if TYPE_CHECKING:
    import pandas as pd

_CELL: Final = ["collective", "setting", "placement", "dtype", "op", "nbytes"]
_AS_MEASURED: Final = (
    *("collective", "dtype", "placement", "clock", "nbytes", "calls"),
    *("time_us", "slowest_us", "unusable", "process", "communicator", "line"),
)
_REGISTERED: Final = {"0": False, "1": True}


def table_of(measured: Sequence[Run], table: pd.DataFrame) -> pd.DataFrame:
    """Every timing of the sweep's runs of a session as rows of samples.csv, by run and line.

    Args:
        measured: all runs.
        table: their rows.
    """
    timed = table[
        (table["step"] == plan.MEASURE)
        & (table["unusable"] != UnusableReason.NO_TIME.value)
        & (table["purpose"] != plan.VERIFY)
    ]
    timed = timed.reset_index(drop=True)
    settings = {word: Setting.parse(word) for word in timed["setting"].unique()}
    reducing = {name: Collective(name).reduces for name in timed["collective"].unique()}
    files = {run.number: run.file for run in measured}
    made: pd.DataFrame = timed[list(_AS_MEASURED)].copy()
    made["run"] = timed["run"].map({run.number: run.name for run in measured})
    for name in ("n_nodes", "n_ranks", "rank_placement"):
        made[name] = timed["run"].map({at: getattr(one, name) for at, one in files.items()})
    made["op"] = timed["op"].where(timed["collective"].map(reducing).astype(bool), "none")
    made["setting"] = timed["setting"].map({w: str(one) for w, one in settings.items()})
    made["wrong"] = _wrong(table, timed)
    for name in ("ran", "library"):
        made[name] = timed[name].map({word: _named(word) for word in timed[name].unique()})
    made["registered"] = timed["registered"].map(_REGISTERED).astype("boolean")
    made["trees"], made["signature"] = _orders(table, timed)
    # Where starts were compared, communicators of one start say less than they seem to.
    cell = timed.groupby(["collective", "nbytes"], sort=False).ngroup()
    has_starts = (timed["purpose"] == plan.SITE).groupby(cell).transform("any")
    made["rough"] = (timed["purpose"] == plan.FIRST) | (
        has_starts & (timed["purpose"] == plan.SECOND)
    )
    by = ["run", "communicator", *_CELL, "clock"]
    made["pass"] = timed.groupby(by, sort=False).cumcount()
    return made


def _named(word: str) -> str:
    """A setting as samples.csv names it; empty where the row names none."""
    found = setting_of(word)
    return "" if found is None else str(found)


def _wrong(table: pd.DataFrame, timed: pd.DataFrame) -> pd.Series:
    """Wrong elements that each timing's cell gave; missing where none was checked."""
    is_result = table["wrong"].notna() & (table["step"] != plan.ORDER)
    summed = table[is_result].groupby(_CELL)["wrong"].sum()
    found: pd.Series = timed.join(summed.rename("n_wrong"), on=_CELL)["n_wrong"].astype("Int64")
    return found


def _orders(table: pd.DataFrame, timed: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Trees and signature of each timing's setting at its size; missing where none was probed."""
    cell = ["collective", "setting", "dtype", "nbytes"]
    probed = table[(table["step"] == plan.ORDER) & (table["purpose"] == plan.ORDERS)]
    first = probed.groupby(cell)[["trees", "signature"]].first()
    found = timed[cell].join(first, on=cell)
    return found["trees"].astype("Int64"), found["signature"].fillna("").astype(str)
