"""Two settings at their common sizes: which is the faster, and from where on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import log

from rccltune.interpolate import crossing, time_at
from rccltune.model import Curve, CurvePoint
from rccltune.units import MAX_NBYTES


@dataclass(frozen=True, slots=True)
class Ratio:
    """log(time of the one / time of the other) at each common size.

    Attributes:
        sizes: rising, in bytes, at least two.
        logs: below 0 where the first setting is the faster.
        pairs: the two measured points behind each ratio, None where one was interpolated.
    """

    sizes: tuple[int, ...]
    logs: tuple[float, ...]
    pairs: tuple[tuple[CurvePoint, CurvePoint] | None, ...]

    @property
    def n_repeats(self) -> int:
        """Launches behind the worse-repeated setting at a usual size; 1 where not measured."""
        counts = sorted(
            1 if pair is None else min(pair[0].n_launches, pair[1].n_launches)
            for pair in self.pairs
        )
        return counts[len(counts) // 2]

    def crossing(self) -> float | None:
        """Size from which the second setting is the faster, None where there is no such size.

        Noise makes curves cross several times; the split is taken that wrongs the two least.
        """
        index = split(self.logs)
        if index in (0, len(self.logs)):
            return None
        low, high = self.sizes[index - 1], self.sizes[index]
        return crossing(low, high, self.logs[index - 1], self.logs[index])

    def bracket(self) -> tuple[float, float]:
        """Last size before the split at which the first wins, first after it for the second."""
        index = split(self.logs)
        low = max((i for i in range(index) if self.logs[i] < 0), default=0)
        high = min(
            (i for i in range(index, len(self.logs)) if self.logs[i] > 0),
            default=len(self.logs) - 1,
        )
        return float(self.sizes[low]), float(self.sizes[high])


def split(logs: Sequence[float]) -> int:
    """How many sizes to leave to the first setting, so that the sum of losses is least."""
    first_loses = [0.0, *accumulate(max(x, 0.0) for x in logs)]
    second_loses = [0.0, *accumulate(max(-x, 0.0) for x in reversed(logs))][::-1]
    losses = [a + b for a, b in zip(first_loses, second_loses, strict=True)]
    return losses.index(min(losses))


def compare(first: Curve, second: Curve, low: int = 0, high: int = MAX_NBYTES) -> Ratio | None:
    """The ratio over the sizes from low to high that both cover; None from fewer than two."""
    one, two = _grid(first), _grid(second)
    low, high = max(low, one[0][0], two[0][0]), min(high, one[0][-1], two[0][-1])
    sizes = sorted({n for n in (*one[0], *two[0]) if low <= n <= high})
    if len(sizes) < 2:
        return None
    ours = {p.nbytes: p for p in first.points}
    theirs = {p.nbytes: p for p in second.points}
    logs = [
        log((time_at(*one, nbytes) or 1.0) / (time_at(*two, nbytes) or 1.0)) for nbytes in sizes
    ]
    pairs = [(ours[n], theirs[n]) if n in ours and n in theirs else None for n in sizes]
    return Ratio(tuple(sizes), tuple(logs), tuple(pairs))


def _grid(curve: Curve) -> tuple[list[int], list[float]]:
    return [p.nbytes for p in curve.points], [p.time_us for p in curve.points]
