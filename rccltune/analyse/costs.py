"""What settings and matrix products cost each other, of samples that were timed beside products.

Settings are compared by what calls and products take together (``time_us`` of such samples). This
says of what that is made: calls alone, calls while products run, products while calls run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from rccltune.analyse.points import BASELINE
from rccltune.model.choice import Costs, Zone
from rccltune.model.schema import Number, Whole
from rccltune.model.settings import Scale, Setting, Target, Variant
from rccltune.model.vocabulary import Collective
from rccltune.perf.samples import IDLE, VERIFY, beside_computing, by_clock, without_rough

_PLACE: Final = ["collective", "n_nodes", "n_ranks", "rank_placement"]
_POINT: Final = [*_PLACE, "variant", "setting", "nbytes"]
_AT_A_SIZE: Final = [*_PLACE, "variant", "dtype", "op", "placement", "beside", "nbytes"]
_MEASURED: Final = ["time_us", "alone_us", "call_us", "slowed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trade:
    """One setting at one size beside products, the mean of both placements.

    Attributes:
        setting: the library's own choice is BASELINE.
        time_us: µs of calls and products together, for each call.
        alone_us: µs of a call without products.
        call_us: µs of a call while products run; None where hardly anything overlapped.
        slowed: how many times as long as alone a product takes while calls run.
        n_communicators: in which it was timed.
    """

    target: Target
    setting: Setting
    nbytes: Whole
    time_us: Number
    alone_us: Number | None
    call_us: Number | None
    slowed: Number | None
    n_communicators: Whole


def points(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a setting and size that was timed beside products.

    Columns: collective, n_nodes, n_ranks, rank_placement, variant, setting, nbytes; time_us,
    alone_us, call_us and slowed as :class:`Trade` has them; n_communicators.

    Args:
        samples: as ``samples.csv`` has them (:mod:`rccltune.session.sample_table`).
    """
    is_good = (samples["unusable"] == "") & (samples["purpose"] != VERIFY)
    own = samples[is_good & beside_computing(samples)]
    own = without_rough(by_clock(own, _AT_A_SIZE), _AT_A_SIZE)
    own = own.assign(
        slowed=own["computing_us"] / own["product_us"],
        replicate=own.groupby(["process", "communicator"], observed=True, sort=False).ngroup(),
    )
    middle = own.groupby([*_POINT, "placement"], observed=True)[_MEASURED].median()
    logs = np.log(middle).groupby(level=list(range(len(_POINT))), observed=True).mean()
    found = np.exp(logs)
    counted = own.groupby(_POINT, observed=True)["replicate"].nunique()
    found["n_communicators"] = counted.reindex(found.index)
    made: pd.DataFrame = found.reset_index()
    return made


def trades(samples: pd.DataFrame, variants: Mapping[str, Variant]) -> tuple[Trade, ...]:
    """Every setting and size beside products; nothing of a sweep without them.

    Args:
        samples: as of :func:`points`.
        variants: of the session, by name.
    """
    if not beside_computing(samples).any():
        return ()
    table = points(samples)
    table = table[table["setting"] != IDLE]
    return tuple(
        Trade(
            target=Target(
                collective=Collective(row.collective),
                scale=Scale(n_nodes=row.n_nodes, n_ranks=row.n_ranks),
                rank_placement=row.rank_placement or None,
                variant=variants.get(row.variant) or Variant(name=row.variant),
            ),
            setting=Setting.parse(row.setting),
            nbytes=int(row.nbytes),
            time_us=round(row.time_us, 3),
            alone_us=_rounded(row.alone_us),
            call_us=_rounded(row.call_us),
            slowed=_rounded(row.slowed),
            n_communicators=int(row.n_communicators),
        )
        for row in table.itertuples()
    )


def _rounded(value: float) -> float | None:
    return round(value, 4) if np.isfinite(value) else None


def with_costs(zones: Iterable[Zone], samples: pd.DataFrame) -> tuple[Zone, ...]:
    """Zones with what their gains are made of, where they were chosen beside products."""
    if not beside_computing(samples).any():
        return tuple(zones)
    table = points(samples)
    return tuple(
        one if one.setting is None else replace(one, costs=_costs(one, table)) for one in zones
    )


def _costs(zone: Zone, table: pd.DataFrame) -> Costs | None:
    """The library over the zone's setting, in the mean over the sizes that both have."""
    target = zone.target
    own = table[
        (table["collective"] == target.collective.value)
        & (table["n_nodes"] == target.scale.n_nodes)
        & (table["n_ranks"] == target.scale.n_ranks)
        & table["nbytes"].between(zone.measured_from or 0, zone.measured_to or 0)
    ]
    if target.rank_placement is not None:
        own = own[own["rank_placement"] == target.rank_placement]
    library = own[own["setting"] == BASELINE]
    home = library[library["variant"] == target.variant.name]
    library = (home if len(home) else library).set_index("nbytes")[_MEASURED]
    chosen = own[(own["setting"] == str(zone.setting)) & (own["variant"] == zone.variant.name)]
    logs = np.log(library / chosen.set_index("nbytes")[_MEASURED]).mean()
    if not np.isfinite(logs["alone_us"]):
        return None
    gains = {name: _rounded(float(np.expm1(logs[name]))) for name in _MEASURED}
    return Costs(alone=gains["alone_us"], calls=gains["call_us"], products=gains["slowed"])
