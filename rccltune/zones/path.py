"""One state for each size at the least cost.

Costs are tuples compared in order, so 'fewest rules first, then least regret' is exact and has no
weights to balance. It is the Potts model of step detection (compare asv's ``step_detect``, after
Friedrich et al., 2008), with several curves to choose from instead of one to approximate: much
smaller, and solved in (sizes × states) steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HOLE = -1
Cost = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One state at one size.

    Attributes:
        cost: what being in this state here costs beyond the change into it.
        proves: a zone of a candidate must hold one size at least at which this is so.
    """

    cost: Cost
    proves: bool = True


Column = dict[int, Cell]


@dataclass(frozen=True, slots=True)
class _Partial:
    """The cheapest way to be in one state, and how it came there."""

    cost: Cost
    proven: bool
    before: _Partial | None
    state: int


def cheapest(columns: Sequence[Column]) -> list[int]:
    """The cheapest sequence of states.

    Args:
        columns: for each size the allowed states; candidates from 0, ``HOLE`` for none. Entering a
            candidate costs one rule, entering a gap nothing. Some path must exist: at every size
            either a gap or a candidate that proves itself there is allowed.

    Returns:
        One state for each size; the earlier states win ties, so the result never depends on
        the order of dictionaries or on rounding beyond that of the costs themselves.
    """
    ways: dict[tuple[int, bool], _Partial] = {}
    for index, column in enumerate(columns):
        closed = [way for way in ways.values() if way.proven]
        leave = min(closed, key=_rank) if closed else None
        fresh: dict[tuple[int, bool], _Partial] = {}
        for state, cell in sorted(column.items()):
            options = [ways[key] for key in ((state, False), (state, True)) if key in ways]
            for way in options:
                _offer(fresh, _step(way, state, cell, way.proven))
            if leave is not None and leave.state != state:
                _offer(fresh, _step(leave, state, cell, entered=True))
            elif index == 0:
                _offer(fresh, _step(None, state, cell, entered=True))
        ways = fresh
    final = [way for way in ways.values() if way.proven]
    return _unwind(min(final, key=_rank)) if final else []


def _rank(way: _Partial) -> tuple[Cost, int]:
    return way.cost, way.state


def _step(
    way: _Partial | None, state: int, cell: Cell, proven: bool = False, *, entered: bool = False
) -> _Partial:
    rules = 1.0 if entered and state != HOLE else 0.0
    before = way.cost if way is not None else (0.0,) * (len(cell.cost) + 1)
    cost = (before[0] + rules, *(a + b for a, b in zip(before[1:], cell.cost, strict=True)))
    return _Partial(cost, state == HOLE or proven or cell.proves, way, state)


def _offer(fresh: dict[tuple[int, bool], _Partial], way: _Partial) -> None:
    key = (way.state, way.proven)
    if key not in fresh or way.cost < fresh[key].cost:
        fresh[key] = way


def _unwind(way: _Partial) -> list[int]:
    states: list[int] = []
    step: _Partial | None = way
    while step is not None:
        states.append(step.state)
        step = step.before
    return states[::-1]
