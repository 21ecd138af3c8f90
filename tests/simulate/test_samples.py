"""Times are the node file's truth times repeatable noise, whoever plays the ranks."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
from simulation import Sim, Small, leftovers, plugin_env
from wording import lacks

from rccltune.simulate.sources import load_node, node_path, shipped_nodes
from rccltune.simulate.true_times import truth


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
@pytest.mark.parametrize(
    "collective",
    ["all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "hypercube"],
)
def test_every_benchmark_runs_on_every_shipped_node(sim: Sim, name: str, collective: str) -> None:
    """Also the collectives that ask no tuner."""
    got = sim.run(name, "-b 64K -e 1G -f 4 -n 2", collective=collective)
    assert got.code == 0
    assert len(got.rows) == 8


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


def test_drift_and_bursts_follow_the_simulated_clock(sim: Sim, small: Small) -> None:
    """They belong to the time of the sweep, not to a launch."""
    node = small(
        "noise:\n  drift: [[0, 1], [100, 1.1]]\n"
        "  bursts: {probability: 0.3, seconds: 10, factor: 3}\n"
    )

    def at(seconds: int) -> float:
        epoch = {"RCCLTUNE_SIM_EPOCH": str(seconds)}
        return sim.run(node, "-b 8 -e 8", NCCL_PROTO="Simple", **epoch).rows[0].time_us

    times = [at(s) for s in range(5, 300, 10)]
    calm = [t for t in times if t < 100]
    assert 3 <= len(times) - len(calm) <= 18
    assert calm[0] < calm[-1]
    assert calm[-1] == pytest.approx(66, rel=0.01)
    assert at(42) == at(48) or at(42) > 100 or at(48) > 100


def test_clock_file_is_carried_on_by_launches_that_end(
    sim: Sim, small: Small, tmp_path: Path
) -> None:
    """A launch that failed leaves it, so that its repetition has the same time."""
    node, clock = small("start: {startup_s: 0.05}\n"), tmp_path / "clock"
    env = {"RCCLTUNE_SIM_CLOCK": str(clock)}
    sim.run(node, "-b 8 -e 1M -f 2", **env)
    first = float(clock.read_text())
    sim.run(node, "-b 8 -e 1M -f 2", **env)
    assert float(clock.read_text()) == pytest.approx(2 * first)
    assert first > 0.05
    sim.run(node, "-b 8 -e 1M -f 2", NCCL_ALGO="rong", **env)
    assert float(clock.read_text()) == pytest.approx(2 * first)
    # One that is told where it begins leaves there where it ended.
    sim.run(node, "-b 8 -e 1M -f 2", RCCLTUNE_SIM_EPOCH="40", **env)
    assert float(clock.read_text()) == pytest.approx(40 + first)


def test_first_use_is_paid_once_per_algorithm(sim: Sim, small: Small) -> None:
    """Why the first step of a setting is thrown away."""
    node = small("start: {first_use_us: 1000, first_use_calls: 4}\n")
    cycle = "ring/simple ring/simple tree/ll tree/ll ring/simple"
    got = sim.run(
        node,
        "-b 8 -e 16 -f 2 -N 5 -n 10 -w 1",
        NCCL_TUNER_PLUGIN=sim.plugin(),
        TESTPLUGIN_CYCLE=cycle,
    )
    firsts = [row.time_us for row in got.rows if row.size == 8]
    # The warm-up pass begins step 0; each later pass is a step. One of its two calls, then the
    # call before the timed ones, leave one or two of four for the timed ten.
    assert firsts[0] == pytest.approx(60 + 1000 / 10, rel=0.01)
    assert firsts[1] > 200
    assert firsts[2] == pytest.approx(20, rel=0.01)
    assert firsts[3] == pytest.approx(60, rel=0.01)


def test_slow_when_rules_are_mixed(sim: Sim, small: Small) -> None:
    """A trap: fast in a sweep of one setting, slow among others."""
    node = small("effects: [{setting: ring/simple, mixed: true, factor: 2}]\n")
    alone = sim.run(node, "-b 64K -e 1M -f 2", **plugin_env(sim, "ring/simple")).times[2**20]
    mixed = sim.run(node, "-b 64K -e 1M -f 2", **plugin_env(sim, "tree/ll,0-100000")).times[2**20]
    assert alone == pytest.approx(100, rel=0.01)
    assert mixed == pytest.approx(200, rel=0.01)


def test_slow_where_the_launch_ran_others_before(sim: Sim, small: Small) -> None:
    """A trap for walks: passes of one setting each, slow after the first that was another's."""
    node = small("effects: [{setting: ring/simple, mixed: launch, factor: 2}]\n")
    wish = "-b 64K -e 1M -f 4 -N 2"
    alone = sim.run(node, wish, **plugin_env(sim, "ring/simple")).rows
    mixed = sim.run(node, wish, **plugin_env(sim, "tree/ll,0-100000")).rows
    assert [r.time_us for r in alone if r.size == 2**20] == pytest.approx([100] * 2, rel=0.01)
    assert [r.time_us for r in mixed if r.size == 2**20] == pytest.approx([200] * 2, rel=0.01)


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
    [("2,3", 12.8, 331), ("3,4", 13.6, 170), ("63,56", 13.6, 170), ("7,8", 14.4, 46.55)],
)
def test_a_pair_is_as_fast_as_its_link(
    sim: Sim, devices: str, latency_us: float, gb_per_s: float
) -> None:
    """L + bytes / bandwidth, by whether the two share an I/O die, an OAM, or neither."""
    got = sim.run(
        "mi300x-cpx-nps4",
        "-b 8 -e 64M -f 8388608",
        collective="sendrecv",
        np=2,
        ROCR_VISIBLE_DEVICES=devices,
    )
    # The node's own noise: sigma 0.015 of a block, 0.01 of a launch.
    assert got.times[8] == pytest.approx(latency_us, rel=0.06)
    assert got.times[2**26] == pytest.approx(latency_us + 2**26 / gb_per_s / 1e3, rel=0.06)


