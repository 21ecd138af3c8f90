"""Nodes for whole implementations: each path runs where its library takes it, and nowhere else.

Which sizes, types and operations a path takes is stated here by hand, from the sources named in the
node files; their conditions and times are the node files' own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulation import Sim
from true_times import truth, variants_holding
from variant_truth import ONE_OAM, Manner, Ran, untouched

from rccltune.simulate.node import SimulatedNode
from rccltune.simulate.sources import load_node, node_path, shipped_nodes

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
        (OAM, "all_reduce", Manner(ranks=4, devices="0,1,2,3").with_env(NCCL_MIN_NCHANNELS="32")),
        (MSCCL, "all_reduce", WHOLE),
        (MSCCL, "all_reduce", Manner(ranks=1, options="-t 8")),
        (DDA, "reduce_scatter", WHOLE),
        (RCCLX, "all_reduce", WHOLE.with_env(RCCL_LOW_PRECISION_ENABLE="1")),
        (DIRECT, "all_gather", WHOLE),
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


# --- direct all_gather, channels, kernels, processes -----------------------------------------


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


@pytest.mark.parametrize("name", shipped_nodes())
def test_no_node_names_nvls(name: str) -> None:
    """Nothing here may set it."""
    assert "nvls" not in node_path(name).read_text(encoding="utf-8").lower()
