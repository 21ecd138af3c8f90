"""From times and proofs to one state for each size, and to zones of sizes in one state.

One state per size: a candidate, or a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, groupby, pairwise
from statistics import median

from rccltune.model.chosen import (
    BASELINE_UNKNOWN,
    NOT_FASTER,
    NOT_MEASURED,
    Gain,
    Proof,
    Zone,
    not_proven,
)
from rccltune.model.curves import is_gap
from rccltune.zones.arms import ChoiceOptions, Group
from rccltune.zones.board import INF, Board
from rccltune.zones.path import HOLE, Cell, Column, cheapest
from rccltune.zones.proof import Rivals, Standing, standings

# Regrets that differ by less than a quarter of the tolerance are a tie, and go to fewer channels.
_TIE = 4
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Decision:
    """The state of each measured size.

    Attributes:
        states: index of a candidate, or ``HOLE``.
        reasons: why a gap is one, by size; None for candidates.
        standings: of each candidate at each size; empty without a baseline.
        proven: whether repeats alone choose the state of each size.
        relaxed: sizes at which no candidate is within tolerance in every view.
    """

    states: tuple[int, ...]
    reasons: tuple[str | None, ...]
    standings: list[list[Standing]]
    proven: tuple[bool, ...]
    relaxed: tuple[int, ...]


def decide(
    board: Board, options: ChoiceOptions, banned: Collection[tuple[int, int]] = ()
) -> Decision:
    """The fewest rules within tolerance that the baseline does not already equal.

    What is likely is chosen like what repeats prove, unless only that is wanted: a setting that was
    measured twice is no reason to miss one that is a tenth faster and was measured once.

    Args:
        board: all times.
        options: of the choice.
        banned: (candidate, size) that may not be chosen.
    """
    proofs = standings(board, options.min_gain)
    chooser = _Chooser(board, options, proofs, banned)
    if options.proven and not proofs:
        return _nothing_proven(len(board.sizes))
    sure = chooser.choose(_PROVEN)
    states = sure if options.proven or not proofs else chooser.choose(_LIKELY)
    return Decision(
        states=states,
        reasons=_reasons(board, proofs, states, options),
        standings=proofs,
        proven=tuple(state == one for state, one in zip(states, sure, strict=True)),
        relaxed=tuple(chooser.relaxed),
    )


def _nothing_proven(n_sizes: int) -> Decision:
    """Without a baseline there is no gain to prove."""
    return Decision(
        states=(HOLE,) * n_sizes,
        reasons=(BASELINE_UNKNOWN,) * n_sizes,
        standings=[],
        proven=(True,) * n_sizes,
        relaxed=(),
    )


@dataclass(frozen=True, slots=True)
class _Strength:
    """How much evidence is enough.

    Attributes:
        carries: a zone may be made for it.
        joins: a size may join a zone beside it.
    """

    carries: Callable[[Standing], bool]
    joins: Callable[[Standing], bool]


_PROVEN = _Strength(lambda one: one.proven, lambda one: one.beside)
_LIKELY = _Strength(lambda one: one.proven or one.likely, lambda one: one.beside or one.joins)


class _Chooser:
    """Chooses on evidence of one strength."""

    def __init__(
        self,
        board: Board,
        options: ChoiceOptions,
        proofs: Sequence[Sequence[Standing]],
        banned: Collection[tuple[int, int]],
    ) -> None:
        self._board = board
        self._options = options
        self._proofs = proofs
        self._banned = banned
        rivals = Rivals(board)
        # Asked twice of most: for what repeats prove alone, and for all.
        self._is_slower = cache(lambda arm, size: rivals.is_slower(arm, size, options.tolerance))
        self.relaxed: list[int] = []

    def choose(self, wanted: _Strength) -> tuple[int, ...]:
        """The state of each size, with so much evidence."""
        board, tolerance = self._board, self._options.tolerance
        # Regrets below a part of the tolerance are a tie; without tolerance there are no ties.
        step = max(tolerance / _TIE, _EPSILON)
        columns: list[Column] = []
        self.relaxed.clear()
        for size, nbytes in enumerate(board.sizes):
            regrets = [
                INF if (arm, size) in self._banned else board.regret(arm, size)
                for arm in range(len(board.arms))
            ]
            standing = [row[size] for row in self._proofs]
            carried = [wanted.carries(one) for one in standing]
            joined = [wanted.joins(one) for one in standing]
            allowed = _allowed(regrets, carried, tolerance)
            if tolerance + _EPSILON < allowed < INF:
                self.relaxed.append(nbytes)
            able = [
                regret <= allowed + _EPSILON or (regret < INF and not self._is_slower(arm, size))
                for arm, regret in enumerate(regrets)
            ]
            row = _Row(regrets, standing, carried, joined, able, board.weights[size], step)
            columns.append(_column(board, row))
        return tuple(cheapest(columns))


@dataclass(frozen=True, slots=True)
class _Row:
    """One size, by candidate.

    Attributes:
        carried: the evidence of the candidate may make a zone.
        joined: it may join one.
        able: nothing shows that the candidate is slower than the best by more than may be.
        step: width of a tie.
    """

    regrets: Sequence[float]
    standing: Sequence[Standing]
    carried: Sequence[bool]
    joined: Sequence[bool]
    able: Sequence[bool]
    weight: float
    step: float


def _allowed(regrets: Sequence[float], carried: Sequence[bool], tolerance: float) -> float:
    """The tolerance, or the least regret that anything which may be chosen here has."""
    able = list(regrets)
    if carried:
        able = [r for r, is_able in zip(regrets, carried, strict=True) if is_able and r < INF]
    return max(tolerance, min(able, default=0.0))


def _column(board: Board, row: _Row) -> Column:
    """What may be chosen at one size, and at which price."""
    column: Column = {}
    for arm, regret in enumerate(row.regrets):
        at = row.standing[arm] if row.standing else None
        if not row.able[arm] or regret == INF or (at and not _harmless(at)):
            continue
        proves = at is None or row.carried[arm]
        bridged = at is not None and not proves and not row.joined[arm]
        channels = board.arms[arm].setting.channels or 0
        column[arm] = Cell(cost=(float(bridged), *_price(row, regret, channels)), proves=proves)
    if not any(cell.proves for cell in column.values()):
        # What leaving the size to RCCL loses against settings that may join a proven zone.
        joined = zip(row.standing, row.joined, strict=True)
        lost = [one.gain for one, joins in joined if joins and one.gain is not None]
        column[HOLE] = Cell(cost=(0.0, *_price(row, max(lost, default=0.0), 0)))
    return column


def _price(row: _Row, regret: float, channels: int) -> tuple[float, float, float]:
    """Regret in steps too large to be noise, channels, then regret as it is."""
    return (row.weight * int(regret / row.step), row.weight * channels, row.weight * regret)


def _harmless(at: Standing) -> bool:
    """A size inside a zone that is itself unproven must at least not look slower."""
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
    board: Board,
    proofs: Sequence[Sequence[Standing]],
    states: Sequence[int],
    options: ChoiceOptions,
) -> tuple[str | None, ...]:
    """Why each gap is one; neighbours in which nothing is proven say the same.

    What looks faster at one size alone may be luck: it makes the whole gap *not proven*, which
    says less than *not faster* does. Sizes too far apart to be one range are no neighbours.
    """
    own = [_reason(board, proofs, i, state) for i, state in enumerate(states)]
    apart = [0, *accumulate(is_gap(low, high) for low, high in pairwise(board.sizes))]
    made: list[str | None] = []
    for (reason, _), sizes in groupby(range(len(own)), key=lambda size: (own[size], apart[size])):
        span = list(sizes)
        made += [_best_of(proofs, span, options) if reason == NOT_FASTER else reason] * len(span)
    return tuple(made)


def _best_of(
    proofs: Sequence[Sequence[Standing]], span: Sequence[int], options: ChoiceOptions
) -> str:
    found = [row[size] for row in proofs for size in span]
    best = max(found, key=lambda each: -1.0 if each.gain is None else each.gain)
    if best.gain is None or best.gain < options.min_gain:
        return NOT_FASTER
    if (_PROVEN if options.proven else _LIKELY).carries(best):
        return not_proven(best.gain, "at too few sizes for a rule")
    why = "too noisy" if best.repeated else "measured in one launch"
    if best.evidence is not None:
        why += f", where noise makes up to {best.evidence.noise:.0%}"
    return not_proven(best.gain, why)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Measured sizes in the same state.

    Attributes:
        state: index of a candidate, or ``HOLE``.
        reason: of a gap.
        first: index of its first size.
        last: index of its last size.
        is_proven: repeats alone choose it at all of them, or leave them open.
        noise: gain that noise reaches at the first and at the last of them, 0.02 for 2 %.
    """

    state: int
    reason: str | None
    first: int
    last: int
    is_proven: bool = True
    noise: tuple[float, float] = (0.0, 0.0)

    @property
    def span(self) -> range:
        """Indices of its sizes."""
        return range(self.first, self.last + 1)


