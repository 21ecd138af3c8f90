"""The ceiling room: what TransferBench printed, and what its links let a collective reach.

In comes the text of TransferBench's ``a2a``; out come rates of links, links out of line, and the
bus bandwidth at which the slowest link holds up rings. docs/ceiling.md derives the bound.
"""

from rccltune.ceiling.bounds import ceiling_of, why_none
from rccltune.ceiling.outliers import middle_of, out_of_line
from rccltune.ceiling.reading import read_rates

__all__ = ["ceiling_of", "middle_of", "out_of_line", "read_rates", "why_none"]
