"""plugin --check and the table of releases: which file a library needs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from make_tables import releases_table
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError
from rccltune.releases import RELEASES

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture(autouse=True)
def installed() -> None:
    """Skip where this install has no plugin."""
    try:
        plugin.library()
    except MachineError as error:
        pytest.skip(str(error))


# Which symbol each release looks for, and who reads rule files itself: the sources' own words, as
# collected in the facts (NCCL and RCCL src/plugin/tuner.cc, rocm-systems #4503).
KEYED = "plugin with mode key"
LINES = list({one.name: one for one in RELEASES}.values())
KNOWN = {
    "RCCL 2.20.5": (0, "nothing works", "nothing works"),
    "RCCL 2.21.5": (2, "plugin", KEYED),
    "RCCL 2.22.3": (3, "plugin", KEYED),
    "RCCL 2.27.7": (4, "plugin", KEYED),
    "RCCL 2.28.3": (5, "plugin", KEYED),
    "RCCL 2.28.3 built in": (5, "file alone", KEYED),
    "RCCL 2.30.7 built in": (6, "file alone", KEYED),
    "NCCL 2.20.5": (0, "nothing works", "nothing works"),
    "NCCL 2.21.5": (2, "plugin", KEYED),
    "NCCL 2.23.4": (3, "plugin", KEYED),
    "NCCL 2.27.7": (4, "plugin", KEYED),
    "NCCL 2.29.7": (5, "plugin", KEYED),
    "NCCL 2.32.3": (6, "plugin", KEYED),
    "NCCL 2.32.6": (7, "plugin", KEYED),
}


def test_the_table_of_the_docs_is_what_the_libraries_sources_say() -> None:
    """Each of its lines; that docs/deploy.md has it as it is made, tests/docs see."""
    made = releases_table(tuple(plugin.build_info()["abi_versions"]))
    rows = [line.strip("| ").split(" | ") for line in made[2:]]
    found = {
        one.version + " built in" * one.reads_rules: (int(row[1].replace("–", "0")), row[2], row[3])
        for one, row in zip(LINES, rows, strict=True)
    }
    assert {name: (abi, one, more.strip(" |")) for name, (abi, one, more) in found.items()} == KNOWN


def test_each_library_of_the_machine_is_told_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That of the activated environment's torch, too; some builds of 2.28.3 read rules."""
    folder = tmp_path / "env/lib/python3.12/site-packages/torch/lib"
    folder.mkdir(parents=True)
    library = folder / "librccl.so"
    words = b"RCCL version 2.28.3+hip7.12\0"
    library.write_bytes(b"\x7fELF" + bytes(60) + words)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    assert run(["plugin", "--check", "--json"]) == 0
    lines: list[str] = json.loads(capsys.readouterr().out)["checks"]
    (line,) = (one for one in lines if os.fspath(library) in one)
    assert lacks(line, "torch", "RCCL 2.28.3", "plugin; plugin with mode key") == []
    library.write_bytes(b"\x7fELF" + bytes(60) + words + b"Using built-in CSV tuner, config: %s\0")
    assert run(["plugin", "--check"]) == 0
    assert "file alone; plugin with mode key" in " ".join(capsys.readouterr().out.split())
