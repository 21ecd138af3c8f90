"""The stand-in library chooses as RCCL does: plugins, gates, grammar, overrides, bypasses, CSV tuner."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulation import Ended, Sim, Small
from wording import lacks

# The order in which each release asks for a tuner (facts/rccl-and-nccl.md 1.1).
ORDERS = {
    "2.21.5": (2,),
    "2.22.3": (3, 2),
    "2.26.6": (4, 3, 2),
    "2.27.7": (4, 3, 2),
    "2.28.3": (5, 4, 3, 2),
    "2.30.4": (6, 5, 4, 3, 2),
    "2.31.2": (6, 5, 4, 3, 2),
}
# On stdout the library's lines would split the rows, as they do in reality.
LOG = {"NCCL_DEBUG_FILE": "/dev/stderr"}
TUNING = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,TUNING", **LOG}


def ran(got: Ended) -> dict[int, str]:
    """Settings by size, from the TUNING lines of the newer releases (all_reduce only)."""
    line = re.compile(
        r"AllReduce: (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{0\.\.(\d+)\}"
    )
    return {int(m[1]): f"{m[2]}/{m[3]}".lower() for m in line.finditer(got.err)}


@pytest.mark.parametrize("release", ORDERS)
def test_newest_version_that_the_release_knows_is_used(
    sim: Sim, small: Small, release: str
) -> None:
    """And a plugin without a known version is not used at all."""
    node, order = small(rccl=release), ORDERS[release]
    all_of_them = sim.run(node, "-b 8 -e 8", NCCL_TUNER_PLUGIN=sim.plugin(), **TUNING)
    # RCCL 2.27.7 does not say which version it took.
    says = "tuner plugin TestPlugin" if release == "2.27.7" else "TestPlugin (v{})"
    assert f"TUNER/Plugin: Using {says.format(order[0])}" in all_of_them.err
    for version in range(2, 7):
        one = sim.run(
            node,
            "-b 8 -e 8",
            NCCL_TUNER_PLUGIN=sim.plugin(str(version)),
            TESTPLUGIN_ANSWER="tree/ll",
            **TUNING,
        )
        loaded = f"Using {says.format(version)}" in one.err
        assert loaded == (version in order)
        assert one.times[8] == pytest.approx(20 if loaded else 30, rel=0.01)
        if not loaded:
            assert "is unsupported" in one.err


def test_init_and_questions_are_counted(sim: Sim, small: Small, tmp_path: Path) -> None:
    """A scheduling plugin counts the questions, so there must be as many as in reality."""
    log = tmp_path / "log"
    sim.run(
        small(),
        "-b 1K -e 4K -f 2 -n 5 -w 2 -c 1",
        NCCL_TUNER_PLUGIN=sim.plugin("5"),
        TESTPLUGIN_LOG=str(log),
    )
    lines = log.read_text().splitlines()
    assert lines.count("init v5 4 1") == 4
    assert lines.count("end") == 4
    # A rank asks per size: warm-up 2, then per half 1 to warm up, 5 timed, 1 to check.
    for size in (1024, 2048, 4096):
        assert lines.count(f"ask 4 {size} 7x3") == 4 * (2 + 2 * (1 + 5 + 1))


@pytest.mark.parametrize("release", ["2.26.6", "2.28.3"])
def test_exact_zero_is_not_needed_to_win_but_only_it_skips_the_protocol_step(
    sim: Sim, small: Small, release: str
) -> None:
    """PR #1985: why the plugin writes exactly 0.0."""
    node = small(rccl=release, ranks=8)
    answer = {"NCCL_TUNER_PLUGIN": sim.plugin(), "TESTPLUGIN_ANSWER": "ring/simple"}

    def run(**env: str) -> Ended:
        arguments = "-b 8K -e 8K -A 1"
        return sim.run(node, arguments, collective="reduce_scatter", **answer, **env)

    exact, nearly = run().settings[8192], run(TESTPLUGIN_COST="0.001").settings[8192]
    assert exact.startswith("ring/simple")
    # 2.28.3 forces LL for small ReduceScatter unless the cell is exactly 0.0 (PR #1985).
    assert nearly.startswith("ring/ll" if release == "2.28.3" else "ring/simple")
    assert (
        run(TESTPLUGIN_COST="0.001", NCCL_PROTO="SIMPLE").settings[8192].startswith("ring/simple")
    )


