"""Nodes for whole implementations: each path runs where its library takes it, and nowhere else.

Which sizes, types and operations a path takes is stated here by hand, from the sources named in the
node files; their conditions and times are the node files' own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulation import Ended, Sim
from variant_truth import ONE_OAM, ONE_PER_OAM, Manner, Ran, best_of, crossover, untouched

from rccltune.simulate.node import SimulatedNode
from rccltune.simulate.sources import load_node, node_path, shipped_nodes
from rccltune.simulate.true_times import truth, variants_holding

KIB, MIB, GIB = 2**10, 2**20, 2**30
OAM = node_path("mi300x-oam", "cpx-nps4")
MSCCL = node_path("mi300x-msccl", "spx-nps1")
DDA = node_path("mi300x-dda", "spx-nps1")
RCCLX = node_path("mi300x-rcclx", "spx-nps1")
DIRECT = node_path("mi300x-direct", "cpx-nps4")

GRAPH = ONE_OAM.asked("-G 2")
ALL_OF_IT = {"RCCL_MSCCLPP_THRESHOLD": str(GIB)}
# AMD's RCCL usage tips, command for one OAM.
TIPS = ALL_OF_IT | {"HIP_FORCE_DEV_KERNARG": "1", "MSCCLPP_READ_ALLRED": "1"}
WHOLE = Manner()


def one(sim: Sim, node: Path, size: int, manner: Manner, collective: str = "all_reduce") -> Ran:
    """What runs of one size."""
    (ran,) = untouched(node, collective, [size], manner, folder=sim.folder / "bin").values()
    return ran


def bus_bandwidth(size: int, ran: Ran) -> float:
    """Of all_reduce, GB/s."""
    return 2 * (ran.ranks - 1) / ran.ranks * size / ran.time_us / 1000


# --- MSCCL++ -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manner", "peak"),
    [
        (ONE_OAM, 170),
        (GRAPH.with_env(**TIPS), 340),
        (ONE_OAM.asked("-R 1").with_env(**TIPS), 315),
    ],
    ids=["as it comes", "the tips' command", "registered buffers"],
)
def test_the_tips_three_peaks(sim: Sim, manner: Manner, peak: float) -> None:
    """Figures of AMD's RCCL usage tips; no other size has a higher bandwidth."""
    sizes = [32 << power for power in range(26)]
    told = untouched(OAM, "all_reduce", sizes, manner, folder=sim.folder / "bin")
    bandwidths = {size: bus_bandwidth(size, ran) for size, ran in told.items()}
    assert max(bandwidths, key=lambda size: bandwidths[size]) == GIB
    assert bandwidths[GIB] == pytest.approx(peak, abs=0.05)


def test_the_tips_command_as_it_stands(sim: Sim) -> None:
    """What the benchmark prints is the truth and noise."""
    got = sim.run(
        OAM,
        "-b 32 -e 1G -f 2 -g 1 -G 2 -w 20 -n 50",
        RCCLTUNE_SIM_RANKS="8",
        ROCR_VISIBLE_DEVICES="0,1,2,3,4,5,6,7",
        **TIPS,
    )
    last = got.rows[-1]
    assert (got.code, last.size) == (0, GIB)
    assert float(last.rest[2]) == pytest.approx(340, rel=0.05)


def test_processes_of_mpirun_decide_alike(sim: Sim, tmp_path: Path) -> None:
    """Eight processes on one OAM: one of them tells the truth, once a half."""
    told = tmp_path / "told"
    got = sim.run(
        OAM,
        "-b 1M -e 2M -f 2 -G 2",
        np=8,
        ROCR_VISIBLE_DEVICES="0,1,2,3,4,5,6,7",
        RCCLTUNE_SIM_TRUTH=str(told),
    )
    assert got.code == 0
    lines = [line.split() for line in told.read_text().splitlines()]
    assert [(line[1], line[2], line[4]) for line in lines] == [
        (str(MIB), "out", "mscclpp"),
        (str(MIB), "in", "mscclpp"),
        (str(2 * MIB), "out", "ring/simple"),
        (str(2 * MIB), "in", "ring/simple"),
    ]


