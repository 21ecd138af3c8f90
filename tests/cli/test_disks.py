"""Disks that are full or read-only, clocks that jump, a second rccltune: nothing is lost."""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import made
import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.model.reporter import Reporter
from rccltune.session import lock

pytestmark = pytest.mark.usefixtures("stand_ins", "here")


@pytest.fixture
def small_disk(swept_once: Path, tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB that holds a session, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or umount is None:
        pytest.skip("mounting needs root")
    options = ["-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    shutil.copytree(swept_once, folder / "s")
    yield folder
    subprocess.run([umount, str(folder)], check=True)


def remounted(folder: Path, options: str) -> None:
    """The same file system, otherwise."""
    mount = str(shutil.which("mount"))
    subprocess.run([mount, "-o", f"remount,{options}", str(folder)], check=True)


def test_a_disk_that_fills_while_rules_are_verified_loses_nothing(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 7 with a remedy; with room again, the same command goes on."""
    session = small_disk / "s"
    assert run(["emit-config", str(session), "-q"]) == 0
    before = (session / made.RULES).read_bytes()
    filler = small_disk / "filler"
    room = os.statvfs(small_disk)
    # A few pages are left: enough to begin, too few for rows and logs.
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 40_000))
    assert run(["verify", str(session)]) == 7
    assert lacks(capsys.readouterr().err, "space") == []
    assert (session / made.RULES).read_bytes() == before
    filler.unlink()

    assert run(["verify", str(session), "-q"]) == 0
    assert "# verified:" in (session / made.RULES).read_text(encoding="utf-8")


def test_a_read_only_session_is_a_message_and_stays_readable(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot: rules go elsewhere, and what would have to be measured there says so."""
    session = small_disk / "s"
    assert run(["fit", str(session), "-q"]) == 0
    remounted(small_disk, "ro")
    try:
        assert run(["emit-config", str(session), "-o", "rules.csv", "-q"]) == 0
        assert made.rows(Path("rules.csv"))
        capsys.readouterr()
        assert run(["verify", str(session), "--rules", "rules.csv"]) == 7
        assert lacks(capsys.readouterr().err, "Read-only") == []
    finally:
        remounted(small_disk, "rw")


def test_a_clock_that_jumps_changes_nothing(here: Path) -> None:
    """Years ahead and back between any two looks: limits hold as always."""
    rng = random.Random(7)
    start = time.monotonic()
    words = made.words(made.node(here / "node.yaml"), "ring/ll")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("time", "time_ns"):
            patch.setattr(time, name, lambda: rng.randrange(-(1 << 31), 1 << 33))
        assert run(["sweep", *words, "--communicators", "1", "--timeout", "60", "-q"]) == 0
    assert time.monotonic() - start < 60


def test_the_wall_clock_is_read_for_records_only(sources: dict[str, list[ast.AST]]) -> None:
    """A clock that is set back must end no launch early and believe no dead lock alive."""
    clocks = {
        *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow"),
        *("date.today", "datetime.today", "time.localtime", "time.gmtime"),
    }
    names = {clock.rpartition(".")[2] for clock in clocks}
    found = {
        f"{name}: {ast.unparse(node)}"
        for name, nodes in sources.items()
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node) in clocks
    }
    # When a launch started, and of which day a link map is: for people.
    assert found == {
        "deploy/folder.py: datetime.now",
        "measure/rccl_tests_sweep.py: datetime.now",
        "measure/rank_program.py: datetime.now",
        "links.py: datetime.now",
    }


HOLD = """
import sys
from pathlib import Path
from rccltune.model.reporter import Reporter
from rccltune.session import lock
with lock.lock_session(Path(sys.argv[1]), Reporter()):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_rccltune_waits_for_no_one_and_changes_nothing(
    swept: Path, swept_once: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says who holds the session; when that one is gone, the same command goes on."""
    more = made.words(swept_once.parent / "node.yaml", "ring/ll", "tree/ll")
    command = ["sweep", *more, "--communicators", "1"]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(swept)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = {p: p.stat().st_mtime_ns for p in swept.rglob("*")}
        assert run(command) == 7
        assert f"process {holder.pid}" in capsys.readouterr().err
        assert {p: p.stat().st_mtime_ns for p in swept.rglob("*")} == before
        holder.kill()

    assert run(command) == 0


def test_what_a_killed_writer_had_not_finished_is_cleared(tmp_path: Path) -> None:
    """Halves of files do not gather in a session that is killed often."""
    folder = tmp_path / "s"
    (folder / "runs" / "1").mkdir(parents=True)
    halves = [folder / ".samples.csv.ab12_x9z", folder / "runs/1/.ending.json.ab12_x9z"]
    kept = [folder / ".hidden", folder / "runs/1/rank-0.csv", folder / ".writer.lock.ab12_x9z"]
    for path in (*halves, *kept):
        path.write_text("")
    marker = {"host": os.uname().nodename, "boot": "an earlier one", "pid": "1"}
    (folder / "writer.lock").write_text(str(marker).replace("'", '"'))

    with lock.lock_session(folder, Reporter()):
        pass
    assert [path.exists() for path in halves] == [False, False]
    assert all(path.exists() for path in kept)


def test_a_sweep_killed_in_its_first_moment_goes_on(here: Path) -> None:
    """Only the marker, or half a header, is there: that is ours and no stranger's folder."""
    folder = here / made.SESSION
    folder.mkdir()
    marker = {"host": os.uname().nodename, "boot": "an earlier one", "pid": "1"}
    (folder / "writer.lock").write_text(str(marker).replace("'", '"'))
    (folder / ".session.json.ab12_x9z").write_text("{")
    words = made.words(made.node(here / "node.yaml"), "ring/ll")
    assert run(["sweep", *words, "--communicators", "1", "-q"]) == 0
