"""scripts/bench search: what judges the search is itself judged, by characters with known answers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import search_nodes as nodes
import search_verdicts as verdicts

from rccltune import simulate
from rccltune.model import Collective, Rule, Setting

SIZES = [1 << power for power in range(3, 31)]
BETWEEN = [round(size * 2 ** (part / 4)) for size in SIZES[:-1] for part in (1, 2, 3)]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    """The bench, which takes a second to import."""
    import bench_search

    return bench_search


def node_of(name: str, folder: Path) -> tuple[Path, simulate.SimulatedNode]:
    """A character's node file and what it says."""
    character = next(one for one in nodes.CHARACTERS if one.name == name)
    path = nodes.write_node(character, folder)
    return path, simulate.load_node(path)


def rule(name: str, low: int, high: int) -> Rule:
    """As emitted for 64 ranks."""
    return Rule(
        collective=Collective.ALL_REDUCE,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting.parse(name),
    )


def test_there_are_24_settings_that_a_stock_library_can_choose() -> None:
    """All different, and without Tree with Simple."""
    settings = [Setting.parse(name) for name in nodes.SETTINGS]
    assert len(set(settings)) == 24
    assert not any(name.startswith("tree/simple") for name in nodes.SETTINGS)


@pytest.mark.parametrize("name", ["five-crossovers", "plateaus", "mi300x-as-shipped"])
def test_the_truths_own_best_settings_have_no_regret(tmp_path: Path, name: str) -> None:
    """Whatever the character."""
    _, node = node_of(name, tmp_path)

    def best(nbytes: int) -> Setting:
        settings = [Setting.parse(name) for name in nodes.SETTINGS]
        return min(settings, key=lambda setting: nodes.truth_us(node, setting, nbytes))

    assert max(verdicts.regrets(node, best, [*SIZES, *BETWEEN])) == 0


def test_five_crossovers_has_six_winners_one_after_the_other(tmp_path: Path) -> None:
    """Written down here once more: rules that say so have no regret."""
    _, node = node_of("five-crossovers", tmp_path)
    ends = [3 << 10, 40 << 10, 300 << 10, 2500 << 10, 36 << 20, 1 << 30]
    winners = ["tree/ll/4", "tree/ll", "tree/ll128/16", "ring/ll128/8", "ring/ll128", "ring/simple"]
    lows = [0, *(end + 1 for end in ends)]
    rules = [rule(name, low, high) for name, low, high in zip(winners, lows, ends, strict=False)]

    def choose(nbytes: int) -> Setting:
        return verdicts.chosen(rules, {nbytes: Setting.parse("ring/ll")}, nbytes)

    assert max(verdicts.regrets(node, choose, [*SIZES, *BETWEEN])) == pytest.approx(0, abs=1e-6)


def test_a_wrong_rule_costs_what_the_character_says(tmp_path: Path) -> None:
    """ring/simple is 40 % behind at every size."""
    _, node = node_of("no-crossover", tmp_path)
    [found] = verdicts.regrets(node, lambda _: Setting.parse("ring/simple"), [1 << 20])
    assert found == pytest.approx(0.4, abs=1e-4)


def test_where_nothing_beats_the_library_it_chooses_the_best_itself(
    bench: ModuleType, tmp_path: Path
) -> None:
    """Without any rule, between the sizes as well: the turn of the cost model is where it is."""
    path, node = node_of("baseline-is-best", tmp_path)
    library = bench.library_choice(path, [*SIZES, *BETWEEN])
    assert {str(setting) for setting in library.values()} == {"ring/ll", "ring/simple"}
    assert max(verdicts.regrets(node, library.__getitem__, library)) == pytest.approx(0, abs=1e-4)


def test_a_size_without_a_rule_is_the_librarys() -> None:
    """And the first of two rules counts."""
    rules = [rule("tree/ll", 100, 200), rule("ring/ll128", 150, 200)]
    own = dict.fromkeys((99, 100, 150, 201), Setting.parse("ring/simple"))
    names = [str(verdicts.chosen(rules, own, nbytes)) for nbytes in own]
    assert names == ["ring/simple", "tree/ll", "tree/ll", "ring/simple"]


def test_channels_above_the_communicators_are_its_own(tmp_path: Path) -> None:
    """The library caps them at 32."""
    _, node = node_of("five-crossovers", tmp_path)
    own = nodes.truth_us(node, Setting.parse("ring/ll128"), 1 << 20)
    assert nodes.truth_us(node, Setting.parse("ring/ll128/64"), 1 << 20) == own
    assert nodes.truth_us(node, Setting.parse("ring/ll128/8"), 1 << 20) < own


def run(arm: str, regret: float = 0.0, n_rules: int = 1, **more: float) -> verdicts.Run:
    """A sweep of two sizes as it might have ended."""
    judged = verdicts.Judged(
        n_rules=n_rules,
        regrets=[0.0, regret],
        between=[regret],
        worst_at=16,
        worst_choice="ring/ll",
    )
    figures = {"collective_s": 100.0, "n_launches": 10, "python_s": 1.0, **more}
    by_tolerance = dict.fromkeys(verdicts.TOLERANCES, judged)
    return verdicts.Run(node="n", seed=3, arm=arm, judged=by_tolerance, **figures)


def test_goals_are_those_of_the_issue() -> None:
    """A fifth and a half are still right; 12 s a launch: 5 x 12 + 20 s of 10 x 12 + 100 s."""
    one, none = (nodes.Character(name="n", no_rule=no_rule) for no_rule in (False, True))
    whole = run("exhaustive")
    good = run("adaptive", 0.02, collective_s=20.0, n_launches=5)
    found = verdicts.verdict(one, [good, whole], 12.0)
    assert (found.collective_share, found.wall_share) == (0.2, pytest.approx(80 / 220))
    assert (found.missed, found.complaints) == ([], [])
    assert found.summaries["adaptive 2 %"].mean == pytest.approx(0.01)
    assert verdicts.verdict(none, [good, whole], 12.0).missed == ["no rule"]


def test_every_goal_can_be_missed() -> None:
    """And the seed says where."""
    bad = run("adaptive", 0.04, collective_s=21.0, n_launches=8)
    found = verdicts.verdict(nodes.Character(name="n"), [bad, run("exhaustive")], 12.0)
    assert found.missed == ["collective time", "wall time", "mean regret", "worst regret"]
    assert found.complaints == ["seed 3: ring/ll at 16 B is 4.0 % behind"]
