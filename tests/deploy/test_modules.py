"""Module files, run by Tcl and Lua with the commands that the module systems bring."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deliveries import CPX, NAME, Make, place, rules

LIBRARY = "librccl-tuner-rccltune.so"
TCL = r"""
lassign $argv ModulesCurrentModulefile doing
proc module-whatis {text} {}
proc conflict {name} {}
proc module-info {what word} { global doing; return [expr {$word eq $doing}] }
proc setenv {name value} { puts "$name=$value" }
source $ModulesCurrentModulefile
"""
LUA = r"""
local path, doing = arg[1], arg[2] == "remove" and "unload" or arg[2]
function whatis() end
function conflict() end
function myFileName() return path end
function mode() return doing end
function LmodMessage(text) io.stderr:write(text .. "\n") end
function setenv(name, value) print(name .. "=" .. value) end
function isFile(name)
    local handle = io.open(name)
    return handle ~= nil and handle:close()
end
dofile(path)
"""
Load = Callable[..., tuple[dict[str, str], str]]


@pytest.fixture(params=["tcl", "lua"])
def load(request: pytest.FixtureRequest, tmp_path: Path) -> Load:
    """Loads the module below a folder; returns what it sets and says."""
    programs = {"tcl": ("tclsh",), "lua": ("lua", "lua5.4", "lua5.3", "lua5.1", "luajit")}
    found = [path for name in programs[request.param] if (path := shutil.which(name))]
    if not found:
        pytest.skip(f"there is no {request.param} here")
    script = tmp_path / f"module.{request.param}"
    script.write_text({"tcl": TCL, "lua": LUA}[request.param])
    name = {"tcl": "rccltune", "lua": "rccltune.lua"}[request.param]

    def loaded(
        folder: Path, env: Mapping[str, str] | None = None, doing: str = "load"
    ) -> tuple[dict[str, str], str]:
        done = subprocess.run(
            [found[0], script, folder / "modulefiles" / name, doing],
            env={"PATH": os.environ["PATH"], **(env or {})},
            capture_output=True,
            text=True,
            check=True,
        )
        return dict(line.split("=", 1) for line in done.stdout.splitlines()), done.stderr

    return loaded


def test_what_is_set_is_what_env_sh_exports(make: Make, tmp_path: Path, load: Load) -> None:
    """By the version's own folder, and quietly."""
    placed = place(make())
    expected = {
        "NCCL_TUNER_PLUGIN": str(placed.folder / LIBRARY),
        "NCCL_TUNER_CONFIG_FILE": str(placed.folder / NAME),
        "RCCL_LL128_FORCE_ENABLE": "1",
    }
    assert load(tmp_path / "site") == (expected, "")
    # Unloading runs the same commands, which then unset.
    assert load(tmp_path / "site", expected, "remove") == (expected, "")


def test_the_users_own_stays(make: Make, tmp_path: Path, load: Load) -> None:
    """Never touched, also not by unloading; a foreign plugin gets nothing of ours."""
    place(make())
    site = tmp_path / "site"
    found, said = load(site, {"RCCL_LL128_FORCE_ENABLE": "0"})
    assert found.keys() == {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"}
    assert "RCCL_LL128_FORCE_ENABLE is set to '0' and stays so" in said
    foreign = {"NCCL_TUNER_PLUGIN": "/opt/other.so"}
    assert load(site, foreign, "remove") == ({}, "")
    found, said = load(site, foreign)
    assert found == {}
    assert "stays so" in said
    found, said = load(site, {"RCCLTUNE_CONFIG_DIR": "/mine"})
    assert found.keys() == {"NCCL_TUNER_PLUGIN"}
    assert "stays so" in said


def test_several_files_are_a_folder(make: Make, tmp_path: Path, load: Load) -> None:
    """As in env.sh."""
    one_oam = rules(f"{NAME[:-4]}_one-oam.csv", {**CPX, "placement": "one-oam"})
    placed = place(make(rules(), one_oam))
    found, _ = load(tmp_path / "site")
    assert found["RCCLTUNE_CONFIG_DIR"] == str(placed.folder)


def test_what_speaks_against_the_rules_is_said(make: Make, tmp_path: Path, load: Load) -> None:
    """Simulated ones, and those of one placement."""
    place(make(rules(requires={**CPX, "placement": "one-oam"}), simulated=True))
    _, said = load(tmp_path / "site")
    assert "SIMULATED" in said
    assert "RCCLTUNE_PLACEMENT=one-oam" in said


def test_any_path_and_any_value_arrives_as_it_is(make: Make, tmp_path: Path, load: Load) -> None:
    """Blanks, quotes, brackets."""
    folder = tmp_path / "it's $HOME [pwd] {x"
    value = '^LL128;allreduce:LL "x" [exit] $y \\n }'
    placed = place(make(rules(needs=(("NCCL_ODD", value),)), directory=folder))
    found, _ = load(folder)
    assert found["NCCL_ODD"] == value
    assert found["NCCL_TUNER_PLUGIN"] == str(placed.folder / LIBRARY)


def test_a_copy_elsewhere_is_found(make: Make, tmp_path: Path, load: Load) -> None:
    """Where the folder that was deployed to is not there: another node's image."""
    placed = place(make())
    shutil.copytree(tmp_path / "site", tmp_path / "image", symlinks=True)
    shutil.copytree(placed.folder, tmp_path / "flat")
    shutil.rmtree(tmp_path / "site")
    for path, folder in (("image", f"image/versions/{placed.name}"), ("flat", "flat")):
        found, _ = load(tmp_path / path)
        assert found["NCCL_TUNER_PLUGIN"] == str(tmp_path / folder / LIBRARY)


def test_container_lines_name_the_mount(make: Make, tmp_path: Path) -> None:
    """--env-file has plain values only: Docker takes quotes as they are, Apptainer does not."""
    placed = place(make(rules(needs=(("NCCL_ODD", "a b"), ("RCCL_LL128_FORCE_ENABLE", "1")))))
    lines = (tmp_path / "site" / "container.env").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        f"NCCL_TUNER_PLUGIN=/opt/rccltune/{LIBRARY}",
        f"NCCL_TUNER_CONFIG_FILE=/opt/rccltune/{NAME}",
        "RCCL_LL128_FORCE_ENABLE=1",
    ]
    text = (tmp_path / "site" / "container.sh").read_text(encoding="utf-8")
    assert (
        f"--bind {placed.folder}:/opt/rccltune:ro --env-file {placed.folder}/container.env" in text
    )
    assert f"docker run -v {placed.folder}:/opt/rccltune:ro" in text
    assert text.count("--env 'NCCL_ODD=a b'") == 4


def test_slurm_lines_run_and_stop_a_job_on_a_bad_node(make: Make, tmp_path: Path) -> None:
    """With an srun that starts the program here: this machine has no MI300X."""
    place(make())
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n')
    srun.chmod(0o755)
    env = {"PATH": f"{srun.parent}:{os.environ['PATH']}", "SLURM_JOB_NUM_NODES": "1"}
    done = subprocess.run(
        ["/bin/sh", "-euc", f". '{tmp_path}/site/slurm.sh'; echo the job runs"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no AMD GPU here" in done.stdout
    assert "the job runs" not in done.stdout

    place(make(rules("rccl_tuner.csv", {})))
    done = subprocess.run(
        ["/bin/sh", "-euc", f". '{tmp_path}/site/slurm.sh'; echo the job runs"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "the job runs" in done.stdout
