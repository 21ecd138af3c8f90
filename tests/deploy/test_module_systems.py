"""The module files in the real Environment Modules and the real Lmod, typed as users type them.

``scripts/launchers`` unpacks both, for as packages they exclude each other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from deliveries import CPX, NAME, Make, place, rules

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("RCCLTUNE_LAUNCHERS") or REPOSITORY / ".venv-mpi")
LIBRARY = "librccl-tuner-rccltune.so"
# Everything but what the module systems remember for themselves.
SHOW = "env | grep -E '^(NCCL|RCCL|__RCCL)' | sort"
USE = 'module use "$SITE/modulefiles"'
Shell = Callable[..., tuple[list[dict[str, str]], str]]


def _modules() -> tuple[list[str], dict[str, str]]:
    """The command that prints what ``module`` evaluates, and what must be set for it."""
    usr = FOLDER / "modules" / "usr"
    command = next(iter(usr.glob("lib/*/modulecmd.tcl")), None)
    tclsh = shutil.which("tclsh") or shutil.which("tclsh8.6", path=usr / "bin")
    if command is None or tclsh is None:
        pytest.skip("Environment Modules is not unpacked: scripts/launchers does it")
    return [tclsh, str(command), "sh"], {
        "LD_LIBRARY_PATH": str(command.parent),
        **({} if str(usr) not in tclsh else {"TCL_LIBRARY": f"{usr}/share/tcltk/tcl8.6"}),
    }


def _lmod() -> tuple[list[str], dict[str, str]]:
    usr = FOLDER / "lmod" / "usr"
    command = next(iter(usr.glob("share/lmod/[0-9]*/libexec/lmod")), None)
    lua = shutil.which("lua5.3") or shutil.which("lua5.3", path=usr / "bin")
    if command is None or lua is None:
        pytest.skip("Lmod is not unpacked: scripts/launchers does it")
    libraries = next(iter(usr.glob("lib/*/lua/5.3")), usr)
    shares = [usr / "share" / "lua" / version for version in ("5.3", "5.1")]
    return [lua, str(command), "bash"], {
        "LUA_PATH": ";".join(f"{s}/?.lua;{s}/?/init.lua" for s in shares) + ";;",
        "LUA_CPATH": f"{libraries}/?.so;;",
        "LD_LIBRARY_PATH": str(libraries.parents[1]),
    }


@pytest.fixture(params=[_modules, _lmod], ids=["modules", "lmod"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """Runs lines in a shell that has ``module``; returns what each SHOW shows, and the talk."""
    command, variables = request.param()
    given = " ".join(f"{name}='{value}'" for name, value in variables.items())
    words = " ".join(f"'{word}'" for word in command)
    start = f'module() {{ eval "$(env {given} {words} "$@")"; }}'

    def run(
        *lines: str, env: Mapping[str, str] | None = None, site: Path | None = None
    ) -> tuple[list[dict[str, str]], str]:
        shown = "\n".join(line if line != SHOW else f"echo @@; {SHOW}; echo @@" for line in lines)
        done = subprocess.run(
            ["/bin/bash", "-uc", f"{start}\n{USE}\n{shown}"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "SITE": str(site or tmp_path / "site"),
                **(env or {}),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        parts = done.stdout.split("@@\n")
        found = [dict(x.split("=", 1) for x in part.splitlines()) for part in parts[1::2]]
        return found, "".join(parts[::2]) + done.stderr

    return run


def sourced(site: Path) -> dict[str, str]:
    """What env.sh exports."""
    done = subprocess.run(
        ["/bin/bash", "-c", f'. "$1/env.sh" && {SHOW}', "sh", site],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def plain(shown: Mapping[str, str]) -> dict[str, str]:
    """Without what the module file notes for itself."""
    return {name: value for name, value in shown.items() if not name.startswith("__")}


LOAD, UNLOAD = "module load rccltune", "module unload rccltune"


def test_loading_sets_what_env_sh_exports_and_unloading_takes_it_back(
    make: Make, tmp_path: Path, shell: Shell
) -> None:
    """Nothing is said, nothing is left, and it can be done again."""
    place(make())
    shown, said = shell(SHOW, LOAD, SHOW, UNLOAD, SHOW, LOAD, SHOW, "module purge", SHOW)
    before, loaded, after, again, purged = shown
    assert plain(loaded) == plain(again) == sourced(tmp_path / "site")
    assert before == after == purged == {}
    assert said == ""


@pytest.mark.parametrize(
    "own",
    [
        {"RCCL_LL128_FORCE_ENABLE": "1"},
        {"RCCL_LL128_FORCE_ENABLE": "0"},
        {"NCCL_TUNER_PLUGIN": "/opt/other.so", "NCCL_DEBUG": "INFO"},
        {"NCCL_TUNER_CONFIG_FILE": "/mine"},
        {"RCCLTUNE_CONFIG_DIR": "/mine"},
    ],
    ids=str,
)
def test_what_was_set_before_is_set_afterwards(
    make: Make, tmp_path: Path, shell: Shell, own: dict[str, str]
) -> None:
    """Also where it is the very value that loading would have set."""
    place(make())
    (before, loaded, after), said = shell(SHOW, LOAD, SHOW, UNLOAD, SHOW, env=own)
    assert before == own
    assert own.items() <= loaded.items()
    assert after == own
    assert ("stays so" in said) == (own != {"RCCL_LL128_FORCE_ENABLE": "1"})


def test_after_env_sh_a_module_has_nothing_to_take_back(
    make: Make, tmp_path: Path, shell: Shell
) -> None:
    """Who sourced it keeps it."""
    place(make())
    given = sourced(tmp_path / "site")
    (loaded, after), said = shell(LOAD, SHOW, UNLOAD, SHOW, env=given)
    assert loaded == after == given
    assert said == ""


def test_what_the_user_changes_meanwhile_is_the_users(
    make: Make, tmp_path: Path, shell: Shell
) -> None:
    """Unloading takes back what loading has set, and no more."""
    place(make())
    change = "export NCCL_TUNER_CONFIG_FILE=/mine RCCL_LL128_FORCE_ENABLE=2"
    (after,), _ = shell(LOAD, change, UNLOAD, SHOW)
    assert after == {"NCCL_TUNER_CONFIG_FILE": "/mine", "RCCL_LL128_FORCE_ENABLE": "2"}


def test_a_switch_between_loading_and_unloading_leaves_nothing(
    make: Make, tmp_path: Path, shell: Shell
) -> None:
    """The file that unloads is the new version's, and it does not need what the old one needed."""
    older = place(make(rules(needs=(("RCCL_OLDER", "1"), ("NCCL_BOTH", "old")))))
    newer = place(make(rules(needs=(("RCCL_NEWER", "1"), ("NCCL_BOTH", "new")))))
    switch = 'ln -sfn "versions/{}" "$SITE/current"'
    (loaded, after, again), _ = shell(
        switch.format(older.name),
        LOAD,
        SHOW,
        switch.format(newer.name),
        UNLOAD,
        SHOW,
        LOAD,
        SHOW,
    )
    assert plain(loaded)["RCCL_OLDER"] == "1"
    assert loaded["NCCL_TUNER_PLUGIN"] == str(older.folder / LIBRARY)
    assert after == {}
    assert again["NCCL_TUNER_PLUGIN"] == str(newer.folder / LIBRARY)
    assert plain(again) == sourced(tmp_path / "site")