def test_one_iod_needs_to_be_said(sim: Sim, small: Small) -> None:
    """A node file without devices_per_iod has no such place, and its answers stay as they were."""
    node = small("", ranks=8)
    got = sim.run(node, "-b 8 -e 8", collective="sendrecv", RCCLTUNE_SIM_RANKS="2")
    assert got.code == 64
    assert "2 ranks (one-oam)" in got.err


def test_split_groups(sim: Sim) -> None:
    """NCCL_TESTS_SPLIT makes eight communicators of eight ranks."""
    got = sim.run("mi300x-cpx-nps4", "-b 1M -e 1M", NCCL_TESTS_SPLIT="DIV 8")
    assert got.code == 0
    groups = {line.split()[4] for line in got.out.splitlines() if line.startswith("#  Rank")}
    assert groups == {str(g) for g in range(8)}
    alone = sim.run("mi300x-cpx-nps4", "-b 1M -e 1M", RCCLTUNE_SIM_RANKS="8")
    assert got.times[2**20] == pytest.approx(alone.times[2**20], rel=0.03)
    masked = sim.run("mi300x-cpx-nps4", "-b 1M -e 1M", NCCL_TESTS_SPLIT_MASK="f8")
    assert masked.times == got.times
    refused = sim.run("mi300x-cpx-nps4", "-b 1M -e 1M", NCCL_TESTS_SPLIT="AND 7")
    assert (refused.code, refused.rows) == (64, [])
    assert "plays MOD and DIV alone" in refused.err


def test_graph_variant(sim: Sim) -> None:
    """-G 1 has published curves of its own."""
    plain = sim.run("mi300x-spx-nps1", "-b 32M -e 32M").times[2**25]
    graph = sim.run("mi300x-spx-nps1", "-b 1K -e 32M -f 2 -G 1").times
    assert graph[1024] == pytest.approx(7.47, rel=0.1)
    assert graph[2**25] == pytest.approx(243.4, rel=0.1)
    assert plain == pytest.approx(244.1, rel=0.1)


@pytest.mark.parametrize("threads", ["-g 4", "-t 2 -g 2"])
def test_several_ranks_in_one_process(sim: Sim, small: Small, threads: str) -> None:
    """-g and -t change nothing but who holds the ranks."""
    node = small()
    together = sim.run(node, f"-b 8 -e 1M -f 2 {threads}")
    assert len(together.rows) == 18
    assert together.times == sim.run(node, "-b 8 -e 1M -f 2").times


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


@pytest.mark.mpi
def test_64_processes(sim: Sim) -> None:
    """The full node on two cores."""
    arguments = "-b 8 -e 1G -f 2"
    many = sim.run("mi300x-cpx-nps4", arguments, np=64)
    assert many.code == 0, many.err
    assert [r.rest for r in many.rows] == [
        r.rest for r in sim.run("mi300x-cpx-nps4", arguments).rows
    ]
    assert len({x.split()[6] for x in many.out.splitlines() if x.startswith("#  Rank")}) == 64
    assert not leftovers(sim)


def test_start_up_is_really_waited(sim: Sim, small: Small) -> None:
    """It is what one launch per setting costs."""
    node = small("start: {startup_s: 2}\n")
    began = time.monotonic()
    sim.run(node, "-b 8 -e 8")
    waited = time.monotonic() - began
    assert waited > 2
    began = time.monotonic()
    sim.run(node, "-b 8 -e 8", RCCLTUNE_SIM_STARTUP_S="0")
    assert time.monotonic() - began < waited - 1
