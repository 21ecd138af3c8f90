"""Where axis ticks go: sizes at powers of two, times at round microseconds, ratios with 1.0."""

from __future__ import annotations

import math
from typing import Final

# Exponent steps 1, 2, 4, 5, 10: every size, powers of 4, of 16, of 32 (1 KiB, 32 KiB, 1 MiB …).
_STEPS: Final = (1, 2, 4, 5, 10, 20)
_MANTISSAS: Final = ((1, 2, 5), (1, 3), (1,))
_WIDE_RATIOS: Final = (
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 12),
    (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 50, 100),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
    (0.01, 0.1, 1, 10, 100, 1000, 10_000),
)
_AT_MOST: Final = 9


def size_ticks(low: float, high: float, at_most: int = _AT_MOST) -> tuple[int, ...]:
    """Powers of two from low to high, evenly spaced and at most so many.

    Where no power of two lies between them, the two ends themselves.
    """
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    for step in _STEPS:
        exponents = [e for e in range(first, last + 1) if e % step == 0]
        if exponents and len(exponents) <= at_most:
            return tuple(2**e for e in exponents)
    return tuple(sorted({round(low), round(high)}))


def log_ticks(low: float, high: float, at_most: int = _AT_MOST) -> tuple[float, ...]:
    """Round values (1, 2, 5 or 1, 3 or 1 times powers of ten) from low to high.

    The densest series with at most so many; every tenth power is thinned further where needed.
    Evenly spaced values where high is less than four times low.
    """
    if high / low < 4:
        return linear_ticks(low, high, at_most)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inside: list[float] = []
    for mantissas in _MANTISSAS:
        ticks = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
        inside = [t for t in ticks if low <= t <= high]
        if len(inside) <= at_most:
            return tuple(inside)
    return tuple(inside[:: math.ceil(len(inside) / at_most)])


def linear_ticks(low: float, high: float, at_most: int = 7) -> tuple[float, ...]:
    """Multiples of 1, 2 or 5 times a power of ten from low to high, at most so many."""
    span = high - low
    if span <= 0:
        return (low,)
    power = 10.0 ** math.floor(math.log10(span / at_most))
    ticks: tuple[float, ...] = ()
    for factor in (1, 2, 5, 10, 20):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        ticks = tuple(round(k * step, 12) for k in range(first, last + 1))
        if len(ticks) <= at_most:
            break
    return ticks


def ratio_ticks(low: float, high: float, at_most: int = _AT_MOST) -> tuple[float, ...]:
    """Ticks for a speed-up axis; 1.0 is among them when it lies between low and high."""
    if high / low < 2:
        return linear_ticks(low, high, at_most)
    candidates = (tuple(float(t) for t in row if low <= t <= high) for row in _WIDE_RATIOS)
    return next((ticks for ticks in candidates if len(ticks) <= at_most), (1.0,))
