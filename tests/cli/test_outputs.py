"""Where results go: folders that are not there yet, and places that nobody can write to."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rccltune.cli import run

TABLE = "examples/mi300x-cpx-nps4/all_reduce.csv"


@pytest.fixture(scope="module")
def imported(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with rules, in no time."""
    folder = tmp_path_factory.mktemp("imported") / "s"
    assert run(["import", str(repository / TABLE), "-o", str(folder), "-q"]) == 0
    assert run(["emit-config", str(folder), "-q"]) == 0
    return folder


@pytest.mark.parametrize(
    ("verb", "name", "written"),
    [
        ("emit-config", "rules.csv", "rules.csv"),
        ("report", "page.html", "page.html"),
        ("gather", "sent.tar.gz", "sent.tar.gz"),
        ("plot", "figures", "figures/table.png"),
    ],
)
def test_every_verb_makes_the_folders_of_its_output(
    imported: Path, tmp_path: Path, verb: str, name: str, written: str
) -> None:
    """One deep or two, alike."""
    more = ["--figure", "table"] if verb == "plot" else []
    target = tmp_path / "a" / "b"
    assert run([verb, str(imported), "-o", str(target / name), "-q", *more]) == 0
    assert (target / written).is_file()
    assert verb != "gather" or tarfile.is_tarfile(target / name)


def test_deploy_to_where_nothing_can_be_written_offers_what_deploy_has(
    imported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no -o, and measures nothing that could be kept."""
    (tmp_path / "file").touch()
    assert run(["deploy", str(tmp_path / "file" / "site"), str(imported), "--unproven"]) == 7
    said = capsys.readouterr().err
    assert "name a DIR in a folder that can be written" in said
    assert "-o" not in said.partition("Hint:")[2]
