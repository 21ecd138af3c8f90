r"""Ceilings of collectives, from the rates of links that TransferBench's ``a2a`` printed.

n devices that are all linked with each other have n-1 links each, and as many rings can run side
by side, each over another link of every device. The library gives each ring an equal share, so all
wait for the one with the slowest link: n-1 times its rate. In bus bandwidth that is the same figure
for each of the collectives below, because bus bandwidth is made to be; docs/machine.md derives it.

Three forms of the table are out there. Releases up to 1.62 print columns set apart by blanks, newer
ones the same in a frame and with two decimals, and ``OUTPUT_TO_CSV=1`` puts commas between them.
All have a header that begins with ``SRC\DST`` and a row for each source, in GB/s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.model import schema
from rccltune.model.errors import OutputError, SessionError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Mode, Setting, Target
from rccltune.model.times import is_usable
from rccltune.model.units import busbw
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.session import files, lock, store

if TYPE_CHECKING:
    from rccltune.analyse.session_fit import FitResult
    from rccltune.model.curves import Curve

# What TransferBench printed, in the session.
RATES_FILE: Final = "ceiling/a2a.txt"
# All that spread a call evenly over the links; alltoall does it without a ring.
_BOUND: Final = (*TUNABLE, Collective.ALLTOALL)
_WHOLE: Final = ("SPX", None)

_CORNER: Final = "SRC\\DST"
_FRAME: Final = str.maketrans("│,", "  ")
# A column's name may have a blank in it; everything else is one word.
_CELL: Final = re.compile(r"(?:GPU|CPU)\s+\d+|NIC\s*\(\s*\d+\s*QP\)|\S+")
_DEVICE: Final = re.compile(r"GPU\s+(\d+)")
_NUMBER: Final = re.compile(r"\d+\.\d+")
# Reading or writing alone is faster than what a collective does.
_READS: Final = re.compile(r"\[(\d+) Read\(s\) (\d+) Write\(s\)\]")
_SIMULATED: Final = re.compile(r"^# SIMULATED", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """One direction between two devices, in GB/s (1e9 B/s)."""

    source: int
    target: int
    gb_per_s: float

    def __str__(self) -> str:
        """``GPU 7 -> GPU 0``."""
        return f"GPU {self.source} -> GPU {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRates:
    """Copies from every device to every other one, all at once.

    Attributes:
        n_devices: of the table.
        links: by source and target; those between which no copy was made are not in it.
        simulated: no hardware was measured.
    """

    n_devices: int
    links: Mapping[tuple[int, int], LinkRate]
    simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The bus bandwidth at which the slowest link holds up a collective, and what reached it.

    Attributes:
        n_links: of each device, one to every other one.
        slowest: the link that the rings wait for.
        reached_gb_per_s: the most bus bandwidth of any setting,
        setting: which it was,
        nbytes: and at which size.
    """

    target: Target
    n_links: int
    slowest: LinkRate
    reached_gb_per_s: float
    setting: Setting
    nbytes: int

    @property
    def gb_per_s(self) -> float:
        """The ceiling, comparable with bus bandwidth."""
        return self.n_links * self.slowest.gb_per_s

    @property
    def fraction(self) -> float:
        """What was reached of it; 1 is the ceiling."""
        return self.reached_gb_per_s / self.gb_per_s

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            **schema.to_plain(self.target),
            "ceiling_gb_per_s": self.gb_per_s,
            "n_links": self.n_links,
            "slowest_link": self.slowest,
            "reached_gb_per_s": self.reached_gb_per_s,
            "fraction": self.fraction,
            "nbytes": self.nbytes,
            "setting": str(self.setting),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Ceilings of a session's targets.

    Attributes:
        targets: each that has one, in the order of the curves.
        without: why the others have none, one sentence each.
    """

    rates: LinkRates
    targets: tuple[Ceiling, ...]
    without: tuple[str, ...]

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json; GB/s is 1e9 B/s."""
        return {
            "simulated": self.rates.simulated,
            "targets": self.targets,
            "without": self.without,
        }


def keep_rates(folder: Path, file: Path, *, reporter: Reporter) -> None:
    """Keep TransferBench's output in a session.

    Args:
        folder: the session.
        file: what its ``a2a`` printed.
        reporter: told what is worth telling.

    Raises:
        SessionError: no session, or simulated rates for a measured one and the reverse.
        OutputError: the output is not understood.
    """
    opened = store.open_session(folder)
    content = file.read_bytes()
    rates = read_rates(content.decode("utf-8", "replace"), str(file))
    if rates.simulated != opened.simulated:
        words = ("measured", "simulated")
        raise SessionError(
            f"the rates are {words[rates.simulated]}, the session is {words[opened.simulated]}",
            where=str(file),
            hint="simulated and measured figures are never put together.",
        )
    with lock.lock_session(folder, reporter):
        files.write_atomically(folder / RATES_FILE, content)


def find_ceilings(done: FitResult) -> Ceilings | None:
    """The ceilings of a session; None where it has no rates.

    Raises:
        OutputError: the output that was kept is not understood.
    """
    opened = done.session
    path = opened.path / RATES_FILE
    if not path.exists():
        return None
    rates = read_rates(files.read_regular(path).decode("utf-8", "replace"), str(path))
    place = opened.setup.placement
    by_target: dict[Target, list[Curve]] = {}
    for curve in done.curves:
        by_target.setdefault(curve.key.target, []).append(curve)
    ceilings: list[Ceiling] = []
    without: list[str] = []
    for target, curves in by_target.items():
        devices: Sequence[int] = range(rates.n_devices)
        # Groups side by side have no devices of their own here.
        if place and (place.scale, place.name) == (target.scale, target.rank_placement):
            devices = place.devices or devices
        why = why_no_ceiling(rates, target, devices, mode=opened.fingerprint.mode)
        if why is None:
            ceilings.append(ceiling_of(rates, target, devices, _best(target, curves)))
        else:
            without.append(f"{target.collective.value}, {target.scale}: {why}")
    return Ceilings(rates=rates, targets=tuple(ceilings), without=tuple(without))


