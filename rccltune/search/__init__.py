"""The search room: what to measure next so that choosing loses as little as possible. Pure.

A table of every setting at every size spends most of its time on settings that never win. The
search begins with a coarse pass over all of them and then asks, at each size, how much the best
choice is expected to lose given all that is not known yet: noise of few repeats, sizes between
those measured, sizes beyond them. Only settings that contribute to that expected regret are
measured again, at the sizes where they do; the search ends where nothing is worth a launch, after
four rounds at the latest, and says what it still expects to lose.
"""

from __future__ import annotations

from rccltune.search.coarse import coarse_sizes, first_round, looked_at
from rccltune.search.rounds import AIM, MOST_ROUNDS, Known, following, undecided

__all__ = [
    "AIM",
    "MOST_ROUNDS",
    "Known",
    "coarse_sizes",
    "first_round",
    "following",
    "looked_at",
    "undecided",
]
