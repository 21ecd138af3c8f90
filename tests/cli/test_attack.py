"""Broken and hostile values in the files of a session: an error with file and field, nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins")
Capture = pytest.CaptureFixture[str]


# File of the session, field in it, and the JSON that somebody put there.
BROKEN = [
    ("session.json", ("fingerprint",), "[" * 3000 + "]" * 3000),
    ("session.json", ("fingerprint", "cu_count"), str(10**30)),
    ("session.json", ("fingerprint", "arch"), '"\\ud800"'),
    ("session.json", ("fingerprint", "mode"), '"cpx"'),
    ("session.json", ("variants",), "null"),
    ("session.json", ("format",), "1e308"),
    ("session.json", ("samples_of",), "1"),
    ("fit.json", ("curves", 0, "points", 0, "time_us"), "1e308"),
    ("fit.json", ("curves", 0, "points", 0, "time_us"), "0"),
    ("fit.json", ("curves", 0, "points", 0, "time_us"), "-1"),
    ("fit.json", ("curves", 0, "points", 0, "nbytes"), str(10**30)),
    ("fit.json", ("curves", 0, "key", "scale", "n_ranks"), "-1"),
    ("fit.json", ("curves",), '{"a": 1}'),
    ("fit.json", ("crossovers",), "null"),
    ("choice.json", ("zones", 0, "min_nbytes"), "-1"),
    ("choice.json", ("zones", 0, "reason"), '"not\\nfaster"'),
    ("choice.json", ("zones",), "null"),
    ("choice.json", ("environments",), '"none"'),
    ("choice.json", ("tolerance",), "NaN"),
    ("verdict.json", ("verdicts", 0, "ratio"), "Infinity"),
    ("verdict.json", ("verdicts", 0, "low"), "NaN"),
    ("verdict.json", ("rules",), '"3"'),
    ("verdict.json", ("standings", 0, "gain", "ratio"), "Infinity"),
    ("verdict.json", ("standings", 0, "state"), '"splendid"'),
    ("placement.json", ("name",), '"../../x"'),
    ("runs/1/run.json", ("argv",), '"rm -rf"'),
    ("runs/1/run.json", ("communicators",), "null"),
]


@pytest.mark.parametrize(("file", "field", "text"), BROKEN)
def test_a_broken_value_is_told_with_file_and_field(
    tuned_once: Path,
    here: Path,
    capsys: Capture,
    file: str,
    field: tuple[str | int, ...],
    text: str,
) -> None:
    """By whichever verb reads it, with exit code 7, or 6 for a run; never as a bug of ours."""
    assert here == Path.cwd()
    shutil.copytree(tuned_once, "s")
    path = next(Path("s").glob(file))
    plain = json.loads(path.read_text(encoding="utf-8"))
    inner = plain
    for key in field[:-1]:
        inner = inner[key]
    assert isinstance(inner, list) or field[-1] in inner, "the session has no such field"
    inner[field[-1]] = "PLACE"
    path.write_text(json.dumps(plain).replace('"PLACE"', text), encoding="utf-8")
    # A place of ranks is asked for where something is measured.
    code = run(["report", "s", "-o", "page.html", "-q"])
    assert code == (6 if path.name == "run.json" else 7)
    said = capsys.readouterr().err
    assert path.name in said
    named = [str(one) for one in field if isinstance(one, str)]
    assert any(name in said for name in named) or "JSON" in said
    assert not Path("page.html").exists()


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["--assume", "rank_placement=../../x"], None, 3),
        (["--variant", "../../x"], None, 3),
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


@pytest.mark.parametrize("verb", ["fit", "emit-config", "plot", "report"])
def test_bytes_that_are_no_text_are_told(
    tuned_once: Path, here: Path, capsys: Capture, verb: str
) -> None:
    """In samples.csv, with how it is made again."""
    assert here == Path.cwd()
    shutil.copytree(tuned_once, "s")
    path = Path("s/samples.csv")
    path.write_bytes(path.read_bytes().replace(b"ring", b"r\xffng", 1))
    assert run([verb, "s", "-q"]) == 7
    said = capsys.readouterr().err
    assert "samples.csv" in said
    assert "UTF-8" in said
