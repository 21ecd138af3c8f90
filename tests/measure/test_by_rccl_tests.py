"""sweep --runner rccl-tests: one launch for each setting, on the simulated node.

The stand-in programs choose as the real library does, under NCCL_ALGO and NCCL_PROTO too. One
process plays all ranks; real launchers are in tests/launchers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pytest
import yamls

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure.instrument import session_instrument
from rccltune.measure.request import Request
from rccltune.measure.site import SiteRequest
from rccltune.model.errors import CommandLineError
from rccltune.model.vocabulary import RankPlacement
from rccltune.simulate import sources

if TYPE_CHECKING:
    from rccltune.model.measurement import Sweep

Node = Callable[..., Path]
# Six sizes of one collective.
SMALL = ["--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "128K"]


@pytest.fixture(autouse=True)
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory; skip where this install has no stand-in benchmarks."""
    if not (plugin.native_folder() / "sim" / "all_reduce_perf").is_file():
        pytest.skip("this install has no stand-in benchmarks")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The shipped CPX node on eight ranks without noise, with what a test changes."""

    def write(**changes: object) -> Path:
        raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
        raw["scale"] |= {"ranks": 8, "devices_per_oam": 8}
        raw["fill"] = [{"ranks": 8, "placement": "node"}]
        raw["curves"] = [c | {"ranks": 8} for c in raw["curves"] if c.get("placement") == "node"]
        path = tmp_path / "node.yaml"
        path.write_text(yamls.dumped(raw | {"noise": {"sigma": 0.0}} | changes), encoding="utf-8")
        return path

    return write


def sweep(node: Path, *more: str) -> int:
    """One sweep of all_reduce into the working directory."""
    where = ["--simulate", str(node), "--mode", "cpx-nps4", "--launcher", "none"]
    return run(["sweep", "--runner", "rccl-tests", *where, *SMALL, *more])


def samples() -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)


def launched() -> dict[str, Path]:
    """The folder of each setting's launch."""
    found = {}
    for path in Path("rccltune-session/runs").glob("*/run.json"):
        one = json.loads(path.read_text())["stated"]["setting"]
        found[one.get("role") or f"{one['algorithm']}/{one['protocol']}"] = path.parent
    return found


