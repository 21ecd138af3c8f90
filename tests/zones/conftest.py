"""Tables of times as curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from rccltune.fit import points
from rccltune.model.curves import Curve
from rccltune.model.measured import Sample
from rccltune.model.settings import DEFAULT_VARIANT, CurveKey, Scale, Setting, Variant
from rccltune.model.vocabulary import Collective, Placement

Table = Mapping[str, Sequence[float]]
MakeCurves = Callable[..., list[Curve]]


def make_curves(
    table: Table,
    *,
    sizes: Sequence[int] | None = None,
    placement: Placement = Placement.OUT_OF_PLACE,
    collective: Collective = Collective.ALL_REDUCE,
    scale: Scale | None = None,
    variant: Variant = DEFAULT_VARIANT,
    dtype: str | None = None,
    launches: Sequence[str] = ("a",),
) -> list[Curve]:
    """Curves of settings by name, on sizes from 1 KiB upward by ×2; 0 is not measured."""
    plain = CurveKey(
        collective=collective,
        setting=Setting.parse("ring/ll"),
        placement=placement,
        scale=scale or Scale(n_nodes=1, n_ranks=8),
        dtype=dtype,
        variant=variant,
    )
    samples = [
        Sample(
            key=replace(plain, setting=Setting.parse(name)),
            # Each setting has launches of its own, as imported logs have.
            launch=f"{name}-{launch}",
            nbytes=sizes[index] if sizes else 1024 << index,
            time_us=time,
        )
        for name, row in table.items()
        for index, time in enumerate(row)
        if time
        for launch in launches
    ]
    return list(points.curves(samples).curves)


@pytest.fixture(name="make_curves")
def make_curves_fixture() -> MakeCurves:
    """The function above, for test files that cannot import it."""
    return make_curves
