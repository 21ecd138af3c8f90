"""One launch for all settings beside a launch for each: whether they measure the same."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.fit.gather import Gathered, gather, rows
from rccltune.fit.sameness import Compared, Side, compare, noise_of
from rccltune.fit.silence import percent, sizes_of
from rccltune.fit.stalls import find_stalls
from rccltune.model import Caution, CurveKey, Equivalence, Notice, Role, Sample, Setting, Target


def equivalences(samples: Sequence[Sample]) -> tuple[Equivalence, ...]:
    """Compare every setting that was measured in walks and in launches of its own.

    Nothing is compared at sizes that only one of the two measured.
    """
    if all(sample.step is None for sample in samples):
        return ()
    walks = gather([sample for sample in samples if sample.step is not None])
    separate = gather([sample for sample in samples if sample.step is None])
    keys = [k for k in walks.tables if k in separate.tables and k.setting.role is Role.FORCED]
    if not keys:
        return ()
    pairs = [(_side(walks, key), _side(separate, key)) for key in keys]
    everything = [_side(part, key) for part in (walks, separate) for key in part.tables]
    found = compare(pairs, noise_of(everything))
    return tuple(
        _equivalence(key, compared)
        for key, compared in zip(keys, found, strict=True)
        if compared is not None
    )


def _side(gathered: Gathered, key: CurveKey) -> Side:
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
    return tuple(_notice(*name, several) for name, several in by_setting.items())


def _notice(target: Target, setting: Setting, several: Sequence[Equivalence]) -> Notice:
    said = "; ".join(
        f"{percent(stretch.ratio)} {sizes_of(stretch)} ({one.key.view})"
        for one in several
        for stretch in one.stretches
    )
    return Notice(
        caution=Caution.METHODS_DISAGREE,
        message=f"one launch for all settings and separate launches disagree for {setting}: "
        f"in the one launch it is {said}",
        remedy="measure with --method per-setting: its launches are like those of a job. If only "
        "one launch was slow as a whole, that will show it too.",
        where=f"{target.collective.value}, {target.scale}",
    )
