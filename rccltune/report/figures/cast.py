"""Casting: which curves of a target are drawn strongly, faintly or not at all.

A sweep with channels has thirty settings and more; a picture with thirty lines says nothing. So
the settings are put into families (algorithm, protocol, variant, graph) and each family sends
one *lead*, drawn strongly and labelled; the rest of the family is drawn faintly behind it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rccltune.model.chosen import Zone
from rccltune.model.curves import Curve
from rccltune.model.settings import BASELINE, Role, Scale, Setting, Target, View
from rccltune.model.vocabulary import Collective, Placement
from rccltune.report.figures.scene import PlotInput, Scene, Series

# More labelled lines than this cannot be told apart, whatever the colours.
MAX_LEADS: Final = 10
# Up to this many settings, eager and graph-captured calls are shown side by side.
FEW_SETTINGS: Final = 3


def scenes(given: PlotInput) -> tuple[Scene, ...]:
    """One scene for each (collective, scale, placement of ranks), in the order of the curves."""
    groups: dict[tuple[Collective, Scale, str | None], list[Curve]] = defaultdict(list)
    for curve in given.curves:
        groups[_group(curve.key.target)].append(curve)
    return tuple(_scene(given, curves) for curves in groups.values())


def _group(target: Target) -> tuple[Collective, Scale, str | None]:
    return target.collective, target.scale, target.rank_placement


def _scene(given: PlotInput, curves: Sequence[Curve]) -> Scene:
    view, drawn = _choose_view(curves)
    series = _series(given, drawn)
    baseline = _baseline(given, series)
    if baseline is not None:
        # Our plugin answering nothing is the untouched site once more.
        series = [s for s in series if s is baseline or s.setting.role is not Role.SILENT]
    zones = _zones_of_one_variant(given, _group(curves[0].key.target))
    leads, faint = _cast(series, baseline, [z.setting for z in zones if z.setting is not None])
    seen = {c.key.view for c in drawn}
    seen |= {_other_placement(v) for v in seen}
    views = sorted({c.key.view for c in curves} - seen, key=str)
    key = curves[0].key
    return Scene(
        collective=key.collective,
        scale=key.scale,
        rank_placement=key.rank_placement,
        view=view,
        leads=leads,
        faint=faint,
        baseline=baseline,
        zones=zones,
        crossovers=tuple(
            c
            for c in given.crossovers
            if _group(c.target) == _group(key.target) and _is_of(view, c.view)
        ),
        views_left_out=tuple(views),
        given=given,
    )


def _is_of(view: View, changed: View) -> bool:
    """Whether a change was seen in a view; of each size one clock counts there."""
    return replace(view, graph=None) == changed


def _choose_view(curves: Sequence[Curve]) -> tuple[View, list[Curve]]:
    """The view to draw and its curves: out-of-place first, then where most was measured."""
    by_view: dict[View, list[Curve]] = defaultdict(list)
    for curve in curves:
        by_view[curve.key.view].append(curve)

    def worse(view: View) -> tuple[bool, int, bool, str]:
        in_place = view.placement is Placement.IN_PLACE
        return in_place, -len(by_view[view]), bool(view.graph), str(view)

    view = min(by_view, key=worse)
    drawn = list(by_view[view])
    if len({curve.key.setting for curve in curves}) <= FEW_SETTINGS:
        drawn += [c for v in by_view if _differ_in_graph(v, view) for c in by_view[v]]
    return view, drawn


def _differ_in_graph(one: View, other: View) -> bool:
    return one != other and replace(one, graph=other.graph) == other


def _other_placement(view: View) -> View:
    out, inside = Placement.OUT_OF_PLACE, Placement.IN_PLACE
    return replace(view, placement=inside if view.placement is out else out)


def _series(given: PlotInput, drawn: Sequence[Curve]) -> list[Series]:
    return [
        Series(curve=c, label=_label(c, drawn), unselectable=_unselectable(given, c)) for c in drawn
    ]


def _label(curve: Curve, drawn: Sequence[Curve]) -> str:
    """Setting, and of variant and graph only what is needed to tell two curves apart."""
    same = [c.key for c in drawn if c.key.setting == curve.key.setting]
    label = str(curve.key.setting)
    if len({key.variant.name for key in same}) > 1:
        label += f" [{curve.key.variant.name}]"
    elif curve.key.variant.patched:
        label += " [patched]"
    if len({bool(key.graph) for key in same}) > 1:
        label += " graph" if curve.key.graph else " no graph"
    return label


def _unselectable(given: PlotInput, curve: Curve) -> str | None:
    if curve.key.variant.patched:
        return "needs a patched library"
    if curve.n_wrong:
        return f"{curve.n_wrong} wrong results"
    key = curve.key
    for left in given.left_out:
        if (
            left.setting == key.setting
            and left.variant.name == key.variant.name
            and _group(left.target) == _group(key.target)
        ):
            return left.reason
    return None


def _baseline(given: PlotInput, series: Sequence[Series]) -> Series | None:
    """The named baseline; from the ``default`` variant where several have it."""
    wanted = given.baseline
    setting = wanted if isinstance(wanted, Setting) else BASELINE
    found = [s for s in series if s.setting == setting]
    if isinstance(wanted, str):
        found = [s for s in found if s.curve.key.variant.name == wanted]
    return min(found, key=lambda s: s.curve.key.variant.name != "default", default=None)


def _zones_of_one_variant(
    given: PlotInput, group: tuple[Collective, Scale, str | None]
) -> tuple[Zone, ...]:
    """Zones of the group; where several variants have zones, those of ``default`` or the first."""
    mine = [zone for zone in given.zones if _group(zone.target) == group]
    names = [zone.target.variant.name for zone in mine]
    name = "default" if "default" in names else next(iter(names), None)
    kept = [zone for zone in mine if zone.target.variant.name == name]
    return tuple(sorted(kept, key=lambda zone: zone.min_nbytes))


def _cast(
    series: Sequence[Series], baseline: Series | None, chosen: Sequence[Setting]
) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Split into leads (baseline first, then by algorithm and protocol) and the faint."""
    families: dict[object, list[Series]] = defaultdict(list)
    for one in series:
        families[_family(one)].append(one)
    best = best_by_size(series)
    heads = [_head(members) for members in families.values()]
    if baseline is not None and baseline not in heads:
        heads.append(baseline)
    heads.sort(
        key=lambda s: (s is not baseline, s.setting not in chosen, slowness(s, best), s.label)
    )
    leads = sorted(heads[:MAX_LEADS], key=lambda s: (s is not baseline, _order(s)))
    return tuple(leads), tuple(s for s in series if s not in leads)


