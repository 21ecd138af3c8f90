"""The figure of a job: what each run's mark stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from rccltune.job.answer import Answer, compared_runs, draw, job_figure
from rccltune.job.measures import Measured
from rccltune.job.runs import Arm, Outcome, Run
from rccltune.report.records import Line


def answered(*, rate: bool = False, simulated: bool = False, **values: list[float]) -> Answer:
    """An answer of runs in turns; values by arm, ``as_is=[100.0, 102.0]``."""
    arms = {Arm(name.replace("_", "-")): numbers for name, numbers in values.items()}
    rounds = max(map(len, arms.values()))
    order = [(arm, at) for at in range(rounds) for arm in arms if at < len(arms[arm])]
    runs = tuple(
        Run(
            number=number,
            arm=arm,
            folder=Path(f"{number:03d}-{arm.value}"),
            outcome=Outcome(began=number, duration_s=1.0, limit_s=9.0, exit_code=0),
            measured=Measured(value=arms[arm][at], what="step time, ms"),
        )
        for number, (arm, at) in enumerate(order, 1)
    )
    return Answer(
        what="step time, ms",
        runs=runs,
        rules=compared_runs(runs, Arm.RULES, rate=rate),
        control=compared_runs(runs, Arm.CONTROL, rate=rate),
        slower_than=None,
        control_hits=1,
        drift=None,
        differences=(),
        rate=rate,
        simulated=simulated,
    )


def lines(found: Answer) -> dict[str, Line]:
    """By name."""
    return {line.name: line for line in job_figure(found).lines}


def test_marks_are_speeds_beside_the_job_as_it_is() -> None:
    """80 ms instead of 100 is a quarter faster; 200 is half as fast. Runs stand in their order."""
    drawn = lines(answered(as_is=[100.0, 100.0], rules=[80.0, 80.0], control=[200.0, 200.0]))
    assert [p.y for p in drawn["as it is"].points] == pytest.approx([0, 0])
    assert [p.y for p in drawn["with the rules"].points] == pytest.approx([25, 25])
    assert [p.y for p in drawn["with bad rules"].points] == pytest.approx([-50, -50])
    assert [p.x for p in drawn["with the rules"].points] == [2, 5]


def test_more_is_faster_for_a_rate() -> None:
    """80 tokens/s instead of 100 are a fifth slower."""
    drawn = lines(answered(rate=True, as_is=[100.0, 100.0], rules=[80.0, 80.0]))
    assert [p.y for p in drawn["with the rules"].points] == pytest.approx([-20, -20])


def test_intervals_are_those_of_the_answer() -> None:
    """Shaded is what the answer says in words; the job as it is has none."""
    found = answered(as_is=[100.0, 101.0, 99.0], rules=[80.0, 82.0, 81.0])
    assert found.rules is not None
    drawn = lines(found)
    ends = {(p.low, p.high) for p in drawn["with the rules"].points}
    assert ends == {found.rules.percent[1:]}
    assert {p.low for p in drawn["as it is"].points} == {None}


def test_one_round_and_simulated_runs_are_drawn(tmp_path: Path) -> None:
    """Without an interval nothing is said to be known; what is simulated says so loudly."""
    found = answered(simulated=True, as_is=[100.0], rules=[80.0])
    made = job_figure(found)
    assert (made.title, made.loud) == ("Rules: not known", True)
    assert "SIMULATED" in made.stamp
    assert draw(tmp_path, found).read_bytes().startswith(b"\x89PNG")
