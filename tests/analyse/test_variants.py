"""What a variant gains against the site: known times in, closed forms for what must come out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rccltune.analyse.choice import choose
from rccltune.analyse.options import ChoiceOptions
from rccltune.analyse.variant_gains import compare_with_site
from rccltune.model.choice import ExportedVariant, WrongShare
from rccltune.model.measurement import Sample
from rccltune.model.settings import DEFAULT_VARIANT, CurveKey, Scale, Setting, Variant
from rccltune.model.vocabulary import Collective, Placement
from rccltune.session.sample_table import frame

SIZES = [1 << power for power in range(10, 27)]
PATH = Variant(
    name="pp",
    environment=(("PP_ENABLE", "1"), ("PP_MAX", str(1 << 40))),
    threshold="PP_MAX",
    path=True,
    serves=(Collective.ALL_REDUCE,),
)
CHANNELS = Variant(name="channels-32", environment=(("NCCL_MIN_NCHANNELS", "32"),))
Time = Callable[[int], float]
Table = Mapping[tuple[str, Variant], Time]


def line(latency_us: float, gb_per_s: float) -> Time:
    """Latency and bandwidth."""
    return lambda nbytes: latency_us + nbytes / (1e3 * gb_per_s)


def samples_of(
    table: Table, *, sigma: float = 0.003, seed: int = 0, collective: str = "all_reduce"
) -> list[Sample]:
    """Three launches of each setting in each variant."""
    rng = random.Random(seed)
    return [
        Sample(
            key=CurveKey(
                collective=Collective(collective),
                setting=Setting.parse(name),
                placement=Placement.OUT_OF_PLACE,
                scale=Scale(n_nodes=1, n_ranks=8),
                variant=variant,
            ),
            launch=f"{name} {variant.name} {repeat}",
            nbytes=nbytes,
            time_us=time(nbytes) * exp(rng.gauss(0, sigma)),
        )
        for (name, variant), time in table.items()
        for repeat in range(3)
        for nbytes in SIZES
    ]


def judge(
    samples: Sequence[Sample], wrong: Sequence[WrongShare] = (), **options: object
) -> dict[str, ExportedVariant]:
    """As emit-config does, by name."""
    wish = ChoiceOptions(arch="gfx942", **options)  # type: ignore[arg-type] - a test's shorthand
    variants = {one.key.variant.name: one.key.variant for one in samples}
    choice = choose(frame(samples), variants, wish)
    found = compare_with_site(choice.candidates, choice.zones, wish, wrong=wrong)
    return {one.variant.name: one for one in found}


BASE = line(40, 100)
# One rule at most: ring/ll is what the library runs.
PLAIN = {("baseline", DEFAULT_VARIANT): BASE, ("ring/ll", DEFAULT_VARIANT): BASE}


@given(latency_us=st.floats(5, 30), gb_per_s=st.floats(20, 80), seed=st.integers(0, 99))
@hypothesis_settings(max_examples=8)
def test_a_threshold_is_where_the_curves_cross(
    latency_us: float, gb_per_s: float, seed: int
) -> None:
    """40 + n/100e3 = L + n/(1e3 B), solved for n; within what 0.3 % of noise can move it."""
    ours = line(latency_us, gb_per_s)
    crossing = (40 - latency_us) / (1 / (1e3 * gb_per_s) - 1 / 1e5)
    found = judge(samples_of({**PLAIN, ("baseline", PATH): ours}, seed=seed))["pp"]
    assert found.threshold_nbytes is not None
    if SIZES[0] < crossing < SIZES[-1]:
        # There neither side is ahead by more than 2 %, whichever of them is taken.
        ratio = ours(found.threshold_nbytes) / BASE(found.threshold_nbytes)
        assert ratio == pytest.approx(1, abs=0.02)
    assert dict(found.variant.environment)["PP_MAX"] == str(found.threshold_nbytes)
    for gain in found.gains:
        assert not gain.worse
        assert all(one.max_nbytes <= found.threshold_nbytes for one in gain.better)


def test_a_path_that_is_slower_at_small_sizes_cannot_be_confined() -> None:
    """A threshold bounds from above only: calls below it would all take the path."""
    found = judge(samples_of({**PLAIN, ("baseline", PATH): line(60, 400)}))["pp"]
    assert found.threshold_nbytes is None
    [gain] = found.gains
    # 60 + n/400e3 against 40 + n/100e3: half as slow again at 1 KiB, 2.6 times faster at 64 MiB.
    assert gain.worse[0].min_nbytes == SIZES[0]
    assert gain.worse[0].gain.low == pytest.approx(BASE(1024) / line(60, 400)(1024) - 1, abs=0.02)
    assert gain.better[-1].max_nbytes == SIZES[-1]


def mixed(factor_small: float, factor_large: float) -> Time:
    """The base, changed by factors below and above 256 KiB."""
    return lambda n: BASE(n) * (factor_small if n < 1 << 18 else factor_large)


def test_gains_and_losses_are_against_the_sites_rules_at_every_size() -> None:
    """A tenth faster above 256 KiB and a quarter slower below, rules of its own included."""
    time = mixed(1.25, 0.9)
    table = {**PLAIN, ("baseline", CHANNELS): time, ("ring/ll", CHANNELS): time}
    samples = samples_of(table, sigma=0.0005)
    found = judge(samples)["channels-32"]
    [gain] = found.gains
    [better], [worse] = gain.better, gain.worse
    assert (better.min_nbytes, better.max_nbytes) == (1 << 18, SIZES[-1])
    assert (worse.min_nbytes, worse.max_nbytes) == (SIZES[0], 1 << 17)
    assert better.gain.median == pytest.approx(1 / 0.9 - 1, abs=0.01)
    assert worse.gain.median == pytest.approx(1 / 1.25 - 1, abs=0.01)
    assert [nbytes for nbytes, _ in gain.points] == SIZES
    assert not found.chosen
    assert judge(samples, variant="channels-32")["channels-32"].chosen
    # A rule of the site that is as fast as the variant leaves it nothing.
    ruled = samples_of({**table, ("tree/ll", DEFAULT_VARIANT): mixed(0.9, 0.9)}, sigma=0.0005)
    [gain] = judge(ruled)["channels-32"].gains
    assert not gain.better
    # And one of its own takes its loss away.
    own = samples_of({**table, ("ring/ll/8", CHANNELS): mixed(0.99, 1.2)}, sigma=0.0005)
    [gain] = judge(own)["channels-32"].gains
    assert gain.better
    assert not gain.worse


def test_what_a_lossy_variant_gets_wrong_stands_beside_its_gains() -> None:
    """Twice as fast, and wrong from 16 MiB on."""
    lossy = Variant(name="lp", environment=(("LP", "1"),), path=True, lossy=True)
    samples = samples_of({**PLAIN, ("baseline", lossy): line(20, 200)})
    target = next(c.key.target for c in samples if c.key.variant.name == "lp")
    wrong = [WrongShare(target=target, share=0.4, at_nbytes=1 << 26, from_nbytes=1 << 24)]
    [gain] = judge(samples, wrong)["lp"].gains
    assert gain.better
    assert gain.wrong == wrong[0]


def test_without_the_untouched_site_nothing_is_judged() -> None:
    """Tables that somebody else measured."""
    samples = samples_of({("ring/ll", DEFAULT_VARIANT): BASE, ("baseline", PATH): line(20, 50)})
    assert judge(samples)["pp"].gains == ()


OFF = Variant(name="pp-off", environment=(("PP_ENABLE", "0"),), serves=(Collective.ALL_REDUCE,))


def test_a_default_path_is_confined_by_what_is_faster_without_it() -> None:
    """The site takes the path up to 4 MiB; rules that nobody could have there win from 256 KiB on.

    Path 20 + n/50e3, rule without it 26 + n/100e3: equal at 600,000 bytes.
    """
    path, plain, rule = line(20, 50), line(60, 60), line(26, 100)

    def site(nbytes: int) -> float:
        return path(nbytes) if nbytes <= 4 << 20 else plain(nbytes)

    table = {
        ("baseline", DEFAULT_VARIANT): site,
        ("baseline", replace(PATH, without="pp-off")): path,
        ("baseline", OFF): plain,
        ("ring/simple", OFF): rule,
    }
    found = judge(samples_of(table, sigma=0.0005))["pp"]
    assert found.threshold_nbytes == pytest.approx(600_000, rel=0.03)
    assert (found.beyond, found.reach) == ("pp-off", found.threshold_nbytes)
    assert not found.gains[0].worse


def test_two_paths_that_follow_each_other_get_a_threshold_each() -> None:
    """Flat up to where tree is faster, tree up to where the library is; both are exported.

    Flat 10 + n/10e3, tree 30 + n/50e3: equal at 250,000 bytes; the library 60 + n/100e3: equal to
    the tree at 3,000,000 bytes. The tree is slower than the site for small calls, which flat takes.
    """
    flat = Variant(
        name="flat",
        environment=(("ON", "1"), ("FLAT_MAX", "1000000000")),
        threshold="FLAT_MAX",
        path=True,
        without="tree",
    )
    tree = Variant(
        name="tree",
        environment=(("FLAT_MAX", "0"), ("ON", "1"), ("TREE_MAX", "1000000000")),
        threshold="TREE_MAX",
        path=True,
        without="off",
    )
    off = Variant(name="off", environment=(("ON", "0"),))
    library = line(60, 100)

    def site(nbytes: int) -> float:
        # As shipped: flat up to 16 KiB, tree up to 64 MiB.
        return line(10, 10)(nbytes) if nbytes <= 1 << 14 else line(30, 50)(nbytes)

    table = {
        ("baseline", DEFAULT_VARIANT): site,
        ("baseline", flat): line(10, 10),
        ("baseline", tree): line(30, 50),
        ("baseline", off): library,
        ("ring/ll", off): library,
    }
    found = judge(samples_of(table, sigma=0.0005))
    exported = dict(found["flat"].variant.environment)
    assert int(exported["FLAT_MAX"]) == pytest.approx(250_000, rel=0.04)
    assert int(exported["TREE_MAX"]) == pytest.approx(3_000_000, rel=0.04)
    assert exported["ON"] == "1"
    assert found["flat"].reach == int(exported["TREE_MAX"])
    assert found["flat"].beyond == "off"
    assert not found["flat"].gains[0].worse
    # By itself the tree cannot be confined: it harms the calls that flat takes.
    assert found["tree"].threshold_nbytes is None
