"""A record that a full disk cut at any byte is read up to the cut, and that is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from rccltune.model.errors import OutputError
from rccltune.workload import read_workload

Put = Callable[[str, "str | bytes"], Path]
REAL = "examples/h200x2-training-loop/record-rank0.csv"


@pytest.fixture
def real(repository: Path) -> str:
    """What the plugin wrote in a real job, for two communicators in turn."""
    text = (repository / REAL).read_text(encoding="ascii")
    block = text[text.index("#@ comm") :]
    return text + block.replace("pid=", "pid=1")


def rows_of(text: str) -> Counter[tuple[str, ...]]:
    """Calls by the other columns, of lines that have their end; written for this test."""
    found: Counter[tuple[str, ...]] = Counter()
    for line in text.split("\n")[:-1]:
        if line.startswith(("all", "broadcast", "reduce")):
            name, low, ranks, nodes, calls, high, _ = line.split(",")
            found[name, low, high, ranks, nodes] += int(calls)
    return found


def test_every_cut_of_a_real_record_is_read_up_to_it(real: str, put: Put) -> None:
    """Every whole row and no other, and it is said where something is missing."""
    blocks = [i for i in range(len(real)) if real.startswith("#@ comm", i)]
    # Nobody sees a cut between two communicators, or before the first one.
    unseen = {*blocks, len(real)}
    for size in range(len("#@ format"), len(real) + 1):
        path = put("record.csv", real[:size])

        found = read_workload(path)

        told: Counter[tuple[str, ...]] = Counter()
        for one in found.counts:
            key = (one.min_nbytes, one.max_nbytes, one.scale.n_ranks, one.scale.n_nodes)
            told[(one.collective.csv_name, *map(str, key))] += one.calls
        assert told == rows_of(real[:size])
        assert all("the file was cut" in cut for cut in found.cuts)
        assert bool(found.cuts) is (size not in unseen)


def test_what_is_left_out_is_counted(put: Put) -> None:
    """By what the lines in front say."""
    header = "#@ format 1\ncollective,nBytes,nRanks,nNodes,calls,maxBytes,totalBytes\n"
    comm = (
        "#@ comm id=00ab abi=5 host=n1 pid={} context=0 since=17.5 nRanks=8 nNodes=1 calls={} "
        "keys=1 beyond=0 unknown=0 state=whole\n"
    )
    whole = comm.format(1, 3) + "allreduce,64,8,1,3,64,192\n"
    path = put("w.csv", f"{header}{whole}{comm.format(2, 9)}allreduce,64,8,1,4,64,256\nallred")

    found = read_workload(path)

    assert found.cuts == (
        f"{path}:7: the file was cut here",
        f"{path}: of 12 calls 7 are in it: the file was cut or changed",
    )
    assert found.calls == 7


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("allgather,16,", "allgat\nallgather,16,", "this line is not understood"),
        ("allgather,16,", "#@ comm id=1\nallgather,16,", "this line is not understood"),
    ],
)
def test_a_mistake_in_the_midst_is_an_error(
    real: str, put: Put, old: str, new: str, said: str
) -> None:
    """Of a recording that others follow: that is no cut."""
    path = put("record.csv", real.replace(old, new, 1))
    with pytest.raises(OutputError, match=said):
        read_workload(path)
