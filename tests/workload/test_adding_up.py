"""Many ranks' files: nothing is lost, nothing counts twice, and the order does not matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import count as numbers

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.workload import (
    CallCount,
    Recording,
    Workload,
    add_workloads,
    merge_counts,
)

EIGHT = Scale(n_nodes=1, n_ranks=8)
SCALES = (EIGHT, Scale(n_nodes=1, n_ranks=64), Scale(n_nodes=2, n_ranks=128))
_serial = numbers()


@st.composite
def counts(draw: st.DrawFn) -> CallCount:
    """A row: exact, or of a power of two."""
    power = draw(st.integers(0, 40))
    calls = draw(st.integers(1, 10**9))
    least = 1 << power
    is_exact = draw(st.booleans())
    each = draw(st.integers(least, 2 * least - 1))
    return CallCount(
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
    rows = merge_counts(draw(st.lists(counts(), max_size=6)))
    return Workload(
        counts=rows,
        recordings=(recorder(next(_serial), sum(row.calls for row in rows)),),
        aside=draw(st.dictionaries(st.sampled_from(["send", "alltoall"]), st.integers(1, 9))),
    )


def recorder(pid: int, calls: int, **changes: object) -> Recording:
    """Of a rank of its own."""
    made = Recording(
        source="record",
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
    whole = add_workloads(parts)
    other = list(parts)
    random.shuffle(other)  # type: ignore[attr-defined] # random.Random

    assert add_workloads(other) == whole
    assert whole.calls == sum(part.calls for part in parts)
    assert whole.total_nbytes == sum(part.total_nbytes for part in parts)
    assert len(whole.recordings) == len(parts)
    assert sum(whole.aside.values()) == sum(sum(part.aside.values()) for part in parts)


def test_the_same_recording_twice_is_refused() -> None:
    """Its calls would count twice."""
    one = Workload(counts=(), recordings=(recorder(1, 0),))

    with pytest.raises(CommandLineError, match="00ab"):
        add_workloads([one, one])


def test_a_snapshot_gives_way_to_the_whole() -> None:
    """A job that died between appending and tidying up leaves both; calls count once."""
    row = CallCount(
        collective=Collective.ALL_REDUCE,
        scale=EIGHT,
        min_nbytes=64,
        max_nbytes=64,
        calls=5,
        total_nbytes=320,
    )
    whole = Workload(counts=(row,), recordings=(recorder(1, 5),))
    part = Workload(
        counts=(replace(row, calls=3, total_nbytes=192),),
        recordings=(recorder(1, 3, is_finished=False),),
    )

    assert add_workloads([whole, part]) == add_workloads([part, whole]) == whole
    assert add_workloads([part]) == part  # what is all that is left
