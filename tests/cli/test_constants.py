"""emit-config --format constants: an experiment, refused where nobody takes it or it does harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yamls
from wording import lacks

from rccltune import simulate
from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins", "here")


def swept(release: str) -> None:
    """The simulated node with another release, without noise."""
    raw = yamls.loaded(simulate.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["noise"] = {"sigma": 0.0}
    raw["release"]["rccl"] = release
    path = Path("node.yaml")
    path.write_text(yamls.dumped(raw), encoding="utf-8")
    words = ["--mode", "cpx-nps4", "--simulate", str(path.resolve()), "--launcher", "none"]
    words += ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "16M"]
    words += ["--factor", "4", "--repeats", "1", "--method", "one-launch", "--exhaustive"]
    assert run(["sweep", "--runner", "rccl-tests", *words, "-q"]) == 0


def test_a_release_that_reads_no_constants_gets_none(capsys: pytest.CaptureFixture[str]) -> None:
    """RCCL took them from rocm-systems #3757 on: exit code 4 for 2.28.3, and no file."""
    swept("2.28.3")
    assert run(["emit-config", "--format", "constants"]) == 4
    said = capsys.readouterr().err
    assert "RCCL 2.28.3" in said
    assert "2.30" in said
    assert not list(Path("rccltune-session").glob("*.constants"))


def test_constants_are_held_against_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """Written where the library would choose nothing worse, refused (9) where it would."""
    swept("2.30.4")
    capsys.readouterr()
    code = run(["emit-config", "--format", "constants", "--tolerance", "99", "--json"])
    made = json.loads(capsys.readouterr().out)
    assert code == 0
    assert Path(made["path"]).read_text(encoding="utf-8") == made["text"]
    assert "SIMULATED" in made["text"]
    slower = any(one["now_us"] < one["then_us"] for one in made["foreseen"])
    assert ("nowhere slower" in made["text"]) == (not slower)
    for one in made["constants"]:
        assert one["error_after"] <= one["error_before"]
    gains = [one["now_us"] / one["then_us"] - 1 for one in made["foreseen"]]
    worst = min(gains)
    code = run(["emit-config", "--format", "constants", "--force", "-o", "mine"])
    assert code == (9 if worst < -0.02 / 1.02 else 0)
    assert Path("mine").exists() == (code == 0)


def test_an_imported_table_shows_no_model(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody knows its library: exit code 4."""
    table = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
    assert run(["import", str(table)]) == 0
    assert run(["emit-config", "--format", "constants"]) == 4
    assert lacks(capsys.readouterr().err, "an unknown") == []
