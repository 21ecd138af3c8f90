"""The scaling room: curves at several scales to a curve at a scale that nobody measured. Pure.

A collective's latency is a base and its hops inside OAMs, across them and across nodes; its
bandwidth is that of the slowest link. What the measured scales cannot tell apart is not told
apart, what none of them has is said to be assumed, and the error is what the same model misses the
measured scales by when each is left out.
"""

from __future__ import annotations

from rccltune.scaling.hops import hops
from rccltune.scaling.lines import Measured
from rccltune.scaling.predicting import Prediction, predict

__all__ = ["Measured", "Prediction", "hops", "predict"]
