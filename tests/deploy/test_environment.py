"""env.sh in every shell that is here: what is exported, what is left alone, where it is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deliveries import CPX, NAME, SHELLS, Make, place, rules, run_shell
from wording import lacks

shells = pytest.mark.parametrize("shell", SHELLS)
# Shells that say where the file is that they read.
tells = pytest.mark.parametrize("shell", [s for s in SHELLS if s.startswith(("bash", "zsh"))])
LIBRARY = "librccl-tuner-rccltune.so"
SHOW = "; env | grep -E '^(NCCL|RCCL)' | sort"


def exported(text: str) -> dict[str, str]:
    """NAME=VALUE lines."""
    return dict(line.split("=", 1) for line in text.splitlines())


@shells
@pytest.mark.parametrize("path", ["site/env.sh", "site/current/env.sh", "site/versions/{}/env.sh"])
def test_everything_is_exported_by_absolute_paths_of_one_version(
    make: Make, tmp_path: Path, shell: str, path: str
) -> None:
    """Never through ``current``; nothing is said and nothing else is left in the shell."""
    placed = place(make())
    script = f". ./{path.format(placed.name)}; set | grep -c '^_rccltune' || :{SHOW}"
    done = run_shell(shell, script, cwd=tmp_path)
    assert done.stderr == ""
    assert done.returncode == 0
    left, _, rest = done.stdout.partition("\n")
    assert left == "0"
    folder = tmp_path / "site" / "versions" / placed.name
    assert exported(rest) == {
        "NCCL_TUNER_PLUGIN": str(folder / LIBRARY),
        "NCCL_TUNER_CONFIG_FILE": str(folder / NAME),
        "RCCL_LL128_FORCE_ENABLE": "1",
    }


@shells
def test_a_variable_of_the_users_own_stays_with_a_warning(
    make: Make, tmp_path: Path, shell: str
) -> None:
    """What the rules need is said; the rest is exported."""
    place(make())
    env = {"RCCL_LL128_FORCE_ENABLE": "0"}
    done = run_shell(shell, f". ./site/env.sh{SHOW}", cwd=tmp_path, env=env)
    assert done.returncode == 0
    found = exported(done.stdout)
    assert found["RCCL_LL128_FORCE_ENABLE"] == "0"
    assert {"NCCL_TUNER_PLUGIN", "NCCL_TUNER_CONFIG_FILE"} < found.keys()
    assert lacks(done.stderr, "RCCL_LL128_FORCE_ENABLE", "0' and") == []


@shells
def test_beside_a_foreign_plugin_nothing_is_set(make: Make, tmp_path: Path, shell: str) -> None:
    """Rules in another plugin, or the environment of rules without them, may do harm."""
    place(make())
    env = {"NCCL_TUNER_PLUGIN": "/opt/site/libother.so"}
    done = run_shell(shell, f". ./site/env.sh{SHOW}", cwd=tmp_path, env=env)
    assert done.returncode == 0
    assert exported(done.stdout) == env
    assert lacks(done.stderr, "/opt/site/libother.so") == []


@shells
@pytest.mark.parametrize("name", ["NCCL_TUNER_CONFIG_FILE", "RCCLTUNE_CONFIG_DIR"])
def test_rules_of_the_users_own_stay_and_get_the_plugin_alone(
    make: Make, tmp_path: Path, shell: str, name: str
) -> None:
    """What only our rules need is not exported for others."""
    place(make())
    env = {name: "/home/me/rules"}
    done = run_shell(shell, f". ./site/env.sh{SHOW}", cwd=tmp_path, env=env)
    assert done.returncode == 0
    assert exported(done.stdout).keys() == {name, "NCCL_TUNER_PLUGIN"}
    assert lacks(done.stderr, f"{name}", "/home/me/rules") == []


@shells
def test_a_newer_version_takes_the_place_of_an_older_one(
    make: Make, tmp_path: Path, shell: str
) -> None:
    """A login shell that sourced the one before; values below versions/ are ours."""
    one_oam = rules(f"{NAME[:-4]}_one-oam.csv", {**CPX, "placement": "one-oam"})
    first = place(make(rules(), one_oam))
    script = f". ./site/versions/{first.name}/env.sh; . ./site/env.sh{SHOW}"
    second = place(make())
    done = run_shell(shell, script, cwd=tmp_path)
    assert done.stderr == ""
    found = exported(done.stdout)
    assert found["NCCL_TUNER_CONFIG_FILE"] == str(second.folder / NAME)
    assert found["NCCL_TUNER_PLUGIN"] == str(second.folder / LIBRARY)
    assert "RCCLTUNE_CONFIG_DIR" not in found


@shells
def test_several_files_are_a_folder(make: Make, tmp_path: Path, shell: str) -> None:
    """The plugin finds each by its name; the plain one holds for every job."""
    one_oam = rules(f"{NAME[:-4]}_one-oam.csv", {**CPX, "placement": "one-oam"})
    placed = place(make(rules(), one_oam))
    done = run_shell(shell, f". ./site/env.sh{SHOW}", cwd=tmp_path)
    assert done.stderr == ""
    found = exported(done.stdout)
    assert found["RCCLTUNE_CONFIG_DIR"] == str(placed.folder)
    assert "NCCL_TUNER_CONFIG_FILE" not in found
    assert "RCCLTUNE_PLACEMENT" not in found


@shells
def test_a_placement_is_asked_for_and_never_declared(
    make: Make, tmp_path: Path, shell: str
) -> None:
    """Only the user knows where a job's ranks are."""
    place(make(rules(requires={**CPX, "placement": "one-oam"})))
    done = run_shell(shell, f". ./site/env.sh{SHOW}", cwd=tmp_path)
    assert "RCCLTUNE_PLACEMENT" not in exported(done.stdout)
    assert "export RCCLTUNE_PLACEMENT=one-oam" in done.stderr
    env = {"RCCLTUNE_PLACEMENT": "one-oam"}
    assert run_shell(shell, ". ./site/env.sh", cwd=tmp_path, env=env).stderr == ""


