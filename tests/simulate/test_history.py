"""Effects of what ran before: carry-over in a launch, heat of the pass before, a pass's first size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from simulation import Row, Sim, Small, plugin_env

from rccltune.model.errors import InputFileError
from rccltune.simulate.sources import load_node
from rccltune.simulate.true_times import truth

CARRIED = (
    "effects: [{setting: ring/simple, after: {setting: tree/ll, within: launch}, factor: 2}]\n"
)
HEATED = "effects: [{setting: ring/simple, after: {setting: tree/ll, within: pass}, factor: 2}]\n"
SWITCHED = "effects: [{first: true, factor: 2}]\n"
ABOVE = 100_000  # as a rule has it: tree/ll up to here, ring/simple by NCCL_PROTO behind


def walk(settings: str, sim: Sim) -> dict[str, str]:
    """The environment of a launch whose warm-up has the first setting, each pass the next."""
    return {"NCCL_TUNER_PLUGIN": sim.plugin(), "TESTPLUGIN_CYCLE": settings}


def rules(sim: Sim) -> dict[str, str]:
    """The environment of a launch in which every pass has two settings."""
    return plugin_env(sim, f"tree/ll,0-{ABOVE}") | {"NCCL_ALGO": "ring,tree"}


def slowed(
    sim: Sim, plain: Path, node: Path, arguments: str, env: dict[str, str]
) -> dict[int, list[tuple[float, float]]]:
    """How many times as slow the node is as the plain one: both halves, by size, a pass each."""
    found: dict[int, list[tuple[float, float]]] = {}
    slow, fast = (sim.run(one, arguments, **env) for one in (node, plain))
    assert (slow.code, fast.code) == (0, 0), slow.err + fast.err
    for one, other in zip(slow.rows, fast.rows, strict=True):
        halves = (
            round(one.time_us / other.time_us, 2),
            round(one.in_place_us / other.in_place_us, 2),
        )
        found.setdefault(one.size, []).append(halves)
    return found


def both(*values: float) -> list[tuple[float, float]]:
    """The same in both halves."""
    return [(value, value) for value in values]


def test_carry_over(sim: Sim, small: Small) -> None:
    """Once the hungry setting ran, the other is slow to the end of the launch."""
    settings = "ring/simple ring/simple tree/ll ring/simple ring/simple tree/ll"
    got = slowed(sim, small(), small(CARRIED), "-b 8 -e 16 -f 2 -N 5", walk(settings, sim))
    assert got == {8: both(1, 1, 2, 2, 1), 16: both(1, 1, 2, 2, 1)}
    # A launch of its own, and one whose warm-up was the other's.
    alone = slowed(sim, small(), small(CARRIED), "-b 8 -e 16 -f 2", plugin_env(sim, "ring/simple"))
    assert alone == {8: both(1), 16: both(1)}
    warmed = slowed(
        sim, small(), small(CARRIED), "-b 8 -e 16 -f 2", walk("tree/ll ring/simple", sim)
    )
    assert warmed == {8: both(2), 16: both(2)}


def test_carry_over_within_a_pass(sim: Sim, small: Small) -> None:
    """Any earlier call counts, of this pass too; without a warm-up there is nothing earlier yet."""
    env = rules(sim) | {"NCCL_PROTO": "LL,Simple"}
    node = small(
        "effects: [{setting: tree/ll, after: {setting: ring/simple, within: launch}, factor: 2},"
        " {bytes: [1048576, 1048576], after: {setting: tree/ll, within: launch}, factor: 3}]\n"
    )
    got = slowed(sim, small(), node, "-b 64K -e 1M -f 16 -w 0 -N 2", env)
    assert got == {65536: both(1, 2), 1048576: both(3, 3)}


def test_heat_is_of_the_pass_before_alone(sim: Sim, small: Small) -> None:
    """The pass behind a hungry one, the first one behind its warm-up; no later one."""
    settings = "tree/ll ring/simple ring/simple tree/ll ring/simple ring/simple"
    got = slowed(sim, small(), small(HEATED), "-b 8 -e 16 -f 2 -N 5", walk(settings, sim))
    assert got == {8: both(2, 1, 1, 2, 1), 16: both(2, 1, 1, 2, 1)}


def test_heat_asks_nothing_of_the_present_pass(sim: Sim, small: Small) -> None:
    """The hungry setting runs at small sizes of every pass, and no call warms up."""
    env = rules(sim)
    got = slowed(sim, small(), small(HEATED), "-b 64K -e 1M -f 16 -w 0 -N 3", env)
    assert got == {65536: both(1, 1, 1), 1048576: both(1, 2, 2)}
    warmed = slowed(sim, small(), small(HEATED), "-b 64K -e 1M -f 16 -N 3", env)
    assert warmed == {65536: both(1, 1, 1), 1048576: both(2, 2, 2)}


def test_first_size_after_a_switch(sim: Sim, small: Small) -> None:
    """Both halves of one row, where the pass before began with another setting."""
    settings = "tree/ll ring/simple ring/simple tree/ll tree/ll ring/simple"
    arguments = "-b 8 -e 16 -f 2 -N 5"
    got = slowed(sim, small(), small(SWITCHED), arguments, walk(settings, sim))
    assert got == {8: both(2, 1, 2, 1, 2), 16: both(1, 1, 1, 1, 1)}
    # Another setting at another size is no switch.
    steady = slowed(sim, small(), small(SWITCHED), "-b 64K -e 1M -f 16 -N 3", rules(sim))
    assert steady == {65536: both(1, 1, 1), 1048576: both(1, 1, 1)}
    # Nothing ran before the first pass, so nothing was switched.
    cold = slowed(sim, small(), small(SWITCHED), "-b 8 -e 16 -f 2 -N 3 -w 0", walk(settings, sim))
    assert cold == {8: both(1, 2, 1), 16: both(1, 1, 1)}


def test_first_size_of_an_old_benchmark(sim: Sim, small: Small) -> None:
    """It warms up the largest size, then the smallest, which is what the passes begin with."""
    env = rules(sim) | {"RCCLTUNE_SIM_BENCHMARK": "rt24"}
    got = slowed(sim, small(), small(SWITCHED), "-b 64K -e 1M -f 16 -s 2", env)
    assert got == {65536: both(1, 1), 1048576: both(1, 1)}
    # The smallest was warmed up by the plugin's second step, for there the size fell.
    env = walk("ring/simple tree/ll ring/ll", sim) | {"RCCLTUNE_SIM_BENCHMARK": "rt24"}
    got = slowed(sim, small(), small(SWITCHED), "-b 64K -e 1M -f 16 -s 2", env)
    assert got == {65536: both(1, 2), 1048576: both(1, 1)}


def test_a_size_of_no_bytes_is_no_first_size(sim: Sim, small: Small) -> None:
    """all_gather of 4 ranks sends nothing below 64 bytes."""
    env = walk("ring/ll ring/ll ring/simple", sim)
    rows = [
        [
            row.time_us
            for row in sim.run(node, "-b 32 -e 128 -f 2 -N 2", collective="all_gather", **env).rows
        ]
        for node in (small(SWITCHED), small())
    ]
    assert [round(slow / fast, 1) for slow, fast in zip(*rows, strict=True)] == [1, 1, 1, 1, 2, 1]


EVERYTHING = """effects:
  - {setting: ring/simple, after: {setting: tree/ll, within: launch}, points: [[64, 1.1], [65536, 1.4]]}
  - {setting: tree/ll, after: {setting: tree/ll, within: pass}, factor: 1.3}
  - {after: {setting: ring/ll, within: pass}, between: {low: 1.2, high: 1.7, factor: 1.6}}
  - {half: in, after: {setting: ring/ll, within: launch}, factor: 1.05}
  - {first: true, setting: ring/ll, factor: 1.9}
  - {first: true, after: {setting: ring/simple, within: pass}, factor: 1.7}
  - {first: true, mixed: launch, by_channels: {4: [[1024, 3]], 16: [[1024, 1.5]]}}
  - {mixed: true, factor: 5}
