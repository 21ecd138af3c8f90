"""What gains beside computing are made of: by hand, of times that were made for it."""

from __future__ import annotations

import pandas as pd
import pytest

from rccltune.analyse.choice import choose
from rccltune.analyse.costs import trades
from rccltune.model.settings import BASELINE, Setting
from rccltune.session.sample_table import COLUMNS, arranged

SIZES = (1 << 20, 2 << 20, 4 << 20)
# Times of the library in µs, and of a setting that is slower alone and costs products less: what
# calls and products take together, a call alone and beside, a product alone and beside.
LIBRARY = {"time_us": 1000.0, "alone_us": 400.0, "call_us": 600.0}
CHOSEN = {"time_us": 800.0, "alone_us": 500.0, "call_us": 660.0}


def a_sample(setting: str, nbytes: int, communicator: int, **times: float) -> dict[str, object]:
    """A row of samples.csv; alone where nothing says what ran beside."""
    known: dict[str, object] = {
        **dict.fromkeys(COLUMNS, ""),
        "collective": "all_reduce",
        "n_nodes": 1,
        "n_ranks": 2,
        "rank_placement": "node",
        "dtype": "float",
        "op": "sum",
        "placement": "out",
        "setting": setting,
        "role": "baseline" if setting == "baseline" else "forced",
        "variant": "default",
        "clock": "graph",
        "nbytes": nbytes,
        "calls": 10,
        "purpose": "sweep",
        "rough": False,
        **dict.fromkeys(("slowest_us", "alone_us", "call_us", "product_us", "computing_us")),
        "wrong": None,
        "registered": None,
        "run": f"run-{setting[0]}",
        "process": setting[0],
        "communicator": communicator,
        "pass": 0,
        "line": 1,
    }
    return known | times


def swept() -> pd.DataFrame:
    """Four communicators of both, alone and beside products."""
    rows = []
    for communicator in range(4):
        # Half a per mille of noise.
        noise = 1 + 0.0005 * (communicator - 1.5)
        for nbytes in SIZES:
            for setting, times, computing_us in (
                ("baseline", LIBRARY, 300.0),
                ("ring/simple/8", CHOSEN, 240.0),
            ):
                own = {name: noise * value for name, value in times.items()}
                own |= {"product_us": 200.0, "computing_us": computing_us}
                beside = {"beside": "gemm bf16 4096", **own}
                rows.append(a_sample(setting, nbytes, communicator) | beside)
                # Alone the library wins by far; that must choose nothing.
                alone = own["alone_us"]
                rows.append(a_sample(setting, nbytes, communicator, time_us=alone))
    return arranged(pd.DataFrame(rows))


def test_a_choice_beside_computing_goes_by_both_together_and_says_what_both_pay() -> None:
    """1000 / 800; calls alone 400 / 500, beside 600 / 660; products 1.5 / 1.2 times as long."""
    choice = choose(swept(), {})
    (zone,) = (one for one in choice.zones if one.setting is not None)
    assert zone.setting == Setting.parse("ring/simple/8")
    assert zone.gain is not None
    assert zone.gain.mean == pytest.approx(0.25, abs=1e-3)
    assert zone.costs is not None
    assert zone.costs.alone == pytest.approx(-0.2, abs=1e-3)
    assert zone.costs.calls == pytest.approx(600 / 660 - 1, abs=1e-3)
    assert zone.costs.products == pytest.approx(0.25, abs=1e-3)


def test_without_products_the_same_times_choose_by_calls_alone() -> None:
    """And nothing is said of computing."""
    samples = swept()
    alone = samples[samples["beside"] == ""].reset_index(drop=True)
    choice = choose(alone, {})
    assert all(one.setting is None and one.costs is None for one in choice.zones)
    assert trades(alone, {}) == ()


def test_every_setting_and_size_stands_in_the_trade() -> None:
    """The library's too; a product's time beside calls over its time alone."""
    found = {(str(one.setting), one.nbytes): one for one in trades(swept(), {})}
    assert set(found) == {(s, n) for s in (str(BASELINE), "ring/simple/8") for n in SIZES}
    one = found["ring/simple/8", 1 << 20]
    assert (one.slowed, one.n_communicators) == (1.2, 4)
    assert one.call_us == pytest.approx(660, rel=1e-3)
