"""From times and proofs to one state for each size, and to zones of sizes in one state.

One state per size: an arm, or a hole. Costs are tuples compared in order, so 'fewest rules first,
then least regret' is exact and has no weights to balance. It is the Potts model of step detection
(compare asv's ``step_detect``, after Friedrich et al., 2008), with several curves to choose from
instead of one to approximate: much smaller, and solved in (sizes × states) steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

from rccltune.model import (
    BASELINE_UNKNOWN,
    NOT_FASTER,
    NOT_MEASURED,
    Extrapolation,
    Gain,
    Proof,
    Setting,
    Zone,
    not_proven,
)
from rccltune.zones.arms import ChoiceOptions, Group
from rccltune.zones.board import INF, Board
from rccltune.zones.proof import Rivals, Standing, standings

HOLE = -1
Cost = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """One state at one size.

    Attributes:
        cost: what being in this state here costs beyond the change into it.
        proves: a zone of an arm must hold one size at least at which this is so.
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
        columns: for each size the allowed states; arms from 0, HOLE for none. Entering an arm
            costs one rule, entering a hole nothing. Some path must exist: at every size either
            a hole or an arm that proves itself there is allowed.

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


# Regrets that differ by less than a quarter of the tolerance are a tie, and go to fewer channels.
_TIE = 4
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Decision:
    """The state of each measured size.

    Attributes:
        states: index of an arm, or HOLE.
        reasons: why a hole is one, by size; None for arms.
        standings: of each arm at each size; empty without a baseline.
        relaxed: sizes at which no arm is within tolerance in every view.
    """

    states: tuple[int, ...]
    reasons: tuple[str | None, ...]
    standings: list[list[Standing]]
    relaxed: tuple[int, ...]


