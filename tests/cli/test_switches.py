"""Libraries that are too old for our plugin: forced through their own switches, proven by their log."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import yamls
from truths import is_true
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.machine import overrides
from rccltune.session import store
from rccltune.simulate import sources

SMALL = [
    "--collective",
    "all_reduce",
    "--min-bytes",
    "1K",
    "--max-bytes",
    "16K",
    "--communicators",
    "1",
]
pytestmark = pytest.mark.usefixtures("stand_ins", "here")


def old_node(folder: Path, *, benchmark: str = "rt24", **changes: object) -> Path:
    """mi300x with ROCm 6.2's RCCL, without noise, and with these changes."""
    path = folder / "node.yaml"
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": 0.0}
    raw["release"] = {"rccl": "2.20.5", "benchmark": benchmark}
    path.write_text(yamls.dumped({**raw, **changes}), encoding="utf-8")
    return path


def sweep(node: Path, *more: str, launcher: str = "none") -> int:
    """One simulated sweep in the working directory."""
    where = ["--simulate", str(node), "--launcher", launcher]
    return run(["sweep", "--runner", "rccl-tests", "--mode", "cpx-nps4", *where, *SMALL, *more])


def samples(folder: Path = Path("rccltune-session")) -> pd.DataFrame:
    """samples.csv, without first passes, which count nowhere."""
    table = pd.read_csv(folder / "samples.csv", keep_default_na=False)
    return table[table.unusable != "connecting"]


def forced(table: pd.DataFrame) -> pd.DataFrame:
    """Without the untouched site's."""
    return table[table["setting"] != "baseline"]


def environments() -> dict[tuple[str, int], dict[str, str]]:
    """Environment that was added to each launch, by its setting and repeat."""
    found = {}
    for one, _ in store.read_launches(Path("rccltune-session")):
        assert one.schedule is not None
        found[str(one.schedule.settings[0]), one.repeat] = dict(one.environment)
    return found


# --- what runs ----------------------------------------------------------------------------------


