"""How the benchmark is started from elsewhere, and what it can do; nothing here needs torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rccltune.model import TUNABLE, Collective, CommandLineError, Placement

# Option letters of rccl-tests that are understood, as its --help would list them.
LETTERS: Final = frozenset("befinwNcdorGOatgmh")
# torch.distributed has one tensor for these, which is input and output.
IN_PLACE_ONLY: Final = (Collective.ALL_REDUCE, Collective.BROADCAST, Collective.REDUCE)
# Those that every build of torch sends; rccl-tests' others have no torch type or no reduction.
DTYPES: Final = ("int8", "uint8", "int32", "int64", "half", "float", "double", "bfloat16")
REDOPS: Final = ("sum", "prod", "max", "min", "avg")
_WHOLE: Final = ("int8", "uint8", "int32", "int64")
# A file of this name in the launch's folder is where ranks that MPI started find each other.
STORE: Final = "{launch}/rendezvous"


def argv(python: str, backend: str) -> tuple[str, ...]:
    """What stands before the collective's name and rccl-tests' options.

    Args:
        python: one that has torch; rccltune is found beside this file.
        backend: one of BACKENDS.
    """
    script = Path(__file__).with_name("__main__.py").resolve()
    return (python, str(script), "--backend", backend, "--store", STORE)


def check(
    *,
    collective: Collective,
    dtype: str,
    redop: str,
    graph: int,
    placements: Sequence[Placement],
    backend: str,
) -> None:
    """Stop where torch cannot measure this: before a sweep starts, and in every rank.

    Raises:
        CommandLineError: it cannot.
    """
    if Placement.OUT_OF_PLACE in placements and collective in IN_PLACE_ONLY:
        raise CommandLineError(
            f"torch's {collective.value} has one tensor, so it runs in place alone",
            hint="leave out --placement (-O), or name all_gather and reduce_scatter alone.",
        )
    known = ", ".join(one.value for one in TUNABLE)
    wrongs = (
        (
            collective not in TUNABLE,
            f"{collective.value} is not measured through torch: {known} are",
        ),
        (dtype not in DTYPES, f"{dtype} is not measured through torch"),
        (redop not in REDOPS, f"torch has no --op {redop}"),
        (
            redop == "avg" and dtype in _WHOLE,
            f"avg of {dtype} is not measured: libraries round it differently",
        ),
        (redop == "avg" and backend == "gloo", "gloo has no --op avg"),
        (graph > 0 and backend == "gloo", "gloo runs on the CPU, which has no graphs"),
    )
    for stands, why in wrongs:
        if stands:
            raise CommandLineError(why)


def digest() -> str:
    """SHA-256 of this benchmark: all of its modules."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