def test_multi_node_protocol_is_overwritten_where_exact_zero_is_unknown(
    sim: Sim, small: Small
) -> None:
    """ROCm 7.0 and 7.1 on several nodes (facts 5.3)."""
    env = {"TESTPLUGIN_ANSWER": "tree/simple", **TUNING}
    old = sim.run(
        small(rccl="2.26.6", ranks=8, nodes=2),
        "-b 64K -e 64K",
        NCCL_TUNER_PLUGIN=sim.plugin(),
        **env,
    )
    new = sim.run(
        small(rccl="2.28.3", ranks=8, nodes=2),
        "-b 64K -e 64K",
        NCCL_TUNER_PLUGIN=sim.plugin(),
        **env,
    )
    assert ran(new) == {65536: "tree/simple"}
    # 2.26.6 uses tuning model 0 here, which has no ranges; model 5 overwrites.
    assert ran(old) == {65536: "tree/simple"}
    text = (
        small(rccl="2.26.6", ranks=8, nodes=2)
        .read_text()
        .replace("channels: 32", "tuning_model: 5\n  channels: 32", 1)
    )
    path = small()
    path.write_text(text)
    forced = sim.run(path, "-b 64K -e 64K", NCCL_TUNER_PLUGIN=sim.plugin(), **env)
    assert ran(forced) == {65536: "tree/ll"}


# Trees of torchcomms, comms/rcclx/develop/src: 9e93d281 is of July 2025 (ROCm 7.0 to be), 76271ffa of
# October 31 and 97cad7d4 of November 13 (both 2.27.7, the second guarded), 59426ba4 is 2.28.3.
OLD_BUILD = "  overwrites: true\n"
MODEL_5 = "  tuning_model: 5\n"


@pytest.mark.parametrize(
    ("release", "arch", "library", "name", "scale", "nbytes", "answer", "expected"),
    [
        # rccl_wrap.cc:52 of 76271ffa, called at enqueue.cc:2138 whoever answered.
        ("2.27.7", "gfx942", OLD_BUILD, "reduce_scatter", (1, 8), 2816 << 10, "ring/simple", "ring/simple"),
        ("2.27.7", "gfx942", OLD_BUILD, "reduce_scatter", (1, 8), 2751 << 10, "ring/simple", "ring/ll"),
        # enqueue.cc:2139 and 2158 of 97cad7d4; so does ROCm 7.2.4.
        ("2.27.7", "gfx942", "", "reduce_scatter", (1, 8), 2751 << 10, "ring/simple", "ring/simple"),
        # rccl_wrap.cc:46 and 49 of 76271ffa.
        ("2.27.7", "gfx950", OLD_BUILD, "all_gather", (1, 8), 691 << 10, "ring/simple", "ring/ll"),
        ("2.27.7", "gfx950", OLD_BUILD, "all_gather", (1, 8), 692 << 10, "ring/simple", "ring/simple"),
        ("2.27.7", "gfx950", OLD_BUILD, "reduce_scatter", (1, 8), 1371 << 10, "ring/simple", "ring/ll"),
        ("2.27.7", "gfx950", OLD_BUILD, "reduce_scatter", (1, 8), 1372 << 10, "ring/simple", "ring/simple"),
        ("2.27.7", "gfx942", OLD_BUILD, "all_gather", (1, 8), 64 << 10, "ring/simple", "ring/simple"),
        # enqueue.cc:2184 and 2203 of 59426ba4: no build any more.
        ("2.28.3", "gfx942", OLD_BUILD, "reduce_scatter", (1, 8), 64 << 10, "ring/simple", "ring/simple"),
        # rccl_wrap.cc:36 of 9e93d281: three collectives; :55 of 76271ffa: five.
        ("2.26.6", "gfx942", MODEL_5, "reduce_scatter", (2, 8), 64 << 10, "ring/simple", "ring/ll"),
        ("2.26.6", "gfx942", MODEL_5, "broadcast", (2, 8), 1 << 10, "ring/simple", "ring/simple"),
        ("2.27.7", "gfx942", MODEL_5 + OLD_BUILD, "broadcast", (2, 8), 1 << 10, "ring/simple", "ring/ll"),
        ("2.27.7", "gfx942", MODEL_5, "broadcast", (2, 8), 1 << 10, "ring/simple", "ring/simple"),
    ],
)  # fmt: skip
def test_builds_write_over_a_tuners_answer_as_their_source_does(
    sim: Sim,
    small: Small,
    release: str,
    arch: str,
    library: str,
    name: str,
    scale: tuple[int, int],
    nbytes: int,
    answer: str,
    expected: str,
) -> None:
    """By release, build, architecture, collective, nodes and bytes a rank."""
    nodes, ranks = scale
    node = small(
        curves_of(name), rccl=release, arch=arch, library=library, ranks=ranks, nodes=nodes
    )
    got = sim.run(
        node,
        f"-b {nbytes} -e {nbytes} -A 1",
        collective=name,
        NCCL_TUNER_PLUGIN=sim.plugin(),
        TESTPLUGIN_ANSWER=answer,
    )
    assert got.settings[nbytes].startswith(expected)


