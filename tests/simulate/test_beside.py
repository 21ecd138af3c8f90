"""A job that runs on the node at the same time is seen by those that start after it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from simulation import Sim, Small

CROWD = """
variants: [{name: crowd, when: {beside: all_gather}}]
effects: [{setting: ring/simple, collective: all_reduce, variant: crowd, factor: 2}]
"""
SIZE = "-b 1M -e 1M"


@contextmanager
def endless(sim: Sim, node: Path, collective: str) -> Iterator[int]:
    """A benchmark under way that is killed in the end; yields where its rows can be read."""
    with subprocess.Popen(
        sim.argv(collective, f"{SIZE} -N 1000000000", None),
        env=sim.environment(node, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        # A row: the parameters at the top name the size too, before the job has said that it runs.
        while not process.stdout.readline().startswith(b"     1048576 "):
            assert process.poll() is None
        yield process.stdout.fileno()
        process.kill()


def time_of(sim: Sim, node: Path) -> float:
    """Of all_reduce, one MiB."""
    return sim.run(node, SIZE, NCCL_ALGO="Ring", NCCL_PROTO="Simple").times[1 << 20]


@pytest.mark.parametrize(("collective", "factor"), [("all_gather", 2), ("reduce_scatter", 1)])
def test_a_crowd_is_there_while_its_job_runs(
    sim: Sim, small: Small, collective: str, factor: int
) -> None:
    """100 us alone; twice that beside all_gather, until that is killed."""
    node = small(CROWD)
    assert time_of(sim, node) == 100
    with endless(sim, node, collective):
        assert time_of(sim, node) == 100 * factor
    assert time_of(sim, node) == 100


def test_an_endless_job_prints_few_rows(sim: Sim, small: Small) -> None:
    """Its time is simulated: without a pause between tables it would fill the disk."""
    n_bytes = 0
    with endless(sim, small(), "all_gather") as rows:
        deadline = time.monotonic() + 0.7
        while time.monotonic() < deadline:
            n_bytes += len(os.read(rows, 1 << 16))
    assert n_bytes < 1 << 20
