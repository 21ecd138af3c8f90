"""What CONTRIBUTING.md says will fail until a thing is added everywhere, fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rccltune.launch import launchers
from rccltune.launch.hostfiles import hosts_used
from rccltune.measure import sweep_schema
from rccltune.model.units import busbw_factor
from rccltune.model.vocabulary import Collective
from rccltune.releases import RELEASES, Release

# Those that only run on this host read no host file.
LOCAL = ("none", "torchrun")
# What a sweep leaves in a session.
ARTEFACTS = ("runs/<n>/run.json", "plots/")
KEPT = (".json", ".yaml", ".csv", ".log", ".html")
# Words that are no names of the code.
PROGRAMS = frozenset(("None",))


@pytest.mark.parametrize("flavour", launchers.LAUNCHERS)
def test_every_launcher_can_be_asked_for(flavour: str, repository: Path, tmp_path: Path) -> None:
    """By option and sweep file, with a row in docs/measuring.md, and its host files are read."""
    assert flavour in sweep_schema.LAUNCHERS
    assert f"| `{flavour}`" in (repository / "docs/measuring.md").read_text(encoding="utf-8")
    if flavour not in LOCAL:
        hosts = tmp_path / "hosts"
        hosts.write_text({"openmpi": "a slots=8\n", "srun": "a\n"}.get(flavour, "a:8\n"))
        assert hosts_used(hosts, flavour, 8) == ("a",)


def test_no_launcher_is_asked_for_that_is_none() -> None:
    """The words of --launcher are the launchers, auto, and local: the rank program itself."""
    assert set(sweep_schema.LAUNCHERS) == {"auto", "local", *launchers.LAUNCHERS}


@pytest.mark.parametrize(
    "release",
    [one for one in RELEASES if one.rocm and one.loads_ours],
    ids=lambda one: f"{one.number} of {one.rocm[0]}",
)
def test_every_release_has_its_answers(release: Release, repository: Path) -> None:
    """A line that names it in docs/deploy.md, and who plays it."""
    # The newest line is for those behind it too.
    assert release.number in release.name or release.name.startswith("RCCL 2.30.4 and later")
    table = (repository / "docs/deploy.md").read_text(encoding="utf-8")
    assert f"| {release.name} |" in table
    sim = repository / "native_plugin/sim"
    named = dict(re.findall(r"(\w+) = (\d{5})", (sim / "sim.h").read_text("utf-8")))
    families = re.findall(r"\{(\w+), \d\}", (sim / "names.c").read_text("utf-8"))
    since = {int(named.get(first, first)) // 100 for first in families}
    major, minor = map(int, release.number.split(".")[:2])
    assert major * 100 + minor in since


@pytest.mark.parametrize("collective", Collective, ids=lambda one: one.value)
def test_every_collective_has_its_bandwidth_and_its_benchmark(
    collective: Collective, repository: Path
) -> None:
    """The factor of its bus bandwidth, and a stand-in that plays it."""
    assert busbw_factor(collective, 8) > 0
    names = (repository / "native_plugin/sim/CMakeLists.txt").read_text(encoding="ascii")
    assert re.search(rf"\b{collective.value}\b", names)


def test_the_picture_of_the_layers_is_current(repository: Path) -> None:
    """docs/pictures/layers.svg is what the contract in pyproject.toml says today."""
    command = [sys.executable, str(repository / "scripts/draw_layers.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "pictures/layers.svg" in (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")


def quoted(repository: Path) -> list[str]:
    """What CONTRIBUTING.md has in code's letters from the house on."""
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`([^`\n]+)`", text[text.index("## The house") :])))


def files_of(repository: Path) -> list[str]:
    """All that is in the repository."""
    command = ["git", "-C", str(repository), "ls-files", "-co", "--exclude-standard"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_what_the_recipes_name_exists(repository: Path) -> None:
    """Each path is a file's or a folder's, each name is defined or written somewhere in the code."""
    files = files_of(repository)
    code = "\n".join(
        (repository / file).read_text(encoding="utf-8")
        for file in files
        if file.endswith((".py", ".c", ".h", ".txt")) and (repository / file).exists()
    )
    lines = code.splitlines()
    missing = []
    for said in quoted(repository):
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?|[\w-]+\.(py|pyi|c|h|map|md|txt|toml)|\w+/", said):
            at = f"/{said.rstrip('/')}/"
            found = any(at in f"/{file}/" for file in files) or said in ARTEFACTS
        elif re.fullmatch(r"_?[A-Za-z]\w*(\.\w+)?", said) and not said.endswith(KEPT):
            owner, _, name = said.rpartition(".")
            stems = {Path(file).stem for file in files}
            defined = rf"(def |class |#define |set\(){name}\b|^\W*(\"{name}\"|{name}\b(: [^=\n]+)?( =|,$|:| -))"
            with_name = "\n".join(line for line in lines if name in line)
            found = name in stems | PROGRAMS or bool(re.search(defined, with_name, re.MULTILINE))
            found = found and (not owner or owner in stems or f"class {owner}" in code)
        else:
            continue
        if not found:
            missing.append(said)
    assert missing == []
