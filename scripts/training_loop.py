"""A small training job: a data-parallel model in bfloat16 with its gradients in buckets.

    torchrun --standalone --nproc_per_node=2 scripts/training_loop.py --steps 50

Prints the median time of a step on rank 0. Its collectives are those of such jobs: all-reduce of
gradient buckets, a broadcast of weights at the start, and an all-gather of the loss. Communicators
are left to the end of the process, as most jobs do.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import time
from typing import Any


def main() -> None:
    """Train on noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--bucket-mb", type=float, default=4.0)
    options = parser.parse_args()
    torch: Any = importlib.import_module("torch")
    parallel: Any = importlib.import_module("torch.nn.parallel")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    layers = [
        part
        for _ in range(options.layers)
        for part in (torch.nn.Linear(options.width, options.width), torch.nn.ReLU())
    ]
    model = torch.nn.Sequential(*layers).cuda().bfloat16()
    model = parallel.DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = torch.randn(64, options.width, device="cuda", dtype=torch.bfloat16)
    taken = [step(torch, model, optimizer, data) for _ in range(options.steps)]
    if torch.distributed.get_rank() == 0:
        half = taken[len(taken) // 2 :]
        print(f"ms per step, median of {len(half)}: {statistics.median(half):.3f}")


def step(torch: Any, model: Any, optimizer: Any, data: Any) -> float:  # noqa: ANN401 - torch is not here
    """One step, in ms."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    loss = model(data).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses = [torch.zeros_like(loss) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(losses, loss.detach())
    torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
