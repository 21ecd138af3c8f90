"""Curves to zones, the whole way for each target, with what weakens the choice.

A tuner sees how many ranks there are and not where. So each placement is one more view that a
rule serves: its regret is the worst of them, and it must beat the baseline in every one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rccltune.model.chosen import NOT_MEASURED, NOTHING_SELECTABLE, LeftOut, Zone
from rccltune.model.curves import Curve
from rccltune.model.errors import TooLittleDataError
from rccltune.model.measured import Caution, Notice
from rccltune.model.settings import Role, Setting, Target, View
from rccltune.model.vocabulary import MAX_NBYTES, format_size
from rccltune.zones.arms import Arm, Barred, Choice, ChoiceOptions, Group, groups_of
from rccltune.zones.board import INF, Board, Line, make_board
from rccltune.zones.decision import Decision, decide, describe
from rccltune.zones.reach import Reach, drawn_in, reaches, stretches, too_narrow


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
        count=len(barred),
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
        message="the library's own choice was not measured: rules say which setting is the fastest "
        "of those measured, not that it beats what runs today",
        remedy="measure it (rccltune sweep does by itself), or name it with --baseline.",
        where=where,
    )


def _one_run(board: Board, where: str) -> Notice | None:
    lines = [line for by_view in board.lines for line in by_view.values()]
    repeated = sum(p.n_launches > 1 for line in lines for p in line.points.values())
    if repeated:
        return None
    gain = "no gain is proven, and " if board.baseline else ""
    return Notice(
        caution=Caution.ONE_RUN,
        message=f"every setting was measured in one launch: {gain}differences of a few "
        "percent are noise",
        remedy="measure with --repeats 3 or more; a resumed session adds the missing ones.",
        where=where,
    )


def _missing_view(board: Board, where: str) -> Notice | None:
    """Candidates that cannot be chosen somewhere because a type or placement was not measured."""
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
        count=len(decision.relaxed),
    )


_Parts = dict[str, Group]


def together(parts: Mapping[str, Sequence[Curve]], options: ChoiceOptions) -> list[Group]:
    """One group for each target that every part has, with its placements as views.

    A target without a baseline in some part is left out: nobody knows that it is not slower there.

    Args:
        parts: curves by the name of where the ranks were, of one machine.
        options: as for one part.
    """
    targets: dict[Target, _Parts] = {}
    for name, curves in parts.items():
        for group in groups_of(curves, options):
            anywhere = replace(group.target, rank_placement=" and ".join(parts))
            targets.setdefault(anywhere, {})[name] = group
    return [
        _joined(target, groups)
        for target, groups in targets.items()
        if len(groups) == len(parts) and all(group.baseline for group in groups.values())
    ]


def _joined(target: Target, groups: _Parts) -> Group:
    sizes = set.intersection(*(_sizes(group) for group in groups.values()))
    barred = _barred_anywhere(groups)
    everywhere = set.intersection(
        *({arm.setting for arm in group.arms} for group in groups.values())
    ) - {one.setting for one in barred}
    first = next(iter(groups.values()))
    arms = [_arm(arm, groups, sizes) for arm in first.arms if arm.setting in everywhere]
    return Group(
        target=target,
        arms=[arm for arm in arms if arm is not None],
        baseline={
            replace(view, ranks=name): curve
            for name, group in groups.items()
            for view, curve in group.baseline.items()
        },
        barred=barred,
        own=dict(set.intersection(*(set(group.own.items()) for group in groups.values()))),
    )


def _sizes(group: Group) -> set[int]:
    """Sizes at which any setting was measured there."""
    return {p.nbytes for arm in group.arms for curve in arm.curves.values() for p in curve.points}


def _arm(arm: Arm, groups: _Parts, sizes: set[int]) -> Arm | None:
    """A candidate with its curves of all places; None where one of them has no point to compare."""
    curves: dict[View, Curve] = {}
    for name, group in groups.items():
        own = _curves(name, _of(arm.setting, group), sizes)
        if not own:
            return None
        curves |= own
    return replace(arm, curves=curves)


def _of(setting: Setting, group: Group) -> Mapping[View, Curve]:
    return next(arm.curves for arm in group.arms if arm.setting == setting)


def _curves(name: str, curves: Mapping[View, Curve], sizes: set[int]) -> dict[View, Curve]:
    """Curves at the sizes that every place has: at others a place would have no say."""
    found = {}
    for view, curve in curves.items():
        points = tuple(p for p in curve.points if p.nbytes in sizes)
        if points:
            found[replace(view, ranks=name)] = replace(curve, points=points)
    return found


def _barred_anywhere(groups: _Parts) -> list[Barred]:
    """What cannot be chosen in some place, once, with its curves of all."""
    found: dict[tuple[Setting, str], Barred] = {}
    for name, group in groups.items():
        for one in group.barred:
            curves = {replace(view, ranks=name): curve for view, curve in one.curves.items()}
            known = found.get((one.setting, one.variant.name))
            before = known.curves if known is not None else {}
            found[one.setting, one.variant.name] = replace(one, curves=before | curves)
    return list(found.values())


def choose(curves: Sequence[Curve], options: ChoiceOptions | None = None) -> Choice:
    """Choose a setting for every size of every target.

    Args:
        curves: as fit made them; all views of a target serve one list of zones, since
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
            sizes = options.to_verify.get(group.target.collective, ())
            zones.extend(drawn_in(_zones(group, board, decision, options), sizes))
    return Choice(zones=tuple(zones), notices=tuple(said), left_out=tuple(out))


def _refuse_nothing(groups: Sequence[Group], options: ChoiceOptions) -> None:
    if not groups:
        raise TooLittleDataError(
            "no good sample of any setting was measured: there is nothing to choose from",
            hint="sweep or import settings beside the baseline; samples.csv says why samples "
            "were left out.",
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
        narrow = too_narrow(board, stretches(board, decision), decision, options)
        if not narrow:
            return decision
        banned.update(narrow)


def _zones(group: Group, board: Board, decision: Decision, options: ChoiceOptions) -> list[Zone]:
    return [
        _unmeasured(group, one)
        if one.stretch is None
        else describe(group, board, decision, one.stretch, (one.low, one.high))
        for one in reaches(board, stretches(board, decision), options)
    ]


def _unmeasured(group: Group, reach: Reach) -> Zone:
    """The gap of sizes at which nothing was measured."""
    return Zone(
        target=group.target,
        min_nbytes=reach.low,
        max_nbytes=reach.high,
        setting=None,
        reason=NOT_MEASURED,
        variant=group.target.variant,
    )
