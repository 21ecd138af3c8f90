"""What RCCL's own choice loses on AMD's CPX table, and which term of its model misleads it.

scripts/bench model [--links [--live]] [--gain FILE] [--figure FILE]      no library and no GPU: the costs that the
                real RCCL 2.27.7 handed to a tuner (tests/simulate/recorded), beside AMD's published times;
                its choice on other links, of the imitation, with --live of the real library (3 min)
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from real_runs import LINK_GBS, PLACES, WITHOUT, library_or_exit, run

from rccltune.machine import RealCall
from rccltune.model import format_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = ROOT / "examples/mi300x-cpx-nps4/all_reduce.csv"
COSTS: Final = ROOT / "tests/simulate/recorded/rccl-2.27.7-costs.csv"
# all_reduce of 64 ranks in CPX as RCCL's log has it (latency in us, bandwidth in GB/s), on the topology
# of docs/real-library.md; LL128 and Tree with Simple are closed there.
PRINTED: Final = {"tree/ll": (112.8, 30.7), "ring/ll": (112.8, 31.2), "ring/simple": (470.6, 780.2)}
# By log2(bytes / 64): what RCCL multiplies ring/ll's bandwidth with on several nodes, tuning model 0
# (2.27.7 src/graph/tuning.cc, ringCorrectionFactor).
RING_LL: Final = (
    *(0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.4, 0.2, 0.3, 0.5, 0.3, 0.1, 0.5, 0.5, 0.3, 0.2, 0.2),
    *[0.1] * 10,
)
# Where a line of COSTS has them: place, collective (4: all_reduce), bytes, ….
_CELLS: Final = {"tree/ll": 8, "ring/ll": 11, "ring/simple": 13}
# What a tuner may choose besides with RCCL_LL128_FORCE_ENABLE=1.
_FORCED: Final = ("tree/ll128", "ring/ll128")
# What else the real library is asked under: other boards (native_plugin/hip/topology.c), and channels
# for point to point.
_BOARDS: Final[Mapping[str, Mapping[str, str]]] = {
    "as it is": {},
    "links of double the bandwidth": {"RCCLTUNE_HIP_LINKS": "double"},
    "sparse links": {"RCCLTUNE_HIP_LINKS": "sparse"},
    **{
        f"{n} channels for point to point": {
            "NCCL_MIN_P2P_NCHANNELS": n,
            "NCCL_MAX_P2P_NCHANNELS": n,
        }
        for n in ("8", "64")
    },
}
Times = Mapping[str, Mapping[int, float]]
Terms = frozenset[tuple[str, int]]
LATENCY, BANDWIDTH = 0, 1


def main() -> int:
    """Print the tables, draw the figures that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gain", type=Path, metavar="FILE", help="speed-up over RCCL's own choice")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="its model beside AMD's times")
    parser.add_argument("--links", action="store_true", help="on links of half and double, too")
    parser.add_argument("--live", action="store_true", help="ask the real library as well")
    said = parser.parse_args()
    times, costs = measured(), predicted()
    _print_costs(times, costs)
    _print_lines(times)
    _print_mended(times, costs)
    if said.links:
        _print_links(times, library_or_exit() if said.live else None)
    if said.gain is not None:
        _draw(said.gain, 1, lambda axes: _gain(axes[0], times, costs))
    if said.figure is not None:
        _draw(said.figure, len(PRINTED), lambda axes: _models(axes, times, costs))
    return 0


def measured() -> Times:
    """AMD's times in us, by setting and size in bytes."""
    found: dict[str, dict[int, float]] = {}
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")]
    for row in csv.DictReader(lines):
        found.setdefault(row["setting"], {})[int(row["nbytes"])] = float(row["time_us"])
    return found


def predicted() -> Times:
    """RCCL's own costs in us, as it handed them to a tuner, by setting and size in bytes."""
    found: dict[str, dict[int, float]] = {setting: {} for setting in PRINTED}
    for line in COSTS.read_text("utf-8").splitlines():
        cells = line.split(",")
        if cells[:2] == ["cpx-64", "4"]:
            for setting, at in _CELLS.items():
                found[setting][int(cells[2])] = float(cells[at])
    return found


def chosen(costs: Times, nbytes: int) -> str:
    """The setting that the costs lead to."""
    return min(PRINTED, key=lambda setting: costs[setting][nbytes])


def loss(times: Times, setting: str, nbytes: int) -> float:
    """Time over that of the fastest of the three that RCCL offers, minus one."""
    return times[setting][nbytes] / min(times[one][nbytes] for one in PRINTED) - 1