def test_every_time_is_that_of_its_setting_and_proven(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without noise each half-row has the node file's own time; the log says what ran."""
    path = old_node(here)
    assert sweep(path) == 0

    said = capsys.readouterr().err
    assert lacks(said, "NCCL_ALGO", "NCCL_PROTO", "RCCL", "2.20.5") == []
    assert said.count("looks for no tuner plugin") == 1
    node = sources.load_node(path)
    table = forced(samples())
    assert len(table) == 6 * 5 * 2
    assert set(table["unusable"]) == {""}
    assert (table["ran"] == table["setting"]).all()
    is_true(table, node)


def test_nothing_of_ours_is_loaded_and_all_arms_are_told_alike(here: Path) -> None:
    """The untouched launches write the same log, so that its cost is in every time."""
    assert sweep(old_node(here), "--setting", "ring/ll128", "--setting", "tree/ll/16") == 0

    arms = environments()
    assert set(arms) == {
        *(("baseline", repeat) for repeat in range(3)),
        *(("ring/ll128", 0), ("tree/ll/16", 0)),
    }
    for (name, _), variables in arms.items():
        assert not [n for n in variables if n.startswith(("NCCL_TUNER", "RCCLTUNE_TRACE"))]
        assert variables["NCCL_DEBUG"] == "INFO"
        assert "TUNING" in variables["NCCL_DEBUG_SUBSYS"]
        assert ("NCCL_ALGO" in variables) == (name != "baseline")
    ring = arms["ring/ll128", 0]
    assert (ring["NCCL_ALGO"], ring["NCCL_PROTO"]) == ("Ring", "LL128")
    channels = [arms["tree/ll/16", 0][f"NCCL_{word}_NCHANNELS"] for word in ("MIN", "MAX")]
    assert channels == ["16", "16"]
    assert not list(here.glob("rccltune-session/launches/*/forced.csv"))


def test_channels_that_the_communicator_does_not_get_are_not_believed(here: Path) -> None:
    """A CPX device has 38 at most; a minimum above is dropped (facts of RCCL's connect.cc)."""
    wish = [word for n in (16, 64) for word in ("--setting", f"ring/simple/{n}")]
    assert sweep(old_node(here), *wish) == 0
    table = forced(samples())
    assert set(table[table["setting"] == "ring/simple/16"]["unusable"]) == {""}
    assert set(table[table["setting"] == "ring/simple/64"]["unusable"]) == {"substituted"}


def test_what_the_library_refuses_is_doubted(here: Path) -> None:
    """Here it runs ring/ll where tree/ll was asked for, at 4 KiB alone."""
    fault = {"kind": "substitute", "setting": "tree/ll", "bytes": [4096, 4096], "with": "ring/ll"}
    assert sweep(old_node(here, faults=[fault]), "--setting", "tree/ll") == 0

    table = forced(samples())
    doubted = table[table["unusable"] != ""]
    assert set(doubted["nbytes"]) == {4096}
    assert set(zip(doubted["unusable"], doubted["ran"], strict=True)) == {
        ("substituted", "ring/ll")
    }
    assert set(table[table["nbytes"] != 4096]["ran"]) == {"tree/ll"}


def test_sizes_that_another_path_takes_are_doubted(here: Path) -> None:
    """MSCCL's have no line in the log."""
    bypass = {"path": "msccl", "collective": "all_reduce", "bytes": [0, 4096]}
    curve = {
        "collective": "all_reduce",
        "setting": "msccl",
        "kind": "modelled",
        "source": "a test",
        "points": [[8, 20], [1048576, 300]],
    }
    path = old_node(here)
    raw = yamls.loaded(path.read_text(encoding="utf-8"))
    raw["bypasses"] = [bypass]
    raw["curves"].append(curve)
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    assert sweep(path, "--setting", "tree/ll") == 0

    table = forced(samples())
    bypassed = table[table["unusable"] == "bypassed"]
    assert set(bypassed["nbytes"]) == {1024, 2048, 4096}
    assert set(table[table["unusable"] == ""]["nbytes"]) == {8192, 16384}


@pytest.mark.mpi
def test_64_processes_are_proven_as_one(here: Path) -> None:
    """Only rank 0 writes what it chose."""
    tables = []
    columns = ["setting", "placement", "nbytes", "time_us", "unusable", "ran"]
    for launcher in ("openmpi", "none"):
        wish = ["--setting", "tree/ll/16", "-o", launcher]
        assert sweep(old_node(here), *wish, launcher=launcher) == 0
        tables.append(samples(here / launcher)[columns].sort_values(columns).reset_index(drop=True))
    pd.testing.assert_frame_equal(*tables)
    assert set(tables[0]["unusable"]) == {""}


# --- what the site says -------------------------------------------------------------------------


def test_a_site_that_logs_by_itself_is_left_alone(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then nothing says what ran, nothing forced counts, and the way out is told beforehand."""
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    assert sweep(old_node(here), "--setting", "tree/ll") == 0
    said = capsys.readouterr().err
    assert lacks(said, "Unset", "NCCL_DEBUG") == []
    assert set(forced(samples())["unusable"]) == {"unproven"}
    assert "NCCL_DEBUG" not in environments()["tree/ll", 0]


@pytest.mark.parametrize(
    ("library", "letters", "variables", "tells", "word"),
    [
        ("RCCL 2.20.5", "bef", ["NCCL_NET"], True, "a little longer"),
        ("NCCL 2.20.3", "bef", [], True, "a little longer"),
        ("RCCL 2.20.5", "befA", ["NCCL_DEBUG"], False, "columns"),
        ("RCCL 2.18.6", "befA", [], False, "columns"),
        ("RCCL 2.20.5", "bef", ["NCCL_DEBUG_FILE"], False, "NCCL_DEBUG_FILE"),
        ("RCCL 2.18.6", "bef", [], False, "Measure with a newer library"),
        ("NCCL 2.19.4", "bef", ["NCCL_DEBUG"], False, "Measure with a newer library"),
    ],
)
def test_what_will_prove_it_is_told_beforehand(
    library: str, letters: str, variables: list[str], tells: bool, word: str
) -> None:
    """Columns where there are some, the log where it says it and is ours to ask for."""
    said = overrides.how_to_prove(library, letters, variables)
    assert said[0] is tells
    assert word in said[1]


def test_columns_need_no_log(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the benchmark prints what ran, calls are not slowed down by writing."""
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    assert sweep(old_node(here, benchmark="rtnew"), "--setting", "tree/ll") == 0
    table = forced(samples())
    assert set(table["unusable"]) == {""}
    assert all(text.startswith("tree/ll/") for text in table["ran"])
    assert "NCCL_DEBUG_FILE" not in environments()["tree/ll", 0]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (["--setting", "silent"], "a plugin that answers nothing must be loaded"),
    ],
)
def test_what_needs_a_plugin_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], wish: list[str], why: str
) -> None:
    """One launch for many, and silence."""
    code = sweep(old_node(here), *wish)
    assert why in capsys.readouterr().err
    assert code == (4 if "one-launch" in wish else 0)


