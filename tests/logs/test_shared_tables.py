"""Real CSV and JSON files: rccl-tests' own, sweeps of other people, vendors' samples."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_rows import samples_of

from rccltune.logs.parsed_log import read_log
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE
from rccltune.model.vocabulary import Collective, Placement

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE


def test_rccl_tests_csv_with_the_column_it_forgets(shared: Path) -> None:
    """13 names over 14 values: nothing is shifted."""
    path = shared / "sweeps/gpu107/mi355x_1n8r_allreduce_default.csv"
    reading = read_log(path, StatedFacts(setting=BASELINE), "L")
    first = samples_of(reading)[0]
    assert (first.nbytes, first.time_us, first.n_wrong) == (4096, 23.259669, 0)
    assert (first.key.dtype, first.key.op, first.key.placement) == ("float", "sum", OUT)
    assert (first.key.scale.n_ranks, first.key.scale.n_nodes) == (8, 1)
    assert samples_of(reading)[1].key.placement is IN
    assert reading.notices == ()
    assert {s.doubt for s in samples_of(reading)} == {None}


def test_a_sweep_with_forced_and_default_rows(shared: Path) -> None:
    """Default rows are the baseline with what ran noted; forced rows are settings."""
    reading = read_log(
        shared / "sweeps/mi355x_1n8r_allreduce_algo_proto_ch.csv", StatedFacts(), "L"
    )
    assert len(samples_of(reading)) == 558
    default = [s for s in samples_of(reading) if s.key.setting is BASELINE]
    assert len(default) == 18
    assert (default[0].nbytes, default[0].time_us) == (4096, 23.46)
    assert str(default[0].executed) == "tree/ll/1"
    assert len({s.key.setting for s in samples_of(reading)}) == 31
    # The column is called time_oop_us.
    assert {s.key.placement for s in samples_of(reading)} == {OUT}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("gpinkert_cta/float_rows.csv", "'config' names 11 environments"),
        ("rocm_systems_pr9406_mi350x_2n.csv", "'arm' names 2 environments"),
    ],
)
def test_a_table_of_several_environments_is_refused(shared: Path, name: str, column: str) -> None:
    """A session is of one: gpinkert tried eleven, PR 9406 has before and after."""
    stated = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=16, n_nodes=2)
    with pytest.raises(OutputError, match=column):
        read_log(shared / "sweeps" / name, stated, "L")


def test_a_table_of_bandwidths(shared: Path, tmp_path: Path) -> None:
    """PR 9406 has busbw only: time = size × 2(n−1)/n ÷ busbw, and a notice says it is derived."""
    stated = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=16, n_nodes=2)
    lines = (shared / "sweeps/rocm_systems_pr9406_mi350x_2n.csv").read_text("utf-8").splitlines()
    before = tmp_path / "before.csv"
    before.write_text("\n".join(line for line in lines if ",after," not in line), "utf-8")
    reading = read_log(before, stated, "L")
    first = samples_of(reading)[0]
    assert first.time_us == pytest.approx(33554432 * 1.875 / 127.38 / 1000)
    assert Caution.DERIVED_TIME in {n.caution for n in reading.notices}


def test_json_lines(shared: Path) -> None:
    """amd15 and amd16: one object a line; 0-byte rows and several types in one file."""
    reduce = read_log(
        shared / "logs/amd15_rccl_json_allreduce_int8_channels56.json", StatedFacts(), "L"
    )
    assert (samples_of(reduce)[0].time_us, samples_of(reduce)[-1].time_us) == (
        206.98375,
        12092.294313,
    )
    assert samples_of(reduce)[-1].line == 64
    alltoall = read_log(shared / "logs/amd16_rccl_json_alltoall_maxctas56.json", StatedFacts(), "L")
    assert len({s.key.dtype for s in samples_of(alltoall)}) == 12
    assert {s.n_wrong for s in samples_of(alltoall) if s.key.placement is IN} == {None}