@pytest.mark.parametrize(
    ("collective", "size", "options", "env", "takes"),
    [
        ("all_reduce", 32, "-G 1", {}, True),
        ("all_reduce", 32, "-G 2", {}, True),
        ("all_reduce", 32, "-R 1", {}, True),
        ("all_reduce", 32, "", {}, False),
        ("all_reduce", 32, "", {"RCCL_MSCCLPP_ENABLE": "1"}, False),
        ("all_reduce", 32, "", {"RCCL_MSCCLPP_FORCE_ENABLE": "1"}, True),
        ("all_reduce", 32, "-G 2", {"RCCL_MSCCLPP_ENABLE": "0"}, False),
        ("all_reduce", 32, "-G 2", {"RCCL_MSCCL_ENABLE": "0"}, False),
        ("all_reduce", MIB, "-G 2", {}, True),
        ("all_reduce", MIB + 32, "-G 2", {}, False),
        ("all_reduce", MIB + 32, "-G 2", {"RCCL_MSCCLPP_THRESHOLD": str(MIB + 32)}, True),
        ("all_reduce", MIB, "-G 2", {"RCCL_MSCCLPP_THRESHOLD": str(MIB - 1)}, False),
        ("all_reduce", 2 * GIB, "-G 2", {"RCCL_MSCCLPP_THRESHOLD": str(2 * GIB)}, True),
        ("all_gather", 512, "-G 2", {}, True),
        ("all_gather", MIB, "-G 2", {}, True),
        ("all_gather", 2 * MIB, "-G 2", {}, False),
        ("reduce_scatter", KIB, "-G 2", {}, False),
        ("broadcast", KIB, "-G 2", {}, False),
    ],
)
def test_where_mscclpp_is_used(
    sim: Sim, collective: str, size: int, options: str, env: dict[str, str], *, takes: bool
) -> None:
    """RCCL 2.21.5 (msccl_lifecycle.cc) and the tips, as far as sizes and switches go."""
    ran = one(sim, OAM, size, ONE_OAM.asked(options).with_env(**env), collective)
    assert (ran.what == "mscclpp") == takes


@pytest.mark.parametrize(
    "manner",
    [
        WHOLE.asked("-G 2"),
        Manner(ranks=4, devices="0,1,2,3", options="-G 2"),
        Manner(ranks=1, options="-G 2 -t 8"),
    ],
    ids=["64 ranks", "4 ranks", "threads"],
)
def test_mscclpp_wants_eight_processes(sim: Sim, manner: Manner) -> None:
    """Nothing else is in its kernels."""
    assert one(sim, OAM, KIB, manner).what.startswith("ring/")


def test_reading_changes_nothing_without_mscclpp(sim: Sim) -> None:
    """And with it only all_reduce, which it makes faster in one OAM at every size."""
    read = {"MSCCLPP_READ_ALLRED": "1"}
    for manner in (ONE_OAM, GRAPH.with_env(RCCL_MSCCLPP_ENABLE="0"), WHOLE):
        assert one(sim, OAM, KIB, manner) == one(sim, OAM, KIB, manner.with_env(**read))
    wide = GRAPH.with_env(**ALL_OF_IT)
    assert one(sim, OAM, MIB, wide, "all_gather") == one(
        sim, OAM, MIB, wide.with_env(**read), "all_gather"
    )
    for size in (32, MIB, GIB):
        plain, reading = one(sim, OAM, size, wide), one(sim, OAM, size, wide.with_env(**read))
        assert (plain.what, reading.what) == ("mscclpp", "mscclpp")
        assert reading.time_us < plain.time_us


