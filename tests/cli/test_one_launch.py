"""All settings in one launch: the same measurements as one launch each, at a fraction of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yamls
from truths import is_true
from wording import lacks

from rccltune.cli import run
from rccltune.simulate import sources

SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "512K"]
pytestmark = pytest.mark.usefixtures("stand_ins", "here", "whole")


def quiet(folder: Path, **changes: object) -> Path:
    """mi300x without noise, and with these changes."""
    path = folder / "node.yaml"
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": 0.0}
    path.write_text(yamls.dumped({**raw, **changes}), encoding="utf-8")
    return path


def sweep(node: Path | str, *more: str, launcher: str = "none") -> int:
    """One simulated sweep in the working directory."""
    where = ["--simulate", str(node), "--launcher", launcher]
    return run(["sweep", "--runner", "rccl-tests", "--mode", "cpx-nps4", *where, *SMALL, *more])


def samples(folder: Path = Path("rccltune-session")) -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv(folder / "samples.csv", keep_default_na=False)


def of_walks(table: pd.DataFrame) -> pd.DataFrame:
    """What walks measured, without the untouched site and the controls."""
    launches = Path("rccltune-session") / "launches"
    ids = table["run"].str.partition(".")[0]
    return table[[(launches / name / "schedule").exists() for name in ids]]


def folders(session: Path) -> list[Path]:
    """Launches that were made."""
    return [path for path in (session / "launches").iterdir() if path.is_dir()]


@pytest.fixture(scope="module")
def walked_once(stand_ins: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node without noise, and all that walks measured of it."""
    folder = tmp_path_factory.mktemp("walked")
    assert sweep(quiet(folder), "-o", str(folder / "rccltune-session")) == 0
    return folder


@pytest.fixture
def walked(walked_once: Path, here: Path) -> Path:
    """The same in the working directory; the node's file."""
    shutil.copytree(walked_once, here, dirs_exist_ok=True)
    return here / "node.yaml"


def test_every_time_is_that_of_its_setting(walked: Path) -> None:
    """Without noise each half-row has the node file's own time, to the digits that are printed."""
    node = sources.load_node(walked)
    table = samples()
    forced = table[(table["unusable"] == "") & ~table["setting"].isin(["baseline", "idle"])]
    assert set(forced["setting"]) == {
        *("tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple"),
    }
    # Ten sizes, both placements, three repeats of each setting; one runs beside LL128 as well.
    counts = of_walks(forced).groupby("setting").size().to_dict()
    assert counts.pop("ring/simple") == 2 * 10 * 2 * 3
    assert set(counts.values()) == {10 * 2 * 3}
    is_true(forced, node)


def test_a_sweep_takes_few_launches(walked: Path) -> None:
    """One for each variant; baselines have their own: first, between, last; and two controls."""
    assert len(folders(walked.with_name("rccltune-session"))) == 3 + 3 + 2


def test_both_methods_give_the_same_rules(walked: Path, per_setting: None) -> None:
    """What reaches production does not depend on how it was measured; launches of one setting are many."""
    assert sweep(walked, "-o", "each") == 0
    assert len(folders(walked.with_name("each"))) == 3 + 6 * 3
    rules = []
    for session in ("rccltune-session", "each"):
        assert [run(["fit", session]), run(["emit-config", session])] == [0, 0]
        text = (walked.parent / session / "rccl_tuner_gfx942_cpx-nps4.csv").read_text()
        rules.append([line for line in text.splitlines() if line[:1] not in ("#", "")])
    assert rules[0]
    assert rules[0] == rules[1]


def test_the_first_use_of_a_setting_is_kept_but_not_used(here: Path) -> None:
    """It pays for connections."""
    assert sweep(quiet(here), "--repeats", "1") == 0
    table = samples()
    first = of_walks(table[table["unusable"] == "connecting"])
    used = of_walks(table[table["unusable"] == ""])
    assert len(first) == len(used)
    assert (used["setting"] == "idle").any()


