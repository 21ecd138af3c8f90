"""Times a collective through PyTorch and prints rccl-tests' table. It needs torch and nothing else.

    torchrun --nproc_per_node=8 torch_all_reduce.py > table.txt
    torchrun --nproc_per_node=8 torch_all_reduce.py --collective all_gather -b 1K -e 64M
    torchrun --nproc_per_node=2 torch_all_reduce.py --backend gloo -e 1M     # without a GPU
    rccltune import table.txt --baseline -o through-torch

Times are a job's own: the library inside its PyTorch, with PyTorch's checks and streams. Backends:
nccl (RCCL in a ROCm build), gloo, and where torchcomms is installed rcclx or torchcomms:NAME.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence

try:
    import torch
    import torch.distributed as dist
except ImportError:  # what prints is tested without it
    torch = dist = None

TYPES = {"float": ("float32", 4), "half": ("float16", 2), "bfloat16": ("bfloat16", 2)}
SHARED = ("all_gather", "reduce_scatter")  # each rank has a share of the message
COLLECTIVES = ("all_reduce", *SHARED, "broadcast", "reduce")


def size(text: str) -> int:
    """Bytes of 64, 4K, 1M or 1G."""
    return int(text.rstrip("KMG")) * (1 << 10 * max(0, "BKMG".find(text[-1])))


def head(asked: argparse.Namespace, said: Sequence[str], seats: Sequence[str]) -> str:
    """What stands above the rows; each rank says where it sits."""
    ranks = "".join(f"#  Rank {n:2d} Group  0 {seat}\n" for n, seat in enumerate(seats))
    title = "out-of-place" if asked.collective in SHARED else "in-place"
    return (
        "".join(f"# {line}\n" for line in said)
        + f"# Collective test starting: {asked.collective}_perf\n"
        f"# nThread 1 nGpus 1 minBytes {asked.minbytes} maxBytes {asked.maxbytes} "
        f"step: {asked.stepfactor}(factor) warmup iters: {asked.warmup} iters: {asked.iters} "
        f"agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n{ranks}#\n# {'':61}{title}\n"
        f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
        f"  {'time':>7}  {'algbw':>6}  {'busbw':>6}  #wrong\n"
        f"# {'(B)':>10}  {'(elements)':>12}{'(us)':>35}  (GB/s)  (GB/s)"
    )


def row(asked: argparse.Namespace, count: int, n_ranks: int, us: float, n_wrong: int) -> str:
    """One size; the bus factors are those of rccl-tests' doc/PERFORMANCE.md."""
    name, share = asked.collective, (n_ranks - 1) / n_ranks
    nbytes = count * TYPES[asked.datatype][1] * (n_ranks if name in SHARED else 1)
    redop = "none" if name in ("all_gather", "broadcast") else "sum"
    root = 0 if name in ("broadcast", "reduce") else -1
    gbps = nbytes / us / 1e3
    bus = gbps * {"all_reduce": 2 * share, "broadcast": 1, "reduce": 1}.get(name, share)
    text = f"{nbytes:12d}  {count:12d}  {asked.datatype:>8}  {redop:>6}  {root:6d}"
    return f"{text}  {us:7.2f}  {gbps:6.2f}  {bus:6.2f}  {n_wrong:6d}"


def call_of(asked: argparse.Namespace, device: "torch.device") -> tuple[Callable, Callable]:
    """What makes the collective, of what to receive into and what to send; and what ends it."""
    if asked.backend in ("nccl", "gloo"):
        at, more, add = dist, {"group": dist.new_group(backend=asked.backend)}, dist.ReduceOp.SUM
        gather, scatter, end = at.all_gather_into_tensor, at.reduce_scatter_tensor, lambda: None
    else:
        import torchcomms

        name = asked.backend.removeprefix("torchcomms:")
        at, more = torchcomms.new_comm(name, device, name="measured"), {"async_op": False}
        gather, scatter, end = at.all_gather_single, at.reduce_scatter_single, at.finalize
        add = torchcomms.ReduceOp.SUM
    calls = {
        "all_reduce": lambda into, _: at.all_reduce(into, add, **more),
        "all_gather": lambda into, own: gather(into, own, **more),
        "reduce_scatter": lambda into, own: scatter(into, own, add, **more),
        "broadcast": lambda into, _: at.broadcast(into, 0, **more),
        "reduce": lambda into, _: at.reduce(into, 0, add, **more),
    }
    return calls[asked.collective], end


