"""Streams that are closed, full or broken: talk may fail, and what is measured stays the same."""

from __future__ import annotations

import csv
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Final

import made
import pytest

from rccltune.cli import run

pytestmark = pytest.mark.usefixtures("here")

# What a shell does to the streams, and what the verb ends with where it does its work.
TALK_GONE: Final = {
    "reader of both gone": "2>&1 | head -1; exit ${PIPESTATUS[0]}",
    "reader of both never there": "2>&1 | true; exit ${PIPESTATUS[0]}",
    "stderr full": "2>/dev/full",
    "stderr closed": "2>&-",
    "all closed": "<&- >&- 2>&-",
}
ALL: Final = "all closed"
EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
RULES: Final = str(EXAMPLES / "h200x4-nccl-2.28.9" / "rccl_tuner.csv")


def program(arguments: list[str], streams: str = "", where: Path | None = None) -> int:
    """Run the program by a shell that treats its streams badly; its exit code."""
    line = shlex.join([sys.executable, "-m", "rccltune", *arguments])
    done = subprocess.run(
        [str(shutil.which("bash")), "-c", f"{line} {streams}"],
        cwd=where,
        capture_output=True,
        check=False,
    )
    # A child that had become descriptor 1 or 2 of another file would not be seen here.
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"has a bug" not in done.stdout + done.stderr
    return done.returncode


def holds_talk(folder: Path) -> list[Path]:
    """Files of a session that have what was for stdout or stderr."""
    said = (b" of all ranks, about", b"Session: ", b"Next: rccltune", b"To use it now")
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".html"]
    return [path for path in files if any(one in path.read_bytes() for one in said)]


@pytest.mark.usefixtures("stand_ins")
def test_a_sweep_that_nobody_hears_is_the_same_sweep(here: Path) -> None:
    """Also by the plugin, which writes to descriptor 2 by itself."""
    words = made.words(made.node(here / "node.yaml"), "ring/ll")
    assert program(["sweep", *words, "--communicators", "1", "-o", "s"], TALK_GONE[ALL]) == 0
    with Path("s/samples.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["setting"] == "ring/ll"]
    assert {row["ran"][:7] for row in rows if not row["unusable"]} == {"ring/ll"}
    assert holds_talk(Path("s")) == []


@pytest.mark.long
@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize("streams", ["reader of both gone", ALL])
def test_a_tune_that_nobody_hears_proves_its_rules(here: Path, streams: str) -> None:
    """Also through the plugin, which writes to descriptor 2 by itself."""
    words = made.words(made.node(here / "node.yaml"))
    assert program(["tune", *words, "-o", "s"], TALK_GONE[streams]) == 0
    [row] = made.rows(Path("s", made.RULES))
    assert row[3:5] == ["ring", "simple"]
    assert Path("s/report.html").exists()
    assert holds_talk(Path("s")) == []


def test_a_result_that_could_not_be_written_is_an_error_at_the_end(
    swept: Path, swept_once: Path
) -> None:
    """Somebody waits for it: exit code 7, when all is measured."""
    words = made.words(swept_once.parent / "node.yaml", "ring/ll")
    assert program(["sweep", *words, "--json"], ">/dev/full 2>&1") == 7
    assert (swept / "samples.csv").exists()
    assert program(["explain", RULES], "1</dev/null") == 7


def test_a_pipe_that_is_full_for_now_loses_nothing() -> None:
    """Another program's non-blocking mode is on the pipe itself, and so on ours."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    rules = [f"allreduce,{n << 10},{n << 10},ring,ll,-1,1,8,-1,-1" for n in range(1, 50)]
    Path("long.csv").write_text("\n".join(rules) + "\n", encoding="ascii")
    command = [sys.executable, "-m", "rccltune", "explain", "long.csv", "--json"]
    with subprocess.Popen(command, stdout=writer) as running:
        os.close(writer)
        time.sleep(0.5)
        with os.fdopen(reader, "rb") as stream:
            text = stream.read()
        assert running.wait() == 0
    whole = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    # More than the pipe holds.
    assert len(whole) > 8192
    assert text == whole


def in_use() -> list[list[str]]:
    """A cheap command line of every verb that has one."""
    return [
        ["detect"],
        ["doctor"],
        ["sweep", *made.words(made.SMALLEST), "--plan"],
        ["tune", *made.words(made.SMALLEST), "--collective", "all"],
        ["import", "other.csv", "-o", "new"],
        ["fit", "s"],
        ["emit-config", "s", "-o", "-"],
        ["verify", "s"],
        ["plot", "s", "-o", "drawn", "--force"],
        ["report", "s", "-o", "page.html", "--force"],
        ["workload", "workload.csv"],
        ["explain", "rules.csv"],
        ["why", "job.log"],
        ["gather", "none"],
        ["deploy", "site", "s"],
        ["job", "s", "--", "/proc/nonexistent/train"],
        ["plugin", "--check"],
        ["npkit", "s", "--setting=tree/ll", "--collective=all_reduce", "--bytes=4M", "-o", "dump"],
    ]


@pytest.fixture(scope="module")
def prepared(
    published_once: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[tuple[str, ...], int]]:
    """A folder with what the command lines want, and what each of them earns there."""
    folder = tmp_path_factory.mktemp("verbs")
    table = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
    before = Path.cwd()
    os.chdir(folder)
    try:
        shutil.copy(table, "other.csv")
        shutil.copytree(published_once, "s")
        shutil.copy(next(Path("s").glob("rccl_tuner*.csv")), "rules.csv")
        Path("job.log").write_text("nothing of a tuner\n", encoding="utf-8")
        Path("workload.csv").write_text("no workload\n", encoding="utf-8")
        return folder, {tuple(command): run(command) for command in in_use()}
    finally:
        os.chdir(before)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_verb_ends_with_what_it_earned(
    prepared: tuple[Path, dict[tuple[str, ...], int]],
) -> None:
    """Whoever is not heard did the same work as whoever is; two ways, in turns."""
    folder, earned = prepared
    assert set(earned.values()) >= {0, 2, 7}
    ways = cycle(("reader of both never there", ALL))
    for (command, code), way in zip(earned.items(), ways, strict=False):
        assert program([*command], TALK_GONE[way], where=folder) == code, (command, way)
