"""A stretch of sizes in one state, as the zone that people and rule files get."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from rccltune.model import Extrapolation, Gain, Proof, Setting, Zone
from rccltune.zones.arms import Group
from rccltune.zones.board import INF, Board
from rccltune.zones.decide import Decision
from rccltune.zones.path import HOLE


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
