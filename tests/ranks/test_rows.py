"""Rows of runs: joined over ranks, strict but for what kill -9 cuts, and what a time counts as."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from made_runs import HEAD, as_asked, make, step

from rccltune.measure import ongoing_sweep
from rccltune.model.errors import OutputError
from rccltune.ranks import rows, runs
from rccltune.ranks.plan import Label, Step

STEPS = [
    *(step("check", name) for name in ("idle", "ring/ll", "tree/simple/4")),
    *(step("measure", name, timing="graph") for name in ("idle", "ring/ll", "tree/simple/4")),
]


def answering(**fields: Any) -> Any:  # noqa: ANN401 - what made_runs.make takes
    """What ranks say where ring/ll is in force."""

    def told(one: Step, rank: int) -> Mapping[str, Any]:
        usual = {**as_asked(one, rank)}
        if str(one.setting) == "tree/simple/4" and usual.get("ran"):
            usual["ran"] = "tree/simple/4"
        return {**usual, **fields} if str(one.setting) == "ring/ll" else usual

    return told


def reasons(session: Path) -> dict[str, str]:
    """What stands against each time, by setting."""
    table = rows.rows_of_runs(runs.read_runs(session))
    timed = table[table["step"] == "measure"]
    return dict(zip(timed["setting"], timed["unusable"], strict=True))


def test_ranks_are_joined(tmp_path: Path) -> None:
    """The mean and the slowest; elements compared are added; what one rank tells is told."""
    make(tmp_path, STEPS, told=answering())
    table = rows.rows_of_runs(runs.read_runs(tmp_path))
    assert list(table["step"]) == ["communicator", *["check"] * 3, *["measure"] * 3]
    last = table.iloc[-1]
    assert (last["time_us"], last["slowest_us"], last["calls"]) == (11.0, 12.0, 10)
    assert (last["setting"], last["timing"], last["nbytes"]) == ("tree/simple/4", "graph", 1024)
    assert (last["run"], last["purpose"]) == (1, "first")
    check = table.iloc[2]
    assert (check["checked"], check["wrong"], check["ran"]) == (512, 0, "ring/ll/8")
    assert reasons(tmp_path) == dict.fromkeys(("idle", "ring/ll", "tree/simple/4"), "")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"asked": 0, "answer": "", "told_bytes": "", "ran": "?"}, "bypassed"),
        ({"asked": 3}, "bypassed"),
        ({"asked": ""}, "bypassed"),
        ({"asked": 24}, ""),
        ({"answer": "none"}, "ineligible"),
        ({"answer": "tree/ll"}, "substituted"),
        ({"ran": "ring/simple/8"}, "substituted"),
        ({"ran": "?"}, "unproven"),
        ({"ran": ""}, "unproven"),
        ({"time_us": "", "note": "graph: not permitted"}, "no-time"),
        ({"answer": "ring/ll/0"}, ""),
    ],
)
def test_a_time_counts_where_the_setting_ran(
    tmp_path: Path, said: Mapping[str, Any], reason: str
) -> None:
    """What was asked for is not yet what ran; the others' times stay their own."""
    make(tmp_path, STEPS, told=answering(**said))
    assert reasons(tmp_path) == {"idle": "", "ring/ll": reason, "tree/simple/4": ""}


def test_rows_of_a_library_that_asks_three_times_are_its_settings_own(
    tmp_path: Path, shared_data: Path
) -> None:
    """NCCL 2.32.3, made by a plugin that counted each question; rank 1 was not kept, and is rank 0 again."""
    path = shared_data / "nccl-2.31/rank-0-of-2.32.3.csv"
    with path.open(encoding="utf-8") as file:
        told = [row for row in csv.DictReader(file) if row["step"] != "communicator"]
    assert all(int(row["asked"]) == 3 * int(row["made"]) for row in told)
    steps = [
        step(
            row["step"],
            "idle" if row["answer"] == "none" else row["answer"],
            int(row["nbytes"]),
            timing="graph" if row["step"] == "measure" else "",
        )
        for row in told
    ]
    each = {0: iter(told), 1: iter(told)}
    make(tmp_path, steps, told=lambda _, rank: next(each[rank]))
    table = rows.rows_of_runs(runs.read_runs(tmp_path))
    timed = table[table["step"] == "measure"]
    assert len(timed) == sum(row["step"] == "measure" for row in told)
    assert set(timed["unusable"]) == {""}


def test_channels_that_were_asked_for_must_have_run(tmp_path: Path) -> None:
    """Fewer is another setting."""
    make(
        tmp_path,
        STEPS,
        told=lambda one, rank: (
            as_asked(one, rank)
            | (
                {"ran": "tree/simple/2"}
                if one.kind == "check" and "tree" in str(one.setting) and not rank
                else {}
            )
        ),
    )
    assert reasons(tmp_path)["tree/simple/4"] == "substituted"


