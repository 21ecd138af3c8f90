"""The devices that a session's ranks ran on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.model.errors import SessionError
from rccltune.model.settings import RankLocation
from rccltune.model.vocabulary import RankPlacement
from rccltune.session import store

if TYPE_CHECKING:
    from rccltune.machine import records
    from rccltune.machine.placement import RankDevices

PLACE_FILE: Final = "placement.json"
_ADDRESS: Final = re.compile(
    r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE
)


def misplaced(log: Path, gpus: Sequence[records.Gpu]) -> str | None:
    """The first rank that says it ran on another device than it was to; None where none does.

    Older benchmarks print a bus, newer ones the OAM's whole address; what is not printed is not
    compared. The partition is, where any rank prints one.

    Args:
        log: what a launch printed.
        gpus: where each rank was to be; with none nothing is checked.
    """
    if not gpus:
        return None
    from rccltune.logs import text_log

    printed = {
        rank: match.groups()
        for rank, bus in text_log.buses_in(log.read_bytes()).items()
        if (match := _ADDRESS.fullmatch(bus)) is not None
    }
    numbered = any(part not in (None, "0") for *_, part in printed.values())
    for rank, (domain, bus, device, part) in sorted(printed.items()):
        if rank >= len(gpus):
            return f"rank {rank} was not to be started"
        wanted = gpus[rank]
        device_there = _place(domain, bus, device)
        other = numbered and part is not None and wanted.partition not in (None, int(part))
        address = _ADDRESS.fullmatch(wanted.oam)
        # NVIDIA's driver names a function too.
        if address is not None and (device_there != _place(*address.groups()[:3]) or other):
            ran = device_there if part is None else f"{device_there}.{part}"
            return f"rank {rank} ran on {ran} instead of {wanted.address}"
    return None


def _place(domain: str | None, bus: str, device: str) -> str:
    return f"{domain or '0000'}:{bus}:{device}".lower()


def stored_place(folder: Path) -> RankLocation | None:
    """Location of a session's ranks, None where it does not say.

    Raises:
        SessionError: it cannot be read.
    """
    return store.read_derived(folder, PLACE_FILE, RankLocation)


def same_place(folder: Path, seating: RankDevices) -> None:
    """Stop where a session is of another placement: a session has one.

    Raises:
        SessionError: it is.
    """
    known = stored_place(folder)
    mine = seating.place
    if known is None or known == replace(mine, alike=known.alike, devices=_of(known, mine)):
        return
    raise SessionError(
        f"this session measures placement {known.name}, {known.scale}{_on(known)}; asked for was "
        f"{mine.name}, {mine.scale}{_on(mine)}",
        where=str(folder / PLACE_FILE),
        hint="choose another session with -o, and give both to rccltune emit-config.",
    )


def _of(known: RankLocation, mine: RankLocation) -> tuple[int, ...]:
    """The devices that ``known`` must have; the whole node need not have been listed."""
    both_whole = known.name == mine.name == RankPlacement.NODE.value
    return known.devices if both_whole and not known.devices else mine.devices


def _on(place: RankLocation) -> str:
    """`` on devices 0, 1``, where they were chosen."""
    if not place.devices:
        return ""
    return f" on devices {', '.join(map(str, place.devices))}"
