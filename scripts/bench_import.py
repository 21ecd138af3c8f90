"""Import: table rows per second end to end, and a log that is nearly all NCCL INFO."""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
from pathlib import Path

from machine import machine, timed

HEADER = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
rccl-tests: Version develop:448c4c7
# Using devices
"""
TABLE = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
N_RANKS = 8


def row(nbytes: int, time_us: float) -> str:
    """One line as rccl-tests prints it."""
    half = f"{time_us:8.2f} {nbytes / time_us / 1000:7.2f} {nbytes / time_us / 571.43:7.2f}      0"
    return f"{nbytes:12d} {nbytes // 4:13d}     float     sum      -1 {half} {half}\n"


def devices() -> str:
    """The rank lines."""
    return "".join(
        f"#   Rank {rank:2d} Pid {1000 + rank} on node1 device {rank:2d} [0000:{rank:02x}:00.0] "
        "AMD Instinct MI300X\n"
        for rank in range(N_RANKS)
    )


def write_tables(path: Path, n_rows: int) -> None:
    """Many cycles of one sweep over 4096 sizes."""
    generator = random.Random(1)
    sizes = [1024 * (i + 1) for i in range(4096)]
    with path.open("w") as stream:
        stream.write(HEADER + devices() + TABLE)
        for number in range(n_rows):
            nbytes = sizes[number % len(sizes)]
            stream.write(row(nbytes, 20 + nbytes / 9e4 + generator.random()))
        stream.write("# Out of bounds values : 0 OK\n")


def write_noise(path: Path, n_rows: int, n_bytes: int) -> None:
    """Rows far apart in NCCL INFO lines."""
    noise = "".join(
        f"node1:{1000 + i % 8}:{2000 + i} [{i % 8}] NCCL INFO Channel {i % 64:02d}/0 : "
        f"{i % 8}[{i % 8}] -> {(i + 1) % 8}[{(i + 1) % 8}] via P2P/IPC/read comm 0x55d0c0de rank\n"
        for i in range(1000)
    )
    between = max(1, n_bytes // n_rows)
    with path.open("w") as stream:
        stream.write(HEADER + devices() + TABLE)
        for number in range(n_rows):
            written = 0
            while written < between:
                stream.write(noise[: between - written].rpartition("\n")[0] + "\n")
                written += min(len(noise), between - written)
            nbytes = 1024 * (number + 1)
            stream.write(row(nbytes, 20 + nbytes / 9e4))


def run_import(log: Path, folder: Path) -> tuple[float, float]:
    """Seconds and peak MB of one import in a process of its own."""
    command = ["import", str(log), "-o", str(folder), "--collective", "all_reduce", "--baseline"]
    return timed(command, log.parent)


def main() -> None:
    """Both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--noise-mb", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder / "rows.log", options.rows)
        empty = folder / "few.log"
        write_tables(empty, 10)
        runs = [
            (
                run_import(empty, folder / f"e{i}")[0],
                run_import(folder / "rows.log", folder / f"r{i}")[0],
            )
            for i in range(options.repeats)
        ]
        start_up = statistics.median(small for small, _ in runs)
        whole = statistics.median(large for _, large in runs)
        write_noise(folder / "noise.log", 10_000, options.noise_mb << 20)
        seconds, megabytes = run_import(folder / "noise.log", folder / "n")
    result = {
        "rows": options.rows,
        "seconds": whole,
        "start_up_s": start_up,
        "rows_per_s": options.rows / whole,
        "rows_per_s_without_start_up": options.rows / (whole - start_up),
        "noise_mb": options.noise_mb,
        "noise_s": seconds,
        "noise_peak_mb": megabytes,
    }
    if options.json:
        print(json.dumps(result))
        return
    print(machine())
    print(
        f"  {options.rows} table rows: {whole:.2f} s whole process, {result['rows_per_s']:.0f} "
        f"rows/s; {result['rows_per_s_without_start_up']:.0f} rows/s without {start_up:.2f} s "
        f"of start-up (median of {options.repeats}; 100000 wanted)"
    )
    print(
        f"  {options.noise_mb} MB of NCCL INFO with 10000 rows: {seconds:.1f} s, "
        f"{megabytes:.0f} MB at most (60 s and 200 MB wanted)"
    )
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft not in (resource.RLIM_INFINITY, -1):
        print(f"  (address space limited to {soft >> 20} MB)")


if __name__ == "__main__":
    main()