def line(times: Mapping[int, float]) -> tuple[float, float]:
    """Latency in us and bandwidth in GB/s that fit best in relative error.

    Args:
        times: us by bytes, two or more sizes.
    """
    # Weighted least squares of t = a + b n with weights 1/t^2, in closed form.
    points = [(float(n), t, 1 / (t * t)) for n, t in times.items()]
    total = sum(w for _, _, w in points)
    mean_n = sum(w * n for n, _, w in points) / total
    mean_t = sum(w * t for _, t, w in points) / total
    slope = sum(w * (n - mean_n) * (t - mean_t) for n, t, w in points) / sum(
        w * (n - mean_n) ** 2 for n, _, w in points
    )
    return mean_t - slope * mean_n, 1 / (1000 * slope)


def mended(costs: Times, times: Times, terms: Terms) -> Times:
    """RCCL's costs with some latencies and bandwidths taken from a line through measured times.

    The correction by size that the library multiplies a tree's bandwidth with stays as it is.
    """
    found: dict[str, dict[int, float]] = {}
    for setting, own in costs.items():
        latency, bandwidth = PRINTED[setting]
        better = line(times[setting])
        plus = better[LATENCY] - latency if (setting, LATENCY) in terms else 0.0
        slower = bandwidth / better[BANDWIDTH] if (setting, BANDWIDTH) in terms else 1.0
        found[setting] = {n: latency + plus + slower * (cost - latency) for n, cost in own.items()}
    return found