"""


@pytest.mark.parametrize("seed", range(6))
def test_the_program_and_python_agree_on_what_history_does(
    sim: Sim, small: Small, tmp_path: Path, seed: int
) -> None:
    """Two implementations of one rule, over walks by chance."""
    drawn = random.Random(seed)
    walked = [drawn.choice(("tree/ll", "ring/ll", "ring/simple")) for _ in range(9)]
    channels = drawn.choice((0, 7))
    text = " ".join(f"{one}/{channels}" if channels else one for one in walked)
    path, told = small(EVERYTHING), tmp_path / "told"
    node = load_node(path)
    env = walk(text, sim) | {"RCCLTUNE_SIM_TRUTH": str(told)}
    got = sim.run(path, "-b 40 -e 20000 -f 3 -N 8", **env)
    lines = [line.split() for line in told.read_text().splitlines()]
    sizes = sorted({row.size for row in got.rows})
    assert len(lines) == 8 * 2 * len(sizes) == 16 * 6
    rows: list[Row] = got.rows
    for index, line in enumerate(lines):
        done, (at, in_place) = index // 12, divmod(index % 12, 2)
        setting, size = walked[done + 1], sizes[at]
        assert (line[1], line[2], line[4]) == (str(size), ("out", "in")[in_place], setting)
        asked = {"channels": channels, "in_place": bool(in_place)}
        alone = truth(node, "all_reduce", setting, size, **asked)
        # A call of its own goes before every block that is timed.
        behind = truth(
            node,
            "all_reduce",
            setting,
            size,
            **asked,
            mixed_launch=len(set(walked[: done + 2])) > 1,
            ran_before=set(walked[: done + 2]),
            ran_in_pass_before={walked[done]},
            first_after_switch=at == 0 and walked[done] != setting,
        )
        assert float(line[8]) == pytest.approx(alone, rel=1e-9)
        assert float(line[9]) == pytest.approx(behind, rel=1e-9)
        row = rows[index // 2]
        assert (row.in_place_us if in_place else row.time_us) == pytest.approx(behind, abs=0.006)


@pytest.mark.mpi
def test_processes_remember_what_one_process_does(sim: Sim, small: Small) -> None:
    """Under the real mpirun, in groups too."""
    env = walk("tree/ll ring/simple ring/ll ring/ll tree/ll", sim)
    one = sim.run(small(EVERYTHING), "-b 8 -e 64K -f 8 -N 4", **env)
    many = sim.run(small(EVERYTHING), "-b 8 -e 64K -f 8 -N 4", np=4, **env)
    assert many.code == 0, many.err
    assert [r.rest for r in many.rows] == [r.rest for r in one.rows]
    halves = sim.run(
        small(EVERYTHING), "-b 8 -e 64K -f 8 -N 4", np=4, NCCL_TESTS_SPLIT="MOD 2", **env
    )
    assert halves.code == 0, halves.err
    # No curve of this node asks how many ranks there are.
    assert [r.time_us for r in halves.rows] == [r.time_us for r in one.rows]


@pytest.mark.parametrize(
    ("effect", "said"),
    [
        (
            "{mixed: true, after: {setting: tree/ll, within: launch}, factor: 2}",
            "effects[0] cannot be both mixed and after",
        ),
        ("{after: {setting: tree/fast, within: pass}, factor: 2}", "effects[0].after.setting is"),
        ("{after: {setting: tree/ll, within: day}, factor: 2}", "not one of launch, pass"),
        ("{after: {setting: tree/ll}, factor: 2}", "effects[0].after lacks within"),
        ("{first: false, factor: 2}", "effects[0].first is 'false', not one of true"),
    ],
)
def test_mistakes_in_effects(small: Small, effect: str, said: str) -> None:
    """Each with its place."""
    with pytest.raises(InputFileError) as caught:
        load_node(small(f"effects: [{effect}]\n"))
    assert said in str(caught.value)