# Where the one stops being the faster: node, collective and the sizes between; faster and slower.
STEP = 1024  # 64 ranks' shares of an all_gather are rounded down to 16 bytes
MSCCLPP_OFF = {"RCCL_MSCCLPP_ENABLE": "0"}
ACROSS = ONE_PER_OAM.asked("-G 2")
FLAT_ALWAYS = {
    "RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES": str(29 * MIB),
    "RCCL_DDA_ALL_REDUCE_TREE_MAX_BYTES": str(29 * MIB),
}
FLAT_NEVER = {"RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES": "0"}
CROSSOVERS = {
    "mscclpp all_reduce": (
        (OAM, "all_reduce", (4 * MIB, 8 * MIB)),
        (GRAPH.with_env(**ALL_OF_IT), GRAPH.with_env(**MSCCLPP_OFF)),
    ),
    "mscclpp all_gather": (
        (OAM, "all_gather", (4 * MIB, 8 * MIB)),
        (GRAPH.with_env(**ALL_OF_IT), GRAPH.with_env(**MSCCLPP_OFF)),
    ),
    "mscclpp across OAMs": (
        (OAM, "all_reduce", (MIB, 2 * MIB)),
        (ACROSS.with_env(**ALL_OF_IT), ACROSS.with_env(**MSCCLPP_OFF)),
    ),
    "reading across OAMs": (
        (OAM, "all_reduce", (2 * MIB, 4 * MIB)),
        (
            ACROSS.with_env(**ALL_OF_IT, MSCCLPP_READ_ALLRED="1"),
            ACROSS.with_env(**MSCCLPP_OFF),
        ),
    ),
    "msccl by force": (
        (OAM, "all_reduce", (2 * MIB, 4 * MIB)),
        (ONE_OAM.with_env(RCCL_MSCCL_FORCE_ENABLE="1"), ONE_OAM),
    ),
    "msccl": (
        (MSCCL, "all_reduce", (8 * MIB, 16 * MIB)),
        (WHOLE, WHOLE.with_env(RCCL_MSCCL_ENABLE="0")),
    ),
    "dda all_reduce": (
        (DDA, "all_reduce", (2 * MIB, 4 * MIB)),
        (WHOLE, WHOLE.with_env(RCCL_DDA_ENABLE="0")),
    ),
    "dda reduce_scatter": (
        (DDA, "reduce_scatter", (512 * KIB, MIB)),
        (WHOLE, WHOLE.with_env(RCCL_DDA_ENABLE="0")),
    ),
    "dda alltoall": (
        (DDA, "alltoall", (512 * KIB, MIB)),
        (WHOLE, WHOLE.with_env(RCCL_DDA_ENABLE="0")),
    ),
    "dda all_gather": (
        (DDA, "all_gather", (2 * MIB, 4 * MIB)),
        (WHOLE, WHOLE.with_env(RCCL_DDA_ENABLE="0", RCCL_DIRECT_ALLGATHER_DISABLE="1")),
    ),
    "rcclx flat": (
        (RCCLX, "all_reduce", (512 * KIB, MIB)),
        (WHOLE.with_env(**FLAT_ALWAYS), WHOLE.with_env(**FLAT_NEVER)),
    ),
    "rcclx tree": (
        (RCCLX, "all_reduce", (4 * MIB, 8 * MIB)),
        (WHOLE.with_env(**FLAT_NEVER), WHOLE.with_env(RCCL_ENABLE_DDA_ALL_REDUCE="0")),
    ),
    "direct, 64 ranks": (
        (DIRECT, "all_gather", (MIB, 2 * MIB)),
        (WHOLE, WHOLE.with_env(RCCL_DIRECT_ALLGATHER_DISABLE="1")),
    ),
    "direct, one OAM": (
        (DIRECT, "all_gather", (512 * KIB, MIB)),
        (ONE_OAM, ONE_OAM.with_env(RCCL_DIRECT_ALLGATHER_DISABLE="1")),
    ),
}


# Where the one of two stops being the faster, in bytes to the next KiB: what a threshold must come to.
AT = {
    "mscclpp all_reduce": 6_605_824,
    "mscclpp all_gather": 5_424_128,
    "mscclpp across OAMs": 1_161_216,
    "reading across OAMs": 2_992_128,
    "msccl by force": 3_555_328,
    "msccl": 13_120_512,
    "dda all_reduce": 2_675_712,
    "dda reduce_scatter": 850_944,
    "dda alltoall": 787_456,
    "dda all_gather": 2_486_272,
    "rcclx flat": 930_816,
    "rcclx tree": 5_841_920,
    "direct, 64 ranks": 1_742_848,
    "direct, one OAM": 646_144,
}


@pytest.mark.parametrize("name", CROSSOVERS)
def test_every_window_has_its_crossover_inside(sim: Sim, name: str) -> None:
    """A threshold can be found by measuring: the node file's curves cross, well away from its ends."""
    (path, collective, between), (faster, slower) = CROSSOVERS[name]
    at = crossover(path, collective, between, faster, slower, step=STEP, folder=sim.folder / "bin")
    low, high = between
    assert low * 1.05 < at < high / 1.05
    assert abs(at - AT[name]) <= STEP
    # The same of the node file's own rules, without the program.
    node = load_node(path)
    times = []
    for manner in (faster, slower):
        for size in (at, at + STEP):
            ran = one(sim, path, size, manner, collective)
            times.append(true_time(node, collective, size, manner, ran))
    assert times[0] < times[2]
    assert times[1] >= times[3]


def true_time(node: SimulatedNode, collective: str, size: int, manner: Manner, ran: Ran) -> float:
    """By Python's rules, of what the program says that it ran."""
    options = dict(zip(manner.options.split()[::2], manner.options.split()[1::2], strict=True))
    variants = variants_holding(
        node,
        manner.environment,
        graph_launches=int(options.get("-G", 0)),
        registered=options.get("-R", "0") != "0",
        threads=int(options.get("-t", 1)),
        gpus=int(options.get("-g", 1)),
    )
    time_us = truth(
        node,
        collective,
        ran.what,
        size,
        channels=ran.channels,
        ranks=ran.ranks,
        placement=ran.placement,
        variants=variants,
        dtype=ran.dtype,
    )
    assert time_us is not None
    return time_us