def curves_of(name: str) -> str:
    """Times of a collective's rings."""
    return "".join(
        f"  - {{collective: {name}, setting: ring/{one}, kind: measured, source: a test, "
        "points: [[8, 20], [1048576, 300]]}\n"
        for one in ("ll", "simple")
    )


@pytest.mark.parametrize(
    ("arch", "nbytes", "expected"),
    [
        # enqueue.cc:2366 of 59426ba4: 64 B to 256 KiB, in the branch without a tuner.
        ("gfx950", 262144, "tree/ll"),
        ("gfx950", 64, "tree/ll"),
        ("gfx950", 32, ""),
        ("gfx950", 524288, ""),
        ("gfx942", 262144, ""),
    ],
)
def test_loading_a_tuner_takes_tree_ll_from_gfx950(
    sim: Sim, small: Small, arch: str, nbytes: int, expected: str
) -> None:
    """Of all_reduce on one node, whatever the model says; with a tuner, idle too, the model chooses."""
    node = small(arch=arch)
    plain = sim.run(node, f"-b {nbytes} -e {nbytes} -A 1").settings[nbytes]
    idle = sim.run(node, f"-b {nbytes} -e {nbytes} -A 1", NCCL_TUNER_PLUGIN=sim.plugin()).settings[
        nbytes
    ]
    forced = sim.run(node, f"-b {nbytes} -e {nbytes} -A 1", NCCL_ALGO="Ring").settings[nbytes]
    assert plain.startswith(expected or idle)
    assert idle.startswith("ring")
    assert forced.startswith("ring")


def test_tree_simple_is_not_there_on_one_node(sim: Sim, small: Small) -> None:
    """Neither by environment nor by a well-behaved plugin; a patched library has it."""
    node = small()
    forced = sim.run(node, "-b 1K -e 1K -A 1", NCCL_ALGO="Tree", NCCL_PROTO="Simple")
    assert forced.settings[1024].startswith("ring/simple")
    polite = sim.run(
        node, "-b 1K -e 1K -A 1", NCCL_TUNER_PLUGIN=sim.plugin(), TESTPLUGIN_ANSWER="tree/simple"
    )
    assert polite.settings[1024].startswith("ring/ll")
    rude = sim.run(
        node,
        "-b 1K -e 1K -A 1",
        NCCL_TUNER_PLUGIN=sim.plugin(),
        TESTPLUGIN_ANSWER="tree/simple",
        TESTPLUGIN_CHECK="0",
    )
    # The code looks at the table alone: a plugin that does not check revives the cell (facts 5.3).
    assert rude.settings[1024].startswith("tree/simple")
    stock = sim.run(
        node, "-b 1K -e 1K -A 1", NCCL_ALGO="Tree", NCCL_PROTO="Simple", RCCL_FORCE_TREE_SIMPLE="1"
    )
    assert stock.settings[1024].startswith("ring/simple")
    patched = sim.run(
        node,
        "-b 1K -e 1K -A 1",
        NCCL_ALGO="Tree",
        NCCL_PROTO="Simple",
        RCCL_FORCE_TREE_SIMPLE="1",
        RCCLTUNE_SIM_PATCHES="force-tree-simple",
    )
    assert patched.settings[1024].startswith("tree/simple")
    assert patched.times[1024] == pytest.approx(90, rel=0.01)


def test_ll128_needs_its_variable_and_nccl_proto_does_not_open_it(sim: Sim, small: Small) -> None:
    """The gate comes after NCCL_PROTO and before the tuner."""
    node = small()
    for env, expected in (
        ({"NCCL_PROTO": "LL128"}, "ring/simple"),
        ({"NCCL_PROTO": "LL128", "RCCL_LL128_FORCE_ENABLE": "1"}, "ring/ll128"),
        ({"RCCL_LL128_FORCE_ENABLE": "1"}, "ring/ll"),  # the stock model never prefers it
        ({"NCCL_TUNER_PLUGIN": sim.plugin(), "TESTPLUGIN_ANSWER": "tree/ll128"}, "ring/ll"),
        (
            {
                "NCCL_TUNER_PLUGIN": sim.plugin(),
                "TESTPLUGIN_ANSWER": "tree/ll128",
                "RCCL_LL128_FORCE_ENABLE": "1",
            },
            "tree/ll128",
        ),
    ):
        assert sim.run(node, "-b 1K -e 1K -A 1", **env).settings[1024].startswith(expected), env


