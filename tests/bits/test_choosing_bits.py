"""From a simulated node whose channels have two ring orders to a rule file, by the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.rules.rule_file import read_rules

SWEPT = ("--collective", "all_reduce", "--min-bytes", "16K", "--max-bytes", "1M", "--factor", "8")


def test_rules_reach_from_0_to_the_largest_probe(
    rules: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without an uncovered range; the file names its bits, and explain says what is promised."""
    file = read_rules(rules.read_bytes())
    assert file.bits is not None
    assert [str(rule.setting) for rule in file.rules] in (["tree/ll/1"], ["tree/ll/3"])
    assert (file.rules[0].min_nbytes, file.rules[-1].max_nbytes) == (0, 1 << 20)
    assert "as (((2+3)+1)+0)" in rules.read_text(encoding="utf-8")
    capfd.readouterr()
    assert run(["explain", str(rules)]) == 0
    said = capfd.readouterr()
    assert f"results keep their bits ({file.bits})" in " ".join(said.out.split())
    # No job made a call.
    assert "R27" not in said.err
    assert "whether they keep their bits" in " ".join(said.err.split())


def test_a_session_without_probes_has_no_such_rules(
    two_orders: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Says which command probes."""
    sweep = ["sweep", "--simulate", str(two_orders), "--mode", "spx-nps1", *SWEPT]
    assert run([*sweep, "--communicators", "1"]) == 0
    assert run(["emit-config", "--same-bits"]) == 8
    assert "rccltune sweep --same-bits" in capsys.readouterr().err
