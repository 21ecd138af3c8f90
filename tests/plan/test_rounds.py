"""The launches of a round: all that is wanted, silence beside it, baselines around it, none long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from grounds import GROUND, option
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rccltune.model.measured import Launch, Outcome, Status, Sweep
from rccltune.model.ranges import Motive, Round, Want
from rccltune.model.settings import (
    BASELINE,
    DEFAULT_VARIANT,
    LL128_FORCED,
    SILENT,
    Setting,
    Variant,
)
from rccltune.model.vocabulary import Collective
from rccltune.plan import rounds
from rccltune.plan.launches import LONGEST_S, estimate_s, sizes

SWEEP = Sweep(
    collectives=(Collective.ALL_REDUCE, Collective.BROADCAST),
    settings=(),
    min_nbytes=1 << 10,
    max_nbytes=1 << 30,
)
NAMES = ("tree/ll", "tree/ll128", "ring/ll", "ring/ll128", "ring/simple", "ring/ll128/8")
GRID = sizes(SWEEP)
WANTS = st.lists(
    st.builds(
        Want,
        collective=st.sampled_from(SWEEP.collectives),
        nbytes=st.sampled_from([*GRID, *(n + n // 2 for n in GRID[:-1])]),
        settings=st.lists(
            st.sampled_from(NAMES[2:]).map(Setting.parse), min_size=1, max_size=4, unique=True
        ).map(tuple),
        motive=st.sampled_from(Motive),
        repeats=st.integers(1, 3),
        promise=st.floats(0, 1),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda want: (want.collective, want.nbytes),
)
ROUNDS = st.builds(Round, number=st.integers(1, 2), wants=WANTS.map(tuple))


def asked(launch: Launch) -> tuple[int, ...]:
    """The sizes that rccl-tests step through with these options."""
    argv = launch.argv
    found, size = [], option(argv, "-b")
    while size <= option(argv, "-e"):
        found.append(size)
        size = size * option(argv, "-f") if "-f" in argv else size + option(argv, "-i")
    return tuple(found)


def planned(
    made: Round,
    *,
    sweep: Sweep = SWEEP,
    pace: rounds.Pace | None = None,
    asked_from: Mapping[Collective, int] | None = None,
) -> tuple[Launch, ...]:
    """Of the sweep above."""
    return rounds.plan_round(sweep, GROUND, made, pace, asked_from=asked_from)


def is_baseline(launch: Launch) -> bool:
    """The untouched site's own."""
    return launch.schedule is not None and launch.schedule.settings == (BASELINE,)


def passes(launch: Launch) -> Iterator[tuple[Setting, int]]:
    """Settings of a walk, and how often each is kept; its first pass is thrown away."""
    assert launch.schedule is not None
    counts = Counter(launch.schedule.settings[1:])
    yield from ((setting, n - 1) for setting, n in counts.items())


@hypothesis_settings(max_examples=60)
@given(made=ROUNDS)
def test_whatever_is_wanted_is_measured_as_often_as_wanted(made: Round) -> None:
    """Each setting at each of its sizes, in the environment that it needs."""
    kept: Counter[tuple[Collective, Setting, int]] = Counter()
    for launch in planned(made):
        assert launch.round == made.number
        if is_baseline(launch):
            continue
        gated = launch.variant == LL128_FORCED
        anchors = {setting for setting, _ in passes(launch) if gated and is_plain(setting)}
        assert len(anchors) <= 1
        for setting, n in passes(launch):
            if setting in anchors:
                continue
            if setting != SILENT:
                assert gated != is_plain(setting)
            for nbytes in asked(launch):
                kept[launch.collectives[0], setting, nbytes] += n
    for want in made.wants:
        for setting in want.settings:
            assert kept[want.collective, setting, want.nbytes] >= want.repeats
        # What has been compared with the untouched site stands for it at every size.
        assert kept[want.collective, SILENT, want.nbytes] >= 1


def is_plain(setting: Setting) -> bool:
    """Whether it needs no variable on this GPU."""
    return setting != SILENT and "ll128" not in str(setting)


@hypothesis_settings(max_examples=40)
@given(made=ROUNDS)
def test_a_setting_that_needs_no_variable_runs_wherever_one_that_does(made: Round) -> None:
    """In launches of both environments, at each size: so they can be compared."""
    for collective in SWEEP.collectives:
        wants = [want for want in made.wants if want.collective is collective]
        if not any(is_plain(setting) for want in wants for setting in want.settings):
            continue
        having: dict[Variant, dict[int, set[Setting]]] = {}
        for launch in planned(made):
            if launch.collectives[0] is collective and not is_baseline(launch):
                by_size = having.setdefault(launch.variant, {})
                for nbytes in asked(launch):
                    found = {setting for setting, _ in passes(launch) if is_plain(setting)}
                    by_size.setdefault(nbytes, set()).update(found)
        gated = {
            want.nbytes for want in wants if not all(is_plain(setting) for setting in want.settings)
        }
        for nbytes in gated:
            assert having[LL128_FORCED][nbytes] & having[DEFAULT_VARIANT][nbytes]


