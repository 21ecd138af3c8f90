"""The devices that ranks run on: chosen before a sweep, and checked in what a launch printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune import detect, parse, session, simnode
from rccltune.errors import CommandLineError, MachineError, SessionError
from rccltune.model import Launch, Place, Scale
from rccltune.vocab import RankPlacement

PLACE_FILE: Final = "placement.json"
_ADDRESS: Final = re.compile(
    r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """Where the ranks of every arm run.

    Attributes:
        n_started: ranks of a launch, those of all groups.
        environment: chooses the devices, and parts the ranks; set in every arm.
        cleared: the site's own choice, which would count within ours.
        gpus: where each rank is to be, by number; empty where nobody checks.
        remark: for the user, None where ranks run on the whole node.
    """

    place: Place
    n_started: int
    environment: tuple[tuple[str, str], ...] = ()
    cleared: tuple[str, ...] = ()
    gpus: tuple[detect.Gpu, ...] = ()
    remark: str | None = None


def seating_of(
    wished: RankPlacement | None,
    n_ranks: int | None,
    system: detect.System,
    variables: Mapping[str, str],
) -> Seating:
    """Put ranks on the devices of one node.

    Args:
        wished: None is the whole node, or its first devices where ``n_ranks`` is fewer.
        n_ranks: of a communicator, None for as many as the placement has.
        system: what was detected.
        variables: the site's environment.

    Raises:
        MachineError: the machine has no such placement, or which device has which number is not
            certain.
        CommandLineError: the number of ranks does not fit, or is not known.
    """
    n_known = len(system.gpus) + system.n_hidden
    asks = wished not in (None, RankPlacement.NODE)
    if not system.gpus and asks:
        raise MachineError(
            "which devices there are is not known, so that ranks cannot be placed on them",
            where=str(system.root / "sys/class/kfd/kfd/topology"),
            hint="rccltune doctor says what hides the GPUs; or leave out --placement-of-ranks.",
        )
    if not asks and (not system.gpus or (n_ranks or 0) > len(system.gpus)):
        return _unchosen(n_ranks, n_known)
    try:
        layout = detect.layout_of(system, variables)
    except MachineError:
        if asks:
            raise
        # Nobody asked for devices: the site's own choice passes on.
        return _unchosen(n_ranks, n_known, default=len(system.gpus))
    placed = detect.place(wished, layout, n_ranks)
    place = Place(
        name=placed.placement.value,
        scale=Scale(n_nodes=1, n_ranks=placed.n_ranks),
        devices=tuple(gpu.index for gpu in placed.gpus),
        alike=tuple(one.value for one in placed.alike),
    )
    if placed.placement is RankPlacement.NODE:
        return Seating(place=place, n_started=len(placed.gpus))
    environment = (*detect.choosing(system.vendor, *place.devices), *placed.split)
    return Seating(
        place=place,
        n_started=len(placed.gpus),
        environment=environment,
        cleared=(*detect.VISIBLE, *detect.SPLITTING),
        gpus=placed.gpus,
        remark=_remark(place, environment),
    )


def _unchosen(n_ranks: int | None, n_known: int, *, default: int | None = None) -> Seating:
    """Ranks wherever the launcher and the site put them."""
    n_started = n_ranks or default
    if n_started is None:
        raise CommandLineError(
            "how many ranks to start is not known",
            hint="say it with --np: one rank for each GPU or partition.",
        )
    is_node = n_started >= n_known
    name = RankPlacement.NODE if is_node else RankPlacement.FIRST
    scale = Scale(n_nodes=1, n_ranks=n_started)
    alike = (name.value,) if is_node else ()
    return Seating(place=Place(name=name.value, scale=scale, alike=alike), n_started=n_started)


def over_hosts(
    wished: RankPlacement | None, seating: Seating, n_hosts: int, n_devices: int
) -> Seating:
    """The same ranks on several hosts, whose devices cannot be seen from here.

    Args:
        wished: as said.
        seating: on one host.
        n_hosts: two or more.
        n_devices: of this host; the others are taken to have as many.

    Raises:
        CommandLineError: a placement other than all devices was asked for.
    """
    if wished not in (None, RankPlacement.NODE):
        raise CommandLineError(
            f"ranks on several hosts cannot be placed as '{wished.value}': the devices of other "
            "hosts cannot be seen from here",
            hint="sweep the placement on one host, or leave out --placement-of-ranks.",
        )
    n_started = seating.n_started
    is_node = n_started >= n_hosts * n_devices
    name = (RankPlacement.NODE if is_node else RankPlacement.FIRST).value
    scale = Scale(n_nodes=n_hosts, n_ranks=n_started)
    place = Place(name=name, scale=scale, alike=(name,) if is_node else ())
    return Seating(place=place, n_started=n_started)


def _remark(place: Place, environment: Sequence[tuple[str, str]]) -> str:
    exports = " ".join(f"{name}={value}" for name, value in environment)
    return f"Placement {place.name}: {place.scale}; every arm has {exports}"


def simulated_system(node: simnode.SimulatedNode) -> detect.System:
    """The devices of one host of a simulated node, as a look at such a machine would find them."""
    per_oam, per_iod = node.devices_per_oam, node.devices_per_iod
    gpus = tuple(
        detect.Gpu(
            index=index,
            # The buses of a real MI300X host, as the stand-in prints them.
            oam=f"{index // per_oam // 8:04x}:{5 + 0x20 * (index // per_oam % 8):02x}:00",
            partition=index % per_oam,
            iods=(index % per_oam // per_iod,) if per_iod else (),
        )
        for index in range(node.ranks // node.nodes)
    )
    links = tuple(
        detect.Link(origin=a.index, target=b.index, hops=int(a.oam != b.oam), weight=0)
        for a in gpus
        for b in gpus
        if a is not b and node.raw["library"].get("all_xgmi", True)
    )
    return detect.System(root=Path("/"), status="known", vendor="amd", gpus=gpus, links=links)


def strayed(log: Path, gpus: Sequence[detect.Gpu]) -> str | None:
    """The first rank that says it ran on another device than it was to; None where none does.

    Older benchmarks print a bus, newer ones the OAM's whole address; what is not printed is not
    compared. The partition is, where any rank prints one.

    Args:
        log: what a launch printed.
        gpus: where each rank was to be; with none nothing is checked.
    """
    if not gpus:
        return None
    printed = {
        rank: match.groups()
        for rank, bus in parse.buses_in(log.read_bytes()).items()
        if (match := _ADDRESS.fullmatch(bus)) is not None
    }
    numbered = any(part not in (None, "0") for *_, part in printed.values())
    for rank, (domain, bus, device, part) in sorted(printed.items()):
        if rank >= len(gpus):
            return f"rank {rank} was not to be started"
        wanted = gpus[rank]
        there = f"{domain or '0000'}:{bus}:{device}".lower()
        other = numbered and part is not None and wanted.partition not in (None, int(part))
        is_known = _ADDRESS.fullmatch(wanted.oam) is not None
        if is_known and (there != wanted.oam.lower() or other):
            ran = there if part is None else f"{there}.{part}"
            return f"rank {rank} ran on {ran} instead of {wanted.address}"
    return None


def n_started_in_groups(one: Launch) -> int | None:
    """Ranks of all groups of a launch, None where its ranks are one group."""
    pairs = dict(one.environment)
    if not any(name.startswith("NCCL_TESTS_SPLIT") for name in pairs):
        return None
    listed = next((pairs[name] for name in detect.VISIBLE if name in pairs), None)
    return None if listed is None else len(listed.split(","))


def stored_place(folder: Path) -> Place | None:
    """Where the ranks of a session ran, None where it does not say.

    Raises:
        SessionError: it cannot be read.
    """
    return session.read_derived(folder, PLACE_FILE, Place)


def same_place(folder: Path, seating: Seating) -> None:
    """Stop where a session is of another placement: a session has one.

    Raises:
        SessionError: it is.
    """
    known = stored_place(folder)
    mine = seating.place
    if known is not None and known == replace(mine, alike=known.alike):
        return
    theirs = {(known.name, known.scale)} if known is not None else _launched(folder)
    other = sorted(theirs - {(mine.name, mine.scale)}, key=str)
    if other or known is not None:
        name, scale = other[0] if other else (mine.name, mine.scale)
        raise SessionError(
            f"this session measures placement {name}, {scale}{_on(known)}; asked for was "
            f"{mine.name}, {mine.scale}{_on(mine)}",
            where=str(folder / PLACE_FILE),
            hint="choose another session with -o, and give both to rccltune emit-config.",
        )


def _on(place: Place | None) -> str:
    """`` on devices 0, 1``, where they were chosen."""
    if place is None or not place.devices:
        return ""
    return f" on devices {', '.join(map(str, place.devices))}"


def _launched(folder: Path) -> set[tuple[str, Scale]]:
    """What the launches of a session say that has no such file."""
    if not (folder / "session.json").exists():
        return set()
    made = [one for one, _ in session.read_launches(folder)]
    return {(one.rank_placement, one.scale) for one in made if one.rank_placement and one.scale}
