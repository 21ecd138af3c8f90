"""Effects of what ran before: carry-over in a launch, heat of the pass before, a pass's first size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from simulation import Row, Sim, Small
from true_times import truth

from rccltune.simulate.sources import load_node


def walk(settings: str, sim: Sim) -> dict[str, str]:
    """The environment of a launch whose warm-up has the first setting, each pass the next."""
    return {"NCCL_TUNER_PLUGIN": sim.plugin(), "TESTPLUGIN_CYCLE": settings}


def both(*values: float) -> list[tuple[float, float]]:
    """The same in both halves."""
    return [(value, value) for value in values]


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


@pytest.mark.parametrize("seed", range(3))
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