@hypothesis_settings(max_examples=40)
@given(made=ROUNDS)
def test_silence_walks_along_where_it_is_of_use(made: Round) -> None:
    """The plain variant's at every size that is wanted; that of others in the first round only."""
    for launch in planned(made):
        if is_baseline(launch):
            continue
        is_along = any(setting == SILENT for setting, _ in passes(launch))
        assert is_along == (launch.variant == DEFAULT_VARIANT or made.number == 1)
    plain = {
        (launch.collectives[0], nbytes)
        for launch in planned(made)
        if launch.variant == DEFAULT_VARIANT and not is_baseline(launch)
        for nbytes in asked(launch)
    }
    assert {(want.collective, want.nbytes) for want in made.wants} <= plain


@hypothesis_settings(max_examples=40)
@given(wants=WANTS)
def test_what_is_held_against_other_launches_has_two_at_small_sizes(wants: list[Want]) -> None:
    """Launches differ by 40 % there (2 x H200): one alone of an environment proves nothing.

    Unless a setting runs in it that other launches have too.
    """
    having: Counter[tuple[Collective, Setting, int]] = Counter()
    for launch in planned(Round(number=2, wants=tuple(wants))):
        for setting, _ in passes(launch):
            having.update((launch.collectives[0], setting, nbytes) for nbytes in asked(launch))
    plain = {w.collective for w in wants if any(map(is_plain, w.settings))}
    for want in wants:
        for setting in want.settings:
            is_small = want.nbytes < 512 << 10 and want.collective not in plain
            if "ll128" in str(setting) and is_small and want.repeats > 1:
                assert having[want.collective, setting, want.nbytes] >= 2


@given(made=ROUNDS)
@hypothesis_settings(max_examples=40)
def test_the_untouched_site_comes_first_of_all_and_never_again(made: Round) -> None:
    """One launch of each collective, over the whole grid."""
    launches = planned(made)
    at = [i for i, launch in enumerate(launches) if is_baseline(launch)]
    assert at == (list(range(len(SWEEP.collectives))) if made.number == 1 else [])
    for i in at:
        assert asked(launches[i]) == GRID


@hypothesis_settings(max_examples=30)
@given(wants=WANTS)
def test_no_two_launches_of_a_search_are_the_same(wants: list[Want]) -> None:
    """Though both rounds want the same: an id is a hash of what a launch is."""
    made = [
        launch for number in (1, 2) for launch in planned(Round(number=number, wants=tuple(wants)))
    ]
    assert len(set(made)) == len(made)


def call_us(_collective: Collective, nbytes: int, _setting: Setting | None = None) -> float:
    """50 us, and 1 GB/s: a slow machine."""
    return 50 + nbytes / 1000


def contending(*wanted: tuple[int, str]) -> tuple[Want, ...]:
    """One setting of all_reduce at each size."""
    return tuple(
        Want(
            collective=Collective.ALL_REDUCE,
            nbytes=nbytes,
            settings=(Setting.parse(name),),
            motive=Motive.CONTEND,
        )
        for nbytes, name in wanted
    )


def pass_s(launch: Launch) -> float:
    """Its calls, those for warming up and a checked one, out of place and in place."""
    calls = 2 * (option(launch.argv, "-n") + option(launch.argv, "-w") + 1)
    return sum(calls * call_us(Collective.ALL_REDUCE, n) * 1e-6 for n in asked(launch))


@pytest.mark.parametrize(
    ("least", "calls"),
    [(1 << 10, (20, 5)), (1 << 15, (20, 5)), (1 << 16, (5, 2)), (1 << 28, (5, 2))],
)
def test_long_calls_are_made_a_quarter_as_often(least: int, calls: tuple[int, int]) -> None:
    """From 100 us at the smallest size of a launch: here that is 50,000 B."""
    wants = contending((least, "ring/ll"), (2 * least, "ring/ll"))
    for pace, made in ((rounds.Pace(call_us=call_us), calls), (None, (20, 5))):
        launches = planned(Round(number=2, wants=wants), pace=pace)
        walks = [launch for launch in launches if not is_baseline(launch)]
        assert walks
        assert {(option(one.argv, "-n"), option(one.argv, "-w")) for one in walks} == {made}


