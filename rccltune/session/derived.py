"""A baseline that nobody measured; and the devices that a session's ranks ran on.

It is kept as a table of its own among the session's raw logs, in the variant ``derived``, so that
it is never pooled with what was measured and proves nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from rccltune import logs, machine
from rccltune.machine import Seating
from rccltune.model import (
    BASELINE,
    DEFAULT_VARIANT,
    DERIVED,
    Collective,
    CommandLineError,
    CurveKey,
    Fingerprint,
    OutputError,
    Place,
    RankPlacement,
    Role,
    Sample,
    Scale,
    SessionError,
    Setting,
    Stated,
    base_variant,
    format_size,
)
from rccltune.session import store

PLACE_FILE: Final = "placement.json"
_ADDRESS: Final = re.compile(
    r"(?:([0-9a-f]{4}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE
)


def strayed(log: Path, gpus: Sequence[machine.Gpu]) -> str | None:
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
        for rank, bus in logs.buses_in(log.read_bytes()).items()
        if (match := _ADDRESS.fullmatch(bus)) is not None
    }
    numbered = any(part not in (None, "0") for *_, part in printed.values())
    for rank, (domain, bus, device, part) in sorted(printed.items()):
        if rank >= len(gpus):
            return f"rank {rank} was not to be started"
        wanted = gpus[rank]
        there = _place(domain, bus, device)
        other = numbered and part is not None and wanted.partition not in (None, int(part))
        address = _ADDRESS.fullmatch(wanted.oam)
        # NVIDIA's driver names a function too.
        if address is not None and (there != _place(*address.groups()[:3]) or other):
            ran = there if part is None else f"{there}.{part}"
            return f"rank {rank} ran on {ran} instead of {wanted.address}"
    return None


def _place(domain: str | None, bus: str, device: str) -> str:
    return f"{domain or '0000'}:{bus}:{device}".lower()


def stored_place(folder: Path) -> Place | None:
    """Where the ranks of a session ran, None where it does not say.

    Raises:
        SessionError: it cannot be read.
    """
    return store.read_derived(folder, PLACE_FILE, Place)


def same_place(folder: Path, seating: Seating) -> None:
    """Stop where a session is of another placement: a session has one.

    Raises:
        SessionError: it is.
    """
    known = stored_place(folder)
    mine = seating.place
    if known is not None and known == replace(mine, alike=known.alike, devices=_of(known, mine)):
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


def _of(known: Place, mine: Place) -> tuple[int, ...]:
    """The devices that ``known`` must have; the whole node need not have been listed."""
    both_whole = known.name == mine.name == RankPlacement.NODE.value
    return known.devices if both_whole and not known.devices else mine.devices


def _on(place: Place | None) -> str:
    """`` on devices 0, 1``, where they were chosen."""
    if place is None or not place.devices:
        return ""
    return f" on devices {', '.join(map(str, place.devices))}"


def _launched(folder: Path) -> set[tuple[str, Scale]]:
    """What the launches of a session say that has no such file."""
    if not (folder / "session.json").exists():
        return set()
    made = [one for one, _ in store.read_launches(folder)]
    return {(one.rank_placement, one.scale) for one in made if one.rank_placement and one.scale}


_Place = tuple[Collective, Scale]
_Choices = Mapping[tuple[Collective, Scale, int], Setting]
FILE_NAME: Final = "derived-baseline.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoicesFrom:
    """Where the library's choices come from: one of two.

    Attributes:
        file: a log or table of untouched runs that names what ran.
        library: a real RCCL that is asked now.
        site: the environment in which it is asked.
    """

    file: Path | None = None
    library: Path | None = None
    site: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedTable:
    """A derived baseline as :func:`rccltune.logs.read` reads it.

    Attributes:
        remarks: where there is one, and where there is none.
    """

    text: str
    remarks: tuple[str, ...]


def derived_table(
    asked: ChoicesFrom, samples: Sequence[Sample], known: Fingerprint, origin: str, folder: Path
) -> DerivedTable:
    """Give every size that the library's choice is known at the time of the setting it chose.

    Args:
        asked: where the choices come from.
        samples: of the session and of the files; those without a flag are used.
        known: the machine that they were measured on.
        origin: whose times they are.
        folder: where a file may be kept for a moment.

    Raises:
        CommandLineError: a baseline was measured, so that none is derived beside it.
        OutputError: the file names no choice, or nothing of what was chosen was measured.
        MachineError: the library cannot be asked for this machine.
        LaunchError: it failed.
    """
    good = [s for s in samples if s.doubt is None and s.time_us and s.key.variant != DERIVED]
    own = [s for s in good if _is_usable(s)]
    for sample in good:
        if sample.key.setting.role is Role.BASELINE and sample.key.variant == DEFAULT_VARIANT:
            raise CommandLineError(
                f"the library's own choice was measured for {sample.key.collective.value}, "
                f"{sample.key.scale}",
                hint="leave --baseline-choices out: a measured baseline is better than a derived "
                "one.",
            )
    path = asked.file
    if asked.library is not None:
        wanted: dict[_Place, set[int]] = defaultdict(set)
        for sample in own:
            wanted[sample.key.collective, sample.key.scale].add(sample.nbytes)
        path = folder / "choices.csv"
        path.write_text(
            machine.live_choices(asked.library, known, wanted, asked.site or {}), encoding="utf-8"
        )
    if path is None:
        raise AssertionError("choices come from a file or from a library")
    reading = logs.read(path, Stated(), "")
    choices = _choices(reading.samples, str(asked.file or asked.library))
    said = reading.origin or f"choices in {path.name}"
    return _table(choices, own, f"derived: {said}; times: {origin}".replace('"', "'"))


def _is_usable(sample: Sample) -> bool:
    """Measured in the site's environment, or in one that only widens the choice there."""
    key = sample.key
    plain = base_variant(key.variant).name == DEFAULT_VARIANT.name and not key.variant.patched
    return plain and key.setting.is_complete


