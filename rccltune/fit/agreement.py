"""What the ways of measuring say of each other: the idle plugin and site, one launch and separate.

In a combined launch our plugin answering nothing is measured as often as any setting; the baseline
has a few launches of its own. Both do what the library chooses by itself, unless the library has
a table of its own, which any plugin replaces. Where the site is known to have no tuner at all, both
are one thing, and what differs is launches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from rccltune.analyse.models import fit_all
from rccltune.fit import points
from rccltune.fit.beliefs import OwnChoices
from rccltune.fit.gathered import Gathered, gather, rows
from rccltune.fit.points import find_stalls
from rccltune.fit.sameness import Compared, Side, compare, noise_of
from rccltune.logs import library
from rccltune.model import schema
from rccltune.model.curves import LAUNCHES_DIFFER, Curve, CurvePoint, Equivalence, Silence, Stretch
from rccltune.model.measured import Caution, Notice, Sample
from rccltune.model.settings import BASELINE, SILENT, CurveKey, Role, Setting, Target, base_variant
from rccltune.model.vocabulary import format_size


def equivalences(samples: Sequence[Sample]) -> tuple[Equivalence, ...]:
    """Compare every setting that was measured in combined launches and in launches of its own.

    Nothing is compared at sizes that only one of the two measured.
    """
    if all(sample.step is None for sample in samples):
        return ()
    walks = gather([sample for sample in samples if sample.step is not None])
    separate = gather([sample for sample in samples if sample.step is None])
    keys = [k for k in walks.tables if k in separate.tables and k.setting.role is Role.FORCED]
    if not keys:
        return ()
    pairs = [(_walk_side(walks, key), _walk_side(separate, key)) for key in keys]
    everything = [_walk_side(part, key) for part in (walks, separate) for key in part.tables]
    found = compare(pairs, noise_of(everything))
    return tuple(
        _equivalence(key, compared)
        for key, compared in zip(keys, found, strict=True)
        if compared is not None
    )


def _walk_side(gathered: Gathered, key: CurveKey) -> Side:
    """Times without launches that stood still."""
    table = rows(gathered.tables[key], gathered.firsts.get(key))
    out = {(stall.nbytes, stall.launch) for stall in find_stalls(table)}
    kept = {
        row.nbytes: {n: time for n, time in row.centres.items() if (row.nbytes, n) not in out}
        for row in table
    }
    return {nbytes: times for nbytes, times in kept.items() if times}


def _equivalence(key: CurveKey, compared: Compared) -> Equivalence:
    stretches = compared.stretches
    return Equivalence(
        key=key,
        n_sizes=len(compared.sizes),
        median_ratio=compared.median_ratio,
        worst=compared.worst,
        disagrees=bool(stretches),
        stretches=stretches,
    )


def equivalence_notices(found: Sequence[Equivalence]) -> tuple[Notice, ...]:
    """One notice for each setting whose times depend on how it was measured."""
    by_setting: dict[tuple[Target, Setting], list[Equivalence]] = {}
    for one in found:
        if one.disagrees:
            by_setting.setdefault((one.key.target, one.key.setting), []).append(one)
    return tuple(_equivalence_notice(*name, several) for name, several in by_setting.items())


def _equivalence_notice(target: Target, setting: Setting, several: Sequence[Equivalence]) -> Notice:
    said = "; ".join(
        f"{percent(stretch.ratio)} {sizes_of(stretch)} ({one.key.view})"
        for one in several
        for stretch in one.stretches
    )
    return Notice(
        caution=Caution.METHODS_DISAGREE,
        message=f"one launch for all settings and separate launches disagree for {setting}: "
        f"in the one launch it is {said}",
        remedy="measure by rccltune-perf (sweep without --runner): it goes from one setting to the "
        "next in one communicator, and repeats that in others.",
        where=f"{target.collective.value}, {target.scale}",
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """The idle plugin and baseline of one key."""

    silent: Curve
    baseline: Curve
    compared: Compared


def silences(curves: Sequence[Curve]) -> tuple[Silence, ...]:
    """Compare the idle plugin with the baseline of the same variant, in each view that has both.

    The idle plugin in another variant says nothing about the baseline: RCCL_LL128_FORCE_ENABLE
    alone changes what the library chooses.
    """
    return tuple(
        Silence(
            target=pair.baseline.key.target,
            view=pair.baseline.key.view,
            n_sizes=len(pair.compared.sizes),
            median_ratio=pair.compared.median_ratio,
            stretches=pair.compared.stretches,
        )
        for pair in _pairs(curves)
    )


def strengthened(
    curves: Sequence[Curve],
    *,
    tunerless: bool = False,
    inside: bool = False,
    own: OwnChoices | None = None,
) -> tuple[Curve, ...]:
    """The same curves, but what the idle plugin measured counts for the baseline where they agree.

    At sizes that only the idle plugin has, it counts where the sizes next to it that both have
    agree. Where they differ the baseline stands alone. In an environment that has no baseline of
    its own the idle plugin stands for it, if it agrees with the baseline wherever both were
    measured, or is the site itself. Everything else is as it was.

    Args:
        curves: of a session.
        tunerless: the baseline has no tuner, neither a plugin nor a table. The idle plugin is the
            site itself then: its passes, which lie between those of the settings, count at all
            sizes that only it has, and where the site's own launches were slower.
        inside: settings are to be held against it inside their launches. Without a tuner the idle
            plugin then stands for the site below LAUNCHES_DIFFER, where the site's own launches say
            more of launches than of it.
        own: what the library runs by itself: passes of a setting there are passes of the baseline.
    """
    all_pairs = _pairs(curves)
    curves = (*curves, *_standing_in(curves, all_pairs, tunerless=tunerless))
    pairs = [pair for pair in all_pairs if _extra(pair, tunerless=tunerless)]
    if not pairs:
        return tuple(curves)
    by_key = {curve.key: curve for curve in curves}
    points = [
        _with_own(
            _merged(pair, tunerless=tunerless, inside=inside), pair.baseline.key, by_key, own or {}
        )
        for pair in pairs
    ]
    fitted = fit_all(
        [(tuple(p.nbytes for p in row), tuple(p.time_us for p in row)) for row in points]
    )
    made: dict[CurveKey, Curve] = {}
    for pair, row, result in zip(pairs, points, fitted, strict=True):
        stronger = replace(pair.baseline, points=row, fits=result.fits, chosen=result.chosen)
        made[stronger.key] = stronger
    return tuple(made.get(curve.key, curve) for curve in curves)


def _standing_in(
    curves: Sequence[Curve], pairs: Sequence[_Pair], *, tunerless: bool
) -> list[Curve]:
    """Baselines of environments in which nothing was measured without our plugin."""
    own = {curve.key for curve in curves}
    agree = {pair.baseline.key.target.collective for pair in pairs}
    if not tunerless:
        agree -= {p.baseline.key.target.collective for p in pairs if any(p.compared.differs)}
    return [
        replace(curve, key=key)
        for curve in curves
        if curve.key.setting == SILENT
        and curve.key.variant == base_variant(curve.key.variant)
        and not curve.key.variant.patched
        and curve.key.target.collective in agree
        and (key := replace(curve.key, setting=BASELINE)) not in own
    ]


def _pairs(curves: Sequence[Curve]) -> list[_Pair]:
    silent = {replace(c.key, setting=BASELINE): c for c in curves if c.key.setting == SILENT}
    if not silent:
        return []
    both = [(silent[c.key], c) for c in curves if c.key in silent and not c.n_wrong]
    found = compare(
        [(_side(one), _side(other)) for one, other in both], noise_of(_side(c) for c in curves)
    )
    return [
        _Pair(one, other, compared)
        for (one, other), compared in zip(both, found, strict=True)
        if compared is not None and not one.n_wrong
    ]


def _side(curve: Curve) -> Side:
    return {
        point.nbytes: dict(zip(point.launches, point.launch_times_us, strict=True))
        for point in curve.points
        if point.launches
    }


def _extra(pair: _Pair, *, tunerless: bool) -> dict[int, CurvePoint]:
    """Points of the idle plugin that say something about the baseline."""
    sizes, differs = pair.compared.sizes, pair.compared.differs
    return {
        p.nbytes: p for p in pair.silent.points if tunerless or _agrees(p.nbytes, sizes, differs)
    }


def _agrees(nbytes: int, sizes: Sequence[int], differs: Sequence[bool]) -> bool:
    """Whether the two agree at this size, or at those next to it that both have."""
    at = bisect_left(sizes, nbytes)
    if at < len(sizes) and sizes[at] == nbytes:
        return not differs[at]
    return not any(differs[max(0, at - 1) : at + 1])


def _merged(pair: _Pair, *, tunerless: bool, inside: bool) -> tuple[CurvePoint, ...]:
    sizes, differs = pair.compared.sizes, pair.compared.differs
    points = {p.nbytes: p for p in pair.baseline.points}
    for nbytes, extra in _extra(pair, tunerless=tunerless).items():
        own = points.get(nbytes)
        if own is None or (tunerless and inside and nbytes < LAUNCHES_DIFFER):
            points[nbytes] = extra
        elif _agrees(nbytes, sizes, differs):
            points[nbytes] = _pooled(own, extra)
        else:
            points[nbytes] = min(own, extra, key=lambda point: point.time_us)
    return tuple(points[nbytes] for nbytes in sorted(points))


def _with_own(
    points: Sequence[CurvePoint], key: CurveKey, by_key: Mapping[CurveKey, Curve], own: OwnChoices
) -> tuple[CurvePoint, ...]:
    """The baseline's points, and passes of settings where they are what it runs anyway."""
    found = {point.nbytes: point for point in points}
    chosen = own.get(key.target, {})
    for setting in set(chosen.values()):
        curve = by_key.get(replace(key, setting=setting))
        for passes in curve.points if curve else ():
            nbytes = passes.nbytes
            if chosen.get(nbytes) == setting and nbytes in found:
                found[nbytes] = _pooled(found[nbytes], passes)
    return tuple(found.values())


