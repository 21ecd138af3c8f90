"""SIGKILL at random moments and a terminal that closes: nothing is lost, nothing stays.

With Open MPI's own mpirun on the simulated node. ``RCCLTUNE_TEST_SEED=N`` repeats the draws of a
run that failed; moments are drawn, so what they hit still depends on the machine.
"""

from __future__ import annotations

import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import yamls
from wording import lacks

from rccltune.cli import run
from rccltune.launch.family import TAG
from rccltune.simulate import sources

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("stand_ins")]
# Every process of a test inherits it, rccltune's guardian among them.
MARK = "TEST_OF_KILLS"
SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "16K"]
SMALL += ["--setting", "tree/ll", "--setting", "ring/simple", "--communicators", "2", "--force"]
PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A folder with a node file."""

    folder: Path

    def command(self, session: str, launcher: str = "openmpi") -> list[str]:
        """A sweep of four ranks; a start-up that is waited for leaves time to strike."""
        where = ["--simulate", str(self.folder / "node.yaml"), "--mode", "cpx-nps4"]
        limits = ["--timeout", "30", "--env", "RCCLTUNE_SIM_STARTUP_S=0.2"]
        output = ["-o", str(self.folder / session)]
        return [
            "sweep",
            "--runner",
            "rccl-tests",
            *where,
            "--launcher",
            launcher,
            *limits,
            *SMALL,
            *output,
        ]

    def start(self, session: str) -> subprocess.Popen[bytes]:
        """rccltune in a process of its own, with usual signals and a mark."""
        with (self.folder / "stderr.txt").open("ab") as stream:
            return subprocess.Popen(
                [sys.executable, "-m", "rccltune", *self.command(session)],
                env={**os.environ, MARK: str(self.folder), "TMPDIR": str(self.folder)},
                stdout=subprocess.DEVNULL,
                stderr=stream,
                preexec_fn=_usual_signals,  # noqa: PLW1509 - this process has one thread
            )

    def marked(self) -> dict[int, bytes]:
        """Processes of this test that are alive, with their environments."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environ = (entry / "environ").read_bytes()
                if f"{MARK}={self.folder}".encode() in environ.split(b"\0"):
                    found[int(entry.name)] = environ
        return found

    def vanished(self) -> bool:
        """Wait until none is left."""
        deadline = time.monotonic() + PATIENCE_S
        while self.marked() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self.marked()

    def samples(self, session: str) -> pd.DataFrame:
        """samples.csv without the names of launches, which tell attempts apart."""
        table = pd.read_csv(self.folder / session / "samples.csv", keep_default_na=False)
        columns = ["setting", "placement", "nbytes", "time_us", "wrong", "unusable", "ran"]
        return table[columns].sort_values(columns).reset_index(drop=True)