def timed(asked: argparse.Namespace, device: "torch.device", count: int, call: Callable) -> list:
    """Microseconds of a call, by the host's clock over many, and wrong elements of the first."""
    name, rank, n_ranks = asked.collective, dist.get_rank(), dist.get_world_size()
    sent = [1 + one % 2 for one in range(n_ranks)]  # small, so that every type has their sum
    own = torch.full((count * (n_ranks if name == "reduce_scatter" else 1),), sent[rank])
    own = own.to(device, getattr(torch, TYPES[asked.datatype][0]))
    into = own.new_zeros(count * (n_ranks if name == "all_gather" else 1))
    into = into if name in SHARED else own
    call(into, own)
    wanted = sent[0] if name == "broadcast" else sum(sent)
    wanted = into.new_tensor(sent).repeat_interleave(count) if name == "all_gather" else wanted
    wrong = 0 if name == "reduce" and rank else int((into != wanted).sum())  # the root's alone
    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    for n_calls in (asked.warmup, asked.iters):
        wait()
        dist.barrier()
        began = time.perf_counter()
        for _ in range(n_calls):
            call(into, own)
        wait()
    return [(time.perf_counter() - began) * 1e6 / asked.iters, wrong]


def main() -> None:
    """Time every size; rank 0 prints."""
    parser = argparse.ArgumentParser(description="Times a collective through PyTorch.")
    parser.add_argument("--collective", choices=COLLECTIVES, default="all_reduce")
    parser.add_argument("--backend", default="nccl", help="or gloo, rcclx, torchcomms:NAME")
    parser.add_argument("-b", "--minbytes", type=size, default=8)
    parser.add_argument("-e", "--maxbytes", type=size, default=size("256M"))
    parser.add_argument("-f", "--stepfactor", type=int, default=2)
    parser.add_argument("-n", "--iters", type=int, default=20)
    parser.add_argument("-w", "--warmup", type=int, default=5)
    parser.add_argument("-d", "--datatype", choices=TYPES, default="float")
    asked = parser.parse_args()
    dist.init_process_group("gloo")  # for what ranks say beside what is measured
    n_ranks, device, product = dist.get_world_size(), torch.device("cpu"), "CPU"
    if asked.backend != "gloo":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
        product = torch.cuda.get_device_name(device)
    place = f"{os.uname().nodename.split('.')[0]:>10} device {device.index or 0:2d}"
    mine = f"Pid {os.getpid():6d} on {place} [{device.type}] {product}".encode().ljust(256)[:256]
    every = [torch.empty(256, dtype=torch.uint8) for _ in range(n_ranks)]
    dist.all_gather(every, torch.tensor(list(mine), dtype=torch.uint8))  # objects need numpy
    seats = [bytes(one.tolist()).decode("utf-8", "replace").rstrip() for one in every]
    say = print if dist.get_rank() == 0 else lambda _: None
    call, end = call_of(asked, device)
    said = [f"torch_all_reduce.py: PyTorch {torch.__version__}, backend {asked.backend}"]
    if asked.backend == "nccl":
        version = ".".join(map(str, torch.cuda.nccl.version()))
        said.append(f"{'RCCL' if torch.version.hip else 'NCCL'} version : {version}")
    say(head(asked, said, seats))
    nbytes = asked.minbytes
    while nbytes <= asked.maxbytes:
        # The count of a row is that of a rank's share, in whole 16 bytes, or of the message.
        own = nbytes // n_ranks // 16 * 16 if asked.collective in SHARED else nbytes
        if count := own // TYPES[asked.datatype][1]:
            both = torch.tensor(timed(asked, device, count, call), dtype=torch.float64)
            dist.all_reduce(both)
            say(row(asked, count, n_ranks, float(both[0]) / n_ranks, int(both[1])))
        nbytes *= asked.stepfactor
    end()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
