"""What makes a quarantine, from outcomes alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rccltune.model.failure import Failure
from rccltune.model.measurement import Launch, Outcome, Sample, Status
from rccltune.model.settings import BASELINE, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
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
        settings=(TREE,),
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
        {"settings": (Setting.parse("ring/ll"),)},
        {"collectives": (Collective.BROADCAST,)},
        {"scale": Scale(n_nodes=1, n_ranks=4)},
        {"rank_placement": "one-oam"},
        {"argv": ()},
        {"settings": (BASELINE,)},
    ],
)
def test_failures_of_something_else_do_not_count(changes: dict[str, object]) -> None:
    """Another setting, collective, scale or placement; an imported file; the untouched site."""
    pairs = [ended("a", Failure.HANG), ended("b", Failure.HANG, **changes)]
    assert samples.quarantines(pairs) == ()


def test_samples_of_a_quarantined_setting_are_doubted() -> None:
    """Those that are doubted already keep their reason."""
    key = CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=TREE,
        placement=Placement.IN_PLACE,
        scale=SCALE,
    )
    good = Sample(key=key, launch="good", nbytes=8, time_us=1.0)
    wrong = replace(good, doubt=UnusableReason.WRONG)
    other = replace(good, launch="other")
    pairs = [ended("a", Failure.HANG), ended("b", Failure.HANG), ended("good", None)]

    assert [s.doubt for s in samples.flagged_by_quarantine([good, wrong, other], pairs)] == [
        UnusableReason.QUARANTINED,
        UnusableReason.WRONG,
        None,
    ]
    assert samples.flagged_by_quarantine([good], pairs[1:]) == [good]