def _usual_signals() -> None:
    """Tests that are started in the background inherit signals that are ignored."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_DFL)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """The shipped CPX node on four ranks; noise depends on what is measured and on nothing else."""
    raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw["scale"] |= {"ranks": 4, "devices_per_oam": 4}
    raw["fill"] = [{"ranks": 4, "placement": "node"}]
    raw["curves"] = [c | {"ranks": 4} for c in raw["curves"] if c.get("placement") == "node"]
    raw["noise"] = {"sigma": 0.02}
    (tmp_path / "node.yaml").write_text(yamls.dumped(raw), encoding="utf-8")
    return Ground(folder=tmp_path)


def is_rank(environ: bytes) -> bool:
    """Of a launch, and started by mpirun."""
    return TAG.encode() in environ and b"\0OMPI_COMM_WORLD_RANK=" in environ


def is_launcher(environ: bytes) -> bool:
    """Of a launch, and mpirun itself."""
    return TAG.encode() in environ and b"\0OMPI_COMM_WORLD_RANK=" not in environ


VICTIMS: dict[str, Callable[[bytes], bool]] = {"rank": is_rank, "mpirun": is_launcher}


def strike(ground: Ground, kind: str, process: subprocess.Popen[bytes], rng: random.Random) -> bool:
    """SIGKILL one process of a kind at a random moment; False when the sweep ended before."""
    deadline = time.monotonic() + PATIENCE_S
    moment = time.monotonic() + rng.uniform(0.0, 3.0)
    while process.poll() is None and time.monotonic() < deadline:
        if time.monotonic() < moment:
            time.sleep(0.01)
            continue
        if kind == "rccltune":
            process.kill()
            process.wait()
            return True
        victims = sorted(pid for pid, e in ground.marked().items() if VICTIMS[kind](e))
        with suppress(ProcessLookupError, IndexError):
            os.kill(rng.choice(victims), signal.SIGKILL)
            return True
    return False


def torment(ground: Ground, n_kills: int, rng: random.Random) -> None:
    """Sweep under random kills, as many sessions as it takes, and compare each.

    Two kills of ranks or mpirun a session: the third of one setting would rightly put it into
    quarantine.
    """
    assert run(ground.command("whole", launcher="none")) == 0
    whole = ground.samples("whole")
    n_sessions = n_struck = 0
    while n_struck < n_kills:
        session = f"part{n_sessions}"
        kinds = ["rccltune"] * 3 + [rng.choice(list(VICTIMS)) for _ in range(2)]
        rng.shuffle(kinds)
        process = ground.start(session)
        while kinds and n_struck < n_kills and process.poll() is None:
            kind = kinds.pop()
            struck = strike(ground, kind, process, rng)
            n_struck += struck
            if struck and kind == "rccltune":
                # Half of the time the next rccltune meets what the killed one left running.
                assert rng.random() < 0.5 or ground.vanished(), f"left: {ground.marked().keys()}"
                process = ground.start(session)
        code = process.wait(timeout=120)
        assert code == 0, (ground.folder / "stderr.txt").read_text()[-3000:]
        assert ground.vanished(), f"left: {ground.marked().keys()}"
        pd.testing.assert_frame_equal(ground.samples(session), whole)
        n_sessions += 1


def seeded() -> random.Random:
    """Another seed each time, said where a test fails."""
    seed = int(os.environ.get("RCCLTUNE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"to repeat these draws: RCCLTUNE_TEST_SEED={seed}")  # noqa: T201 - shown on failure
    return random.Random(seed)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_five_random_kills_change_no_sample_and_leave_no_process(ground: Ground) -> None:
    """rccltune, mpirun or a rank: the resumed sweep has an undisturbed one's samples."""
    torment(ground, 5, seeded())


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_random_kills_change_no_sample_and_leave_no_process(ground: Ground) -> None:
    """The same, ten times as often."""
    torment(ground, 50, seeded())


def launching(ground: Ground, process: subprocess.Popen[bytes]) -> None:
    """Wait until ranks run."""
    deadline = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        if any(is_rank(environ) for environ in ground.marked().values()):
            return
        time.sleep(0.01)
    pytest.fail(f"no rank was started: {(ground.folder / 'stderr.txt').read_text()[-2000:]}")


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopping_a_sweep_ends_mpirun_and_its_ranks(ground: Ground, kind: signal.Signals) -> None:
    """Ctrl-C, SIGTERM, SIGHUP: exit code 130, and how to go on."""
    process = ground.start("s")
    launching(ground, process)

    process.send_signal(kind)

    assert process.wait(timeout=PATIENCE_S) == 130
    assert ground.vanished()
    assert lacks((ground.folder / "stderr.txt").read_text(), "same command") == []
    assert not (ground.folder / "s" / "writer.lock").exists()


def test_closing_the_terminal_ends_mpirun_and_its_ranks(ground: Ground) -> None:
    """The kernel hangs up; what is written to the terminal afterwards goes nowhere, quietly."""
    process_id, terminal = pty.fork()
    if process_id == 0:
        _usual_signals()
        os.environ |= {MARK: str(ground.folder), "TMPDIR": str(ground.folder)}
        os.execv(sys.executable, [sys.executable, "-m", "rccltune", *ground.command("s")])  # noqa: S606 - no shell is wanted
    deadline = time.monotonic() + PATIENCE_S
    os.set_blocking(terminal, False)
    while not any(map(is_rank, ground.marked().values())) and time.monotonic() < deadline:
        with suppress(BlockingIOError):
            os.read(terminal, 65536)
        time.sleep(0.02)

    os.close(terminal)

    _, status = os.waitpid(process_id, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    assert ground.vanished()
    assert not (ground.folder / "s" / "writer.lock").exists()
