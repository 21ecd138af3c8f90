"""Whether hosts are alike: a pure question to their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.hosts.records import Host
from rccltune.hosts.variables import compares, value_of

RANKS: Final = "ranks"
# What stands in a table for what every rank was to have.
AS_SET: Final = "as rccltune set it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hosts that say the same; ``value`` is None where they have no such thing."""

    value: str | None
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something in which the hosts differ; every host is in one group, the largest comes first."""

    what: str
    groups: tuple[Group, ...]


def differences(hosts: Sequence[Host]) -> tuple[Difference, ...]:
    """All in which hosts differ, in the order in which the hosts say it; empty where alike."""
    said = [{RANKS: str(host.n_ranks), **dict(host.facts)} for host in hosts]
    names = _distinct(hosts)
    listed = dict.fromkeys(what for one in said for what in one)
    found = []
    for what in listed:
        groups: dict[str | None, list[str]] = {}
        for name, one in zip(names, said, strict=True):
            groups.setdefault(one.get(what), []).append(name)
        if len(groups) > 1:
            found.append(Difference(what=what, groups=_sorted(groups)))
    return tuple(found)


def as_asked(
    hosts: Sequence[Host], wanted: Mapping[str, str], but: Iterable[str] = ()
) -> tuple[Difference, ...]:
    """Variables that did not reach every rank as they were set, though the hosts may be alike.

    Args:
        hosts: as they answered.
        wanted: what every rank was to have.
        but: variables that are known to differ already.
    """
    left_out = set(but)
    names = _distinct(hosts)
    found = []
    for what, value in sorted(wanted.items()):
        if not compares(what) or what in left_out:
            continue
        as_set = value_of(what, [value])
        groups: dict[str | None, list[str]] = {}
        for name, host in zip(names, hosts, strict=True):
            groups.setdefault(dict(host.facts).get(what), []).append(name)
        if groups.keys() != {as_set}:
            groups.setdefault(as_set, []).append(AS_SET)
            found.append(Difference(what=what, groups=_sorted(groups)))
    return tuple(found)


def _sorted(groups: Mapping[str | None, Sequence[str]]) -> tuple[Group, ...]:
    made = [Group(value=value, hosts=tuple(sorted(names))) for value, names in groups.items()]
    return tuple(sorted(made, key=lambda one: (-len(one.hosts), one.hosts)))


def _distinct(hosts: Sequence[Host]) -> list[str]:
    """Names, with the start of the boot id where two hosts have one name."""
    seen = [host.name for host in hosts]
    return [
        f"{host.name} ({(host.boot_id or '?')[:8]})" if seen.count(host.name) > 1 else host.name
        for host in hosts
    ]
