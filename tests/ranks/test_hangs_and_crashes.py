"""When ranks hang, and which setting is to blame for how a run ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_runs import make, step

from rccltune.launch import process
from rccltune.model.failure import Failure
from rccltune.ranks import runs
from rccltune.ranks.hangs_and_crashes import communicator_limit_s, describe_end


@pytest.mark.parametrize(
    ("first_s", "n_ranks", "limit_s"),
    [
        # Nobody has published how long 64 ranks take in CPX: before the first, by their number.
        (None, 2, 124),
        (None, 64, 248),
        # Ten times what the first took, and a minute at least.
        (0.3, 2, 60),
        (6.0, 64, 60),
        (30.0, 64, 300),
    ],
)
def test_a_communicator_may_take_ten_times_what_the_first_did(
    first_s: float | None, n_ranks: int, limit_s: float
) -> None:
    """A slow machine's are not ended, and a hang of a quick one's is seen within a minute."""
    first_us = None if first_s is None else 1e6 * first_s
    assert communicator_limit_s(first_us, n_ranks) == pytest.approx(limit_s)


@pytest.mark.parametrize(
    ("ending", "hung", "failure"),
    [
        ({"exit_code": 6}, False, Failure.CRASH),
        ({"exit_code": 137}, False, Failure.KILLED),
        ({"exit_code": None, "signal": 9}, False, Failure.KILLED),
        ({"exit_code": None, "timed_out": True}, True, Failure.HANG),
        ({"exit_code": 0}, False, Failure.CRASH),
    ],
)
def test_the_step_in_flight_is_to_blame(
    tmp_path: Path, ending: dict[str, Any], failure: Failure, *, hung: bool
) -> None:
    """Its setting, for its collective."""
    steps = [step("check", "idle"), step("check", "ring/ll"), step("check", "tree/ll")]
    remarks = ["failed 6 ncclAllReduce: unhandled error"]
    own = make(tmp_path, steps, done=[3, 2], remarks=remarks if ending["exit_code"] else [])
    (own / "log.txt").write_text("rccltune-perf: rank 1: rank 0 is gone\nsomething\n")
    usual = {"exit_code": None, "signal": None, "timed_out": False, "lingered": False}
    ended = process.LaunchEnd(**{**usual, **ending}, duration_s=1.0)
    end = describe_end(runs.read_run(own), ended, hung=hung)
    assert end.failure is failure
    assert end.line == 6
    assert (str(end.setting), str(end.collective)) == ("ring/ll", "Collective.ALL_REDUCE")
    if ending["exit_code"]:
        assert end.words == "ncclAllReduce: unhandled error"
    if hung:
        assert end.words == "", "ranks that we end see each other go: no reason of a hang"


def test_a_simulated_node_says_why_its_ranks_are_gone(tmp_path: Path) -> None:
    """Where ranks say of each other alone that they are gone."""
    own = make(tmp_path, [step("check", "ring/ll")], done=[0, 0])
    (own / "log.txt").write_text(
        "rccltune simulated node: it has no time for 4 ranks\n"
        "rccltune-perf: rank 0: line 2 of the plan: rank 1 is gone\n"
    )
    ended = process.LaunchEnd(
        exit_code=64, signal=None, timed_out=False, lingered=False, duration_s=1.0
    )
    end = describe_end(runs.read_run(own), ended, hung=False)
    assert end.words == "it has no time for 4 ranks"
