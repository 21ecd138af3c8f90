"""Where exactly one zone ends and the next begins, between two measured sizes."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

Ends = tuple[float, float]

# Points at which equally bad boundaries are compared by their average loss.
_SAMPLES = 32


def boundary(low: int, high: int, ratios: Sequence[Ends]) -> int:
    """Last size of the left zone.

    Args:
        low: last measured size of the left zone, in bytes.
        high: first measured size of the right one.
        ratios: for each view log(left setting's time / right setting's time) at both sizes;
            between them it is straight in log-size, as the times are.

    Returns:
        A size from ``low`` to ``high - 1``: the crossing of the two curves; with several views
        the size at which the worst loss in any of them is least; the end at which the better
        setting keeps all where they do not cross; half-way in log-size without any view.
    """
    if not ratios:
        share = 0.5
    else:
        share = min(_candidates(ratios), key=lambda u: (_worst(u, ratios), _average(u, ratios), u))
    nbytes = int(exp(log(low) + share * log(high / low)) + 1e-6)
    return min(max(nbytes, low), high - 1)


def _candidates(ratios: Sequence[Ends]) -> list[float]:
    """Ends, crossings, and where one view's loss on one side equals another's on the other."""
    shares = [0.0, 1.0]
    for below, above in ratios:
        for other_below, other_above in ratios:
            start, end = below + other_below, above + other_above
            if start * end < 0:
                shares.append(start / (start - end))
    return shares


def _worst(share: float, ratios: Sequence[Ends]) -> float:
    """Largest log-regret of any size in any view; rounded, so that equals are equal."""
    losses = [0.0]
    for below, above in ratios:
        here = below + share * (above - below)
        if share > 0:
            losses += [below, here]
        if share < 1:
            losses += [-here, -above]
    return round(max(losses), 12)


def _average(share: float, ratios: Sequence[Ends]) -> float:
    total = 0.0
    for below, above in ratios:
        for index in range(_SAMPLES):
            at = (index + 0.5) / _SAMPLES
            here = below + at * (above - below)
            total += max(here, 0.0) if at < share else max(-here, 0.0)
    return round(total, 12)
