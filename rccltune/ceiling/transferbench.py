r"""Reads what TransferBench's ``a2a`` preset printed.

Three forms are out there. Releases up to 1.62 print a table of columns set apart by blanks, newer
ones the same in a frame and with two decimals, and ``OUTPUT_TO_CSV=1`` puts commas between them.
All have a header that begins with ``SRC\DST`` and a row for each source, in GB/s; read with their
columns' names, so that NIC and sum columns, which come and go, are never taken for links. The
printed sum of each row must fit, which a cut or shifted line does not survive.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, NoReturn

from rccltune.model.errors import OutputError
from rccltune.model.links import LinkRates
from rccltune.model.times import is_usable, printed

_CORNER: Final = "SRC\\DST"
_CORNER_OF_P2P: Final = ("SRC+EXE\\DST", "SRC\\EXE+DST")
_HINT: Final = "run it again, ./TransferBench a2a 64M 8 > a2a.txt, and give the whole output."
_FRAME: Final = str.maketrans("│,", "  ")
# A column's name may have a blank in it; everything else is one word.
_CELL: Final = re.compile(r"(?:GPU|CPU)\s+\d+|NIC\s*\(\s*\d+\s*QP\)|\S+")
_DEVICE: Final = re.compile(r"GPU\s+(\d+)")
_NUMBER: Final = re.compile(r"\d+\.(\d+)")
_VERSION: Final = re.compile(r"TransferBench v(\d[\w.]*)")
_NBYTES: Final = re.compile(r"\[(\d+) bytes per Transfer\]|Copying (\d+) bytes between")
_ENGINE: Final = re.compile(r"\[(GFX|DMA):(\d+)\]")
_READS: Final = re.compile(r"\[(\d+) Read\(s\) (\d+) Write\(s\)\]")
_SIMULATED: Final = re.compile(r"^# SIMULATED", re.MULTILINE)
_ABSENT: Final = "N/A"


class _TableLine(NamedTuple):
    """A line of the table, taken apart."""

    number: int
    cells: tuple[str, ...]


def read_rates(text: str, source: str) -> LinkRates:
    """The rates of all links.

    Args:
        text: everything that TransferBench printed.
        source: name of the file, for messages and for the record.

    Raises:
        OutputError: no such table, several, one of another preset or of several hosts, or figures
            that contradict each other.
    """
    header, rows = _table(text, source)
    columns = [_DEVICE.fullmatch(cell) for cell in header.cells]
    targets = [int(found[1]) for found in columns if found]
    if targets != list(range(len(targets))) or len(targets) < 2:
        _refuse(f"the columns are of devices {targets}", source, header.number)
    _check_copies(text, source)
    rates = tuple(
        _row(device, line, header, source)
        for device, line in enumerate(_complete(rows, len(targets), source, header.number))
    )
    engine, n_units = _engine(text)
    found_nbytes = _NBYTES.search(text)
    version = _VERSION.search(text)
    return LinkRates(
        rates=rates,
        version=version[1] if version else None,
        nbytes=int(found_nbytes[1] or found_nbytes[2]) if found_nbytes else None,
        engine=engine,
        n_units=n_units,
        source=source,
        simulated=_SIMULATED.search(text) is not None,
    )


def _table(text: str, source: str) -> tuple[_TableLine, list[_TableLine]]:
    """Header and rows of the one table of links."""
    lines = [
        _TableLine(number, tuple(_CELL.findall(line.translate(_FRAME))))
        for number, line in enumerate(text.splitlines(), start=1)
    ]
    # The p2p preset has such a corner too, over columns of CPUs.
    heads = [
        at
        for at, line in enumerate(lines)
        if line.cells[:1] == (_CORNER,) and not any("CPU" in cell for cell in line.cells)
    ]
    if not heads:
        _refuse_without(text, source)
    if len(heads) > 1:
        _refuse("there are several tables of links", source, lines[heads[1]].number)
    header = lines[heads[0]]
    if "(Rnk)" in header.cells:
        raise OutputError(
            "this is a run over several hosts, whose rates are averages and extremes",
            where=f"{source}:{header.number}",
            hint="run TransferBench a2a on one host alone.",
        )
    rows = [line for line in lines[heads[0] + 1 :] if _DEVICE.fullmatch((*line.cells, "")[0])]
    return _TableLine(header.number, header.cells[1:]), rows


def _refuse_without(text: str, source: str) -> NoReturn:
    """There is no table; say what is there instead."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith("[ERROR]"):
            raise OutputError(
                f"TransferBench failed: {line.removeprefix('[ERROR]').strip()}",
                where=f"{source}:{number}",
                hint=_HINT,
            )
        if any(corner in line for corner in _CORNER_OF_P2P):
            raise OutputError(
                "this is what the p2p preset prints, one link at a time; a ceiling needs all links "
                "at once",
                where=f"{source}:{number}",
                hint=_HINT,
            )
    raise OutputError(
        f"there is no table of links, whose header begins with {_CORNER}", where=source, hint=_HINT
    )


