"""The verbs of every day work in any session, in any order, again and again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rccltune.cli import run


def test_verified_rules_are_kept(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0, one line that says so, and nothing of them or their exports is changed."""
    assert run(["emit-config", "--baseline", "ring/simple", "-q"]) == 0
    rules, exports = (next(published.glob(f"rccl_tuner*{kind}")) for kind in (".csv", ".env"))
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