def with_ring_correction(costs: Times) -> Times:
    """RCCL's costs if ring/ll were corrected by size on one node too, as on several and as a tree is."""
    latency = PRINTED["ring/ll"][LATENCY]
    corrected = {
        n: latency + (cost - latency) / RING_LL[max(0, (n // 64).bit_length() - 1)]
        for n, cost in costs["ring/ll"].items()
    }
    return {**costs, "ring/ll": corrected}


def losses(times: Times, costs: Times, terms: Terms, *, left_out: bool) -> list[float]:
    """What is lost at each size, by constants fitted to all sizes, or to all but that one."""
    found = []
    for nbytes in times["ring/ll"]:
        kept = {
            setting: {n: t for n, t in own.items() if n != nbytes or not left_out}
            for setting, own in times.items()
        }
        found.append(loss(times, chosen(mended(costs, kept, terms), nbytes), nbytes))
    return found


def _print_costs(times: Times, costs: Times) -> None:
    heads = " | ".join(f"{setting}: RCCL, AMD" for setting in PRINTED)
    print(
        f"| size | {heads} | it takes | fastest of these | loses |\n|--:|--:|--:|--:|---|---|--:|"
    )
    for nbytes in times["ring/ll"]:
        cells = [f"{costs[one][nbytes]:.1f}, {times[one][nbytes]:.0f}" for one in PRINTED]
        taken, best = chosen(costs, nbytes), chosen(times, nbytes)
        told = f"{taken} | {best} | {loss(times, taken, nbytes):.0%}"
        print(f"| {format_size(nbytes)} | {' | '.join(cells)} | {told} |")


def _print_lines(times: Times) -> None:
    print("\n| | RCCL's model: us, GB/s | AMD's times as a line: us, GB/s |\n|---|--:|--:|")
    for setting, (latency, bandwidth) in PRINTED.items():
        own = line(times[setting])
        print(f"| {setting} | {latency}, {bandwidth} | {own[0]:.0f}, {own[1]:.1f} |")


def _print_mended(times: Times, costs: Times) -> None:
    tree, ring, simple = PRINTED
    print("\n| taken from AMD's times | loses: mean, most | at sizes left out |\n|---|--:|--:|")
    for words, terms in (
        ("nothing", ()),
        ("tree/ll's latency", ((tree, LATENCY),)),
        ("ring/simple's latency", ((simple, LATENCY),)),
        ("ring/ll's bandwidth", ((ring, BANDWIDTH),)),
        ("latencies of tree/ll and ring/simple", ((tree, LATENCY), (simple, LATENCY))),
        ("tree/ll's latency, ring/ll's bandwidth", ((tree, LATENCY), (ring, BANDWIDTH))),
        ("all six", tuple((setting, term) for setting in PRINTED for term in (0, 1))),
    ):
        _print_losses(words, times, costs, frozenset(terms))
    corrected = with_ring_correction(costs)
    words = "nothing; ring/ll corrected by size as on several nodes"
    _print_losses(words, times, corrected, frozenset())
    _print_losses(f"tree/ll's latency; {words[9:]}", times, corrected, frozenset({(tree, LATENCY)}))


def _print_losses(words: str, times: Times, costs: Times, terms: Terms) -> None:
    both = [losses(times, costs, terms, left_out=out) for out in (False, True)]
    cells = [f"{sum(own) / len(own):.0%}, {max(own):.0%}" for own in both]
    print(f"| {words} | {' | '.join(cells)} |")


def _print_links(times: Times, library: Path | None) -> None:
    """RCCL's choice by size, and what it loses, on links of other bandwidths and layouts."""
    place = PLACES["cpx-64"]
    options = ("-b", "8", "-e", "128M", "-f", "2", "-n", "1", "-w", "0", "-c", "0")
    best = {n: min(times[one][n] for one in (*PRINTED, *_FORCED)) for n in times["ring/ll"]}
    print("\n| asked | links | RCCL takes: by size | its time over the best |\n|---|---|---|---|")

    def row(asked: str, words: str, calls: Sequence[RealCall]) -> None:
        taken = {call.nbytes: call.setting for call in calls if call.rank == 0}
        lost = [f"{times[taken[n]][n] / best[n]:.2f}" for n in best]
        cells = (asked, words, ", ".join(taken[n] for n in best), ", ".join(lost))
        print(f"| {' | '.join(cells)} |", flush=True)

    for gbs in (LINK_GBS / 2, LINK_GBS, LINK_GBS * 2):
        calls = run(None, place, "all_reduce", options, WITHOUT, link_gbs=gbs)
        row("imitation", f"{gbs:.0f} GB/s", calls)
    for words, variables in _BOARDS.items() if library is not None else ():
        calls = run(library, place, "all_reduce", options, variables)
        row("real", words, calls)


def _draw(path: Path, n: int, fill: Callable[[Sequence[Axes]], None]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, n, figsize=(7.2, 3.6), squeeze=False, sharey=True)
    fill(list(axes[0]))
    figure.tight_layout()
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)


def _scale(axes: Axes, sizes: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [format_size(n).replace(" ", "\n") for n in sizes], fontsize=7)
    axes.minorticks_off()
    axes.grid(visible=True, color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def _beside(gain: float, before: float, after: float) -> dict[str, Any]:
    """Where a label stands on no line: over peaks, under valleys, on the outer side of a slope."""
    if gain >= max(before, after) and gain > 1:
        return {"xytext": (0, 6), "ha": "center", "va": "bottom"}
    if gain <= min(before, after):
        return {"xytext": (0, -6), "ha": "center", "va": "top"}
    falls = after < gain
    return {"xytext": (4 if falls else -4, 3), "ha": "left" if falls else "right", "va": "bottom"}


def _gain(axes: Axes, times: Times, costs: Times) -> None:
    """Speed-up of the fastest setting over that which RCCL takes, by size."""
    sizes = list(times["ring/ll"])
    for words, settings, colour in (
        ("fastest setting, with LL128 forced on", (*PRINTED, *_FORCED), "#0072b2"),
        ("fastest setting offered by default", tuple(PRINTED), "#e69f00"),
    ):
        gains = [
            times[chosen(costs, n)][n] / min(times[setting][n] for setting in settings)
            for n in sizes
        ]
        axes.plot(sizes, gains, "o-", color=colour, label=words)
        if colour == "#0072b2":
            for nbytes, gain, before, after in zip(
                sizes, gains, [*gains[:1], *gains], [*gains[1:], gains[-1]], strict=False
            ):
                axes.annotate(
                    f"{gain:.2f}×",
                    (nbytes, gain),
                    textcoords="offset points",
                    fontsize=9,
                    **_beside(gain, before, after),
                )
    axes.axhline(1, color="0.4", linewidth=1)
    axes.set_ylim(0.9, 1.85)
    axes.set_ylabel("speed-up over RCCL's own choice", fontsize=9)
    axes.set_title(
        "all_reduce, 64 ranks of MI300X in CPX/NPS4: derived from AMD's published times", fontsize=9
    )
    axes.legend(frameon=False, fontsize=8, loc="upper left")
    _scale(axes, sizes)


def _models(axes: Sequence[Axes], times: Times, costs: Times) -> None:
    """A panel for each setting: RCCL's cost as a line, AMD's times as points."""
    sizes = list(times["ring/ll"])
    for one, setting in zip(axes, PRINTED, strict=True):
        most = max(n for n in sizes if n < 1 << 27)
        model: list[tuple[float, float]] = [
            (n, cost) for n, cost in sorted(costs[setting].items()) if sizes[0] <= n <= most
        ]
        one.plot(*zip(*model, strict=True), color="#d55e00", label="RCCL's model")
        own = [(n, times[setting][n]) for n in sizes if n <= most]
        one.plot(*zip(*own, strict=True), "o", color="#0072b2", label="AMD measured")
        taken = [(n, time) for n, time in own if chosen(costs, n) == setting]
        one.plot(
            [n for n, _ in taken],
            [time for _, time in taken],
            "o",
            color="none",
            markeredgecolor="black",
            markersize=11,
            label="RCCL takes it",
        )
        one.set_yscale("log")
        one.set_yticks([50, 100, 200, 400, 800], ["50", "100", "200", "400", "800"])
        one.set_title(setting, fontsize=10)
        _scale(one, [n for n in sizes if n <= most])
    axes[0].set_ylabel("time of all_reduce, µs")
    axes[0].legend(frameon=False, fontsize=8, loc="upper left")


if __name__ == "__main__":
    sys.exit(main())
