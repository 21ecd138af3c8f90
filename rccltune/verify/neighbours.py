"""Launches of two rule files over the same sizes, next to each other: one an environment.

The idle plugin in the one, beside the idle plugin in the other, says what the environment does by
itself. Both are combined launches, so that what a recorded combined launch costs (half a
microsecond a call) is in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from rccltune import session
from rccltune.measure import SIM_LAUNCH
from rccltune.model import Launch, Outcome, Status
from rccltune.session import REPEATING, Ended, is_walk
from rccltune.verify.cells import Key, cells_of

# Further apart in time, clocks and temperatures may have changed more than environments do.
_APART: Final = timedelta(minutes=5)
_VARYING: Final = frozenset({"NCCL_TUNER_CONFIG_FILE", SIM_LAUNCH})


def calls_alike(one: Launch, other: Launch) -> bool:
    """Whether two launches call the same sizes in the same way, however often."""
    return _called(one) == _called(other)


def _called(one: Launch) -> tuple[object, ...]:
    behind = {at + 1 for at, word in enumerate(one.argv) if word in REPEATING}
    argv = tuple(word for at, word in enumerate(one.argv) if at not in behind)
    return (one.collectives, argv, one.beside, one.rank_placement)


def nearest(
    walk: Launch, needs: Collection[str], ended: Iterable[Ended], taken: Collection[str]
) -> Ended | None:
    """The launch nearest in time that differs in rules and in what these need.

    Args:
        walk: whose rules need something; one that is still to be made stands beside nothing.
        needs: names of variables.
        ended: launches of the same folder.
        taken: ids of launches that stand beside another combined launch.
    """
    made = [pair for pair in ended if pair[1].status is Status.OK]
    own = next((outcome for one, outcome in made if one.id == walk.id), None)
    if own is None:
        return None
    at = _started(own)
    found = [
        (abs(_started(outcome) - at), (one, outcome))
        for one, outcome in made
        if one.id not in taken
        and is_walk(one)
        and calls_alike(one, walk)
        and _site(one) == _site(walk, needs)
    ]
    apart, pair = min(found, key=lambda each: each[0], default=(_APART, None))
    return pair if apart < _APART else None


def silence(pair: Ended, folder: Path) -> dict[Key, float]:
    """Times in µs of a combined launch without its rules, by size.

    Args:
        pair: the combined launch, and how it ended.
        folder: of the verification.
    """
    walk, outcome = pair
    made = cells_of(walk, session.read_launch(walk, folder, outcome))
    return {key: cell.silent_us for key, cell in made.items()}


def _site(one: Launch, needs: Collection[str] = ()) -> dict[str, str]:
    """A combined launch's environment without its rules and what these need."""
    return {n: v for n, v in one.environment if n not in _VARYING and n not in needs}


def _started(outcome: Outcome) -> datetime:
    return datetime.fromisoformat(outcome.started or "1970-01-01T00:00:00+00:00")
