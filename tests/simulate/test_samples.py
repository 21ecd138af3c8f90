"""Times are the node file's truth times repeatable noise, whoever plays the ranks."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from simulation import Sim, Small, plugin_env
from true_times import truth
from wording import lacks

from rccltune.simulate.sources import load_node, node_path, shipped_nodes


def test_the_program_and_python_agree_on_the_truth(sim: Sim, small: Small, tmp_path: Path) -> None:
    """Two implementations of one rule, in C and in Python."""
    more = (
        "variants: [{name: forced, when: {env: {RCCL_LL128_FORCE_ENABLE: '1'}}}]\n"
        "effects:\n"
        "  - {setting: tree/ll, bytes: [3000, 90000], factor: 1.25}\n"
        "  - {half: in, points: [[1024, 1.1], [65536, 1.4]]}\n"
        "  - {setting: ring/simple, between: {low: 1.2, high: 1.7, factor: 1.6}}\n"
        "  - {variant: forced, collective: all_reduce, factor: 0.9}\n"
        "  - {by_channels: {4: [[1024, 3], [65536, 6]], 16: [[1024, 1.5]]}}\n"
    )
    path = small(more)
    node = load_node(path)
    for setting in ("tree/ll", "ring/simple", "tree/ll128"):
        for channels in (0, 4, 7, 20):
            answer = f"{setting}/{channels}" if channels else setting
            got = sim.run(
                path, "-b 8 -e 900000 -f 3", RCCL_LL128_FORCE_ENABLE="1", **plugin_env(sim, answer)
            )
            assert len(got.rows) == 11
            for row in got.rows:
                kwargs = {"channels": channels, "variants": ("forced",)}
                out = truth(node, "all_reduce", setting, row.size, **kwargs)
                inside = truth(node, "all_reduce", setting, row.size, in_place=True, **kwargs)
                # Printed with two decimals.
                assert row.time_us == pytest.approx(out, abs=0.006)
                assert row.in_place_us == pytest.approx(inside, abs=0.006)


def test_shipped_curves_are_the_published_figures(sim: Sim) -> None:
    """To the digit, at the published sizes."""
    node = load_node(node_path("mi300x", "cpx-nps4"))
    published = {
        32: (76, 70, 106, 97, 198, 244),
        1024: (94, 154, 123, 203, 268, 248),
        16384: (87, 129, 111, 197, 271, 302),
        262144: (119, 148, 143, 706, 306, 359),
        1048576: (286, 390, 258, 708, 314, 549),
        4194304: (831, 701, 652, 726, 418, 836),
        134217728: (21541, 18970, 13251, 11720, 9996, 19503),
    }
    settings = ("tree/ll", "ring/ll", "tree/ll128", "ring/ll128", "ring/simple", "tree/simple")
    for size, times in published.items():
        for setting, time_us in zip(settings, times, strict=True):
            assert truth(node, "all_reduce", setting, size) == pytest.approx(time_us)
    spx = load_node(node_path("mi300x-spx-nps1"))
    assert truth(spx, "all_reduce", "ring/simple", 2**30) == pytest.approx(5970.6)
    assert truth(spx, "all_reduce", "ring/simple", 2**30, in_place=True) == pytest.approx(5974.5)
    assert truth(spx, "all_reduce", "mscclpp", 1024, variants=("graph",)) == pytest.approx(7.47)


@pytest.mark.parametrize("name", shipped_nodes())
def test_every_selectable_setting_of_a_shipped_node_has_a_time(name: str) -> None:
    """No launch may end because the library chose something without a curve."""
    node = load_node(node_path(name))
    for fill in node.raw["fill"]:
        scale = {"ranks": fill["ranks"], "placement": fill["placement"]}
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"):
            algorithms = ("tree", "ring") if collective == "all_reduce" else ("ring",)
            for algorithm in algorithms:
                for protocol in ("ll", "ll128", "simple"):
                    for size in (8, 4096, 2**20, 2**30):
                        time_us = truth(node, collective, f"{algorithm}/{protocol}", size, **scale)
                        assert time_us is not None
                        assert 1 < time_us < 1e7
        for collective in ("alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube"):
            assert truth(node, collective, "p2p", 4096, **scale) is not None


@pytest.mark.parametrize("name", shipped_nodes())
def test_every_benchmark_runs_on_every_shipped_node(sim: Sim, name: str) -> None:
    """Also the collectives that ask no tuner."""
    asked = ("all_gather", "reduce_scatter", "broadcast", "reduce")
    for collective in (*asked, "alltoall", "sendrecv", "hypercube"):
        got = sim.run(name, "-b 64K -e 1G -f 16384 -n 2", collective=collective)
        assert (got.code, len(got.rows)) == (0, 2), collective


def test_noise_depends_on_seed_launch_and_cycle_alone(sim: Sim) -> None:
    """A launch that is repeated gives its samples again."""
    run = lambda **env: sim.run("mi300x-cpx-nps4", "-b 8 -e 1M -f 2 -N 2", **env).out  # noqa: E731 - names a long call
    rows = lambda text: [x for x in text.splitlines() if " float " in x]  # noqa: E731 - names a long call
    first = rows(run())
    assert rows(run()) == first
    assert rows(run(RCCLTUNE_SIM_SEED="1")) != first
    other = rows(run(RCCLTUNE_SIM_LAUNCH="b"))
    assert other != first
    assert rows(run(RCCLTUNE_SIM_LAUNCH="b")) == other
    assert first[: len(first) // 2] != first[len(first) // 2 :]


def test_noise_has_the_size_that_the_file_says(sim: Sim, small: Small) -> None:
    """Within a launch and between launches."""
    node = small("noise: {sigma: 0.03, launch_sigma: 0.05}\n")
    spreads, means = [], []
    for launch in range(40):
        times = [
            row.time_us / 60.0
            for row in sim.run(
                node, "-b 8 -e 8 -N 60", NCCL_PROTO="Simple", RCCLTUNE_SIM_LAUNCH=str(launch)
            ).rows
        ]
        spreads.append(statistics.stdev(times))
        means.append(statistics.mean(times))
    assert statistics.mean(spreads) == pytest.approx(0.03, rel=0.1)
    assert statistics.stdev(means) == pytest.approx(0.05, rel=0.3)


def test_smaller_communicators_and_their_placement(sim: Sim) -> None:
    """A scale without a curve ends with the reason, never with an invented time."""
    eight = {"RCCLTUNE_SIM_RANKS": "8"}
    one_oam = sim.run(
        "mi300x-cpx-nps4", "-b 1M -e 1M", ROCR_VISIBLE_DEVICES="8,9,10,11,12,13,14,15", **eight
    )
    assert one_oam.code == 0
    assert "device  8 [0000:25:00]" in one_oam.out
    spread = sim.run(
        "mi300x-cpx-nps4", "-b 1M -e 1M", ROCR_VISIBLE_DEVICES="0,1,16,24,32,40,48,56", **eight
    )
    assert spread.code == 64
    assert lacks(spread.err, "all_reduce") == []
    assert "8 ranks (other)" in spread.err


@pytest.mark.parametrize(
    ("devices", "latency_us", "gb_per_s"),
    # L and bandwidth of each class of links.
    [("2,3", 12.8, 331), ("63,56", 13.6, 170), ("7,8", 14.4, 46.55)],
)
def test_a_pair_is_as_fast_as_its_link(
    sim: Sim, devices: str, latency_us: float, gb_per_s: float
) -> None:
    """L + bytes / bandwidth, by whether the two share an I/O die, an OAM, or neither."""
    got = sim.run(
        "mi300x-cpx-nps4",
        "-b 8 -e 64M -f 8388608",
        collective="sendrecv",
        RCCLTUNE_SIM_RANKS="2",
        ROCR_VISIBLE_DEVICES=devices,
    )
    # The node's own noise: sigma 0.015 of a block, 0.01 of a launch.
    assert got.times[8] == pytest.approx(latency_us, rel=0.06)
    assert got.times[2**26] == pytest.approx(latency_us + 2**26 / gb_per_s / 1e3, rel=0.06)


@pytest.mark.mpi
def test_processes_give_the_samples_of_one_process(sim: Sim, small: Small) -> None:
    """Under the real mpirun, to the last digit."""
    node = small("noise: {sigma: 0.03, rank_sigma: 0.01, outliers: {rate: 0.1, factor: 1.6}}\n")
    env = {
        **plugin_env(sim, "tree/ll,0-65536"),
        "RCCLTUNE_SIM_SEED": "5",
        "RCCLTUNE_SIM_LAUNCH": "x",
    }
    arguments = "-b 8 -e 1M -f 2 -N 3 -A 1"
    one = sim.run(node, arguments, **env)
    for np, extra in ((4, ""), (2, " -g 2")):
        many = sim.run(node, arguments + extra, np=np, **env)
        assert many.code == 0, many.err
        assert [r.rest for r in many.rows] == [r.rest for r in one.rows]
