"""How often noise alone makes a rule, and how often a true gain does: by simulation."""

from __future__ import annotations

from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rccltune.analyse import intervals
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.gains import SettingGains
from rccltune.analyse.points import TimeGrid
from rccltune.analyse.winners import find_winners
from rccltune.analyse.zones import make_zones
from rccltune.model.rule import RuleState
from rccltune.model.settings import Scale, Setting, Target
from rccltune.model.vocabulary import Collective
from rccltune.model.zone import Zone

TARGET = Target(
    collective=Collective.ALL_REDUCE, scale=Scale(n_nodes=1, n_ranks=8), rank_placement=None
)
# Four sizes from 1 MiB on.
LARGE = (10, 14)
COMMUNICATORS = (1, 2, 3, 8)
# One in a thousand good versions of the code has more false rules.
BOUND = 0.999


def rules(grid: TimeGrid, tolerance: float = 0.02) -> list[Zone]:
    """What is chosen from a grid whose first candidate is the library."""
    n = len(grid.candidates) - 1
    standing = SettingGains(grid, list(range(1, n + 1)), [False] * n, tolerance)
    options = ChoiceOptions(tolerance=tolerance)
    zones = make_zones(TARGET, standing, options, find_winners(TARGET, standing, options))
    return [zone for zone in zones if zone.setting]


def check_null(drawing: ModuleType, n_draws: int, **like: Any) -> None:  # noqa: ANN401 - of Drawn
    """Where nothing gains: any rule in at most 3 % of tables, one called proven in 0.5 %."""
    rng = np.random.default_rng(1)
    found = [rules(drawing.draw(drawing.Drawn(**like), rng)) for _ in range(n_draws)]
    n_any = sum(map(bool, found))
    n_proven = sum(any(zone.state is RuleState.PROVEN for zone in zones) for zones in found)
    assert n_any <= stats.binom.ppf(BOUND, n_draws, intervals.LIKELY)
    assert n_proven <= stats.binom.ppf(BOUND, n_draws, intervals.PROVEN)


KINDS = list(product((False, True), (False, True), (1, 2)))
each_kind = pytest.mark.parametrize(("is_graph", "paired", "views"), KINDS)
# Half of them, in which each pair of values meets.
HALF = [kind for kind in KINDS if sum(kind) % 2]


@pytest.mark.parametrize(("is_graph", "paired", "views"), HALF)
def test_equal_settings_make_few_rules(
    drawing: ModuleType, is_graph: bool, paired: bool, views: int
) -> None:
    """One row in fifty stands still; one to eight communicators."""
    for n in COMMUNICATORS:
        check_null(drawing, 12, n=n, is_graph=is_graph, paired=paired, views=views)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("n", COMMUNICATORS)
@each_kind
def test_equal_settings_make_few_rules_in_a_thousand_tables(
    drawing: ModuleType, is_graph: bool, paired: bool, views: int, n: int
) -> None:
    """The same with enough tables to see 1 % more."""
    check_null(drawing, 1000, n=n, is_graph=is_graph, paired=paired, views=views)


@pytest.mark.parametrize("n", [2, pytest.param(3, marks=pytest.mark.long), 8])
@pytest.mark.parametrize(("is_graph", "paired"), list(product((False, True), (False, True))))
def test_a_true_gain_of_a_tenth_is_found(
    drawing: ModuleType, is_graph: bool, paired: bool, n: int
) -> None:
    """At four sizes from 1 MiB on, from two communicators on, in nine tables of ten."""
    rng = np.random.default_rng(2)
    like = drawing.Drawn(n=n, is_graph=is_graph, paired=paired, gain=0.1, gains=LARGE)
    hits = 0
    for _ in range(20):
        grid = drawing.draw(like, rng)
        first = Setting.parse(grid.candidates[1])
        hits += any(
            zone.setting == first and zone.min_nbytes <= nbytes <= zone.max_nbytes
            for zone in rules(grid)
            for nbytes in grid.nbytes[slice(*LARGE)]
        )
    assert hits >= 18


@pytest.mark.parametrize(
    ("n", "scale", "high"),
    [(1, 1.0, 1.0), (2, 1.0, 1.0), *product((3, 8), (0.3, 1.0, 3.0), (0.99,))],
)
@pytest.mark.parametrize(("is_graph", "paired"), list(product((False, True), (False, True))))
def test_intervals_hold_as_often_as_they_say(
    drawing: ModuleType, is_graph: bool, paired: bool, n: int, scale: float, high: float
) -> None:
    """Of 95 %: 93 to 99 % where the noise is what the floor says, a third of it, thrice it."""
    rng = np.random.default_rng(3)
    like = drawing.Drawn(n=n, is_graph=is_graph, paired=paired, scale=scale, stalls=0.0)
    held = []
    for _ in range(20):
        grid = drawing.draw(like, rng)
        found = intervals.compare(grid.of(0), grid.of(range(1, 7)), grid.sizes)
        low, top = found.interval()
        held.append(((low <= 0) & (top >= 0)).mean())
    assert 0.93 <= np.mean(held) <= high
