"""What launches with and without an environment say of it where no rule answers."""

from __future__ import annotations

import math
import random
from math import log

import pytest
import verify_null
from made_up import SCALE

from rccltune.model.chosen import Rule
from rccltune.model.settings import Setting, Target, Variant, View
from rccltune.model.vocabulary import Collective, Placement
from rccltune.verify import harm
from rccltune.verify.cells import cell_of
from rccltune.verify.evidence import Evidence, Judging, weigh
from rccltune.verify.held import Swept
from rccltune.verify.standing import Standing, State, standings

MIB = 1 << 20
SIZES = [round(1024 * 2 ** (k / 4)) for k in range(4 * 18 + 1)]
TARGET = Target(
    collective=Collective.ALL_REDUCE, scale=SCALE, rank_placement="node", variant=Variant()
)


def between_launches(seed: int, gain: float, start: int) -> Evidence:
    """Eight pairs of launches, each of every fourth size; what they differ by was seen on two H200.

    Args:
        seed: of the noise.
        gain: log of the ratio from ``start`` bytes on.
        start: in bytes.
    """
    rng = random.Random(f"{seed} {gain}")
    found = Evidence(is_own=True)
    for number in range(8):
        mood = rng.gauss(0, 2**0.5)
        cells, untouched = {}, {}
        for nbytes in SIZES[number % 4 :: 4]:
            for placement in Placement:
                key = (
                    TARGET,
                    View(dtype="float", redop="sum", placement=placement, graph=False),
                    nbytes,
                )
                off = mood * verify_null.at(nbytes, verify_null.LAUNCH)
                off += rng.gauss(0, verify_null.at(nbytes, verify_null.PASS))
                cells[key] = cell_of([10.0], [10.0], [10.0])
                untouched[key] = 10 * math.e ** (off + (gain if nbytes >= start else 0.0))
        found.add(f"{number}", cells, untouched)
    return found


def gains(evidence: Evidence) -> tuple[harm.EnvironmentGain, ...]:
    """Where no rule answers anywhere."""
    return harm.environment_gains(evidence, lambda _target, _nbytes: False, 0.02)


def test_an_environment_that_does_nothing_gains_nothing() -> None:
    """At most one in a hundred, though small calls differ by 40 % between launches."""
    assert sum(bool(gains(between_launches(seed, 0.0, 0))) for seed in range(200)) <= 2


def test_a_gain_at_large_sizes_is_found_where_it_is() -> None:
    """Eight percent from 2 MiB on, where launches differ by 2 %; its edge within two octaves."""
    n_found = 0
    for seed in range(20):
        for one in gains(between_launches(seed, log(1.08), 2 * MIB)):
            n_found += 1
            assert one.min_nbytes > MIB / 2
            assert one.max_nbytes > SIZES[-1] / 4
            # 1.5 % of eight launches on each side, of the placement that gains less: 0.75 %.
            assert abs(one.gain.mean - log(1.08)) < 0.03
    assert n_found >= 18


def in_turns(silent: float, tuned: float) -> Evidence:
    """Eight launches over a rule's sizes, next to eight untouched ones and eight with a variable.

    Args:
        silent: time of the idle plugin that takes turns with the rules, untouched time being 1.
        tuned: time with the rules.
    """
    rng = random.Random(f"{silent} {tuned}")
    found = Evidence(is_own=True)
    for number in range(8):
        cells, untouched, bare = {}, {}, {}
        for nbytes in SIZES[number % 4 :: 4]:
            for placement in Placement:
                view = View(dtype="float", redop="sum", placement=placement, graph=False)
                key = (TARGET, view, nbytes)
                at = [silent * math.exp(rng.gauss(0, 0.005)) for _ in range(4)]
                cells[key] = cell_of(at[:2], [tuned] * 2, at[2:])
                untouched[key], bare[key] = (math.exp(rng.gauss(0, 0.01)) for _ in range(2))
        found.add(f"{number}", cells, untouched, bare)
    return found


def test_a_rule_that_beats_only_what_its_own_launches_slow_does_not_stand() -> None:
    """As fast as the library in turns, which is 30 % slower there than alone; a variable hid that."""
    rule = Rule(
        collective=Collective.ALL_REDUCE,
        min_nbytes=1024,
        max_nbytes=8 * MIB,
        setting=Setting.parse("tree/ll"),
    )
    judging = Judging(rules=[rule], scale=SCALE, level=0.05)

    def standing(silent: float, tuned: float) -> Standing:
        evidence = in_turns(silent, tuned)
        held = [(evidence, weigh(evidence, judging))]
        [found] = standings([rule], held, judging, Swept(), 0.02)
        return found

    assert standing(1.0, 0.9).gain.mean == pytest.approx(log(1 / 0.9), abs=0.01)
    slow = standing(1.3, 1.3)
    assert slow.state in (State.LOSES, State.NO_GAIN)
    assert all(one.verdict.ratio < 0.85 for one in slow.sizes)
    # And what is faster than the library alone keeps what is left of its gain.
    assert standing(1.3, 0.9).gain.mean == pytest.approx(log(1 / 0.9), abs=0.01)
