"""Rules reach no further than their proof, and what is emitted works; asked of shell and plugin."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import made
import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.units import MAX_NBYTES
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.rules import decision
from rccltune.rules.plugin_library import PluginLibrary

pytestmark = pytest.mark.usefixtures("stand_ins", "here")
KIB, MIB = 1024, 1 << 20
SESSION = Path("rccltune-session")
OWN = SESSION / made.RULES
# Every cell that RCCL offers all_reduce on one node, LL128 forced.
CELLS = {
    (a, p)
    for a in (Algorithm.TREE, Algorithm.RING)
    for p in Protocol
    if (a, p) != (Algorithm.TREE, Protocol.SIMPLE)
}


def answered(environment: dict[str, str], n_ranks: int, nbytes: int) -> str | None:
    """What the real plugin makes a communicator of one node run, None where it is silent."""
    host = PluginLibrary(Path(environment.get("NCCL_TUNER_PLUGIN", plugin.library())))
    env = {**environment, "RCCLTUNE_MODE": "spx-nps1"}
    table = decision.cost_table(CELLS)
    with host.communicator(abi=4, n_nodes=1, n_ranks=n_ranks, env=env) as communicator:
        found = decision.find_decisions(communicator, Collective.ALL_REDUCE, table, {nbytes})
    one = next(d for d in found if d.min_nbytes <= nbytes <= d.max_nbytes)
    return None if one.setting is None else str(one.setting)


def sourced(path: Path) -> dict[str, str]:
    """What a plain shell exports after sourcing a file, beside what it had."""
    shell = shutil.which("dash") or "/bin/sh"
    text = f". {shlex.quote(str(path.resolve()))} && env -0"
    done = subprocess.run(
        [shell, "-c", text], check=True, capture_output=True, env={"PATH": os.environ["PATH"]}
    )
    pairs = (line.partition("=") for line in done.stdout.decode().split("\0") if line)
    return {name: value for name, _, value in pairs if name.startswith(("NCCL", "RCCL"))}


@pytest.mark.usefixtures("swept")
def test_what_is_printed_to_use_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    """The plugin is among it: without it NCCL, and RCCL before ROCm 7.13, read no rule."""
    assert run(["emit-config"]) == 0
    exports = OWN.with_suffix(".env")
    assert lacks(capsys.readouterr().out.rstrip(), f"source {exports.resolve()}", "source") == []
    environment = sourced(exports)
    assert environment == {
        "NCCL_TUNER_CONFIG_FILE": str(OWN.resolve()),
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
    }
    assert answered(environment, 2, 64 * KIB) == "ring/simple"
    for nbytes in (0, 64 * KIB - 1, MIB + 1, MAX_NBYTES):
        assert answered(environment, 2, nbytes) is None


@pytest.mark.usefixtures("swept")
def test_needs_go_with_the_last_rule_that_has_them(here: Path) -> None:
    """No rule, and the file of exports still set RCCL_LL128_FORCE_ENABLE=1."""
    rule = "allreduce,524288,1048576,ring,ll128,-1,1,2,-1,-1\n"
    OWN.write_text(f"#@ needs RCCL_LL128_FORCE_ENABLE=1\n{rule}", encoding="utf-8")
    exports = OWN.with_suffix(".env")
    exports.write_text(
        "export RCCL_LL128_FORCE_ENABLE=1\n"
        f"export NCCL_TUNER_CONFIG_FILE={OWN.resolve()}\n"
        f"export NCCL_TUNER_PLUGIN={plugin.library()}\n",
        encoding="utf-8",
    )
    # ring/ll128 takes 95 us at 1 MiB, and the library's own ring/simple 60.
    assert run(["verify", "-q"]) == 0
    assert made.rows(OWN) == []
    assert "#@ needs" not in OWN.read_text(encoding="utf-8")
    assert sourced(exports) == {}
    assert here == Path.cwd()


@pytest.mark.usefixtures("swept")
def test_bounds_are_inclusive_and_rounded_alike(capsys: pytest.CaptureFixture[str]) -> None:
    """1 KiB to 1722 B in one place and to 1.68 KiB in another; --json has the bytes."""
    OWN.write_text(
        "allreduce,1024,1722,tree,ll,-1,1,8,-1,-1\nallreduce,1723,1048575,ring,ll,-1,1,8,-1,-1\n",
        encoding="utf-8",
    )
    capsys.readouterr()
    assert run(["explain", str(OWN)]) == 0
    cells = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["1", "KiB", "1.68", "KiB", "tree/ll"] in [line[:5] for line in cells]
    assert ["1.68", "KiB", "1", "MiB", "ring/ll"] in [line[:5] for line in cells]
    assert run(["explain", str(OWN), "--json"]) == 0
    [part] = json.loads(capsys.readouterr().out)["parts"]
    bounds = [(s["min_nbytes"], s["max_nbytes"]) for s in part["ranges"]]
    assert bounds[1:3] == [(1024, 1722), (1723, 1048575)]
