"""The number of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rccltune.job import find_number, median_step, pattern_of
from rccltune.model.errors import CommandLineError, OutputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder of a run that printed nothing."""
    (tmp_path / "stdout.log").write_text("")
    (tmp_path / "stderr.log").write_text("")
    return tmp_path


def marks(folder: Path, rank: int, times_ms: list[float]) -> None:
    """What rccltune.torch leaves of a rank."""
    (folder / f"steps-h-{rank}.json").write_text(json.dumps({"times_ms": times_ms}) + "\n")


def test_marked_steps_are_medians_behind_the_first_fifth(folder: Path) -> None:
    """Of 10 steps two warm up; ranks of 3 and 5 ms are 4 ms, whatever one checkpoint takes."""
    marks(folder, 1, [90, 80, 5, 5, 5, 5, 5, 5, 700, 5])
    marks(folder, 0, [90, 80, 3, 3, 3, 3, 3, 3, 3, 3])
    assert median_step(folder) == 4


@pytest.mark.parametrize("text", ['{"times_ms"', '{"times_ms": []}', "[]"])
def test_a_damaged_line_of_steps_is_told(folder: Path, text: str) -> None:
    """With the line, and never with a traceback."""
    (folder / "steps-h-1.json").write_text(text)
    with pytest.raises(OutputError, match="not understood"):
        median_step(folder)


def test_a_pattern_finds_the_last_number_on_stdout_first(folder: Path) -> None:
    """Jobs print better and better ones; thousands may have commas."""
    (folder / "stdout.log").write_text("took 7 ms\ntook 1,234.5 ms\n")
    (folder / "stderr.log").write_text("took 9 ms\n")
    assert find_number(folder, pattern_of("took ([0-9.,]+) ms")) == 1234.5
    (folder / "stdout.log").write_text("")
    assert find_number(folder, pattern_of("took ([0-9.,]+) ms")) == 9


@pytest.mark.parametrize(
    ("pattern", "told"),
    [("nowhere ([0-9]+)", "finds nothing"), ("took (.*) s", "'ages', which is no number")],
)
def test_a_pattern_that_finds_no_number(folder: Path, pattern: str, told: str) -> None:
    """Said with the pattern, and what was found."""
    (folder / "stdout.log").write_text("took ages s\n")
    with pytest.raises(OutputError, match=told):
        find_number(folder, pattern_of(pattern))


@pytest.mark.parametrize(("text", "told"), [("took (", "is no pattern"), ("(a)(b)", "2 groups")])
def test_what_is_no_pattern(text: str, told: str) -> None:
    """Said before anything is run."""
    with pytest.raises(CommandLineError, match=told):
        pattern_of(text)
