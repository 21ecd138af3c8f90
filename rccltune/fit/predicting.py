"""Time at a size, inside the measured range and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable

from rccltune.errors import TooLittleDataError
from rccltune.interpolate import time_at
from rccltune.model import Curve, Model
from rccltune.units import format_size


def predict(curve: Curve, nbytes: float, model: Model | None = None) -> float:
    """Time in µs by one model, the chosen one unless stated.

    Raises:
        TooLittleDataError: the size lies outside the measured range, or the curve has too few
            sizes for that model.
    """
    return times(curve, (nbytes,), model)[0]


def times(curve: Curve, sizes: Iterable[float], model: Model | None = None) -> tuple[float, ...]:
    """:func:`predict` for many sizes in bytes; the same errors."""
    model = model or curve.chosen
    fit = curve.fit(model)
    if fit is None:
        raise TooLittleDataError(
            f"{curve.key.setting} has no {model.value} model: one straight line is as good, or "
            f"its {len(curve.points)} sizes are too few",
            hint=f"use the {curve.chosen.value} model.",
        )
    grid = [point.nbytes for point in curve.points]
    measured = [point.time_us for point in curve.points]
    wanted = tuple(sizes)
    for nbytes in wanted:
        if not grid[0] <= nbytes <= grid[-1]:
            raise _outside(curve, nbytes)
    if model is Model.LOGLOG:
        return tuple(time_at(grid, measured, nbytes) or 0.0 for nbytes in wanted)
    # Pieces meet between whole bytes: the first that reaches as far is the one.
    return tuple(
        next(s for s in fit.segments if nbytes < s.max_nbytes + 1).predict(nbytes)
        for nbytes in wanted
    )


def _outside(curve: Curve, nbytes: float) -> TooLittleDataError:
    return TooLittleDataError(
        f"{curve.key.setting} was measured from {format_size(curve.min_nbytes)} to "
        f"{format_size(curve.max_nbytes)}; {format_size(nbytes)} lies outside",
        hint="measure that size too: nothing is predicted beyond what was measured.",
    )