def _family(series: Series) -> object:
    key = series.curve.key
    setting = key.setting
    return setting.algorithm, setting.protocol, setting.role, key.variant.name, key.graph


def _head(members: Sequence[Series]) -> Series:
    """Measured at most sizes, then nearest to the family's best, then with fewest channels."""
    best = best_by_size(members)

    def worse(one: Series) -> tuple[int, float, int]:
        return -len(one.curve.points), slowness(one, best), one.setting.channels or 0

    return min(members, key=worse)


def _order(series: Series) -> tuple[int, int, int, str]:
    """Algorithm, protocol, channels: the order of columns and panels."""
    setting = series.setting
    algorithm = setting.algorithm.index if setting.algorithm else -1
    protocol = setting.protocol.index if setting.protocol else -1
    return algorithm, protocol, setting.channels or 0, series.label


def best_by_size(series: Iterable[Series]) -> dict[int, float]:
    """Least time at each size."""
    best: dict[int, float] = {}
    for one in series:
        for point in one.curve.points:
            best[point.nbytes] = min(point.time_us, best.get(point.nbytes, math.inf))
    return best


def slowness(series: Series, best: dict[int, float]) -> float:
    """Mean logarithm of time over the best time, 0 for a series that always wins."""
    logs = [math.log(p.time_us / best[p.nbytes]) for p in series.curve.points]
    return math.fsum(logs) / len(logs)