@hypothesis_settings(max_examples=40)
@given(made=ROUNDS, slower=st.sampled_from([0.01, 1.0, 4.0, 120.0]))
def test_no_walk_is_long_that_could_be_shorter(made: Round, slower: float) -> None:
    """By the pace of this machine; a setting and silence, thrown away and kept, is the least."""
    pace = rounds.Pace(launch_s=5.0, call_us=lambda *call: slower * call_us(*call))
    for launch in planned(made, pace=pace):
        if is_baseline(launch):
            continue
        assert launch.schedule is not None
        n_passes = len(launch.schedule.settings) - 1
        if n_passes * slower * pass_s(launch) > LONGEST_S * (1 + 1e-9):
            gated = launch.variant == LL128_FORCED
            own = {s for s, _ in passes(launch) if s != SILENT and is_plain(s) != gated}
            assert len(own) <= 1
            assert {n for _, n in passes(launch)} == {1}


def test_what_promises_most_in_its_time_comes_first() -> None:
    """A budget may end between any two; untouched runs come before all."""
    wants = [
        Want(
            collective=collective,
            nbytes=nbytes,
            settings=(Setting.parse("ring/simple"),),
            motive=Motive.CONTEND,
            promise=promise,
        )
        for collective, nbytes, promise in (
            (Collective.ALL_REDUCE, 1 << 30, 0.02),
            (Collective.BROADCAST, 1 << 12, 0.01),
        )
    ]
    made = planned(
        Round(number=2, wants=tuple(wants)), pace=rounds.Pace(launch_s=0.01, call_us=call_us)
    )
    walks = [launch for launch in made if not is_baseline(launch)]
    assert [asked(launch)[-1] for launch in walks] == [1 << 12, 1 << 30]


@pytest.mark.parametrize(("launch_s", "n_walks"), [(0.001, 2), (100.0, 1)])
def test_a_dear_launch_brings_sizes_together(launch_s: float, n_walks: int) -> None:
    """4 KiB and 64 MiB of two settings: apart where a start is cheap."""
    wants = contending((1 << 12, "tree/ll"), (1 << 26, "ring/simple"))
    pace = rounds.Pace(launch_s=launch_s, call_us=call_us)
    made = planned(Round(number=2, wants=wants), pace=pace)
    assert sum(not is_baseline(launch) for launch in made) == n_walks


@pytest.mark.parametrize(("slowness", "n_walks"), [(1, 1), (50, 2)])
def test_a_setting_that_is_slow_at_large_sizes_is_not_taken_along_to_them(
    slowness: float, n_walks: int
) -> None:
    """On two H100 ring/ll took 8 of a sweep's 23 s at 32 to 256 MiB, where nobody wanted it."""
    wants = contending((1 << 12, "ring/ll"), (1 << 25, "ring/simple"))

    def own_us(collective: Collective, nbytes: int, setting: Setting | None) -> float:
        is_slow = setting == Setting.parse("ring/ll")
        return call_us(collective, nbytes) * (slowness if is_slow else 1)

    pace = rounds.Pace(launch_s=20.0, call_us=own_us)
    made = planned(Round(number=2, wants=wants), pace=pace)
    assert sum(not is_baseline(launch) for launch in made) == n_walks


def test_the_same_round_is_planned_the_same_again() -> None:
    """Resuming needs no record of an order."""
    want = Want(
        collective=Collective.BROADCAST,
        nbytes=1 << 20,
        settings=tuple(map(Setting.parse, NAMES[2:])),
        motive=Motive.CONFIRM,
        repeats=3,
    )
    made = Round(number=2, wants=(want,))
    assert planned(made) == planned(made)


def outcome(launch: Launch, seconds: float) -> Outcome:
    """It ended well after so long."""
    return Outcome(launch=launch.id, status=Status.OK, duration_s=seconds)


def test_an_estimate_goes_by_each_launchs_own_sizes() -> None:
    """Two walks that differ by the sizes alone: 50 us and 10 GB/s, two halves of 25 calls."""
    want = Want(
        collective=Collective.ALL_REDUCE,
        nbytes=1 << 12,
        settings=(Setting.parse("ring/ll"),),
        motive=Motive.CONTEND,
    )
    small, large = (
        planned(Round(number=3, wants=(replace(want, nbytes=nbytes),)))[0]
        for nbytes in (1 << 12, 1 << 30)
    )
    started = [outcome(small, 3.0)]
    found = [estimate_s([one], SWEEP, started) for one in (small, large)]
    for one, seconds in zip((small, large), found, strict=True):
        assert one.schedule is not None
        calls = 50 * len(one.schedule.settings)
        wanted = 3.0 + calls * sum(50e-6 + n / 10e9 for n in asked(one))
        assert seconds == pytest.approx(wanted)
    # Without any launch to go by a start is guessed, for 64 ranks half a minute.
    assert estimate_s([small], SWEEP) > 30
    assert estimate_s([small, large], SWEEP, start_s=1.0) == 2.0
