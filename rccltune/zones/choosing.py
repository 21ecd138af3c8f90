"""Curves to zones: the whole way for each target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, pairwise
from math import log

from rccltune.errors import TooLittleDataError
from rccltune.model import (
    NOT_MEASURED,
    NOTHING_SELECTABLE,
    Curve,
    LeftOut,
    Notice,
    Target,
    Zone,
)
from rccltune.units import MAX_NBYTES
from rccltune.zones.arms import Group, groups_of
from rccltune.zones.board import Board, make_board
from rccltune.zones.decide import Decision, decide
from rccltune.zones.describe import Stretch, describe
from rccltune.zones.edges import Ends, boundary
from rccltune.zones.notices import left_out, notices
from rccltune.zones.options import Choice, ChoiceOptions
from rccltune.zones.path import HOLE
from rccltune.zones.together import together

# How many sizes at an end must agree before a zone reaches beyond what was measured.
END_SIZES = 3


def choose(curves: Sequence[Curve], options: ChoiceOptions | None = None) -> Choice:
    """Choose a setting for every size of every target.

    Args:
        curves: as the fit room made them; all views of a target serve one list of zones, since
            a tuner sees neither type nor placement, and a zone's regret is the worst of them.
        options: the contract's defaults unless given.

    Returns:
        Zones of each tunable target, covering 0 to 2^63-1.

    Raises:
        TooLittleDataError: there is no curve of a setting, or none of the baseline named.
    """
    options = options or ChoiceOptions()
    groups = groups_of(curves, options)
    _refuse_nothing(groups, options)
    return _choice(groups, options)


def choose_together(
    parts: Mapping[str, Sequence[Curve]], options: ChoiceOptions | None = None
) -> Choice:
    """Choose a setting that is right wherever the ranks are.

    Args:
        parts: curves by the name of where the ranks were, all at one scale.
        options: as for one of them.

    Returns:
        Zones of each tunable target that every part has with a baseline; there may be none.
    """
    options = options or ChoiceOptions()
    return _choice(together(parts, options), options)


def _choice(groups: Sequence[Group], options: ChoiceOptions) -> Choice:
    zones: list[Zone] = []
    said: list[Notice] = []
    out: list[LeftOut] = []
    for group in groups:
        board = make_board(group, options)
        out.extend(left_out(group, board))
        decision = decide(board, options) if board.sizes else None
        said.extend(notices(group, board, decision, options))
        if group.target.variant.patched or not group.target.collective.is_tunable:
            continue
        if decision is None:
            zones.append(_nothing(group.target))
        else:
            zones.extend(_zones(group, board, decision, options))
    return Choice(zones=tuple(zones), notices=tuple(said), left_out=tuple(out))


def _refuse_nothing(groups: Sequence[Group], options: ChoiceOptions) -> None:
    if not groups:
        raise TooLittleDataError(
            "no good sample of any setting was measured: there is nothing to choose from",
            hint="sweep or import settings beside the baseline; samples.csv says why samples "
            "were doubted.",
        )
    if options.baseline is not None and not any(group.baseline for group in groups):
        settings = sorted({str(arm.setting) for group in groups for arm in group.arms})
        raise TooLittleDataError(
            f"no sample of the baseline '{options.baseline}' was measured",
            hint=f"measured settings are {', '.join(settings)}; a variant's name counts too.",
        )


def _nothing(target: Target) -> Zone:
    return Zone(
        target=target,
        min_nbytes=0,
        max_nbytes=MAX_NBYTES,
        setting=None,
        reason=NOTHING_SELECTABLE,
        variant=target.variant,
    )


def _zones(group: Group, board: Board, decision: Decision, options: ChoiceOptions) -> list[Zone]:
    stretches = _stretches(decision)
    edges = [_edge(board, left, right, options) for left, right in pairwise(stretches)]
    low = 0 if _reaches_down(board, decision, stretches[0], options) else board.sizes[0]
    high = MAX_NBYTES if _reaches_up(stretches[-1], options) else board.sizes[-1]
    lows = [low, *(edge + 1 for edge in edges)]
    highs = [*edges, high]
    zones = [
        describe(group, board, decision, stretch, (lows[i], highs[i]))
        for i, stretch in enumerate(stretches)
    ]
    if low > 0:
        zones.insert(0, _unmeasured(group.target, 0, low - 1))
    if high < MAX_NBYTES:
        zones.append(_unmeasured(group.target, high + 1, MAX_NBYTES))
    return zones


def _unmeasured(target: Target, low: int, high: int) -> Zone:
    return Zone(
        target=target,
        min_nbytes=low,
        max_nbytes=high,
        setting=None,
        reason=NOT_MEASURED,
        variant=target.variant,
    )


def _stretches(decision: Decision) -> list[Stretch]:
    """Runs of sizes in the same state (holes also for the same reason)."""
    keyed = list(zip(decision.states, decision.reasons, strict=True))
    runs: list[Stretch] = []
    for (state, reason), members in groupby(range(len(keyed)), key=keyed.__getitem__):
        indices = list(members)
        runs.append(Stretch(state, reason, indices[0], indices[-1]))
    return runs


def _edge(board: Board, left: Stretch, right: Stretch, options: ChoiceOptions) -> int:
    """Last size of the left stretch, from the curves on both sides of it."""
    low, high = left.last, right.first
    ratios: list[Ends] = []
    for view in board.best[low]:
        prices = [_price(board, s.state, view, options) for s in (left, right)]
        ends = [[price(size) for price in prices] for size in (low, high)]
        logs = [log(a / b) for a, b in ends if a is not None and b is not None]
        if len(logs) == 2:
            ratios.append((logs[0], logs[1]))
    if HOLE in (left.state, right.state) and (not ratios or board.is_predicted):
        # Nothing to compare with, or nothing certain: a rule keeps to the sizes that prove it.
        return board.sizes[low] if right.state == HOLE else board.sizes[high] - 1
    return boundary(board.sizes[low], board.sizes[high], ratios)


def _price(
    board: Board, state: int, view: int, options: ChoiceOptions
) -> Callable[[int], float | None]:
    """What a state costs at a size; a hole must be beaten by the wanted gain to give way."""
    lines = board.baseline if state == HOLE else board.lines[state]
    factor = 1 / (1 + options.min_gain) if state == HOLE else board.penalties[state]
    line = lines.get(view)

    def price(size: int) -> float | None:
        time = None if line is None else line.at(board.sizes[size])
        return None if time is None else time * factor

    return price


def _reaches_up(last: Stretch, options: ChoiceOptions) -> bool:
    """Whether the last zone may serve all larger sizes: it is the choice at the three largest."""
    if last.state == HOLE:
        return False
    return options.extrapolate or len(last.span) >= END_SIZES


def _reaches_down(board: Board, decision: Decision, first: Stretch, options: ChoiceOptions) -> bool:
    """Whether the first zone may serve all smaller sizes.

    Its setting must be within tolerance at the three smallest, and nowhere there be slower than
    the baseline.
    """
    if first.state == HOLE or options.extrapolate:
        return first.state != HOLE
    sizes = range(END_SIZES)
    if len(board.sizes) < END_SIZES or any(
        board.regret(first.state, size, penalised=True) > options.tolerance for size in sizes
    ):
        return False
    gains = [decision.standings[first.state][size].gain for size in sizes if decision.standings]
    return all(gain is not None and gain >= 0 for gain in gains)
