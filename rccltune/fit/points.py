"""Samples to one time per curve, size and launch, and these to fitted curves.

Outliers in public data are bursts, not single points: six consecutive rows at 19-27 ms where 40 µs
is normal, both placements hit, nothing wrong before or after. Neither the minimum of the two
placements nor a robust fit survives that; a second launch does. Where there is one, a launch is
left out at the sizes at which it is far above the others. Where there is none, a burst still shows
as a time that no larger size needs, or as bandwidth that collapses: such rows are named and left
out too, since twenty milliseconds of baseline at 4 KiB would 'prove' any rule.

Bursts that hit the same size in most launches leave no majority. But a launch's first pass pays for
the connections, and can only be slower than what follows: what is far above it stood still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median, median_low

from rccltune.analyse.models import fit_all
from rccltune.fit.gathered import Disqualified, Gathered, Row, anchored, gather, rows
from rccltune.model.curves import Curve, CurvePoint
from rccltune.model.measured import Caution, Notice, Sample, own_name
from rccltune.model.settings import CurveKey, Role
from rccltune.model.vocabulary import Doubt, format_size

# Launches of one setting differ by 1-4 %, with stalls of 60 % and more.
ABOVE_OTHER_LAUNCHES = 1.5
# A GPU that slows down when it is warm does so by less.
ABOVE_ITS_FIRST_PASS = 6.0
# Real curves step too: a plateau's edge is up to 2.3x in public sweeps, a bad default up to 5x.
ABOVE_OTHER_SIZES = 6.0


@dataclass(frozen=True, slots=True)
class Stall:
    """One launch that stood still at one size.

    Attributes:
        factor: its time over what was to be expected.
        alone: no other launch says what is normal.
    """

    nbytes: int
    launch: str
    factor: float
    alone: bool


def find_stalls(table: Sequence[Row]) -> list[Stall]:
    """Stalled launches of one curve, by size."""
    own = [stall for row in table for stall in _against_first_pass(row)]
    left = _without(table, own)
    found = [stall for row in left for stall in _against_launches(row)]
    return sorted(own + found + _against_sizes(left), key=lambda s: (s.nbytes, s.launch))


def _against_first_pass(row: Row) -> list[Stall]:
    """Launches far above their own first pass, unless all are: then that is what it takes."""
    slow = {
        launch: time
        for launch, time in row.centres.items()
        if time > ABOVE_ITS_FIRST_PASS * row.firsts.get(launch, time)
    }
    others = [time for launch, time in row.centres.items() if launch not in slow]
    if not others:
        return []
    return [
        Stall(row.nbytes, launch, time / min(others), alone=False) for launch, time in slow.items()
    ]


def _without(table: Sequence[Row], stalls: Sequence[Stall]) -> list[Row]:
    out = {(stall.nbytes, stall.launch) for stall in stalls}
    if not out:
        return list(table)
    return [
        replace(row, centres={n: t for n, t in row.centres.items() if (row.nbytes, n) not in out})
        for row in table
    ]


def _against_launches(row: Row) -> list[Stall]:
    if len(row.centres) < 2:
        return []
    normal = median_low(row.centres.values())
    return [
        Stall(row.nbytes, launch, time / normal, alone=False)
        for launch, time in row.centres.items()
        if time > ABOVE_OTHER_LAUNCHES * normal
    ]


def _against_sizes(table: Sequence[Row]) -> list[Stall]:
    """Single launches far above a larger size's time, or a smaller size's time per byte."""
    normal = [median_low(row.centres.values()) for row in table]
    later = [float("inf")] * (len(table) + 1)
    for index in range(len(table) - 1, -1, -1):
        later[index] = min(later[index + 1], normal[index])
    found: list[Stall] = []
    per_byte = float("inf")
    for index, row in enumerate(table):
        expected = min(later[index + 1], per_byte * row.nbytes)
        stalled = normal[index] > ABOVE_OTHER_SIZES * expected
        if stalled and len(row.centres) == 1:
            launch = next(iter(row.centres))
            found.append(Stall(row.nbytes, launch, normal[index] / expected, alone=True))
        elif not stalled:
            per_byte = min(per_byte, normal[index] / row.nbytes)
    return found


def stall_notices(stalls: Mapping[CurveKey, Sequence[Stall]]) -> list[Notice]:
    """One notice for each launch and setting that stalled, whatever the number of sizes."""
    found: dict[tuple[str, str, str, bool], list[Stall]] = {}
    for key, several in stalls.items():
        for stall in several:
            idle = key.setting.role is Role.SILENT
            setting = "with the plugin idle" if idle else str(key.setting)
            launch = own_name(stall.launch)
            name = (key.collective.value, setting, launch, stall.alone)
            found.setdefault(name, []).append(stall)
    return [_stall_notice(*name, several) for name, several in found.items()]


def _stall_notice(
    collective: str, setting: str, launch: str, alone: bool, stalls: Sequence[Stall]
) -> Notice:
    sizes = sorted({stall.nbytes for stall in stalls})
    where = format_size(sizes[0])
    if len(sizes) > 1:
        where += f" to {format_size(sizes[-1])}"
    worst = max(stall.factor for stall in stalls)
    normal = "the neighbouring sizes allow" if alone else "in another launch"
    return Notice(
        caution=Caution.BURST,
        message=f"{collective} {setting} took up to {worst:.3g} times as long as {normal} at "
        f"{len(sizes)} size{'s' if len(sizes) > 1 else ''} ({where}); "
        f"{len(stalls)} time{'s were' if len(stalls) > 1 else ' was'} left out",
        remedy="measure it again: no other launch shows what is normal there, so these sizes "
        "count as not measured."
        if alone
        else "nothing to do where a launch stalled once; if it stalls in every sweep, look for "
        "other jobs on the node.",
        where=launch,
        count=len(stalls),
    )


def doubt_notices(doubted: Counter[Doubt], wrong: Counter[Disqualified]) -> list[Notice]:
    """Wrong results by setting, loudly; all other flags in one line."""
    notices = [
        Notice(
            caution=Caution.WRONG_RESULTS,
            message=f"{collective.value} {setting} gave WRONG RESULTS in {count} samples; it is "
            "disqualified for this collective",
            remedy="keep the logs and report it to the library's maintainers; no speed is worth "
            "it.",
            where=f"variant {variant.name}",
        )
        for (collective, setting, variant), count in wrong.items()
    ]
    # Every launch throws its first pass away; that is no news.
    expected = (Doubt.WRONG, Doubt.CONNECTING)
    others = {doubt: n for doubt, n in doubted.items() if doubt not in expected}
    if others:
        listed = "; ".join(f"{n} x {doubt.meaning}" for doubt, n in others.items())
        notices.append(
            Notice(
                caution=Caution.DOUBTED_SAMPLES,
                message=f"{sum(others.values())} samples were not used: {listed}",
                remedy="samples.csv names each of them.",
                count=sum(others.values()),
            )
        )
    return notices


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """What the samples give.

    Attributes:
        curves: in the order in which their keys first appear.
        notices: stalls, flagged samples, disqualified settings.
    """

    curves: tuple[Curve, ...]
    notices: tuple[Notice, ...]


def curves(samples: Sequence[Sample]) -> Fitted:
    """Fit one curve for each key.

    Flagged samples are never used. A launch counts once at each size, with the median of its
    cycles, since only launches are independent; the curve's point is the median over launches,
    without those that stalled there. A setting with wrong results at any size keeps its curve
    for people to look at, marked with ``n_wrong`` so that nothing chooses it.
    """
    gathered = anchored(gather(samples))
    stalls: dict[CurveKey, list[Stall]] = {}
    points: dict[CurveKey, tuple[CurvePoint, ...]] = {}
    for key, table in gathered.tables.items():
        by_size = rows(table, gathered.firsts.get(key))
        stalls[key] = find_stalls(by_size)
        kept = _points(by_size, stalls[key])
        if kept:
            points[key] = kept
    return Fitted(
        curves=_curves(gathered, points),
        notices=(*stall_notices(stalls), *doubt_notices(gathered.doubted, gathered.wrong)),
    )


def _curves(
    gathered: Gathered, points: dict[CurveKey, tuple[CurvePoint, ...]]
) -> tuple[Curve, ...]:
    fitted = fit_all(
        [(tuple(p.nbytes for p in row), tuple(p.time_us for p in row)) for row in points.values()]
    )
    wrong = gathered.wrong
    return tuple(
        Curve(
            key=key,
            points=row,
            fits=result.fits,
            chosen=result.chosen,
            n_wrong=wrong[key.collective, key.setting, key.variant] if wrong else 0,
        )
        for (key, row), result in zip(points.items(), fitted, strict=True)
    )


def _points(by_size: Sequence[Row], stalls: Sequence[Stall]) -> tuple[CurvePoint, ...]:
    out = {(stall.nbytes, stall.launch) for stall in stalls}
    made = (_point(row, out) for row in by_size)
    return tuple(point for point in made if point is not None)


def _point(row: Row, out: set[tuple[int, str]]) -> CurvePoint | None:
    kept = row.centres
    if out:
        kept = {launch: time for launch, time in kept.items() if (row.nbytes, launch) not in out}
        if not kept:
            return None
    centres = tuple(kept.values())
    spread = centres if len(row.centres) > 1 else row.cycles
    return CurvePoint(
        nbytes=row.nbytes,
        time_us=centres[0] if len(centres) == 1 else median(centres),
        low_us=min(spread),
        high_us=max(spread),
        n_samples=len(row.cycles),
        n_communicators=len(kept),
        launches=tuple(kept),
        launch_times_us=centres,
        n_left_out=len(row.centres) - len(kept),
    )
