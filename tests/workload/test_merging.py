"""Merging: nothing is lost, nothing counts twice, and the order does not matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import count as numbers
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model import TUNABLE, Collective, CommandLineError, Scale
from rccltune.workload import (
    Count,
    Recorder,
    Source,
    State,
    Workload,
    gathered,
    merge,
    read,
    scaled,
    write_table,
)

EIGHT = Scale(n_nodes=1, n_ranks=8)
SCALES = (EIGHT, Scale(n_nodes=1, n_ranks=64), Scale(n_nodes=2, n_ranks=128))
_serial = numbers()


@st.composite
def counts(draw: st.DrawFn) -> Count:
    """A row: exact, or of a power of two."""
    power = draw(st.integers(0, 40))
    calls = draw(st.integers(1, 10**9))
    least = 1 << power
    is_exact = draw(st.booleans())
    each = draw(st.integers(least, 2 * least - 1))
    return Count(
        collective=draw(st.sampled_from(TUNABLE)),
        scale=draw(st.sampled_from(SCALES)),
        min_nbytes=each if is_exact else least,
        max_nbytes=each if is_exact else 2 * least - 1,
        calls=calls,
        total_nbytes=each * calls,
    )


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """What one rank recorded; no two drawn are of the same rank."""
    rows = gathered(draw(st.lists(counts(), max_size=6)))
    return Workload(
        counts=rows,
        recorders=(recorder(next(_serial), sum(row.calls for row in rows)),),
        aside=draw(st.dictionaries(st.sampled_from(["send", "alltoall"]), st.integers(1, 9))),
    )


def recorder(pid: int, calls: int, **changes: object) -> Recorder:
    """Of a rank of its own."""
    made = Recorder(
        source=Source.RECORD,
        host="n1",
        pid=pid,
        comm="00ab",
        context=0,
        since="17.5",
        scale=EIGHT,
        calls=calls,
    )
    return replace(made, **changes)  # type: ignore[arg-type] # fields by name


@given(st.lists(workloads(), max_size=5), st.randoms(use_true_random=False))
def test_totals_are_kept_in_any_order(parts: list[Workload], random: object) -> None:
    """Calls, bytes and ranks; shuffled parts give the same workload."""
    whole = merge(parts)
    other = list(parts)
    random.shuffle(other)  # type: ignore[attr-defined] # random.Random

    assert merge(other) == whole
    assert whole.calls == sum(part.calls for part in parts)
    assert whole.total_nbytes == sum(part.total_nbytes for part in parts)
    assert len(whole.recorders) == len(parts)
    assert sum(whole.aside.values()) == sum(sum(part.aside.values()) for part in parts)


@given(workloads(), workloads(), workloads())
def test_merging_some_first_changes_nothing(a: Workload, b: Workload, c: Workload) -> None:
    """(a + b) + c = a + (b + c) = a + b + c; a merge of one or none is itself."""
    whole = merge([a, b, c])

    assert merge([merge([a, b]), c]) == whole
    assert merge([a, merge([b, c])]) == whole
    assert merge([whole]) == whole
    assert merge([whole, merge([])]) == whole


@given(workloads(), workloads())
def test_a_written_merge_reads_back(a: Workload, b: Workload) -> None:
    """Through the file, to the last call."""
    from rccltune.workload import read_table

    whole = merge([a, b])

    assert read_table(write_table(whole), "w.csv") == whole


@given(workloads(), st.integers(1, 1000), st.integers(1, 1000))
def test_scaling_multiplies_and_is_told(part: Workload, n: int, m: int) -> None:
    """Calls and bytes; twice is the product."""
    found = scaled(part, n)

    assert found.calls == n * part.calls
    assert found.total_nbytes == n * part.total_nbytes
    assert scaled(found, m) == scaled(part, n * m)
    assert {one.captured_times for one in found.recorders} == {n}


def test_the_same_recording_twice_is_refused() -> None:
    """Its calls would count twice."""
    one = Workload(counts=(), recorders=(recorder(1, 0),))

    with pytest.raises(CommandLineError, match="00ab"):
        merge([one, one])


def test_a_snapshot_gives_way_to_the_whole() -> None:
    """A job that died between appending and tidying up leaves both; calls count once."""
    row = Count(
        collective=Collective.ALL_REDUCE,
        scale=EIGHT,
        min_nbytes=64,
        max_nbytes=64,
        calls=5,
        total_nbytes=320,
    )
    whole = Workload(counts=(row,), recorders=(recorder(1, 5),))
    part = Workload(
        counts=(replace(row, calls=3, total_nbytes=192),),
        recorders=(recorder(1, 3, state=State.UNFINISHED),),
    )

    assert merge([whole, part]) == merge([part, whole]) == whole
    assert merge([part]) == part  # what is all that is left


def test_ranks_that_share_a_process_are_told_apart() -> None:
    """Two contexts of one communicator are two GPUs; of two communicators, one GPU in both."""
    shared = [recorder(1, 1, context=0), recorder(1, 1, context=1)]
    several = [recorder(2, 1, context=0), recorder(2, 1, context=1, comm="00cd")]
    silent = [recorder(3, 0)]

    assert Workload(counts=(), recorders=tuple(shared)).ranks_at(EIGHT) == 2
    assert Workload(counts=(), recorders=tuple(several)).ranks_at(EIGHT) == 1
    assert Workload(counts=(), recorders=(*shared, *several, *silent)).ranks_at(EIGHT) == 3


def test_example_files_merge(tmp_path: Path) -> None:
    """Through files, as a user does it."""
    for pid in (1, 2):
        rows = Workload(
            counts=gathered(
                Count(
                    collective=Collective.ALL_REDUCE,
                    scale=EIGHT,
                    min_nbytes=64,
                    max_nbytes=64,
                    calls=4,
                    total_nbytes=256,
                )
                for _ in range(2)
            ),
            recorders=(recorder(pid, 8),),
        )
        (tmp_path / f"{pid}.csv").write_text(write_table(rows))

    whole = merge([read(tmp_path / "1.csv"), read(tmp_path / "2.csv")])

    assert (whole.calls, whole.ranks_at(EIGHT)) == (16, 2)
