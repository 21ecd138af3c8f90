"""Killed and resumed, however often and wherever: the same files as if nobody had killed anything."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from killing import NODES, SESSION, differences, rows, torment, write_node

from rccltune.cli import run

# Each starts rccltune up to eight times, which takes its time on a machine with other work.
pytestmark = [pytest.mark.usefixtures("stand_ins"), pytest.mark.timeout(900)]

SMALL = ["--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "512K"]
SMALL += ["--setting", "ring/ll", "--setting", "ring/simple", "--communicators", "2", "--force"]
EMIT = (["fit", SESSION], ["emit-config", SESSION])


def words(node: Path, verb: str = "sweep", launcher: str = "none") -> list[str]:
    """A small search on eight ranks."""
    where = ["--simulate", str(node), "--mode", "spx-nps1", "--launcher", launcher]
    return [verb, "--runner", "rccl-tests", *where, *SMALL, "-o", SESSION]


def said(folder: Path) -> str:
    """What rccltune had to say of late."""
    return (folder / "said.txt").read_text(encoding="utf-8")[-3000:]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight ranks whose times move with launch and clock."""
    return write_node(tmp_path_factory.mktemp("node") / "node.yaml", NODES / "smallest.yaml")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, node: Path) -> Path:
    """A folder with a session that nobody killed, and its rules."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(words(node)) == 0
        assert [run(one) for one in EMIT] == [0, 0]
    assert rows(folder)
    return folder


def cut_off() -> list[str]:
    """Launches without an outcome."""
    made = Path(SESSION).glob("launches/*/launch.json")
    return [path.parent.name for path in made if not (path.parent / "outcome.json").exists()]


def n_rows(launch: str) -> int:
    """Rows of a launch in samples.csv."""
    return (Path(SESSION) / "samples.csv").read_text().count(f"\n{launch}")


def test_a_verification_that_is_killed_ends_in_the_same_verdict(
    whole: Path, tmp_path: Path
) -> None:
    """Exit code and rules too; in a launch, behind one, and between rules and verdict.

    What is verified after the last is the file that was written, which may have lost sizes.
    """
    wish = ["verify", SESSION, "--repeats", "2", "--launcher", "none"]
    inside = ["start 3", "outcome 4", "cut 2 1"]
    found = []
    for name, moments in (("whole", []), ("killed", inside), ("late", ["rules"])):
        shutil.copytree(whole, tmp_path / name)
        code, n_killed = torment(tmp_path / name, wish, moments)
        assert n_killed == len(moments), said(tmp_path / name)
        found.append(code)
    assert found[0] == found[1] == found[2]
    assert (tmp_path / "whole" / SESSION / "verdict.json").exists()
    assert not differences(tmp_path / "whole", tmp_path / "killed")
    assert kept_rules(tmp_path / "late") == kept_rules(tmp_path / "whole") != []


def kept_rules(folder: Path) -> list[str]:
    """Rows of the only rule file of a folder's session."""
    (path,) = (folder / SESSION).glob("rccl_tuner_*.csv")
    return [line for line in path.read_text().splitlines() if line[:1].isalpha()]
