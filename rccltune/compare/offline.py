"""Two finished sessions held against each other: from their samples, and not in turns.

Whoever measured them: the rank program, rccl-tests, an imported log. What both have of a setting at
a size, by one timing mode, is compared; the idle plugin stands for the site where that has no
times. A repeat is a start where both sessions have six of them, else a communicator or a launch:
what a start adds to its times then is in no interval. One alone has the spread that
:mod:`rccltune.analyse.intervals` states.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.analyse.points import IDLE, without_rough
from rccltune.compare import judge_sizes
from rccltune.compare.judge_sizes import LEAST_REPLICATES, A, B
from rccltune.compare.reasons import add_reasons
from rccltune.compare.results import COLUMNS, ComparisonResult
from rccltune.model.errors import TooLittleDataError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE
from rccltune.session import store
from rccltune.session.samples import load_frame

if TYPE_CHECKING:
    import pandas as pd

_KEY: Final = ["collective", "n_nodes", "n_ranks", "dtype", "op", "placement"]
_NOT_IN_TURNS: Final = "not in turns: what changed between the two measurements is in the ratios"


def compare_sessions(a: Path, b: Path, margin: float) -> ComparisonResult:
    """Judge what two sessions have in common.

    Args:
        a: a session.
        b: another one.
        margin: share by which equal sides may differ.

    Raises:
        SessionError: one is no session.
        TooLittleDataError: they have no time in common.
    """
    import pandas as pd

    opened = [store.open_session(one) for one in (a, b)]
    both = [_usable(load_frame(one, Reporter())) for one in opened]
    cell = [*_KEY, "setting", "timing", "nbytes"]
    common = both[0][cell].drop_duplicates().merge(both[1][cell].drop_duplicates(), on=cell)
    if common.empty:
        raise TooLittleDataError(
            "the two sessions have no setting timed at one size by one timing mode",
            where=f"{a}, {b}",
            hint="measure both by one: --timing graph is rccl-tests' -G, --timing loop is without.",
        )
    timings = pd.concat(
        [
            rows.merge(common, on=cell).assign(side=letter)
            for rows, letter in zip(both, (A, B), strict=True)
        ],
        ignore_index=True,
    )
    n_starts = timings.groupby("side")["process"].nunique().min()
    repeats = "starts" if n_starts >= LEAST_REPLICATES else "communicators"
    unit = timings["process"].astype(str)
    if repeats == "communicators":
        unit = timings["run"].astype(str) + unit + timings["communicator"].astype(str)
    timings["replicate"] = timings["side"] + unit
    names = _names(common)
    timings["collective"] = _joined(timings, names)
    judged = judge_sizes.judge(timings, margin=margin, paired=False, least=1)
    for letter in (A, B):
        judged[f"{letter}_ran"] = judged["collective"].str.rpartition(" ")[2]
    judged["basis"] = repeats
    return ComparisonResult(
        folder=None,
        a=str(a),
        b=str(b),
        table=add_reasons(judged, {})[list(COLUMNS)],
        question={},
        margin=margin,
        repeats=repeats,
        n_starts=int(n_starts),
        seconds=0.0,
        in_turns=False,
        simulated=any(one.simulated for one in opened),
        remarks=(_NOT_IN_TURNS,),
    )


def _usable(table: pd.DataFrame) -> pd.DataFrame:
    """Timings that count, the idle plugin's as the site's where that has none."""
    counts = table["unusable"] == ""
    texts = dict.fromkeys(table.select_dtypes("category"), "object")
    rows: pd.DataFrame = without_rough(table[counts].astype(texts))
    site = str(BASELINE)
    by_size = (rows["setting"] == site).groupby([rows["collective"], rows["nbytes"]])
    stands = (rows["setting"] == IDLE) & ~by_size.transform("any")
    samples: pd.DataFrame = rows.assign(setting=rows["setting"].mask(stands, site))
    return samples


def _names(common: pd.DataFrame) -> list[str]:
    """Columns that tell what is compared; of those that all share none is named."""
    more = [name for name in _KEY[1:] if len(set(common[name])) > 1]
    return ["collective", *more, "setting"]


def _joined(timings: pd.DataFrame, names: list[str]) -> pd.Series[str]:
    """``all_reduce out ring/ll``."""
    words: pd.Series[str] = timings[names[0]].astype(str)
    for name in names[1:]:
        words = words + " " + timings[name].astype(str)
    return words
