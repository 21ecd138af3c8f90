"""The session folder keeps what it was given, through kills, locks and strangers."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sample_records import records
from sample_rows import Sample, frame
from wording import lacks

from rccltune.model.errors import SessionError
from rccltune.model.measurement import Fingerprint, ImportedFile, StatedFacts
from rccltune.model.reporter import Reporter
from rccltune.model.settings import (
    BASELINE,
    CurveKey,
    Mode,
    Scale,
    Setting,
)
from rccltune.model.vocabulary import Collective, Placement
from rccltune.session import files, lock, samples, store


def header(folder: Path) -> store.Session:
    """A session that knows nothing yet."""
    return store.Session(
        path=folder,
        command="test",
        tool="rccltune",
        fingerprint=Fingerprint(),
        setup=store.SessionSetup(runner="perf"),
    )


def sample(launch: str = "a1", **changes: object) -> Sample:
    """One good half-row."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=Setting.parse("tree/ll128"),
        placement=Placement.IN_PLACE,
        scale=Scale(n_nodes=1, n_ranks=64),
    )
    return replace(Sample(key=key, launch=launch, nbytes=1024, time_us=12.5), **changes)


def stored(opened: store.Session) -> tuple[Sample, ...]:
    """What samples.csv has."""
    found = store.stored_samples(opened)
    assert found is not None
    return records(found)


def committed(folder: Path, log: bytes = b"raw \xff log\n", name: str = "a1") -> store.Session:
    """A session with one imported file."""
    raw = folder.parent / f"{name}.log"
    raw.write_bytes(log)
    file = ImportedFile(id=name, name="x.log", stated=StatedFacts(setting=BASELINE))
    return store.commit(header(folder), [(file, raw)], frame([sample(name)]))


def test_an_imported_file_reads_back(tmp_path: Path) -> None:
    """Record, raw bytes and samples come back as they were given."""
    committed(tmp_path / "s")

    opened = store.open_session(tmp_path / "s")
    (file,) = store.imported_files(tmp_path / "s")

    assert (file.name, file.stated) == ("x.log", StatedFacts(setting=BASELINE))
    assert store.raw_log(tmp_path / "s", "a1:3").read_bytes() == b"raw \xff log\n"
    assert stored(opened) == (sample(),)


def test_a_file_without_its_record_does_not_count(tmp_path: Path) -> None:
    """A kill between a file's copy and its record loses that file alone."""
    opened = committed(tmp_path / "s")
    (tmp_path / "s/launches/b2").mkdir()
    (tmp_path / "s/launches/b2/stdout.log").write_text("half")

    assert [one.id for one in store.imported_files(tmp_path / "s")] == ["a1"]
    assert store.stored_samples(opened) is not None


def test_samples_whose_runs_and_logs_are_gone_stay_as_they_are(tmp_path: Path) -> None:
    """Copied without them, a session is read from the table; nothing is made of nothing."""
    opened = committed(tmp_path / "s")
    file = tmp_path / "s/samples.csv"
    shutil.rmtree(tmp_path / "s/launches")
    assert records(samples.load_frame(opened, Reporter())) == (sample(),)
    older = b"another," + file.read_bytes()
    file.write_bytes(older)
    with pytest.raises(SessionError, match="are gone"):
        samples.load_frame(opened, Reporter())
    assert file.read_bytes() == older


def test_samples_csv_depends_on_the_samples_only(tmp_path: Path) -> None:
    """The same launches in another order give the same bytes, so hashes can be compared."""
    first, second = tmp_path / "one", tmp_path / "two"
    for folder, order in ((first, "ab"), (second, "ba")):
        store.commit(header(folder), [], frame([sample(f"{n}1") for n in order]))

    assert (first / "samples.csv").read_bytes() == (second / "samples.csv").read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": 9, "tool": "rccltune 9.9"}', r"format 9.*(?s:.)*rccltune 9\.9"),
        ("{", "this is no JSON(?s:.)*measure or import anew"),
        ("[]", "must be .* pairs"),
        ('{"format": 2, "setup": {}, "fingerprint": {"wings": 2}}', r"\.wings is unknown"),
        ('{"format": 2, "setup": {}, "fingerprint": {"cu_count": "x"}}', "must be a whole number"),
        ('{"format": 1, "tool": "rccltune 0.1.0", "fingerprint": {}, "variants": []}', "format 1"),
    ],
)
def test_a_header_of_another_kind_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """A newer format, or a damaged file, is named with its remedy and exit code 7."""
    (tmp_path / "session.json").write_text(text)

    with pytest.raises(SessionError, match=said) as caught:
        store.open_session(tmp_path)

    assert caught.value.exit_code == 7
    assert caught.value.hint


def test_a_damaged_table_is_named_with_its_line(tmp_path: Path) -> None:
    """samples.csv can be rebuilt, and the message says so."""
    opened = committed(tmp_path / "s")
    table = tmp_path / "s/samples.csv"
    table.write_text(table.read_text().replace("tree/ll128", "tree/ll129"))

    with pytest.raises(SessionError, match="unknown protocol") as caught:
        store.stored_samples(opened)
    assert caught.value.where is not None
    assert caught.value.where.endswith("samples.csv:2")


