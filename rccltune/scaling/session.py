"""Sessions of several scales to what a scale that nobody measured is expected to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rccltune import zones
from rccltune.fit import FitDone
from rccltune.model import (
    BASELINE_UNKNOWN,
    MAX_NBYTES,
    NOT_BEATEN_SURELY,
    NOT_MEASURED,
    NOT_PREDICTABLE,
    Caution,
    CommandLineError,
    Curve,
    CurveKey,
    Extrapolation,
    Fingerprint,
    Notice,
    RankPlacement,
    Reporter,
    Role,
    Scale,
    ScaleModel,
    Setting,
    Span,
    Target,
    TooLittleDataError,
    Zone,
    base_variant,
    is_not_beaten,
)
from rccltune.scaling import prediction
from rccltune.scaling.lines import Measured
from rccltune.scaling.prediction import Prediction
from rccltune.session import one_machine, stored_place
from rccltune.zones import Choice

if TYPE_CHECKING:
    from rccltune.zones import ChoiceOptions


Options = Callable[[FitDone], "ChoiceOptions"]
# Ranks of other groups work at the same time in the two left out.
_ALONE: Final = {None} | {
    one.value
    for one in RankPlacement
    if one not in (RankPlacement.EVERY_OAM, RankPlacement.ACROSS_OAMS)
}
_PARTITIONS: Final = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": 8}
# XCDs of products that have fewer than eight; in CPX each is a device.
_FEWER: Final = {"MI300A": 6, "MI308X": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What is expected at scales that were not measured.

    Attributes:
        curves: marked; those of an unknown error have none.
        choice: zones of each scale and collective; gaps where nothing may be chosen.
    """

    models: tuple[ScaleModel, ...]
    curves: tuple[Curve, ...]
    choice: Choice


def predicted(
    fits: Sequence[FitDone], scales: Sequence[Scale], options: Options, *, reporter: Reporter
) -> Predicted:
    """Predict and choose at scales that were not measured.

    Args:
        fits: sessions of one machine.
        scales: the wanted ones; of whole nodes.
        options: of a session.
        reporter: told which were measured, so that nothing is predicted.

    Raises:
        CommandLineError: a scale is not of whole nodes.
        TooLittleDataError: no setting can be predicted at all.
    """
    groups = _groups(fits)
    made: list[Prediction] = []
    wanted = [scale for scale in dict.fromkeys(scales) if not _is_measured(groups, scale, reporter)]
    for scale in wanted:
        span = _whole(fits, scale, reporter)
        found = [prediction.predict(group, span) for group in groups.values()]
        made += [one for one in found if one is not None]
    if wanted and not made:
        raise TooLittleDataError(
            f"nothing can be predicted for {', '.join(map(str, wanted))}: RCCL's model counts no "
            "steps of what was measured",
            where=", ".join(str(done.session.path) for done in fits),
            hint="measure ring or tree settings of a collective that asks a tuner.",
        )
    return Predicted(
        models=tuple(one.model for one in made),
        curves=tuple(one.curve for one in made),
        choice=_choice(fits, made, options(fits[0])),
    )


def scale_models(fits: Sequence[FitDone]) -> tuple[ScaleModel, ...]:
    """The model of each setting that was measured at two scales or more, for the largest.

    Raises:
        SessionError: sessions of two machines.
    """
    one_machine([done.session for done in fits])
    made = []
    for group in _groups(fits).values():
        spans = sorted({one.span for one in group}, key=_size)
        if len(spans) > 1:
            found = prediction.predict(group, spans[-1])
            made += [found.model] if found is not None else []
    return tuple(made)


def _size(span: Span) -> tuple[int, int, int]:
    return span.scale.n_ranks, span.scale.n_nodes, span.n_oams


# --- what was measured


def _groups(fits: Sequence[FitDone]) -> dict[CurveKey, list[Measured]]:
    """Curves of one setting, variant and view, whatever their scale and placement."""
    per_oam = _devices_per_oam(fits)
    found: dict[CurveKey, list[Measured]] = {}
    for done in fits:
        for curve in done.references:
            key = curve.key
            placed = key.rank_placement
            if placed not in _ALONE or key.setting.role in (Role.SILENT, Role.UNSTATED):
                continue
            anywhere = replace(key, scale=Scale(n_nodes=1, n_ranks=1), rank_placement=None)
            span = Span(scale=key.scale, n_oams=_n_oams(key.scale, placed, per_oam))
            found.setdefault(anywhere, []).append(Measured(span, curve))
    return found


