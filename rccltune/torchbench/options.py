"""rccl-tests' options, as far as this benchmark has them, and how it is started from elsewhere."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, NoReturn

from rccltune.model import defaults
from rccltune.model.errors import CommandLineError
from rccltune.model.vocabulary import BACKENDS, TUNABLE, Collective, Placement, parse_size

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


_DEFAULT_NBYTES: Final = "32M"


class Average(Enum):
    """Which of the ranks' times a row has; numbers as rccl-tests' ``-a``."""

    RANK_0 = 0
    MEAN = 1
    MIN = 2
    MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is to be measured.

    Attributes:
        factor: from one size to the next, None where ``step_nbytes`` is added.
        cycles: passes over all sizes.
        checks: checked calls per timing, 0 for none.
        graph: replays of a graph of all iterations, 0 to call each time.
        store: file at which the ranks meet, None where variables say another place.
    """

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    factor: int | None
    step_nbytes: int
    iterations: int
    warmup: int
    cycles: int
    checks: int
    dtype: str
    redop: str
    root: int
    graph: int
    placements: tuple[Placement, ...]
    average: Average
    backend: str
    store: str | None

    @property
    def reduces(self) -> bool:
        """Whether the collective has an operation."""
        return self.collective.reduces

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes as rccl-tests steps through them, before they become whole elements."""
        found = [self.min_nbytes]
        while (nbytes := self._after(found[-1])) <= self.max_nbytes:
            found.append(nbytes)
        return tuple(found)

    def _after(self, nbytes: int) -> int:
        return nbytes * self.factor if self.factor else nbytes + self.step_nbytes


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandLineError(message, hint="docs/torch.md lists what is understood.")


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _from(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdigit() or int(text) < least or (most is not None and int(text) > most):
            limit = f"from {least} up" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"'{text}' is no whole number {limit}")
        return int(text)

    return parse


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="rccltune.torchbench", allow_abbrev=False, description=__doc__)
    parser.add_argument("collective", help="all_reduce, all_gather, reduce_scatter, …")
    parser.add_argument("--backend", choices=BACKENDS, default=defaults.BACKEND)
    parser.add_argument("--store", help="file at which ranks meet that MPI started")
    add = parser.add_argument
    add("-b", "--minbytes", type=_size, default=_DEFAULT_NBYTES)
    add("-e", "--maxbytes", type=_size, default=_DEFAULT_NBYTES)
    add("-i", "--stepbytes", type=_size, default="1M")
    add("-f", "--stepfactor", type=_from(1), default=1)
    add("-n", "--iters", type=_from(1), default=defaults.ITERATIONS)
    add("-w", "--warmup_iters", type=_from(0), default=defaults.WARMUP)
    add("-N", "--run_cycles", type=_from(1), default=1)
    add("-c", "--check", type=_from(0), default=1)
    add("-d", "--datatype", choices=DTYPES, default=defaults.DTYPE)
    add("-o", "--op", choices=REDOPS, default=defaults.REDOP)
    add("-r", "--root", type=_from(0), default=0)
    add("-G", "--cudagraph", type=_from(0), default=0)
    add("-O", "--out_of_place", type=_from(0, 1))
    add("-a", "--average", type=_from(0, 3), default=1)
    for short, long in (("-t", "--nthreads"), ("-g", "--ngpus"), ("-m", "--agg_iters")):
        add(short, long, type=_from(1, 1), default=1, help="1")
    return parser


def read(words: Sequence[str]) -> Options:
    """Options of a command line.

    Raises:
        CommandLineError: something is not understood, or cannot be done through torch.
    """
    said = _parser().parse_args(list(words))
    try:
        collective = Collective.parse(said.collective)
    except ValueError as error:
        raise CommandLineError(str(error)) from error
    options = Options(
        collective=collective,
        min_nbytes=said.minbytes,
        max_nbytes=said.maxbytes,
        factor=said.stepfactor if said.stepfactor > 1 else None,
        step_nbytes=said.stepbytes,
        iterations=said.iters,
        warmup=said.warmup_iters,
        cycles=said.run_cycles,
        checks=said.check,
        dtype=said.datatype,
        redop=said.op,
        root=said.root,
        graph=said.cudagraph,
        placements=_placements(collective, said.out_of_place),
        average=Average(said.average),
        backend=said.backend,
        store=said.store,
    )
    _check(options)
    return options


def _placements(collective: Collective, out_of_place: int | None) -> tuple[Placement, ...]:
    if out_of_place is None and collective not in IN_PLACE_ONLY:
        return (Placement.OUT_OF_PLACE, Placement.IN_PLACE)
    return (Placement.OUT_OF_PLACE if out_of_place else Placement.IN_PLACE,)


def _check(options: Options) -> None:
    wrongs = (
        (options.max_nbytes < options.min_nbytes, "-e is below -b"),
        (options.min_nbytes == 0 and options.factor is not None, "-b 0 never grows by -f"),
        (options.factor is None and options.step_nbytes == 0, "-i 0 never grows"),
    )
    for stands, why in wrongs:
        if stands:
            raise CommandLineError(why)
    check(
        collective=options.collective,
        dtype=options.dtype,
        redop=options.redop,
        graph=options.graph,
        placements=options.placements,
        backend=options.backend,
    )