@pytest.mark.parametrize(
    ("path", "collective", "manner"),
    [
        (OAM, "all_reduce", GRAPH.with_env(**TIPS)),
        (OAM, "all_reduce", ONE_OAM.asked("-G 1").with_env(HIP_FORCE_DEV_KERNARG="1")),
        (OAM, "all_reduce", Manner(ranks=4, devices="0,1,2,3").with_env(NCCL_MIN_NCHANNELS="32")),
        (OAM, "all_gather", ONE_PER_OAM.asked("-G 2")),
        (MSCCL, "all_reduce", WHOLE),
        (MSCCL, "all_reduce", Manner(ranks=1, options="-t 8")),
        (MSCCL, "alltoall", Manner(ranks=1, options="-g 8")),
        (DDA, "reduce_scatter", WHOLE),
        (RCCLX, "all_reduce", WHOLE.with_env(RCCL_LOW_PRECISION_ENABLE="1")),
        (RCCLX, "all_reduce", WHOLE.asked("-d bfloat16").with_env(RCCL_LOW_PRECISION_ENABLE="1")),
        (DIRECT, "all_gather", WHOLE),
        (DIRECT, "all_reduce", WHOLE.with_env(NCCL_MIN_NCHANNELS="38")),
    ],
)
def test_program_and_python_agree(sim: Sim, path: Path, collective: str, manner: Manner) -> None:
    """On every node, under variants and placements, whatever path runs."""
    node = load_node(path)
    sizes = [2**power for power in range(12, 31, 3)]
    told = untouched(path, collective, sizes, manner, folder=sim.folder / "bin")
    assert list(told) == sizes
    for size, ran in told.items():
        assert ran.time_us == pytest.approx(
            true_time(node, collective, size, manner, ran), rel=1e-9
        )


def test_threshold_at_the_crossover_is_the_best_there_is(sim: Sim) -> None:
    """With it MSCCL++ runs where it is faster and nowhere else."""
    (path, collective, between), (faster, slower) = CROSSOVERS["mscclpp all_reduce"]
    folder = sim.folder / "bin"
    at = crossover(path, collective, between, faster, slower, folder=folder)
    limited = GRAPH.with_env(RCCL_MSCCLPP_THRESHOLD=str(at))
    sizes = [1024 << power for power in range(21)]
    best = best_of(
        path, collective, sizes, {"limited": limited, "all": faster, "none": slower}, folder=folder
    )
    assert all(speedup == 1 for _, speedup in best.values())
    assert one(sim, path, at, limited).what == "mscclpp"
    assert one(sim, path, at + 32, limited).what == "ring/simple"


# --- MSCCL -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "size", "manner", "takes"),
    [
        ("all_reduce", KIB, WHOLE, True),
        ("all_reduce", 512, WHOLE, False),  # half a chunk
        ("all_reduce", 65 * KIB, WHOLE, False),  # chunks are 2 KiB from here on
        ("all_reduce", 66 * KIB, WHOLE, True),
        ("all_reduce", 16 * MIB, WHOLE, True),
        ("all_reduce", 16 * MIB + 2 * KIB, WHOLE, False),
        ("alltoall", 43 * MIB, WHOLE, True),
        ("alltoall", 44 * MIB, WHOLE, False),
        ("all_gather", MIB, WHOLE, False),
        ("reduce_scatter", MIB, WHOLE, False),
        ("all_reduce", MIB, WHOLE.with_env(RCCL_MSCCL_ENABLE="0"), False),
        ("all_reduce", MIB, Manner(ranks=4, devices="0,1,2,3"), False),
        ("all_reduce", MIB, Manner(ranks=1, options="-t 8"), False),
        ("all_reduce", MIB, Manner(ranks=1, options="-g 8"), False),
        (
            "all_reduce",
            MIB,
            Manner(ranks=1, options="-t 8").with_env(RCCL_MSCCL_ENABLE_SINGLE_PROCESS="1"),
            True,
        ),
    ],
)
def test_where_msccl_is_used(
    sim: Sim, collective: str, size: int, manner: Manner, *, takes: bool
) -> None:
    """RCCL 2.22.3 on the node that its schedules are for."""
    assert (one(sim, MSCCL, size, manner, collective).what == "msccl") == takes


