"""What weakens a choice, in words, each with its remedy, and what was left out of it."""

from __future__ import annotations

from rccltune.model import Caution, LeftOut, Notice, Role
from rccltune.units import format_size
from rccltune.zones.arms import Barred, Group
from rccltune.zones.board import INF, Board, Line
from rccltune.zones.decide import Decision
from rccltune.zones.options import ChoiceOptions


def left_out(group: Group, board: Board) -> list[LeftOut]:
    """Settings that were measured and can be in no rule, with how often each would have won."""
    return [
        LeftOut(
            target=group.target,
            setting=barred.setting,
            variant=barred.variant,
            reason=barred.reason,
            n_fastest=_n_fastest(barred, board),
        )
        for barred in group.barred
    ]


def _n_fastest(barred: Barred, board: Board) -> int:
    """Sizes at which it beats everything that may be chosen in every view that it has."""
    lines = {
        index: Line(barred.curves[view])
        for index, view in enumerate(board.views)
        if view in barred.curves
    }
    count = 0
    for size, nbytes in enumerate(board.sizes):
        pairs = [
            (time, least)
            for view, least in board.best[size].items()
            if view in lines and (time := lines[view].measured(nbytes)) is not None
        ]
        count += bool(pairs) and all(time < least for time, least in pairs)
    return count


def notices(
    group: Group, board: Board, decision: Decision | None, options: ChoiceOptions
) -> list[Notice]:
    """The notices of one target."""
    where = f"{group.target.collective.value}, {group.target.scale}"
    if group.target.variant.name != "default":
        where += f", variant {group.target.variant.name}"
    found: list[Notice | None] = [_barred(group, where), _unstated(group, where)]
    if decision is not None:
        found += [
            _baseline(board, where),
            _one_run(board, where),
            _missing_view(board, where),
            _relaxed(decision, options, where),
        ]
    return [notice for notice in found if notice is not None]


def _barred(group: Group, where: str) -> Notice | None:
    barred = [b for b in group.barred if b.setting.role is not Role.UNSTATED]
    if not barred:
        return None
    listed = "; ".join(f"{b.setting}: {b.reason}" for b in barred)
    return Notice(
        caution=Caution.NOT_SELECTABLE,
        message=f"measured, but in no rule: {listed}",
        remedy="they stay in fit and plots for comparison.",
        where=where,
    )


def _unstated(group: Group, where: str) -> Notice | None:
    if not any(b.setting.role is Role.UNSTATED for b in group.barred):
        return None
    return Notice(
        caution=Caution.UNSTATED_SETTING,
        message="some samples do not say which setting ran and are used for nothing",
        remedy="import them again with --algorithm and --protocol, or with --baseline.",
        where=where,
    )


def _baseline(board: Board, where: str) -> Notice | None:
    if board.baseline:
        return None
    return Notice(
        caution=Caution.NO_BASELINE,
        message="the untouched library was not measured: rules say which setting is the fastest "
        "of those measured, not that it beats what runs today",
        remedy="measure it (rccltune sweep does by itself), or name it with --baseline.",
        where=where,
    )


def _one_run(board: Board, where: str) -> Notice | None:
    lines = [line for by_view in board.lines for line in by_view.values()]
    if any(line.is_predicted for line in lines):
        return None
    repeated = sum(p.n_launches > 1 for line in lines for p in line.points.values())
    if repeated:
        return None
    gain = "only gains of 15 % at three neighbouring sizes count; " if board.baseline else ""
    return Notice(
        caution=Caution.ONE_RUN,
        message=f"every setting was measured in one launch: {gain}differences of a few "
        "percent are noise",
        remedy="measure with --repeats 3 or more; a resumed session adds the missing ones.",
        where=where,
    )


def _missing_view(board: Board, where: str) -> Notice | None:
    """Arms that cannot be chosen somewhere because a type or placement was not measured."""
    missing = [
        (arm, sum(board.regret(index, size) == INF for size in range(len(board.sizes))))
        for index, arm in enumerate(board.arms)
    ]
    named = [f"{arm.setting} at {count}" for arm, count in missing if count]
    if not named:
        return None
    return Notice(
        caution=Caution.MISSING_VIEW,
        message="not chosen where they were not measured in every type and placement that "
        f"another setting was: {', '.join(named)} of {len(board.sizes)} sizes",
        remedy="measure all settings with the same sizes, types and placements.",
        where=where,
    )


def _relaxed(decision: Decision, options: ChoiceOptions, where: str) -> Notice | None:
    if not decision.relaxed:
        return None
    sizes = ", ".join(format_size(nbytes) for nbytes in decision.relaxed[:4])
    more = len(decision.relaxed) - 4
    return Notice(
        caution=Caution.TOLERANCE_NOT_MET,
        message=f"no setting is within {options.tolerance:.1%} of the best in every type and "
        f"placement at {sizes}{f' and {more} more sizes' if more > 0 else ''}; the least worst "
        "was taken",
        remedy="a rule cannot tell types and placements apart: tune on those that your job uses.",
        where=where,
    )