def planned(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What --plan --json printed."""
    plain: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plain


# --- what is launched -----------------------------------------------------------------------------


def test_a_plan_has_the_documents_own_commands(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """AMD's blog of 2026-06-30: all_reduce_perf -b … -e … -f 2 -g 1 under NCCL_ALGO and NCCL_PROTO."""
    assert sweep(node(), "--plan", "--json") == 0
    plan = planned(capsys)
    asked = {
        one["setting"]: (one["environment"].get("NCCL_ALGO"), one["environment"].get("NCCL_PROTO"))
        for one in plan["runs"]
    }
    # Tree with Simple is in the library's patch alone.
    assert asked == {
        "baseline": (None, None),
        "ring/ll": ("Ring", "LL"),
        "ring/simple": ("Ring", "Simple"),
        "tree/ll": ("Tree", "LL"),
    }
    assert len(plan["runs"]) == len(asked)
    program, *options = plan["runs"][0]["argv"]
    assert program.endswith("/all_reduce_perf")
    assert " ".join(options[:8]) == "-b 4096 -e 131072 -f 2 -g 1"
    # What this library leaves out by itself is said with what lets it in.
    assert len(plan["left_out"]) == 3
    forced = ("RCCL_LL128_FORCE_ENABLE=1", "RCCL_FORCE_TREE_SIMPLE=1")
    assert all(any(one in said for one in forced) for said in plan["left_out"])
    assert not Path("rccltune-session").exists()


FORCED = ("--env", "RCCL_LL128_FORCE_ENABLE=1", "--env", "RCCL_FORCE_TREE_SIMPLE=1")


def test_an_environment_is_measured_whole(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """The seeds' way: LL128 forced and the blog's own patch, in every launch of the session."""
    assert sweep(node(), *FORCED, "--plan", "--json") == 0
    own = planned(capsys)["runs"]
    assert {one["setting"] for one in own} == {
        *("baseline", "ring/ll", "ring/ll128", "ring/simple"),
        *("tree/ll", "tree/ll128", "tree/simple"),
    }
    assert {one["environment"]["RCCL_LL128_FORCE_ENABLE"] for one in own} == {"1"}
    assert {one["environment"]["RCCL_FORCE_TREE_SIMPLE"] for one in own} == {"1"}


def test_the_card_s_way_ends_in_rules_and_figures(node: Node) -> None:
    """Six settings of all_reduce with LL128 forced: every verb goes on from their logs."""
    assert sweep(node(), *FORCED) == 0
    table = samples()
    assert set(table["unusable"]) == {""}
    forced = table[table["setting"] != "baseline"]
    # Six sizes, both placements; ring and tree with three protocols. The benchmark's -A says so.
    assert set(forced.groupby("setting").size()) == {12}
    assert (forced["ran"].str.split("/").str[:2].str.join("/") == forced["setting"]).all()
    assert [run([verb, "-q"]) for verb in ("fit", "emit-config", "report")] == [0] * 3
    (rules,) = Path("rccltune-session").glob("rccl_tuner*.csv")
    assert "#@ needs RCCL_LL128_FORCE_ENABLE=1" in rules.read_text()
    assert "seen once" in rules.read_text()
    assert "<figure" in Path("rccltune-session/report.html").read_text(encoding="utf-8")


# --- what counts ----------------------------------------------------------------------------------


def test_what_the_library_does_not_offer_is_not_used(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """NCCL_PROTO=LL128 without its variable: RCCL takes another protocol; the log's column says it."""
    assert sweep(node(), "--setting", "ring/ll128", "--setting", "ring/ll") == 0
    doubts = samples().groupby("setting")["unusable"].agg(set).to_dict()
    assert doubts == {"baseline": {""}, "ring/ll": {""}, "ring/ll128": {"substituted"}}
    assert (
        "all_reduce, 4 KiB to 128 KiB: another setting ran than the one asked for"
        in capsys.readouterr().out
    )


def test_a_log_that_does_not_say_what_ran_is_taken_as_stated(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Benchmarks before -A: the setting is what NCCL_ALGO and NCCL_PROTO say, and that is told."""
    assert sweep(node(release={"rccl": "2.27.7", "benchmark": "rt24"}), "--setting", "ring/ll") == 0
    forced = samples()
    forced = forced[forced["setting"] == "ring/ll"]
    assert set(forced["unusable"]) == set(forced["ran"]) == {""}
    assert "do not print what ran" in capsys.readouterr().err


def test_the_librarys_own_log_is_believed(node: Node) -> None:
    """With its TUNING lines among the benchmark's, as import reads them."""
    release = {"rccl": "2.27.7", "benchmark": "rt24"}
    debug = ("--env", "NCCL_DEBUG=INFO", "--env", "NCCL_DEBUG_SUBSYS=INIT,TUNING")
    assert sweep(node(release=release), "--setting", "ring/ll", *debug) == 0
    forced = samples()
    ran = forced[forced["setting"] == "ring/ll"]["ran"]
    # They name the channels too.
    assert set(ran.str.rpartition("/")[0]) == {"ring/ll"}


def test_the_site_as_it_is_keeps_what_chooses(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its NCCL_PROTO is in force in the baseline, and gone where a setting is forced."""
    monkeypatch.setenv("NCCL_PROTO", "LL")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    assert sweep(node(), "--setting", "ring/simple") == 0
    told = {
        setting: json.loads((own / "environment.json").read_text())
        for setting, own in launched().items()
    }
    assert told["baseline"]["cleared"] == {}
    assert told["ring/simple"]["cleared"] == {"NCCL_PROTO": "LL"}
    assert {one["passed"]["NCCL_SOCKET_IFNAME"] for one in told.values()} == {"eth7"}
    # Without our plugin, and the library says which tuner it uses by itself.
    assert all("NCCL_TUNER_PLUGIN" not in one["added"] for one in told.values())
    assert list(launched()["baseline"].glob("nccl-*.log"))


# --- what is kept ---------------------------------------------------------------------------------


def test_a_launch_that_ended_is_never_repeated(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill loses the launch under way: without its outcome that one is made again, alone."""
    assert sweep(node()) == 0
    times = samples().drop(columns=["run", "process"])
    capsys.readouterr()
    assert sweep(node()) == 0
    assert "everything is measured already" in capsys.readouterr().err

    (launched()["ring/simple"] / "ending.json").unlink()
    assert sweep(node()) == 0
    assert "Sweep: 1 start of all ranks" in capsys.readouterr().err
    by = ["setting", "placement", "nbytes"]
    again = samples().drop(columns=["run", "process"])
    pd.testing.assert_frame_equal(
        again.sort_values(by, ignore_index=True), times.sort_values(by, ignore_index=True)
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"kind": "hang"}, "hung"),
        ({"kind": "crash"}, "crashed"),
        ({"kind": "wrong", "elements": 3}, "gave wrong results"),
    ],
)
def test_a_setting_that_fails_is_excluded_and_the_rest_goes_on(
    node: Node, capsys: pytest.CaptureFixture[str], fault: dict[str, object], words: str
) -> None:
    """With the reason, in the sweep, in the fit and in the rules; the same command tries no more."""
    path = node(faults=[fault | {"setting": "ring/simple"}])
    assert sweep(path, "--timeout", "2") == 5
    said = " ".join(capsys.readouterr().err.split())
    assert f"all_reduce ring/simple {words}" in said
    table = samples()
    assert set(table[table["unusable"] == ""]["setting"]) == {"baseline", "ring/ll", "tree/ll"}
    n_launched = len(launched())
    assert sweep(path, "--timeout", "2") == 5
    assert len(list(Path("rccltune-session/runs").iterdir())) == n_launched == 4
    capsys.readouterr()
    assert run(["emit-config"]) == 0
    (rules,) = Path("rccltune-session").glob("rccl_tuner*.csv")
    assert f"not measured: all_reduce ring/simple: excluded, it {words}" in rules.read_text()
    assert ",ring,simple," not in rules.read_text()


def test_a_launch_that_somebody_killed_is_made_again(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """As runs of the rank program are: no setting sends SIGKILL, until it has happened thrice."""
    path = node(faults=[{"kind": "crash", "how": "kill", "setting": "ring/simple"}])
    assert sweep(path, "--setting", "ring/simple", "--setting", "tree/ll") == 5
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("from outside: tried once more") == 2
    assert "it was killed in 3 launches" in said
    assert set(samples()["setting"]) == {"baseline", "tree/ll"}


def test_two_failures_in_a_row_may_be_the_machines(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing more is started on GPUs that a hang may have wedged; the same command goes on."""
    path = node(faults=[{"kind": "crash", "setting": "ring/simple"}])
    arms = [f"--setting={one}" for one in ("ring/simple", "ring/simple/8", "tree/ll")]
    assert sweep(path, *arms) == 5
    said = " ".join(capsys.readouterr().err.split())
    assert "2 settings failed one after the other" in said
    assert "tree/ll" not in launched()
    assert sweep(path, *arms) == 5
    assert "tree/ll" in launched()


def test_where_the_library_as_it_is_fails_nothing_is_blamed_on_settings(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the same command tries it again."""
    path = node(faults=[{"kind": "crash"}])
    assert sweep(path) == 5
    assert "with nothing forced" in " ".join(capsys.readouterr().err.split())
    assert sweep(node()) == 0


def test_repetitions_are_the_rank_programs(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """One launch a setting; verify repeats, in communicators."""
    assert sweep(node(), "--communicators", "2") == 2
    assert "--communicators is rccltune-perf's" in capsys.readouterr().err


def test_a_session_of_the_rank_program_goes_on_with_it_alone(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two programs are no one session."""
    where = ["--simulate", str(node()), "--mode", "cpx-nps4", "--setting", "ring/ll"]
    assert run(["sweep", *where, *SMALL, "--communicators", "1"]) == 0
    assert sweep(node(), "--setting", "ring/ll") == 7
    assert "runner: perf in it, rccl-tests now" in capsys.readouterr().err


def test_where_ranks_were_in_several_communicators_verify_says_which_session_it_can_verify() -> (
    None
):
    """It has no --runner: the rank program is what verifies."""
    site = SiteRequest(placement=RankPlacement.EVERY_OAM, runner="rccl-tests")
    request = Request(sweep=cast("Sweep", None), site=site, timeout_s=None)
    with pytest.raises(CommandLineError, match="'every-oam' has several") as told:
        session_instrument(request, Path("s"))
    assert "--rank-placement one-oam" in str(told.value.hint)
    assert "--runner" not in str(told.value.hint)
