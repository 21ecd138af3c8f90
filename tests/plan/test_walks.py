"""What a planned walk holds, for any sweep: every setting as often as wished, and no launch long."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from grounds import GROUND
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.measured import Launch, Sweep
from rccltune.model.settings import BASELINE, SILENT, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.plan import walks
from rccltune.plan.launches import LONGEST_S, N_BASELINES, sizes
from rccltune.plan.launches import plan as plan_plan

SETTINGS = st.lists(
    st.builds(
        Setting,
        algorithm=st.just(Algorithm.RING),
        protocol=st.sampled_from(Protocol),
        channels=st.integers(1, 64) | st.none(),
    ),
    min_size=1,
    max_size=30,
    unique=True,
)
SWEEPS = st.builds(
    Sweep,
    collectives=st.lists(
        st.sampled_from([Collective.ALL_REDUCE, Collective.BROADCAST]),
        min_size=1,
        max_size=2,
        unique=True,
    ).map(tuple),
    settings=SETTINGS.map(tuple),
    min_nbytes=st.just(8),
    max_nbytes=st.sampled_from([1 << 10, 1 << 26, 1 << 33]),
    repeats=st.integers(1, 7),
    iterations=st.integers(1, 40),
    warmup=st.integers(1, 5),
    seed=st.integers(0, 5),
)


def guess_s(launch: Launch, sweep: Sweep) -> float:
    """Calls of 50 µs and 10 GB/s, as docs/sweep.md says."""
    calls = (sweep.iterations + sweep.warmup) * 2
    one_pass = sum(calls * (50e-6 + nbytes / 10e9) for nbytes in sizes(sweep))
    assert launch.schedule is not None
    return one_pass * (len(launch.schedule.settings) - 1)


@given(sweep=SWEEPS)
def test_every_setting_is_kept_as_often_as_wished(sweep: Sweep) -> None:
    """Its first use in a launch is thrown away on top of that."""
    kept: Counter[tuple[Collective, Setting]] = Counter()
    for launch in walks.plan_walks(sweep, GROUND).launches:
        assert launch.schedule is not None
        if launch.schedule.settings == (BASELINE,):
            continue
        steps = launch.schedule.settings[1:]
        counts = Counter(steps)
        # Silence is measured as often as anything, so that the walk can be compared with the site.
        assert counts[SILENT] == max(counts.values()) == min(counts.values())
        assert len(set(steps[: len(counts)])) == len(counts)
        assert launch.argv[launch.argv.index("-N") + 1] == str(len(steps))
        anchors = own_of(launch)[1]
        counted = {s: n - 1 for s, n in counts.items() if s != SILENT and s not in anchors}
        kept.update({(launch.collectives[0], s): n for s, n in counted.items()})
    wanted = {(c, s) for c in sweep.collectives for s in sweep.settings}
    assert kept == Counter(dict.fromkeys(wanted, sweep.repeats))


@given(sweep=SWEEPS)
def test_no_launch_is_long_that_could_be_shorter(sweep: Sweep) -> None:
    """Above two minutes only where a setting and silence, twice each, already are."""
    for launch in walks.plan_walks(sweep, GROUND).launches:
        assert launch.schedule is not None
        own, anchors = own_of(launch)
        if launch.schedule.settings != (BASELINE,) and guess_s(launch, sweep) > LONGEST_S:
            assert len(own) == 1
            assert len(launch.schedule.settings) == 1 + 4 + 2 * len(anchors)


@given(sweep=SWEEPS)
def test_baselines_stand_first_last_and_between(sweep: Sweep) -> None:
    """A drift between them must be seen."""
    launches = walks.plan_walks(sweep, GROUND).launches
    n = len(sweep.collectives)
    where = [i for i, one in enumerate(launches) if one.schedule.settings == (BASELINE,)]
    assert len(where) == n * max(N_BASELINES, sweep.repeats)
    assert set(range(n)) | set(range(len(launches) - n, len(launches))) <= set(where)


@given(sweep=SWEEPS)
def test_variants_do_not_share_a_launch(sweep: Sweep) -> None:
    """LL128 needs its variable; of the others one alone has it too, to tell launches apart by."""
    for launch in walks.plan_walks(sweep, GROUND).launches:
        own, anchors = own_of(launch)
        forced = {s.protocol for s in own if s.protocol}
        gated = dict(launch.environment).get("RCCL_LL128_FORCE_ENABLE") == "1"
        assert forced <= ({Protocol.LL128} if gated else {Protocol.LL, Protocol.SIMPLE})
        plain = [s for s in sweep.settings if s.protocol is not Protocol.LL128]
        assert len(anchors) == (1 if gated and plain else 0)
        assert anchors <= set(plain)


def own_of(launch: Launch) -> tuple[set[Setting], set[Setting]]:
    """Settings of a launch that are measured there, and those that make it comparable."""
    assert launch.schedule is not None
    forced = {s for s in launch.schedule.settings if s.protocol is not None}
    gated = dict(launch.environment).get("RCCL_LL128_FORCE_ENABLE") == "1"
    anchors = {s for s in forced if gated and s.protocol is not Protocol.LL128}
    return forced - anchors, anchors


@given(sweep=SWEEPS)
def test_a_plan_is_the_same_again(sweep: Sweep) -> None:
    """Resuming needs no record of an order."""
    assert walks.plan_walks(sweep, GROUND) == walks.plan_walks(sweep, GROUND)


def test_a_library_without_a_tuner_cannot_walk() -> None:
    """Whatever the benchmark can, nothing in its library hears the plugin; it says which one."""
    sweep = Sweep(
        collectives=(Collective.ALL_REDUCE,), settings=(SILENT,), min_nbytes=8, max_nbytes=64
    )
    ground = replace(GROUND, tunerless="RCCL 2.20.5")
    assert walks.why_no_walk(sweep, GROUND) is None
    assert "RCCL 2.20.5" in (walks.why_no_walk(sweep, ground) or "")
    # Silence is a plugin that answers nothing.
    assert [one.setting for one in plan_plan(sweep, ground).impossible] == [SILENT]