def _choices(samples: Iterable[Sample], where: str) -> _Choices:
    """What ran at each size, where all that was seen of it agrees.

    Raises:
        OutputError: nothing says what ran untouched.
    """
    seen: dict[tuple[Collective, Scale, int], set[Setting]] = defaultdict(set)
    for sample in samples:
        is_own = sample.key.setting.role in (Role.BASELINE, Role.UNSTATED)
        if is_own and sample.executed is not None and sample.executed.is_complete:
            seen[sample.key.collective, sample.key.scale, sample.nbytes].add(sample.executed)
    found = {at: ran.pop() for at, ran in seen.items() if len(ran) == 1}
    if not found:
        raise OutputError(
            "the file does not say what the library chose",
            where=where,
            hint="give a log with the benchmark's algo and proto columns (-A 1), or a table with "
            "the columns collective, nodes, ranks, setting (baseline), algorithm, protocol, "
            "channels, nbytes and time_us (may be empty).",
        )
    return found


_HEAD: Final = (
    "# DERIVED by rccltune import --baseline-choices: what the library chooses by itself,",
    "# with the times that were imported for that setting. Nobody measured this baseline.",
)
_COLUMNS: Final = (
    "collective,nodes,ranks,rank_placement,setting,variant,placement,dtype,redop,graph,"
    "algorithm,protocol,channels,nbytes,time_us"
)


def _table(choices: _Choices, samples: Sequence[Sample], source: str) -> DerivedTable:
    times: dict[tuple[CurveKey, int], list[Sample]] = defaultdict(list)
    for sample in samples:
        # All settings of one view together, whatever widened the choice.
        view = replace(sample.key, setting=BASELINE, variant=DERIVED)
        times[view, sample.nbytes].append(sample)
    lines = [
        *_HEAD,
        f'# rccltune: source="{source}"',
        _COLUMNS,
    ]
    had: dict[_Place, list[int]] = defaultdict(list)
    missing: dict[tuple[_Place, str], set[int]] = defaultdict(set)
    for (view, nbytes), there in sorted(
        times.items(), key=lambda item: (str(item[0][0]), item[0][1])
    ):
        place = (view.collective, view.scale)
        choice = choices.get((*place, nbytes))
        if choice is None:
            missing[place, "no choice of a setting is known"].add(nbytes)
            continue
        found = _of_choice(there, choice)
        if not found:
            missing[place, f"{replace(choice, channels=None)} was not measured"].add(nbytes)
            continue
        had[place].append(nbytes)
        lines.append(_row(view, choice, nbytes, median(s.time_us or 0.0 for s in found)))
    remarks = [
        f"Baseline of {_words(place)} derived at {len(set(sizes))} sizes, {_range(sizes)}: "
        f"{source.removeprefix('derived: ')}. Not measured"
        for place, sizes in had.items()
    ]
    remarks += [
        f"No baseline of {_words(place)} at {len(sizes)} sizes, {_range(sizes)}: {why}"
        for (place, why), sizes in missing.items()
    ]
    if not had:
        raise OutputError(
            "; ".join(remarks) or "there are no timings to derive a baseline from",
            where=FILE_NAME,
            hint="give choices for the collectives, ranks and sizes that were measured.",
        )
    return DerivedTable(text="\n".join(lines) + "\n", remarks=tuple(remarks))


def _of_choice(there: Sequence[Sample], choice: Setting) -> list[Sample]:
    """Samples of the setting chosen: with channels left to the library, else with as many."""
    cell = replace(choice, channels=None)
    for wanted in (cell, choice):
        own = [s for s in there if s.key.setting == wanted]
        plain = [s for s in own if s.key.variant == DEFAULT_VARIANT]
        if own:
            return plain or own
    return []


def _row(view: CurveKey, choice: Setting, nbytes: int, time_us: float) -> str:
    graph = "" if view.graph is None else str(int(view.graph))
    cells = (
        view.collective.value,
        view.scale.n_nodes,
        view.scale.n_ranks,
        view.rank_placement or "",
        "baseline",
        DERIVED.name,
        view.placement.value,
        view.dtype or "",
        view.redop or "",
        graph,
        choice.algorithm.value if choice.algorithm else "",
        choice.protocol.value if choice.protocol else "",
        choice.channels or "",
        nbytes,
        f"{time_us:.6g}",
    )
    return ",".join(str(cell) for cell in cells)


def _words(place: _Place) -> str:
    return f"{place[0].value}, {place[1]}"


def _range(sizes: Iterable[int]) -> str:
    found = sorted(set(sizes))
    first, last = format_size(found[0]), format_size(found[-1])
    return first if first == last else f"{first} to {last}"
