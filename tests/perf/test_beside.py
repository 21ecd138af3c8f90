"""Collectives beside products: what both cost while both run, and the program's rows of it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from made_runs import RUN, beside, step
from perf_sweeps import Ground

from rccltune import plugin
from rccltune.perf import library, plan, rows, runs, samples
from rccltune.perf.beside import covered
from rccltune.simulate import sources
from rccltune.simulate.compiled import written


def a_row(**fields: float) -> pd.DataFrame:
    """Ten calls of 20 µs and five products of 100 µs, alone; both at once as said."""
    usual = {"calls": 10, "alone_us": 20.0, "products": 5, "product_us": 100.0}
    made: pd.DataFrame = pd.DataFrame([{"step": "beside", **usual, **fields}])
    return made


def test_what_was_covered_whole_is_as_it_was_measured() -> None:
    """Of the other what it took until then: here 3 of 5 products run alone, behind the calls."""
    table = a_row(beside_us=30.0, product_beside_us=120.0, both_us=600.0)
    (row,) = covered(table).to_dict("records")
    assert row["call_us"] == pytest.approx(30.0)
    # In 300 µs two products, the other three took 300 µs.
    assert row["computing_us"] == pytest.approx(150.0)
    assert (row["call_factor"], row["computing_factor"]) == (1.5, 1.5)
    assert row["share"] == 2.5
    assert row["saved_us"] == pytest.approx(100.0)


def test_calls_that_outlast_the_products_are_reckoned_likewise() -> None:
    """Half of them ran alone."""
    table = a_row(beside_us=60.0, product_beside_us=100.0, both_us=600.0)
    (row,) = covered(table).to_dict("records")
    assert row["computing_us"] == 100.0
    assert row["call_us"] == pytest.approx(500 / 5)


def test_where_hardly_anything_overlapped_nothing_is_said() -> None:
    """Nor where the runtime has no clock inside graphs."""
    table = pd.concat(
        [
            a_row(beside_us=1.0, product_beside_us=100.0, both_us=500.0),
            a_row(beside_us=float("nan"), product_beside_us=float("nan"), both_us=500.0),
        ]
    )
    assert covered(table)["computing_us"].isna().all()


SETTINGS = ("silent", "ring/simple/8", "ring/simple/2")


def run_both(folder: Path, node: Path) -> runs.PerfRun:
    """Steps of both clocks, alone and beside products, on two simulated GPUs."""
    size = 1 << 20
    steps = [step("call", setting, size) for setting in SETTINGS]
    for clock in (plan.LOOP, plan.GRAPH):
        steps += [step("measure", "ring/simple/8", size, clock)]
        steps += [beside(setting, size, clock) for setting in SETTINGS]
    (folder / runs.PLAN_FILE).write_text(plan.plan_text([steps]))
    argv = [runs.PROGRAM, "--plugin", str(plugin.library())]
    (folder / runs.RUN_FILE).write_text(json.dumps({**RUN, "argv": argv}))
    compiled = folder / "node"
    compiled.write_bytes(written(sources.load_node(node)))
    there = library.stand_in()
    assert there.runtime is not None
    subprocess.run(
        [
            *(str(plugin.native_folder() / runs.PROGRAM), "--folder", str(folder), "--start", "2"),
            *("--plan", str(folder / runs.PLAN_FILE), "--library", str(there.file)),
            *("--runtime", str(there.runtime), "--plugin", str(plugin.library()), "--said"),
        ],
        env={
            **os.environ,
            "RCCLTUNE_SIM_NODE": str(compiled),
            "RCCLTUNE_SIM_LAUNCH": "beside",
            "RCCLTUNE_PERF_TOKEN": secrets.token_hex(8),
        },
        stdout=sys.stderr,
        timeout=60,
        check=True,
    )
    return runs.read_run(folder)


def test_all_ranks_make_the_calls_that_the_plan_says(ground: Ground) -> None:
    """By both clocks: of each rank the same rows; what ran beside is named."""
    folder = ground.folder / "runs/1"
    folder.mkdir(parents=True)
    run = run_both(folder, ground.folder / "node.yaml")
    assert run.remarks.simulated
    assert [len(one) for one in run.ranks] == [len(run.steps)] * 2
    table = rows.rows_of_runs([run])
    both = table[table["step"] == "beside"]
    assert set(both["state"]) == {"good"}
    # A job pays for the round: all of it, for each of its calls.
    assert (both["time_us"] - both["both_us"] / 10).abs().max() < 1e-6
    assert both["alone_us"].lt(both["time_us"]).all()
    assert set(both["beside"]) == {"gemm bf16 4096"}
    assert set(zip(both["products"], both["calls"], strict=True)) == {(3, 10)}
    # 3 to warm up, then three rounds of ten alone and ten beside, or one capture of each.
    made = dict(zip(both["clock"], both["made"], strict=True))
    assert made == {"loop": 3 + 3 * 20, "graph": 3 + 20}
    assert (both["made"] == both["asked"]).all()
    # The stand-in's products lack the units that channels have, and slow calls down.
    found = covered(both)
    assert (found["call_factor"] > 1.05).all()
    by_channels = found.groupby("setting")["computing_factor"].mean()
    assert by_channels["ring/simple/2"] < by_channels["ring/simple/8"] < by_channels["silent"]
    assert (found["saved_us"] > 0).all()
    timed = samples.table_of([run], table, {})
    alone, beside_them = timed[timed["beside"] == ""], timed[samples.beside_computing(timed)]
    assert alone["setting"].tolist() == ["ring/simple/8"] * 2
    assert beside_them["setting"].tolist() == ["idle", "ring/simple/8", "ring/simple/2"] * 2
    assert beside_them["call_us"].gt(beside_them["alone_us"]).all()
    assert beside_them["computing_us"].gt(beside_them["product_us"]).all()
    assert alone[["alone_us", "call_us", "product_us", "computing_us"]].isna().all(axis=None)
