"""Values that no session can hold are an error of the import, and nothing is begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins")


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["--assume", "rank_placement=../../x"], None, 3),
        (["--assume", "arch=../../x"], None, 3),
        ([], "setting,nbytes,time_us\nring/ll," + "9" * 30 + ",5\n", 6),
        ([], "setting,nbytes,time_us\nring/ll,1024,1e308\n", 0),
        ([], '{"version": 3, "results": ' + "[" * 9000 + "]" * 9000 + "}", 6),
    ],
)
def test_what_no_session_can_hold_is_told_at_import(
    here: Path, words: list[str], text: str | None, code: int
) -> None:
    """The session is not begun with what it could not read again."""
    head = "# rccltune: collective=all_reduce nodes=1 ranks=8 mode=spx-nps1 placement=out\n"
    table = "setting,nbytes,time_us\nring/ll,1024,5\nring/simple,1024,6\n"
    name = "a.json" if text and text.startswith("{") else "a.csv"
    body = text if text and text.startswith("{") else head + (text or table)
    Path(name).write_text(body, encoding="utf-8")
    assert run(["import", name, *words, "-q"]) == code
    if code:
        assert not list(here.glob("rccltune-session/*/*"))
    assert not (here.parent / "x").exists()
