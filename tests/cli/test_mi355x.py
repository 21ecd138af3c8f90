"""An MI355X node, simulated: its mode, what asks no tuner there, and what loading a plugin takes away."""

from __future__ import annotations

import json
from pathlib import Path

import made
import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "undrawn")
NODE = ("--simulate", "mi355x", "--mode", "dpx-nps2")
TWO = ("--np", "2", "--rank-placement", "one-oam")
# RCCL 2.28.3 src/rccl_wrap.cc:458-484: direct all_gather takes 8 MiB on one node of gfx950.
DIRECT = "all_gather calls up to 8 MiB ask no tuner here: direct AllGather takes them"


def test_what_asks_no_tuner_there_is_said_first(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sixteen ranks in the mode that AMD names for MI355X; nothing is measured where none asks."""
    assert run(["tune", *NODE, "--collective", "all_gather", "--max-bytes", "8M"]) == 8
    said = " ".join(capsys.readouterr().err.split())
    assert DIRECT in said
    assert "RCCL_DIRECT_ALLGATHER_DISABLE=1" in said
    assert not list(here.rglob("rank-*.csv"))
    assert run(["tune", *NODE, "--collective", "all_gather", "--plan"]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(DIRECT)


def test_a_mode_that_the_node_is_not_in_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """There is one node of MI355X; who asks for CPX/NPS4 is told which."""
    assert run(["tune", "--simulate", "mi355x", "--mode", "cpx-nps4"]) != 0
    assert "mi355x-dpx-nps2" in capsys.readouterr().err


def test_rules_restore_what_any_plugin_takes_away(capsys: pytest.CaptureFixture[str]) -> None:
    """By itself gfx950 runs tree/ll up to 256 KiB and, under an idle plugin, the slower ring/ll.

    RCCL 2.28.3 src/enqueue.cc:2366: all_reduce of 64 B to 256 KiB on one node, without a tuner.
    """
    sizes = ("--collective", "all_reduce", "--min-bytes", "32K", "--max-bytes", "32K")
    settings = ("--setting", "ring/ll", "--setting", "tree/ll")
    assert run(["tune", *NODE, *TWO, *sizes, *settings]) == 0
    [rules] = Path(made.SESSION).glob("rccl_tuner_gfx950_dpx-nps2*.csv")
    [row] = made.rows(rules)
    assert row[:5] == ["allreduce", str(32 << 10), str(32 << 10), "tree", "ll"]
    assert "restores what loading a tuner takes away" in rules.read_text(encoding="utf-8")
    verdict = json.loads((Path(made.SESSION) / "verdict_one-oam.json").read_text(encoding="utf-8"))
    [standing] = verdict["standings"]
    assert standing["state"] == "restores"
    # The site and the rule run the same kernels.
    assert standing["gain"]["value"] == pytest.approx(1, abs=0.02)
    assert "restores" in capsys.readouterr().out
