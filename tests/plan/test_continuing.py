"""What a walk that fails goes on with, for any sweep, any cut and any order of failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.measured import Launch, Sweep
from rccltune.model.settings import SILENT, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.plan import launches, walks

GROUND = launches.Ground(
    programs={c: f"/bench/{c.benchmark}" for c in Collective},
    letters=frozenset("befnwcgdoGAON"),
    launch=lambda n, program: ("mpirun", "-np", str(n), *program),
    scale=Scale(n_nodes=1, n_ranks=64),
    arch=None,
)
SETTINGS = tuple(
    Setting(algorithm=Algorithm.RING, protocol=p, channels=c)
    for p in Protocol
    for c in (None, 8, 16, 32)
)


def walk_of(settings: Sequence[Setting], repeats: int, seed: int = 0, letter: str = "N") -> Launch:
    """The one walk of a short sweep."""
    sweep = Sweep(
        collectives=(Collective.ALL_REDUCE,),
        settings=tuple(settings),
        min_nbytes=8,
        max_nbytes=64,
        repeats=repeats,
        seed=seed,
    )
    ground = replace(GROUND, letters=GROUND.letters - {"N"} | {letter})
    (walk,) = (one for one in walks.plan_walks(sweep, ground).launches if len(steps_of(one)) > 1)
    return walk


def steps_of(launch: Launch) -> tuple[Setting, ...]:
    """Its schedule."""
    assert launch.schedule is not None
    return launch.schedule.settings


WALKS = st.builds(
    walk_of,
    st.lists(st.sampled_from(SETTINGS), min_size=1, max_size=8, unique=True),
    st.integers(1, 5),
    st.integers(0, 9),
    st.sampled_from(["N", "s"]),
)


# In which step of a launch something fails, of the first launches; the others end well.
FAILURES = st.lists(st.integers(0, 60), max_size=12)


def failing(walk: Launch, failures: Sequence[int]) -> Iterator[tuple[Launch, int, Setting | None]]:
    """All launches that a walk takes: each with its whole steps, and who is suspected."""
    walked: list[tuple[Launch, int]] = []
    coming = iter(failures)
    barred: set[Setting] = set()
    while not walks.is_walked(walk, walked, barred):
        one = walks.continuation(walk, walked, barred)
        assert one == walks.continuation(walk, tuple(walked), frozenset(barred))
        steps = steps_of(one)
        fails = next(coming, len(steps))
        suspect = steps[fails] if fails < len(steps) and steps[fails] != SILENT else None
        if suspect is not None:
            barred.add(suspect)
        n_whole = min(fails, len(steps))
        walked.append((one, n_whole))
        yield one, n_whole, suspect


@given(walk=WALKS, failures=FAILURES)
def test_every_setting_is_kept_as_often_as_planned_or_under_suspicion(
    walk: Launch, failures: list[int]
) -> None:
    """Never more often, wherever walks end; its first pass in each launch does not count."""
    made = list(failing(walk, failures))
    kept: Counter[Setting] = Counter()
    for one, n_whole, _ in made:
        whole = Counter(steps_of(one)[1:n_whole])
        kept.update({setting: n - 1 for setting, n in whole.items()})
    planned = {setting: n - 1 for setting, n in Counter(steps_of(walk)[1:]).items()}
    suspects = {suspect for *_, suspect in made if suspect is not None}
    walked = [(one, n) for one, n, _ in made]
    for setting, n in planned.items():
        assert walks.n_kept(walk, walked, setting) == (kept[setting], n)
        assert kept[setting] <= n
        if setting not in suspects and setting != SILENT:
            assert kept[setting] == n
    # Not more suspects than settings, and nobody is suspected twice.
    named = [suspect for *_, suspect in made if suspect is not None]
    assert len(named) == len(set(named)) <= len(planned) - 1


@given(walk=WALKS, failures=FAILURES)
def test_a_continuation_is_a_walk_like_the_planned_one(walk: Launch, failures: list[int]) -> None:
    """The warm-up, one pass of each setting that is left, then repeats in their planned order."""
    suspects: set[Setting] = set()
    for one, _, suspect in failing(walk, failures):
        leading, *steps = steps_of(one)
        assert leading == SILENT
        turn = list(dict.fromkeys(steps))
        assert steps[: len(turn)] == turn
        assert not suspects & set(steps)
        rest = iter(steps_of(walk)[1 + len(set(steps_of(walk)[1:])) :])
        assert all(setting in rest for setting in steps[len(turn) :])
        assert one.argv[:-2] == walk.argv[:-2]
        assert one.argv[-2:] == (walk.argv[-2], str(len(steps)))
        assert replace(one, argv=walk.argv, schedule=walk.schedule) == walk
        if suspect is not None:
            suspects.add(suspect)


def test_a_walk_of_which_nothing_is_known_is_made_as_planned() -> None:
    """Also after failures before its first pass."""
    walk = walk_of(SETTINGS[:3], 2)
    assert walks.continuation(walk, [], ()) == walk
    assert walks.continuation(walk, [(walk, 0), (walk, 1)], ()) == walk


def test_no_launch_is_made_for_silence_alone() -> None:
    """It walks along to be compared with."""
    walk = walk_of(SETTINGS[:2], 2)
    assert walks.is_walked(walk, [], SETTINGS[:2])
    with pytest.raises(ValueError, match="nothing"):
        walks.continuation(walk, [], SETTINGS[:2])


@given(walk=WALKS)
def test_a_setting_alone_is_started_as_where_each_has_a_launch(walk: Launch) -> None:
    """The same benchmark with the same options, its table printed once."""
    setting = steps_of(walk)[2]
    one = walks.alone(walk, setting)
    assert steps_of(one) == (setting,)
    assert one.schedule is not None
    assert one.schedule.questions is None
    assert one.argv == walk.argv[:-2]
    assert walk.argv[-2] in ("-N", "-s")