def _pooled(one: CurvePoint, other: CurvePoint) -> CurvePoint:
    times = sorted(
        pair
        for point in (one, other)
        for pair in zip(point.launches, point.launch_times_us, strict=True)
    )
    return CurvePoint(
        nbytes=one.nbytes,
        time_us=median(time for _, time in times),
        low_us=min(one.low_us, other.low_us),
        high_us=max(one.high_us, other.high_us),
        n_samples=one.n_samples + other.n_samples,
        n_communicators=len(times),
        launches=tuple(launch for launch, _ in times),
        launch_times_us=tuple(time for _, time in times),
        n_left_out=one.n_left_out + other.n_left_out,
    )


_TABLE: Final = (
    "nothing to do: gains are compared with runs without the plugin. Most likely the library has a "
    "tuner table of its own there, which any plugin replaces, also at sizes that no rule covers."
)
_LAUNCHES: Final = (
    "nothing to do: without rccltune no tuner is loaded here, so the plugin replaces none and only "
    "the launches differ from each other. Gains are compared with the faster of the two. To show "
    "smaller gains, measure with more --repeats."
)


def silence_notices(found: Sequence[Silence], *, tunerless: bool = False) -> tuple[Notice, ...]:
    """One notice for each target at which the idle plugin is not the baseline.

    Args:
        found: every comparison.
        tunerless: the site has no tuner that the idle plugin could replace.
    """
    by_target: dict[Target, dict[str, list[str]]] = {}
    for one in found:
        if one.stretches:
            said = ", ".join(_stretch(stretch) for stretch in one.stretches)
            by_target.setdefault(one.target, {}).setdefault(said, []).append(str(one.view))
    remedy = _LAUNCHES if tunerless else _TABLE
    return tuple(_notice(target, views, remedy) for target, views in by_target.items())


