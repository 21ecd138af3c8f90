"""RCCLTUNE_RECORD through the real plugin: what hosts of every ABI version asked, to the last call."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rccltune.model.errors import InputFileError
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import TUNABLE, Collective
from rccltune.rules.plugin_library import ABI_VERSIONS, PluginLibrary
from rccltune.workload import Workload, read_workload

TABLE = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))
SIZES = st.integers(0, 2**40) | st.sampled_from([0, 1, 2**20, 2**61, 2**63, 2**64 - 1])
Asked = tuple[Collective, int]


def counted(workload: Workload) -> Counter[Asked]:
    """Calls by collective and size."""
    found: Counter[Asked] = Counter()
    for one in workload.counts:
        found[one.collective, one.min_nbytes] += one.calls
    return found


@pytest.mark.parametrize("abi", ABI_VERSIONS)
@given(asked=st.lists(st.tuples(st.sampled_from(TUNABLE), SIZES), max_size=60))
@settings(max_examples=15, deadline=None)
def test_every_call_is_counted_once(host: PluginLibrary, abi: int, asked: list[Asked]) -> None:
    """Whatever is asked; sizes that no message has (2^60 and more) by their power of two."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.csv"
        env = {"RCCLTUNE_RECORD": str(path)}
        with host.communicator(abi=abi, n_nodes=2, n_ranks=128, env=env) as comm:
            for collective, nbytes in asked:
                answer = comm.ask(collective, nbytes, TABLE)
                assert (answer.cell, answer.channels) == (None, 0)
        found = read_workload(path)

    rounded = Counter((c, n if n < 2**61 else 1 << (n.bit_length() - 1)) for c, n in asked)
    assert counted(found) == rounded
    (one,) = found.recordings
    assert (one.source, one.is_finished, one.calls) == ("record", True, len(asked))
    assert found.scales in ((), (Scale(n_nodes=2, n_ranks=128),))


def test_threads_lose_nothing(host: PluginLibrary, tmp_path: Path) -> None:
    """Eight threads, each with a communicator, one file; ctypes leaves the interpreter's lock."""
    path = tmp_path / "record.csv"
    comms = [
        host.communicator(abi=5, n_nodes=1, n_ranks=8, env={"RCCLTUNE_RECORD": str(path)})
        for _ in range(8)
    ]

    def work(number: int) -> None:
        for k in range(500):
            comms[number].ask(Collective.ALL_GATHER, 64 * (k % 7), TABLE)
        comms[number].close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = read_workload(path)
    assert found.calls == 8 * 500
    assert len(found.recordings) == 8
    # One communicator, eight contexts: eight GPUs of one process.
    assert found.ranks_at(Scale(n_nodes=1, n_ranks=8)) == 8


KILLED = """
import os, signal, sys, time
from pathlib import Path
from rccltune.rules.plugin_library import PluginLibrary
from rccltune.model.vocabulary import Collective
host = PluginLibrary(Path(sys.argv[1]))
comm = host.communicator(abi=6, n_nodes=1, n_ranks=8, env={"RCCLTUNE_RECORD": sys.argv[2]})
for _ in range(300): comm.ask(Collective.ALL_REDUCE, 4096, ((1.0,),))
time.sleep(1.1)
for _ in range(300): comm.ask(Collective.ALL_REDUCE, 4096, ((1.0,),))
if sys.argv[3] == "killed": os.kill(os.getpid(), signal.SIGKILL)
"""


def _job(host: PluginLibrary, record: Path, how: str) -> int:
    command = [sys.executable, "-c", KILLED, str(host.path), str(record), how]
    return subprocess.run(command, check=False, timeout=60).returncode


def test_a_communicator_that_is_never_destroyed_is_written_at_exit(
    host: PluginLibrary, tmp_path: Path
) -> None:
    """Frameworks leave theirs to the end of the process."""
    assert _job(host, tmp_path / "record.csv", "left") == 0

    found = read_workload(tmp_path / "record.csv")
    assert (found.calls, found.recordings[0].is_finished) == (600, True)
    assert [path.name for path in tmp_path.iterdir()] == ["record.csv"]


def test_of_a_rank_that_is_killed_a_snapshot_is_left(host: PluginLibrary, tmp_path: Path) -> None:
    """At most 256 calls of a key, or the pause since the last snapshot, are missing; it says so."""
    assert _job(host, tmp_path / "record.csv", "killed") == -9

    assert read_workload(tmp_path / "record.csv").calls == 0
    (part,) = tmp_path.glob("record.csv.*.part")
    found = read_workload(part)
    assert 344 <= found.calls <= 600
    assert not found.recordings[0].is_finished


@pytest.mark.parametrize("name", ["none/record.csv", "%x"])
def test_a_file_that_cannot_be_made_stops_the_job(
    host: PluginLibrary, tmp_path: Path, name: str
) -> None:
    """A job must not run for hours and have recorded nothing."""
    with pytest.raises(InputFileError, match="RCCLTUNE_RECORD"):
        host.communicator(
            abi=5, n_nodes=1, n_ranks=8, env={"RCCLTUNE_RECORD": str(tmp_path / name)}
        )