def describe(
    group: Group, board: Board, decision: Decision, stretch: Stretch, reach: tuple[int, int]
) -> Zone:
    """The zone of a range, from ``reach[0]`` to ``reach[1]`` bytes inclusive."""
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
    regrets = [board.regret(stretch.state, size) for size in stretch.span]
    weights = [board.weights[size] for size in stretch.span]
    row = decision.standings[stretch.state] if decision.standings else []
    known = [row[size] for size in stretch.span] if row else []
    behind = _fallback(group, board, decision, stretch)
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
        gain=_gain(decision, stretch.state, stretch),
        fallback=None if behind is None else board.arms[behind].setting,
        fallback_gain=None if behind is None else _gain(decision, behind, stretch),
        fallback_certainty=None if behind is None else _certainty(decision, behind, stretch),
        variant=arm.variant,
        proof=_proof(decision, stretch),
        certainty=_certainty(decision, stretch.state, stretch),
        noise=median(noises) if (noises := _noises(known)) else None,
    )


def _gain(decision: Decision, arm: int, stretch: Stretch) -> Gain | None:
    if not decision.standings:
        return None
    row = decision.standings[arm]
    gains = [gain for size in stretch.span if (gain := row[size].gain) is not None]
    return Gain(low=min(gains), median=median(gains), high=max(gains)) if gains else None


