"""A tensor-parallel layer again and again: a matrix product, then an all-reduce of what it made.

    torchrun --standalone --nproc_per_node=2 scripts/tensor_parallel_loop.py --steps 100

A step is so many layers, captured into one graph where there are GPUs. Steps are marked with
rccltune.torch. ``--overhead`` says what the marks cost instead.

Graphs are gone before the process group is: NCCL waits for the graphs that hold its communicator,
and a job that destroys the group first hangs.
Nothing eager runs between replays: two streams may start collectives of one communicator in another order on each rank.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

mark: Any = importlib.import_module("rccltune.torch")
MIB = 1 << 20
BLOCK = 50


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=4096, help="of the product; 256 for gloo")
    parser.add_argument(
        "--mib",
        type=float,
        nargs="+",
        default=[1.5, 2.0, 3.0, 4.0, 6.0],
        help="all-reduced, in turn",
    )
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--overhead", action="store_true", help="of the marks, in turns")
    options = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    device = "cpu"
    if options.backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        device = "cuda"
    torch.distributed.init_process_group(options.backend)
    work = layers(torch, options, device)
    for _ in range(3):
        work()
    graph = None
    step: Callable[[], object] = work
    if device == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # The watchdog of NCCL asks for events meanwhile, which a capture of all threads forbids.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
        torch.cuda.synchronize()
        step = graph.replay
    if options.overhead:
        os.environ["RCCLTUNE_JOB_STEPS"] = os.devnull
        overhead(torch, step, device)
    else:
        for _ in range(options.steps):
            with mark.step():
                step()
        mark.finish()
    if graph is not None:
        torch.cuda.synchronize()
        graph.reset()
    torch.distributed.destroy_process_group()


def layers(torch: Any, options: argparse.Namespace, device: str) -> Callable[[], None]:  # noqa: ANN401 - torch is not here
    """All layers of a step; what is all-reduced is as large as asked for, in turn."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    element = torch.tensor([], dtype=dtype).element_size()
    width = options.width
    weight = torch.randn(width, width, device=device, dtype=dtype) / width**0.5
    inputs = [
        torch.randn(max(1, int(mib * MIB / element / width)), width, device=device, dtype=dtype)
        for mib in options.mib
    ]

    def work() -> None:
        for layer in range(options.layers):
            torch.distributed.all_reduce(inputs[layer % len(inputs)] @ weight)

    return work


def overhead(torch: Any, step: Callable[[], object], device: str) -> None:  # noqa: ANN401 - torch is not here
    """Blocks of steps with marks and without, in turns; the median of the ratios."""

    def block(*, marked: bool) -> float:
        start = time.perf_counter()
        for _ in range(BLOCK):
            if marked:
                with mark.step():
                    step()
            else:
                step()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    block(marked=True)
    pairs = [(block(marked=True), block(marked=False)) for _ in range(20)]
    ratios = [marked / plain for marked, plain in pairs]
    if torch.distributed.get_rank() == 0:
        each = 1e3 * statistics.median(plain for _, plain in pairs) / BLOCK
        print(
            f"marks cost {100 * (statistics.median(ratios) - 1):+.2f} % of a step of {each:.3f} ms "
            f"({100 * (min(ratios) - 1):+.2f} to {100 * (max(ratios) - 1):+.2f} %, "
            f"{len(ratios)} pairs)",
            flush=True,
        )


if __name__ == "__main__":
    main()
