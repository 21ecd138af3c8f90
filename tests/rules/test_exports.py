"""Exports name the rules where those lie, be the session moved or copied."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from wording import lacks

from rccltune.model.errors import ReadOnlyError
from rccltune.model.reporter import Reporter
from rccltune.rules import exports

NAME = "rccl_tuner_gfx942.csv"


class Told(Reporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        """Nothing is yet."""
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        """Keep it."""
        self.lines.append(text)


@pytest.fixture
def session(tmp_path: Path) -> Callable[[str], Path]:
    """The exports of a session whose rules were written at a path under tmp_path."""

    def made(named: str) -> Path:
        folder = tmp_path / "now here"
        (folder / "ll128-forced").mkdir(parents=True)
        (folder / NAME).touch()
        (folder / "ll128-forced" / NAME).touch()
        path = folder / "rccl_tuner_gfx942.env"
        path.write_text(f"# a comment\nexport NCCL_TUNER_CONFIG_FILE='{tmp_path / named}'\n# end\n")
        return path

    return made


@pytest.mark.parametrize("inside", ["", "ll128-forced/"])
def test_a_session_that_was_moved_is_noticed_and_corrected(
    session: Callable[[str], Path], inside: str
) -> None:
    """Also where the site's exports name the file for LL128."""
    path, told = session(f"before/{inside}{NAME}"), Told()
    exports.say_moved([path], path.parent, told)
    assert "moved or copied" in told.lines[0]
    exports.correct_exports(path, told)
    said = path.read_text().splitlines()
    assert said[0::2] == ["# a comment", "# end"]
    assert said[1] == f"export NCCL_TUNER_CONFIG_FILE='{path.parent}/{inside}{NAME}'"
    assert exports.find_moved(path) is None


def test_exports_that_cannot_be_corrected_are_told(
    session: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that sources them reads the rules of another session."""

    def refuse(path: Path, text: str) -> None:
        raise ReadOnlyError(f"cannot write {path}: {len(text)}")

    monkeypatch.setattr(exports, "write_atomically", refuse)
    path, told = session(f"before/{NAME}"), Told()
    exports.correct_exports(path, told)
    assert lacks(told.lines, "Warning", "before", "cannot be written") == []


@pytest.mark.parametrize("inside", ["", "ll128-forced/"])
def test_of_a_session_that_stayed_nothing_is_said(
    session: Callable[[str], Path], inside: str
) -> None:
    """And nothing is written."""
    path, told = session(f"now here/{inside}{NAME}"), Told()
    before = path.stat().st_ino
    exports.say_moved([path], path.parent, told)
    exports.correct_exports(path, told)
    assert (told.lines, path.stat().st_ino) == ([], before)