def _certainty(decision: Decision, arm: int, stretch: Stretch) -> float | None:
    """At its surest size."""
    row = decision.standings[arm] if decision.standings else []
    known = (row[size].certainty for size in stretch.span) if row else iter(())
    return max((one for one in known if one is not None), default=None)


def _noises(known: Sequence[Standing]) -> list[float]:
    return [one.evidence.noise for one in known if one.evidence is not None]


def _proof(decision: Decision, stretch: Stretch) -> Proof:
    if not decision.standings:
        return Proof.NO_BASELINE
    return Proof.REPEATED if stretch.is_proven else Proof.UNPROVEN


def _fallback(group: Group, board: Board, decision: Decision, stretch: Stretch) -> int | None:
    """The best candidate that needs no special environment, if that is still worth a rule."""
    if board.arms[stretch.state].variant == group.target.variant:
        return None
    wanted = _PROVEN if stretch.is_proven else _LIKELY
    able: list[tuple[float, int]] = []
    for arm, candidate in enumerate(board.arms):
        if candidate.variant != group.target.variant:
            continue
        row = decision.standings[arm] if decision.standings else []
        if row and not all(wanted.carries(row[n]) or wanted.joins(row[n]) for n in stretch.span):
            continue
        able.append((max(board.regret(arm, size) for size in stretch.span), arm))
    worst, arm = min(able, default=(INF, HOLE))
    return arm if worst < INF else None