def test_another_versions_variables_give_way(make: Make, tmp_path: Path, shell: Shell) -> None:
    """A login shell has sourced the one before, which named a folder; this one names a file."""
    one_oam = rules(f"{NAME[:-4]}_one-oam.csv", {**CPX, "placement": "one-oam"})
    place(make(rules(), one_oam))
    given = sourced(tmp_path / "site")
    newer = place(make())
    (loaded,), said = shell(LOAD, SHOW, env=given)
    assert plain(loaded) == sourced(tmp_path / "site")
    assert loaded["NCCL_TUNER_CONFIG_FILE"] == str(newer.folder / NAME)
    assert said == ""


def test_several_files_are_a_folder(make: Make, tmp_path: Path, shell: Shell) -> None:
    """As in env.sh, and taken back as well."""
    one_oam = rules(f"{NAME[:-4]}_one-oam.csv", {**CPX, "placement": "one-oam"})
    placed = place(make(rules(), one_oam))
    (loaded, after), _ = shell(LOAD, SHOW, UNLOAD, SHOW)
    assert loaded["RCCLTUNE_CONFIG_DIR"] == str(placed.folder)
    assert plain(loaded) == sourced(tmp_path / "site")
    assert after == {}


def test_what_speaks_against_the_rules_is_said(make: Make, shell: Shell) -> None:
    """Simulated ones, and those of one placement; once, by loading."""
    place(make(rules(requires={**CPX, "placement": "one-oam"}), simulated=True))
    _, said = shell(LOAD)
    assert "SIMULATED" in said
    assert "RCCLTUNE_PLACEMENT=one-oam" in said
    _, more = shell(LOAD, UNLOAD)
    assert more == said


@pytest.mark.parametrize("asked", ["show", "whatis", "help", "avail"])
def test_what_users_ask_of_it(make: Make, shell: Shell, asked: str) -> None:
    """Nothing is set by asking; help names the variables, and no file is listed twice."""
    place(make(simulated=True))
    (after,), said = shell(f"module {asked} rccltune 2>&1", SHOW)
    assert after == {}
    assert "rror" not in said
    assert "rccltune" in said
    if asked == "avail":
        assert "rccltune.lua" not in said
    if asked in ("whatis", "help"):
        assert "SIMULATED" in said
    if asked == "help":
        assert "NCCL_TUNER_PLUGIN, NCCL_TUNER_CONFIG_FILE, RCCL_LL128_FORCE_ENABLE" in said


def test_any_path_and_any_value_arrives_as_it_is(make: Make, tmp_path: Path, shell: Shell) -> None:
    """Through what the module system has the shell evaluate.

    Environment Modules itself finds nothing below a path with brackets or braces.
    """
    folder = tmp_path / 'it\'s a "site"'
    value = '^LL128;allreduce:LL "x" [exit] $y $(id) `id` \\n }'
    placed = place(make(rules(needs=(("NCCL_ODD", value),)), directory=folder))
    (loaded, after), _ = shell(LOAD, SHOW, UNLOAD, SHOW, site=folder)
    assert loaded["NCCL_ODD"] == value
    assert loaded["NCCL_TUNER_PLUGIN"] == str(placed.folder / LIBRARY)
    assert after == {}


def test_a_copy_elsewhere_names_itself(make: Make, tmp_path: Path, shell: Shell) -> None:
    """As env.sh does, also where the folder that was deployed to is still there."""
    placed = place(make())
    shutil.copytree(tmp_path / "site", tmp_path / "image", symlinks=True)
    shutil.copytree(placed.folder, tmp_path / "flat")
    for path, folder in (("image", f"image/versions/{placed.name}"), ("flat", "flat")):
        (loaded, after), _ = shell(LOAD, SHOW, UNLOAD, SHOW, site=tmp_path / path)
        assert loaded["NCCL_TUNER_PLUGIN"] == str(tmp_path / folder / LIBRARY)
        assert after == {}