@tells
def test_a_copy_elsewhere_names_itself(make: Make, tmp_path: Path, shell: str) -> None:
    """Into an image: the folder as it is, or one version's files alone."""
    placed = place(make())
    shutil.copytree(tmp_path / "site", tmp_path / "image", symlinks=True)
    shutil.copytree(placed.folder, tmp_path / "flat")
    for path, folder in (("image", f"image/versions/{placed.name}"), ("flat", "flat")):
        done = run_shell(shell, f". ./{path}/env.sh{SHOW}", cwd=tmp_path)
        assert exported(done.stdout)["NCCL_TUNER_PLUGIN"] == str(tmp_path / folder / LIBRARY)


@shells
def test_a_folder_that_is_gone_stops_a_careful_script(
    make: Make, tmp_path: Path, shell: str
) -> None:
    """Rather than to let it run untuned in silence; a variable helps where the shell cannot."""
    place(make())
    text = (tmp_path / "site" / "env.sh").read_text(encoding="utf-8")
    shutil.move(tmp_path / "site", tmp_path / "moved")
    (tmp_path / "alone.sh").write_text(text, encoding="utf-8")
    done = run_shell(shell, ". ./alone.sh; echo on", cwd=tmp_path)
    assert done.returncode != 0
    assert "on" not in done.stdout
    assert "nothing is set" in done.stderr
    env = {"RCCLTUNE_DEPLOY_DIR": str(tmp_path / "moved")}
    done = run_shell(shell, f". ./alone.sh{SHOW}", cwd=tmp_path, env=env)
    assert exported(done.stdout)["NCCL_TUNER_PLUGIN"].startswith(f"{tmp_path}/moved/versions/")


@shells
@pytest.mark.parametrize("folder", ["a site", "it's $HOME `x` [1]", "-n", 'back\\slash "q"'])
def test_any_path_and_any_value_arrives_as_it_is(
    make: Make, tmp_path: Path, shell: str, folder: str
) -> None:
    """Blanks, quotes, what a shell would expand."""
    value = "^LL128;allreduce:LL 'x' $(id) \\n"
    made = make(rules(needs=(("NCCL_ODD", value),)), directory=tmp_path / folder)
    placed = place(made)
    done = run_shell(
        shell,
        '. "$1/env.sh"; printf "%s\\n" "$NCCL_TUNER_PLUGIN" "$NCCL_ODD"'.replace("$1", "$WHERE"),
        cwd=tmp_path,
        env={"WHERE": str(made.directory)},
    )
    assert done.stdout.splitlines() == [str(placed.folder / LIBRARY), value]


@shells
def test_simulated_rules_say_so_whenever_they_are_sourced(
    make: Make, tmp_path: Path, shell: str
) -> None:
    """On stderr and in the file's head; exported all the same."""
    place(make(simulated=True))
    done = run_shell(shell, f". ./site/env.sh{SHOW}", cwd=tmp_path)
    assert "SIMULATED" in done.stderr
    assert "NCCL_TUNER_PLUGIN" in done.stdout
    for name in ("env.sh", "MANIFEST", "slurm.sh", "container.sh", "check.sh"):
        head = (tmp_path / "site" / name).read_text(encoding="utf-8").splitlines()[:4]
        assert any("SIMULATED" in line for line in head), name
