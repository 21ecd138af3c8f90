"""Steps over the connection to rank 0: the real rank program on two simulated GPUs."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from perf_sweeps import Ground

from rccltune import plugin
from rccltune.measure import library
from rccltune.measure.connection import (
    RENDEZVOUS_FILE,
    Answer,
    ConnectionLostError,
    HungError,
    RankConnection,
    connect,
)
from rccltune.simulate import sources
from rccltune.simulate.compiled import compile_node

TOKEN = "0123456789abcdef"  # noqa: S105 - of this test alone
CALL = "call all_reduce float sum out 4096 -"


@contextmanager
def ranks(
    folder: Path, token: str = TOKEN, start: Sequence[str] = ("--start", "2")
) -> Iterator[subprocess.Popen[bytes]]:
    """Two ranks that wait for steps, or one that a launcher started."""
    node = sources.load_node(sources.node_path("node.yaml", None))
    (folder / "node").write_bytes(compile_node(node))
    run = folder / "run"
    run.mkdir()
    measured = library.stand_in()
    argv = [str(plugin.native_folder() / "rccltune-perf"), "--folder", str(run), *start]
    argv += ["--library", str(measured.file), "--bind", "none"]
    argv += ["--runtime", str(measured.runtime)] if measured.runtime else []
    variables = {
        **os.environ,
        **dict(measured.needs),
        "RCCLTUNE_PERF_TOKEN": token,
        "RCCLTUNE_SIM_NODE": str(folder / "node"),
        "RCCLTUNE_SIM_SEED": "1",
        "RCCLTUNE_SIM_LAUNCH": "1",
    }
    process = subprocess.Popen(argv, env=variables, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def connected(folder: Path, process: subprocess.Popen[bytes], n_ranks: int = 2) -> RankConnection:
    """A connection to its rank 0."""
    return connect(
        folder / "run", TOKEN, n_ranks, limit_s=60, is_over=lambda: process.poll() is not None
    )


def made(connection: RankConnection, *lines: str, hung_after_s: float = 60) -> list[Answer]:
    """Answers to lines."""
    return list(connection.exchange(lines, lambda _: hung_after_s))


def test_steps_are_answered_with_what_every_rank_wrote(ground: Ground) -> None:
    """Each line has an answer, with the same rows as the ranks' files."""
    with (
        ranks(ground.folder) as process,
        closing(connected(ground.folder, process)) as connection,
    ):
        (first,) = made(connection, "plan 2 4096")
        rows = made(connection, "communicator first:0", *[CALL] * 100)
        connection.end()
        assert process.wait(timeout=60) == 0
    assert (first.line, len(first.ranks)) == ("plan 2 4096", 2)
    assert any(line.startswith("# host ") for line in first.ranks[1])
    assert [one.line for one in rows] == ["communicator first:0", *[CALL] * 100]
    for rank in range(2):
        lines = (ground.folder / f"run/rank-{rank}.csv").read_text().splitlines()
        written_rows = [line for line in lines if line[:1].isdigit()]
        answered = [line for one in rows for line in one.ranks[rank] if line[:1].isdigit()]
        assert answered == written_rows
        assert len(answered) == 101


def fnv(file: Path) -> str:
    """FNV-1a of 64 bits in words of 8 bytes."""
    content = file.read_bytes()
    padded = content + bytes(-len(content) % 8) + struct.pack("<Q", len(content))
    digest = 0xCBF29CE484222325
    for (word,) in struct.iter_unpack("<Q", padded):
        digest = ((digest ^ word) * 0x100000001B3) % (1 << 64)
    return f"{digest:016x}"


def test_a_rank_that_a_launcher_started_says_digests_of_files(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the library and of itself, for hosts to be compared by; its first answer has them."""
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    with (
        ranks(ground.folder, start=()) as process,
        closing(connected(ground.folder, process, n_ranks=1)) as connection,
    ):
        (first,) = made(connection, "plan 2 4096")
    said = dict(
        line.removeprefix("# fact ").split("=", 1)
        for line in first.ranks[0]
        if line.startswith("# fact ")
    )
    assert said["library"].split()[1] == fnv(library.stand_in().file)
    assert said["rank program"] == fnv(plugin.native_folder() / "rccltune-perf")


def test_who_closes_the_connection_ends_all_ranks(ground: Ground) -> None:
    """Exit code 7 of docs/measuring.md: another one is gone."""
    with (
        ranks(ground.folder) as process,
        closing(connected(ground.folder, process)) as connection,
    ):
        made(connection, "plan 2 4096", "communicator")
        connection.close()
        assert process.wait(timeout=60) == 7


def test_a_refused_step_loses_the_connection(ground: Ground) -> None:
    """Exit code 2, and nothing waits for an answer for ever."""
    with (
        ranks(ground.folder) as process,
        closing(connected(ground.folder, process)) as connection,
    ):
        with pytest.raises(ConnectionLostError):
            made(connection, "plan 2 4096", "dance")
        assert process.wait(timeout=60) == 2


def test_ranks_that_do_not_answer_are_told(ground: Ground) -> None:
    """Rank 0 stands still: its connection is there, and no answer comes."""
    with (
        ranks(ground.folder) as process,
        closing(connected(ground.folder, process)) as connection,
    ):
        made(connection, "plan 2 4096")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGSTOP)
        with pytest.raises(HungError):
            made(connection, "communicator", hung_after_s=0.5)


def test_nobody_listens(tmp_path: Path) -> None:
    """Ranks that have ended, and a file that names a listener which is none of ours."""
    with pytest.raises(ConnectionLostError):
        connect(tmp_path, TOKEN, 2, limit_s=60, is_over=lambda: True)
    (tmp_path / RENDEZVOUS_FILE).write_text("127.0.0.1 1\n")
    with pytest.raises(HungError):
        connect(tmp_path, TOKEN, 2, limit_s=0.1, is_over=lambda: False)
