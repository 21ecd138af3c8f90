"""Runs as samples: which times count, what they are called, and which settings are out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_runs import as_asked, make, step
from sample_records import records
from sample_rows import Sample

from rccltune.measure import passes
from rccltune.model.failure import Failure
from rccltune.model.measurement import Caution, Fingerprint
from rccltune.model.reporter import Reporter
from rccltune.model.schema import to_plain
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import UnusableReason
from rccltune.ranks import rows, runs
from rccltune.ranks.hangs_and_crashes import find_excluded
from rccltune.ranks.plan import Step
from rccltune.session import store
from rccltune.session.samples import excluded, frame_from_logs, load_frame, notices
from rccltune.session.store import Session, SessionSetup

RING = Setting.parse("ring/ll")


def session_of(folder: Path) -> Session:
    """A session of the runs in a folder."""
    return Session(
        path=folder,
        command="x",
        tool="x",
        fingerprint=Fingerprint(arch="gfx942"),
        setup=SessionSetup(runner="perf"),
    )


def rows_of(folder: Path) -> pd.DataFrame:
    """Rows of samples.csv of a session's runs."""
    return frame_from_logs(session_of(folder))


def read(folder: Path) -> tuple[Sample, ...]:
    """Samples of a session's runs that count."""
    return records(rows_of(folder))


def timed(setting: str, nbytes: int, *timings: str) -> list[Step]:
    """A check, and a time by each timing."""
    return [
        step("check", setting, nbytes),
        *(step("measure", setting, nbytes, timing) for timing in timings),
    ]


def test_a_communicator_is_what_is_repeated(tmp_path: Path) -> None:
    """Its samples are those of a launch of its own; the plan's line says which step it was."""
    make(tmp_path, timed("ring/ll", 1024, "graph"), number=3)
    (sample,) = read(tmp_path)
    assert (sample.launch, sample.line, sample.cycle) == ("run-3:0", 5, 0)
    assert (sample.key.setting, sample.executed) == (RING, Setting.parse("ring/ll/8"))
    assert (sample.time_us, sample.n_wrong, sample.doubt) == (11.0, 0, None)
    assert (sample.key.dtype, sample.key.op, sample.key.graph) == ("float", "sum", True)


def test_a_row_says_all_that_is_known(tmp_path: Path) -> None:
    """What was asked, what ran, what the library would have taken, by how many calls."""
    own = make(tmp_path, timed("ring/ll", 1024, "graph"), number=3)
    (row,) = rows_of(tmp_path).to_dict("records")
    process = runs.read_run(own).file.process
    said = {"setting": "ring/ll", "ran": "ring/ll/8", "timing": "graph"}
    where = {"run": "run-3", "process": process, "communicator": 0, "pass": 0, "line": 5}
    scale = {"n_nodes": 1, "n_ranks": 2, "rank_placement": "node"}
    rest = {"rough": True, "wrong": 0, "unusable": ""}
    assert {name: row[name] for name in (*said, *where, *scale, *rest)} == {
        **said,
        **where,
        **scale,
        **rest,
    }
    assert row["slowest_us"] >= row["time_us"] == 11.0
    assert row["calls"] > 0


def test_loops_count_where_nothing_can_be_captured(tmp_path: Path) -> None:
    """Their graphs have no time."""
    make(
        tmp_path,
        timed("ring/ll", 1024, "loop", "graph"),
        told=lambda one, rank: (
            as_asked(one, rank)
            | ({"time_us": "", "note": "graph: no"} if one.timing == "graph" else {})
        ),
    )
    (sample,) = read(tmp_path)
    assert sample.key.graph is False


