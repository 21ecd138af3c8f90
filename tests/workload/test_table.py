"""The plugin's file of records, one or several in one (by hand, as docs/job.md says)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.cli import run
from rccltune.model.errors import OutputError, RccltuneError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.workload import read_workload

HEADER = "collective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes\n"
SHORT = (
    "#@ format 1\ncollective,nBytes,nRanks,nNodes,calls\n"
    "allreduce,1048576,64,1,10\nallreduce,1048576,8,1,5\nallgather,4096,64,1,3\n"
)
COMM = (
    "#@ comm id=00ab abi=5 host=n1 pid={pid} context=0 since={since} nRanks=8 nNodes=1 "
    "calls={calls} keys=1 beyond=0 unknown=0 state={state}\n"
)


def block(pid: int, calls: int, *, state: str = "whole", since: str = "17.5") -> str:
    """What the plugin appends for one communicator."""
    rows = f"allreduce,64,8,1,{calls},64,{64 * calls}\n"
    return COMM.format(pid=pid, calls=calls, state=state, since=since) + rows


def test_the_contracts_columns_are_enough(tmp_path: Path) -> None:
    """cli.md names five columns; without the others every row is exact."""
    path = tmp_path / "w.csv"
    path.write_text(SHORT)

    found = read_workload(path)

    node, oam = Scale(n_nodes=1, n_ranks=64), Scale(n_nodes=1, n_ranks=8)
    assert [(c.collective, c.scale, c.nbytes, c.calls) for c in found.counts] == [
        (Collective.ALL_GATHER, node, 4096, 3),
        (Collective.ALL_REDUCE, oam, 1048576, 5),
        (Collective.ALL_REDUCE, node, 1048576, 10),
    ]
    assert found.total_nbytes == 3 * 4096 + 15 * 1048576
    assert found.recordings == ()
    assert found.ranks_at(node) == 1


def test_blocks_of_many_ranks_in_one_file_are_added_up(tmp_path: Path) -> None:
    """Ranks append to one file, each under a line of its own; a repeated header is no row."""
    path = tmp_path / "w.csv"
    path.write_text("#@ format 1\n" + HEADER + block(1, 3) + HEADER + block(2, 4, state="exit"))

    found = read_workload(path)

    (count,) = found.counts
    assert (count.calls, count.total_nbytes) == (7, 7 * 64)
    assert all(one.is_finished for one in found.recordings)
    assert found.ranks_at(Scale(n_nodes=1, n_ranks=8)) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("#@ format 2\n" + HEADER, "another format"),
        ("#@ format 1\ncollective,size\nallreduce,1\n", "not understood: 'nbytes'"),
        (SHORT + "allreduce,x,64,1,1\n", "not understood"),
        (SHORT + "allreduce\n", "not understood"),
        (SHORT + "oak,1,64,1,1\n", "unknown collective"),
        (SHORT + "allreduce,1,64,1,-1\n", "'-1' is no number of plain digits"),
        (SHORT + "allreduce,1_0,64,1,1\n", "'1_0' is no number of plain digits"),
        (SHORT + "allreduce,1,٣,1,1\n", "'٣' is no number of plain digits"),
        (SHORT + "allreduce,1,64,1,1\rallreduce,1,64,1,1\n", "not understood"),
        (SHORT + "# a\u2028allreduce,1,64,1,1\n# b\x85allreduce,1,64,1,1\nx\n", "not understood"),
        (SHORT + "allreduce,1,0,1,1\n", "is no scale"),
        ("#@ comm id=1\n" + HEADER, "this line is not understood"),
        (HEADER + block(1, 3)[:-20], "not understood"),
        ("once upon a time\n", "no workload that is known"),
        ("n:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo 1 proto 0 time 12.8\n", "no workload"),
        (b"\xff\xfe\x00\x01", "no workload that is known"),
    ],
)
def test_what_is_no_workload_is_named(tmp_path: Path, text: str | bytes, said: str) -> None:
    """With its file, and exit code 6."""
    path = tmp_path / "w.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises(OutputError, match=said) as caught:
        read_workload(path)
    assert str(path) in str(caught.value.where)


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_anything_is_read_or_refused(noise: str | bytes) -> None:
    """Behind a good start too; never another error than one that says what is wrong."""
    content = noise if isinstance(noise, bytes) else (HEADER + block(1, 3) + noise).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "w.csv"
        path.write_bytes(content)
        try:
            found = read_workload(path)
        except RccltuneError as error:
            assert "w.csv" in str(error.where)  # noqa: PT017 - a good reading is right too
        else:
            assert all(count.calls > 0 for count in found.counts)


def test_a_workload_is_an_option_of_choosing(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """emit-config takes it; the published table's rules stay what they are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.csv").write_text(SHORT)
    assert run(["import", str(repository / "examples/mi300x-cpx-nps4/all_reduce.csv")]) == 0

    assert run(["emit-config", "--workload", "w.csv", "-o", "a.csv"]) == 0
    assert run(["emit-config", "-o", "b.csv"]) == 0
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
