"""kill -9 and resume: how many sessions end in the same files as if nobody had killed them.

On simulated nodes, under times that depend on the launch and on the simulated clock. Each seed of a
node is tuned twice: in one go, and killed at moments that are drawn (scripts/dying.py says which
there are), with everything that was started; then the same command goes on until it ends. Exit
code, rules, verdict, samples and the search's decisions must be the same to the byte.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import search_nodes
from killing import NODES, SESSION, command, differences, drawn, rows, torment, write_node

# Launches that one is let make before it is killed; and how often a session is killed.
MOST = 12
KILLS = 6
CHARACTER = "plateaus"
# One process plays all ranks of these.
ALONE = ("smallest", "faults", CHARACTER)
OPTIONS = ["--collective", "all_reduce", "--min-bytes", "4K", "--max-bytes", "2M", "--force"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """One session.

    Attributes:
        codes: exit codes of the one that nobody killed and of the killed one.
        different: files that are not the same.
        n_rules: rows of the rule file.
    """

    node: str
    seed: int
    n_kills: int
    codes: tuple[int, int]
    different: tuple[str, ...]
    n_rules: int

    @property
    def is_same(self) -> bool:
        """Whether nobody could tell that it was killed."""
        return not self.different and self.codes[0] == self.codes[1]

    def __str__(self) -> str:
        """For people."""
        ends = "the same" if self.is_same else f"DIFFERENT: {', '.join(self.different)}"
        codes = " and ".join(map(str, self.codes))
        what = f"{self.n_rules} rows of rules, exit codes {codes}"
        return f"{self.node} seed {self.seed}: {self.n_kills} kills, {what}: {ends}"


def nodes(folder: Path) -> dict[str, tuple[Path, list[str]]]:
    """Node files by name, each with options of its own."""
    eight = ["--mode", "spx-nps1", "--launcher", "none"]
    # A search plans with a start-up for which nobody waits here.
    many = ["--mode", search_nodes.MODE, "--launcher", "none"]
    many += ["--env", "RCCLTUNE_SIM_STARTUP_S=0", "--setting"]
    settings = " --setting ".join(search_nodes.SETTINGS[:4]).split()
    found = {
        "smallest": (write_node(folder / "smallest.yaml", NODES / "smallest.yaml"), eight),
        "mpirun": (
            write_node(folder / "mpirun.yaml", NODES / "smallest.yaml"),
            [*eight[:3], "openmpi", "--setting", "ring/ll", "--setting", "ring/simple"],
        ),
        "faults": (
            write_node(folder / "faults.yaml", NODES / "what-goes-wrong.yaml"),
            [*eight, "--timeout", "4"],
        ),
    }
    character = next(one for one in search_nodes.CHARACTERS if one.name == CHARACTER)
    path = search_nodes.write_node(character, folder)
    return found | {CHARACTER: (write_node(path, path), [*many, *settings])}


def session(node: str, seed: int, n_kills: int, folder: Path) -> Killed:
    """Tune a node twice, and compare."""
    path, own = nodes(folder)[node]
    words = ["tune", "--simulate", str(path), *OPTIONS, *own, "--seed", str(seed), "-o", SESSION]
    whole, killed = folder / "whole", folder / "killed"
    for one in (whole, killed):
        one.mkdir()
    moments = drawn(random.Random(f"{node} {seed}"), n_kills, MOST)
    expected = command(whole, words)
    code, n_killed = torment(killed, words, moments)
    return Killed(
        node=node,
        seed=seed,
        n_kills=n_killed,
        codes=(expected, code),
        different=tuple(differences(whole, killed)),
        n_rules=len(rows(whole)),
    )


def main() -> int:
    """Every node with every seed; 1 where one ended otherwise."""
    names = ("mpirun", *ALONE)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", nargs="+", choices=names, default=list(names))
    parser.add_argument("--seeds", type=int, default=2, metavar="N")
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N", help="of each session")
    given = parser.parse_args()
    found = []
    for node in given.nodes:
        for seed in range(given.seeds):
            with tempfile.TemporaryDirectory() as folder:
                found.append(session(node, seed, given.kills, Path(folder)))
                print(found[-1], flush=True)
    same = sum(one.is_same for one in found)
    n_kills = sum(one.n_kills for one in found)
    print(f"{n_kills} kills in {len(found)} sessions: {same} ended in the same files")
    return 0 if same == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
