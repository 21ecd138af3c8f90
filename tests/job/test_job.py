"""rccltune job, as a process of its own, on jobs that ask the real plugin."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from job_runs import BAD, RULES, TREE_LL, asking, rccltune
from wording import lacks

from rccltune.cli import run
from rccltune.job import trying

# Twelve rounds end sooner on a machine that does nothing else.
SHORT = ("--budget", "45s")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a rule file."""
    (tmp_path / "rules.csv").write_text(RULES, encoding="utf-8")
    return tmp_path


def tried(
    place: Path,
    command: list[str],
    *options: str,
    codes: tuple[int, ...] = (0,),
    **variables: str,
) -> dict[str, Any]:
    """The answer of a job that ends with one of these exit codes."""
    words = ("job", "--rules", "rules.csv", "--json", *options, "--", *command)
    done = rccltune(place, *words, **variables)
    assert done.returncode in codes, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_rules_that_pay_are_said_to(place: Path) -> None:
    """Steps of 8 ms beside 4 ms by the rules and 16 ms by bad ones: twice as fast, and it matters.

    Sleeps are a little longer than asked for, so the ratio is a little below 2.
    """
    command = asking(place, {TREE_LL: 4.0, BAD: 16.0}, plain_ms=8.0)
    found = tried(place, command, "--bad-rules", *SHORT)
    assert found["rules"]["verdict"] == "faster"
    assert 0.6 < found["rules"]["speed"] < 1.05
    assert found["communication"] == "communication settings matter to this job"
    good = [run for run in found["runs"] if run["arm"] == "rules"]
    assert found["rules"]["rounds"] == len(good) >= 3
    assert {(run["calls"], run["hits"]) for run in good} == {(12, 12)}
    assert good[0]["by_rule"] == [{"line": 1, "setting": "tree/ll", "calls": 12}]
    assert {run["calls"] for run in found["runs"] if run["arm"] == "as-is"} == {None}
    # Twelve steps, of which a fifth, rounded up, is warm-up.
    assert {(run["steps"], run["left_out"]) for run in found["runs"]} == {(12, 3)}
    assert (place / "rccltune-job" / "job.png").read_bytes().startswith(b"\x89PNG")


def test_the_control_stops_when_it_is_told_apart(place: Path) -> None:
    """Bad rules that double every step are not tried again and again."""
    command = asking(place, {TREE_LL: 8.0, BAD: 16.0}, plain_ms=8.0)
    found = tried(place, command, "--bad-rules", *SHORT)
    arms = [run["arm"] for run in found["runs"]]
    assert arms[:6] == ["as-is", "rules", "control", "rules", "control", "as-is"]
    assert 2 <= arms.count("control") <= 6
    assert arms.count("control") < arms.count("rules")


def test_rules_that_are_told_apart_stop(place: Path) -> None:
    """Twice as fast is seen after a few of twelve rounds; no control is needed to see it matters."""
    command = asking(place, {TREE_LL: 4.0, BAD: 8.0}, plain_ms=8.0)
    found = tried(place, command, "--bad-rules", *SHORT)
    arms = [run["arm"] for run in found["runs"]]
    assert arms.count("rules") == arms.count("as-is") == found["rules"]["rounds"] <= 8
    assert arms.count("control") <= arms.count("rules")
    assert found["communication"] == "communication settings matter to this job"


def test_a_small_loss_is_no_verdict(place: Path) -> None:
    """0.3 % slower in every run, as exact as can be: said, and the exit code stays 0."""
    more = "print('took', 100.0 if comm is None else 100.3)"
    command = asking(place, {}, plain_ms=0.1, more=more)
    options = ("--measure", "took ([0-9.]+)", *SHORT)
    found = tried(place, command, *options)
    assert found["rules"]["verdict"] in ("perhaps slower", "no difference")
    assert found["rules"]["speed"] == pytest.approx(-0.003, abs=1e-4)


