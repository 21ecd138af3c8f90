"""Helpers of the tests of logs: hand-made benchmark output, and the shared real files.

What ``Bench`` prints follows the printf formats of nccl-tests ``src/util.cu`` (2.19.6) and
rccl-tests ``src/common.cu`` (2024-09); it is hand-made, not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from sample_rows import Sample

from rccltune.logs.parsed_log import ParsedLog, read_log
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE
from rccltune.model.units import algbw, busbw
from rccltune.model.vocabulary import Collective, Placement


class Bench:
    """Prints what a benchmark would print."""

    HEADER = (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong"
    )
    PLACES = "#                            out-of-place                       in-place          "

    def __init__(self, collective: Collective = Collective.ALL_REDUCE, ranks: int = 8) -> None:
        """What it measures, and on how many ranks."""
        self.collective = collective
        self.ranks = ranks

    def facts(self, hosts: int = 1, product: str = "AMD Instinct MI300X", graph: int = 0) -> str:
        """Everything above the table."""
        per = self.ranks // hosts
        ranks = "".join(
            f"#  Rank {r:2} Group  0 Pid {1000 + r:6} on {f'node{r // per}':>10} device {r % per:2}"
            f" [0000:{r:02x}:00] {product}\n"
            for r in range(self.ranks)
        )
        return (
            f"# Collective test starting: {self.collective.benchmark}\n"
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 33554432 step: 2(factor) warmup iters: 5 "
            f"iters: 20 agg iters: 1 validation: 1 graph: {graph}\n#\n# Using devices\n{ranks}#\n"
        )

    def header(self) -> str:
        """The two lines that name the columns."""
        return f"{self.PLACES}\n{self.HEADER}\n"

    def half(self, nbytes: int, time_us: float, wrong: str = "0") -> str:
        """One placement's four columns."""
        alg = algbw(nbytes, time_us) if time_us else 0.0
        bus = busbw(self.collective, self.ranks, nbytes, time_us) if time_us else 0.0
        return f"  {time_us:7.2f}  {alg:6.2f}  {bus:6.2f}  {wrong:>5}"

    def row(self, nbytes: int, out: float, into: float | None = None, wrong: str = "0") -> str:
        """One row; without an in-place time only the first half."""
        lead = f"{nbytes:12}  {nbytes // 4:12}  {'float':>8}  {'sum':>6}  {-1:6}"
        second = "" if into is None else self.half(nbytes, into)
        return lead + self.half(nbytes, out, wrong) + second + "\n"

    def rows(self, sizes: Iterable[int], first: float = 10.0) -> str:
        """Rows whose times grow by one microsecond each."""
        return "".join(self.row(size, first + i, first + i + 0.5) for i, size in enumerate(sizes))

    def footer(self, average: float | None = None) -> str:
        """The summary."""
        line = "" if average is None else f"# Avg bus bandwidth    : {average:g} \n"
        return f"# Out of bounds values : 0 OK\n{line}#\n"

    def run(self, sizes: Iterable[int], first: float = 10.0, average: float | None = None) -> str:
        """A whole output."""
        return self.facts() + self.header() + self.rows(sizes, first) + self.footer(average)


@pytest.fixture
def bench() -> Bench:
    """An all_reduce benchmark on 8 ranks."""
    return Bench()


@pytest.fixture
def make_bench() -> type[Bench]:
    """For other collectives and scales."""
    return Bench


ReadText = Callable[..., ParsedLog]
Lookup = Callable[[Iterable[Sample], int, Placement], Sample]


@pytest.fixture
def read_text(tmp_path: Path) -> ReadText:
    """Write text or bytes to a file and read it; the baseline is stated unless said otherwise."""

    def reading(
        text: str | bytes, stated: StatedFacts | None = None, name: str = "x.log"
    ) -> ParsedLog:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_log(path, StatedFacts(setting=BASELINE) if stated is None else stated, "L")

    return reading


@pytest.fixture
def shared(shared_data: Path) -> Path:
    """The folder of real files, which is not part of the repository."""
    return shared_data


def find(samples: Iterable[Sample], nbytes: int, placement: Placement) -> Sample:
    """The one sample of a size and placement."""
    found = [s for s in samples if s.nbytes == nbytes and s.key.placement is placement]
    assert len(found) == 1, found
    return found[0]


@pytest.fixture
def at() -> Lookup:
    """Look up one sample."""
    return find
