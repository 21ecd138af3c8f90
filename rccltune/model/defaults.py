"""Defaults; each number and word stands here and nowhere else.

What an option of a sweep alone needs stands with it in :mod:`rccltune.measure.sweep_schema`. A
test finds a default that is written a second time (``tests/packaging/test_declared_once.py``).
"""

from __future__ import annotations

from typing import Final

# Folder of a session that nobody names.
SESSION: Final = "rccltune-session"
COMPARISON: Final = "rccltune-comparison"
# Sizes of a sweep, smaller at most where GPUs are partitioned.
MIN_NBYTES: Final = 1 << 10
MAX_NBYTES: Final = 256 << 20
MAX_NBYTES_CPX: Final = 128 << 20
# In how many communicators the rank program measures what could win.
COMMUNICATORS: Final = 4
# In how many rules and library are called in turns; fewer of many ranks, where each takes seconds.
VERIFY_COMMUNICATORS: Final = 8
MANY_RANKS: Final = 32
FEWER_VERIFY_COMMUNICATORS: Final = 4
TIMING: Final = "auto"
# Of each side, where processes are compared, and the share by which equal sides may differ.
STARTS: Final = 8
MARGIN: Final = 0.03
# Of a sweep by a benchmark: rccl-tests' own numbers of calls.
FACTOR: Final = 2
DTYPE: Final = "float"
OP: Final = "sum"
ITERATIONS: Final = 20
WARMUP: Final = 5
RANK_PLACEMENT: Final = "node"
PLACEMENT: Final = "both"
# Launches of everything that is compared.
REPEATS: Final = 3
# Where it runs; sweep measures by the rank program unless told otherwise.
RUNNER: Final = "rccl-tests"
SWEEP_RUNNER: Final = "perf"
LAUNCHER: Final = "auto"
# Of a choice, as fractions: regret that saves a zone or is as good as none, and the gain over the
# library as the site has it that a rule must have.
TOLERANCE: Final = 0.02
MIN_GAIN: Final = 0.02
# Chance of a false answer that all questions of one kind share.
LEVEL: Final = 0.05
# Formats of the figures.
FIGURE_FORMAT: Final = ("png",)
# Drawn by default, and when they are named.
FIGURES: Final = ("gain", "speedup", "time", "bandwidth", "table")
MORE_FIGURES: Final = ("residuals", "channels", "predictions")