def test_a_job_that_does_not_care_is_said_not_to(place: Path) -> None:
    """Neither rules nor bad rules change a thing: no difference, so much at most.

    It says its time itself, the same each time: how long a busy machine lets it sleep proves nothing.
    """
    command = asking(place, {}, plain_ms=0.1, more="print('took 1.5 s')")
    measure = ("--bad-rules", "--measure", r"took ([0-9.]+) s")
    done = rccltune(place, "job", "--rules", "rules.csv", *measure, *SHORT, "--", *command)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "do not matter to this job: deliberately bad rules cost no more than" in said
    assert re.search(r"Rules: no difference: \+0\.0 % .*, so [0-9.]+ % at most", said)


def test_rules_that_cost_end_with_nine(place: Path) -> None:
    """And the answer is there all the same."""
    command = asking(place, {TREE_LL: 12.0, BAD: 16.0}, plain_ms=6.0)
    words = ("job", "--rules", "rules.csv", *SHORT, "--", *command)
    done = rccltune(place, *words)
    assert done.returncode == 9
    assert "slower; " in done.stdout
    assert lacks(done.stderr, "is slower") == []
    assert "bad rules" not in done.stdout


def test_a_pattern_measures(place: Path) -> None:
    """The last number that it finds; a rate is better when it is higher."""
    more = "print('took 9.5 s'); print('rate', 50.0 if comm is None else 100.0, 'tokens/s')"
    command = asking(place, {TREE_LL: 0.1, BAD: 0.1}, plain_ms=0.1, more=more)
    options = ("--measure", r"rate (?P<rate>[0-9.]+) tok", *SHORT)
    found = tried(place, command, *options)
    # Exactly twice in every round, and no interval is narrower than 0.1 % tells.
    assert found["rules"]["speed"] == pytest.approx(1.0, rel=1e-6)
    assert found["rules"]["verdict"] == "faster"


@pytest.mark.parametrize(
    ("pattern", "told", "code"),
    [
        ("nowhere ([0-9]+)", "finds nothing in what the job printed", 6),
        ("took (.*) s", "finds 'ages', which is no number", 6),
        ("took (", "is no pattern", 2),
        ("(a)(b)", "has 2 groups", 2),
    ],
)
def test_patterns_that_find_no_number(place: Path, pattern: str, told: str, code: int) -> None:
    """Said with the pattern, and what was found."""
    command = [sys.executable, "-c", "print('took ages s')"]
    done = rccltune(
        place, "job", "--rules", "rules.csv", "--measure", pattern, *SHORT, "--", *command
    )
    assert done.returncode == code, done.stderr
    assert told in " ".join(done.stderr.split())


def test_no_step_marked_is_the_duration(place: Path) -> None:
    """A job without marks is measured by its wall time, and the answer says so."""
    command = asking(place, {TREE_LL: 1.0}, steps=0, more="time.sleep(0.2)")
    done = rccltune(place, "job", "--rules", "rules.csv", *SHORT, "--", *command)
    assert done.returncode == 8  # no step, no call: no rule answered
    assert "(duration, s" in done.stderr
    assert lacks(done.stderr, "0 calls", "rules answered") == []


def test_no_plugin_in_an_arm(place: Path) -> None:
    """A job that loads no tuner, as gloo's: said after the first run with the rules, exit 4."""
    command = [sys.executable, "-c", "import time; time.sleep(0.05)"]
    done = rccltune(place, "job", "--rules", "rules.csv", *SHORT, "--", *command)
    assert done.returncode == 4
    assert lacks(done.stderr, "rank loaded") == []
    assert "mpirun -x" in done.stderr
    assert len(list((place / "rccltune-job" / "runs").glob("*-rules"))) == 1


