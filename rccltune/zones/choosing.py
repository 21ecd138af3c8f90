"""Curves to zones: the whole way for each target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rccltune.errors import TooLittleDataError
from rccltune.model import (
    NOT_MEASURED,
    NOTHING_SELECTABLE,
    Curve,
    LeftOut,
    Notice,
    Proof,
    Target,
    Zone,
)
from rccltune.units import MAX_NBYTES
from rccltune.zones.arms import Group, groups_of
from rccltune.zones.board import Board, make_board
from rccltune.zones.decide import Decision, decide
from rccltune.zones.describe import describe
from rccltune.zones.notices import left_out, notices
from rccltune.zones.options import Choice, ChoiceOptions
from rccltune.zones.path import HOLE
from rccltune.zones.reach import Reach, reaches, stretches, too_narrow
from rccltune.zones.together import together


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
        decision = _decided(board, options) if board.sizes else None
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


def _decided(board: Board, options: ChoiceOptions) -> Decision:
    """What is chosen at each size, without choices that are narrower than what was measured."""
    banned: set[tuple[int, int]] = set()
    while True:
        decision = decide(board, options, banned)
        narrow = too_narrow(board, stretches(board, decision), options)
        if not narrow:
            return decision
        banned.update(narrow)


def _zones(group: Group, board: Board, decision: Decision, options: ChoiceOptions) -> list[Zone]:
    return [
        _unmeasured(group, board, one)
        if one.stretch is None
        else describe(group, board, decision, one.stretch, (one.low, one.high))
        for one in reaches(board, stretches(board, decision), options)
    ]


def _unmeasured(group: Group, board: Board, reach: Reach) -> Zone:
    """Sizes at which nothing was measured: a hole, or a setting that was asked for there."""
    arm = None if reach.state == HOLE else board.arms[reach.state]
    return Zone(
        target=group.target,
        min_nbytes=reach.low,
        max_nbytes=reach.high,
        setting=None if arm is None else arm.setting,
        reason=NOT_MEASURED if arm is None else None,
        variant=group.target.variant if arm is None else arm.variant,
        proof=None if arm is None else Proof.EXTRAPOLATED,
    )
