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

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from rccltune.model import schema
from rccltune.model.errors import CommandLineError, OutputError, SessionError
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Line, Number, Whole
from rccltune.model.settings import Mode, Setting, Target
from rccltune.model.times import is_usable, printed
from rccltune.model.vocabulary import TUNABLE, Collective, busbw
from rccltune.session import files, store

if TYPE_CHECKING:
    from rccltune.analyse.fit import FitResult
    from rccltune.model.curves import Curve

FOLDER: Final = "ceiling"
CEILING_FILE: Final = f"{FOLDER}/ceiling.json"
# All that spread a call evenly over the links; alltoall does it without a ring.
_BOUND: Final = (*TUNABLE, Collective.ALLTOALL)
_WHOLE: Final = ("SPX", None)

_CORNER: Final = "SRC\\DST"
_HINT: Final = "run it again, ./TransferBench a2a 64M 8 > a2a.txt, and give the whole output."
_FRAME: Final = str.maketrans("│,", "  ")
# A column's name may have a blank in it; everything else is one word.
_CELL: Final = re.compile(r"(?:GPU|CPU)\s+\d+|NIC\s*\(\s*\d+\s*QP\)|\S+")
_DEVICE: Final = re.compile(r"GPU\s+(\d+)")
_NUMBER: Final = re.compile(r"\d+\.(\d+)")
_VERSION: Final = re.compile(r"TransferBench v(\d[\w.]*)")
_NBYTES: Final = re.compile(r"\[(\d+) bytes per Transfer\]|Copying (\d+) bytes between")
# Reading or writing alone is faster than what a collective does.
_READS: Final = re.compile(r"\[(\d+) Read\(s\) (\d+) Write\(s\)\]")
_MODE: Final = re.compile(r"^A2A_MODE\s*[=,]\s*([0-9:]+)", re.MULTILINE)
_SIMULATED: Final = re.compile(r"^# SIMULATED", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRate:
    """One direction between two devices, in GB/s (1e9 B/s)."""

    source: Whole
    target: Whole
    gb_per_s: Number

    def __str__(self) -> str:
        """``GPU 7 -> GPU 0``."""
        return f"GPU {self.source} -> GPU {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRates:
    """Copies from every device to every other one, all at once.

    Attributes:
        rates: GB/s (1e9 B/s), a row for each source with a column for each target; None where
            no copy was made, and from a device to itself.
        version: TransferBench's own, None where the output does not say it.
        nbytes: of each copy, None where the output does not say it.
        source: name of the file.
        sha256: of the whole output.
        simulated: no hardware was measured.
    """

    FORMAT: ClassVar[int] = 2

    rates: tuple[tuple[Number | None, ...], ...]
    version: Line | None = None
    nbytes: Whole | None = None
    source: Line = ""
    sha256: Line = ""
    simulated: bool = False

    def __post_init__(self) -> None:
        """A square of positive rates, with nothing from a device to itself."""
        n = len(self.rates)
        for device, row in enumerate(self.rates):
            if len(row) != n or row[device] is not None:
                raise ValueError(f"row {device} of the rates does not fit {n} devices")
            if any(rate is not None and not is_usable(rate) for rate in row):
                raise ValueError(f"row {device} of the rates has one that is no rate")

    @property
    def links(self) -> tuple[LinkRate, ...]:
        """Rates of every direction that was measured."""
        return self.among(range(len(self.rates)))

    def among(self, devices: Sequence[int]) -> tuple[LinkRate, ...]:
        """Rates between these devices alone."""
        return tuple(
            LinkRate(source=source, target=target, gb_per_s=rate)
            for source in devices
            for target in devices
            if (rate := self.rates[source][target]) is not None
        )


class Reached(NamedTuple):
    """The best bus bandwidth of a target, and what reached it."""

    gb_per_s: float
    setting: Setting
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The bus bandwidth at which the slowest link holds up a collective, and what reached it.

    Attributes:
        n_links: of each device, one to every other one.
        slowest: the link that the rings wait for.
    """

    target: Target
    n_links: int
    slowest: LinkRate
    best: Reached

    @property
    def gb_per_s(self) -> float:
        """The ceiling, comparable with bus bandwidth."""
        return self.n_links * self.slowest.gb_per_s

    @property
    def fraction(self) -> float:
        """What was reached of it; 1 is the ceiling."""
        return self.best.gb_per_s / self.gb_per_s

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json."""
        return {
            **schema.to_plain(self.target),
            "ceiling_gb_per_s": self.gb_per_s,
            "n_links": self.n_links,
            "slowest_link": self.slowest,
            "reached_gb_per_s": self.best.gb_per_s,
            "fraction": self.fraction,
            "nbytes": self.best.nbytes,
            "setting": str(self.best.setting),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Ceilings of a session's targets.

    Attributes:
        known: of each target that has one, in the order of the curves.
        without: why the others have none, one sentence each.
    """

    rates: LinkRates
    known: tuple[Ceiling, ...]
    without: tuple[str, ...]

    def json_fields(self) -> dict[str, Any]:
        """Fields for --json; GB/s is 1e9 B/s."""
        return {
            "source": self.rates.source,
            "sha256": self.rates.sha256,
            "transferbench": self.rates.version,
            "simulated": self.rates.simulated,
            "targets": self.known,
            "without": self.without,
        }


def take_rates(folder: Path, file: Path, *, reporter: Reporter) -> None:
    """Keep TransferBench's output and its rates in a session.

    Args:
        folder: the session.
        file: what its ``a2a`` printed.
        reporter: told what is worth telling.

    Raises:
        CommandLineError: there is no such file.
        SessionError: no session, or simulated rates for a measured one and the reverse.
        OutputError: the output is not understood.
    """
    opened = store.open_session(folder)
    if not file.is_file():
        raise CommandLineError(
            "there is no such file",
            where=str(file),
            hint="--transferbench names a file with what TransferBench a2a printed.",
        )
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    read = read_rates(content.decode("utf-8", "replace"), str(file))
    rates = replace(read, source=file.name, sha256=digest)
    if rates.simulated != opened.simulated:
        words = ("measured", "simulated")
        raise SessionError(
            f"the rates are {words[rates.simulated]}, the session is {words[opened.simulated]}",
            where=str(file),
            hint="simulated and measured figures are never put together.",
        )
    with files.writing(folder, reporter):
        files.write_atomically(folder / FOLDER / f"a2a-{digest[:10]}.txt", content)
        store.write_derived(folder, CEILING_FILE, rates)


def ceilings(done: FitResult) -> Ceilings | None:
    """The ceilings of a session; None where it has no rates.

    Raises:
        SessionError: the record of the rates cannot be read.
    """
    opened = done.session
    again = "give TransferBench's output again with fit --transferbench."
    rates = store.read_derived(opened.path, CEILING_FILE, LinkRates, hint=again)
    if rates is None or not rates.links:
        return None
    # It knows node files, which take a sixth of a second to load.
    from rccltune.session.place import stored_place

    place = stored_place(opened.path)
    by_target: dict[Target, list[Curve]] = {}
    for curve in done.curves:
        by_target.setdefault(curve.key.target, []).append(curve)
    known: list[Ceiling] = []
    without: list[str] = []
    for target, curves in by_target.items():
        devices: tuple[int, ...] = ()
        # Groups side by side have no devices of their own here.
        if place and (place.scale, place.name) == (target.scale, target.rank_placement):
            devices = place.devices if len(place.devices) == target.scale.n_ranks else ()
        why = why_no_ceiling(rates, target, devices=devices, mode=opened.fingerprint.mode)
        if why is None:
            known.append(ceiling_of(rates, target, _best(target, curves), devices=devices))
        else:
            without.append(f"{target.collective.value}, {target.scale}: {why}")
    return Ceilings(rates=rates, known=tuple(known), without=tuple(without))


def why_no_ceiling(
    rates: LinkRates, target: Target, *, devices: Sequence[int] = (), mode: Mode | None = None
) -> str | None:
    """Why these rates bound no such call; None where they do.

    Args:
        rates: what TransferBench measured.
        target: what is called, by how many ranks.
        devices: numbers of the ranks' devices, empty where nothing chose them.
        mode: of the machine, None where it is not known.
    """
    scale, n_devices = target.scale, len(rates.rates)
    used = devices or range(n_devices)
    if target.collective not in _BOUND or scale.n_ranks < 2:
        return f"{target.collective.value} does not spread a call over all links of a device"
    if scale.n_nodes > 1:
        return f"of {scale.n_nodes} nodes it is the network between them that bounds"
    if mode is not None and mode.compute not in _WHOLE:
        return f"in {mode} several devices share the links of one GPU"
    if len(used) != scale.n_ranks or max(used) >= n_devices:
        return (
            f"TransferBench copied between {n_devices} devices, and which of them {scale.n_ranks} "
            "ranks are on is not known"
        )
    apart = [(a, b) for a in used for b in used if a != b and rates.rates[a][b] is None]
    if apart:
        source, to = apart[0]
        return f"GPU {source} and GPU {to} have no link of their own, as rings need"
    return None


def ceiling_of(
    rates: LinkRates, target: Target, best: Reached, *, devices: Sequence[int] = ()
) -> Ceiling:
    """The ceiling, where :func:`why_no_ceiling` has nothing against it.

    Args:
        rates: what TransferBench measured.
        target: what is called, by how many ranks.
        best: the most that a setting reached.
        devices: numbers of the ranks' devices, empty where the ranks are on all of them.
    """
    used = devices or range(len(rates.rates))
    slowest = min(rates.among(used), key=lambda link: link.gb_per_s)
    return Ceiling(target=target, n_links=len(used) - 1, slowest=slowest, best=best)


def _best(target: Target, curves: Iterable[Curve]) -> Reached:
    """The point with the most bus bandwidth."""
    points = (
        Reached(
            busbw(target.collective, target.scale.n_ranks, point.nbytes, point.time_us),
            curve.key.setting,
            point.nbytes,
        )
        for curve in curves
        for point in curve.points
    )
    return max(points, key=lambda point: point.gb_per_s)


def read_rates(text: str, source: str) -> LinkRates:
    """The rates of all links.

    The table is read with its columns' names, so that NIC and sum columns, which come and go, are
    never taken for links. The printed sum of each row must fit, which a cut or shifted line does
    not survive.

    Args:
        text: everything that TransferBench printed.
        source: name of the file, for messages.

    Raises:
        OutputError: no such table, several, one of another preset or of several hosts, or figures
            that contradict each other.
    """
    lines = [_CELL.findall(line.translate(_FRAME)) for line in text.splitlines()]
    # The p2p preset has such a corner too, over columns of CPUs.
    heads = [
        number
        for number, cells in enumerate(lines, start=1)
        if cells[:1] == [_CORNER] and not any("CPU" in cell for cell in cells)
    ]
    if not heads:
        failed = next((line for line in text.splitlines() if line.startswith("[ERROR]")), "")
        raise OutputError(
            f"there is no table of links, whose header begins with {_CORNER}"
            + (f"; TransferBench says: {failed}" if failed else ""),
            where=source,
            hint=_HINT,
        )
    if len(heads) > 1:
        raise _damaged("there are several tables of links", source, heads[1])
    head = heads[0]
    columns = lines[head - 1][1:]
    if "(Rnk)" in columns:
        raise OutputError(
            "this is a run over several hosts, whose rates are averages and extremes",
            where=f"{source}:{head}",
            hint="run TransferBench a2a on one host alone.",
        )
    reads, mode = _READS.search(text), _MODE.search(text)
    if (reads and reads.groups() != ("1", "1")) or (mode and mode[1] not in ("0", "1:1")):
        raise OutputError(
            "these are no copies: A2A_MODE let it read or write only",
            where=source,
            hint="unset A2A_MODE and run TransferBench a2a again.",
        )
    targets = [int(found[1]) for name in columns if (found := _DEVICE.fullmatch(name))]
    n = len(targets)
    if targets != list(range(n)) or n < 2:
        raise _damaged(f"the columns are of devices {targets}", source, head)
    rows = [
        (int(found[1]), number, cells[1:])
        for number, cells in enumerate(lines[head:], start=head + 1)
        if cells and (found := _DEVICE.fullmatch(cells[0]))
    ]
    if (named := [device for device, _, _ in rows]) != list(range(n)):
        last = rows[-1][1] if rows else head
        raise _damaged(f"of the rows of {n} devices there are {named or 'none'}", source, last)
    nbytes, version = _NBYTES.search(text), _VERSION.search(text)
    return LinkRates(
        rates=tuple(_row(device, cells, columns, source, at) for device, at, cells in rows),
        version=version[1] if version else None,
        nbytes=int(nbytes[1] or nbytes[2]) if nbytes else None,
        simulated=_SIMULATED.search(text) is not None,
    )


def _row(
    device: int, cells: Sequence[str], columns: Sequence[str], source: str, number: int
) -> tuple[float | None, ...]:
    """Rates of one source; None for itself even where TransferBench copied there too."""
    if len(cells) != len(columns):
        said = f"row GPU {device:02} has {len(cells)} figures under {len(columns)} columns"
        raise _damaged(said, source, number)
    rates: dict[str, float | None] = {}
    total = None
    for name, cell in zip(columns, cells, strict=True):
        if name == "STotal":
            total = cell
        elif name != "Actual":
            rate = printed(cell) if _NUMBER.fullmatch(cell) else None
            if cell != "N/A" and not is_usable(rate):
                raise _damaged(f"'{cell}' is no rate", source, number)
            rates[name] = rate
    if total is not None:
        found = _NUMBER.fullmatch(total)
        if found is None:
            raise _damaged(f"'{total}' is no sum", source, number)
        known = [rate for rate in rates.values() if rate is not None]
        # Each figure and the sum are rounded to so many decimals.
        allowed = 0.5 * 10.0 ** -len(found[1]) * (len(known) + 1) * 1.01
        if abs(sum(known) - float(total)) > allowed:
            said = f"the figures of row GPU {device:02} sum to {sum(known):.3f} and not to {total}"
            raise _damaged(said, source, number)
    links = [rate for name, rate in rates.items() if _DEVICE.fullmatch(name)]
    return tuple(None if target == device else rate for target, rate in enumerate(links))


def _damaged(what: str, source: str, number: int) -> OutputError:
    return OutputError(
        f"the table of links is damaged: {what}", where=f"{source}:{number}", hint=_HINT
    )
