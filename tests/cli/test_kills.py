"""SIGKILL and Ctrl-C while a tune measures: nothing stays, and it goes on.

What becomes of the rows of a sweep is tests/measure's, of a verification tests/verify's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import made
import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("stand_ins")
# Every process of a test inherits it.
_MARK = "TEST_OF_KILLS"
_PATIENCE_S = 60.0


def start(here: Path, words: list[str]) -> subprocess.Popen[bytes]:
    """rccltune in a process of its own, with usual signals and a mark."""
    return subprocess.Popen(
        [sys.executable, "-m", "rccltune", *words],
        env={**os.environ, _MARK: str(here)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=_usual_signals,  # noqa: PLW1509 - this process has one thread
    )


def _usual_signals() -> None:
    """Tests that are started in the background inherit signals that are ignored."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_DFL)


def alive(here: Path) -> list[int]:
    """Processes of this test."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"{_MARK}={here}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def until(done: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until rows of this pattern are there."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if any(path.read_bytes().count(b"\n") > 12 for path in Path().glob(done)):
            return
        time.sleep(0.005)
    raise AssertionError(f"ended with {process.returncode} before there were rows")


def rows_of(session: Path) -> dict[Path, list[str]]:
    """What ranks wrote, without lines that a kill may have cut."""
    return {
        path: path.read_text(encoding="utf-8").splitlines(keepends=True)
        for path in session.rglob("rank-0.csv")
    }


@pytest.mark.parametrize(
    "kind", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
@pytest.mark.usefixtures("undrawn")
def test_nothing_stays_and_the_same_command_goes_on(here: Path, kind: signal.Signals) -> None:
    """No row is lost or measured again, and it ends as if nobody had ended it."""
    words = ["tune", *made.words(made.node(here / "node.yaml")), *made.ONE_SESSION, "-q"]
    process = start(here, words)
    until(f"{made.SESSION}/runs/*/rank-0.csv", process)
    process.send_signal(kind)
    code = process.wait(timeout=_PATIENCE_S)
    assert code == (-signal.SIGKILL if kind == signal.SIGKILL else 130)
    deadline = time.monotonic() + _PATIENCE_S
    while alive(here) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(here) == []
    before = rows_of(here / made.SESSION)

    assert run(words) == 0
    after = rows_of(here / made.SESSION)
    for path, lines in before.items():
        assert after[path][: len(lines) - 1] == lines[:-1]
    [row] = made.rows(here / made.SESSION / made.RULES)
    assert row[1] == str(64 * made.KIB)
    assert row[3:5] == ["ring", "simple"]
    assert "# verified: with and without" in (here / made.SESSION / made.RULES).read_text()
    assert not list((here / made.SESSION).rglob("writer.lock"))