def _check_copies(text: str, source: str) -> None:
    """Reading or writing alone is faster than what a collective does."""
    reads = _READS.search(text)
    mode = re.search(r"^A2A_MODE\s*[=,]\s*([0-9:]+)", text, re.MULTILINE)
    if (reads is not None and (reads[1], reads[2]) != ("1", "1")) or (
        mode is not None and mode[1] not in ("0", "1:1")
    ):
        raise OutputError(
            "these are no copies: A2A_MODE let it read or write only",
            where=source,
            hint="unset A2A_MODE and run TransferBench a2a again.",
        )


def _complete(rows: Sequence[_TableLine], n: int, source: str, at: int) -> Sequence[_TableLine]:
    """A row for each device, in order."""
    named = [int(found[1]) for row in rows if (found := _DEVICE.fullmatch(row.cells[0]))]
    if named != list(range(n)):
        last = rows[-1].number if rows else at
        _refuse(f"of the rows of {n} devices there are {named or 'none'}", source, last)
    return rows


def _row(
    device: int, line: _TableLine, header: _TableLine, source: str
) -> tuple[float | None, ...]:
    """Rates of one source; None for itself even where TransferBench copied there too."""
    if len(line.cells) - 1 != len(header.cells):
        _refuse(
            f"row GPU {device:02} has {len(line.cells) - 1} figures under {len(header.cells)} "
            "columns",
            source,
            line.number,
        )
    cells = dict(zip(header.cells, line.cells[1:], strict=True))
    rates = {
        name: None if cell == _ABSENT else _rate(cell, source, line.number)
        for name, cell in cells.items()
        if name not in ("STotal", "Actual")
    }
    if "STotal" in cells:
        _check_sum(rates.values(), cells["STotal"], device, source, line.number)
    links = [rate for name, rate in rates.items() if _DEVICE.fullmatch(name)]
    return tuple(None if target == device else rate for target, rate in enumerate(links))


def _rate(cell: str, source: str, number: int) -> float:
    rate = printed(cell) if _NUMBER.fullmatch(cell) else None
    if not is_usable(rate):
        _refuse(f"'{cell}' is no rate", source, number)
    return rate


def _check_sum(
    rates: Iterable[float | None], total: str, device: int, source: str, number: int
) -> None:
    """The printed sum is that of the row, as far as decimals go."""
    known = [rate for rate in rates if rate is not None]
    found = _NUMBER.fullmatch(total)
    if found is None:
        _refuse(f"'{total}' is no sum", source, number)
    allowed = 0.5 * 10.0 ** -len(found[1]) * (len(known) + 1) * 1.01
    if abs(sum(known) - float(total)) > allowed:
        _refuse(
            f"the figures of row GPU {device:02} sum to {sum(known):.3f} and not to {total}",
            source,
            number,
        )


def _engine(text: str) -> tuple[str | None, int | None]:
    """Read which engine copied, and with how many compute units each."""
    match = _ENGINE.search(text)
    if match is not None:
        return match[1], int(match[2])
    listed = {
        name: int(value)
        for name, value in re.findall(
            r"^(NUM_SUB_EXEC|USE_DMA_EXEC)\s*[=,]\s*(\d+)", text, re.MULTILINE
        )
    }
    engine = {0: "GFX", 1: "DMA"}.get(listed.get("USE_DMA_EXEC", -1))
    return engine, listed.get("NUM_SUB_EXEC")


def _refuse(what: str, source: str, number: int) -> NoReturn:
    raise OutputError(
        f"the table of links is damaged: {what}", where=f"{source}:{number}", hint=_HINT
    )