@pytest.mark.parametrize("release", ["rt24", "rtmid", "rt25", "rtnew", "nt"])
def test_every_benchmark_release_can_walk(here: Path, release: str) -> None:
    """Whatever it calls the option, and whatever it warms up first."""
    node = quiet(here)
    raw = yamls.loaded(node.read_text(encoding="utf-8"))
    raw["release"]["benchmark"] = release
    node.write_text(yamls.dumped(raw), encoding="utf-8")
    assert sweep(node, "--repeats", "1", "--setting", "tree/ll") == 0
    table = samples()
    assert len(table[(table["setting"] == "tree/ll") & (table["unusable"] == "")]) == 20


@pytest.mark.mpi
def test_64_processes_walk_as_one(here: Path) -> None:
    """Every rank goes its own way through the schedule, and all go the same."""
    wish = ["--repeats", "1", "--setting", "tree/ll", "--setting", "ring/simple"]
    columns = ["setting", "placement", "nbytes", "time_us", "unusable", "ran"]
    tables = []
    for launcher in ("openmpi", "none"):
        assert sweep("mi300x", *wish, "-o", launcher, launcher=launcher) == 0
        tables.append(samples(here / launcher)[columns].sort_values(columns).reset_index(drop=True))
    pd.testing.assert_frame_equal(*tables)


def test_a_walk_that_hangs_costs_the_setting_at_fault(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All others are measured; more of this is in test_walk_faults.py."""
    node = quiet(here, faults=[{"kind": "hang", "setting": "tree/ll"}])
    assert sweep(node, "--repeats", "1", "--timeout", "4") == 5
    assert lacks(capsys.readouterr().err, "all_reduce", "tree/ll", "2 launches") == []
    table = samples()
    used = of_walks(table[table["unusable"] == ""]).groupby("setting").size().to_dict()
    # Ten sizes, both placements; silence goes along in three walks, a variant each, and
    # ring/simple in those that are compared.
    others = dict.fromkeys(("tree/ll128", "tree/simple", "ring/ll", "ring/ll128"), 20)
    assert used == {**others, "ring/simple": 2 * 20, "idle": 3 * 20}


def test_wrong_results_in_a_walk_cost_their_setting(here: Path) -> None:
    """The samples say whose they are; wrong alone too, it is quarantined."""
    node = quiet(here, faults=[{"kind": "wrong", "setting": "tree/ll", "elements": 3}])
    assert sweep(node, "--repeats", "1") == 5
    table = samples()
    assert set(table[table["unusable"] == "wrong-results"]["setting"]) == {"tree/ll"}
    assert set(table[table["setting"] == "tree/ll"]["unusable"]) == {"wrong-results"}
    assert (table[table["setting"] == "ring/ll"]["unusable"] == "").any()


def test_what_fails_in_two_environments_is_named_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ring/simple runs in that of LL128 too, to compare launches by."""
    node = quiet(here, faults=[{"kind": "wrong", "setting": "ring/simple", "elements": 3}])
    settings = [f"--setting=ring/{protocol}" for protocol in ("simple", "ll", "ll128")]
    assert sweep(node, "--max-bytes", "8K", *settings) == 5
    said = capsys.readouterr().err
    assert said.count("all_reduce ring/simple: it gave wrong results") == 1
    assert "quarantined: 1;" in said


def test_a_finished_walk_has_nothing_left_to_do(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command again reads the same samples from the raw logs."""
    node = quiet(here)
    wish = ["--repeats", "1"]
    assert sweep(node, *wish) == 0
    before = samples()
    (here / "rccltune-session" / "samples.csv").unlink()
    capsys.readouterr()
    assert sweep(node, *wish, "--json") == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["done"]
    pd.testing.assert_frame_equal(before, samples())


def test_passes_that_differ_stop_a_sweep_and_launches_that_do_may(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two H100 under NCCL 2.28.9 stopped here: launches 50 % apart below 512 KiB, passes 3 %."""
    passes = quiet(here, noise={"sigma": 0.3, "launch_sigma": 0.0})
    assert sweep(passes) == 4
    assert lacks(capsys.readouterr().err, "one setting") == []
    assert sweep(quiet(here, noise={"sigma": 0.02, "launch_sigma": 0.3}), "-o", "other") == 0
