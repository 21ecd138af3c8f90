"""How many products run beside calls: the wanted share of computing, whatever both take."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.settings import SILENT, Computing, Setting
from rccltune.model.vocabulary import Collective, Placement
from rccltune.perf import plan, runs
from rccltune.perf.load import ALONE, Load, first_products, products_for
from rccltune.perf.plan import CollectiveCall


def computing(share: int = 50) -> Computing:
    """Products that fill a GPU."""
    return Computing(dtype="bf16", size=4096, share=share)


@given(share=st.integers(20, 80), call_us=st.floats(5.0, 5000.0), product_us=st.floats(50.0, 500.0))
def test_computing_has_its_share_within_a_sixth(
    share: int, call_us: float, product_us: float
) -> None:
    """Of the time that both take alone; whole products and calls allow no more."""
    found = products_for(computing(share), call_us, product_us)
    assert min(found.number, found.calls) >= 3
    ratio = found.number * product_us / (found.calls * call_us)
    wanted = share / (100 - share)
    if found.calls == 3 or found.number == 3:
        # The least of either is more than a round needs.
        assert ratio >= wanted / (7 / 6)
    else:
        assert wanted / (7 / 6) <= ratio <= wanted * (7 / 6)


def a_call(nbytes: int) -> CollectiveCall:
    """Of floats, out of place."""
    return CollectiveCall(Collective.ALL_REDUCE, "float", "sum", Placement.OUT_OF_PLACE, nbytes)


def measured(nbytes: int, time_us: float, setting: str = str(SILENT)) -> dict[str, object]:
    """A row of the first pass."""
    place = {"collective": "all_reduce", "placement": "out", "nbytes": nbytes}
    return {**place, "setting": setting, "time_us": time_us}


def test_all_settings_of_a_size_do_the_same_work() -> None:
    """It goes by the library's own time, interpolated by logarithms, and by the measured product."""
    alone = pd.DataFrame([measured(1 << 20, 100.0), measured(4 << 20, 400.0)])
    alone = pd.concat([alone, pd.DataFrame([measured(1 << 20, 1.0, "ring/ll")])])
    asked = pd.DataFrame([{"purpose": runs.PRODUCT, "product_us": 100.0}])
    load = Load.of(computing(), alone, asked)
    steps = [
        load.step(Setting.parse(w), a_call(2 << 20), plan.GRAPH) for w in ("ring/ll", "tree/ll")
    ]
    assert len({one.products for one in steps}) == 1
    # 200 µs a call between 100 and 400: five calls and ten products in 1 ms each.
    assert steps[0].products == products_for(computing(), 200.0, 100.0)
    assert steps[0].products is not None
    assert (steps[0].products.number, steps[0].products.calls) == (10, 5)
    assert steps[0].kind == plan.BESIDE


def test_without_computing_a_setting_is_timed_alone() -> None:
    """A plain measure, as much of it as was asked for."""
    step = ALONE.step(SILENT, a_call(1024), plan.LOOP, plan.FINE)
    assert (step.kind, step.effort, step.products) == (plan.MEASURE, plan.FINE, None)


def test_a_product_is_timed_in_a_plan_that_the_program_reads() -> None:
    """Its line comes back as the same step."""
    step = first_products(computing(), a_call(1024))
    (_, again) = plan.read_plan(plan.plan_text([[step]]), "plan.txt")
    assert again.step is not None
    assert again.step.products == step.products
