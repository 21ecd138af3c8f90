"""What collectives and matrix products cost each other, of rows that were measured with both.

In a row the faster of the two ends first and the rest of the other runs alone. What each costs
while both run is reckoned here, from the times alone of the same row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rccltune.perf import plan

if TYPE_CHECKING:
    import pandas as pd


def covered(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of steps BESIDE with what each costs while both run.

    Columns that are added, missing where one of the times is, or where hardly anything overlapped:

    =================  =====================================================================
    call_us            µs of a call while products run
    computing_us       µs of a product while calls run
    call_factor        how many times as long as alone a call takes then
    computing_factor   the same of a product
    share              how many times as long as the calls the products take, each alone
    saved_us           µs that a round takes less than both one behind the other
    =================  =====================================================================

    Args:
        table: with the columns of :mod:`rccltune.perf.rows`.
    """
    found = table[table["step"] == plan.BESIDE].copy()
    calls, products = found["calls"], found["products"]
    calls_end, products_end = calls * found["beside_us"], products * found["product_beside_us"]
    both = calls_end.where(calls_end < products_end, products_end)
    # What was done when the first one had ended: all but what the rest of the time was alone for.
    calls_then = calls - (calls_end - both) / found["alone_us"]
    products_then = products - (products_end - both) / found["product_us"]
    found["call_us"] = (both / calls_then).where(calls_then > _LEAST * calls)
    found["computing_us"] = (both / products_then).where(products_then > _LEAST * products)
    found["call_factor"] = found["call_us"] / found["alone_us"]
    found["computing_factor"] = found["computing_us"] / found["product_us"]
    alone = calls * found["alone_us"], products * found["product_us"]
    found["share"] = alone[1] / alone[0]
    found["saved_us"] = alone[0] + alone[1] - found["both_us"]
    made: pd.DataFrame = found
    return made


# Of what ran beside the other; of less its time says nothing.
_LEAST = 0.05
