"""What launches that were cut off from outside change of what is made next, and of what counts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rccltune.measure.ledger import SIM_LAUNCH, Ledger
from rccltune.measure.preparation import Prepared, prepare
from rccltune.measure.request import merge_request
from rccltune.measure.site import find_site
from rccltune.model.failure import Failure
from rccltune.model.measured import Launch, Outcome, Questions, Schedule, Status
from rccltune.model.settings import SILENT, Scale, Setting
from rccltune.model.vocabulary import Collective
from rccltune.session import store
from rccltune.session.samples import Ended, counted
from rccltune.session.store import launch_id

TREE, RING = Setting.parse("tree/ll"), Setting.parse("ring/ll")
STEPS = (SILENT, SILENT, TREE, RING, TREE, RING, SILENT, RING, SILENT, TREE)
CUT_OFF = [
    pytest.param(Status.INTERRUPTED, None, id="rccltune"),
    pytest.param(Status.FAILED, Failure.KILLED, id="a rank"),
]


def walk() -> Launch:
    """Planned: two repeats of two settings."""
    one = Launch(
        id="",
        argv=("all_reduce_perf", "-N", "9"),
        environment=((SIM_LAUNCH, "all_reduce 2 settings 0"),),
        collectives=(Collective.ALL_REDUCE,),
        schedule=Schedule(settings=STEPS, questions=Questions(leading=1, per_row=4)),
        scale=Scale(n_nodes=1, n_ranks=8),
    )
    return replace(one, id=launch_id(one))


def ended(one: Launch, status: Status = Status.OK, failure: Failure | None = None) -> Ended:
    """After seven steps where it did not end well."""
    n_steps = None if status is Status.OK else 7
    return one, Outcome(launch=one.id, status=status, failure=failure, n_steps=n_steps)


def measured(one: Launch) -> tuple[object, ...]:
    """What a launch measures, and what simulated times depend on."""
    return one.argv, one.environment, one.schedule


@pytest.mark.parametrize(("status", "failure"), CUT_OFF)
def test_a_walk_that_was_cut_off_is_made_again_whole(
    status: Status, failure: Failure | None
) -> None:
    """However far it came; one that crashed is gone on with."""
    planned = walk()
    following = Ledger([ended(planned, status, failure)]).next_attempt(planned)
    assert measured(following) == measured(planned)
    assert following.id != planned.id

    crashed = Ledger([ended(planned, Status.FAILED, Failure.CRASH)]).next_attempt(planned)
    assert measured(crashed) != measured(planned)


@pytest.mark.parametrize(("status", "failure"), CUT_OFF)
def test_what_a_walk_is_gone_on_with_does_not_depend_on_kills(
    status: Status, failure: Failure | None
) -> None:
    """Before the crash or behind it."""
    planned = walk()
    crash = ended(planned, Status.FAILED, Failure.CRASH)
    rest = Ledger([crash]).next_attempt(planned)

    again = Ledger([crash, ended(rest, status, failure)]).next_attempt(planned)
    assert measured(again) == measured(rest)

    first = ended(planned, status, failure)
    second = Ledger([first]).next_attempt(planned)
    late = Ledger([first, ended(second, Status.FAILED, Failure.CRASH)]).next_attempt(planned)
    assert measured(late) == measured(rest)


def test_what_was_made_twice_counts_once() -> None:
    """The first that ended well; wrong results all count, and what was cut off where nothing is."""
    planned = walk()
    tries = [replace(planned, id=f"{n}", attempt=n) for n in range(4)]
    killed = ended(tries[0], Status.FAILED, Failure.KILLED)
    wrong = ended(tries[1], Status.OK, Failure.WRONG)
    good, control = ended(tries[2]), ended(tries[3])
    other = ended(replace(planned, id="other", repeat=1), Status.INTERRUPTED)

    assert counted([killed]) == [killed]
    assert counted([killed, wrong, good, control, other]) == [wrong, good, other]


def prepared(folder: Path) -> Prepared:
    """A small search, as the command plans it."""
    wish = {
        "simulate": "mi300x-cpx-nps4",
        "launcher": "none",
        "collective": (Collective.ALL_REDUCE,),
        "setting": (TREE, RING),
        "min_bytes": 1 << 10,
        "max_bytes": 64 << 10,
    }
    request = merge_request(None, wish)
    return prepare(request.sweep, find_site(request.site), folder, timeout_s=None)


def cut_off_beside(folder: Path, one: Launch) -> None:
    """The same walk as an attempt that was interrupted, with tree/ll five times as slow."""
    attempt = replace(one, attempt=7)
    attempt = replace(attempt, id=launch_id(attempt))
    own = folder / "launches" / attempt.id
    shutil.copytree(folder / "launches" / one.id, own)
    assert one.schedule is not None
    n_passes, lines, before = 0, [], ""
    for line in (own / "stdout.log").read_text().splitlines():
        words = line.split()
        if words and words[0].isdecimal():
            n_passes += not before or int(words[0]) < int(before)
            before = words[0]
            slow = one.schedule.settings[n_passes] == TREE
            lines.append(" ".join(times(words, 5 if slow else 1)))
        else:
            lines.append(line)
    (own / "stdout.log").write_text("\n".join(lines) + "\n")
    n_steps = len(one.schedule.settings)
    outcome = Outcome(launch=attempt.id, status=Status.INTERRUPTED, n_steps=n_steps)
    (own / "launch.json").write_text(store.dump_json(attempt))
    (own / "outcome.json").write_text(store.dump_json(outcome))


def times(words: list[str], factor: int) -> list[str]:
    """A row with other times: size, count, type, op, root, then time, two rates, #wrong, twice."""
    slower = {at: f"{factor * float(words[at]):.2f}" for at in (5, 9)}
    return [slower.get(at, word) for at, word in enumerate(words)]
