"""Links that are slower than the others of their machine have any reason to be."""

from __future__ import annotations

from statistics import median
from typing import Final

from rccltune.model import Link, LinkRates

# Makes the median absolute deviation of normal noise its standard deviation.
_NORMAL: Final = 1.4826
_SIGMAS: Final = 5.0
# Links that agree to a tenth of a percent would make a difference of one percent an outlier.
_LEAST: Final = 0.05


def middle_of(rates: LinkRates) -> float:
    """Median over all links in GB/s; at least one link is there."""
    return median(link.gb_per_s for link in rates.links)


def out_of_line(rates: LinkRates) -> tuple[Link, ...]:
    """Links far below the median of all, the slowest first.

    Far is five times what the median absolute deviation says of the usual spread, and five percent
    at least: medians, because one broken link must not move the measure that it is held against.
    """
    links = rates.links
    if not links:
        return ()
    middle = middle_of(rates)
    usual = _NORMAL * median(abs(link.gb_per_s - middle) for link in links)
    limit = middle - max(_SIGMAS * usual, _LEAST * middle)
    slow = (link for link in links if link.gb_per_s < limit)
    return tuple(sorted(slow, key=lambda link: link.gb_per_s))
