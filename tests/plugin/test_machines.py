"""Both generators write the same machines, and the plugin picks the right file on each."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import Machine, all_machines

from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import Collective
from rccltune.rules.plugin_library import PluginLibrary

TABLE = [[5.0] * 3] * 7
MACHINES = all_machines()


def by_name(name: str) -> Machine:
    """One machine."""
    return next(m for m in MACHINES if m.name == name)


@pytest.mark.parametrize(
    ("machine", "file"),
    [
        ("mi300x-spx-nps1", "gfx942_spx-nps1"),
        ("mi300x-dpx-nps2", "gfx942_dpx-nps2"),
        ("mi300x-cpx-63-of-64", "gfx942_cpx-nps4"),
        ("mi355x-spx-nps1", "gfx950_spx-nps1"),
        ("mi250x", "gfx90a_none"),
    ],
)
def test_the_file_of_the_mode(machine: str, file: str, host: PluginLibrary, tmp_path: Path) -> None:
    """RCCLTUNE_CONFIG_DIR gives the rules of the machine's own arch and mode, and no others."""
    by_name(machine).write(tmp_path / "root")
    rules = tmp_path / "rules"
    rules.mkdir()
    for name, channels in ((file, 11), ("gfx942_qpx-nps1", 22)):
        row = f"allreduce,0,100,ring,ll,{channels},-1,-1,-1,-1\n"
        (rules / f"rccl_tuner_{name}.csv").write_text(row, encoding="ascii")
    env = {"RCCLTUNE_CONFIG_DIR": str(rules), "RCCLTUNE_SYSROOT": str(tmp_path / "root")}
    with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
        assert communicator.ask(Collective.ALL_REDUCE, 50, TABLE).channels == 11


@pytest.mark.parametrize("machine", ["mi300x-mixed", "container-no-gpu", "no-sysfs"])
def test_not_knowing_stops_the_rank(machine: str, host: PluginLibrary, tmp_path: Path) -> None:
    """Where the mode is not known, init fails and names RCCLTUNE_MODE; it never goes on inert."""
    by_name(machine).write(tmp_path / "root")
    (tmp_path / "root").mkdir(exist_ok=True)
    env = {"RCCLTUNE_CONFIG_DIR": str(tmp_path), "RCCLTUNE_SYSROOT": str(tmp_path / "root")}
    with pytest.raises(MachineError, match="RCCLTUNE_MODE"):
        host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env)
