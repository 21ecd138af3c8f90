"""A launch ends, whatever its processes do, and leaves nothing running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from processes import MARK, survivors, wait_for
from wording import lacks

from rccltune.launch import launch_processes, process
from rccltune.launch.launch_processes import TAG, LaunchProcesses
from rccltune.launch.process import LaunchCommand, end_leftovers, run
from rccltune.model.errors import LaunchError, MachineError

# A launcher like Open MPI 5's: every rank in a process group of its own.
FAMILY = """
import os, subprocess, sys, time
kids = [subprocess.Popen(["sleep", "{nap}"], start_new_session={own}) for _ in range(3)]
print("started", flush=True)
{then}
"""


def job(
    tmp_path: Path, script: str, *, timeout_s: float = 60.0, complete: bool = False
) -> LaunchCommand:
    """A Python script as a launch."""
    return LaunchCommand(
        argv=(sys.executable, "-c", script),
        variables={**os.environ, MARK: str(tmp_path)},
        folder=tmp_path,
        timeout_s=timeout_s,
        is_complete=lambda _: complete,
    )


def test_output_and_exit_code_are_kept(tmp_path: Path) -> None:
    """stdout and stderr go to their files as they come; the exit code is the program's."""
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"

    ending = run(job(tmp_path, script))

    assert (ending.exit_code, ending.signal, ending.timed_out) == (3, None, False)
    assert ending.how == "exit code 3"
    assert (tmp_path / "stdout.log").read_text() == "out\n"
    assert (tmp_path / "stderr.log").read_text() == "err\n"


def test_a_signal_is_told_from_an_exit(tmp_path: Path) -> None:
    """A crash of the launcher itself is named by its signal."""
    ending = run(job(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))

    assert (ending.exit_code, ending.signal) == (None, signal.SIGSEGV)
    assert ending.how == "signal 11"
    assert not list(tmp_path.glob("core*"))


@pytest.mark.parametrize("own", [True, False])
def test_time_out_ends_every_process(tmp_path: Path, own: bool) -> None:
    """Ranks in process groups of their own die with the rest when time is over."""
    script = FAMILY.format(nap=300, own=own, then="time.sleep(300)")

    ending = run(job(tmp_path, script, timeout_s=1.5))

    assert ending.timed_out
    assert ending.exit_code is None
    assert survivors(tmp_path) == []


def test_ranks_that_outlive_their_launcher_are_ended(tmp_path: Path) -> None:
    """A launcher that crashes or is killed leaves no rank behind."""
    script = FAMILY.format(nap=300, own=True, then="os._exit(9)")

    ending = run(job(tmp_path, script))

    assert ending.exit_code == 9
    assert survivors(tmp_path) == []


def test_a_launcher_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some seconds of grace, then SIGKILL."""
    monkeypatch.setattr(process, "GRACE_S", 1.0)
    script = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)"

    ending = run(job(tmp_path, script, timeout_s=1.0))

    assert ending.timed_out
    assert survivors(tmp_path) == []


def test_a_launcher_that_does_not_return_is_ended_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open MPI 5 sometimes hangs after its ranks are gone and all output is there."""
    monkeypatch.setattr(process, "GRACE_S", 1.0)
    ending = run(
        job(tmp_path, "print('done', flush=True)\nimport time\ntime.sleep(300)", complete=True)
    )

    assert ending.lingered
    assert not ending.timed_out
    assert ending.duration_s < 30


def test_a_missing_program_is_a_message(tmp_path: Path) -> None:
    """No traceback for a path that is wrong."""
    wish = LaunchCommand(
        argv=("/no/such/program",),
        variables={},
        folder=tmp_path,
        timeout_s=1,
        is_complete=lambda _: False,
    )
    with pytest.raises(MachineError, match="started"):
        run(wish)


