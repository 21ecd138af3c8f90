"""The user's job in turns: the plan, the order, and what ends it. No run takes any time."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_runs import RULES, Played

from rccltune.job import (
    OUTSIDE,
    JobRequest,
    JobResult,
    RunKind,
    bad_rules,
    gain_words,
    pairs_in,
    try_job,
)
from rccltune.model.errors import (
    CommandLineError,
    InputFileError,
    LaunchError,
    MachineError,
    SessionError,
)
from rccltune.model.reporter import Reporter
from rccltune.rules.reader import read_rules

TIMES = {"as-is": 10.0, "rules": 8.0, "bad-rules": 20.0}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with a rule file, in which the user stands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.csv").write_text(RULES, encoding="utf-8")
    return tmp_path


def played(**more: object) -> Played:
    """Runs as TIMES says."""
    return Played(value=lambda arm, _: TIMES[arm], **more)  # type: ignore[arg-type] - by name


def tried(start: Played, **more: object) -> JobResult:
    """Answer of such a job."""
    given = {"command": ("train",), "rules": Path("rules.csv"), "measure": "took ([0-9.]+)"}
    return try_job(JobRequest(**given | more), reporter=Reporter(), start=start)  # type: ignore[arg-type] - by name


def test_runs_are_in_turns_behind_one_that_is_not_counted() -> None:
    """A, then A B, B A, A B, B A, A B, B A; the first has no part in the number."""
    start = Played(value=lambda arm, number: 1000.0 if number == 0 else TIMES[arm])
    found = tried(start)
    assert start.arms == ["as-is", *["as-is", "rules", "rules", "as-is"] * 3]
    assert found.gain is not None
    assert gain_words(found.gain) == "1.250× faster (1.249 to 1.251), 6 pairs"
    assert found.planned == 6


def test_what_the_library_may_write_over_is_said_before_the_first_run(place: Path) -> None:
    """Of two nodes, by the release that the rules were measured with."""

    class Told(Reporter):
        said: tuple[str, ...] = ()

        def say(self, text: str) -> None:
            self.said = (*self.said, text)

    text = f"# library: RCCL 2.26.6+hip7.0\n{RULES.replace(',1,8,', ',2,16,')}"
    (place / "rules.csv").write_text(text, encoding="utf-8")
    told = Told()
    request = JobRequest(command=("train",), rules=Path("rules.csv"), measure="took ([0-9.]+)")
    try_job(request, reporter=told, start=played())
    warned = next(i for i, said in enumerate(told.said) if "protocol of all_reduce again" in said)
    assert warned < next(i for i, said in enumerate(told.said) if said.startswith("First run"))


def test_a_steady_drift_is_no_gain() -> None:
    """Each run 1 % slower than the one before, rules or not."""
    found = tried(Played(value=lambda _, number: 1.01**number))
    assert found.gain is not None
    assert found.gain.value == pytest.approx(1, abs=1e-9)


def test_bad_rules_are_a_third_kind() -> None:
    """In the same pairs, back and forth."""
    start = played()
    found = tried(start, bad_rules=True)
    there = ["as-is", "rules", "bad-rules"]
    assert start.arms == ["as-is", *[*there, *reversed(there)] * 3]
    bad = found.gain_of(RunKind.BAD_RULES)
    assert bad is not None
    assert bad.value == pytest.approx(0.5)


def test_bad_rules_are_what_the_plugin_reads() -> None:
    """One channel of ring/simple at every size of the five collectives that ask a tuner."""
    rules = read_rules(bad_rules().encode())
    assert not rules.errors
    assert len(rules.rules) == 5
    assert {str(rule.setting) for rule in rules.rules} == {"ring/simple/1"}


@pytest.mark.parametrize(
    ("budget_s", "first_s", "n_kinds", "pairs"),
    # 600 s: the first run, and 29 pairs of 2 x 10 s, or 19 of 3 x 10 s.
    [(None, 3600, 2, 6), (600, 10, 2, 29), (600, 10, 3, 19), (600, 0.1, 2, 50), (70, 10, 2, 3)],
)
def test_the_plan(budget_s: float | None, first_s: float, n_kinds: int, pairs: int) -> None:
    """Six pairs, or as many as fit into the budget behind the first run."""
    assert pairs_in(budget_s, first_s, n_kinds) == pairs


def test_a_budget_ends_runs_that_take_longer_than_the_first() -> None:
    """Planned by 1 s a run, of which each takes 5: three pairs, and no fourth."""

    class Slower(Played):
        def __call__(self, *given: object) -> object:  # type: ignore[override] - whatever it is given
            self.seconds = 5.0 if self.arms else 1.0
            return super().__call__(*given)  # type: ignore[arg-type] - likewise

    start = Slower(value=lambda arm, _: TIMES[arm])
    found = tried(start, budget_s=20.0)  # type: ignore[arg-type] - likewise
    assert found.planned == 9
    assert start.arms.count("rules") == 3
    assert "The budget was over before all 9 pairs were made" in found.lines


def test_limits_follow_the_first_run() -> None:
    """Which has the budget, or all the time there is; others three times as long and 30 s."""
    start = played()
    tried(start, budget_s=100.0)
    assert start.limits[0] == 100
    assert set(start.limits[1:]) == {60}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_job_that_fails_is_told_with_its_last_lines(number: int) -> None:
    """Before there is anything to say of the rules."""
    with pytest.raises(LaunchError, match="ended with exit code 3") as told:
        tried(played(failure={number: "ended with exit code 3"}))
    assert "what it said last" in str(told.value)


def test_a_late_failure_leaves_what_is_known() -> None:
    """Behind two whole pairs: the answer, and the error in it."""
    found = tried(played(failure={6: "ended with signal 9"}))
    assert found.gain is not None
    assert found.gain.n == 2
    assert isinstance(found.failure, LaunchError)
    assert "Ended before all 6 pairs were made" in found.lines


def test_who_interrupts_gets_what_is_known() -> None:
    """Half a pair counts for nothing; before two pairs nothing is known."""
    found = tried(played(interrupted=8))
    assert found.is_interrupted
    assert found.gain is not None
    assert found.gain.n == 3
    assert "Interrupted before all 6 pairs were made" in found.lines
    with pytest.raises(KeyboardInterrupt):
        tried(played(interrupted=3))


def test_no_rank_loads_the_plugin() -> None:
    """gloo, say: told after the first run with the rules, since the rest would say nothing."""
    start = played(hits=None)
    with pytest.raises(MachineError, match="not in force: no rank loaded the plugin"):
        tried(start)
    assert start.arms == ["as-is", "as-is", "rules"]


@pytest.mark.parametrize(
    ("rules", "more"),
    [("# SIMULATED: no hardware\n" + RULES, ""), (RULES, "# SIMULATED node mi300x\n")],
)
def test_the_duration_of_a_simulated_job_is_not_compared(
    place: Path, rules: str, more: str
) -> None:
    """It is the simulator's: good rules would be called slow. What the job prints is compared."""
    (place / "rules.csv").write_text(rules)
    start = played(more=more)
    with pytest.raises(CommandLineError, match="simulated") as told:
        tried(start, measure=None)
    assert "--measure" in told.value.hint
    assert start.arms == ["as-is"]
    found = tried(played(more=more))
    assert found.gain is not None
    assert found.gain.is_faster
    assert found.simulated


