"""Figures as files: all or none, the same bytes for the same session."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rccltune.model.defaults import FIGURES
from rccltune.model.errors import CommandLineError, SessionError
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import FIGURE_FORMATS
from rccltune.report import plots, words
from rccltune.report.contents import read_contents


class Said(Reporter):
    """What was told."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.lines: list[str] = []
        self.details: list[str] = []

    def say(self, text: str) -> None:
        """Keep a line."""
        self.lines.append(text)

    def detail(self, text: str) -> None:
        """Keep a detail."""
        self.details.append(text)


def drawn(
    folder: Path,
    where: Path | None,
    *formats: str,
    names: tuple[str, ...] = (),
    force: bool = False,
) -> tuple[tuple[Path, ...], Said]:
    """The files of a session, and what was said of them."""
    said = Said()
    paths = plots.plot_session(
        folder,
        reporter=said,
        directory=where,
        formats=formats or ("png",),
        names=names,
        overwrite=force,
    )
    return paths, said


def test_every_figure_in_every_format(sessions: Callable[[str], Path], tmp_path: Path) -> None:
    """Each begins as its format does, and says where it comes from."""
    paths, _ = drawn(sessions("holes"), tmp_path)
    assert [path.name for path in paths] == [f"{name}.png" for name in FIGURES]
    paths, _ = drawn(sessions("holes"), tmp_path / "one", *FIGURE_FORMATS, names=("gain",))
    assert [path.name for path in paths] == [f"gain.{kind}" for kind in FIGURE_FORMATS]
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
    for path in paths:
        assert path.read_bytes().startswith(starts[path.suffix])
    assert b"measured" in paths[1].read_bytes()


def test_the_same_session_gives_the_same_bytes(
    sessions: Callable[[str], Path], tmp_path: Path
) -> None:
    """With no date inside."""
    names = ("gain", "table")
    first, _ = drawn(sessions("holes"), tmp_path / "a", "svg", "pdf", names=names)
    second, _ = drawn(sessions("holes"), tmp_path / "b", "svg", "pdf", names=names)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_nothing_is_overwritten_unasked(sessions: Callable[[str], Path], tmp_path: Path) -> None:
    """One that is there stops all; asked for, all are replaced."""
    (tmp_path / "time.png").write_text("mine")
    with pytest.raises(CommandLineError, match=r"1 of the figures exist already: time\.png"):
        drawn(sessions("holes"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["time.png"]
    drawn(sessions("holes"), tmp_path, names=("time",), force=True)
    assert (tmp_path / "time.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("formats", "names", "words"),
    [(("jpeg",), (), "drawn as jpeg"), (("png",), ("pie",), "called pie")],
)
def test_an_unknown_format_or_figure_is_refused(
    sessions: Callable[[str], Path],
    tmp_path: Path,
    formats: tuple[str, ...],
    names: tuple[str, ...],
    words: str,
) -> None:
    """Before anything is written, with the known ones."""
    with pytest.raises(CommandLineError, match=words) as error:
        drawn(sessions("holes"), tmp_path, *formats, names=names)
    assert error.value.hint
    assert not list(tmp_path.iterdir())


def test_a_figure_that_cannot_be_written_leaves_no_part(
    sessions: Callable[[str], Path], tmp_path: Path
) -> None:
    """A folder in the place of a file: the reason, and no half of a file."""
    (tmp_path / "bandwidth.png").mkdir()
    with pytest.raises(SessionError):
        drawn(sessions("holes"), tmp_path, names=("time", "bandwidth"), force=True)
    assert {path.suffix for path in tmp_path.iterdir()} == {".png"}


def test_a_figure_that_an_earlier_choice_had_goes(
    sessions: Callable[[str], Path], tmp_path: Path
) -> None:
    """A session with nothing to win has no gain to show; folders of others stay as they are."""
    shutil.copytree(sessions("nothing to win"), folder := tmp_path / "s")
    old, other = folder / "plots/gain.png", tmp_path / "elsewhere/gain.png"
    for path in (old, other):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    said = Said()
    plots.plot_session(
        folder, reporter=said, directory=None, formats=("png",), names=("gain",), overwrite=False
    )
    assert not old.exists()
    assert "earlier choice" in said.lines[-1]
    plots.plot_session(
        folder,
        reporter=said,
        directory=other.parent,
        formats=("png",),
        names=("gain",),
        overwrite=True,
    )
    assert other.exists()


def test_rules_of_a_file_are_drawn_without_their_choice(
    sessions: Callable[[str], Path], tmp_path: Path
) -> None:
    """And so it is not said that none are, nor that they must be chosen first."""
    shutil.copytree(sessions("holes"), folder := tmp_path / "s")
    (folder / "choice.json").unlink()
    said = Said()
    plots.plot_session(
        folder, reporter=said, directory=None, formats=("png",), names=("table",), overwrite=False
    )
    assert not [line for line in said.lines if "no rules are drawn" in line]
    shown = read_contents(folder, reporter=said)
    assert "emit-config" not in words.following(shown)