def test_two_machines_are_shown_with_their_difference() -> None:
    """Every differing field is listed; unknown does not agree with known."""
    one = Fingerprint(product="MI300X", mode=Mode.parse("cpx-nps4"))
    other = Fingerprint(product="MI300X", hosts=("n1",))

    with pytest.raises(SessionError) as caught:
        store.combined_fingerprint([("a.log", one), ("b.log", other)])

    assert lacks(caught.value.message, "cpx-nps4 in", "a.log", "b.log") == []
    assert lacks(caught.value.message, "a.log", "n1 in", "b.log") == []
    assert store.combined_fingerprint([("a", one), ("b", one)]) == one


# --- the lock ---------------------------------------------------------------------------------

HOLD = """
import sys, time
from pathlib import Path
from rccltune.session import lock
from rccltune.model.reporter import Reporter
with lock.lock_session(Path(sys.argv[1]), Reporter()):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process that holds the session."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_live_writer_keeps_others_out(tmp_path: Path) -> None:
    """The message names the process; nothing of the session changes."""
    process = holder(tmp_path / "s")
    try:
        with (
            pytest.raises(SessionError, match=f"process {process.pid} .* is running"),
            lock.lock_session(tmp_path / "s", Reporter()),
        ):
            pass
    finally:
        process.kill()
        process.communicate()


def test_a_killed_writer_is_taken_over_with_a_note(tmp_path: Path) -> None:
    """kill -9 leaves a marker; the next command goes on and says so."""
    process = holder(tmp_path / "s")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    notes: list[str] = []

    with lock.lock_session(tmp_path / "s", listener(notes)):
        assert (tmp_path / "s" / "writer.lock").exists()

    assert notes == [f"took over the session from process {process.pid}, which is gone"]
    assert not (tmp_path / "s" / "writer.lock").exists()


def listener(said: list[str]) -> Reporter:
    """Puts down what is said."""

    class Listener(Reporter):
        def say(self, text: str) -> None:
            said.append(text)

    return Listener()


def marker(folder: Path, **changes: str) -> None:
    """A marker like ours with some fields changed; field 22 of stat is the start time."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    mine = {
        "host": os.uname().nodename,
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip(),
        "namespace": str(Path("/proc/self/ns/pid").readlink()),
        "pid": str(os.getpid()),
        "started": stat[19],
    }
    (folder / "writer.lock").write_text(json.dumps(mine | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "is running"),
        ({"host": "elsewhere"}, "cannot be seen"),
        ({"namespace": "pid:[1]"}, "another container"),
        ({"pid": "x"}, "cannot be read"),
    ],
)
def test_who_cannot_be_seen_is_taken_for_alive(
    tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    """Taking over a session that another host or container writes would destroy it."""
    marker(tmp_path, **changes)

    with pytest.raises(SessionError, match=said), lock.lock_session(tmp_path, Reporter()):
        pass
    assert (tmp_path / "writer.lock").exists()


@pytest.mark.parametrize("changes", [{"started": "1"}, {"boot": "before"}])
def test_a_pid_used_again_is_not_the_writer(tmp_path: Path, changes: dict[str, str]) -> None:
    """After a reboot or in a long day, the same number is another process."""
    marker(tmp_path, **changes)
    notes: list[str] = []

    with lock.lock_session(tmp_path, listener(notes)):
        pass
    assert len(notes) == 1


def test_many_writers_never_hold_it_together(tmp_path: Path) -> None:
    """Ten processes take turns over a dead holder's marker; no two are inside at once."""
    marker(tmp_path, started="1")
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom rccltune.session import lock\n"
        "from rccltune.model.errors import SessionError\n"
        "from rccltune.model.reporter import Reporter\n"
        "f = Path(sys.argv[1])\n"
        "while True:\n"
        "    try:\n"
        "        with lock.lock_session(f, Reporter()):\n"
        "            (f / 'inside').mkdir(); time.sleep(0.01); (f / 'inside').rmdir(); break\n"
        "    except SessionError: time.sleep(0.01)\n"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) for _ in range(10)]
    deadline = time.monotonic() + 60

    codes = [process.wait(timeout=max(1.0, deadline - time.monotonic())) for process in crowd]

    assert codes == [0] * 10


@pytest.mark.parametrize("links", [True, False])
def test_a_disk_that_is_full_locks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Neither with links nor on a file system without: no empty marker stays."""

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with (
            pytest.raises(SessionError, match="space"),
            lock.lock_session(tmp_path, Reporter()),
        ):
            pass
    assert list(tmp_path.iterdir()) == []
    with lock.lock_session(tmp_path, Reporter()):
        assert json.loads((tmp_path / "writer.lock").read_text())["pid"] == str(os.getpid())
        with (
            pytest.raises(SessionError, match="is running"),
            lock.lock_session(tmp_path, Reporter()),
        ):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_found_by_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stays of the trial."""
    files.check_room(tmp_path)
    assert list(tmp_path.iterdir()) == []
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limit[1]))
    try:
        with pytest.raises(SessionError, match="cannot write") as caught:
            files.check_room(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert "free space" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """An error while writing never destroys what was there, and leaves no temporary file."""
    target = tmp_path / "x"
    files.write_atomically(target, "old")

    with pytest.raises(TypeError), files.replacing(target) as stream:
        stream.write("no bytes")

    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]
