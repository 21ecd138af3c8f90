"""Draw what RCCL's own choice loses on AMD's CPX table: docs/pictures/own-choice.png.

    python scripts/draw_own_choice.py [FILE]

Derived: RCCL 2.27.7's choice on a topology that we made up, and AMD's published time for it. No
library and no GPU is needed; both tables are in examples/mi300x-cpx-nps4.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from rccltune.model.units import format_size

ROOT: Final = Path(__file__).resolve().parents[1]
TABLES: Final = ROOT / "examples" / "mi300x-cpx-nps4"
PICTURE: Final = ROOT / "docs" / "pictures" / "own-choice.png"
# What a rule may choose, and what it may with RCCL_LL128_FORCE_ENABLE=1.
OFFERED: Final = ("tree/ll", "ring/ll", "ring/simple")
FORCED: Final = (*OFFERED, "tree/ll128", "ring/ll128")


def rows(name: str) -> Iterator[dict[str, str]]:
    """Of a table, without its comments."""
    lines = (TABLES / name).read_text(encoding="utf-8").splitlines()
    return csv.DictReader(line for line in lines if not line.startswith("#"))


def times() -> dict[str, dict[int, float]]:
    """AMD's times in us, by setting and size in bytes."""
    found: dict[str, dict[int, float]] = {}
    for row in rows("all_reduce.csv"):
        found.setdefault(row["setting"], {})[int(row["nbytes"])] = float(row["time_us"])
    return found


def own_choices() -> dict[int, str]:
    """What RCCL takes by itself on the same ranks, by size in bytes."""
    return {
        int(row["nbytes"]): f"{row['algorithm']}/{row['protocol']}"
        for row in rows("rccl-2.27.7-choices.csv")
        if (row["collective"], row["nodes"], row["ranks"]) == ("all_reduce", "1", "64")
    }


def gains(settings: tuple[str, ...]) -> dict[int, float]:
    """How many times as fast the fastest of some settings is as RCCL's own choice, by size."""
    measured, chosen = times(), own_choices()
    return {
        n: measured[chosen[n]][n] / min(measured[one][n] for one in settings)
        for n in sorted(measured["ring/ll"])
    }


def beside(gain: float, before: float, after: float) -> dict[str, Any]:
    """Where a label stands on no line: over peaks, under valleys, on the outer side of a slope."""
    if gain >= max(before, after) and gain > 1:
        return {"xytext": (0, 6), "ha": "center", "va": "bottom"}
    if gain <= min(before, after):
        return {"xytext": (0, -6), "ha": "center", "va": "top"}
    falls = after < gain
    return {"xytext": (4 if falls else -4, 3), "ha": "left" if falls else "right", "va": "bottom"}


def main() -> None:
    """Two lines by size; the one that LL128 takes part in has numbers."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    forced, offered = gains(FORCED), gains(OFFERED)
    sizes, values = list(forced), list(forced.values())
    axes.plot(sizes, values, "o-", color="#0072b2", label="fastest setting, with LL128 forced on")
    label = "fastest setting offered by default"
    axes.plot(sizes, list(offered.values()), "o-", color="#e69f00", label=label)
    for at, (nbytes, gain) in enumerate(forced.items()):
        around = values[max(at - 1, 0)], values[min(at + 1, len(values) - 1)]
        text = {"textcoords": "offset points", "fontsize": 9, **beside(gain, *around)}
        axes.annotate(f"{gain:.2f}×", (nbytes, gain), **text)
    axes.axhline(1, color="0.4", linewidth=1)
    axes.set_ylim(0.9, 1.85)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [format_size(n).replace(" ", "\n") for n in sizes], fontsize=7)
    axes.minorticks_off()
    axes.grid(visible=True, color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylabel("speed-up over RCCL's own choice", fontsize=9)
    title = "all_reduce, 64 ranks of MI300X in CPX/NPS4: derived from AMD's published times"
    axes.set_title(title, fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    figure.tight_layout()
    path = Path(sys.argv[1]) if sys.argv[1:] else PICTURE
    figure.savefig(path, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main()
