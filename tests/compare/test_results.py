"""A comparison as people read it: ranges, what ran, up to which size a path gains."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import pytest

from rccltune.compare.reasons import ran_words
from rccltune.compare.results import COLUMNS, ComparisonResult, find_bounds, ranges_of
from rccltune.compare.sides import parse_side
from rccltune.variants.catalog import load_catalog

KIB = 1 << 10


def found(*rows: tuple[int, str, float, str, str]) -> pd.DataFrame:
    """Size in KiB, verdict, ratio, and what A and B ran."""
    return pd.DataFrame(
        [
            dict.fromkeys(COLUMNS, 0)
            | {
                "collective": "all_reduce",
                "nbytes": kib * KIB,
                "verdict": verdict,
                "ratio": ratio,
                "a_ran": a,
                "b_ran": b,
                "timing": "graph",
            }
            for kib, verdict, ratio, a, b in rows
        ]
    )


TABLE = found(
    (1, "faster", 0.5, "ring/ll/1", "MSCCL++ (no tuner)"),
    (2, "faster", 0.7, "ring/ll/2", "MSCCL++ (no tuner)"),
    (4, "equal", 1.0, "ring/ll/4", "MSCCL++ (no tuner)"),
    (8, "slower", 1.4, "ring/simple/16", "MSCCL++ (no tuner)"),
    (16, "faster", 0.9, "ring/simple/16", "ring/ll/2"),
)


def test_neighbouring_sizes_of_one_verdict_are_a_range() -> None:
    """With the least and the largest ratio in it."""
    ranges = list(ranges_of(TABLE))
    assert [(one.min_nbytes // KIB, one.max_nbytes // KIB, one.ratio) for one in ranges] == [
        (1, 2, "0.50x to 0.70x"),
        (4, 4, "1.00x"),
        (8, 8, "1.40x"),
        (16, 16, "0.90x"),
    ]
    failed = next(ranges_of(found((1, "failed", math.nan, "", ""))))
    assert failed.ratio == "–"


@pytest.mark.parametrize(
    ("ran", "words"),
    [
        (("ring/ll/1", "ring/ll/4", "ring/ll/2"), "ring/ll/1-4"),
        (("ring/ll/4", "ring/simple/16"), "ring/ll/4, ring/simple/16"),
        (("tree/ll", ""), "tree/ll, not said"),
        (("DDA (no tuner)",), "DDA (no tuner)"),
        (("a/b/1", "b/c/1", "c/d/1", "d/e/1"), "a/b/1, b/c/1, c/d/1 and 1 more"),
    ],
)
def test_channels_of_a_setting_are_said_together(ran: tuple[str, ...], words: str) -> None:
    """The first three settings."""
    assert ran_words(ran) == words


def test_a_path_gains_up_to_a_size() -> None:
    """What is faster behind a size at which it is slower does not count; the line says all."""
    side = parse_side("mscclpp", load_catalog())
    (bound,) = find_bounds(side, TABLE, 8)
    assert str(bound) == (
        "mscclpp gains up to 2 KiB (all_reduce): export RCCL_MSCCLPP_ENABLE=1 "
        "RCCL_MSCCLPP_THRESHOLD=2048"
    )
    (nowhere,) = find_bounds(side, TABLE[3:], 8)
    assert str(nowhere) == "mscclpp gains at no small size of all_reduce"
    assert list(find_bounds(parse_side("channels-32", load_catalog()), TABLE, 8)) == []


def test_a_pull_request_gets_a_short_table() -> None:
    """Every range is a row, and what was simulated says so."""
    done = ComparisonResult(
        folder=None,
        a="site",
        b="mscclpp",
        table=TABLE,
        question={},
        margin=0.03,
        repeats="starts",
        n_starts=8,
        seconds=1.0,
        simulated=True,
    )
    lines = done.markdown().splitlines()
    assert lines[4] == (
        "| all_reduce | 1 KiB | 2 KiB | faster | 0.50x to 0.70x | ring/ll/1-2 | MSCCL++ (no tuner) |"
    )
    assert lines[-1].startswith("SIMULATED")
    assert done.exit_code == 9
    # A folder of eight starts that is asked for six says eight; one that was cut what it has.
    cut = replace(done, table=TABLE.assign(n_a=5, n_b=4))
    assert cut.how == "5 starts of each in turns, 1 s"