def decide(
    board: Board, options: ChoiceOptions, banned: Collection[tuple[int, int]] = ()
) -> Decision:
    """The fewest rules within tolerance that the baseline does not already equal.

    Args:
        board: all times.
        options: of the choice.
        banned: (arm, size) that may not be chosen.
    """
    proofs = standings(board, options.min_gain)
    rivals = Rivals(board)
    # Regrets below a part of the tolerance are a tie; without tolerance there are no ties.
    step = max(options.tolerance / _TIE, _EPSILON)
    columns: list[Column] = []
    relaxed: list[int] = []
    for size, nbytes in enumerate(board.sizes):
        regrets = [
            INF if (arm, size) in banned else board.regret(arm, size, penalised=True)
            for arm in range(len(board.arms))
        ]
        standing = [row[size] for row in proofs]
        allowed = _allowed(regrets, standing, options.tolerance)
        if options.tolerance + _EPSILON < allowed < INF:
            relaxed.append(nbytes)
        able = [
            regret <= allowed + _EPSILON
            or (regret < INF and not rivals.is_slower(arm, size, options.tolerance))
            for arm, regret in enumerate(regrets)
        ]
        row = _Row(regrets, standing, able, board.weights[size], step)
        columns.append(_column(board, row))
    states = cheapest(columns)
    return Decision(
        states=tuple(states),
        reasons=_reasons(board, proofs, states, options.min_gain),
        standings=proofs,
        relaxed=tuple(relaxed),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One size, by arm.

    Attributes:
        able: nothing shows that the arm is slower than the best by more than may be.
        step: width of a tie.
    """

    regrets: Sequence[float]
    standing: Sequence[Standing]
    able: Sequence[bool]
    weight: float
    step: float


def _allowed(regrets: Sequence[float], standing: Sequence[Standing], tolerance: float) -> float:
    """The tolerance, or the least regret that anything which may be chosen here has."""
    able = list(regrets)
    if standing:
        able = [r for r, s in zip(regrets, standing, strict=True) if s.proven and r < INF]
    return max(tolerance, min(able, default=0.0))


def _column(board: Board, row: _Row) -> Column:
    """What may be chosen at one size, and at which price."""
    column: Column = {}
    for arm, regret in enumerate(row.regrets):
        at = row.standing[arm] if row.standing else None
        if not row.able[arm] or regret == INF or (at and not _harmless(at)):
            continue
        bridged = at is not None and not at.proven and not at.beside
        channels = board.arms[arm].setting.channels or 0
        column[arm] = Cell(
            cost=(float(bridged), *_price(row, regret, channels)), proves=at is None or at.proven
        )
    if not any(cell.proves for cell in column.values()):
        # What leaving the size to RCCL loses against settings that may join a proven zone.
        lost = [s.gain for s in row.standing if s.beside and s.gain is not None]
        column[HOLE] = Cell(cost=(0.0, *_price(row, max(lost, default=0.0), 0)))
    return column


def _price(row: _Row, regret: float, channels: int) -> tuple[float, float, float]:
    """Regret in steps too large to be noise, channels, then regret as it is."""
    return (row.weight * int(regret / row.step), row.weight * channels, row.weight * regret)


def _harmless(at: Standing) -> bool:
    """A size inside a zone that is itself unproven must at least not look slower.

    Of what nobody measured, that would be nothing but trust in the prediction.
    """
    if at.predicted:
        return at.proven
    return at.gain is not None and at.gain >= 0


def _reason(
    board: Board, proofs: Sequence[Sequence[Standing]], size: int, state: int
) -> str | None:
    if state != HOLE:
        return None
    if not proofs:
        return NOT_MEASURED
    nbytes = board.sizes[size]
    if all(line.measured(nbytes) is None for line in board.baseline.values()):
        return BASELINE_UNKNOWN
    return NOT_FASTER


def _reasons(
    board: Board, proofs: Sequence[Sequence[Standing]], states: Sequence[int], min_gain: float
) -> tuple[str | None, ...]:
    """Why each hole is one; neighbours in which nothing is proven say the same.

    What looks faster at one size alone may be luck: it makes the whole hole *not proven*, which
    says less than *not faster* does.
    """
    own = [_reason(board, proofs, i, state) for i, state in enumerate(states)]
    made: list[str | None] = []
    for reason, sizes in groupby(range(len(own)), key=own.__getitem__):
        span = list(sizes)
        made += [_best_of(proofs, span, min_gain) if reason == NOT_FASTER else reason] * len(span)
    return tuple(made)


def _best_of(proofs: Sequence[Sequence[Standing]], span: Sequence[int], min_gain: float) -> str:
    found = [row[size] for row in proofs for size in span]
    best = max(found, key=lambda each: -1.0 if each.gain is None else each.gain)
    # The gain of a prediction is held against its expected errors, which its reason says.
    if best.gain is None or best.gain < min_gain or best.predicted:
        return NOT_FASTER
    if best.proven:
        return not_proven(best.gain, "at too few sizes for a rule")
    return not_proven(best.gain, "too noisy" if best.repeated else "measured in one launch")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Measured sizes in the same state.

    Attributes:
        state: index of an arm, or HOLE.
        reason: of a hole.
        first: index of its first size.
        last: index of its last size.
    """

    state: int
    reason: str | None
    first: int
    last: int

    @property
    def span(self) -> range:
        """Indices of its sizes."""
        return range(self.first, self.last + 1)


def describe(
    group: Group, board: Board, decision: Decision, stretch: Stretch, reach: tuple[int, int]
) -> Zone:
    """The zone of a stretch, from ``reach[0]`` to ``reach[1]`` bytes inclusive."""
    measured = (board.sizes[stretch.first], board.sizes[stretch.last])
    if stretch.state == HOLE:
        return Zone(
            target=group.target,
            min_nbytes=reach[0],
            max_nbytes=reach[1],
            setting=None,
            reason=stretch.reason,
            measured_from=measured[0],
            measured_to=measured[1],
            n_sizes=len(stretch.span),
            variant=group.target.variant,
        )
    arm = board.arms[stretch.state]
    extrapolated = _extrapolation(board, stretch)
    regrets = [board.regret(stretch.state, size) for size in stretch.span]
    weights = [board.weights[size] for size in stretch.span]
    total = sum(weights)
    mean = sum(r * w for r, w in zip(regrets, weights, strict=True)) / total if total else 0.0
    return Zone(
        target=group.target,
        min_nbytes=reach[0],
        max_nbytes=reach[1],
        setting=arm.setting,
        measured_from=measured[0],
        measured_to=measured[1],
        n_sizes=len(stretch.span),
        worst_regret=max(regrets),
        mean_regret=mean,
        gain=_gain(decision, stretch),
        fallback=_fallback(group, board, decision, stretch),
        variant=arm.variant,
        proof=Proof.EXTRAPOLATED if extrapolated else _proof(decision, stretch),
        extrapolated=extrapolated,
    )


def _extrapolation(board: Board, stretch: Stretch) -> Extrapolation | None:
    """The mark of a setting's predicted curves, with the largest error inside the stretch."""
    lines = [line for line in board.lines[stretch.state].values() if line.extrapolated is not None]
    if not lines or lines[0].extrapolated is None:
        return None
    sizes = [board.sizes[size] for size in stretch.span]
    points = [line.points[n] for line in lines for n in sizes if n in line.points]
    error = max((p.high_us / p.time_us - 1 for p in points), default=None)
    return replace(lines[0].extrapolated, error=error)


def _gain(decision: Decision, stretch: Stretch) -> Gain | None:
    if not decision.standings:
        return None
    row = decision.standings[stretch.state]
    gains = [gain for size in stretch.span if (gain := row[size].gain) is not None]
    return Gain(low=min(gains), median=median(gains), high=max(gains)) if gains else None


def _proof(decision: Decision, stretch: Stretch) -> Proof:
    if not decision.standings:
        return Proof.NO_BASELINE
    row = decision.standings[stretch.state]
    proven = [row[size] for size in stretch.span if row[size].proven]
    return Proof.REPEATED if all(s.repeated for s in proven) else Proof.ONE_RUN


def _fallback(group: Group, board: Board, decision: Decision, stretch: Stretch) -> Setting | None:
    """The best setting that needs no special environment, if that is still worth a rule."""
    if board.arms[stretch.state].variant == group.target.variant:
        return None
    able: list[tuple[float, int]] = []
    for arm, candidate in enumerate(board.arms):
        if candidate.variant != group.target.variant:
            continue
        if decision.standings and not all(
            decision.standings[arm][size].beside or decision.standings[arm][size].proven
            for size in stretch.span
        ):
            continue
        able.append((max(board.regret(arm, size) for size in stretch.span), arm))
    worst, arm = min(able, default=(INF, HOLE))
    return board.arms[arm].setting if worst < INF else None