def _n_oams(scale: Scale, placed: str | None, per_oam: int) -> int:
    """Packages under the ranks, which take a node's devices in order unless they were placed."""
    if placed == RankPlacement.ONE_PER_OAM.value:
        return scale.n_ranks
    if placed in (RankPlacement.ONE_OAM.value, RankPlacement.ONE_IOD.value):
        return scale.n_nodes
    per_node = -(-scale.n_ranks // scale.n_nodes)
    return scale.n_nodes * -(-per_node // per_oam)


def _devices_per_oam(fits: Sequence[FitDone]) -> int:
    for done in fits:
        place = stored_place(done.session.path)
        if place is not None and place.name == RankPlacement.ONE_OAM.value:
            return place.scale.n_ranks
    return _partitions(fits[0].session.fingerprint)


def _partitions(fingerprint: Fingerprint) -> int:
    """Devices of one package by its mode; 1 where there is none."""
    compute = fingerprint.mode.compute if fingerprint.mode else None
    if compute == "CPX":
        product = (fingerprint.product or "").upper()
        few = next((n for name, n in _FEWER.items() if name in product), None)
        return few or _PARTITIONS["CPX"]
    return _PARTITIONS.get(compute or "", 1)


def _devices_per_node(fits: Sequence[FitDone]) -> int | None:
    """Of whole-node sessions, of the machine's own list, or unknown."""
    for done in fits:
        place = stored_place(done.session.path)
        if place is not None and place.name == RankPlacement.NODE.value:
            return place.scale.n_ranks // place.scale.n_nodes
    listed = {len(done.session.fingerprint.devices) for done in fits} - {0}
    return max(listed, default=None)


def _is_measured(groups: dict[CurveKey, list[Measured]], scale: Scale, reporter: Reporter) -> bool:
    """Whether in any placement: a rule would be for all of them."""
    if any(one.span.scale == scale for group in groups.values() for one in group):
        reporter.say(f"{scale} was measured: its rules are those of the measurement")
        return True
    return False


def _whole(fits: Sequence[FitDone], scale: Scale, reporter: Reporter) -> Span:
    """The span of a scale of whole nodes."""
    per_node, rest = divmod(scale.n_ranks, scale.n_nodes)
    if rest:
        raise CommandLineError(
            f"{scale} cannot be predicted: every node must have as many ranks",
            hint="a scale is written NODESxRANKS with the ranks of all nodes: 2x128.",
        )
    n_devices = _devices_per_node(fits)
    if n_devices is None:
        reporter.say(f"{scale}: taken for whole nodes; how many devices a node has is not recorded")
    elif per_node != n_devices:
        raise CommandLineError(
            f"{scale} cannot be predicted: a node has {n_devices} devices here, and rules for a "
            "part of one need every placement measured",
            hint=f"name a scale of {n_devices} ranks on each node, or measure this one.",
        )
    per_oam = _devices_per_oam(fits)
    return Span(scale=scale, n_oams=_n_oams(scale, RankPlacement.NODE.value, per_oam))


# --- choosing


def _choice(fits: Sequence[FitDone], made: Sequence[Prediction], options: ChoiceOptions) -> Choice:
    """Zones at predicted scales; gaps where no baseline or no error is known."""
    curves = [one.curve for one in made]
    known = [c for c in curves if c.extrapolated is not None and c.extrapolated.error is not None]
    marks = {_target(c): c.extrapolated for c in known if c.extrapolated is not None}
    comparable = [_target(c) for c in known if _is_baseline(c, options)]
    if isinstance(options.baseline, str):
        places = {(target.collective, target.scale) for target in comparable}
        able = [c for c in known if (c.key.collective, c.key.scale) in places]
    else:
        able = [c for c in known if _target(c) in comparable]
    choosing = replace(options, extrapolate=False, arch=fits[0].session.fingerprint.arch_or_vendor)
    found = Choice(zones=(), notices=(), left_out=())
    if able:
        found = zones.choose(able, choosing)
    chosen = {zone.target for zone in found.zones}
    holes = []
    for target in dict.fromkeys(_target(c) for c in curves):
        if target not in chosen and not target.variant.patched:
            reason = BASELINE_UNKNOWN if target in marks else NOT_PREDICTABLE
            holes.append(_hole(target, reason, marks.get(target) or _mark(curves, target)))
    marked = tuple(
        replace(
            zone,
            extrapolated=zone.extrapolated or marks.get(zone.target),
            reason=NOT_BEATEN_SURELY if is_not_beaten(zone.reason) else zone.reason,
        )
        for zone in found.zones
    )
    return replace(
        found,
        zones=(*marked, *holes),
        notices=(*found.notices, *_notices([*marked, *holes], [one.model for one in made])),
    )


def _target(curve: Curve) -> Target:
    return replace(curve.key.target, variant=base_variant(curve.key.variant))


def _mark(curves: Sequence[Curve], target: Target) -> Extrapolation | None:
    return next((c.extrapolated for c in curves if _target(c) == target), None)


def _is_baseline(curve: Curve, options: ChoiceOptions) -> bool:
    wanted, key = options.baseline, curve.key
    if isinstance(wanted, Setting):
        return key.setting == wanted
    named = wanted is None or key.variant.name == wanted
    return named and key.setting.role is Role.BASELINE


def _hole(target: Target, reason: str, mark: Extrapolation | None) -> Zone:
    return Zone(
        target=target,
        min_nbytes=0,
        max_nbytes=MAX_NBYTES,
        setting=None,
        reason=reason,
        variant=target.variant,
        extrapolated=mark,
    )


def _notices(found: Sequence[Zone], models: Sequence[ScaleModel]) -> list[Notice]:
    """One for each scale: that its rules are predictions, or why it has none."""
    made: list[Notice] = []
    for scale in dict.fromkeys(zone.target.scale for zone in found):
        here = [zone for zone in found if zone.target.scale == scale]
        lacking = [m.assumed for m in models if m.target.scale == scale]
        unknown = list(dict.fromkeys(what for assumed in lacking for what in assumed))
        if any(zone.setting is not None for zone in here):
            message = "nothing of it was measured: its rules are predictions"
        elif unknown:
            message = f"no rule can be predicted: nothing measured shows {_listed(unknown)}"
        else:
            reasons = dict.fromkeys(zone.reason for zone in here if zone.reason != NOT_MEASURED)
            message = f"no rule is predicted: {_listed([str(reason) for reason in reasons])}"
        made.append(
            Notice(
                caution=Caution.EXTRAPOLATED,
                message=message,
                remedy="measure it (rccltune sweep), or verify the rules there before use.",
                where=str(scale),
            )
        )
    return made


def _listed(words: Sequence[str]) -> str:
    return "; ".join(words)
