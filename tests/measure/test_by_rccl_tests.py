"""sweep --runner rccl-tests: one launch for each setting and environment, on the simulated node.

The stand-in programs choose as the real library does, under NCCL_ALGO and NCCL_PROTO too. One
process plays all ranks; real launchers are in tests/launchers, failures in tests/cli.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yamls

from rccltune import plugin
from rccltune.cli import run
from rccltune.simulate import sources

Node = Callable[..., Path]
PAIRS = ["ring/ll", "ring/simple", "tree/ll", "tree/simple"]
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


def sweep(node: Path, *more: str, n: int = 1, launcher: str = "none") -> int:
    """One sweep of all_reduce into the working directory."""
    where = ["--simulate", str(node), "--mode", "cpx-nps4", "--launcher", launcher]
    words = [*SMALL, "--communicators", str(n), *more]
    return run(["sweep", "--runner", "rccl-tests", *where, *words])


def samples() -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)


def records(name: str) -> list[dict[str, Any]]:
    """A file of every launch."""
    folder = Path("rccltune-session/launches")
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"*/{name}"))]


def setting_of(launch: dict[str, Any]) -> str:
    """The setting that a launch.json asks for, as a rule file has it."""
    one = launch["settings"][0]
    return one.get("role") or f"{one['algorithm']}/{one['protocol']}"


def planned(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What --plan --json printed."""
    plain: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plain


# --- what is launched -----------------------------------------------------------------------------


