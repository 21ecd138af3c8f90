"""Real CSV and JSON files: rccl-tests' own, sweeps of other people, vendors' samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.logs.reader import read
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE
from rccltune.model.vocabulary import Collective, Placement

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE


def test_rccl_tests_csv_with_the_column_it_forgets(shared: Path) -> None:
    """13 names over 14 values: nothing is shifted."""
    path = shared / "sweeps/gpu107/mi355x_1n8r_allreduce_default.csv"
    reading = read(path, StatedFacts(setting=BASELINE), "L")
    first = reading.samples[0]
    assert (first.nbytes, first.time_us, first.n_wrong) == (4096, 23.259669, 0)
    assert (first.key.dtype, first.key.redop, first.key.placement) == ("float", "sum", OUT)
    assert (first.key.scale.n_ranks, first.key.scale.n_nodes) == (8, 1)
    assert reading.samples[1].key.placement is IN
    assert reading.notices == ()
    assert {s.doubt for s in reading.samples} == {None}


def test_a_sweep_with_forced_and_default_rows(shared: Path) -> None:
    """Default rows are the baseline with what ran noted; forced rows are settings."""
    reading = read(shared / "sweeps/mi355x_1n8r_allreduce_algo_proto_ch.csv", StatedFacts(), "L")
    assert len(reading.samples) == 558
    default = [s for s in reading.samples if s.key.setting is BASELINE]
    assert len(default) == 18
    assert (default[0].nbytes, default[0].time_us) == (4096, 23.46)
    assert str(default[0].executed) == "tree/ll/1"
    assert len({s.key.setting for s in reading.samples}) == 31
    # The column is called time_oop_us.
    assert {s.key.placement for s in reading.samples} == {OUT}


def test_a_sweep_of_variants_and_runs(shared: Path) -> None:
    """gpinkert: config is the variant, stamp the run, every collective its own curve."""
    stated = StatedFacts(setting=BASELINE, n_ranks=8, n_nodes=1)
    reading = read(shared / "sweeps/gpinkert_cta/float_rows.csv", stated, "L")
    assert len(reading.samples) == 1375
    assert len({s.key for s in reading.samples}) == 55
    assert {s.launch for s in reading.samples} == {"L:1", "L:2"}
    assert {s.n_wrong for s in reading.samples} == {0}
    assert reading.samples[0].key.variant.name == "default_all/nccl_min_ctas_28"


def test_a_table_of_bandwidths(shared: Path) -> None:
    """PR 9406 has busbw only: time = size × 2(n−1)/n ÷ busbw, and a notice says it is derived."""
    stated = StatedFacts(collective=Collective.ALL_REDUCE, n_ranks=16, n_nodes=2)
    reading = read(shared / "sweeps/rocm_systems_pr9406_mi350x_2n.csv", stated, "L")
    first = reading.samples[0]
    assert first.time_us == pytest.approx(33554432 * 1.875 / 127.38 / 1000)
    assert Caution.DERIVED_TIME in {n.caution for n in reading.notices}
    assert {s.key.variant.name for s in reading.samples} == {"before", "after"}


def test_json_lines(shared: Path) -> None:
    """amd15 and amd16: one object a line; 0-byte rows and several types in one file."""
    reduce = read(
        shared / "logs/amd15_rccl_json_allreduce_int8_channels56.json", StatedFacts(), "L"
    )
    assert (reduce.samples[0].time_us, reduce.samples[-1].time_us) == (206.98375, 12092.294313)
    assert reduce.samples[-1].line == 64
    alltoall = read(shared / "logs/amd16_rccl_json_alltoall_maxctas56.json", StatedFacts(), "L")
    assert len({s.key.dtype for s in alltoall.samples}) == 12
    assert {s.n_wrong for s in alltoall.samples if s.key.placement is IN} == {None}
