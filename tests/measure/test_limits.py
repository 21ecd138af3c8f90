"""How long a communicator may take before it counts as hung."""

from __future__ import annotations

import pytest

from rccltune.measure.rank_program import communicator_limit_s


@pytest.mark.parametrize(
    ("first_s", "n_ranks", "limit_s"),
    [
        # Nobody has published how long 64 ranks take in CPX: before the first, by their number.
        (None, 2, 124),
        (None, 64, 248),
        # Ten times what the first took, and a minute at least.
        (0.3, 2, 60),
        (6.0, 64, 60),
        (30.0, 64, 300),
    ],
)
def test_a_communicator_may_take_ten_times_what_the_first_did(
    first_s: float | None, n_ranks: int, limit_s: float
) -> None:
    """A slow machine's are not ended, and a hang of a quick one's is seen within a minute."""
    first_us = None if first_s is None else 1e6 * first_s
    assert communicator_limit_s(first_us, n_ranks) == pytest.approx(limit_s)
