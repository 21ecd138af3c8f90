"""What makes a quarantine, from outcomes alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rccltune.model.failure import Failure
from rccltune.model.measured import Launch, Outcome, Questions, Sample, Schedule, Status
from rccltune.model.settings import BASELINE, SILENT, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Doubt, Placement
from rccltune.session import samples

TREE = Setting.parse("tree/ll")
SCALE = Scale(n_nodes=1, n_ranks=8)
Ended = tuple[Launch, Outcome]


def ended(name: str, failure: Failure | None, **changes: object) -> Ended:
    """One launch of tree/ll and how it ended."""
    launch = Launch(
        id=name,
        argv=("all_reduce_perf",),
        collectives=(Collective.ALL_REDUCE,),
        schedule=Schedule(settings=(TREE,)),
        scale=SCALE,
    )
    status = Status.FAILED if failure else Status.OK
    return (
        replace(launch, **changes),
        Outcome(launch=name, status=status, failure=failure),
    )


@pytest.mark.parametrize(
    ("failures", "hopeless"),
    [
        ([], False),
        ([Failure.HANG], False),
        ([Failure.HANG, Failure.CRASH], True),
        ([Failure.WRONG, Failure.UNREADABLE], True),
        ([Failure.MEMORY_FAULT], True),
        # SIGKILL is nobody's fault, until it comes three times.
        ([Failure.KILLED, Failure.KILLED], False),
        ([Failure.KILLED, Failure.CRASH], False),
        ([Failure.KILLED] * 3, True),
        ([Failure.KILLED, Failure.CRASH, Failure.KILLED], True),
    ],
)
def test_the_second_failure_is_the_settings_own(failures: list[Failure], hopeless: bool) -> None:
    """One may be the machine's; in whatever round the second comes."""
    pairs = [ended(str(i), failure, repeat=i) for i, failure in enumerate(failures)]
    assert samples.is_hopeless(failures) is hopeless
    assert bool(samples.quarantines([*pairs, ended("good", None)])) is hopeless


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": Schedule(settings=(Setting.parse("ring/ll"),))},
        {"collectives": (Collective.BROADCAST,)},
        {"scale": Scale(n_nodes=1, n_ranks=4)},
        {"rank_placement": "one-oam"},
        {"argv": ()},
        {"schedule": Schedule(settings=(BASELINE,))},
    ],
)
def test_failures_of_something_else_do_not_count(changes: dict[str, object]) -> None:
    """Another setting, collective, scale or placement; an imported file; the untouched site."""
    pairs = [ended("a", Failure.HANG), ended("b", Failure.HANG, **changes)]
    assert samples.quarantines(pairs) == ()


def test_a_lifted_failure_counts_no_more() -> None:
    """And the order in which launches are found does not matter."""
    first, second = ended("a", Failure.HANG), ended("b", Failure.CRASH, attempt=1)
    (found,) = samples.quarantines([second, first])
    assert found.launches == ("a", "b")
    assert (str(found), found.reason) == (
        "all_reduce tree/ll",
        "it hung in 1 launch and crashed in 1 launch",
    )
    lifted = (second[0], replace(second[1], lifted=True))
    assert samples.quarantines([first, lifted]) == ()


def test_outcomes_of_older_sessions_count() -> None:
    """They say that a launch failed, and not yet how."""
    pairs = [
        (ended("a", None)[0], Outcome(launch="a", status=Status.TIMED_OUT)),
        (ended("b", None)[0], Outcome(launch="b", status=Status.FAILED)),
        (ended("c", None)[0], Outcome(launch="c", status=Status.INTERRUPTED)),
    ]
    (found,) = samples.quarantines(pairs)
    assert found.failures == (Failure.HANG, Failure.CRASH)


RING = Setting.parse("ring/ll")


def walked(name: str, failure: Failure | None = None, **changes: object) -> Ended:
    """A launch that walks through silence, tree/ll and ring/ll, and how it ended."""
    schedule = Schedule(
        settings=(SILENT, SILENT, TREE, RING), questions=Questions(leading=1, per_row=4)
    )
    launch, outcome = ended(name, failure, schedule=schedule)
    return launch, replace(outcome, **changes)


def test_a_walk_fails_for_the_setting_that_was_in_force() -> None:
    """Its failure is the first one, that of the setting alone the second."""
    first = walked("walk", Failure.HANG, suspect=TREE)
    (found,) = samples.quarantines([first, ended("alone", Failure.CRASH, attempt=1)])
    assert (found.setting, found.launches) == (TREE, ("walk", "alone"))
    assert found.failures == (Failure.HANG, Failure.CRASH)

    assert samples.quarantines([first, ended("alone", None, attempt=1)]) == ()
    other = ended("other", Failure.HANG, schedule=Schedule(settings=(RING,)))
    assert samples.quarantines([first, other]) == ()
    # Whom nobody suspects nobody condemns.
    assert samples.quarantines([walked("a", Failure.HANG), walked("b", Failure.HANG)]) == ()
    (found,) = samples.quarantines([walked("a", Failure.MEMORY_FAULT, suspect=RING)])
    assert found.setting == RING


def test_wrong_results_in_a_walk_are_their_own_settings() -> None:
    """In a walk that ended well, or in one that another setting brought down."""
    hung = walked("a", Failure.HANG, suspect=RING, wrong=(TREE, SILENT))
    assert samples.failures(*hung) == {TREE: Failure.WRONG, RING: Failure.HANG}
    whole = walked("b", wrong=(TREE,))
    (found,) = samples.quarantines([hung, whole])
    assert (found.setting, found.failures) == (TREE, (Failure.WRONG, Failure.WRONG))
    lifted = (whole[0], replace(whole[1], lifted=True))
    assert samples.quarantines([hung, lifted]) == ()


def test_a_walk_goes_on_without_what_is_quarantined() -> None:
    """Only samples of that setting are doubted, whatever launch they are from."""
    pairs = [walked("walk", Failure.HANG, suspect=TREE), ended("alone", Failure.HANG, attempt=1)]
    (found,) = samples.quarantines(pairs)
    assert not samples.covers(found, pairs[0][0])
    assert samples.barred([found], pairs[0][0]) == {TREE}
    assert samples.barred([found], replace(pairs[0][0], rank_placement="one-oam")) == set()

    key = CurveKey(
        collective=Collective.ALL_REDUCE, setting=TREE, placement=Placement.IN_PLACE, scale=SCALE
    )
    tree = Sample(key=key, launch="walk.1", nbytes=8, time_us=1.0)
    ring = replace(tree, key=replace(key, setting=RING))
    assert [s.doubt for s in samples.doubted([tree, ring], pairs)] == [Doubt.QUARANTINED, None]


def test_samples_of_a_quarantined_setting_are_doubted() -> None:
    """Those that are doubted already keep their reason."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=TREE,
        placement=Placement.IN_PLACE,
        scale=SCALE,
    )
    good = Sample(key=key, launch="good", nbytes=8, time_us=1.0)
    wrong = replace(good, doubt=Doubt.WRONG)
    other = replace(good, launch="other")
    pairs = [ended("a", Failure.HANG), ended("b", Failure.HANG), ended("good", None)]

    assert [s.doubt for s in samples.doubted([good, wrong, other], pairs)] == [
        Doubt.QUARANTINED,
        Doubt.WRONG,
        None,
    ]
    assert samples.doubted([good], pairs[1:]) == [good]