class Said(Reporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        """Nothing so far."""
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        """Keep a line."""
        self.lines.append(text)


@pytest.mark.parametrize(
    ("seconds", "measure", "warns"),
    [(0.04, None, True), (0.04, "took ([0-9.]+)", False), (10.0, None, False)],
)
def test_a_run_below_a_second_is_mostly_its_start(
    seconds: float, measure: str | None, warns: bool
) -> None:
    """So durations are warned of; a number that is printed may be good however short the run."""
    said = Said()
    request = JobRequest(command=("train",), rules=Path("rules.csv"), measure=measure)
    try_job(request, reporter=said, start=played(seconds=seconds))
    assert any("mostly to start" in line and "--measure" in line for line in said.lines) is warns


def test_a_pair_is_a_line() -> None:
    """With the numbers of its runs, the job as it is first, in whatever order they were made."""
    said = Said()
    request = JobRequest(command=("train",), rules=Path("rules.csv"), measure="took ([0-9.]+)")
    try_job(request, reporter=said, start=played())
    pairs = [line for line in said.lines if line.startswith("Pair")]
    assert pairs == [f"Pair {n}: 10 as it is, 8 with the rules" for n in range(1, 7)]


def test_the_site_s_variables_reach_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transport and debug, and what chooses; the command line's own do not."""
    site = {"NCCL_SOCKET_IFNAME": "eth7", "NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Ring"}
    for name, value in site.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RCCLTUNE_CLI_JOB_BUDGET", "5m")
    start = played()
    found = tried(start)
    for variables in start.variables:
        assert site.items() <= variables.items()
        assert "RCCLTUNE_CLI_JOB_BUDGET" not in variables
    assert any("NCCL_ALGO=Ring" in line for line in found.lines)


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"command": ()}, CommandLineError, "no command"),
        ({"rules": None}, CommandLineError, "neither a session nor a rule file"),
        ({"session": Path("nowhere")}, SessionError, "there is no session here"),
        ({"rules": Path("none.csv")}, InputFileError, "there is no such rule file"),
        ({"rules": Path("broken.csv")}, InputFileError, "the plugin refuses this file"),
        ({"rules": Path("odd.csv")}, CommandLineError, "may load code or open files"),
    ],
)
def test_what_cannot_be_tried(
    place: Path, given: dict[str, object], kind: type[Exception], told: str
) -> None:
    """Told before anything is run, and before a folder is made."""
    (place / "broken.csv").write_text("allreduce,0,9,bush,ll,-1,-1,-1\n")
    (place / "odd.csv").write_text("#@ needs LD_PRELOAD=x.so\n" + RULES)
    start = played()
    with pytest.raises(kind, match=told):
        tried(start, **given)
    assert start.arms == []
    assert not (place / OUTSIDE).exists()
