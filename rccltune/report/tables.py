"""The tables that figures are drawn from: rows of fit.json, of the rules and of verdict.json.

Each has a column ``panel``, the collective and scale that a row is of. Sizes are bytes, times µs,
bandwidths GB/s (1e9 B/s); a number that is not known is missing.

=========  =====================================================================================
points     a row for each measured point: ``setting``, ``algorithm``, ``protocol``, ``channels``,
           ``nbytes``, ``time_us``, ``low_us``, ``high_us``, ``busbw``; ``base_us``
           (of the baseline at that size), ``why_not`` (why no rule can choose it, or empty)
fits       a row for each straight piece of a fitted curve: ``setting``, ``algorithm``,
           ``min_nbytes``, ``max_nbytes``, ``latency_us``, ``us_per_byte``; both missing where the
           curve just joins its points; ``worst`` (by which share of its time a point is missed
           at most)
residuals  a row for each point of a curve with a model: ``setting``, ``nbytes``, ``residual``
rules      a row for each rule that a job gets: ``min_nbytes``, ``max_nbytes`` (inclusive),
           ``setting``, ``algorithm``, ``gain``, ``low``, ``high``, ``is_verified``,
           ``is_restoring`` (it gives back what loading a tuner takes away)
verdicts   a row for each size and placement of a verification: ``nbytes``, ``placement``
           (``in``, ``out``), ``ratio``, ``low``, ``high``, ``is_decided``
ceilings   the bus bandwidth that the slowest link allows: ``busbw``, ``words`` (how it is made
           up, and what of it was reached)
own        a row for each size at which the library was seen to choose: ``nbytes``, ``setting``
=========  =====================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pandas as pd

from rccltune.model.curves import Curve, Model
from rccltune.model.reporter import Reporter
from rccltune.model.rule import RuleState
from rccltune.model.settings import BASELINE, Role, Setting, Target, View
from rccltune.model.units import busbw, busbw_factor, format_size
from rccltune.model.verdict import Verdict
from rccltune.model.vocabulary import Placement
from rccltune.model.zone import UnselectableSetting
from rccltune.ranks.plan import GRAPH, GRAPH_UP_TO, LOOP
from rccltune.report.contents import RuleFileOfSession, SessionContents, is_for, target_words
from rccltune.session.samples import load_frame
from rccltune.verify.verdict_file import RuleVerdict

_SETTING: Final = ("panel", "setting", "algorithm", "protocol", "channels")
_COLUMNS: Final = {
    "points": (
        *_SETTING,
        *("nbytes", "time_us", "low_us", "high_us", "busbw", "base_us", "why_not"),
    ),
    "fits": (*_SETTING, "min_nbytes", "max_nbytes", "latency_us", "us_per_byte", "worst"),
    "residuals": (*_SETTING, "nbytes", "residual"),
    "rules": (
        *_SETTING,
        *("min_nbytes", "max_nbytes", "gain", "low", "high", "is_verified", "is_restoring"),
    ),
    "verdicts": ("panel", "nbytes", "placement", "ratio", "low", "high", "is_decided"),
    "ceilings": ("panel", "busbw", "words"),
    "own": ("panel", "nbytes", "setting"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTables:
    """All that figures are drawn from; this module says what the columns are.

    Attributes:
        panels: names of all collectives and scales, in order.
        baseline: what speed-ups are over, in words.
        subject: of whom the figures are: machine, and which calls are drawn.
        size: width and height of a panel in inches.
        timing_changes: size in bytes up to which graphs were timed, where larger ones were launched
            one by one; None where one mode timed all.
    """

    panels: tuple[str, ...]
    points: pd.DataFrame
    fits: pd.DataFrame
    residuals: pd.DataFrame
    rules: pd.DataFrame
    verdicts: pd.DataFrame
    ceilings: pd.DataFrame
    own: pd.DataFrame
    baseline: str
    subject: str
    simulated: bool
    size: tuple[float, float] = (5.6, 3.3)
    timing_changes: int | None = None

    def of(self, panel: str, size: tuple[float, float] | None = None) -> FigureTables:
        """Select the rows of one panel, which may have another size."""
        tables = {name: getattr(self, name) for name in _COLUMNS}
        mine = {name: table[table["panel"] == panel] for name, table in tables.items()}
        return replace(self, panels=(panel,), size=size or self.size, **mine)


def rows(table: pd.DataFrame) -> Iterator[Any]:
    """A tuple for each row, its fields called as the columns are."""
    yield from table.itertuples()


def baseline_words(baseline: Setting | None) -> str:
    """What gains outside a verification are over."""
    return "the library's own choice" if baseline is None else str(baseline)


def tables_of(shown: SessionContents) -> FigureTables:
    """Tables of a session, of one way to call."""
    by_panel: dict[str, list[Curve]] = {}
    for curve in shown.done.curves:
        by_panel.setdefault(target_words(curve.key.target), []).append(curve)
    views = {panel: _view(curves) for panel, curves in by_panel.items()}
    drawn = {
        panel: _once([curve for curve in curves if curve.key.view == views[panel]])
        for panel, curves in by_panel.items()
    }
    view_names = sorted({str(view) for view in views.values()})
    baseline = shown.choice.baseline if shown.choice else None
    targets = {panel: curves[0].key.target for panel, curves in drawn.items()}
    left_out = shown.choice.left_out if shown.choice else ()
    rows_of: dict[str, Iterable[dict[str, Any]]] = {
        "points": (row for one in drawn.values() for row in _points(one, baseline, left_out)),
        "fits": (row for one in drawn.values() for curve in one for row in _pieces(curve)),
        "residuals": (row for one in drawn.values() for curve in one for row in _residuals(curve)),
        "rules": _rules(shown, targets),
        "verdicts": _verdicts(shown.files, targets),
        "ceilings": _ceilings(shown),
        "own": (
            {"panel": target_words(one.target), "nbytes": one.nbytes, "setting": str(one.setting)}
            for one in shown.done.own
        ),
    }
    frames = {
        name: pd.DataFrame(list(table_rows), columns=list(_COLUMNS[name]))
        for name, table_rows in rows_of.items()
    }
    return FigureTables(
        panels=tuple(drawn),
        baseline=baseline_words(baseline),
        subject=f"{shown.machine}; {', '.join(view_names[:3])}",
        simulated=shown.simulated,
        timing_changes=_timing_changes(shown),
        **frames,
    )


def _timing_changes(shown: SessionContents) -> int | None:
    """Where the timing mode changes, of a session that the rank program measured with both."""
    if shown.is_imported:
        return None
    table = load_frame(shown.done.session, Reporter())
    is_above = table["nbytes"] > GRAPH_UP_TO
    below, above = (set(table["timing"][side].unique()) for side in (~is_above, is_above))
    return GRAPH_UP_TO if GRAPH in below and above == {LOOP} else None


def _view(curves: Sequence[Curve]) -> View:
    """The way to call that is drawn: out of place, graphs, then where most was measured."""
    counts = Counter(curve.key.view for curve in curves)
    return min(
        counts,
        key=lambda view: (
            view.placement is Placement.IN_PLACE,
            view.graph is False,
            -counts[view],
            str(view),
        ),
    )


def _once(curves: Sequence[Curve]) -> list[Curve]:
    """Without the idle plugin beside a baseline."""
    has_baseline = any(one.key.setting == BASELINE for one in curves)
    return [one for one in curves if not (has_baseline and one.key.setting.role is Role.IDLE)]


def _setting(panel: str, setting: Setting) -> dict[str, Any]:
    return {
        "panel": panel,
        "setting": str(setting),
        "algorithm": setting.algorithm.value if setting.algorithm else "",
        "protocol": setting.protocol.value if setting.protocol else "",
        "channels": setting.channels or 0,
    }


def _key(curve: Curve) -> dict[str, Any]:
    key = curve.key
    return _setting(target_words(key.target), key.setting)


def _points(
    curves: Sequence[Curve], baseline: Setting | None, left_out: Iterable[UnselectableSetting]
) -> Iterator[dict[str, Any]]:
    base = next((one for one in curves if one.key.setting == (baseline or BASELINE)), None)
    times = {p.nbytes: p.time_us for p in base.points} if base else {}
    reasons = {(one.target, one.setting): one.reason for one in left_out}
    for curve in curves:
        key = curve.key
        why = reasons.get((key.target, key.setting), "")
        for point in curve.points:
            yield {
                **_key(curve),
                "nbytes": point.nbytes,
                "time_us": point.time_us,
                "low_us": point.low_us,
                "high_us": point.high_us,
                "busbw": busbw(key.collective, key.scale.n_ranks, point.nbytes, point.time_us),
                "base_us": times.get(point.nbytes),
                "why_not": f"{curve.n_wrong} wrong results" if curve.n_wrong else why,
            }


def _pieces(curve: Curve) -> Iterator[dict[str, Any]]:
    fit = curve.fit(curve.chosen)
    if curve.chosen is Model.LOGLOG or fit is None:
        yield {**_key(curve), "min_nbytes": curve.min_nbytes, "max_nbytes": curve.max_nbytes}
        return
    for piece in fit.segments:
        yield {
            **_key(curve),
            "min_nbytes": piece.min_nbytes,
            "max_nbytes": piece.max_nbytes,
            "latency_us": piece.latency_us,
            "us_per_byte": piece.us_per_byte,
            "worst": max(abs(one) for one in fit.residuals),
        }


def _residuals(curve: Curve) -> Iterator[dict[str, Any]]:
    # What joins its points misses none of them.
    fit = curve.fit(Model.SEGMENTED) or curve.fit(Model.LINEAR)
    pairs = zip(curve.points, fit.residuals, strict=True) if fit else ()
    for point, residual in pairs:
        yield {**_key(curve), "nbytes": point.nbytes, "residual": residual}


def _rules(shown: SessionContents, targets: Mapping[str, Target]) -> Iterator[dict[str, Any]]:
    for file in shown.files:
        for rule in file.rules:
            gain = shown.gain_of(rule)
            for panel, target in targets.items():
                if not rule.fallback and is_for(rule, target, file.placement):
                    yield {
                        **_setting(panel, rule.setting),
                        "min_nbytes": rule.min_nbytes,
                        "max_nbytes": rule.max_nbytes,
                        "gain": gain.value if gain else None,
                        "low": gain.low if gain else None,
                        "high": gain.high if gain else None,
                        "is_verified": isinstance(rule, RuleVerdict),
                        "is_restoring": isinstance(rule, RuleVerdict)
                        and rule.state is RuleState.RESTORES,
                    }


def _verdicts(
    files: Iterable[RuleFileOfSession], targets: Mapping[str, Target]
) -> Iterator[dict[str, Any]]:
    for file in files:
        verified = file.verification.file if file.verification else None
        for one in verified.judging if verified else ():
            panel = target_words(verified.target(one.collective)) if verified else ""
            if panel in targets:
                yield {
                    "panel": panel,
                    "nbytes": one.nbytes,
                    "placement": one.placement.value,
                    "ratio": one.gain.value,
                    "low": one.gain.low,
                    "high": one.gain.high,
                    "is_decided": one.verdict is not Verdict.UNDECIDED,
                }


def _ceilings(shown: SessionContents) -> Iterator[dict[str, Any]]:
    for one in shown.limits.targets if shown.limits else ():
        if busbw_factor(one.target.collective, one.target.scale.n_ranks) > 0:
            words = (
                f"ceiling {one.gb_per_s:.4g} GB/s = {one.n_links} × "
                f"{one.slowest.gb_per_s:.4g} ({one.slowest}), "
                f"reached {one.fraction:.2f} at {format_size(one.nbytes)}"
            )
            yield {"panel": target_words(one.target), "busbw": one.gb_per_s, "words": words}
