"""sweep as typed: what it says, what it refuses, what comes back; tests/measure has what it measures."""

from __future__ import annotations

import json
from pathlib import Path

import made
import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins", "here")
SESSION = Path(made.SESSION)


def sweep(node: Path, *more: str) -> int:
    """One setting in one communicator."""
    return run(["sweep", *made.words(node, "ring/ll"), "--communicators", "1", *more])


def test_a_simulated_session_goes_on_with_the_node_that_it_keeps(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its node file may be gone; the first lines say that no hardware is measured."""
    node = made.node(here / "node.yaml")
    assert sweep(node) == 0
    node.unlink()
    kept = (SESSION / "node.node").read_bytes()
    capsys.readouterr()
    words = made.words("", "ring/ll", "tree/ll")[2:]
    assert run(["sweep", *words]) == 7
    assert "no --simulate is given" in capsys.readouterr().err
    words += ["--simulate", str(SESSION / "node.node"), "--communicators", "1"]
    assert run(["sweep", *words]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"Session: {made.SESSION}"
    assert any("SIMULATED" in line for line in lines[1:3])
    assert (SESSION / "node.node").read_bytes() == kept
    # Wherever it is moved to, its own sweep.yaml leads to the node in it.
    SESSION.rename("moved")
    capsys.readouterr()
    again = ["-c", "moved/sweep.yaml", "-o", "moved", "--communicators", "1"]
    assert run(["sweep", *again, "--plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--simulate", "mi300x-spx-nps1"], 7, "this session was measured with something else"),
        (["--mode", "cpx-nps4"], 4, "is in mode spx-nps1, not cpx-nps4"),
        (["--apply-mode"], 2, "a simulated node is measured"),
    ],
)
def test_another_machine_than_the_sessions_is_refused(
    swept: Path,
    swept_once: Path,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    said: str,
) -> None:
    """What the command line names wins, and is held to what the session is of."""
    before = {p: p.stat().st_mtime_ns for p in swept.rglob("*") if p.is_file()}
    assert sweep(swept_once.parent / "node.yaml", *more) == code
    assert said in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in swept.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--simulate", "mi250"], 2, "unknown simulated node"),
        (["--simulate", "mi300x", "--mode", "qpx-nps1"], 2, "no simulated node"),
        (["--simulate", "mi300x", "--mode", "cpx-nps4", "--channels", "0"], 2, "no whole number"),
        (["--simulate", "mi300x", "--channels", "8,1025", "--plan"], 2, "at most 1024"),
        (["--simulate", "mi300x", "--setting", "ring/ll/1025", "--plan"], 2, "at most 1024"),
        (["--runner", "rccl-tests", "--rccl-tests", "."], 4, "no benchmark"),
        (["--simulate", "mi300x-cpx-nps4", "--plan", "-o", "s.yaml"], 7, "this is a file"),
        (["-c", "s.yaml"], 3, "did you mean 'preset'"),
        (["--min-bytes", "4K", "--max-bytes", "1K", "--simulate", "mi300x"], 2, "is below"),
    ],
)
def test_mistakes_are_named_before_anything_starts(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """What is wrong and what to write instead; no session is made."""
    Path("s.yaml").write_text("presett: cpx-64\n")
    assert run(["sweep", *arguments]) == code
    assert said in capsys.readouterr().err
    assert not SESSION.exists()


def test_json_is_one_object(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However long the sweep was."""
    assert sweep(made.node(here / "node.yaml"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert next(iter(told)) == "format"
    assert told["simulated"] is True
