"""Where results go: folders that are not there yet, and places that nobody can write to."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rccltune.cli import run


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
    published: Path, tmp_path: Path, verb: str, name: str, written: str
) -> None:
    """One deep or two, alike."""
    more = ["--figure", "table"] if verb == "plot" else []
    target = tmp_path / "a" / "b"
    assert run([verb, str(published), "-o", str(target / name), "-q", *more]) == 0
    assert (target / written).is_file()
    assert verb != "gather" or tarfile.is_tarfile(target / name)


def test_deploy_to_where_nothing_can_be_written_offers_what_deploy_has(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no -o, and measures nothing that could be kept."""
    (tmp_path / "file").touch()
    assert run(["deploy", str(tmp_path / "file" / "site"), str(published), "--unproven"]) == 7
    said = capsys.readouterr().err
    assert "name a DIR in a folder that can be written" in said
    assert "-o" not in said.partition("Hint:")[2]


def test_rules_that_are_written_elsewhere_change_no_session_that_has_its_own(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page would speak of a choice that the session's rules did not come from."""
    before = (published / "choice.json").read_bytes()
    target = tmp_path / "other.csv"
    named = ["--baseline", "ring/simple"]
    assert run(["emit-config", str(published), "-o", str(target), *named]) == 0
    assert (published / "choice.json").read_bytes() == before
    said = " ".join(capsys.readouterr().err.split())
    assert "keeps its own rules and their choice" in said
    assert f"rccltune verify swept --rules {target}" in said
    assert "# baseline: ring/simple, as it was named (--baseline)\n" in target.read_text("utf-8")


def test_what_is_in_a_session_is_called_so(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither benchmark's records nor files to import."""
    assert run(["explain", str(published / "choice.json")]) == 3
    assert "one of a session's own" in " ".join(capsys.readouterr().err.split())
    assert run(["import", str(published), "-o", str(published.parent / "again")]) == 6
    said = " ".join(capsys.readouterr().err.split())
    assert "this folder is a session" in said
    assert f"rccltune fit {published}" in said