@pytest.mark.parametrize(
    ("said", "doubt"),
    [
        ({"asked": 0, "answer": ""}, UnusableReason.BYPASSED),
        ({"answer": "none"}, UnusableReason.INELIGIBLE),
        ({"answer": "tree/ll"}, UnusableReason.SUBSTITUTED),
        ({"ran": "?"}, UnusableReason.UNPROVEN),
    ],
)
def test_a_time_of_something_else_is_doubted(
    tmp_path: Path, said: dict[str, Any], doubt: UnusableReason
) -> None:
    """Kept, and used for nothing."""
    make(
        tmp_path,
        timed("ring/ll", 1024, "graph"),
        told=lambda one, rank: as_asked(one, rank) | said,
    )
    assert [one.doubt for one in read(tmp_path)] == [doubt]


def test_wrong_results_disqualify_a_setting(tmp_path: Path) -> None:
    """At every size; where they were seen, with their number over all ranks."""
    steps = [*timed("ring/ll", 1024, "graph"), *timed("ring/ll", 2048, "graph")]
    steps += timed("tree/ll", 1024, "graph")
    make(
        tmp_path,
        sorted(steps, key=lambda one: one.kind == "measure"),
        told=lambda one, rank: (
            as_asked(one, rank) | ({"wrong": 3} if one == step("check", "ring/ll", 1024) else {})
        ),
    )
    found = {(str(one.key.setting), one.nbytes): one for one in read(tmp_path)}
    assert (found["ring/ll", 1024].doubt, found["ring/ll", 1024].n_wrong) == (
        UnusableReason.WRONG,
        6,
    )
    assert found["ring/ll", 2048].doubt is UnusableReason.EXCLUDED
    assert found["tree/ll", 1024].doubt is None


def test_what_was_wrong_before_it_was_timed_is_out(tmp_path: Path) -> None:
    """It has no row of samples.csv: the session's runs tell that it is excluded, and why."""
    make(
        tmp_path,
        [step("check", "ring/ll"), *timed("tree/ll", 1024, "graph")],
        told=lambda one, rank: (
            as_asked(one, rank) | ({"wrong": 1} if str(one.setting) == "ring/ll" else {})
        ),
    )
    assert set(rows_of(tmp_path)["setting"]) == {"tree/ll"}
    (out,) = excluded(runs.read_runs(tmp_path))
    assert (out.setting, out.reason) == (RING, "it gave wrong results in 1 launch")
    (notice,) = notices([out])
    assert (notice.caution, notice.where) == (Caution.WRONG_RESULTS, "runs/1/")


def test_a_setting_that_hung_is_out(tmp_path: Path) -> None:
    """What it measured before is used for nothing; idle is never out."""
    ending = {"failure": "hang", "collective": "all_reduce", "line": 9}
    make(tmp_path, timed("ring/ll", 1024, "graph"), ending=ending | {"setting": to_plain(RING)})
    assert [one.doubt for one in read(tmp_path)] == [UnusableReason.EXCLUDED]
    found = runs.read_runs(tmp_path)
    (out,) = find_excluded(found, rows.rows_of_runs(found))
    assert (out.setting, out.failures, out.launches) == (RING, (Failure.HANG,), ("run-1",))

    make(tmp_path, timed("idle", 1024, "graph"), number=2, ending=ending | {"setting": None})
    assert len(find_excluded(runs.read_runs(tmp_path))) == 1


@pytest.mark.parametrize(
    ("failures", "is_out"),
    [(["killed"], False), (["killed"] * 2, False), (["killed"] * 3, True)],
)
def test_a_rank_that_somebody_killed_is_no_failure_of_a_setting(
    tmp_path: Path, failures: list[str], is_out: bool
) -> None:
    """SIGKILL comes from outside: what was measured stays, until it goes on."""
    for number, failure in enumerate(failures, 1):
        ending = {"failure": failure, "collective": "all_reduce", "line": 9}
        ending |= {"setting": to_plain(RING)}
        make(tmp_path, timed("ring/ll", 1024, "graph"), number=number, ending=ending)
    doubts = {one.doubt for one in read(tmp_path)}
    assert doubts == {UnusableReason.EXCLUDED if is_out else None}