def test_msccl_on_partitions_only_by_force(sim: Sim) -> None:
    """CPX matches no Rome model; AllGather has schedules for 16 and 32 ranks alone."""
    force = {"RCCL_MSCCL_FORCE_ENABLE": "1"}
    assert one(sim, OAM, MIB, ONE_OAM).what == "ring/simple"
    assert one(sim, OAM, MIB, ONE_OAM.with_env(**force)).what == "msccl"
    assert one(sim, OAM, 32 * MIB, ONE_OAM.with_env(**force)).what == "ring/simple"
    assert one(sim, OAM, MIB, WHOLE.with_env(**force)).what == "ring/simple"
    off = ONE_OAM.with_env(**force, RCCL_MSCCL_ENABLE="0")
    assert one(sim, OAM, MIB, off).what == "ring/simple"


def test_schedules_of_ones_own(sim: Sim, tmp_path: Path) -> None:
    """MSCCL_ALGO_DIR replaces the shipped ones; the node file says what they are for."""
    own = WHOLE.with_env(MSCCL_ALGO_DIR=str(tmp_path))
    for size, takes in ((32 * KIB, False), (64 * KIB, True), (4 * MIB, True), (8 * MIB, False)):
        assert (one(sim, MSCCL, size, own).what == "msccl") == takes
    assert one(sim, MSCCL, MIB, own, "alltoall").what == "p2p"
    shipped = one(sim, MSCCL, 64 * KIB, WHOLE)
    assert one(sim, MSCCL, 64 * KIB, own).time_us == pytest.approx(0.9 * shipped.time_us)


# --- direct data access ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collective", "size", "manner", "what"),
    [
        ("all_reduce", 8 * MIB, WHOLE, "dda"),
        ("all_reduce", 8 * MIB + 16, WHOLE, "ring/simple"),
        ("all_reduce", 8, WHOLE, "ring/ll"),
        ("all_reduce", KIB, WHOLE.asked("-d int32"), "ring/ll"),
        ("all_reduce", KIB, WHOLE.asked("-d bfloat16"), "dda"),
        ("all_reduce", KIB, WHOLE.with_env(NCCL_ALGO="Ring"), "ring/ll"),
        ("all_reduce", KIB, Manner(ranks=4, devices="0,1,2,3"), "ring/ll"),
        ("all_gather", 8 * MIB, WHOLE, "dda"),
        ("all_gather", 4 * MIB, WHOLE.with_env(RCCL_DDA_ENABLE="0"), "direct"),
        ("all_gather", 8 * MIB, WHOLE.with_env(RCCL_DDA_ENABLE="0"), "ring/simple"),
        ("reduce_scatter", 8 * MIB, WHOLE, "dda"),
        ("reduce_scatter", 16 * MIB, WHOLE, "ring/simple"),
        ("alltoall", 4 * MIB, WHOLE, "dda"),
        ("alltoall", 8 * MIB, WHOLE, "p2p"),
        ("broadcast", KIB, WHOLE, "ring/ll"),
        # gfx942 has no threshold in that release.
        ("all_reduce", 8 * MIB, WHOLE.with_env(RCCL_DDA_THRESHOLD="0"), "dda"),
    ],
)
def test_where_dda_is_used(sim: Sim, collective: str, size: int, manner: Manner, what: str) -> None:
    """RCCL 2.30.4 (facts 5.4)."""
    assert one(sim, DDA, size, manner, collective).what == what


def test_dda_names_itself_and_asks_no_tuner(sim: Sim, tmp_path: Path) -> None:
    """-A says so, and a plugin hears of nothing below 8 MiB."""
    log = tmp_path / "log"
    got = sim.run(
        DDA,
        "-b 4M -e 16M -f 2 -A 1",
        NCCL_TUNER_PLUGIN=sim.plugin(),
        TESTPLUGIN_LOG=str(log),
    )
    assert got.settings[8 * MIB].startswith("dda-ipc/")
    assert got.settings[16 * MIB].startswith("ring/simple")
    calls = re.findall(r"ask 4 (\d+)", log.read_text())
    # The question of -A is asked for every row; of calls there are none but the largest's.
    assert calls.count(str(8 * MIB)) < calls.count(str(16 * MIB)) / 2