def test_orphans_do_not_stay_as_zombies(tmp_path: Path) -> None:
    """A sweep makes hundreds of launches; what they orphan is collected."""
    script = (
        "import subprocess, time\nsubprocess.run(['sh', '-c', 'sleep 0.05 &'])\ntime.sleep(0.5)"
    )
    before = zombies()
    run(job(tmp_path, script))
    assert zombies() - before == set()


def zombies() -> set[str]:
    """Dead children of this process that nobody has waited for."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            text = (entry / "status").read_text()
            if f"PPid:\t{os.getpid()}\n" in text and "State:\tZ" in text:
                found.add(entry.name)
    return found


DRIVER = """
import os, sys
from pathlib import Path
from rccltune.launch.signals import interruptible
from rccltune.launch.process import LaunchCommand, run
{first}script = {script!r}
try:
    with interruptible():
        run(LaunchCommand(argv=(sys.executable, "-c", script), variables={{**os.environ, {mark!r}: sys.argv[1]}},
                folder=Path(sys.argv[1]), timeout_s=120, is_complete=lambda _: False))
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGHUP, 130)]
)
def test_interrupting_rccltune_ends_its_ranks(tmp_path: Path, kind: int, code: int) -> None:
    """Ctrl-C, SIGTERM and a closed terminal leave nothing running."""
    process = _driver(tmp_path)

    process.send_signal(kind)

    assert process.wait(timeout=40) == code
    assert survivors(tmp_path) == []


# Python drops what a handler raises around a fork, so a Ctrl-C at that moment would be lost.
STRIKE = "os.register_at_fork(before=lambda: os.kill(os.getpid(), {kind}))\n"


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_start_of_a_launch_is_not_lost(tmp_path: Path, kind: int) -> None:
    """It strikes when the launch is known, so that the launch is ended."""
    script = "import time; time.sleep(300)"
    code = DRIVER.format(script=script, mark=MARK, first=STRIKE.format(kind=int(kind)))

    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        preexec_fn=_hear,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 130
    assert survivors(tmp_path) == []


def test_killing_rccltune_ends_its_ranks(tmp_path: Path) -> None:
    """SIGKILL of rccltune: the kernel tells the launcher, which ends its ranks."""
    process = _driver(tmp_path)

    process.kill()
    process.wait(timeout=40)

    assert wait_for(lambda: not survivors(tmp_path))


def test_killing_rccltune_ends_ranks_of_a_launcher_that_does_not_listen(tmp_path: Path) -> None:
    """mpirun is told by the kernel and ignores it: the guardian ends it and its ranks."""
    driver = _driver(tmp_path, first=HURRY, then=DEAF)

    driver.kill()
    driver.wait(timeout=40)

    assert wait_for(lambda: not survivors(tmp_path))


def test_killing_rccltune_and_its_launcher_leaves_no_rank(tmp_path: Path) -> None:
    """kill -9 of both at once, as a memory limit does."""
    driver = _driver(tmp_path, first=HURRY)
    leaders = [pid for pid in survivors(tmp_path) if parent_of(pid) == driver.pid]

    for pid in (driver.pid, *leaders):
        os.kill(pid, signal.SIGKILL)
    driver.wait(timeout=40)

    assert leaders
    assert wait_for(lambda: not survivors(tmp_path))


def test_who_goes_on_ends_what_even_the_guardian_left(tmp_path: Path) -> None:
    """rccltune, launcher and guardian killed: the launch's folder still names its processes."""
    driver = _driver(tmp_path, then=DEAF)
    run_id = (tmp_path / "run-id").read_text()
    (guardian,) = guardians(run_id)

    for pid in (guardian, driver.pid):
        os.kill(pid, signal.SIGKILL)
    driver.wait(timeout=40)
    ranks = survivors(tmp_path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "GRACE_S", 0.5)
        assert end_leftovers([tmp_path, tmp_path / "none"]) == len(ranks) == 4
    assert survivors(tmp_path) == []
    assert end_leftovers([tmp_path]) == 0


def test_a_finished_launch_has_no_guardian(tmp_path: Path) -> None:
    """Nothing of rccltune itself stays either."""
    run(job(tmp_path, "print()"))

    assert guardians((tmp_path / "run-id").read_text()) == []


