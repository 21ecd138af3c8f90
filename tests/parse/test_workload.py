"""Workloads as the plugin records them (hand-made; the recording itself comes later)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.errors import OutputError
from rccltune.parse import read_workload
from rccltune.vocab import Collective

GOOD = (
    "#@ format 1\ncollective,nBytes,nRanks,nNodes,calls\n"
    "allreduce,1048576,64,1,10\nallreduce,1048576,8,1,5\nallgather,4096,64,1,3\n"
)


def test_calls_are_summed_over_communicators(tmp_path: Path) -> None:
    """Two communicators that reduce the same size weigh together."""
    path = tmp_path / "w.csv"
    path.write_text(GOOD)

    assert read_workload(path) == (
        (Collective.ALL_GATHER, 4096, 3.0),
        (Collective.ALL_REDUCE, 1048576, 15.0),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("#@ format 1\na,b\n", "no column collective, nbytes, calls"),
        (GOOD + "allreduce,x,64,1,1\n", "no row of a workload"),
        (GOOD + "allreduce\n", "no row of a workload"),
        (GOOD + "oak,1,1,1,1\n", "unknown collective"),
    ],
)
def test_what_is_no_workload_is_named(tmp_path: Path, text: str, said: str) -> None:
    """With file and line."""
    path = tmp_path / "w.csv"
    path.write_text(text)

    with pytest.raises(OutputError, match=said) as caught:
        read_workload(path)
    assert str(path) in str(caught.value.where)


def test_a_workload_is_an_option_of_choosing(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """emit-config takes it; the published table's rules stay what they are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(GOOD)
    assert run(["import", str(repository / "examples/mi300x-cpx-nps4/all_reduce.csv")]) == 0

    assert run(["emit-config", "--workload", "w.csv", "-o", "a.csv"]) == 0
    assert run(["emit-config", "-o", "b.csv"]) == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