# --- RCCLX -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "manner", "what"),
    [
        (200 * KIB, WHOLE, "rcclx-dda-flat"),
        (200 * KIB + 128, WHOLE, "rcclx-dda-tree"),
        (29 * MIB, WHOLE, "rcclx-dda-tree"),
        (29 * MIB + 128, WHOLE, "ring/simple"),
        (8, WHOLE, "ring/ll"),
        (KIB, WHOLE.with_env(RCCL_ENABLE_DDA_ALL_REDUCE="0"), "ring/ll"),
        (KIB, WHOLE.with_env(RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES="512"), "rcclx-dda-tree"),
        (MIB, WHOLE.with_env(RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES=str(MIB)), "rcclx-dda-flat"),
        (MIB, WHOLE.with_env(RCCL_DDA_ALL_REDUCE_TREE_MAX_BYTES=str(MIB - 1)), "ring/simple"),
        (KIB, WHOLE.asked("-d half"), "rcclx-dda-flat"),
        (KIB, WHOLE.asked("-d int32"), "ring/ll"),
        (KIB, Manner(ranks=1, options="-t 8"), "ring/ll"),
    ],
)
def test_where_rcclx_takes_all_reduce(sim: Sim, size: int, manner: Manner, what: str) -> None:
    """Names and defaults of torchcomms at 2f44ee5d."""
    assert one(sim, RCCLX, size, manner).what == what


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "alltoall"])
def test_rcclx_has_direct_access_for_all_reduce_alone(sim: Sim, collective: str) -> None:
    """The others are in Meta's internal builds."""
    assert one(sim, RCCLX, 8 * MIB, WHOLE, collective).what in ("ring/simple", "p2p")


LOSSY = {"RCCL_LOW_PRECISION_ENABLE": "1"}


@pytest.mark.parametrize(
    ("collective", "size", "options", "env", "what"),
    [
        ("all_reduce", 16 * MIB, "", LOSSY, "low-precision"),
        ("all_reduce", 16 * MIB, "-d bfloat16", LOSSY, "low-precision"),
        ("all_reduce", 16 * MIB - 128, "", LOSSY, "rcclx-dda-tree"),
        ("all_reduce", 16 * MIB, "-d half", LOSSY, "rcclx-dda-tree"),
        ("all_reduce", 32 * MIB, "-d double", LOSSY, "ring/simple"),
        ("all_reduce", 32 * MIB, "", {"RCCL_LOW_PRECISION_ENABLE": "yes"}, "ring/simple"),
        ("all_reduce", 32 * MIB, "", {}, "ring/simple"),
        ("reduce_scatter", 16 * MIB, "", LOSSY, "low-precision"),
        ("reduce_scatter", 8 * MIB, "", LOSSY, "ring/simple"),
        ("alltoall", 16 * MIB, "", LOSSY, "low-precision"),
        ("alltoall", 8 * MIB, "", LOSSY, "p2p"),
        ("all_gather", 16 * MIB, "", LOSSY, "low-precision"),
        ("all_gather", KIB, "", {}, "direct"),
        ("broadcast", 32 * MIB, "", LOSSY, "ring/simple"),
    ],
)
def test_where_low_precision_is_used(
    sim: Sim, collective: str, size: int, options: str, env: dict[str, str], what: str
) -> None:
    """fp32 and bf16 from 16 MiB on."""
    manner = WHOLE.asked(options).with_env(**env)
    assert one(sim, RCCLX, size, manner, collective).what == what


def low_precision(sim: Sim, arguments: str, collective: str = "all_reduce") -> Ended:
    """A benchmark under it."""
    return sim.run(RCCLX, arguments, collective=collective, **LOSSY)


def test_low_precision_is_wrong_and_says_so(sim: Sim) -> None:
    """Half of the elements of all ranks, from 16 MiB on, and the run fails as rccl-tests' does."""
    got = low_precision(sim, "-b 8M -e 32M -f 2")
    assert {row.size: float(row.wrong) for row in got.rows} == {
        8 * MIB: 0,
        16 * MIB: pytest.approx(8 * 2 * MIB, rel=1e-5),
        32 * MIB: pytest.approx(8 * 4 * MIB, rel=1e-5),
    }
    assert got.code == 1
    assert re.search(r"# Out of bounds values : 32 FAILED", got.out)


@pytest.mark.parametrize(
    "arguments",
    ["-b 1M -e 8M -f 2", "-b 32M -e 32M -d half", "-b 32M -e 32M -c 0"],
)
def test_no_wrong_element_outside_of_it(sim: Sim, arguments: str) -> None:
    """Below its size, of other types, and where nobody checks."""
    got = low_precision(sim, arguments)
    assert got.code == 0
    assert all(row.wrong in ("0", "N/A") for row in got.rows)


