"""The library itself: what it exports and needs, and what it does with files found in the wild."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rccltune.model.errors import InputFileError, MachineError
from rccltune.model.vocabulary import Collective
from rccltune.rules.plugin_library import ABI_VERSIONS, PluginLibrary

TABLE = [[5.0, 6.0, 7.0]] * 7
OLDEST_GLIBC = (2, 17)  # RHEL 7 and manylinux2014; every system that ROCm supports is newer


def _objdump(plugin: Path, *options: str) -> str:
    if shutil.which("objdump") is None:
        pytest.skip("objdump is not here")
    command = ["objdump", *options, str(plugin)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_exports_six_objects_four_functions_and_nothing_else(plugin_path: Path) -> None:
    """A host finds any version of the tuner, a program what it says; nothing else can collide."""
    lines = _objdump(plugin_path, "-T").splitlines()
    exported = {line.split()[-1] for line in lines if " g " in line and "*UND*" not in line}
    objects = {f"ncclTunerPlugin_v{abi}" for abi in ABI_VERSIONS}
    names = ("answer", "asked", "questions", "cost")
    functions = {f"rccltune_{name}_v1" for name in names}
    assert exported == objects | functions


def test_needs_libc_alone_and_an_old_one(plugin_path: Path) -> None:
    """Loads on every system that ROCm supports, and pulls nothing in."""
    private = _objdump(plugin_path, "-p")
    assert re.findall(r"NEEDED\s+(\S+)", private) == ["libc.so.6"]
    versions = re.findall(r"GLIBC_([0-9.]+)", private)
    assert versions
    assert all(tuple(map(int, v.split("."))) <= OLDEST_GLIBC for v in versions)
    assert "GLIBC_ABI" not in private


def test_a_host_says_what_it_cannot_load(tmp_path: Path, host: PluginLibrary) -> None:
    """A missing file, a library that is no tuner and an unknown version are told apart."""
    with pytest.raises(MachineError, match="loaded"):
        PluginLibrary(tmp_path / "missing.so")
    with pytest.raises(MachineError, match="no tuner"):
        PluginLibrary(Path("libc.so.6"))
    with pytest.raises(MachineError, match="no version 1"):
        host.name(1)


@pytest.mark.parametrize("abi", ABI_VERSIONS)
def test_refusals_carry_the_reason(abi: int, host: PluginLibrary, tmp_path: Path) -> None:
    """A refused file names the line; and what the plugin says goes to the caller, not to stderr."""
    rules = tmp_path / "rules.csv"
    rules.write_text("allreduce,0,9,bush,ll,-1,-1,-1\n", encoding="ascii")
    env = {"NCCL_TUNER_CONFIG_FILE": str(rules)}
    with pytest.raises(InputFileError, match="algorithm"):
        host.communicator(abi=abi, n_nodes=1, n_ranks=8, env=env)


def test_decisions_say_what_the_table_held(host: PluginLibrary, tmp_path: Path) -> None:
    """One line for each collective and size: the answer, the host's choice, all it offered."""
    rules = tmp_path / "rules.csv"
    rules.write_text("allreduce,0,100,ring,simple,16,-1,-1\n", encoding="ascii")
    env = {
        "NCCL_TUNER_CONFIG_FILE": str(rules),
        "RCCLTUNE_LOG": f"decisions:{tmp_path / 'log-%c'}",
    }
    with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env, comm_id=0xBEEF) as communicator:
        for nbytes in (8, 8, 200):
            communicator.ask(Collective.ALL_REDUCE, nbytes, [[9.5, 4.25, -1.0], [3.0, -1.0, 8.0]])
    lines = (tmp_path / "log-000000000000beef").read_text(encoding="ascii").splitlines()
    offered = "host=ring/ll offered=tree/ll,tree/ll128,ring/ll,ring/simple"
    assert [line.partition(" decision collective=allreduce ")[2] for line in lines[1:3]] == [
        f"nbytes=8 answer=ring/simple/16 line=1 {offered} reason=R20 rule-hit",
        f"nbytes=200 answer=none line=0 {offered} reason=R22 no-rule",
    ]
    assert " summary calls=3 " in lines[3]


@pytest.mark.parametrize(
    ("file", "refused"),
    [
        ("amd_ext_tuner_gfx950.conf", False),
        ("amd_test_incorrect_values_config.conf", True),
        ("amd_test_no_matching_config.conf", False),
        ("amd_test_singlenode_config.conf", False),
        ("amd_test_unsupported_algo_proto_config.conf", False),
        ("amd_test_valid_config_with_wildcards.conf", False),
        ("fork_gfx950_cpx_12fields.csv", False),
        ("gpu107_generated_n5_BROKEN.conf", False),
        ("gpu107_sc2_plus_amd.conf", False),
        ("gpu107_v4_validated.csv", False),
        ("nvidia_example_nccl_tuner.conf", False),
        ("rocm_builtin_gfx950_7rows.csv", False),
    ],
)
def test_files_from_the_wild(
    file: str, refused: bool, host: PluginLibrary, shared_data: Path
) -> None:
    """Published and generated files load as they are; AMD's own wrong-values asset is refused."""
    env = {
        "NCCL_TUNER_CONFIG_FILE": str(shared_data / "configs" / file),
        "RCCLTUNE_MODE": "cpx-nps4",
    }
    if refused:
        with pytest.raises(InputFileError, match="errors"):
            host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env)
        return
    with host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env) as communicator:
        for nbytes in (0, 4096, 16384, 2**20, 2**30):
            communicator.ask(Collective.ALL_REDUCE, nbytes, TABLE)


@pytest.mark.parametrize("end", ["close", "exit"])
def test_a_communicator_is_summed_up_once(end: str, plugin_path: Path, tmp_path: Path) -> None:
    """When it is closed, or else when the process exits: most jobs leave theirs to that."""
    rules, log = tmp_path / "rules.csv", tmp_path / "log-%p"
    rules.write_text("allreduce,0,100,ring,simple,16,-1,-1\n", encoding="ascii")
    program = (
        "import sys\nfrom pathlib import Path\nfrom rccltune.rules.plugin_library import PluginLibrary\n"
        "from rccltune.model.vocabulary import Collective\n"
        f"host = PluginLibrary(Path({str(plugin_path)!r}))\n"
        f"env = {{'NCCL_TUNER_CONFIG_FILE': {str(rules)!r}, 'RCCLTUNE_LOG': 'summary:{log}'}}\n"
        "one = host.communicator(abi=5, n_nodes=1, n_ranks=8, env=env)\n"
        "for nbytes in (8, 8, 200):\n"
        "    one.ask(Collective.ALL_REDUCE, nbytes, [[9.5, 4.25, -1.0], [3.0, -1.0, 8.0]])\n"
        f"one.close() if {end == 'close'} else None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    [file] = tmp_path.glob("log-*")
    summed = [line for line in file.read_text(encoding="ascii").splitlines() if " summary " in line]
    assert len(summed) == 1
    assert summed[0].endswith("calls=3 hits=2 misses=1 not-selectable=0 fallbacks=0")
    assert "rule line=1 setting=ring/simple channels=16 hits=2" in file.read_text(encoding="ascii")