def test_a_session_makes_its_samples_of_its_runs(tmp_path: Path) -> None:
    """Where samples.csv is lost, older than a run, or of a run that was forgiven since."""
    folder = tmp_path / "s"
    own = make(folder, timed("ring/ll", 1024, "graph"), ending={})
    header = Session(
        path=folder,
        command="x",
        tool="x",
        fingerprint=Fingerprint(arch="gfx942"),
        setup=SessionSetup(runner="perf"),
    )
    store.write_header(header)
    found = load_frame(store.open_session(folder), Reporter())
    assert [one.launch for one in records(found)] == ["run-1:0"]
    opened = store.open_session(folder)
    assert store.why_not_current(opened) is None
    pd.testing.assert_frame_equal(load_frame(opened, Reporter()), found)

    with (own / "rank-0.csv").open("a") as stream:
        stream.write("# done\n")
    assert store.why_not_current(opened) is not None
    assert store.library_versions(folder) == {"RCCL 2.27.7"}
    (own / "log.txt").write_text("")
    assert store.raw_log(folder, "run-1:0") == own / "log.txt"


def fine_of(table: pd.DataFrame, nbytes: int) -> Sequence[Setting]:
    """What is measured with care at a size."""
    cells = passes.settings_that_could_win(passes.quick_rows(table))
    return cells.get(("all_reduce", "float", "out", nbytes), ())


def test_what_could_win_is_measured_with_care(tmp_path: Path) -> None:
    """Within 10 % of the best somewhere or chosen by the library, where it is not hopeless."""
    times = {
        ("idle", 1024): 10.0,
        ("ring/ll", 1024): 14.0,
        ("tree/ll", 1024): 10.9,
        ("ring/simple", 1024): 13.0,
        ("idle", 2048): 10.0,
        ("ring/ll", 2048): 30.0,
        ("tree/ll", 2048): 5.0,
        ("ring/simple", 2048): 20.0,
    }
    steps = [one for name, nbytes in times for one in timed(name, nbytes, "graph")]
    steps.sort(key=lambda one: one.kind == "measure")

    def told(one: Step, rank: int) -> dict[str, Any]:
        usual = as_asked(one, rank)
        time = times[str(one.setting), one.call.nbytes]
        # The library itself would take ring/ll.
        return usual | ({"time_us": time} if one.timing else {})

    make(tmp_path, steps, told=told)
    table = rows.rows_of_runs(runs.read_runs(tmp_path))
    names = [[str(one) for one in fine_of(table, nbytes)] for nbytes in (1024, 2048)]
    assert names == [["ring/ll", "tree/ll"], ["tree/ll"]]


def between(gains: Sequence[float], words: Sequence[str]) -> list[int]:
    """Sizes in KiB, of the pairs from 1 KiB on, that are measured more closely."""
    sizes = [1024 << i for i in range(len(gains))]
    return [low // 1024 for low, _ in passes.edges(sizes, gains, words)]


def test_sizes_are_closer_where_a_rule_may_begin_or_end() -> None:
    """From surely faster to surely not, over what is in doubt; and where the library changes."""
    alike = ["ring/ll"] * 6
    assert between([1.0] * 6, alike) == []
    assert between([1.2] * 6, alike) == []
    assert between([0.9, 1.0, 1.2, 1.3, 0.8, 0.9], alike) == [2, 8]
    # 2 % may be a gain: the next size down is looked at as well.
    assert between([0.9, 0.9, 1.0, 1.02, 1.2, 1.2], alike) == [4, 8]
    assert between([1.02, 1.02, 1.02, 1.0, 1.0, 1.0], alike) == []
    assert between([1.0] * 6, [*alike[:3], *["ring/simple"] * 3]) == [4]
    # A size that nothing ran at is none that a rule is for.
    assert between([1.2, 1.2, float("nan"), 1.2, 1.2, 1.2], alike) == [2, 4]
