"""The simulation built once a test run, node files compiled, and a way to start a benchmark.

RCCLTUNE_TEST_SIM names a build directory of native_plugin/sim to use instead of building one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from builds import built
from simulation import Sim, Small

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Sim:
    """The built simulation."""
    given = os.environ.get("RCCLTUNE_TEST_SIM")
    scratch = tmp_path_factory.mktemp("nodes")
    source = ROOT / "native_plugin/sim"
    if given:
        folder = Path(given)
    else:
        plugins = [f"sim_testplugin_v{one}" for one in ("none", *"23456", "23456")]
        # Compiled as fast as can be: what it does is the same.
        options = ["-DCMAKE_BUILD_TYPE=Debug"]
        folder = built(tmp_path_factory, "sim-build", source, options, "rccltune_sim", *plugins)
    mpirun = Path(sys.executable).parent / "mpirun"
    return Sim(folder=folder, scratch=scratch, mpirun=mpirun if mpirun.exists() else None)


SMALL = """
format: 1
name: small
hardware: {{product: AMD Instinct MI300X, arch: {arch}, mode: cpx-nps4, compute_units: 38, memory_gib: 24}}
scale: {{ranks: {ranks}, nodes: {nodes}, devices_per_oam: 8}}
release: {{rccl: {rccl}, benchmark: {benchmark}}}
library:
  channels: 32
  channel_ceiling: 38
  bypasses: {bypasses}
{library}  graph: {{ring: {{channels: 16, bw_intra: 3.0, bw_inter: 3.0}}, tree: {{channels: 16, bw_intra: 3.0, bw_inter: 3.0}}}}
fill: [{{ranks: {ranks}, placement: node}}]
curves:
  - {{collective: all_reduce, setting: tree/ll, kind: measured, source: a test, points: [[8, 20], [1048576, 300]]}}
  - {{collective: all_reduce, setting: ring/ll, kind: measured, source: a test, points: [[8, 30], [1048576, 200]]}}
  - {{collective: all_reduce, setting: ring/simple, kind: measured, source: a test, points: [[8, 60], [65536, 70], [1048576, 100]]}}
  - {{collective: all_reduce, setting: tree/simple, kind: measured, source: a test, points: [[8, 90], [1048576, 90]]}}
  - {{collective: all_reduce, setting: tree/ll128, kind: measured, source: a test, points: [[8, 25], [1048576, 150]]}}
  - {{collective: all_reduce, setting: ring/ll128, kind: measured, source: a test, points: [[8, 35], [1048576, 160]]}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """Writes a node file without noise: keywords change its head, ``more`` is appended."""

    def write(
        more: str = "",
        *,
        ranks: int = 4,
        nodes: int = 1,
        rccl: str = "2.28.3",
        benchmark: str = "rtnew",
        bypasses: bool = False,
        arch: str = "gfx942",
        library: str = "",
    ) -> Path:
        text = SMALL.format(
            ranks=ranks,
            nodes=nodes,
            rccl=rccl,
            benchmark=benchmark,
            bypasses=str(bypasses).lower(),
            arch=arch,
            library=library,
        )
        path = tmp_path / f"node{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(text + more)
        return path

    return write
