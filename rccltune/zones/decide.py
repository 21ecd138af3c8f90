"""From times and proofs to one state for each measured size."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rccltune.model import BASELINE_UNKNOWN, NOT_BEATEN, NOT_MEASURED
from rccltune.zones.board import INF, Board
from rccltune.zones.options import ChoiceOptions
from rccltune.zones.path import HOLE, Cell, Column, cheapest
from rccltune.zones.proof import Rivals, Standing, standings

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
        reasons=tuple(_reason(board, proofs, i, state) for i, state in enumerate(states)),
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
    return NOT_BEATEN
