"""Pairs of devices that tell a machine's links apart, from where the devices lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from rccltune.machine.system import Gpu, System, XgmiLink
from rccltune.machine.visible_devices import VISIBLE, find_visible_devices
from rccltune.model.errors import MachineError
from rccltune.model.link_map import LinkClass


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePair:
    """Two devices, the lower number first."""

    first: Gpu
    second: Gpu
    link: LinkClass


def find_usable_devices(system: System, variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The devices that a job started from here sees, at least two.

    Args:
        system: what was detected.
        variables: the environment, in which ``*_VISIBLE_DEVICES`` may leave some out.

    Raises:
        MachineError: the topology could not be read, fewer than two devices are left, or the
            variables do not say which for certain.
    """
    if not system.gpus and system.status == "unknown":
        raise MachineError(
            f"the topology of this machine could not be read: {system.reason or 'no reason known'}",
            where=str(system.root / "sys/class/kfd/kfd/topology"),
            hint="rccltune doctor says what hides the GPUs; in a container pass /dev/kfd and "
            "/dev/dri on.",
        )
    gpus = find_visible_devices(system.gpus, system.vendor, variables)
    if len(gpus) < 2:
        some = f"of {len(system.gpus)} " if len(system.gpus) > len(gpus) else ""
        raise MachineError(
            f"a link map needs two GPUs, and {len(gpus)} {some}can be used here",
            where=", ".join(n for n in VISIBLE if n in variables) or None,
            hint="rccltune detect shows what is there; without GPUs name a session that was swept "
            "on a simulated node: rccltune detect --links SESSION.",
        )
    return gpus


def pair_devices(gpus: Sequence[Gpu], links: Sequence[XgmiLink]) -> tuple[DevicePair, ...]:
    """Every pair of devices with its class, in the order of the devices."""
    hops = {(link.origin, link.target): link.hops for link in links}
    return tuple(
        DevicePair(first=a, second=b, link=_classify_pair(a, b, hops))
        for a, b in combinations(sorted(gpus, key=lambda gpu: gpu.index), 2)
    )


def choose_pairs(every: Sequence[DevicePair], per_class: int) -> tuple[DevicePair, ...]:
    """A few pairs of each class, the nearest class first.

    They are spread over the relations that a class has (which I/O dies of an OAM, which two OAMs)
    and, within a relation, over the machine, so that one slow OAM does not speak for all. All
    pairs of a class where it has no more than ``per_class``.
    """
    choice: list[DevicePair] = []
    for link in LinkClass:
        relations: dict[object, list[DevicePair]] = {}
        for pair in every:
            if pair.link is link:
                relations.setdefault(_find_relation(pair), []).append(pair)
        choice += _spread_pairs(list(relations.values()), per_class)
    return tuple(choice)


def _classify_pair(a: Gpu, b: Gpu, hops: Mapping[tuple[int, int], int | None]) -> LinkClass:
    if a.oam == b.oam:
        if not (a.iods and b.iods):
            return LinkClass.INSIDE_OAM
        return LinkClass.SAME_IOD if set(a.iods) & set(b.iods) else LinkClass.SAME_OAM
    if a.partition is None or b.partition is None:
        return LinkClass.UNKNOWN
    if hops and (a.index, b.index) not in hops:
        return LinkClass.NO_XGMI
    n_links = hops.get((a.index, b.index))
    if n_links is None:
        return LinkClass.OTHER_OAM
    return LinkClass.ONE_LINK if n_links <= 1 else LinkClass.MORE_LINKS


def _find_relation(pair: DevicePair) -> object:
    if pair.first.oam == pair.second.oam:
        return pair.first.iods, pair.second.iods
    return pair.first.oam, pair.second.oam


def _spread_pairs(relations: Sequence[Sequence[DevicePair]], wanted: int) -> list[DevicePair]:
    """Pairs of evenly spaced relations, in each from another place of the machine."""
    n_used = min(len(relations), wanted)
    used = [relations[i * len(relations) // n_used] for i in range(n_used)]
    n_rounds = -(-wanted // n_used) if n_used else 0
    spread = [
        row[(i * len(row) // n_used + turn * len(row) // n_rounds) % len(row)]
        for turn in range(n_rounds)
        for i, row in enumerate(used)
    ]
    # Relations of unequal length may have been asked for more than they have.
    return list(dict.fromkeys((*spread, *chain.from_iterable(relations))))[:wanted]