def test_low_precision_halves_the_time(sim: Sim) -> None:
    """Of fp32 about, of bf16 less, for what is large."""
    plain = one(sim, RCCLX, GIB, WHOLE).time_us
    fp32 = one(sim, RCCLX, GIB, WHOLE.with_env(**LOSSY)).time_us
    bf16 = one(sim, RCCLX, GIB, WHOLE.with_env(**LOSSY).asked("-d bfloat16")).time_us
    assert 0.45 < fp32 / plain < 0.55
    assert fp32 < bf16 < 0.75 * plain


@pytest.mark.parametrize("node", [DDA, MSCCL])
def test_rccl_knows_nothing_of_rcclx_switches(sim: Sim, node: Path) -> None:
    """The variables do nothing, and nothing is wrong."""
    env = LOSSY | {"RCCL_ENABLE_DDA_ALL_REDUCE": "1", "RCCL_DDA_ALL_REDUCE_FLAT_MAX_BYTES": "0"}
    for size in (KIB, 32 * MIB):
        assert one(sim, node, size, WHOLE.with_env(**env)) == one(sim, node, size, WHOLE)
    assert sim.run(node, "-b 32M -e 32M", **env).code == 0


# --- direct all_gather, channels, kernels, processes -----------------------------------------


@pytest.mark.parametrize("manner", [WHOLE, ONE_OAM], ids=["64 ranks", "one OAM"])
def test_threshold_of_direct_all_gather(sim: Sim, manner: Manner) -> None:
    """It moves the limit, up as well as down."""
    threshold = "RCCL_DIRECT_ALLGATHER_THRESHOLD"
    for size, env, what in (
        (4 * MIB, {}, "direct"),
        (8 * MIB, {}, "ring/simple"),
        (MIB, {threshold: str(MIB)}, "direct"),
        (2 * MIB, {threshold: str(MIB)}, "ring/simple"),
        (8 * MIB, {threshold: str(8 * MIB)}, "direct"),
        (2 * MIB, {threshold: "-1"}, "ring/simple"),
        (2 * MIB, {"RCCL_DIRECT_ALLGATHER_DISABLE": "1"}, "ring/simple"),
    ):
        ran = one(sim, DIRECT, size, manner.with_env(**env), "all_gather")
        assert ran.what == what, (size, env)


def times(sim: Sim, node: Path, manner: Manner, *sizes: int) -> list[float]:
    """True microseconds of all_reduce."""
    told = untouched(node, "all_reduce", sizes, manner, folder=sim.folder / "bin")
    return [ran.time_us for ran in told.values()]


@pytest.mark.parametrize("manner", [WHOLE, ONE_OAM], ids=["64 ranks", "one OAM"])
def test_more_channels_gain_in_the_middle_and_lose_at_the_small_end(
    sim: Sim, manner: Manner
) -> None:
    """And are worth nothing for the largest."""
    sizes = 4 * KIB, 4 * MIB, 64 * MIB, GIB
    before = times(sim, DIRECT, manner, *sizes)
    after = times(sim, DIRECT, manner.with_env(NCCL_MIN_NCHANNELS="32"), *sizes)
    small, middle, large, largest = (new / old for new, old in zip(after, before, strict=True))
    assert small == pytest.approx(1.1)
    assert max(middle, large) < 0.85
    assert largest == pytest.approx(1)


