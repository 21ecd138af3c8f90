"""What the simulated library asks a tuner about one call, as the release that it plays does.

From the source: NCCL 2.30.7 ``src/enqueue.cc:2147``; 2.31.2 ``src/scheduler/symmetric_sched.cc:173-200``,
``src/tuning/tuning.cc:213`` and ``:289``, ``src/enqueue/enqueue.cc:502``; 2.32.3 the same by other lines.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from recordings import made_tuner
from simulation import Sim, Small

ONE_CALL: Final = "-n 1 -w 0 -c 0"
# nBytes, numPipeOps, and whether a cell can be chosen.
Question = tuple[int, int, bool]
_INPUT: Final = re.compile(
    r"Input: .*\.tuningMask = (0x[0-9a-f]+), .*\.nBytes = (\d+), \.numPipesOps = (\d+),"
)
_GENERAL: Final = 0x1FFFFF  # a bit for each of 7 x 3 cells


@pytest.fixture
def asked(sim: Sim, tmp_path: Path) -> Path:
    """A tuner that writes its questions down."""
    return made_tuner(tmp_path, "asked.c")


def questions(
    sim: Sim, tuner: Path, node: Path, options: str, collective: str = "all_reduce"
) -> list[Question]:
    """Of the first rank, in order; both placements ask alike, so that each stands there once."""
    path = tuner.parent / "questions"
    sim.run(
        node,
        f"{options} {ONE_CALL}",
        collective=collective,
        NCCL_TUNER_PLUGIN=str(tuner),
        RCCLTUNE_ASKED_FILE=str(path),
    )
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    found = [(int(row[1]), int(row[2]), any(float(cell) >= 0 for cell in row[7:])) for row in rows]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("2.30.4", [(1000, 1, True)]),
        ("2.30.7", [(1000, 1, True)]),
        ("2.31.2", [(1024, 0, False), (1024, 0, True), (1000, 1, True)]),
        ("2.32.3", [(1024, 0, False), (1024, 0, True), (1000, 1, True)]),
    ],
)
def test_a_call_is_asked_about_as_its_release_does(
    sim: Sim, small: Small, asked: Path, release: str, expected: list[Question]
) -> None:
    """From 2.31 on for symmetric kernels first, in whole KiB; the last question has the call's own bytes."""
    assert questions(sim, asked, small(rccl=release), "-b 1000 -e 1000") == expected


def test_bytes_of_one_rank_are_asked_for_symmetric_kernels(
    sim: Sim, small: Small, asked: Path
) -> None:
    """Each call of a group in whole KiB; a tuner's own question has all ranks' bytes."""
    node = small(rccl="2.32.3")
    found = questions(sim, asked, node, "-b 19968 -e 19968", "all_gather")
    assert found == [(5120, 0, False), (5120, 0, True), (19968, 1, True)]
    found = questions(sim, asked, node, "-b 1000 -e 1000 -m 64")
    assert found == [(64 * 1024, 0, False), (64 * 1024, 0, True), (64000, 2, True)]


@pytest.mark.parametrize(
    ("collective", "options", "nodes"),
    [
        ("broadcast", "", 1),
        ("reduce", "", 1),
        ("all_reduce", "-d int32", 1),
        ("all_reduce", "-d double", 1),
        ("all_reduce", "-o max", 1),
        ("all_reduce", "", 2),
    ],
)
def test_what_no_symmetric_kernel_can_do_is_asked_about_once(
    sim: Sim, small: Small, asked: Path, collective: str, options: str, nodes: int
) -> None:
    """2.31.2 src/sym_kernels.cc:268, and several nodes by default."""
    node = small(rccl="2.32.3", nodes=nodes)
    found = questions(sim, asked, node, f"-b 4096 -e 4096 {options}", collective)
    assert found == [(4096, 1, True)]


def test_a_log_of_nccl_has_these_questions(
    sim: Sim, small: Small, asked: Path, shared_data: Path
) -> None:
    """NCCL 2.31.2 on two H200; its lines lie sorted there, and of 1 KiB two are cut."""
    log = (shared_data / "nccl-2.31/tuning-2.31.2.log").read_text(encoding="utf-8")
    told = {
        (int(nbytes), int(pipe_ops), bool(int(mask, 16) & _GENERAL))
        for mask, nbytes, pipe_ops in _INPUT.findall(log)
    }
    assert {nbytes for nbytes, _, _ in told} == {1 << 10, 1 << 16, 1 << 20}
    node = small(rccl="2.31.2", ranks=2)
    found = {
        nbytes: questions(sim, asked, node, f"-b {nbytes} -e {nbytes}")
        for nbytes in (1 << 10, 1 << 16, 1 << 20)
    }
    assert all(one in found[one[0]] for one in told)
    for nbytes in (1 << 16, 1 << 20):
        assert set(found[nbytes]) == {one for one in told if one[0] == nbytes}