# --- what comes out -----------------------------------------------------------------------------


def test_the_rules_say_how_they_were_measured(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library measured cannot use them: a line in the file, and a notice."""
    assert sweep(old_node(here)) == 0
    assert run(["fit"]) == 0
    capsys.readouterr()
    assert run(["emit-config", "--baseline", "ring/simple", "--json", "-o", "-"]) == 0
    done = json.loads(capsys.readouterr().out)
    comments = " ".join(line[2:] for line in done["text"].splitlines() if line.startswith("# "))
    assert lacks(comments, "NCCL_ALGO", "NCCL_PROTO") == []
    assert [n["message"] for n in done["notices"] if n["caution"] == "forced-by-switches"]
    # A rule is the same whichever way its setting was forced.
    assert "allreduce,1024," in done["text"]
    assert "NCCL_ALGO=" not in done["text"]


@pytest.mark.usefixtures("per_setting")
def test_a_session_of_the_plugin_says_nothing_of_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with NCCL_ALGO in every arm, which is the user's own."""
    node = old_node(here)
    raw = yamls.loaded(node.read_text(encoding="utf-8"))
    raw["release"]["rccl"] = "2.28.3"
    node.write_text(yamls.dumped(raw), encoding="utf-8")
    assert sweep(node, "--env", "NCCL_ALGO=Tree,Ring") == 0
    assert "looks for no tuner" not in capsys.readouterr().err
    assert run(["emit-config", "--baseline", "ring/simple", "-o", "-"]) == 0
    assert "forced through" not in "".join(capsys.readouterr())


# --- which library ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "known_as"),
    [
        ("RCCL 2.18.6+hip6.1", "RCCL 2.18.6"),
        ("RCCL 2.20.5+hip6.2", "RCCL 2.20.5"),
        ("RCCL 2.21.5-HEAD:0cbce2a", None),
        ("RCCL 2.30.4", None),
        ("NCCL 2.20.5+cuda12.4", "NCCL 2.20.5"),
        ("NCCL 2.9.9+cuda11.3", "NCCL 2.9.9"),
        ("NCCL 2.21.5+cuda12.4", None),
        ("something else", None),
        (None, None),
    ],
)
def test_the_first_releases_with_a_tuner_of_ours(library: str | None, known_as: str | None) -> None:
    """ROCm 6.3 and NCCL 2.21 look for version 2 of the interface; unknown is taken for newer."""
    assert overrides.tunerless(library) == known_as


@pytest.fixture
def bench(here: Path) -> list[str]:
    """Benchmarks of an old library behind a script: what they load cannot be seen."""
    folder = here / "bench"
    folder.mkdir()
    script = folder / "all_reduce_perf"
    script.write_text(f'#!/bin/sh\nexec {plugin.native_folder() / "sim/all_reduce_perf"} "$@"\n')
    script.chmod(0o755)
    compiled = here / "x.node"
    compiled.write_bytes(sources.compile_node(old_node(here)))
    wish = [
        "sweep",
        "--runner",
        "rccl-tests",
        "--rccl-tests",
        str(folder),
        "--np",
        "64",
        "--launcher",
        "none",
        *SMALL,
    ]
    for pair in (f"RCCLTUNE_SIM_NODE={compiled}", "RCCLTUNE_SIM_RANKS=64"):
        wish += ["--env", pair]
    return [*wish]


def test_an_unknown_library_is_taken_for_one_with_a_tuner(
    bench: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first launch that leaves no trace says why that may be, and what to do."""
    assert run([*bench, "--setting", "tree/ll"]) == 5
    said = " ".join(capsys.readouterr().err.split())
    assert lacks(said, "the plugin") == []
    assert lacks(said, "RCCL", "2.21.5", "ROCm", "6.3", "NCCL", "2.21") == []
    assert "--librccl" in said


def test_naming_the_library_is_enough(bench: list[str], here: Path) -> None:
    """Its file says how old it is. Its model leaves Tree with Simple out on one node."""
    library = here / "lib" / "librccl.so.1"
    library.parent.mkdir()
    library.write_bytes(b"\x7fELF\0RCCL version 2.20.5+hip6.2\0")
    wish = ["--setting", "tree/ll", "--setting", "tree/simple"]
    assert run([*bench, *wish, "--librccl", str(library)]) == 0
    table = forced(samples())
    assert set(table[table["setting"] == "tree/ll"]["unusable"]) == {""}
    refused = table[table["setting"] == "tree/simple"]
    assert set(refused["unusable"]) == {"ineligible"}
    assert all(text.startswith("ring/") for text in refused["ran"])
