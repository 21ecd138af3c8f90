"""Published rates, and TransferBench's three ways to print such rates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Rates = Sequence[Sequence[float | None]]

# AMD's article on xGMI (ROCm blog, 2025-03-02): eight MI300X in SPX, TransferBench 1.60.00,
# ./TransferBench a2a 64M 8. GB/s, a row for each source; the diagonal is left out.
MI300X = (
    (47.056, 46.826, 47.126, 46.432, 46.883, 46.784, 45.210),
    (47.000, 46.751, 46.935, 46.436, 45.543, 46.260, 46.116),
    (47.098, 46.785, 47.032, 46.048, 46.829, 45.451, 46.370),
    (46.931, 47.009, 46.941, 45.142, 46.718, 46.982, 46.925),
    (46.551, 46.333, 46.084, 45.614, 46.670, 47.033, 47.140),
    (46.831, 45.424, 46.821, 46.768, 46.734, 47.073, 47.008),
    (46.844, 46.278, 45.483, 46.713, 46.936, 46.862, 46.864),
    (45.095, 46.475, 46.049, 46.713, 46.907, 47.182, 46.786),
)
# Public qualification notes of an eight MI350X node, TransferBench 1.62.00, a2a with its defaults
# (copies of 256 MiB).
MI350X = (
    (50.732, 51.478, 53.114, 51.178, 50.907, 50.684, 50.996),
    (51.083, 52.957, 50.854, 51.395, 51.162, 51.050, 51.043),
    (51.088, 53.446, 51.342, 50.888, 51.300, 51.234, 51.445),
    (52.899, 51.319, 51.134, 50.874, 51.295, 51.191, 50.916),
    (51.133, 51.277, 51.145, 51.263, 51.098, 51.041, 52.865),
    (51.185, 50.992, 51.319, 50.922, 51.126, 53.104, 51.351),
    (51.065, 51.167, 50.888, 50.959, 51.458, 53.114, 51.364),
    (51.333, 51.142, 51.058, 51.339, 53.260, 51.402, 50.978),
)


def square(rows: Sequence[Sequence[float]]) -> tuple[tuple[float | None, ...], ...]:
    """The same rows with nothing from a device to itself."""
    return tuple((*row[:i], None, *row[i:]) for i, row in enumerate(rows))


def links_of(rates: Rates) -> dict[tuple[int, int], float]:
    """The rates by source and target."""
    return {
        (a, b): rate
        for a, row in enumerate(rates)
        for b, rate in enumerate(row)
        if rate is not None
    }


def columns_form(rates: Rates, *, separator: str = " ", nic: float | None = None) -> str:
    """As releases up to 1.62 print it; a comma with OUTPUT_TO_CSV=1.

    Widths and blanks are those of printf in src/client/Presets/AllToAll.hpp (ROCm/TransferBench).
    """
    n = len(rates)
    head = "SRC\\DST " + "".join(f"{separator}GPU {i:02}    " for i in range(n))
    head += f"{separator}NIC(01 QP)" if nic is not None else ""
    lines = [
        "TransferBench v1.60.00 (with NIC support)",
        "GPU-GFX All-To-All benchmark:",
        "",
        "Summary: [67108864 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]",
        "=" * 75,
        f"{head}   {separator}STotal     {separator}Actual",
    ]
    for source, row in enumerate(rates):
        cells = ["     N/A" if rate is None else f"{rate:8.3f}" for rate in row]
        cells += [f"{nic:8.3f}"] if nic is not None else []
        known = [rate for rate in row if rate is not None] + ([nic] if nic is not None else [])
        line = f"GPU {source:02}" + "".join(f"{separator}{cell}  " for cell in cells)
        total, actual = sum(known), min(known, default=0.0) * len(known)
        lines.append(f"{line}   {separator}{total:8.3f}   {separator}{actual:8.3f}")
    lines += ["", "RTotal", "", "Aggregate bandwidth (CPU Timed): 1937.924 GB/s", ""]
    return "\n".join(lines)


def framed_form(rates: Rates, *, framed: bool = True, separator: str = "") -> str:
    """As newer releases print it: two decimals in a frame (src/client/Utilities.hpp).

    SHOW_BORDERS=0 leaves blanks in the frame's place, OUTPUT_TO_CSV=1 puts a comma behind each cell.
    """
    head = [" SRC\\DST ", *(f" GPU {i:02} " for i in range(len(rates))), " STotal ", " Actual "]
    rows = [head]
    for source, row in enumerate(rates):
        known = [rate for rate in row if rate is not None]
        cells = [" N/A " if rate is None else f" {rate:.2f} " for rate in row]
        total, actual = sum(known), min(known, default=0.0) * len(known)
        rows.append([f" GPU {source:02} ", *cells, f" {total:.2f} ", f" {actual:.2f} "])
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    borders = {0, 1, len(rates) + 1, len(rates) + 2} if framed else set()
    blank = "" if separator else " "
    drawn = []
    for row in rows:
        cells = [cell.rjust(width) + separator for cell, width in zip(row, widths, strict=True)]
        line = "".join(("│" if i in borders else blank) + cell for i, cell in enumerate(cells))
        drawn.append(line + ("│" if framed else blank))
    rules = ["├" + "-" * (len(drawn[0]) - 2) + "┤"] if framed else []
    title = "[67108864 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)] [#Ranks:1]"
    # The last line has the aggregate in its last two cells.
    last = separator.join([*[""] * (len(head) - 2), " CPU Timed: ", " 1937.92 ", ""])
    return "\n".join(
        ["TransferBench v1.66.02", title, *rules, drawn[0], *rules, *drawn[1:], last, *rules, ""]
    )


def cut(text: str, row: str) -> str:
    """The output up to the line before a row."""
    lines = text.splitlines()
    at = next(i for i, (_, line) in enumerate(pairwise(["", *lines])) if line.startswith(row))
    return "\n".join(lines[:at])
