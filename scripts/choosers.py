"""Ways to choose a setting from measured times: our zones, a line, the vendors' method, AMD's rules."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from sample_rows import Sample, frame

from rccltune.analyse import points, unusable_notices
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import choose
from rccltune.analyse.fit_curves import curves
from rccltune.model.curves import Curve, Model, time_at
from rccltune.model.measurement import Notice
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Placement
from rccltune.model.zone import Zone

Times = dict[str, dict[int, float]]
Rule = Callable[[int], str | None]

# Of the article that public_sweeps.py has the table of: upper end in bytes, setting.
AMD_RULES = ((262144, "tree/ll"), (4194304, "tree/ll128"), (1 << 62, "ring/simple"))


def curves_of(samples: Sequence[Sample]) -> tuple[Curve, ...]:
    """Curves of samples."""
    return curves(points.by_communicator(points.usable(frame(samples))))


def left_out(samples: Sequence[Sample]) -> tuple[Notice, ...]:
    """What is said of samples that no curve uses."""
    found = frame(samples)
    return unusable_notices.notices(found, points.by_communicator(points.usable(found)))


def times_of(found: Iterable[Curve], placement: Placement = Placement.OUT_OF_PLACE) -> Times:
    """Measured times by setting and size, of one placement."""
    return {
        str(curve.key.setting): {p.nbytes: p.time_us for p in curve.points}
        for curve in found
        if curve.key.placement is placement
    }


def zones_of(samples: Sequence[Sample], options: ChoiceOptions | None = None) -> tuple[Zone, ...]:
    """What we choose from samples."""
    return choose(frame(samples), options).zones


def zone_rule(chosen: Sequence[Zone]) -> Rule:
    """What our zones answer at a size; None in a hole."""

    def rule(nbytes: int) -> str | None:
        zone = next(z for z in chosen if z.min_nbytes <= nbytes <= z.max_nbytes)
        return None if zone.setting is None else str(zone.setting)

    return rule


def vendor_rule(times: Times) -> Rule:
    """What ``vendor_rows`` answer at a size."""
    rows = vendor_rows(times)
    ends = [end for end, _ in rows[:-1]]
    return lambda nbytes: rows[bisect_left(ends, nbytes)][1]


def vendor_rows(times: Times) -> list[tuple[int, str]]:
    """optimize_config.py: fastest row of each size, arithmetic midpoints between sizes.

    Each is the last byte that it is for, and a setting.
    """
    sizes = sorted({nbytes for row in times.values() for nbytes in row})
    ends = [(low + high) // 2 for low, high in pairwise(sizes)]
    winners = [
        min((row[nbytes], name) for name, row in times.items() if nbytes in row)[1]
        for nbytes in sizes
    ]
    return list(zip([*ends, MAX_NBYTES], winners, strict=True))


def linear_rule(found: Sequence[Curve]) -> Rule:
    """The setting whose robust latency + bytes/bandwidth line is the lowest."""
    lines = [
        (str(curve.key.setting), fitted.segments[0])
        for curve in found
        if (fitted := curve.fit(Model.LINEAR)) is not None
    ]
    return lambda nbytes: min(lines, key=lambda line: line[1].predict(nbytes))[0]


def amd_rule(nbytes: int) -> str | None:
    """AMD's published zones."""
    return next(name for end, name in AMD_RULES if nbytes <= end)


def regrets(rule: Rule, times: Times, sizes: Iterable[int]) -> list[float]:
    """Time of what the rule answers over the best, minus 1, at each size; log-log between."""
    rows = {name: (sorted(row), [row[n] for n in sorted(row)]) for name, row in times.items()}
    found = []
    for nbytes in sizes:
        here = {name: time_at(*row, nbytes) or float("inf") for name, row in rows.items()}
        found.append(here[rule(nbytes) or ""] / min(here.values()) - 1)
    return found
