"""Launches of variants: each as the library behaves in it, and all settings where a tuner is asked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from grounds import GROUND, option
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.measured import Launch, Sweep
from rccltune.model.settings import BASELINE, DEFAULT_VARIANT, SILENT, Scale, Variant, base_variant
from rccltune.model.vocabulary import Collective
from rccltune.plan.variants import plan_variants

CHANNELS = Variant(name="channels-32", environment=(("NCCL_MIN_NCHANNELS", "32"),))
PATH = Variant(name="pp", environment=(("PP", "1"),), path=True)
GRAPH = Variant(name="graph-2", options=(("-G", "2"),))
THREADS = Variant(name="threads", options=(("-t", "{ranks}"), ("-g", "1")))
SWEEP = Sweep(
    collectives=(Collective.ALL_REDUCE, Collective.BROADCAST),
    settings=(),
    min_nbytes=1 << 10,
    max_nbytes=1 << 24,
    variants=(DEFAULT_VARIANT, CHANNELS, PATH, GRAPH, THREADS),
)


def planned(*variants: Variant, walks: bool = True, repeats: int = 3) -> list[Launch]:
    """Of the sweep above."""
    sweep = replace(SWEEP, variants=(DEFAULT_VARIANT, *variants), repeats=repeats)
    return plan_variants(sweep, GROUND, walks=walks)


def untouched(launches: list[Launch]) -> list[Launch]:
    """Those with nothing of ours."""
    return [one for one in launches if one.schedule and one.schedule.settings == (BASELINE,)]


@given(
    variants=st.lists(st.sampled_from([CHANNELS, PATH, GRAPH, THREADS]), unique=True),
    repeats=st.integers(1, 5),
)
def test_each_variant_is_measured_untouched_as_often_as_the_site(
    variants: list[Variant], repeats: int
) -> None:
    """Three times at least, for every collective, with its own environment."""
    launches = untouched(planned(*variants, repeats=repeats))
    counts = Counter((one.variant.name, one.collectives[0]) for one in launches)
    expected = {(v.name, c): max(3, repeats) for v in variants for c in SWEEP.collectives}
    assert counts == expected
    for one in launches:
        assert set(one.variant.environment) <= set(one.environment)


def test_the_default_variant_is_nobody_elses_business() -> None:
    """The rest of the sweep measures it."""
    assert planned() == []


def test_all_settings_are_measured_where_a_tuner_is_asked() -> None:
    """Six of all_reduce without the patched one, three of broadcast, with silence beside them."""
    walks = [one for one in planned(CHANNELS) if one not in untouched(planned(CHANNELS))]
    by_variant: dict[tuple[Collective, str], set[str]] = {}
    for one in walks:
        assert one.schedule is not None
        assert base_variant(one.variant) == CHANNELS
        names = {str(s) for s in one.schedule.settings if s != SILENT}
        by_variant.setdefault((one.collectives[0], one.variant.name), set()).update(names)
    forced = "channels-32+ll128-forced"
    assert by_variant == {
        (Collective.ALL_REDUCE, "channels-32"): {"tree/ll", "ring/ll", "ring/simple"},
        # Ring/simple needs no variable, and tells launches of both apart.
        (Collective.ALL_REDUCE, forced): {"tree/ll128", "ring/ll128", "ring/simple"},
        (Collective.BROADCAST, "channels-32"): {"ring/ll", "ring/simple"},
        (Collective.BROADCAST, forced): {"ring/ll128", "ring/simple"},
    }
    for one in walks:
        wanted = {("NCCL_MIN_NCHANNELS", "32")}
        if one.variant.name == forced:
            wanted.add(("RCCL_LL128_FORCE_ENABLE", "1"))
        assert set(one.environment) == wanted


def test_a_path_that_asks_no_tuner_has_no_settings() -> None:
    """There is nothing to force."""
    assert planned(PATH) == untouched(planned(PATH))


def test_options_of_a_variant_win_over_the_sweeps() -> None:
    """-G 2 in every launch of it, walks included."""
    launches = planned(GRAPH)
    assert len(launches) > len(untouched(launches))
    assert {option(one.argv, "-G") for one in launches} == {2}


@pytest.mark.parametrize("n_ranks", [8, 64])
def test_threads_are_one_process_and_never_walk(n_ranks: int) -> None:
    """A schedule is refused there (cli.md), so each setting has its own launches."""
    ground = replace(GROUND, scale=Scale(n_nodes=1, n_ranks=n_ranks))
    sweep = replace(SWEEP, variants=(DEFAULT_VARIANT, THREADS))
    launches = plan_variants(sweep, ground, walks=True)
    assert {option(one.argv, "-np") for one in launches} == {1}
    assert {option(one.argv, "-t") for one in launches} == {n_ranks}
    assert all(one.argv.count("-g") == 1 for one in launches)
    assert all(one.schedule and one.schedule.questions is None for one in launches)
    # Five settings of all_reduce and three of broadcast, three times each, beside the untouched.
    assert len(launches) == 8 * 3 + 2 * 3


def test_where_nothing_can_walk_each_setting_has_its_launches() -> None:
    """As in the default variant."""
    launches = planned(CHANNELS, walks=False)
    assert all(one.schedule and one.schedule.questions is None for one in launches)
    assert len(launches) == 8 * 3 + 2 * 3
