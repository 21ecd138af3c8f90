"""A session for notebooks: tables of its samples, curves, zones, rules and verdicts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.analyse.session_fit import FitResult, fit_session
from rccltune.api.arguments import LogReporter
from rccltune.api.frames import RULES, frame, rule_rows
from rccltune.model import defaults
from rccltune.model.settings import Target, View
from rccltune.ranks.plan import GRAPH, LOOP
from rccltune.rules.stored_choice import read_choice
from rccltune.session import store
from rccltune.session.sample_table import TEXTS
from rccltune.session.samples import load_frame
from rccltune.verify import verdict_store

if TYPE_CHECKING:
    from pandas import DataFrame

    from rccltune.model.curves import Curve

_TARGET: Final = {
    "collective": "str",
    "n_nodes": "int64",
    "n_ranks": "int64",
    "rank_placement": "str",
}
_KEY: Final = {
    **_TARGET,
    "placement": "str",
    "dtype": "str",
    "op": "str",
    "timing": "str",
}
_POINTS: Final = {
    **_KEY,
    "setting": "str",
    "nbytes": "int64",
    "time_us": "float64",
    "low_us": "float64",
    "high_us": "float64",
    "n_samples": "int64",
    "n_communicators": "int64",
    "n_left_out": "int64",
}
_CURVES: Final = {
    **_KEY,
    "setting": "str",
    "min_nbytes": "int64",
    "max_nbytes": "int64",
    "n_sizes": "int64",
    "model": "str",
    "latency_us": "float64",
    "gb_per_s": "float64",
    "error": "float64",
    "n_wrong": "int64",
}
_CROSSOVERS: Final = {
    **_KEY,
    "below": "str",
    "above": "str",
    "at_nbytes": "int64",
    "low_nbytes": "int64",
    "high_nbytes": "int64",
    "evidence": "str",
}
_ZONES: Final = {
    **_TARGET,
    "min_nbytes": "int64",
    "max_nbytes": "int64",
    "setting": "str",
    "reason": "str",
    "fallback": "str",
    "gain_low": "float64",
    "gain": "float64",
    "gain_high": "float64",
    "worst_regret": "float64",
    "state": "str",
    "n_sizes": "int64",
    "n_communicators": "int64",
}
_OWN_CHOICES: Final = {
    **_TARGET,
    "nbytes": "int64",
    "setting": "str",
}
_VERDICTS: Final = {
    "file": "str",
    **_KEY,
    "nbytes": "int64",
    "baseline_us": "float64",
    "tuned_us": "float64",
    "ratio": "float64",
    "low": "float64",
    "high": "float64",
    "n_replicates": "int64",
    "verdict": "str",
}


def load(folder: str | os.PathLike[str] = defaults.SESSION) -> Loaded:
    """A session's tables; each is made when it is asked for.

    Args:
        folder: of the session, as ``rccltune sweep``, ``tune`` and ``import`` leave it;
            ``./rccltune-session`` where none is named.

    Raises:
        SessionError: no session there, a newer format, or a file of it that cannot be read.
    """
    return Loaded(store.open_session(Path(folder)))


class Loaded:
    """A session that is read and not changed, but for what it derives from its logs.

    Every table has a row for each thing and plain column names; sizes are bytes as a tuner sees
    them, times µs, ratios plain numbers. Columns that several have:

    ``collective`` (``all_reduce``), ``n_nodes``, ``n_ranks``, ``rank_placement`` (``node``),
    ``placement`` (``in``, ``out`` of place), ``dtype``, ``op``, ``timing`` (``graph``: of a
    captured graph; ``loop``); a setting is ``tree/ll128`` or ``tree/ll128/16``. What
    is not known is missing (``NaN``, ``<NA>``), in text columns too.

    Attributes:
        path: its folder.
        simulated: measured on a simulated node, never on hardware.
        environment: variables that were set in every rank (``--env``), by name.
    """

    def __init__(self, opened: store.Session) -> None:
        """Keep the folder; nothing is read yet."""
        self._opened = opened
        self._reporter = LogReporter()
        self.path: Path = opened.path
        self.simulated: bool = opened.simulated
        self.environment: dict[str, str] = opened.setup.environment

    def __repr__(self) -> str:
        """Name the folder, and say whether it is simulated."""
        return f"<rccltune session {self.path}{', simulated' if self.simulated else ''}>"

    @cached_property
    def fitted(self) -> FitResult:
        """Curves, crossovers and all that was found beside them, as records.

        Raises:
            TooLittleDataError: no usable sample.
        """
        return fit_session(self.path, reporter=self._reporter)

    @cached_property
    def samples(self) -> DataFrame:
        """A row for each timing: the columns of ``samples.csv``.

        ``setting`` (asked for: ``ring/ll128``, ``baseline``, ``idle``), ``timing`` (``graph``,
        ``loop``), ``nbytes``, ``calls``, ``time_us`` (mean over ranks), ``slowest_us``, ``wrong``
        (elements; missing where not checked), ``ran``, ``library`` (setting that it would have
        taken), ``registered``, ``trees``, ``signature`` (of its order of adding, where probed),
        ``unusable`` (why it is not used), ``rough``; ``run``, ``process``, ``communicator``,
        ``pass``, ``line`` (where it was read).
        docs/formats.md has them all.
        """
        table = load_frame(self._opened, self._reporter)
        texts = {name: table[name].astype(object).where(table[name] != "") for name in TEXTS}
        frame: DataFrame = table.assign(**texts)
        return frame

    @cached_property
    def points(self) -> DataFrame:
        """A row for each setting at each size.

        ``timing`` (``graph``, ``loop``; missing where a log does not say it), ``setting``,
        ``nbytes``, ``time_us`` (median over communicators), ``low_us``, ``high_us`` (least and
        largest of them), ``n_samples``, ``n_communicators``, ``n_left_out``
        (communicators that stalled).

        Raises:
            TooLittleDataError: no usable sample.
        """
        rows = (
            {
                **_key_row(curve.key.target, curve.key.view),
                "timing": point.timing or None,
                "setting": str(curve.key.setting),
                "nbytes": point.nbytes,
                "time_us": point.time_us,
                "low_us": point.low_us,
                "high_us": point.high_us,
                "n_samples": point.n_samples,
                "n_communicators": point.n_communicators,
                "n_left_out": point.n_left_out,
            }
            for curve in self.fitted.curves
            for point in curve.points
        )
        return frame(rows, _POINTS)

    @cached_property
    def curves(self) -> DataFrame:
        """A row for each curve: time against size of one setting.

        ``timing`` (missing where small sizes are graphs and large ones loops),
        ``setting``, ``min_nbytes``, ``max_nbytes``, ``n_sizes``, ``model`` (that predicts best:
        ``linear``, ``segmented``, ``log-log``), ``latency_us`` of its first segment, ``gb_per_s``
        (GB/s as bytes of a call over time, of its last one; both missing of ``log-log``),
        ``error`` (mean share at sizes left out, 0.02 is 2 %; missing from too few sizes),
        ``n_wrong`` (samples with wrong results).

        Raises:
            TooLittleDataError: no usable sample.
        """
        return frame((_curve_row(curve) for curve in self.fitted.curves), _CURVES)

    @cached_property
    def crossovers(self) -> DataFrame:
        """A row for each size from which another setting is the fastest.

        ``below``, ``above`` (settings), ``at_nbytes``, ``low_nbytes``, ``high_nbytes`` (ends of its
        interval), ``evidence`` (``interval`` from repeats, or ``bracket`` of two measured sizes).
        """
        rows = (
            {
                **_key_row(one.target, one.view),
                "below": str(one.below),
                "above": str(one.above),
                "at_nbytes": one.at_nbytes,
                "low_nbytes": one.low_nbytes,
                "high_nbytes": one.high_nbytes,
                "evidence": one.evidence.value,
            }
            for one in self.fitted.crossovers
        )
        return frame(rows, _CROSSOVERS)

    @cached_property
    def zones(self) -> DataFrame:
        """A row for each zone of the stored choice; empty before emit-config chose.

        ``min_nbytes``, ``max_nbytes``, ``setting`` (missing where the library is left
        to itself), ``reason`` (of that), ``fallback``, ``gain_low``, ``gain``, ``gain_high`` (the
        library's time over its own in the mean over its sizes, with its 95 % interval),
        ``worst_regret`` (behind the best, at most), ``state``, ``n_sizes``, ``n_communicators``.
        """
        choice = read_choice(self.path)
        rows = (
            {
                "collective": zone.target.collective.value,
                "n_nodes": zone.target.scale.n_nodes,
                "n_ranks": zone.target.scale.n_ranks,
                "rank_placement": zone.target.rank_placement,
                "min_nbytes": zone.min_nbytes,
                "max_nbytes": zone.max_nbytes,
                "setting": str(zone.setting) if zone.setting else None,
                "reason": zone.reason,
                "fallback": str(zone.fallback) if zone.fallback else None,
                "gain_low": zone.gain.low if zone.gain else None,
                "gain": zone.gain.value if zone.gain else None,
                "gain_high": zone.gain.high if zone.gain else None,
                "worst_regret": zone.worst_regret,
                "state": zone.state.value if zone.state else None,
                "n_sizes": zone.n_sizes,
                "n_communicators": zone.n_communicators,
            }
            for zone in (choice.zones if choice else ())
        )
        return frame(rows, _ZONES)

    @cached_property
    def own_choices(self) -> DataFrame:
        """A row for each size at which the library was seen to choose by itself.

        ``nbytes``, ``setting`` (what it ran, channels left to it). Empty where nothing said so.

        Raises:
            TooLittleDataError: no usable sample.
        """
        rows = (
            {**_target_row(one.target), "nbytes": one.nbytes, "setting": str(one.setting)}
            for one in self.fitted.own
        )
        return frame(rows, _OWN_CHOICES)

    @cached_property
    def rules(self) -> DataFrame:
        """A row for each rule and each stated gap of the session's rule files.

        The columns of :func:`rccltune.api.read_rules`; ``file`` is relative to the session. Empty
        where there is no rule file.

        Raises:
            InputFileError: a file that the plugin would refuse.
        """
        return frame(self._rule_rows(), RULES)

    @cached_property
    def verdicts(self) -> DataFrame:
        """A row for each size, placement and timing mode of each verification.

        ``file`` (``verdict.json``), ``nbytes``, ``baseline_us``, ``tuned_us``, ``ratio`` (mean
        over communicators; above 1 the rules are faster), ``low``, ``high`` (its 95 % interval),
        ``n_replicates``, ``verdict`` (``faster``, ``not slower``, ``undecided``, ``slower``,
        ``wrong``). Empty where nothing was verified.
        """
        return frame(self._verdict_rows(), _VERDICTS)

    def _rule_rows(self) -> Iterator[dict[str, Any]]:
        for path in verdict_store.rule_paths(self.path):
            yield from rule_rows(path, str(path.relative_to(self.path)))

    def _verdict_rows(self) -> Iterator[dict[str, Any]]:
        for path in verdict_store.verdict_files(self.path):
            file = verdict_store.read_verdict(self.path, path.name)
            if file is None:
                continue
            for verdict in file.verdicts:
                yield {
                    "file": path.name,
                    **_target_row(file.target(verdict.collective)),
                    "placement": verdict.placement.value,
                    "dtype": file.dtype,
                    "op": file.op if verdict.collective.reduces else "none",
                    "timing": verdict.timing,
                    "nbytes": verdict.nbytes,
                    "baseline_us": verdict.baseline_us,
                    "tuned_us": verdict.tuned_us,
                    "ratio": verdict.gain.value,
                    "low": verdict.gain.low,
                    "high": verdict.gain.high,
                    "n_replicates": verdict.gain.n,
                    "verdict": verdict.verdict.value,
                }


def _curve_row(curve: Curve) -> dict[str, Any]:
    fit = curve.fit(curve.chosen)
    first, last = (fit.segments[0], fit.segments[-1]) if fit and fit.segments else (None, None)
    rises = last is not None and last.us_per_byte > 0
    return {
        **_key_row(curve.key.target, curve.key.view),
        "setting": str(curve.key.setting),
        "min_nbytes": curve.min_nbytes,
        "max_nbytes": curve.max_nbytes,
        "n_sizes": len(curve.points),
        "model": curve.chosen.value,
        "latency_us": first.latency_us if first else None,
        # 1 byte a µs is 1e6 bytes a second, a thousandth of a GB/s.
        "gb_per_s": 1e-3 / last.us_per_byte if last and rises else None,
        "error": fit.held_out_error if fit else None,
        "n_wrong": curve.n_wrong,
    }


def _key_row(target: Target, view: View) -> dict[str, Any]:
    return {
        **_target_row(target),
        "placement": view.placement.value,
        "dtype": view.dtype,
        "op": view.op,
        "timing": None if view.graph is None else GRAPH if view.graph else LOOP,
    }


def _target_row(target: Target) -> dict[str, Any]:
    return {
        "collective": target.collective.value,
        "n_nodes": target.scale.n_nodes,
        "n_ranks": target.scale.n_ranks,
        "rank_placement": target.rank_placement,
    }
