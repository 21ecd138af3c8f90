"""What the times of two sides say: equal, faster, slower or undecided, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rccltune.compare import judge_sizes
from rccltune.model.verdict import Verdict

KIB = 1 << 10


def timings(a: Sequence[float], b: Sequence[float], nbytes: int = KIB) -> pd.DataFrame:
    """A timing a start of either side, in µs."""
    return pd.DataFrame(
        [
            (side, f"{side}{n}", "all_reduce", nbytes, "graph", us)
            for side, times in (("a", a), ("b", b))
            for n, us in enumerate(times)
        ],
        columns=["side", "replicate", "collective", "nbytes", "timing", "time_us"],
    )


def drawn(seed: int, sizes: Sequence[int], factor: float, n: int = 8) -> pd.DataFrame:
    """Starts that spread by 1 % around 100 µs, those of B that much slower."""
    draw = np.random.default_rng(seed)
    parts = [
        timings(
            100 * np.exp(draw.normal(0, 0.01, n)), 100 * factor * np.exp(draw.normal(0, 0.01, n)), s
        )
        for s in sizes
    ]
    return pd.concat(parts)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.98, 1.02, Verdict.EQUAL),
        # Certain, and less than anybody wants to know.
        (1.01, 1.02, Verdict.EQUAL),
        (0.97, 1.03, Verdict.EQUAL),
        (1.01, 1.04, Verdict.SLOWER),
        (0.90, 0.99, Verdict.FASTER),
        (0.96, 1.01, Verdict.UNDECIDED),
        (0.5, 2.0, Verdict.UNDECIDED),
    ],
)
def test_equal_comes_first(low: float, high: float, verdict: Verdict) -> None:
    """An interval within the margin is equal, also where it leaves 1 out."""
    assert judge_sizes.decide_verdict(low, high, 0.03) is verdict


def test_the_interval_is_welchs() -> None:
    """Of one size, which has no other to share its spread with; 95 % for the whole comparison."""
    draw = np.random.default_rng(3)
    a, b = np.exp(draw.normal(4.6, 0.02, 8)), np.exp(draw.normal(4.7, 0.01, 8))
    row = judge_sizes.judge(timings(a, b), margin=0.03, paired=False).iloc[0]
    for end in (row["low"], row["high"]):
        # Were this the true ratio, the data would be as odd as one time in twenty.
        known = stats.ttest_ind(np.log(b / end), np.log(a), equal_var=False)
        assert known.pvalue == pytest.approx(0.05, abs=1e-3)
    assert row["ratio"] == pytest.approx(stats.gmean(b) / stats.gmean(a), rel=1e-5)
    assert row["verdict"] == "slower"


def test_all_sizes_share_five_percent() -> None:
    """Šidák's level: 17 sizes of 99.699 % are all right with 95 %."""
    assert judge_sizes.level_of(17) == pytest.approx(0.9969873, abs=1e-7)
    assert judge_sizes.level_of(1) == 0.95


def test_sizes_beside_share_their_spread() -> None:
    """Three sizes of one spread know it better than one: intervals are narrower in the mean."""
    widths = []
    for seed in range(20):
        rows = drawn(seed, [KIB, 2 * KIB, 4 * KIB], 1.0)
        far = rows.assign(nbytes=rows["nbytes"] ** 2 // KIB)
        judged = [judge_sizes.judge(one, margin=0.03, paired=False) for one in (rows, far)]
        widths.append([float((one["high"] - one["low"]).mean()) for one in judged])
    near, apart = np.mean(widths, axis=0)
    assert near < 0.97 * apart


def test_equal_sides_are_seldom_called(is_quick: bool) -> None:
    """Of 100 comparisons of equal sides at ten sizes 5 may call any; and 4 % is always found."""
    n, most = (40, 6) if is_quick else (100, 9)
    sizes = [KIB << n for n in range(10)]
    called = [
        judge_sizes.judge(drawn(seed, sizes, 1.0), margin=0.001, paired=False)["verdict"]
        .isin(["slower", "faster"])
        .any()
        for seed in range(n)
    ]
    assert sum(called) <= most
    found = judge_sizes.judge(drawn(1000, sizes, 1.04), margin=0.03, paired=False)
    assert set(found["verdict"]) == {"slower"}


def test_fewer_than_six_starts_judge_nothing() -> None:
    """The ratio is told all the same."""
    row = judge_sizes.judge(timings([100.0] * 5, [200.0] * 5), margin=0.03, paired=False).iloc[0]
    assert (row["verdict"], row["ratio"]) == ("undecided", pytest.approx(2.0))


def test_a_timing_that_stood_still_does_not_count() -> None:
    """One start of eight took ten times as long."""
    a = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 1000.0]
    b = [100.1, 100.9, 99.1, 100.4, 99.6, 100.3, 99.7, 100.0]
    row = judge_sizes.judge(timings(a, b), margin=0.03, paired=False).iloc[0]
    assert (row["verdict"], row["stalls_a"], row["n_a"]) == ("equal", 1, 7)


def test_a_pair_leaves_out_what_both_share() -> None:
    """Communicators differ by 20 %, B is 5 % faster in each."""
    draw = np.random.default_rng(9)
    mood = 100 * np.exp(draw.normal(0, 0.2, 8))
    rows = timings(mood, 0.95 * mood * np.exp(draw.normal(0, 0.002, 8)))
    rows["replicate"] = rows["replicate"].str[1:]
    paired = judge_sizes.judge(rows, margin=0.03, paired=True).iloc[0]
    assert (paired["verdict"], round(paired["ratio"], 2)) == ("faster", 0.95)
    rows["replicate"] = rows["side"] + rows["replicate"]
    assert judge_sizes.judge(rows, margin=0.03, paired=False)["verdict"].iloc[0] == "undecided"


@pytest.mark.parametrize(
    ("verdicts", "was_cut", "code"),
    [
        (["equal", "faster"], False, 0),
        (["equal", "undecided"], False, 8),
        (["equal"], True, 8),
        ([], False, 8),
        (["undecided", "slower"], True, 9),
        (["equal", "wrong"], False, 9),
        (["equal", "failed"], False, 9),
    ],
)
def test_exit_codes(verdicts: list[str], was_cut: bool, code: int) -> None:
    """Harm counts more than doubt, and what was cut is never equal."""
    assert judge_sizes.exit_code(verdicts, was_cut=was_cut) == code
