"""Sessions that are only there to be read: another user's, a snapshot, one that is measured now."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from wording import lacks

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("here")

# From linux/prctl.h and linux/capability.h: what lets root write where it may not.
_DROP: Final = 24
_OVERRIDES: Final = (1, 2)


def _as_anybody() -> None:
    """Root without its right to write everywhere; for others nothing changes."""
    if os.geteuid() == 0:
        for number in _OVERRIDES:
            ctypes.CDLL(None).prctl(_DROP, number, 0, 0, 0)


# Several command lines in one process, since to start one takes longer than most of them; without
# the figures of the page, since plot draws one.
_RUN: Final = """
import contextlib, io, json, sys
from rccltune.cli import run
from rccltune.report import page
page._draw_kind = lambda *_: iter(())
ended = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    ended.append({"code": code, "out": out.getvalue(), "err": err.getvalue()})
print(json.dumps(ended))
"""


@dataclass(frozen=True)
class Ended:
    """What came of a command line."""

    code: int
    out: str
    err: str


def run_all(commands: Sequence[Sequence[str]], where: Path) -> list[Ended]:
    """Command lines of a user who may write nothing that its mode forbids."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        preexec_fn=_as_anybody,
        input=json.dumps(commands),
        cwd=where,
        env={**os.environ, "COLUMNS": "300"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [Ended(**one) for one in json.loads(done.stdout)]


def _lock(folder: Path, *, to_read: bool) -> None:
    """Let nobody write below a folder, or its owner again."""
    for path in (folder, *folder.rglob("*")):
        mode = 0o555 if path.is_dir() else 0o444
        path.chmod(mode if to_read else mode | 0o200)


@pytest.fixture(scope="module")
def measured(swept_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small session from which rules were chosen; nothing else is derived yet."""
    folder = shutil.copytree(swept_once, tmp_path_factory.mktemp("swept") / "s")
    assert run(["emit-config", str(folder), "-o", str(folder.parent / "rules.csv")]) == 0
    (folder / "fit.json").unlink()
    return folder


_MORE = [pytest.param(name, marks=pytest.mark.long) for name in ("swept", "logs only")]


@pytest.fixture(params=["fitted", *_MORE])
def readable(request: pytest.FixtureRequest, measured: Path, tmp_path: Path) -> Iterator[Path]:
    """The same session, read-only, with more or less of what is derived from it."""
    folder = tmp_path / "s"
    shutil.copytree(measured, folder)
    if request.param == "fitted":
        assert run(["fit", str(folder)]) == 0
    if request.param == "logs only":
        (folder / "samples.csv").unlink()
    _lock(folder, to_read=True)
    probe = [sys.executable, "-c", "open('s/probe', 'w')"]
    if not subprocess.run(
        probe, preexec_fn=_as_anybody, capture_output=True, check=False
    ).returncode:
        pytest.skip("this user may write everywhere, whatever a folder's mode says")
    yield folder
    _lock(folder, to_read=False)


READING: Final = (
    ("fit", "s"),
    ("emit-config", "s", "-o", "-"),
    ("emit-config", "s", "-o", "rules.csv"),
    ("report", "s", "-o", "page.html"),
    ("plot", "s", "-o", "drawn", "--format", "svg", "--figure", "gain"),
)


@pytest.fixture(scope="module")
def own(measured: Path) -> tuple[Path, list[Ended]]:
    """What a session of one's own gives, and the folder with the files."""
    folder = measured.parent / "own"
    shutil.copytree(measured, folder / "s")
    return folder, run_all(READING, folder)


def test_a_read_only_session_gives_what_a_writable_one_gives(
    readable: Path, own: tuple[Path, list[Ended]], tmp_path: Path
) -> None:
    """Tables, rules, figures and the page are the same bytes, and nothing in it changes.

    A line for each file that is not kept names the session, the file and the reason.
    """
    before = {path: path.stat().st_mtime_ns for path in (readable, *readable.rglob("*"))}
    folder, mine = own
    theirs = run_all(READING, tmp_path)
    assert [one.code for one in (*mine, *theirs)] == [0] * 2 * len(READING)
    # Where the exports lie is said in full.
    assert [one.out for one in theirs] == [
        one.out.replace(f"{folder}/", f"{tmp_path}/") for one in mine
    ]
    files = [
        "rules.csv",
        "page.html",
        *(f"drawn/{one.name}" for one in (folder / "drawn").iterdir()),
    ]
    assert len(files) > 2
    for name in files:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name
    assert {p: p.stat().st_mtime_ns for p in (readable, *readable.rglob("*"))} == before

    assert not any("is only read" in one.err for one in mine)
    is_fitted = (readable / "fit.json").exists()
    missing = "fit.json" if (readable / "samples.csv").exists() else "samples.csv"
    for command, one in zip(READING, theirs, strict=True):
        lines = [line for line in one.err.splitlines() if "is only read" in line]
        # Only fit makes anew what is there; what is chosen for a file is stored, too.
        unkept = [missing] if command[0] == "fit" or not is_fitted else []
        unkept += ["choice.json"] if command[0] == "emit-config" and command[-1] != "-" else []
        assert len(lines) == len(unkept), command
        for line, name in zip(lines, unkept, strict=True):
            assert lacks(line, name, "only read") == []
            assert "Permission denied" in line


HOLD: Final = """
import sys
from pathlib import Path
from rccltune.model.reporter import Reporter
from rccltune.session import lock
with lock.lock_session(Path("s"), Reporter()):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("missing", ["fit.json", "samples.csv"])
def test_a_session_that_is_being_written_can_be_read(
    measured: Path, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its writer keeps it; what the reader derives is what it derives afterwards."""
    shutil.copytree(measured, "s")
    Path("s", missing).unlink(missing_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        marker = Path("s/writer.lock").read_bytes()
        assert run(["fit", "s", "--json"]) == 0
        meanwhile = capsys.readouterr()
        assert Path("s/writer.lock").read_bytes() == marker
        holder.communicate("")
    is_told = "another rccltune writes this session" in meanwhile.err
    assert is_told == (missing == "samples.csv")

    assert run(["fit", "s", "--json"]) == 0
    afterwards = capsys.readouterr()
    assert json.loads(afterwards.out) == json.loads(meanwhile.out)
    assert "is only read" not in afterwards.err
