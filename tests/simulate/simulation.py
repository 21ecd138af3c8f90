"""Starting benchmarks of the simulation, and reading what they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rccltune.simulate.compiled import compile_node
from rccltune.simulate.sources import load_node, node_path

Small = Callable[..., Path]

# A row of any family: size, count, type, redop, root, then a half or two, then what -A and -S add.
ROW = re.compile(r"^ *(\d+) +(\d+) +([a-z0-9_]+) +([a-z]+) +(-?\d+) (.*)$")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table, the numbers of its halves as printed."""

    size: int
    count: int
    dtype: str
    op: str
    root: int
    rest: tuple[str, ...]

    @property
    def time_us(self) -> float:
        """Of the first half."""
        return float(self.rest[0])

    @property
    def in_place_us(self) -> float:
        """Of the second half."""
        return float(self.rest[4])

    @property
    def wrong(self) -> str:
        """Of the first half."""
        return self.rest[3]

    @property
    def setting(self) -> str:
        """What -A printed: ``ring/ll/32``."""
        return "/".join(self.rest[-3:]).lower()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a benchmark ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Row]:
        """The table."""
        found = []
        for line in self.out.splitlines():
            match = ROW.match(line)
            if match:
                size, count, dtype, op, root, rest = match.groups()
                found.append(
                    Row(
                        size=int(size),
                        count=int(count),
                        dtype=dtype,
                        op=op,
                        root=int(root),
                        rest=tuple(rest.split()),
                    )
                )
        return found

    @property
    def times(self) -> dict[int, float]:
        """Out-of-place time by size."""
        return {row.size: row.time_us for row in self.rows}

    @property
    def settings(self) -> dict[int, str]:
        """What -A printed, by size."""
        return {row.size: row.setting for row in self.rows}


@dataclass(frozen=True, kw_only=True)
class Sim:
    """Starts benchmarks of the built simulation."""

    folder: Path
    scratch: Path
    mpirun: Path | None
    nodes: dict[Path, Path] = field(default_factory=dict)

    @property
    def meeting_place(self) -> Path:
        """Where the ranks meet."""
        folder = self.scratch / "meet"
        folder.mkdir(exist_ok=True)
        return folder

    def plugin(self, versions: str = "23456") -> str:
        """The test plugin that exports these versions (``none``, ``2`` … ``6``, ``23456``)."""
        return str(self.folder / f"plugins/libsim_testplugin_v{versions}.so")

    def node(self, path: Path) -> Path:
        """The compiled form of a YAML node file."""
        if path not in self.nodes:
            target = self.scratch / f"{len(self.nodes)}-{path.stem}.node"
            target.write_bytes(compile_node(load_node(path)))
            self.nodes[path] = target
        return self.nodes[path]

    def environment(self, node: Path | str, env: Mapping[str, str]) -> dict[str, str]:
        """Nothing but what a benchmark needs: the tester's own NCCL variables must not count."""
        path = node_path(node) if isinstance(node, str) else node
        keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TMPDIR", "LANG")}
        keep["RCCLTUNE_SIM_NODE"] = str(self.node(path))
        keep["RCCLTUNE_SIM_LONGEST_LIFE_S"] = "60"
        # A meeting place of its own: tests in another process look at theirs.
        keep["RCCLTUNE_SIM_SHM_DIR"] = str(self.meeting_place)
        return keep | dict(env)

    def argv(self, collective: str, arguments: str, np: int | None) -> list[str]:
        """The command, under mpirun where ``np`` is given."""
        program = [str(self.folder / f"bin/{collective}_perf"), *arguments.split()]
        if np is None:
            return program
        if self.mpirun is None:
            pytest.skip("no mpirun")
        options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        return [str(self.mpirun), *options, "-np", str(np), *program]

    def run(
        self,
        node: Path | str,
        arguments: str = "-b 8 -e 64M -f 2",
        *,
        collective: str = "all_reduce",
        np: int | None = None,
        timeout: float = 60,
        **env: str,
    ) -> Ended:
        """Run to the end."""
        done = subprocess.run(
            self.argv(collective, arguments, np),
            env=self.environment(node, env),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr)

    def start(
        self, node: Path | str, arguments: str, *, np: int | None = None, **env: str
    ) -> subprocess.Popen[str]:
        """Start without waiting: for what hangs."""
        return subprocess.Popen(
            self.argv("all_reduce", arguments, np),
            env=self.environment(node, env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def plugin_env(sim: Sim, answer: str) -> dict[str, str]:
    """The test plugin, asking for one setting (in a range: ``tree/ll,0-4096``)."""
    return {"NCCL_TUNER_PLUGIN": sim.plugin(), "TESTPLUGIN_ANSWER": answer}


def leftovers(sim: Sim) -> list[Path]:
    """Meeting places that nobody took away."""
    return list(sim.meeting_place.glob("rccltune-sim-*"))
