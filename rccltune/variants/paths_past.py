"""Calls that go past the tuner here, from which to which size, by which path, and its switch.

The catalog of variants says which calls a path takes and what switches it off: its entries
``…-off`` are of paths that a library takes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rccltune.model.units import MAX_NBYTES, format_size
from rccltune.model.vocabulary import Collective
from rccltune.variants import availability, catalog
from rccltune.variants.availability import VariantSite
from rccltune.variants.spec import CallFilter, Threshold, VariantSpec

_OFF: Final = "-off"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathPast:
    """Calls of a collective that a path takes before a tuner is asked.

    Attributes:
        path: ``DDA``.
        switch: what switches it off, ``RCCL_DDA_ENABLE=0``.
        is_sure: whether all that decides is known; else such calls may ask a tuner all the same.
        in_graphs: of captured graphs alone.
    """

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    path: str
    switch: str
    is_sure: bool
    in_graphs: bool = False


def paths_past(
    site: VariantSite, collectives: Iterable[Collective], variables: Mapping[str, str]
) -> tuple[PathPast, ...]:
    """Calls that go past the tuner, as far as the catalog knows the library.

    Args:
        site: library, GPUs, ranks, type and operation; what is unknown makes an answer unsure.
        collectives: that are asked about; those that never ask a tuner are left out.
        variables: that every rank gets: a path that they switch off is none.
    """
    specs = catalog.load_catalog().specs
    thresholds = {one.without: one.threshold for one in specs if one.without and one.threshold}
    tunable = [one for one in collectives if one.is_tunable]
    paths: list[PathPast] = []
    for spec in (one for one in specs if one.name.endswith(_OFF)):
        if any(variables.get(name) == value for name, value in spec.environment):
            continue
        limit = _limit(thresholds.get(spec.name), variables)
        for collective in tunable:
            here = replace(site, collectives=(collective,))
            if site.library is not None and availability.why_absent(spec, here) is None:
                paths += [
                    one
                    for calls in spec.calls
                    for one in _past(spec, calls, here, collective, limit)
                ]
    return tuple(paths)


def _limit(threshold: Threshold | None, variables: Mapping[str, str]) -> int | None:
    """Largest size in bytes that a variable says; None where nobody sets it."""
    value = "" if threshold is None else variables.get(threshold.variable, "")
    return int(value) if value.isdigit() else None


def _past(
    spec: VariantSpec,
    calls: CallFilter,
    site: VariantSite,
    collective: Collective,
    limit: int | None,
) -> list[PathPast]:
    spoken = availability.speaks_of(calls, collective, site.dtype, site.op)
    there = availability.is_there(calls, site.arch, site.n_nodes)
    if spoken is False or there is False:
        return []
    last = calls.last(site.n_nodes)
    is_known = spoken is True and there is True and None not in (site.n_ranks, site.n_nodes)
    is_known &= not spec.needs.arch or site.arch is not None
    return [
        PathPast(
            collective=collective,
            min_nbytes=max(1, calls.min_nbytes),
            max_nbytes=limit if limit is not None else MAX_NBYTES if last is None else last,
            path=spec.feature,
            switch=" ".join(f"{name}={value}" for name, value in spec.environment),
            is_sure=is_known and not calls.maybe and limit is None and not spec.needs.graph,
            in_graphs=spec.needs.graph,
        )
    ]


def sentences(paths: Sequence[PathPast]) -> tuple[str, ...]:
    """One for each path and range: which collectives, from which to which size, and the switch."""
    by_range: dict[PathPast, list[str]] = {}
    for one in paths:
        key = replace(one, collective=Collective.ALL_REDUCE)
        by_range.setdefault(key, []).append(one.collective.value)
    return tuple(
        f"{', '.join(names)} calls{_graphs(one)} {_span(one)} "
        f"{'ask' if one.is_sure else 'may ask'} no tuner here: "
        f"{one.path} takes {'them' if one.is_sure else 'them then'}; "
        f"{one.switch} switches it off"
        for one, names in by_range.items()
    )


def _graphs(one: PathPast) -> str:
    return " in captured graphs" if one.in_graphs else ""


def _span(one: PathPast) -> str:
    first, last = format_size(one.min_nbytes), format_size(one.max_nbytes)
    if one.min_nbytes <= 1:
        return "of every size" if one.max_nbytes >= MAX_NBYTES else f"up to {last}"
    return f"from {first} on" if one.max_nbytes >= MAX_NBYTES else f"from {first} to {last}"


def takes_all(paths: Iterable[PathPast], collective: Collective, low: int, high: int) -> bool:
    """Whether it is sure that no call of a collective between two sizes asks a tuner."""
    spans = sorted(
        (one.min_nbytes, one.max_nbytes)
        for one in paths
        if one.is_sure and one.collective is collective
    )
    for first, last in spans:
        if first <= low:
            low = max(low, last + 1)
    return low > high
