"""What channel counts gain: as the library has them, and where it is made to have more.

Two sweeps of one collective: each setting with its channels left to the library and with given
counts, first on the site as it is, then with NCCL_MIN_NCHANNELS raised in every arm, the untouched
one too. The table has, for each size, the library's own time and what the best setting of either
sweep gains over it. A best of many is partly luck, so a gain is that of repeats which had no part in
the choice. What follows -- goes to both sweeps; variables of the caller reach every rank.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from bench_sweep import options_of, samples_of
from machine import machine, timed

from rccltune.model import format_size

PAIRS = ("ring/ll", "ring/ll128", "ring/simple", "tree/ll", "tree/ll128", "tree/simple")
COUNTS = (4, 8, 16, 24, 32)
SIZES = ("--min-bytes", "1K", "--max-bytes", "256M")
# Where latency no longer rules and bandwidth not yet: what channels are looked for.
MIDDLE = (256 << 10, 16 << 20)
SIMULATED = ("--mode", "cpx-nps4", "--simulate", "mi300x")
# NVLink multicast stays off on shared NVIDIA machines; these keep it off in all that is started.
SAFETY = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
Times = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best setting of one sweep at one size.

    Attributes:
        time_us: median of all its repeats.
        gain: library's time / this one's - 1, from repeats that did not choose it.
    """

    setting: str
    time_us: float
    gain: float

    @property
    def channels(self) -> str:
        """Their number, or whose they are."""
        parts = self.setting.split("/")
        return parts[2] if len(parts) == 3 else "library's"

    @property
    def pair(self) -> str:
        """Algorithm and protocol."""
        return "/".join(self.setting.split("/")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One size.

    Attributes:
        own_us: the untouched library.
        raised_gain: of the untouched library with more channels over itself.
    """

    nbytes: int
    own_us: float
    raised_gain: float
    plain: Best
    raised: Best

    @property
    def more(self) -> float:
        """What raising gains where the best setting is taken with and without it."""
        return (1 + self.raised.gain) / (1 + self.plain.gain) - 1


def times_of(samples: pd.DataFrame) -> dict[int, dict[str, list[float]]]:
    """Out-of-place µs that may be used, in the order of measuring, by size and setting."""
    used = samples[(samples["doubt"] == "") & (samples["placement"] == "out")]
    found: dict[int, dict[str, list[float]]] = {}
    for nbytes, setting, time_us in zip(
        used["nbytes"], used["setting"], used["time_us"], strict=True
    ):
        found.setdefault(int(nbytes), {}).setdefault(str(setting), []).append(float(time_us))
    return found


def best_of(times: Times, own_us: float) -> Best:
    """The best forced setting; each repeat judges the choice of the others.

    Args:
        times: µs of every setting at one size.
        own_us: of the untouched library of the site as it is.
    """
    forced = {name: us for name, us in times.items() if name not in ("baseline", "silent")}
    n_folds = max(map(len, forced.values()))
    held = [us for fold in range(n_folds) for us in _held_out(forced, fold, n_folds)]
    name = _fastest(forced)
    time_us = statistics.median(forced[name])
    return Best(
        setting=name,
        time_us=time_us,
        gain=own_us / (statistics.median(held) if held else time_us) - 1,
    )


def _held_out(times: Times, fold: int, n_folds: int) -> list[float]:
    """The fold's times of the setting that the other folds choose."""
    others = {
        name: [us for number, us in enumerate(found) if number % n_folds != fold]
        for name, found in times.items()
    }
    known = {name: found for name, found in others.items() if found}
    return list(times[_fastest(known)][fold::n_folds]) if known else []


def _fastest(times: Times) -> str:
    """By the lower median: of two repeats that differ a lot, one was disturbed."""
    return min(times, key=lambda name: statistics.median_low(times[name]))


def rows_of(plain: pd.DataFrame, raised: pd.DataFrame) -> list[Row]:
    """Sizes at which both sweeps have the library's own time, silence and a setting."""
    one, other = times_of(plain), times_of(raised)
    made = []
    for nbytes in sorted(set(one) & set(other)):
        if not all("baseline" in of[nbytes] and len(of[nbytes]) > 2 for of in (one, other)):
            continue
        own_us = statistics.median(one[nbytes]["baseline"])
        made.append(
            Row(
                nbytes=nbytes,
                own_us=own_us,
                raised_gain=own_us / statistics.median(other[nbytes]["baseline"]) - 1,
                plain=best_of(one[nbytes], own_us),
                raised=best_of(other[nbytes], own_us),
            )
        )
    return made


def swept(folder: Path, name: str, options: argparse.Namespace, more: Sequence[str]) -> Path:
    """One sweep, into a session of this name."""
    session = folder / name
    settings = [
        word
        for pair in options.pairs
        for setting in (pair, *(f"{pair}/{count}" for count in options.counts))
        for word in ("--setting", setting)
    ]
    arguments = [
        *(
            "sweep",
            "--runner",
            "rccl-tests",
            "--collective",
            options.collective,
            "--placement",
            "out",
            *SIZES,
        ),
        *(SIMULATED if options.simulate else ()),
        *(*settings, "--repeats", str(options.repeats), "--seed", str(options.seed)),
        *(("--method", "one-launch") if options.search else options_of("one-launch")),
        *(*options.rest, *more, "-o", str(session)),
    ]
    timed(arguments, folder)
    return session


def show(rows: Sequence[Row], options: argparse.Namespace) -> None:
    """A table for documents."""
    name = f"NCCL_MIN_NCHANNELS={options.min_channels}"
    print(f"| size | library, µs | with {name} | best setting | channels | gain |", end="")
    print(f" best with {name} | channels | gain |")
    print("|--:|--:|--:|---|--:|--:|---|--:|--:|")
    for row in rows:
        cells = [
            *(format_size(row.nbytes), f"{row.own_us:.1f}", _percent(row.raised_gain)),
            *(row.plain.pair, row.plain.channels, _percent(row.plain.gain)),
            *(row.raised.pair, row.raised.channels, _percent(row.raised.gain)),
        ]
        print(f"| {' | '.join(cells)} |")
    middle = [row for row in rows if MIDDLE[0] <= row.nbytes <= MIDDLE[1]]
    if middle:
        most = max(middle, key=lambda row: row.more)
        low, high = (format_size(nbytes) for nbytes in MIDDLE)
        print(
            f"\n{name} gains {_percent(statistics.median(row.more for row in middle))} on top of the "
            f"best setting without it in the median from {low} to {high}, {_percent(most.more)} at "
            f"{format_size(most.nbytes)} ({most.raised.setting})."
        )
    for title, of_sweep in (("as it is", "plain"), (f"with {name}", "raised")):
        gains = [getattr(row, of_sweep).gain for row in rows]
        most = max(rows, key=lambda row: getattr(row, of_sweep).gain)
        print(
            f"\nThe site {title}: the best setting gains {_percent(statistics.median(gains))} in the "
            f"median of {len(gains)} sizes, {_percent(max(gains))} at {format_size(most.nbytes)}."
        )


def _percent(gain: float) -> str:
    return f"{100 * gain:+.1f} %"


def refuse_multicast(options: argparse.Namespace) -> None:
    """On NVIDIA machines nothing is started that could switch multicast on unasked."""
    is_nvidia = not options.simulate and Path("/dev/nvidiactl").exists()
    missing = [f"{k}={v}" for k, v in SAFETY.items() if os.environ.get(k) != v]
    if is_nvidia and missing and not options.multicast:
        sys.exit(
            f"not started: set {' '.join(missing)}, or say --multicast where NVLink multicast may "
            "be used"
        )


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulate", action="store_true", help="the shipped CPX node")
    parser.add_argument("--collective", default="all_reduce")
    parser.add_argument("--pairs", nargs="+", default=PAIRS, metavar="A/P")
    parser.add_argument("--counts", nargs="+", type=int, default=COUNTS, metavar="N")
    parser.add_argument("--min-channels", type=int, default=32, metavar="N")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", action="store_true", help="do not measure the whole grid")
    parser.add_argument("--multicast", action="store_true", help="NVLink multicast may be used")
    parser.add_argument("--out", type=Path, help="keep both sessions in this folder")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("rest", nargs="*", help="more options of the sweeps, behind --")
    return parser.parse_args()


def main() -> None:
    """Two sweeps and a table."""
    options = read_options()
    refuse_multicast(options)
    with tempfile.TemporaryDirectory() as name:
        folder = (options.out or Path(name)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        raise_it = ("--env", f"NCCL_MIN_NCHANNELS={options.min_channels}")
        plain, raised = (
            samples_of(swept(folder, arm, options, more))
            for arm, more in (("plain", ()), ("raised", raise_it))
        )
    rows = rows_of(plain, raised)
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
        return
    where = "SIMULATED" if options.simulate else gpus()
    print(f"{options.collective}, out of place, {options.repeats} repeats; {where}; {machine()}\n")
    show(rows, options)


def gpus() -> str:
    """What rccltune detect calls this machine."""
    command = [sys.executable, "-m", "rccltune", "detect", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if lines else "unknown GPUs"


if __name__ == "__main__":
    main()
