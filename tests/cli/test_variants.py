"""rccltune variants: the list and the details."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.machine import this_machine
from rccltune.machine.records import Library

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with RCCL 2.28.3."""
    found = Library(
        path=Path("/opt/rocm/lib/librccl.so.1"),
        owner="ROCm",
        version="RCCL 2.28.3",
        rocm="7.11",
        sha256=None,
    )
    there = replace(this_machine.local_system(None), libraries=(found,))
    monkeypatch.setattr(this_machine, "local_system", lambda _root: there)


@pytest.mark.usefixtures("library")
def test_the_list_says_what_each_sets_and_who_has_it(capsys: Capture) -> None:
    """Name, variables, calls, releases and what this machine's library makes of it."""
    assert run(["variants"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("mscclpp "))
    assert "RCCL_MSCCLPP_ENABLE=1 RCCL_MSCCLPP_THRESHOLD={max_bytes}" in lines[at]
    assert lacks(lines[at + 1], "8 ranks", "one node") == []
    wanted = ("RCCL", "2.28.3", "MSCCL++", "2.21.5", "2.26.6", "ROCm", "6.3", "7.0")
    assert lacks(lines[at + 2], *wanted) == []
    assert any(line.startswith("channels-N ") for line in lines)
    assert run(["variants", "--json"]) == 0
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert "2.28.3" in found["mscclpp"]["why_absent"]


def test_named_ones_are_told_with_their_sources(capsys: Capture) -> None:
    """The untunable one too, which can be named but not measured; one that is none is not."""
    assert run(["variants", "mscclpp-read", "alltoallv-dynamic"]) == 0
    text = capsys.readouterr().out
    assert lacks(text, "RCCL_MSCCLPP_THRESHOLD", "1 MiB") == []
    assert lacks(text, "AMD's", "RCCL") == []
    assert "unverified: " in text
    assert "asks no tuner" in text
    assert run(["variants", "mscclp"]) == 2
    assert lacks(capsys.readouterr().err, "mean mscclpp") == []
