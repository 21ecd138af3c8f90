"""rccltune variants: the list, the details, a file of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wording import lacks

from rccltune.cli import run

Capture = pytest.CaptureFixture[str]


def test_the_list_says_what_each_sets_and_who_has_it(capsys: Capture) -> None:
    """Name, variables, calls, releases and what this library makes of it."""
    assert run(["variants", "--library", "RCCL 2.28.3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("mscclpp "))
    assert "RCCL_MSCCLPP_ENABLE=1 RCCL_MSCCLPP_THRESHOLD={max_bytes}" in lines[at]
    assert lacks(lines[at + 1], "8 ranks", "one node") == []
    assert (
        lacks(lines[at + 2], "RCCL", "2.28.3", "MSCCL++", "2.21.5", "2.26.6", "ROCm", "6.3", "7.0")
        == []
    )
    assert any(line.startswith("channels-N ") for line in lines)


def test_named_ones_are_told_with_their_sources(capsys: Capture) -> None:
    """The untunable one too, which can be named but not measured."""
    assert run(["variants", "mscclpp-read", "alltoallv-dynamic"]) == 0
    text = capsys.readouterr().out
    assert lacks(text, "RCCL_MSCCLPP_THRESHOLD", "1 MiB") == []
    assert lacks(text, "AMD's", "RCCL") == []
    assert "unverified: " in text
    assert "asks no tuner" in text


@pytest.mark.parametrize(
    ("library", "absent"),
    [
        ("RCCL 2.30.4", {"msccl-off", "mscclpp", "low-precision"}),
        ("rcclx", {"msccl-off", "mscclpp", "dda-off"}),
        ("NCCL 2.28.9", {"msccl-off", "dda-off", "low-precision", "ll128-forced", "dev-kernarg"}),
    ],
)
def test_json_has_one_object_each(capsys: Capture, library: str, absent: set[str]) -> None:
    """With the reason why this library has it not."""
    assert run(["variants", "--json", "--library", library]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert all(found[name]["why_absent"] for name in absent)
    assert found["graph-2"]["why_absent"] is None
    assert found["graph-2"]["options"] == {"-G": "2"}
    assert found["mscclpp"]["threshold_default"] == 2**20
    assert found["low-precision"]["lossy"] is True


def test_a_file_of_ones_own_is_added(capsys: Capture, tmp_path: Path) -> None:
    """Behind the shipped ones, and marked."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "format: 1\nvariants:\n  mine: {summary: Mine, environment: {NCCL_BUFFSIZE: 8388608}}\n"
    )
    assert run(["variants", "--variants", str(path), "--json", "mine"]) == 0
    (mine,) = json.loads(capsys.readouterr().out)
    assert (mine["own"], mine["environment"]) == (True, {"NCCL_BUFFSIZE": "8388608"})


def test_what_is_wrong_has_its_exit_code(capsys: Capture, tmp_path: Path) -> None:
    """2 for a name or library that is none, 3 for a file with mistakes, all of them told."""
    path = tmp_path / "bad.yaml"
    path.write_text("format: 1\nvariants:\n  x: {summ: s}\n  y: {summary: s, lossy: 2}\n")
    assert run(["variants", "--variants", str(path)]) == 3
    said = capsys.readouterr().err
    assert [f"{path}:{place}: " in said for place in ("3:7", "3:3", "4:26")] == [True] * 3
    assert run(["variants", "mscclp"]) == 2
    assert lacks(capsys.readouterr().err, "mean mscclpp") == []
    for library in ("libnccl", "RCCLX two", "RCCL"):
        assert run(["variants", "--library", library]) == 2
        assert lacks(capsys.readouterr().err, "no library") == []
