"""What runs beside a launch is there from its start to its end, and gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import MARK, survivors, wait_for
from wording import lacks

from rccltune.launch.process import LaunchCommand, run_beside

# Prints a row, then goes on until it is ended.
ENDLESS = """
import sys, time
print(" 1048576 1.0", flush=True)
{then}
time.sleep(300)
"""


def job(folder: Path, script: str, *, timeout_s: float = 60.0) -> LaunchCommand:
    """A Python script that is under way, or done, when it has printed a line."""
    return LaunchCommand(
        argv=(sys.executable, "-c", script),
        variables={**os.environ, MARK: str(folder)},
        folder=folder,
        timeout_s=timeout_s,
        is_complete=lambda where: (where / "stdout.log").stat().st_size > 0,
    )


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Of the launch, and of what runs beside it."""
    (tmp_path / "own").mkdir()
    return tmp_path / "own", tmp_path / "own" / "beside"


def looks(folder: Path) -> str:
    """A script that says whether the other's process is there."""
    return f"""
import glob
own = b"{MARK}={folder}"
found = 0
for name in glob.glob("/proc/[0-9]*/environ"):
    try:
        found += own in open(name, "rb").read().split(b"\\0")
    except OSError:
        pass
print("beside" if found else "alone")
"""


def test_the_other_runs_while_the_launch_does_and_no_longer(folders: tuple[Path, Path]) -> None:
    """It was there when the launch began, and is gone when this returns."""
    own, beside = folders

    ending = run_beside(job(own, looks(beside)), job(beside, ENDLESS.format(then="")))

    assert (ending.exit_code, ending.alone) == (0, None)
    assert (own / "stdout.log").read_text() == "beside\n"
    assert survivors(beside) == []


@pytest.mark.parametrize(
    ("then", "why"),
    [("sys.exit(3)", "exit code 3"), ("import os; os.kill(os.getpid(), 11)", "signal 11")],
)
def test_one_that_ends_early_spoils_the_launch(
    folders: tuple[Path, Path], then: str, why: str
) -> None:
    """What was measured after it had gone was measured alone."""
    own, beside = folders

    ending = run_beside(
        job(own, "import time; time.sleep(1)"), job(beside, ENDLESS.format(then=then))
    )

    assert lacks(ending.alone, f"{why}", "it ended") == []


def test_one_that_never_gets_under_way_leaves_the_launch_unstarted(
    folders: tuple[Path, Path],
) -> None:
    """Nothing is measured then, and nobody waits for ever."""
    own, beside = folders
    silent = job(beside, "import time; time.sleep(300)", timeout_s=1.0)

    ending = run_beside(job(own, "print('measured')"), silent)

    assert ending.alone is not None
    assert lacks(ending.alone, "1 s") == []
    assert not (own / "stdout.log").exists()
    assert survivors(beside) == []


DRIVER = """
import sys
sys.path[:0] = [{here!r}, {tests!r}]
from pathlib import Path
from test_company import ENDLESS, job, run_beside
own = Path({own!r})
run_beside(job(own, "print(1, flush=True); import time; time.sleep(300)"),
           job(own / "beside", ENDLESS.format(then="")))
"""


def started(own: Path) -> subprocess.Popen[bytes]:
    """Somebody who runs both, both under way."""
    here = Path(__file__).parent
    code = DRIVER.format(here=str(here), tests=str(here.parent), own=str(own))
    driver = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    assert wait_for(lambda: all(survivors(one) for one in (own, own / "beside")))
    return driver


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_neither_outlives_rccltune(folders: tuple[Path, Path], kind: int) -> None:
    """Interrupted or killed: both are gone."""
    own, beside = folders
    driver = started(own)

    driver.send_signal(kind)
    driver.wait(timeout=40)

    assert wait_for(lambda: not survivors(own) and not survivors(beside))