def test_rules_that_answer_nothing_say_why(place: Path) -> None:
    """Rules for another scale: exit 8, with the words of rccltune why."""
    (place / "rules.csv").write_text("allreduce,0,4194304,tree,ll,-1,1,64,-1,-1\n")
    command = asking(place, {})
    done = rccltune(place, "job", "--rules", "rules.csv", *SHORT, "--", *command)
    assert done.returncode == 8
    assert lacks(done.stderr, "12 calls", "rules answered") == []
    assert "8 ranks on 1 node" in done.stderr


def test_a_job_that_fails_as_it_is_stops_at_once(place: Path) -> None:
    """With the end of what it said, and the folder where it lies."""
    command = [sys.executable, "-c", "import sys; sys.exit('no such data set')"]
    done = rccltune(place, "job", "--rules", "rules.csv", *SHORT, "--", *command)
    assert done.returncode == 5
    assert lacks(done.stderr, "1", "is ended") == []
    assert lacks(done.stderr, "no such") == []
    assert (place / "rccltune-job" / "runs" / "001-as-is" / "stderr.log").exists()


def test_a_run_that_hangs_ends_whole(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With all that it started, children that ignore SIGTERM included; it is kept."""
    child = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    command = asking(
        place,
        {TREE_LL: 1.0},
        more="import subprocess\n"
        "if 'rules' in os.environ['RCCLTUNE_JOB_RUN']:\n"
        f"    child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "    print('child', child.pid, flush=True)\n    time.sleep(600)",
    )
    monkeypatch.setattr(trying, "_MORE_S", 3.0)
    monkeypatch.chdir(place)
    assert run(["job", "--rules", "rules.csv", *SHORT, "--", *command]) == 5
    assert lacks(capsys.readouterr().err, "the rules") == []
    folders = sorted((place / "rccltune-job" / "runs").glob("*-rules"))
    assert len(folders) == 2
    for folder in folders:
        text = (folder / "stdout.log").read_text()
        pid = text.split("child ")[1].split()[0]
        assert not Path("/proc", pid).exists()


def test_bad_rules_that_hang_the_job_are_an_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The control is bounded in time: it was ended, so it is slower, and communication matters."""
    more = "time.sleep(60 if 'control' in os.environ['RCCLTUNE_JOB_RUN'] else 0)"
    command = asking(place, {TREE_LL: 4.0, BAD: 4.0}, more=more)
    monkeypatch.setattr(trying, "_MORE_S", 4.0)
    monkeypatch.chdir(place)
    words = ("job", "--rules", "rules.csv", "--bad-rules", "--json", *SHORT, "--", *command)
    assert run(list(words)) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["communication"] == "communication settings matter to this job"
    assert found["control_ended_at"] > 2
    assert [run["arm"] for run in found["runs"]].count("control") == 1


def test_runs_share_nothing(place: Path) -> None:
    """Each has a folder of its own, in the command and in a variable, and it is empty."""
    more = (
        "own = Path(os.environ['RCCLTUNE_JOB_RUN']); assert str(own) == sys.argv[1]\n"
        "assert not (own / 'checkpoint').exists(); (own / 'checkpoint').write_text('x')"
    )
    command = [*asking(place, {TREE_LL: 3.0}, more=more), "{run}"]
    found = tried(place, command, *SHORT)
    written = list((place / "rccltune-job" / "runs").glob("*/checkpoint"))
    assert len(written) == len(found["runs"]) >= 6


def test_arms_that_do_other_things_are_said(place: Path) -> None:
    """Another number of steps and another first loss in one arm."""
    more = "if comm is not None:\n    mark._STEPS.n_steps, mark._STEPS._loss = 13, 3.5"
    found = tried(place, asking(place, {}, more=more), *SHORT)
    assert lacks(found["differences"], "12 as", "13 with", "steps differ") == []
    assert lacks(found["differences"], "2.5", "3.5", "first losses") == []


def test_fewer_ranks_than_expected(place: Path) -> None:
    """Of eight ranks one says what its steps took."""
    command = asking(place, {})
    found = tried(place, command, *SHORT, WORLD_SIZE="8", RANK="0")
    assert any(text.startswith("1 of 8 ranks say") for text in found["differences"])


def test_a_job_that_chooses_itself(place: Path) -> None:
    """NCCL_ALGO in the environment or set by the program: said, and in every arm."""
    command = asking(place, {}, more="os.environ['NCCL_PROTO'] = 'LL'")
    words = ("job", "--rules", "rules.csv", *SHORT, "--", *command)
    done = rccltune(place, *words, NCCL_ALGO="Ring")
    assert lacks(done.stderr, "NCCL_ALGO=Ring") == []
    assert lacks(done.stdout, "NCCL_ALGO=Ring", "NCCL_PROTO=LL") == []


def test_too_small_a_budget(place: Path) -> None:
    """Two rounds tell nothing, and the answer says which budget would."""
    command = asking(place, {}, more="time.sleep(1)")
    words = ("job", "--rules", "rules.csv", "--budget", "4s", "--", *command)
    done = rccltune(place, *words)
    assert done.returncode == 8
    assert "rounds fit into the budget" in done.stderr or "rounds fit" in done.stderr
    assert "--budget 1m" in done.stderr


def test_the_same_command_goes_on(place: Path) -> None:
    """Interrupted in a run: exit 130, that run is made again, what had ended stays."""
    command = asking(place, {}, more="time.sleep(0.7)")
    words = ["job", "--rules", "rules.csv", "--budget", "25s", "--", *command]
    started = subprocess.Popen(
        [sys.executable, "-m", "rccltune", *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = place / "rccltune-job" / "runs" / "001-as-is" / "outcome.json"
    until = time.monotonic() + 60
    while not first.exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.3)
    os.kill(started.pid, signal.SIGTERM)
    started.communicate(timeout=60)
    assert started.returncode == 130
    before = first.read_bytes()
    again = rccltune(place, *words)
    assert again.returncode == 0, again.stderr
    assert first.read_bytes() == before
    other = [*words[:-2], sys.executable, "-c", "pass"]
    assert rccltune(place, *other).returncode == 2


@pytest.mark.parametrize(
    ("words", "told", "code"),
    [
        (["--rules", "rules.csv"], "no command", 2),
        (["--", "true"], "neither a session nor a rule file", 2),
        (["nowhere", "--", "true"], "there is no session here", 7),
        (["--rules", "none.csv", "--", "true"], "there is no such rule file", 3),
        (["--rules", "broken.csv", "--", "true"], "the plugin refuses this file", 3),
        (["--rules", "needing.csv", "--", "true"], "--allow-need LD_PRELOAD", 2),
        (
            ["--rules", "rules.csv", "--", "/proc/nowhere/train"],
            "/proc/nowhere/train cannot be started",
            4,
        ),
    ],
)
def test_what_cannot_be_tried(place: Path, words: list[str], told: str, code: int) -> None:
    """Each with its own exit code, before anything is run."""
    (place / "broken.csv").write_text("allreduce,0,9,bush,ll,-1,-1,-1\n")
    (place / "needing.csv").write_text("#@ needs LD_PRELOAD=x.so\n" + RULES)
    done = rccltune(place, "job", *words)
    assert done.returncode == code, done.stderr
    assert told in " ".join(done.stderr.split())


def test_a_session_without_a_mode_has_its_rules(place: Path, repository: Path) -> None:
    """``rccl_tuner.csv``, as a sweep on an NVIDIA machine is followed by: it is read, and refused."""
    table = repository / "examples" / "mi300x-cpx-nps4" / "all_reduce.csv"
    assert rccltune(place, "import", str(table)).returncode == 0
    (place / "rccltune-session" / "rccl_tuner.csv").write_text("allreduce,0,9,bush,ll,-1,-1,-1\n")
    done = rccltune(place, "job", "rccltune-session", "--", "true")
    assert done.returncode == 3, done.stderr
    assert lacks(" ".join(done.stderr.split()), "refuses this file", "rccl_tuner.csv") == []