def test_a_plan_has_the_documents_own_commands(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """AMD's blog of 2026-06-30: all_reduce_perf -b … -e … -f 2 -g 1 under NCCL_ALGO and NCCL_PROTO."""
    assert sweep(node(), "--plan", "--json", n=2) == 0
    plan = planned(capsys)
    assert Counter(one["setting"] for one in plan["launches"]) == {
        "baseline": 2,
        # Our plugin, answering nothing, and nothing forced: where is a tuner asked at all?
        "silent": 1,
        # Tree with Simple is in the library's patch alone.
        **dict.fromkeys(PAIRS[:3], 2),
    }
    asked = {
        one["setting"]: (one["environment"].get("NCCL_ALGO"), one["environment"].get("NCCL_PROTO"))
        for one in plan["launches"]
    }
    assert asked == {
        "baseline": (None, None),
        "silent": (None, None),
        "ring/ll": ("Ring", "LL"),
        "ring/simple": ("Ring", "Simple"),
        "tree/ll": ("Tree", "LL"),
    }
    program, *options = plan["launches"][0]["argv"]
    assert program.endswith("/all_reduce_perf")
    assert " ".join(options[:8]) == "-b 4096 -e 131072 -f 2 -g 1"
    # The baseline is the site as it is, without our plugin.
    assert "NCCL_TUNER_PLUGIN" not in plan["launches"][0]["environment"]
    # What this library leaves out by itself is said with what lets it in.
    assert len(plan["left_out"]) == 3
    forced = ("RCCL_LL128_FORCE_ENABLE=1", "RCCL_FORCE_TREE_SIMPLE=1")
    assert all(any(one in said for one in forced) for said in plan["left_out"])
    assert not Path("rccltune-session").exists()


FORCED = ("--env", "RCCL_LL128_FORCE_ENABLE=1", "--env", "RCCL_FORCE_TREE_SIMPLE=1")


def test_an_environment_is_measured_whole(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    """The seeds' way: LL128 forced and the blog's own patch, in every launch of the session."""
    assert sweep(node(), *FORCED, "--plan", "--json") == 0
    own = planned(capsys)["launches"]
    assert {one["setting"] for one in own} == {
        *("baseline", "silent", "ring/ll", "ring/ll128", "ring/simple"),
        *("tree/ll", "tree/ll128", "tree/simple"),
    }
    assert {one["environment"]["RCCL_LL128_FORCE_ENABLE"] for one in own} == {"1"}
    assert {one["environment"]["RCCL_FORCE_TREE_SIMPLE"] for one in own} == {"1"}


# --- what counts ----------------------------------------------------------------------------------


def test_a_time_counts_where_the_setting_ran(node: Node) -> None:
    """Our plugin, answering nothing, saw what each library would take at each size."""
    assert sweep(node(), *FORCED) == 0
    table = samples()
    assert set(table["unusable"]) == {""}
    forced = table[~table["setting"].isin(["baseline", "idle"])]
    assert (forced["ran"].str.split("/").str[:2].str.join("/") == forced["setting"]).all()
    # Six sizes, both placements; ring and tree with three protocols.
    assert set(forced.groupby("setting").size()) == {12}
    assert len(forced) == 12 * 6
    untouched = [one for one in records("launch.json") if setting_of(one) == "baseline"]
    assert all("NCCL_TUNER_PLUGIN" not in dict(one["environment"]) for one in untouched)


def test_what_the_library_does_not_offer_is_not_used(node: Node) -> None:
    """NCCL_PROTO=LL128 without its variable: RCCL takes another protocol and says nothing."""
    assert sweep(node(), "--setting", "ring/ll128", "--setting", "ring/ll") == 0
    doubts = samples().groupby("setting")["unusable"].agg(set).to_dict()
    assert doubts == {
        **{name: {""} for name in ("baseline", "idle", "ring/ll")},
        "ring/ll128": {"bypassed"},
    }


def test_what_asks_no_tuner_is_not_used(node: Node) -> None:
    """all_gather up to 4 MiB takes a path of its own in this release, whatever is forced."""
    words = ["--collective", "all_gather", "--max-bytes", "16M", "--min-bytes", "1M"]
    assert sweep(node(), *words, "--setting", "ring/simple") == 0
    table = samples()
    forced = table[(table["collective"] == "all_gather") & (table["setting"] == "ring/simple")]
    by_size = forced.groupby("nbytes")["unusable"].agg(set).to_dict()
    assert by_size == {
        **{n << 20: {"bypassed"} for n in (1, 2, 4)},
        **{n << 20: {""} for n in (8, 16)},
    }


def test_channels_are_seen_in_the_librarys_log(node: Node) -> None:
    """NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS; a communicator tells how many it has."""
    assert sweep(node(), "--setting", "ring/ll/8") == 0
    forced = samples()
    forced = forced[forced["setting"] == "ring/ll/8"]
    assert set(forced["ran"]) == {"ring/ll/8"}
    assert set(forced["unusable"]) == {""}


@pytest.mark.parametrize("rccl", ["2.20.5", "2.21.5", "2.22.3", "2.27.7"])
def test_every_library_says_somewhere_what_it_ran(node: Node, rccl: str) -> None:
    """2.20.5 loads no plugin, 2.21.5 shows it no costs: their own logs say it."""
    release = {"rccl": rccl, "benchmark": "rt24"}
    assert sweep(node(release=release), "--setting", "ring/ll") == 0
    forced = samples()
    forced = forced[forced["setting"] == "ring/ll"]
    assert set(forced["unusable"]) == {""}
    assert set(forced["ran"]) == {"ring/ll"}


def test_the_site_as_it_is_keeps_what_chooses(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its NCCL_PROTO is in force in the baseline, and gone where a setting is forced."""
    monkeypatch.setenv("NCCL_PROTO", "LL")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    assert sweep(node(), "--setting", "ring/simple") == 0
    cleared = {
        setting_of(json.loads((folder / "launch.json").read_text())): json.loads(
            (folder / "environment.json").read_text()
        )
        for folder in Path("rccltune-session/launches").iterdir()
    }
    assert cleared["baseline"]["cleared"] == {}
    assert cleared["ring/simple"]["cleared"] == {"NCCL_PROTO": "LL"}
    assert {one["passed"]["NCCL_SOCKET_IFNAME"] for one in cleared.values()} == {"eth7"}


# --- what is kept ---------------------------------------------------------------------------------


def test_a_launch_that_ended_is_never_repeated(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill loses the launch under way: without its outcome that one is made again, alone."""
    assert sweep(node(), n=2) == 0
    before = Path("rccltune-session/samples.csv").read_bytes()
    capsys.readouterr()
    assert sweep(node(), n=2) == 0
    assert "everything is measured already" in capsys.readouterr().err

    victim = sorted(Path("rccltune-session/launches").iterdir())[3]
    (victim / "outcome.json").unlink()
    assert sweep(node(), n=2) == 0
    assert "1 launch to make" in capsys.readouterr().err
    assert Path("rccltune-session/samples.csv").read_bytes() == before
    assert list(victim.glob("earlier-1/stdout.log"))


def test_a_session_of_the_rank_program_goes_on_with_it_alone(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two programs are no one session."""
    where = ["--simulate", str(node()), "--mode", "cpx-nps4", "--setting", "ring/ll"]
    assert run(["sweep", *where, *SMALL, "--communicators", "1"]) == 0
    assert sweep(node(), "--setting", "ring/ll") == 7
    assert "runner: perf in it, rccl-tests now" in capsys.readouterr().err
