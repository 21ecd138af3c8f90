"""Configuration files of the library: they fill what the environment leaves open, unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins")

SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "8K"]


def hidden_file(here: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> list[str]:
    """A file that the library would read, and a sweep of a benchmark that is not the stand-in."""
    conf = here / "site.conf"
    conf.write_text(text)
    monkeypatch.setenv("NCCL_CONF_FILE", str(conf))
    compiled = here / "x.node"
    compiled.write_bytes(sources.compile_node(sources.node_path("mi300x", "cpx-nps4")))
    script = here / "bench" / "all_reduce_perf"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {plugin.native_folder() / "sim" / script.name} "$@"\n')
    script.chmod(0o755)
    wish = ["--rccl-tests", str(script.parent), "--np", "64", "--launcher", "none", *SMALL]
    wish += ["--env", f"RCCLTUNE_SIM_NODE={compiled}", "--env", "RCCLTUNE_SIM_RANKS=64"]
    return [
        "sweep",
        "--runner",
        "rccl-tests",
        *wish,
        "--setting",
        "ring/ll",
        "--communicators",
        "1",
    ]


def test_a_hidden_file_that_chooses_stops_the_sweep(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clearing a variable makes room for the file's; so the file is named, and nothing starts."""
    monkeypatch.setenv("NCCL_ALGO", "Tree")
    command = hidden_file(here, monkeypatch, "NCCL_ALGO=Ring\nNCCL_IB_HCA=mlx5_0\n")

    assert run([*command, "--plan"]) == 0
    assert f"NCCL_ALGO=Ring ({here / 'site.conf'})" in capsys.readouterr().out
    assert run(command) == 4
    said = capsys.readouterr().err
    assert f"{here / 'site.conf'} sets NCCL_ALGO=Ring" in said
    assert f"mv {here / 'site.conf'}" in said
    assert not (here / "rccltune-session").exists()


def test_what_a_hidden_file_sets_beside_is_told_and_recorded(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A site's interface, say: it stays, in every arm, and each launch says so."""
    command = hidden_file(here, monkeypatch, "NCCL_IB_HCA=mlx5_0\nNCCL_NET=Socket\n")
    monkeypatch.setenv("NCCL_NET", "IB")

    assert run(command) == 0
    assert f"{here / 'site.conf'} sets NCCL_IB_HCA=mlx5_0" in capsys.readouterr().err
    records = list(here.glob("rccltune-session/launches/*/environment.json"))
    assert len(records) == 3
    for path in records:
        seen = json.loads(path.read_text())
        # What the environment has, no file fills.
        assert seen["files"] == [[str(here / "site.conf"), "NCCL_IB_HCA", "mlx5_0"]]
        assert seen["passed"]["NCCL_NET"] == "IB"


def test_a_hidden_file_that_changes_stops_the_sweep(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two halves of a sweep under two configurations are no sweep."""
    command = hidden_file(here, monkeypatch, "NCCL_IB_HCA=mlx5_0\n")
    script = here / "bench" / "all_reduce_perf"
    script.write_text(
        script.read_text().replace("exec", f"echo X=$$ >> {here / 'site.conf'}\nexec")
    )

    assert run(command) == 4
    assert lacks(capsys.readouterr().err, f"{here / 'site.conf'}") == []
