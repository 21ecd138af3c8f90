"""The user's job in turns: the plan, the order, and what ends it. No run takes any time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from job_runs import RULES, Played

from rccltune.job import (
    OUTSIDE,
    JobResult,
    gain_words,
    make_bad_rules,
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
from rccltune.rules.rule_file import read_rules

TIMES = {"as-is": 10.0, "rules": 8.0, "bad-rules": 20.0}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder with a rule file, in which the user stands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.csv").write_text(RULES, encoding="utf-8")
    return tmp_path


def played(**more: object) -> Played:
    """Runs as TIMES says."""
    return Played(value=lambda kind, _: TIMES[kind], **more)  # type: ignore[arg-type] - by name


def tried(start: Played, **more: object) -> JobResult:
    """Answer of such a job."""
    given = {"command": ("train",), "rules": Path("rules.csv"), "measure": "took ([0-9.]+)"}
    return try_job(**{"reporter": Reporter()} | given | more, start=start)  # type: ignore[arg-type] - by name


class Said(Reporter):
    """Keeps what is said."""

    def __init__(self) -> None:
        """Nothing so far."""
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        """Keep a line."""
        self.lines.append(text)


def test_runs_are_in_turns_behind_one_that_is_not_counted() -> None:
    """A, then A B, B A, A B, B A, A B, B A; the first has no part in the number."""
    start = Played(value=lambda kind, number: 1000.0 if number == 0 else TIMES[kind])
    found = tried(start)
    assert start.kinds == ["as-is", *["as-is", "rules", "rules", "as-is"] * 3]
    assert found.gain is not None
    assert gain_words(found.gain) == "1.250× faster (1.249 to 1.251), 6 pairs"
    assert found.planned == 6


def test_what_the_library_may_write_over_is_said_before_the_first_run(place: Path) -> None:
    """Of two nodes, by the release that the rules were measured with."""
    text = f"# library: RCCL 2.26.6+hip7.0\n{RULES.replace(',1,8,', ',2,16,')}"
    (place / "rules.csv").write_text(text, encoding="utf-8")
    told = Said()
    tried(played(), reporter=told)
    warned = next(i for i, said in enumerate(told.lines) if "protocol of all_reduce again" in said)
    assert warned < next(i for i, said in enumerate(told.lines) if said.startswith("First run"))


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
    assert start.kinds == ["as-is", *[*there, *reversed(there)] * 3]
    bad = found.gain_of("bad-rules")
    assert bad is not None
    assert bad.value == pytest.approx(0.5)


def test_bad_rules_are_what_the_plugin_reads() -> None:
    """One channel of ring/simple at every size of the five collectives that ask a tuner."""
    rules = read_rules(make_bad_rules().encode())
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
            self.seconds = 5.0 if self.kinds else 1.0
            return super().__call__(*given)  # type: ignore[arg-type] - likewise

    start = Slower(value=lambda kind, _: TIMES[kind])
    found = tried(start, budget_s=20.0)  # type: ignore[arg-type] - likewise
    assert found.planned == 9
    assert start.kinds.count("rules") == 3
    assert "Ended after 3 of 9 pairs" in found.lines


def test_limits_follow_the_first_run() -> None:
    """Which has the budget, or all the time there is; others three times as long and 30 s."""
    start = played()
    tried(start, budget_s=100.0)
    first, *others = (one.timeout_s for one in start.launched)
    assert first == 100
    assert set(others) == {60}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_job_that_fails_is_told_with_its_last_lines(number: int) -> None:
    """Before there is anything to say of the rules."""
    with pytest.raises(LaunchError, match="ended with exit code 3") as told:
        tried(played(exit_codes={number: 3}))
    assert "what it said last" in str(told.value)


@pytest.mark.parametrize(
    ("end", "kind", "n"),
    [
        ({"exit_codes": {6: -9}}, LaunchError, 2),
        # Half a pair counts for nothing.
        ({"interrupted": 8}, KeyboardInterrupt, 3),
    ],
)
def test_a_late_end_leaves_what_is_known(
    place: Path, end: dict[str, object], kind: type[BaseException], n: int
) -> None:
    """Behind two whole pairs it is said, and kept beside the runs."""
    said = Said()
    with pytest.raises(kind):
        tried(played(**end), reporter=said)
    assert f"{n} pairs" in said.lines[-1]
    assert f"Ended after {n} of 6 pairs" in said.lines[-1]
    kept = json.loads((place / OUTSIDE / "1" / "answer.json").read_text(encoding="utf-8"))
    assert kept["rules"]["n"] == n


def test_before_two_pairs_nothing_is_said_of_the_rules() -> None:
    """One pair has no interval."""
    said = Said()
    with pytest.raises(KeyboardInterrupt):
        tried(played(interrupted=3), reporter=said)
    assert not any("With the rules:" in line for line in said.lines)


def test_no_rank_loads_the_plugin() -> None:
    """gloo, say: told after the first run with the rules, since the rest would say nothing."""
    start = played(hits=None)
    with pytest.raises(MachineError, match="not in force: no rank loaded the plugin"):
        tried(start)
    assert start.kinds == ["as-is", "as-is", "rules"]


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
    assert start.kinds == ["as-is"]
    found = tried(played(more=more))
    assert found.gain is not None
    assert found.gain.is_faster
    assert found.simulated


def test_a_pair_is_a_line() -> None:
    """With the numbers of its runs, the job as it is first, in whatever order they were made."""
    said = Said()
    tried(played(), reporter=said)
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
    for one in start.launched:
        assert site.items() <= one.variables.items()
        assert "RCCLTUNE_CLI_JOB_BUDGET" not in one.variables
    assert any("NCCL_ALGO=Ring" in line for line in found.lines)


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"command": ()}, CommandLineError, "no command"),
        ({"rules": None}, CommandLineError, "neither a session nor a rule file"),
        ({"session": Path("nowhere")}, SessionError, "there is no session here"),
        ({"rules": Path("none.csv")}, InputFileError, "the rule file cannot be read"),
        ({"rules": Path("broken.csv")}, InputFileError, "the plugin refuses this file"),
        ({"rules": Path("odd.csv")}, CommandLineError, "may load\\s+code or open files"),
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
    assert start.kinds == []
    assert not (place / OUTSIDE).exists()
