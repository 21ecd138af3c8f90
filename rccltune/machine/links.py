"""Which pairs of devices tell a machine's links apart, from where the devices lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rccltune.machine.records import Gpu, Link, System
from rccltune.machine.situation import VISIBLE
from rccltune.model.errors import MachineError
from rccltune.model.links import LinkClass

_AMD = "ROCR_VISIBLE_DEVICES"
_CUDA = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two devices, the lower number first."""

    first: Gpu
    second: Gpu
    link: LinkClass


def usable(system: System, variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The devices that a job started from here sees, at least two.

    Args:
        system: what was detected.
        variables: the environment; a list of numbers in one of ``*_VISIBLE_DEVICES`` chooses, and
            ends at a word that is no device, as the runtimes read it.

    Raises:
        MachineError: the topology could not be read, fewer than two devices are left, or the
            variables do not say which in a way that can be taken apart.
    """
    if not system.gpus and system.status == "unknown":
        raise MachineError(
            f"the topology of this machine could not be read: {system.reason or 'no reason known'}",
            where=str(system.root / "sys/class/kfd/kfd/topology"),
            hint="rccltune doctor says what hides the GPUs; in a container pass /dev/kfd and "
            "/dev/dri on. Without GPUs: --simulate mi300x-cpx-nps4.",
        )
    gpus = chosen(system.gpus, heeded(system.vendor, variables))
    if len(gpus) < 2:
        some = f"of {len(system.gpus)} " if len(system.gpus) > len(gpus) else ""
        raise MachineError(
            f"a link map needs two GPUs, and {len(gpus)} {some}can be used here",
            where=", ".join(n for n in VISIBLE if n in variables) or None,
            hint="rccltune detect shows what is there; without GPUs: --simulate mi300x-cpx-nps4.",
        )
    return gpus


def pairs(gpus: Sequence[Gpu], links: Sequence[Link]) -> tuple[Pair, ...]:
    """Every pair of devices with its class, in the order of the devices."""
    hops = {(link.origin, link.target): link.hops for link in links}
    return tuple(
        Pair(first=a, second=b, link=_class(a, b, hops))
        for a, b in combinations(sorted(gpus, key=lambda gpu: gpu.index), 2)
    )


def representatives(every: Sequence[Pair], per_class: int) -> tuple[Pair, ...]:
    """A few pairs of each class, the nearest class first.

    They are spread over the relations that a class has (which I/O dies of an OAM, which two OAMs)
    and, within a relation, over the machine, so that one slow OAM does not speak for all. All
    pairs of a class where it has no more than ``per_class``.
    """
    chosen: list[Pair] = []
    for link in LinkClass:
        relations: dict[object, list[Pair]] = {}
        for pair in every:
            if pair.link is link:
                relations.setdefault(_relation(pair), []).append(pair)
        chosen += _spread(list(relations.values()), per_class)
    return tuple(chosen)


def choosing(vendor: str | None, *numbers: int) -> tuple[tuple[str, str], ...]:
    """The environment in which a job sees these devices alone, in this order.

    ROCR's variable is the one that AMD's own instructions use, and hides devices from everything
    above it. CUDA numbers by speed unless told otherwise, nvidia-smi by address.
    """
    devices = ",".join(map(str, numbers))
    if vendor == "nvidia":
        return (("CUDA_DEVICE_ORDER", "PCI_BUS_ID"), (_CUDA, devices))
    return ((_AMD, devices),)


def heeded(vendor: str | None, variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the variables that choose devices which this vendor's runtime reads.

    HIP reads CUDA's name too; CUDA reads none of AMD's, which a site may set for all its nodes.
    """
    names = (_CUDA,) if vendor == "nvidia" else VISIBLE
    return {name: variables[name] for name in names if name in variables}


def n_usable(system: System, variables: Mapping[str, str]) -> int | None:
    """How many devices a job started from here sees, where it is not certain which they are.

    ROCR's list hides devices from everything above it, and another one counts what is left. None
    where a list cannot be taken apart, or leaves nothing.
    """
    given = heeded(system.vendor, variables)
    there = sum(gpu.can_open is not False for gpu in system.gpus)
    below = _n_named(given.pop(_AMD, None), system.gpus, there)
    if not below:
        return None
    counts = [_n_named(listed, system.gpus, below) for listed in given.values()]
    known = [count for count in counts if count is not None]
    return (min([below, *known]) or None) if len(known) == len(counts) else None


def _n_named(listed: str | None, gpus: Sequence[Gpu], n_there: int) -> int | None:
    """How many of the devices there a list names, up to its first word that is none."""
    if listed is None:
        return n_there
    found: set[int] = set()
    for word in (word.strip().lower() for word in listed.split(",")):
        if word.startswith("mig-"):
            return None
        if word.startswith("gpu-"):
            # The runtimes take the beginning of an identity too, where it is one device's alone.
            named = [n for n, gpu in enumerate(gpus) if _identity(gpu).startswith(word)]
            if len(named) != 1:
                return None
        else:
            named = [int(word)] if word.isdigit() and int(word) < n_there else []
        if not named or named[0] in found:
            break
        found.add(named[0])
    return len(found)


def _identity(gpu: Gpu) -> str:
    """As the vendors' lists have it; KFD says it without the word before it."""
    said = (gpu.identity or "").lower()
    return said if said.startswith("gpu-") else f"gpu-{said}" if said else ""


def chosen(gpus: Sequence[Gpu], variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """What one of ``*_VISIBLE_DEVICES`` leaves of the devices, in its order; all without one.

    Raises:
        MachineError: several of them, or one that names identities.
    """
    given = [name for name in VISIBLE if name in variables]
    if not given:
        return tuple(gpus)
    if len(given) > 1:
        raise MachineError(
            "several variables choose the devices, so it is not clear which a job sees",
            where=", ".join(f"{name}={variables[name]}" for name in given),
            hint=f"unset all but one; {_AMD} is the one to keep on AMD GPUs.",
        )
    by_index = {gpu.index: gpu for gpu in gpus}
    found: dict[int, Gpu] = {}
    for word in variables[given[0]].split(","):
        text = word.strip()
        if text.upper().startswith(("GPU-", "MIG-")):
            raise MachineError(
                "the devices are chosen by their identity, and rccltune chooses by number",
                where=f"{given[0]}={variables[given[0]]}",
                hint=f"say their numbers (rccltune detect -v has them), or unset {given[0]}.",
            )
        if not text.isdigit() or int(text) not in by_index or int(text) in found:
            break
        found[int(text)] = by_index[int(text)]
    return tuple(found.values())


def _class(a: Gpu, b: Gpu, hops: Mapping[tuple[int, int], int | None]) -> LinkClass:
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


def _relation(pair: Pair) -> object:
    if pair.first.oam == pair.second.oam:
        return pair.first.iods, pair.second.iods
    return pair.first.oam, pair.second.oam


def _spread(relations: Sequence[Sequence[Pair]], wanted: int) -> list[Pair]:
    """So many pairs: from evenly spaced relations, in each from another place of the machine."""
    n_used = min(len(relations), wanted)
    used = [relations[i * len(relations) // n_used] for i in range(n_used)]
    n_rounds = -(-wanted // n_used) if n_used else 0
    chosen: dict[tuple[int, int], Pair] = {}
    for turn in range(n_rounds):
        for i, row in enumerate(used):
            at = i * len(row) // n_used + turn * len(row) // n_rounds
            _add(chosen, row[at % len(row)], wanted)
    # Relations of unequal length may have been asked for more than they have.
    for row in relations:
        for pair in row:
            _add(chosen, pair, wanted)
    return list(chosen.values())


def _add(chosen: dict[tuple[int, int], Pair], pair: Pair, wanted: int) -> None:
    if len(chosen) < wanted:
        chosen[pair.first.index, pair.second.index] = pair
