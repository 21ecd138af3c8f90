"""Which settings with one tree are the fastest where, and what a rule file says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rccltune.analyse.points import usable
from rccltune.analyse.segmentation import fewest_zones, size_where_equal
from rccltune.bits import probes
from rccltune.bits.probes import OneTree
from rccltune.model.errors import TooLittleDataError
from rccltune.model.rounding import round_record
from rccltune.model.settings import Setting, Target
from rccltune.model.units import MAX_NBYTES, format_size
from rccltune.model.vocabulary import Collective
from rccltune.model.zone import Zone
from rccltune.ranks import plan, rows, runs

if TYPE_CHECKING:
    import pandas as pd

NOT_PROBED: Final = "the order in which it adds was not probed"
BEYOND: Final = "larger than any call whose bits were probed"
# What a file with ``#@ bits`` promises.
PROMISE: Final = (
    "bits: kept within one communicator, by calls outside groups, with this library and "
    "environment; such rules may be slower than the library's own choice"
)
_NO_TREE: Final = "no setting adds by one tree at every size"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBits:
    """Zones whose settings keep the bits, and what is said of them.

    Attributes:
        name: of the bits, ``#@ bits`` of a rule file.
        zones: of every collective; those that add nothing as they were.
        words: comments of the rule file.
    """

    name: str
    zones: tuple[Zone, ...]
    words: tuple[str, ...]


def choose_same_bits(
    session: Path, samples: pd.DataFrame, zones: Sequence[Zone], tolerance: float
) -> ChosenBits:
    """Replace the zones of what adds by zones whose settings add alike at every size.

    Args:
        session: the folder, whose runs have the probes.
        samples: as ``samples.csv`` has them.
        zones: as chosen by time alone.
        tolerance: time over the fastest with these bits, minus 1, that saves a rule.

    Raises:
        TooLittleDataError: nothing was probed.
    """
    measured = runs.read_runs(session)
    table = rows.rows_of_runs(measured)
    if not (table["step"] == plan.ORDER).any():
        raise TooLittleDataError(
            "the order in which settings add was not probed in this session",
            where=str(session),
            hint="rccltune sweep --same-bits, with the sweep's own options, probes it.",
        )
    trees = probes.trees_of(measured)
    chosen_zones: list[Zone] = []
    chosen: list[OneTree] = []
    for target in dict.fromkeys(zone.target for zone in zones):
        mine = [zone for zone in zones if zone.target == target]
        if not target.collective.reduces:
            chosen_zones += mine
            continue
        known = probes.classes(table, target.collective, trees, target.scale.n_ranks)
        one = _fastest(known, samples, target)
        if one is None:
            probed = target.collective in probes.ADDING
            chosen_zones.append(_gap(target, 0, MAX_NBYTES, _NO_TREE if probed else NOT_PROBED))
        else:
            chosen.append(one)
            chosen_zones += _zones(one, samples, target, tolerance)
    name = bits_name({one.collective: one.tree for one in chosen})
    words = [_describe_tree(one) for one in chosen]
    if any(zone.target.scale.n_ranks == 2 for zone in chosen_zones):
        words.append("bits: of two ranks every choice has the same bits, since a + b is b + a")
    return ChosenBits(name=name, zones=tuple(chosen_zones), words=tuple(words))


def bits_name(trees: Mapping[Collective, str]) -> str:
    """``trees-0123456789ab``: equal for files that add alike.

    Args:
        trees: number of each collective's tree.
    """
    text = " ".join(sorted(f"{one.value}:{tree}" for one, tree in trees.items()))
    return f"trees-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _describe_tree(one: OneTree) -> str:
    up_to = format_size(one.largest)
    if one.collective is Collective.REDUCE_SCATTER:
        how = "each owner's elements by one tree of its own"
    else:
        how = f"every element as {one.text}" if len(one.text) <= _SHOWN else "all elements alike"
    return f"bits: {one.collective.value} adds {how}, at every size up to {up_to}"


_SHOWN: Final = 80


def _times(one: OneTree, samples: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Median µs by size (rows) and setting, the slower placement's; NaN where not timed."""
    good = usable(samples)
    is_own = (
        (good["collective"] == target.collective.value)
        & (good["n_ranks"] == target.scale.n_ranks)
        & (good["n_nodes"] == target.scale.n_nodes)
        & good["setting"].isin([str(setting) for setting in one.settings])
    )
    by = ["nbytes", "placement", "setting"]
    middle = good[is_own].groupby(by, observed=True)["time_us"].median().reset_index()
    table: pd.DataFrame = middle.astype({"setting": object}).pivot_table(
        values="time_us", index="nbytes", columns="setting", aggfunc="max"
    )
    return table


def _fastest(known: Sequence[OneTree], samples: pd.DataFrame, target: Target) -> OneTree | None:
    """The class whose settings take least time, in the mean over sizes."""
    best: tuple[float, OneTree] | None = None
    for one in known:
        times = _times(one, samples, target)
        cost = np.log(times.min(axis=1)).mean() if len(times) else np.inf
        if best is None or cost < best[0]:
            best = (float(cost), one)
    return None if best is None else best[1]


def _zones(one: OneTree, samples: pd.DataFrame, target: Target, tolerance: float) -> list[Zone]:
    """The fewest zones from 0 to the largest probe, and the gap behind it."""
    times = _times(one, samples, target)
    times = times[times.notna().any(axis=1) & (times.index <= one.largest)]
    if times.empty:
        # Whatever is chosen keeps the bits; with most channels it is never much slower.
        return _with_gap(target, [_zone(target, one.settings[0])], one.largest)
    nbytes = times.index.to_numpy()
    loss = np.log(times.to_numpy().T)
    loss = loss - np.nanmin(loss, axis=0)
    is_good = loss <= max(np.log1p(tolerance), 1e-9)
    states = fewest_zones(np.where(is_good, loss, np.inf), is_good, np.full(len(nbytes), np.inf))
    parts = np.split(np.arange(len(nbytes)), np.flatnonzero(np.diff(states)) + 1)
    candidates = []
    low = 0
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        row = int(states[part[0]])
        setting = Setting.parse(str(times.columns[row]))
        high = one.largest
        if after is not None:
            ends = [int(part[-1]), int(after[0])]
            ratio = loss[row, ends] - loss[int(states[after[0]]), ends]
            high = size_where_equal(nbytes[ends], ratio)
        regret = float(np.expm1(loss[row, part].max()))
        zone = _zone(target, setting, nbytes[part].tolist(), regret)
        candidates.append(replace(zone, min_nbytes=low, max_nbytes=high))
        low = high + 1
    return _with_gap(target, candidates, one.largest)


def _zone(
    target: Target, setting: Setting, sizes: Sequence[int] = (), regret: float | None = None
) -> Zone:
    zone = Zone(
        target=target,
        min_nbytes=0,
        max_nbytes=MAX_NBYTES,
        setting=setting,
        measured_from=sizes[0] if sizes else None,
        measured_to=sizes[-1] if sizes else None,
        n_sizes=len(sizes),
        worst_regret=regret,
    )
    return round_record(zone)


def _with_gap(target: Target, zones: Sequence[Zone], largest: int) -> list[Zone]:
    last = replace(zones[-1], max_nbytes=largest)
    return [*zones[:-1], last, _gap(target, largest + 1, MAX_NBYTES, BEYOND)]


def _gap(target: Target, low: int, high: int, reason: str) -> Zone:
    return Zone(target=target, min_nbytes=low, max_nbytes=high, setting=None, reason=reason)