def test_what_ran_may_be_told_by_another_run(tmp_path: Path) -> None:
    """The log is on in the first pass alone."""
    make(tmp_path, STEPS[:3], told=answering(), ending={})
    make(tmp_path, STEPS[3:], number=2, told=answering(), ending={}, label=Label("second", 0))
    assert set(reasons(tmp_path).values()) == {""}


def test_a_step_counts_where_every_rank_has_its_row(tmp_path: Path) -> None:
    """The one under way is the first that some rank lacks."""
    make(tmp_path, STEPS, done=[5, 4])
    (run,) = runs.read_runs(tmp_path)
    assert run.n_done == 4
    assert run.in_flight is not None
    assert run.in_flight.step == STEPS[3]
    assert len(rows.rows_of_runs([run])) == 4


def test_a_rank_that_wrote_nothing_yet_leaves_nothing(tmp_path: Path) -> None:
    """Its file may be missing, too."""
    own = make(tmp_path, STEPS)
    (own / "rank-1.csv").unlink()
    (run,) = runs.read_runs(tmp_path)
    assert (run.n_done, len(rows.rows_of_runs([run]))) == (0, 0)


@pytest.mark.parametrize("cut", [1, 5, 20, 60])
def test_a_last_line_that_was_cut_is_left_out(tmp_path: Path, cut: int) -> None:
    """Kill -9 strikes anywhere."""
    own = make(tmp_path, STEPS)
    path = own / "rank-1.csv"
    path.write_bytes(path.read_bytes()[:-cut])
    (run,) = runs.read_runs(tmp_path)
    assert run.n_done in (5, 6)
    assert len(rows.rows_of_runs([run])) == run.n_done


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (HEAD, "size,time", 2),
        ("4,0,check,1024,0", "4,0,check,lots,0", 4),
        ("8,0,check,1024,0,", "8,0,check,", 6),
        ("\n10,0,measure", "\n11,0,measure", 7),
    ],
)
def test_a_file_that_was_changed_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, line: int
) -> None:
    """Everything but the last line is as it was written, or nothing is believed."""
    own = make(tmp_path, STEPS)
    path = own / "rank-0.csv"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(OutputError) as caught:
        rows.rows_of_runs(runs.read_runs(tmp_path))
    assert str(caught.value.where).startswith(f"{path}:{line}")


@pytest.mark.parametrize("field", ["answer", "told_bytes", "asked"])
def test_ranks_that_differ_are_an_error_with_its_place(tmp_path: Path, field: str) -> None:
    """They hang, or compute rubbish."""
    make(
        tmp_path,
        STEPS,
        told=lambda one, rank: (
            as_asked(one, rank) | ({field: 7} if rank and one == STEPS[4] else {})
        ),
    )
    with pytest.raises(OutputError) as caught:
        rows.rows_of_runs(runs.read_runs(tmp_path))
    assert caught.value.where == f"{tmp_path}/runs/1/rank-1.csv:8"
    assert field in caught.value.message


@pytest.mark.parametrize(
    ("variable", "file", "hidden"),
    [
        ("NCCL_ALGO=Ring", {}, True),
        ("RCCL_LL128_FORCE_ENABLE=1", {}, True),
        ("RCCL_LL128_FORCE_ENABLE=1", {"added": [["RCCL_LL128_FORCE_ENABLE", "1"]]}, False),
        ("NCCL_TUNER_PLUGIN=/opt/plugin.so", {}, False),
        ("NCCL_TUNER_PLUGIN=/other.so", {}, True),
        ("NCCL_MIN_NCHANNELS=32", {}, False),
        ("NCCL_NVLS_ENABLE=0", {}, False),
        ("NCCL_ALGO=Ring", {"plugin": False}, False),
    ],
)
def test_a_choice_that_comes_back_is_seen(
    tmp_path: Path, variable: str, file: Mapping[str, Any], *, hidden: bool
) -> None:
    """A conf file of the library refills what was cleared; nothing of such a run counts."""
    make(tmp_path, STEPS, remarks=[f"variable {variable}"], **file)
    (run,) = runs.read_runs(tmp_path)
    assert bool(run.hidden_choices) is hidden
    assert rows.rows_of_runs([run]).empty is hidden


def test_how_ranks_ran_is_said_once(tmp_path: Path) -> None:
    """A host without NUMA files, and a library that cannot end its log."""
    assert ongoing_sweep.remarks_of_ranks(runs.read_runs(tmp_path)) == []
    reason = "/sys/bus/pci/devices/0000:06:00.0/numa_node does not say a node"
    said = (f"numa unbound: {reason}", "log stays on: this library has no ncclResetDebugInit")
    make(tmp_path, STEPS, remarks=said)
    make(tmp_path, STEPS, number=2, remarks=("numa 3",))
    bound, logged = ongoing_sweep.remarks_of_ranks(runs.read_runs(tmp_path))
    assert bound == f"ranks were bound to no NUMA node: {reason}"
    assert "cannot end its log" in logged