def _notice(target: Target, views: dict[str, list[str]], remedy: str) -> Notice:
    said = "; ".join(f"{what} ({', '.join(where)})" for what, where in views.items())
    return Notice(
        caution=Caution.SILENCE_DIFFERS,
        message=f"loading the plugin changes times though it answers nothing: {said}",
        remedy=remedy,
        where=f"{target.collective.value}, {target.scale}",
    )


def _stretch(stretch: Stretch) -> str:
    return f"{percent(stretch.ratio)} {sizes_of(stretch)}"


def percent(ratio: float) -> str:
    """``13 % slower``, for times."""
    return f"{100 * abs(ratio - 1):.0f} % {'slower' if ratio > 1 else 'faster'}"


def sizes_of(stretch: Stretch) -> str:
    """``from 1 MiB to 4 MiB``, or ``at 1 MiB``."""
    low, high = format_size(stretch.min_nbytes), format_size(stretch.max_nbytes)
    return f"at {low}" if low == high else f"from {low} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreements:
    """Both comparisons of a session; nothing where it was measured one way only.

    Attributes:
        tuner: which one the baseline used, by its log: ``none``, ``built-in table …``,
            ``plugin …``; None where no log says so.
    """

    silence: tuple[Silence, ...] = ()
    equivalence: tuple[Equivalence, ...] = ()
    tuner: str | None = None

    @property
    def tunerless(self) -> bool:
        """Whether the idle plugin is the baseline itself."""
        return self.tuner == "none"

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Where they do not agree."""
        return (
            *silence_notices(self.silence, tunerless=self.tunerless),
            *equivalence_notices(self.equivalence),
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """A sentence for each comparison, for people, whether or not it agrees."""
        return (*_silence_lines(self.silence), *_equivalence_lines(self.equivalence))

    def as_plain(self) -> dict[str, Any]:
        """For fit.json and --json."""
        return {
            "silence": schema.to_plain(self.silence),
            "equivalence": schema.to_plain(self.equivalence),
            "tuner": self.tuner,
        }


def agreements(
    samples: Sequence[Sample], curves: Sequence[Curve] | None = None, *, folder: Path
) -> Agreements:
    """Compare whatever was measured in two ways.

    Args:
        samples: of a session.
        curves: fitted to them; fitted here unless given.
        folder: the session, for its logs.
    """
    if curves is None:
        curves = points.curves(samples).curves
    return Agreements(
        silence=silences(curves),
        equivalence=equivalences(samples),
        tuner=tuner_of(folder),
    )


def tuner_of(folder: Path) -> str | None:
    """Which tuner the baseline of a session used; None where no launch was asked to log."""
    written = sorted(folder.glob("launches/*/nccl-*.log"))
    said = {library.tuner_of(log.read_text(errors="replace")) for log in written}
    return said.pop() if len(said) == 1 else None


def _silence_lines(found: Sequence[Silence]) -> list[str]:
    by_target: dict[Target, list[Silence]] = {}
    for one in found:
        by_target.setdefault(one.target, []).append(one)
    return [
        f"plugin loaded but idle, against without it ({_place(target)}): {_usual(several)}; "
        + _verdict(sum(len(s.sizes) for one in several for s in one.stretches), several)
        for target, several in by_target.items()
    ]


def _equivalence_lines(found: Sequence[Equivalence]) -> list[str]:
    by_setting: dict[tuple[Target, Setting], list[Equivalence]] = {}
    for one in found:
        by_setting.setdefault((one.key.target, one.key.setting), []).append(one)
    return [
        f"{setting} in one launch and in launches of its own ({_place(target)}): "
        f"{_usual(several)}; "
        + _verdict(sum(len(s.sizes) for one in several for s in one.stretches), several)
        for (target, setting), several in by_setting.items()
    ]


def _place(target: Target) -> str:
    return f"{target.collective.value}, {target.scale}"


def _usual(several: Sequence[Silence] | Sequence[Equivalence]) -> str:
    ratio = median(one.median_ratio for one in several)
    return f"{100 * (ratio - 1):+.1f} % in the median"


def _verdict(n_differing: int, several: Sequence[Silence] | Sequence[Equivalence]) -> str:
    n_points = sum(one.n_sizes for one in several)
    if not n_differing:
        return f"they agree within noise at all {n_points} points"
    return f"they DIFFER beyond noise at {n_differing} of {n_points} points"
