"""The verbs of every day work in any session, in any order, again and again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rccltune.cli import run


@pytest.fixture
def session(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The published table as ./rccltune-session."""
    monkeypatch.chdir(tmp_path)
    assert run(["import", str(repository / "examples/mi300x-cpx-nps4/all_reduce.csv"), "-q"]) == 0
    return tmp_path / "rccltune-session"


def test_verified_rules_are_kept(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, one line that says so, and nothing of them or their exports is changed."""
    _written(session, ["--baseline", "ring/simple"])
    rules, exports = (next(session.glob(f"rccl_tuner*{kind}")) for kind in (".csv", ".env"))
    rules.write_text(rules.read_text() + "# verified: by a test\n")
    before = rules.read_bytes(), exports.read_bytes()
    capsys.readouterr()
    for _ in range(2):
        assert run(["emit-config", "--min-gain", "40", "-q"]) == 0
        said = capsys.readouterr().out.splitlines()
        (line,) = (line for line in said if str(rules.relative_to(rules.parents[1])) in line)
        assert "verified" in line
        assert "--force" in line
    assert run(["emit-config", "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] is True
    assert (rules.read_bytes(), exports.read_bytes()) == before
    assert run(["emit-config", "--force", "-q"]) == 0
    assert rules.read_bytes() != before[0]
    assert rules.with_name(rules.name + ".verified").read_bytes() == before[0]


def test_what_was_named_is_not_replaced_unasked(session: Path) -> None:
    """Outside the session nothing is ours."""
    del session
    Path("rules.csv").write_text("mine")
    Path("page.html").write_text("mine")
    plot = ["plot", "--format", "svg", "-o", "drawn", "-q"]
    assert run(plot) == 0
    for words in (["emit-config", "-o", "rules.csv"], ["report", "-o", "page.html"], plot):
        assert run([*words, "-q"]) == 2
    assert {Path("rules.csv").read_text(), Path("page.html").read_text()} == {"mine"}


def _written(session: Path, options: list[str]) -> bytes:
    assert run(["emit-config", *options, "-q"]) == 0
    return next(session.glob("rccl_tuner*.csv")).read_bytes()