def test_v2_host_takes_an_answer_unchecked(sim: Sim, small: Small) -> None:
    """RCCL 2.21.5 uses what a plugin says as it is."""
    node = small(rccl="2.21.5", benchmark="rt24")
    got = sim.run(
        node,
        "-b 1K -e 1K",
        NCCL_TUNER_PLUGIN=sim.plugin("2"),
        TESTPLUGIN_ANSWER="tree/simple",
        NCCL_ALGO="Ring",
    )
    assert got.times[1024] == pytest.approx(90, rel=0.01)
    # A newer host makes an edit of it, and only where the cell can be chosen.
    newer = sim.run(
        small(),
        "-b 1K -e 1K -A 1",
        NCCL_TUNER_PLUGIN=sim.plugin("2"),
        TESTPLUGIN_ANSWER="tree/simple",
    )
    assert newer.settings[1024].startswith("ring/ll")


def test_channels(sim: Sim, small: Small) -> None:
    """A tuner's answer is an upper bound; what the communicator has is fixed at start."""
    node = small(
        "effects: [{by_channels: {8: [[1024, 2.0]], 16: [[1024, 1.5]], 32: [[1024, 1.0]], 38: [[1024, 0.9]]}}]\n"
    )
    big = "-b 1M -e 1M -A 1"
    plain = sim.run(node, big)
    assert plain.settings[2**20] == "ring/simple/32"
    assert plain.times[2**20] == pytest.approx(100, rel=0.01)
    eight = sim.run(node, big, NCCL_TUNER_PLUGIN=sim.plugin(), TESTPLUGIN_ANSWER="ring/simple/8")
    assert eight.settings[2**20] == "ring/simple/8"
    assert eight.times[2**20] == pytest.approx(200, rel=0.01)
    # A tuner cannot go above what the communicator has, only the variable at start can.
    more = sim.run(node, big, NCCL_TUNER_PLUGIN=sim.plugin(), TESTPLUGIN_ANSWER="ring/simple/64")
    assert more.settings[2**20] == "ring/simple/32"
    raised = sim.run(node, big, NCCL_MIN_NCHANNELS="38")
    assert raised.settings[2**20] == "ring/simple/38"
    assert raised.times[2**20] == pytest.approx(90, rel=0.01)
    # 112 is above a CPX device's 38 and is dropped with a warning.
    dropped = sim.run(node, big, NCCL_MIN_NCHANNELS="112", NCCL_DEBUG="WARN", **LOG)
    assert dropped.settings[2**20] == "ring/simple/32"
    assert lacks(dropped.err, "NCCL_MIN_NCHANNELS", "112 is") == []
    lowered = sim.run(node, big, NCCL_MAX_CTAS="16")
    assert lowered.times[2**20] == pytest.approx(150, rel=0.01)


def test_direct_all_gather_bypasses_the_tuner(sim: Sim, tmp_path: Path) -> None:
    """Up to 4 MiB on a multiple of eight ranks, since 2.28."""
    plugin = {"NCCL_TUNER_PLUGIN": sim.plugin(), "TESTPLUGIN_LOG": str(tmp_path / "log")}

    def run(**env: str) -> Ended:
        arguments = "-b 4M -e 8M -f 2 -A 1"
        return sim.run("mi300x-cpx-nps4", arguments, collective="all_gather", **env)

    got = run(**plugin)
    assert got.settings[2**22].startswith("direct/")
    assert got.settings[2**23].startswith("ring/ll")
    assert f"ask 2 {2**23} 7x3" in (tmp_path / "log").read_text()
    off = run(RCCL_DIRECT_ALLGATHER_DISABLE="1").settings[2**22]
    assert off.startswith("ring/")
    assert run(RCCL_DIRECT_ALLGATHER_THRESHOLD="-1").settings[2**22].startswith("ring/")
    assert run(RCCLTUNE_SIM_RELEASE="2.27.7").settings[2**22].startswith("ring/")
