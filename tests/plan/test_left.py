"""How long the other launches take: right within a factor of two, or not said."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from grounds import GROUND

from rccltune.model.measured import Launch, Outcome, Status, Sweep
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.plan import walks
from rccltune.plan.launches import left_s

SETTINGS = tuple(
    Setting(algorithm=Algorithm.RING, protocol=protocol, channels=channels)
    for protocol in Protocol
    for channels in (None, 8, 16)
)


def sweep(*, max_nbytes: int) -> Sweep:
    """One launch a setting and collective."""
    return Sweep(
        collectives=(Collective.ALL_REDUCE, Collective.ALL_GATHER),
        settings=SETTINGS,
        min_nbytes=8,
        max_nbytes=max_nbytes,
    )


def ended(launches: Sequence[Launch], took: Sequence[float]) -> list[tuple[Launch, Outcome]]:
    """Launches that went well."""
    return [
        (one, Outcome(launch="0", status=Status.OK, duration_s=seconds))
        for one, seconds in zip(launches, took, strict=True)
    ]


MACHINES: dict[str, Callable[[random.Random, int], float]] = {
    "steady": lambda _dice, _number: 2.0,
    "noisy": lambda dice, _number: dice.uniform(1.6, 2.4),
    # Colleagues leave the machine: whatever is known of launches before says little.
    "calmer": lambda _dice, number: 4.0 if number < 4 else 1.2,
}


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_said_is_within_a_factor_of_two(machine: str) -> None:
    """From the second launch on; a machine that changed under it may leave it unsaid."""
    short, long = sweep(max_nbytes=1 << 16), sweep(max_nbytes=1 << 30)
    # As a search has them: rounds of other sizes, so of other calls.
    rounds = [
        (one, sizes)
        for pair in zip(
            walks.plan_walks(
                short,
                GROUND,
            ).launches,
            walks.plan_walks(long, GROUND).launches,
            strict=False,
        )
        for one, sizes in zip(pair, (short, long), strict=True)
    ]
    launches = [one for one, _ in rounds] * 4
    dice = random.Random(31)
    took = [MACHINES[machine](dice, number) for number in range(len(launches))]
    assert len(launches) >= 8
    n_said = 0
    for n_ended in range(2, len(launches)):
        left = left_s(launches[n_ended:], long, ended(launches[:n_ended], took[:n_ended]))
        if left is not None and not (machine == "calmer" and n_ended < 7):
            n_said += 1
            assert sum(took[n_ended:]) / 2 <= left <= 2 * sum(took[n_ended:])
    assert n_said >= len(launches) // 2


def test_two_answers_that_contradict_each_other_are_not_said() -> None:
    """A long launch among short ones fits any line; before two ended nobody knows anything."""
    one = walks.plan_walks(sweep(max_nbytes=1 << 30), GROUND).launches[0]
    other = walks.plan_walks(sweep(max_nbytes=1 << 10), GROUND).launches[0]
    seen = ended([other, other, one], [1.0, 1.0, 100.0])
    assert left_s([other] * 4, sweep(max_nbytes=1 << 30), seen) is None
    assert left_s([other], sweep(max_nbytes=1 << 30), seen[:1]) is None
    assert left_s([], sweep(max_nbytes=1 << 30), seen) == 0