def guardians(run_id: str) -> list[int]:
    """Processes whose command line names a run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if run_id.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def parent_of(pid: int) -> int:
    """A process's parent."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(x for x in status.splitlines() if x.startswith("PPid:")).split()[1])


def test_a_process_that_cannot_be_killed_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number, its state and what to do; rccltune waits no longer than it says."""
    script = FAMILY.format(nap=300, own=True, then="os._exit(0)")
    with monkeypatch.context() as patch:
        # No signal arrives, as where a process hangs in the driver.
        patch.setattr(launch_processes, "_kill", lambda _: None)
        patch.setattr(process, "GRACE_S", 0.3)
        with pytest.raises(LaunchError, match="processes") as caught:
            run(job(tmp_path, script))
    left = survivors(tmp_path)

    assert len(left) == 3
    assert all(f"{pid} (state S)" in caught.value.message for pid in left)
    assert lacks(str(caught.value.hint), "is started") == []
    monkeypatch.setattr(process, "GRACE_S", 0.3)
    assert end_leftovers([tmp_path]) == 3
    assert survivors(tmp_path) == []


def test_state_d_is_named_as_the_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uninterruptible sleep: the remedy is the driver's and not the user's."""
    monkeypatch.setattr(LaunchProcesses, "end", lambda *_, **__: {77: "D"})

    with pytest.raises(LaunchError, match=r"77 \(state D\)") as caught:
        run(job(tmp_path, "print()"))
    assert caught.value.exit_code == 5
    assert "dmesg" in str(caught.value.hint)


def test_a_process_is_known_again_without_its_environment(tmp_path: Path) -> None:
    """What dies inside the driver has no environment any more, and is not gone."""
    child = subprocess.Popen(
        ["/bin/sh", "-c", "read line; exec env -i sleep 300"],
        env={**os.environ, TAG: "seen"},
        stdin=subprocess.PIPE,
        text=True,
    )
    try:
        seen = LaunchProcesses(["seen"])
        deadline = time.monotonic() + 20
        while child.pid not in seen.alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        while child.pid in LaunchProcesses(["seen"]).alive() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(seen.alive()) == [child.pid]
        assert LaunchProcesses(["seen"]).alive() == {}
    finally:
        child.kill()
        child.communicate()
    assert seen.alive() == {}


def test_a_child_whose_parent_is_gone_starts_nothing() -> None:
    """Killed between the fork and the wish to be told: the kernel would tell nobody."""
    other = os.getpid() + 1
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(
            ["/bin/true"],
            preexec_fn=lambda: process._prepare(other),
            check=True,
        )


def _hear() -> None:
    """Tests that are started in the background inherit signals that are ignored."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_DFL)


# What a real launcher does when it is told to end …
ENDS_RANKS = (
    "import signal\n"
    "def stop(*_):\n    [k.kill() for k in kids]\n    os._exit(1)\n"
    "signal.signal(signal.SIGTERM, stop)\nprint('listens', flush=True)\ntime.sleep(300)"
)
# … and one that does not listen, as MPICH's with stopped ranks.
DEAF = (
    "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('does not listen', flush=True)\ntime.sleep(300)"
)
HURRY = "from rccltune.launch import process\nprocess.GRACE_S = 0.5\n"


def _driver(tmp_path: Path, *, first: str = "", then: str = ENDS_RANKS) -> subprocess.Popen[bytes]:
    """rccltune's launch room in a process of its own, with a launch of four processes."""
    script = FAMILY.format(nap=300, own=True, then=then)
    code = DRIVER.format(script=script, mark=MARK, first=first)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        preexec_fn=_hear,  # noqa: PLW1509 - this process has one thread
    )
    deadline = time.monotonic() + 20
    log = tmp_path / "stdout.log"
    # Its last word, once its handler is there; "started" comes before that.
    while not (log.exists() and "listen" in log.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process
