"""The benchmark: warm-up, passes over the sizes, and the table."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, TypeAlias

import rccltune
from rccltune.model.errors import MachineError, RccltuneError
from rccltune.model.vocabulary import DTYPE_BYTES, Placement
from rccltune.torchbench import ranks
from rccltune.torchbench.buffers import Buffers, Counts, counts_of
from rccltune.torchbench.options import Options, read
from rccltune.torchbench.ranks import Steps, who
from rccltune.torchbench.table import Half, foot, head, row
from rccltune.torchbench.teams import Team

Torch: TypeAlias = Any
_WRONG_RESULTS = 1


def main(words: Sequence[str]) -> int:
    """Run one rank; the exit code is 1 where results are wrong, as rccl-tests'."""
    try:
        return _run(read(words))
    except RccltuneError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


def _run(options: Options) -> int:
    me = who(os.environ)
    if options.root >= me.n_ranks:
        raise MachineError(f"-r {options.root} is no rank of {me.n_ranks}")
    steps = Steps(os.environ)
    torch = _torch()
    team = Team(torch, me, options.backend, options.store)
    bench = _Bench(options, team)
    bench.warm_up()
    bench.say(head(options, team.seats(), _said(options, torch) if me.rank == 0 else ()))
    for cycle in range(options.cycles):
        steps.begin(cycle)
        for nbytes in options.sizes:
            bench.row(nbytes)
    steps.begin(options.cycles)
    bench.say(foot(options, bench.n_bad, bench.bandwidths))
    team.close()
    return _WRONG_RESULTS if bench.n_bad else 0


def _torch() -> Torch:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise MachineError(
            f"this Python has no PyTorch: {error}",
            where=sys.executable,
            hint="name the one that has it with --python.",
        ) from error


def _said(options: Options, torch: Torch) -> list[str]:
    """What runs: this benchmark, torch, and the library that it talks to."""
    build = next(
        (f"{name} {v}" for name in ("hip", "cuda") if (v := getattr(torch.version, name, None))),
        "CPU",
    )
    what = f"rccltune PyTorch runner version {rccltune.__version__}"
    lines = [f"{what}: PyTorch {torch.__version__} ({build}), backend {options.backend}"]
    if options.backend == "gloo":
        return [*lines, "gloo on the CPU, for tests: no GPU and no collective library is measured"]
    path = ranks.mapped()
    return lines if path is None else [*lines, *ranks.said(path)]


class _Bench:
    """What rows share."""

    def __init__(self, options: Options, team: Team) -> None:
        self.n_bad = 0
        self.bandwidths: list[float] = []
        self._options = options
        self._team = team
        largest = max(self._counts(nbytes).whole for nbytes in options.sizes)
        self._buffers = Buffers(options, team, largest)

    def say(self, lines: Sequence[str]) -> None:
        """Rank 0 prints; a run that is killed keeps its complete lines."""
        if self._team.rank == 0:
            for line in lines:
                sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def warm_up(self) -> None:
        """Every size, both placements in turn: all of it belongs to a schedule's first step."""
        for nbytes in self._options.sizes:
            counts = self._counts(nbytes)
            for number in range(self._options.warmup if counts.printed else 0):
                placements = self._options.placements
                self._call(counts, placements[number % len(placements)])
        self._team.clock.settle()

    def row(self, nbytes: int) -> None:
        """Measure and print one size."""
        options, counts = self._options, self._counts(nbytes)
        halves = [self._half(counts, placement) for placement in options.placements]
        self.n_bad += sum(1 for half in halves if half.n_wrong)
        text, bandwidths = row(
            options,
            nbytes=counts.whole * DTYPE_BYTES[options.dtype],
            count=counts.printed,
            n_ranks=self._team.n_ranks,
            halves=halves,
        )
        self.bandwidths += bandwidths
        self.say([text])

    def _counts(self, nbytes: int) -> Counts:
        options = self._options
        return counts_of(options.collective, nbytes, options.dtype, self._team.n_ranks)

    def _half(self, counts: Counts, placement: Placement) -> Half:
        """Nothing is called where nothing would be sent."""
        options, team = self._options, self._team
        if counts.printed == 0:
            return Half(time_us=0.0, n_wrong=0 if options.checks else None)
        self._buffers.fill(counts, placement)

        def call() -> None:
            self._call(counts, placement)

        taken = (
            team.clock.time_graph_us(call, options.iterations, options.graph)
            if options.graph
            else team.clock.time_us(call, options.iterations)
        )
        return Half(
            time_us=team.mean(taken, options.average), n_wrong=self._n_wrong(counts, placement)
        )

    def _n_wrong(self, counts: Counts, placement: Placement) -> int | None:
        """Wrong elements of all ranks, of the last checked call; the first wrong one ends it."""
        n_wrong: int | None = None
        for _ in range(self._options.checks):
            self._buffers.fill(counts, placement)
            self._call(counts, placement)
            self._team.clock.settle()
            n_wrong = self._team.total(self._buffers.n_wrong(counts, placement))
            if n_wrong:
                break
        return n_wrong

    def _call(self, counts: Counts, placement: Placement) -> None:
        options = self._options
        receive, send = self._buffers.views(counts, placement)
        self._team.library.call(options.collective, receive, send, options.redop, options.root)
