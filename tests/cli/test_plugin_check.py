"""plugin --check and the table of releases: which file a library needs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError
from rccltune.releases import RELEASES, Release
from rccltune.rules.library_support import BEGIN, END, document, needs, table

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


def test_the_table_of_the_docs_is_what_the_data_says(repository: Path) -> None:
    """docs/deploy.md between its marks, and each of its lines against the sources."""
    offered = tuple(plugin.build_info()["abi_versions"])
    made = document(offered)
    text = (repository / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert "\n".join(made) in text
    assert text.count(BEGIN) == text.count(END) == 1
    rows = [line.strip("| ").split(" | ") for line in table(offered)[2:]]
    found = {
        one.version + " built in" * one.reads_rules: (int(row[1].replace("–", "0")), row[2], row[3])
        for one, row in zip(LINES, rows, strict=True)
    }
    assert {name: (abi, one, more.strip(" |")) for name, (abi, one, more) in found.items()} == KNOWN


def test_readme_has_the_table_in_short(repository: Path) -> None:
    """A row for each pair of answers that works, from the first release that gets it on."""
    text = (repository / "README.md").read_text(encoding="utf-8")
    _, after = text.split("| which file do I need")
    found = [
        line.strip("| ").split(" | ") for line in after.splitlines()[2:] if line.startswith("| ")
    ]
    first: dict[tuple[str, str], list[str]] = {}
    for name, (_, one, several) in KNOWN.items():
        first.setdefault((one, several), []).append(name)
    assert {(one, several) for _, one, several in found} == set(first) - {("nothing works",) * 2}
    rows = {(one, several): releases for releases, one, several in found}
    # ROCm 6.3 brought RCCL 2.21.5, 7.12 the last 2.28 without a reader (KNOWN, and the long table).
    assert lacks(rows["plugin", KEYED], "RCCL", "ROCm", "6.3", "7.12", "NCCL", "2.21") == []
    assert first["plugin", KEYED][0] == "RCCL 2.21.5"
    assert "NCCL 2.21.5" in first["plugin", KEYED]
    assert "NCCL 2.32.6" in first["plugin", KEYED]
    assert lacks(rows["file alone", KEYED], "RCCL", "ROCm", "7.13") == []
    assert first["file alone", KEYED][0] == "RCCL 2.28.3 built in"


@pytest.mark.parametrize("release", LINES, ids=lambda one: one.name)
def test_a_library_is_told_what_the_table_says(release: Release) -> None:
    """By its version, as its file writes it."""
    offered = tuple(plugin.build_info()["abi_versions"])
    said = needs(f"{release.version}+x", offered, built_in=release.reads_rules)
    _, one, several = KNOWN[release.version + " built in" * release.reads_rules]
    assert said.startswith(one)
    assert (f"{several} where modes change" in said) == (one != "nothing works")


def test_a_library_that_does_not_say_what_it_is_is_not_guessed_at() -> None:
    """No version, or none that is known."""
    assert needs(None, (5,), built_in=False).startswith("not known")
    assert needs("libfabric 1.2", (5,), built_in=False).startswith("not known")


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
    lines: list[str] = json.loads(capsys.readouterr().out)
    (line,) = (one for one in lines if os.fspath(library) in one)
    assert lacks(line, "torch", "RCCL 2.28.3", "plugin; plugin with mode key") == []
    library.write_bytes(b"\x7fELF" + bytes(60) + words + b"Using built-in CSV tuner, config: %s\0")
    assert run(["plugin", "--check"]) == 0
    assert "file alone; plugin with mode key" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("option", ["--pid", "--python"])
def test_what_looked_into_jobs_is_answered(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With what says it now."""
    assert run(["plugin", "--check", option, "1"]) == 2
    assert "/proc/PID/maps" in capsys.readouterr().err
