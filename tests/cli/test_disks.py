"""Disks that are full or read-only, clocks that jump, a second rccltune: nothing is lost."""

from __future__ import annotations

import ast
import errno
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from eight import raw_node, written
from wording import lacks

from rccltune.cli import run
from rccltune.model.reporter import Reporter
from rccltune.session import files

pytestmark = pytest.mark.usefixtures("stand_ins", "here", "per_setting")

SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "64K"]
SMALL += ["--setting", "tree/ll", "--setting", "ring/simple", "--communicators", "2"]
# What an interrupted walk has measured counts, so that its rows are not those of an undisturbed one.
COLUMNS = ["setting", "placement", "nbytes", "time_us", "wrong", "unusable", "ran"]


# One file for all sessions, which keep its place.
NODE: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def node(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The shipped node on eight ranks."""
    NODE[:] = [str(written(raw_node(), tmp_path_factory.mktemp("node") / "node.yaml"))]


def command(folder: Path | str, *more: str) -> list[str]:
    """A sweep of a simulated node in one process."""
    where = ["--simulate", NODE[0], "--mode", "cpx-nps4", "--launcher", "none"]
    return ["sweep", "--runner", "rccl-tests", *where, *SMALL, "-o", str(folder), *more]


def samples(folder: Path | str) -> pd.DataFrame:
    """samples.csv without the names of launches."""
    table = pd.read_csv(Path(folder) / "samples.csv", keep_default_na=False)
    return table[COLUMNS].sort_values(COLUMNS).reset_index(drop=True)


@pytest.fixture
def whole(tmp_path: Path) -> pd.DataFrame:
    """What an undisturbed sweep measures."""
    assert run(command(tmp_path / "whole")) == 0
    return samples(tmp_path / "whole")


def full_after(n_writes: int) -> Callable[[], None]:
    """Let the disk be full from a number of synced writes on; returns what frees it again."""
    done = 0
    real = os.fsync

    def fsync(handle: int) -> None:
        nonlocal done
        done += 1
        if done > n_writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", fsync)
    return patch.undo


def test_a_disk_that_fills_at_any_write_loses_nothing(
    whole: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message with a remedy, exit code 7; with room again, the same command goes on."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown on failure
    rng = random.Random(seed)
    # A sweep of this size syncs some 60 times.
    for number, n_writes in enumerate([0, *(rng.randrange(60) for _ in range(3))]):
        free = full_after(n_writes)
        code = run(command(f"s{number}"))
        free()
        assert code in (0, 7), f"after {n_writes} writes"
        told = capsys.readouterr().err
        assert code == 0 or "No space left on device" in told
        assert code == 0 or "run the same command again" in told

        assert run(command(f"s{number}")) == 0, f"after {n_writes} writes"
        pd.testing.assert_frame_equal(samples(f"s{number}"), whole)
        assert not list(Path(f"s{number}").glob("writer.lock*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB, where one may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or umount is None:
        pytest.skip("mounting needs root")
    options = ["-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if subprocess.run([mount, *options], capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    yield folder
    subprocess.run([umount, str(folder)], check=True)


def remounted(folder: Path, options: str) -> None:
    """The same file system, otherwise."""
    mount = str(shutil.which("mount"))
    subprocess.run([mount, "-o", f"remount,{options}", str(folder)], check=True)


def test_a_full_disk_cuts_no_log_off_unnoticed(
    small_disk: Path, whole: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """Benchmark and plugin do not look whether they could write; no setting is blamed for it."""
    filler = small_disk / "filler"
    assert run(command(small_disk / "s", "--communicators", "1")) == 0
    room = os.statvfs(small_disk)
    # A few pages are left: enough for small files, too few for logs.
    filler.write_bytes(bytes(room.f_bavail * room.f_frsize - 40_000))

    assert run(command(small_disk / "s")) == 7
    assert lacks(capsys.readouterr().err, "on device") == []
    filler.unlink()

    assert run(command(small_disk / "s")) == 0
    pd.testing.assert_frame_equal(samples(small_disk / "s"), whole)
    assert not (small_disk / "s" / "quarantine.json").exists()


def test_a_read_only_session_is_a_message_and_stays_readable(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot, another user's folder: fit.json is there, so figures and rules go elsewhere."""
    assert run(command(small_disk / "s", "--communicators", "1")) == 0
    assert run(["fit", str(small_disk / "s")]) == 0
    remounted(small_disk, "ro")
    try:
        before = {p: p.stat().st_mtime_ns for p in small_disk.rglob("*")}
        assert run(command(small_disk / "s")) == 7
        told = capsys.readouterr().err
        assert lacks(told, "Read-only") == []
        assert lacks(told, "folder writable") == []
        assert run(["emit-config", str(small_disk / "s"), "-o", "rules.csv"]) == 0
        assert Path("rules.csv").exists()
        assert {p: p.stat().st_mtime_ns for p in small_disk.rglob("*")} == before
    finally:
        remounted(small_disk, "rw")
    assert run(command(small_disk / "s")) == 0


def test_a_clock_that_jumps_changes_nothing(whole: pd.DataFrame) -> None:
    """Years ahead and back between any two looks: limits and samples are as always."""
    rng = random.Random(7)
    start = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("time", "time_ns"):
            patch.setattr(time, name, lambda: rng.randrange(-(1 << 31), 1 << 33))
        assert run(command("s", "--timeout", "60")) == 0
    assert time.monotonic() - start < 60
    pd.testing.assert_frame_equal(samples("s"), whole)


def test_the_wall_clock_is_read_for_records_only(repository: Path) -> None:
    """A clock that is set back must end no launch early and believe no dead lock alive."""
    found = set()
    for path in (repository / "rccltune").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in {
                *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow"),
                *("date.today", "datetime.today", "time.localtime", "time.gmtime"),
            }:
                found.add(f"{path.relative_to(repository)}: {ast.unparse(node)}")
    # When a launch or a job's run started, and of which day a link map is: for people.
    assert found == {
        "rccltune/deploy/folder.py: datetime.now",
        "rccltune/measure/launches.py: datetime.now",
        "rccltune/perf/ranks.py: datetime.now",
        "rccltune/links/session.py: datetime.now",
        "rccltune/job/runs.py: time.time",
    }


HOLD = """
import sys
from pathlib import Path
from rccltune.model.reporter import Reporter
from rccltune.session import files
with files.writing(Path(sys.argv[1]), Reporter()):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_rccltune_waits_for_no_one_and_changes_nothing(
    whole: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says who holds the session; when that one is gone, the same command goes on."""
    assert run(command("s", "--communicators", "1")) == 0
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        before = {p: p.stat().st_mtime_ns for p in Path("s").rglob("*")}
        assert run(command("s")) == 7
        assert f"process {holder.pid}" in capsys.readouterr().err
        assert {p: p.stat().st_mtime_ns for p in Path("s").rglob("*")} == before
        holder.kill()

    assert run(command("s")) == 0
    assert lacks(capsys.readouterr().err, "the session") == []
    pd.testing.assert_frame_equal(samples("s"), whole)


def test_what_a_killed_writer_had_not_finished_is_cleared(tmp_path: Path) -> None:
    """Halves of files do not gather in a session that is killed often."""
    folder = tmp_path / "s"
    (folder / "launches" / "a").mkdir(parents=True)
    halves = [folder / ".samples.csv.ab12_x9z", folder / "launches/a/.outcome.json.ab12_x9z"]
    kept = [folder / ".hidden", folder / "launches/a/stdout.log", folder / ".writer.lock.ab12_x9z"]
    for path in (*halves, *kept):
        path.write_text("")
    marker = {"host": os.uname().nodename, "boot": "an earlier one", "pid": "1"}
    (folder / "writer.lock").write_text(str(marker).replace("'", '"'))

    with files.writing(folder, Reporter()):
        pass
    assert [path.exists() for path in halves] == [False, False]
    assert all(path.exists() for path in kept)


def test_a_sweep_killed_in_its_first_moment_goes_on(tmp_path: Path) -> None:
    """Only the marker, or half a header, is there: that is ours and no stranger's folder."""
    folder = tmp_path / "s"
    folder.mkdir()
    marker = {"host": os.uname().nodename, "boot": "an earlier one", "pid": "1"}
    (folder / "writer.lock").write_text(str(marker).replace("'", '"'))
    (folder / ".session.json.ab12_x9z").write_text("{")

    assert run(command(folder, "--communicators", "1")) == 0