def test_more_channels_than_compute_units_are_dropped_with_a_warning(sim: Sim) -> None:
    """38 count; 39 and 112 leave what there is (connect.cc)."""
    log = {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/dev/stderr"}
    for wanted, runs in ((32, 32), (38, 38), (39, 16), (112, 16)):
        got = sim.run(DIRECT, "-b 64M -e 64M -A 1", NCCL_MIN_NCHANNELS=str(wanted), **log)
        assert got.settings[64 * MIB] == f"ring/simple/{runs}"
        assert ("above the limit of 38 channels; using 2" in got.err) == (wanted > 38)


@pytest.mark.parametrize(
    ("ranks", "devices", "gains"),
    [
        (2, "0,1", True),
        (2, "0,2", True),
        (4, "0,1,2,3", True),
        (2, "0,8", False),
        (4, "0,8,16,24", False),
        (8, "0,1,2,3,4,5,6,7", False),
    ],
)
def test_channels_for_fewer_than_eight(sim: Sim, ranks: int, devices: str, *, gains: bool) -> None:
    """The documents' NCCL_MIN_NCHANNELS=32 pays where it is measured to, not wherever ranks are few."""
    manner = Manner(ranks=ranks, devices=devices)
    sizes = [KIB << power for power in range(21)]
    before = times(sim, OAM, manner, *sizes)
    after = times(sim, OAM, manner.with_env(NCCL_MIN_NCHANNELS="32"), *sizes)
    assert (min(b / a for a, b in zip(before, after, strict=True)) < 0.95) == gains


def test_msccl_node_has_the_librarys_own_channels_for_few(sim: Sim) -> None:
    """24 for four MI300X and 32 for two: 32 is new to four only."""
    thirty_two = {"NCCL_MIN_NCHANNELS": "32"}
    four, two = Manner(ranks=4, devices="0,1,2,3"), Manner(ranks=2, devices="0,1")
    assert one(sim, MSCCL, 64 * MIB, four).channels == 24
    assert one(sim, MSCCL, 64 * MIB, two).channels == 32
    assert times(sim, MSCCL, two, MIB) == times(sim, MSCCL, two.with_env(**thirty_two), MIB)
    (before,), (after,) = (
        times(sim, MSCCL, manner, 64 * MIB) for manner in (four, four.with_env(**thirty_two))
    )
    assert after < 0.95 * before


@pytest.mark.parametrize("manner", [ONE_OAM, WHOLE, GRAPH], ids=["one OAM", "64 ranks", "graph"])
def test_kernel_arguments_in_device_memory_save_microseconds(sim: Sim, manner: Manner) -> None:
    """At small sizes, and nothing where bandwidth rules."""
    kernarg = manner.with_env(HIP_FORCE_DEV_KERNARG="1")
    (small, large), (quick, same) = (
        times(sim, OAM, each, KIB, 64 * MIB) for each in (manner, kernarg)
    )
    assert small * 0.85 < quick < small - 0.5
    assert same == large


def test_graphs_save_at_small_sizes_and_the_second_launch_more(sim: Sim) -> None:
    """-G 1 against none, -G 2 against -G 1; RCCL's own kernels."""
    plain, first, second = (
        times(sim, OAM, ONE_OAM.asked(options).with_env(**MSCCLPP_OFF), KIB, 64 * MIB)
        for options in ("", "-G 1", "-G 2")
    )
    assert second[0] < first[0] < plain[0]
    assert second[1] == first[1] == plain[1]


def test_processes_beat_threads_and_threads_beat_one_thread(sim: Sim) -> None:
    """AMD's article on xGMI, at the same setting."""
    off = {"RCCL_MSCCL_ENABLE": "0"}
    processes, threads, gpus = (
        times(sim, MSCCL, manner.with_env(**off), KIB, 64 * MIB)
        for manner in (WHOLE, Manner(ranks=1, options="-t 8"), Manner(ranks=1, options="-g 8"))
    )
    assert processes[0] < threads[0] < gpus[0]
    assert processes[1] < threads[1] < gpus[1] < 1.1 * processes[1]


@pytest.mark.parametrize(
    ("split", "placement"), [("DIV 8", "one-oam"), ("MOD 8", "one-per-oam"), ("", "node")]
)
def test_sub_groups_are_placements(sim: Sim, split: str, placement: str) -> None:
    """NCCL_TESTS_SPLIT makes eight groups of eight out of 64."""
    env = {"NCCL_TESTS_SPLIT": split} if split else {}
    ran = one(sim, OAM, KIB, WHOLE.with_env(**env))
    assert (ran.placement, ran.ranks) == (placement, 8 if split else 64)


# --- what the files say ------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_nodes())
def test_what_is_measured_has_a_source(name: str) -> None:
    """Only figures that an article gives are marked so; of the tips the three peaks alone."""
    node = load_node(node_path(name))
    measured = [curve for curve in node.curves if curve.measured]
    assert all(re.search("AMD", curve.source) for curve in measured)
    tips = [curve.measured for curve in measured if "usage tips" in curve.source]
    assert tips == [(GIB, GIB)] * len(tips)
    if node_path(name) == OAM:
        assert len(tips) == 3
    if node_path(name) in (DDA, RCCLX, DIRECT):
        assert not measured


def test_one_node_is_of_another_library() -> None:
    """Whose release alone does not tell which variants it has."""
    libraries = {name: load_node(node_path(name)).library for name in shipped_nodes()}
    assert {name for name, library in libraries.items() if library != "rccl"} == {RCCLX.stem}


@pytest.mark.parametrize("name", shipped_nodes())
def test_no_node_names_nvls(name: str) -> None:
    """Nothing here may set it."""
    assert "nvls" not in node_path(name).read_text(encoding="utf-8").lower()
