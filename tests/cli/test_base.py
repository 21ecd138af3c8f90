"""emit-config --base and what explain and verify make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError

EXAMPLE = "examples/mi300x-cpx-nps4/all_reduce.csv"
BASE = """\
allreduce,0,16383,tree,ll,1,1,64,-1,-1
allreduce,16384,524287,ring,ll,-1,1,8,-1,-1
allgather,0,9999,ring,simple,56,-1,-1,-1,-1
allreduce,1048576,9999999999,ring,ll,56,1,64,-1,-1
"""


@pytest.fixture(autouse=True)
def session(here: Path, repository: Path) -> Path:
    """AMD's published table as a session."""
    try:
        plugin.library()
    except MachineError as error:
        pytest.skip(str(error))
    (here / "examples").symlink_to(repository / "examples")
    assert run(["import", EXAMPLE]) == 0
    (here / "base.csv").write_text(BASE, encoding="utf-8")
    return here


def answers(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    """explain's stretches of 64 ranks."""
    capsys.readouterr()
    assert run(["explain", *words, "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)["parts"]
    return [
        stretch
        for part in parts
        if (part["collective"], part["scale"]["n_ranks"]) == ("all_reduce", 64)
        for stretch in part["stretches"]
    ]


def test_holes_are_filled_with_the_vendors_rows(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing was measured the vendor's rows answer: between AMD's seven sizes, too."""
    assert run(["emit-config", "-o", "ours.csv"]) == 0
    assert run(["emit-config", "--base", "base.csv", "-o", "merged.csv"]) == 0
    assert lacks(capsys.readouterr().out, "4 rows", "base.csv") == []
    found = answers(capsys, "merged.csv")
    vendors = [(s["min_nbytes"], s["max_nbytes"]) for s in found if s.get("vendor")]
    assert vendors == [
        *((0, 31), (33, 1023), (1025, 16383)),
        *((4194305, 134217727), (134217729, 9999999999)),
    ]
    ours = [s for s in answers(capsys, "ours.csv") if s["setting"]]
    kept = [s for s in found if s["setting"] and not s.get("vendor")]
    drop = {"line", "without_ll128"}
    assert [{k: v for k, v in s.items() if k not in drop} for s in kept] == [
        {k: v for k, v in s.items() if k not in drop} for s in ours
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("allreduce,0,99,Ring,ll,-1,1,8\nallreduce,9,8,ring,ll,-1,1,8\n", "base.csv:2"),
        (BASE + "allreduce,0,64K,ring,ll,-1,1,8\n", "base.csv:5"),
        ("#@ requires arch=gfx950\n" + BASE, "arch=gfx950"),
        (BASE + f"#@ needs A={'v' * 240}\n", "need of A is longer than 199 bytes"),
        (None, "cannot be read"),
    ],
    ids=["no row is left", "mistakes", "another machine", "a line that RCCL cuts", "missing"],
)
def test_a_base_that_cannot_be_one(
    session: Path, capsys: pytest.CaptureFixture[str], text: str | None, says: str
) -> None:
    """Exit code 3, and no file is written."""
    path = session / "base.csv"
    path.unlink()
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert run(["emit-config", "--base", "base.csv", "-o", "merged.csv"]) == 3
    assert says in capsys.readouterr().err
    assert not Path("merged.csv").exists()


def test_writing_over_a_verified_file_is_said(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What verification cut away would come back: refused, or said and nothing lost."""
    assert run(["emit-config", "-o", "rules.csv"]) == 0
    path = Path("rules.csv")
    verified = path.read_text(encoding="utf-8") + "# verified: 2 rounds\n"
    path.write_text(verified, encoding="utf-8")
    capsys.readouterr()
    assert run(["emit-config", "--base", "base.csv", "-o", "rules.csv"]) == 2
    said = capsys.readouterr().err
    assert lacks(said, "was verified") == []
    assert "--force replaces it, keeps it as rules.csv.verified" in said
    assert path.read_text(encoding="utf-8") == verified
    assert run(["emit-config", "--base", "base.csv", "-o", "rules.csv", "--force"]) == 0
    said = capsys.readouterr().err
    assert lacks(said, "rules.csv") == []
    assert lacks(said, "rules.csv.verified") == []
    assert Path("rules.csv.verified").read_text(encoding="utf-8") == verified
    assert run(["emit-config", "--base", "base.csv", "-o", "rules.csv", "--force"]) == 0
    assert "was verified" not in capsys.readouterr().err
    assert Path("rules.csv.verified").read_text(encoding="utf-8") == verified
