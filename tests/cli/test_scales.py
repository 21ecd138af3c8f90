"""Rules for scales that were not measured: from sweeps of a node whose links are made up."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from scale_nodes import SETTINGS, SIZES, Links, node_file, true_us
from wording import lacks

from rccltune import simulate
from rccltune.cli import run

RANKS = (8, 16, 32)
EMIT = ["--extrapolate", "--scales", "1x64"]
# What the file says of a scale that nobody measured; sizes beyond the measured have other words.
PREDICTED = "extrapolated from"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A node file that says what 64 ranks would take, too."""
    path = tmp_path_factory.mktemp("links") / "node.yaml"
    path.write_text(node_file(Links()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def sessions(stand_ins: None, node: Path) -> list[str]:
    """Sweeps of 8, 16 and 32 ranks."""
    return [swept(node, n_ranks) for n_ranks in RANKS]


def swept(node: Path, n_ranks: int) -> str:
    """A session of so many ranks, all in one process."""
    folder = node.parent / f"ranks-{n_ranks}"
    command = [
        "sweep",
        "--runner",
        "rccl-tests",
        "--mode",
        "cpx-nps4",
        "--simulate",
        str(node),
        "--launcher",
        "none",
    ]
    command += ["--np", str(n_ranks), "-o", str(folder), "--collective", "all_reduce"]
    command += ["--exhaustive", "--min-bytes", "1K", "--max-bytes", "256M"]
    assert run(command) == 0
    return str(folder)


@pytest.fixture
def alone(node: Path, sessions: list[str], here: Path) -> str:
    """A copy of the session of 8 ranks."""
    shutil.copytree(sessions[0], here / "alone")
    return str(here / "alone")


def rules_of(path: Path) -> list[dict[str, str]]:
    """Rows of a rule file by column."""
    text = path.read_text(encoding="utf-8")
    columns = next(line for line in text.splitlines() if line.startswith("# columns: "))
    names = columns.removeprefix("# columns: ").split(",")
    rows = csv.reader(line for line in text.splitlines() if not line.startswith("#"))
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_rules_for_64_ranks_beat_the_library_in_truth(
    node: Path, sessions: list[str], here: Path
) -> None:
    """They are keyed by scale, say what they are, and lose at no size of the node file's truth."""
    assert run(["emit-config", *sessions, *EMIT, "-o", "rules.csv"]) == 0
    text = (here / "rules.csv").read_text(encoding="utf-8")
    rows = [row for row in rules_of(here / "rules.csv") if row["nRanks"] == "64"]
    assert {(row["nNodes"], row["nRanks"]) for row in rows} == {("1", "64")}
    plain = " ".join(text.replace("\n# ", " ").split())
    assert lacks(plain, "8", "16", "32 ranks", "1 node", "extrapolated") == []
    assert "sizes predicted" in plain
    assert "#@ section allreduce nodes=1 ranks=64" in text

    simulated = simulate.load_node(node)

    def truth(setting: str, nbytes: int) -> float:
        found = simulate.truth(simulated, "all_reduce", setting, nbytes, ranks=64)
        assert found is not None
        return found

    covered = 0
    for nbytes in [1 << power for power in range(10, 29)]:
        row = next((r for r in rows if int(r["minbytes"]) <= nbytes <= int(r["maxbytes"])), None)
        if row is not None:
            # The library takes ring/ll up to 256 KiB and ring/simple above (docs/node-file.md).
            untouched = truth("ring/ll" if nbytes <= 256 << 10 else "ring/simple", nbytes)
            assert truth(f"{row['algorithm']}/{row['protocol']}", nbytes) < untouched, row
            covered += 1
    # tree/ll is a third faster at all small sizes: an empty file would be no answer.
    assert covered >= 8


def test_nothing_is_predicted_unasked(
    sessions: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither without a word nor by --extrapolate or --scales alone."""
    assert run(["emit-config", *sessions, "-o", "plain.csv"]) == 0
    assert run(["emit-config", *sessions, "--extrapolate", "-o", "beyond.csv"]) == 0
    for name in ("plain.csv", "beyond.csv"):
        assert all(row["nRanks"] != "64" for row in rules_of(here / name))
        assert PREDICTED not in (here / name).read_text(encoding="utf-8")
    capsys.readouterr()
    for verb in ("emit-config", "plot"):
        assert run([verb, *sessions, "--scales", "1x64"]) == 2
        assert "add --extrapolate" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["64", "1x", "x64", "1x64;2x128", "2x1"])
def test_a_scale_is_nodes_and_ranks_of_all_of_them(
    text: str, alone: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anything else is a bad command line."""
    assert run(["emit-config", alone, "--extrapolate", "--scales", text, "-o", "-"]) == 2
    assert "scale" in capsys.readouterr().err


def test_two_nodes_from_one_give_holes_and_the_reason(
    sessions: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing about the network was measured, so that no gain is known to exceed its error."""
    scales = ["--extrapolate", "--scales", "2x128"]
    assert run(["emit-config", *sessions, *scales, "-o", "rules.csv", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    for sheet in [said, *said["beside"]]:
        assert all(row["nRanks"] != "128" for row in rules_of(Path(sheet["path"])))
    told = next(one for one in said["notices"] if one["caution"] == "extrapolated")
    assert told["where"] == "128 ranks on 2 nodes"
    assert "nothing measured shows a hop across nodes" in told["message"]
    assert "the bandwidth across nodes" in told["message"]


def test_a_measured_scale_keeps_its_own_rules(
    sessions: list[str], node: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked for a scale that is there, it says so and predicts nothing."""
    measured = swept(node, 64)
    capsys.readouterr()
    assert run(["emit-config", *sessions, measured, *EMIT, "-o", "rules.csv"]) == 0
    assert lacks(capsys.readouterr().err, "64 ranks", "1 node", "was measured") == []
    assert PREDICTED not in (here / "rules.csv").read_text(encoding="utf-8")
    # And with a whole node among the sessions, part of one is refused.
    bad = ["--extrapolate", "--scales", "2x64", "-o", "other.csv"]
    assert run(["emit-config", *sessions, measured, *bad]) == 2
    assert lacks(capsys.readouterr().err, "64 devices", "a node") == []


def test_a_scale_measured_in_one_placement_is_not_predicted_for_all(
    sessions: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rules for 8 ranks of one OAM stay those of that placement."""
    command = ["emit-config", *sessions, "--extrapolate", "--scales", "1x8,1x16"]
    assert run([*command, "-o", "rules.csv"]) == 0
    told = capsys.readouterr().err
    assert lacks(told, "8 ranks", "1 node", "was measured") == []
    assert lacks(told, "16 ranks", "1 node", "was measured") == []
    for path in here.glob("rules*.csv"):
        assert PREDICTED not in path.read_text(encoding="utf-8")


def test_two_machines_have_no_model_in_common(
    alone: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither do two modes of one machine."""
    rows = [f"allreduce,{n},ring,ll,-1,1,16,{n / 1e3:.3f}" for n in SIZES]
    header = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,latency_us"
    (here / "table.csv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    assert run(["import", "table.csv", "-o", "other", "--mode", "spx-nps1"]) == 0
    capsys.readouterr()
    for verb in (["fit"], ["emit-config", *EMIT, "-o", "-"], ["plot", *EMIT, "-o", "figures"]):
        assert run([verb[0], alone, "other", *verb[1:]]) == 7
        assert lacks(capsys.readouterr().err, "two machines") == []


def test_fit_says_what_each_scale_is_missed_by(
    sessions: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model of every setting, with the terms told apart and the errors; also for programs."""
    assert run(["fit", *sessions]) == 0
    text = capsys.readouterr().out
    assert "Told apart in" in text
    assert lacks(text, "OAM", "OAMs") == []
    assert all(f" 1x{n_ranks}" in text for n_ranks in RANKS)
    # Eight ranks fill one OAM, whose links are the slowest nowhere else.
    assert re.search(r"\*\d+ %, [+-]\d+ %", text)
    assert run(["fit", *sessions, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["sessions"]) == len(RANKS)
    named = {
        f"{one['key']['setting']['algorithm']}/{one['key']['setting']['protocol']}"
        for one in said["scales"]
        if "algorithm" in one["key"]["setting"]
    }
    assert named == set(SETTINGS)
    assert {error["span"]["scale"]["n_ranks"] for error in said["scales"][0]["errors"]} == {*RANKS}


def imported(folder: Path, ranks: tuple[int, ...], settings: tuple[str, ...]) -> None:
    """A session named ``one`` of a table with several scales."""
    lines = ["collective,size_bytes,algorithm,protocol,channels,nodes,ranks,latency_us"]
    for n_ranks in ranks:
        for setting in settings:
            cells = ",".join(setting.split("/"))
            lines += [
                f"allreduce,{n},{cells},-1,1,{n_ranks},{true_us(Links(), setting, n_ranks, n):.3f}"
                for n in SIZES
            ]
    (folder / "table.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert run(["import", "table.csv", "-o", "one", "--mode", "cpx-nps4"]) == 0


def test_one_session_may_hold_several_scales(here: Path) -> None:
    """Imported rows of three scales in one table serve like three sweeps, with a named baseline."""
    imported(here, RANKS, SETTINGS)
    assert run(["emit-config", "one", *EMIT, "--baseline", "ring/simple", "-o", "rules.csv"]) == 0
    rows = [row for row in rules_of(here / "rules.csv") if row["nRanks"] == "64"]
    assert rows
    for row in rows:
        for nbytes in (n for n in SIZES if int(row["minbytes"]) <= n <= int(row["maxbytes"])):
            chosen = true_us(Links(), f"{row['algorithm']}/{row['protocol']}", 64, nbytes)
            assert chosen < true_us(Links(), "ring/simple", 64, nbytes), (row, nbytes)


def test_figures_of_predictions_say_so(here: Path) -> None:
    """Beside those of what was measured; the mark is in the picture and in its metadata."""
    imported(here, (16, 32), ("ring/ll", "ring/simple"))
    command = ["plot", "one", *EMIT, "--baseline", "ring/simple", "--format", "svg"]
    assert run([*command, "-o", "figures"]) == 0
    drawn = (here / "figures/all_reduce-1n64r-speedup.svg").read_text(encoding="utf-8")
    assert "extrapolated from measured" in drawn
    own = (here / "figures/all_reduce-1n16r-speedup.svg").read_text(encoding="utf-8")
    assert "extrapolated" not in own