def why_no_ceiling(
    rates: LinkRates, target: Target, devices: Sequence[int], *, mode: Mode | None = None
) -> str | None:
    """Why these rates bound no such call; None where they do.

    Args:
        rates: what TransferBench measured.
        target: what is called, by how many ranks.
        devices: numbers of the ranks' devices; all of the table where nothing chose them.
        mode: of the machine, None where it is not known.
    """
    scale, n_devices = target.scale, rates.n_devices
    if target.collective not in _BOUND or scale.n_ranks < 2:
        return f"{target.collective.value} does not spread a call over all links of a device"
    if scale.n_nodes > 1:
        return f"of {scale.n_nodes} nodes it is the network between them that bounds"
    if mode is not None and mode.compute not in _WHOLE:
        return f"in {mode} several devices share the links of one GPU"
    if len(devices) != scale.n_ranks or max(devices) >= n_devices:
        return (
            f"TransferBench copied between {n_devices} devices, and which of them {scale.n_ranks} "
            "ranks are on is not known"
        )
    for source in devices:
        for to in devices:
            if source != to and (source, to) not in rates.links:
                return f"GPU {source} and GPU {to} have no link of their own, as rings need"
    return None


def ceiling_of(
    rates: LinkRates, target: Target, devices: Sequence[int], best: tuple[float, int, Setting]
) -> Ceiling:
    """The ceiling, where :func:`why_no_ceiling` has nothing against it.

    Args:
        rates: what TransferBench measured.
        target: what is called, by how many ranks.
        devices: numbers of the ranks' devices.
        best: the most bus bandwidth in GB/s, at which size, of which setting.
    """
    links = (rates.links[a, b] for a in devices for b in devices if a != b)
    slowest = min(links, key=lambda link: link.gb_per_s)
    reached, nbytes, setting = best
    return Ceiling(
        target=target,
        n_links=len(devices) - 1,
        slowest=slowest,
        reached_gb_per_s=reached,
        nbytes=nbytes,
        setting=setting,
    )


def _best(target: Target, curves: Sequence[Curve]) -> tuple[float, int, Setting]:
    """The most bus bandwidth of a target, with its size and setting."""
    points = (
        (
            busbw(target.collective, target.scale.n_ranks, point.nbytes, point.time_us),
            point.nbytes,
            curve.key.setting,
        )
        for curve in curves
        for point in curve.points
    )
    return max(points, key=lambda point: point[0])


def read_rates(text: str, source: str) -> LinkRates:
    """The rates of all links.

    The table is read with its columns' names, so that NIC and sum columns, which come and go, are
    never taken for links.

    Args:
        text: everything that TransferBench printed.
        source: name of the file, for messages.

    Raises:
        OutputError: no such table, several, one of another preset or of several hosts, or a row
            that is not whole.
    """
    lines = [_CELL.findall(line.translate(_FRAME)) for line in text.splitlines()]
    # The p2p preset has such a corner too, over columns of CPUs.
    heads = [
        number
        for number, cells in enumerate(lines, start=1)
        if cells[:1] == [_CORNER] and not any("CPU" in cell for cell in cells)
    ]
    if len(heads) != 1:
        raise _refusal(f"{len(heads)} tables of links, whose header begins with {_CORNER}", source)
    [head] = heads
    columns = lines[head - 1][1:]
    n_devices = sum(_DEVICE.fullmatch(name) is not None for name in columns)
    where = f"{source}:{head}"
    if "(Rnk)" in columns:
        raise _refusal("a run over several hosts, whose rates are averages and extremes", where)
    if (reads := _READS.search(text)) and reads.groups() != ("1", "1"):
        raise _refusal("no copies: A2A_MODE let it read or write only", source)
    links: dict[tuple[int, int], LinkRate] = {}
    rows: list[int] = []
    for number, cells in enumerate(lines[head:], start=head + 1):
        if cells and (row := _DEVICE.fullmatch(cells[0])):
            rows.append(int(row[1]))
            for link in _links(rows[-1], cells[1:], columns, f"{source}:{number}"):
                links[link.source, link.target] = link
    if rows != list(range(n_devices)) or n_devices < 2:
        raise _refusal(f"a table of {n_devices} devices with the rows {rows}", where)
    simulated = _SIMULATED.search(text) is not None
    return LinkRates(n_devices=n_devices, links=links, simulated=simulated)


def _links(device: int, cells: Sequence[str], columns: Sequence[str], where: str) -> list[LinkRate]:
    """Links of one source, but for the one to itself (A2A_LOCAL=1)."""
    if len(cells) != len(columns):
        raise _refusal(f"a row of {len(cells)} figures under {len(columns)} columns", where)
    links = []
    for name, cell in zip(columns, cells, strict=True):
        to = _DEVICE.fullmatch(name)
        if to is None or cell == "N/A" or int(to[1]) == device:
            continue
        rate = float(cell) if _NUMBER.fullmatch(cell) else None
        if not is_usable(rate):
            raise _refusal(f"'{cell}', which is no rate", where)
        links.append(LinkRate(source=device, target=int(to[1]), gb_per_s=rate))
    return links


def _refusal(what: str, where: str) -> OutputError:
    return OutputError(
        f"TransferBench's output has {what}",
        where=where,
        hint="run it again on one host, ./TransferBench a2a 64M 8 > a2a.txt, and give the whole "
        "output.",
    )
