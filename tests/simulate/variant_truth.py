"""What a node file says runs untouched under a variant's environment, and for how long.

The stand-in benchmark is asked, for it chooses as the library does; it writes the node file's own
time of every half of a row, without noise (RCCLTUNE_SIM_TRUTH).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from rccltune import plugin
from rccltune.simulate import sources
from rccltune.simulate.compiled import compile_node


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a benchmark is started: a variant, a placement, or both.

    Attributes:
        environment: the variant's.
        options: the benchmark's own beside sizes and counts: ``-G 2``, ``-d bfloat16``, ``-t 8``.
        ranks: how many play; None is the whole node (in one process with ``-t``).
        devices: ROCR_VISIBLE_DEVICES, which decides the placement; empty is all.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    options: str = ""
    ranks: int | None = None
    devices: str = ""

    def with_env(self, **more: str) -> Manner:
        """The same with more in its environment."""
        return replace(self, environment={**self.environment, **more})

    def asked(self, options: str) -> Manner:
        """The same with options of the benchmark."""
        return replace(self, options=options)


ONE_OAM = Manner(ranks=8, devices="0,1,2,3,4,5,6,7")
ONE_PER_OAM = Manner(ranks=8, devices="0,8,16,24,32,40,48,56")


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What ran: a setting (``ring/simple``) or a path (``mscclpp``), and its true microseconds.

    Attributes:
        channels: 0 is the node's default.
    """

    what: str
    channels: int
    ranks: int
    placement: str
    dtype: str
    time_us: float


def sim_folder() -> Path:
    """Where the stand-in benchmarks are: those of a given build, or the installed ones."""
    given = os.environ.get("RCCLTUNE_TEST_SIM")
    return Path(given) / "bin" if given else plugin.native_folder() / "sim"


def untouched(
    node: Path,
    collective: str,
    sizes: Iterable[int],
    manner: Manner | None = None,
    *,
    in_place: bool = False,
    folder: Path | None = None,
) -> dict[int, Ran]:
    """What the library runs by itself at each size, keyed by the size as printed.

    Args:
        node: the YAML file.
        collective: ``all_reduce`` and the like.
        sizes: bytes; what the benchmark rounds them to is in the answer.
        manner: None is without any variant, on the whole node.
        in_place: which half.
        folder: of the stand-in benchmarks; None is ``sim_folder()``.
    """
    manner = manner or Manner()
    found: dict[int, Ran] = {}
    with tempfile.TemporaryDirectory() as scratch:
        compiled, told = Path(scratch, "a.node"), Path(scratch, "told")
        compiled.write_bytes(_compiled(node))
        environment = {
            "PATH": os.environ["PATH"],
            "RCCLTUNE_SIM_NODE": str(compiled),
            "RCCLTUNE_SIM_STARTUP_S": "0",
            "RCCLTUNE_SIM_TRUTH": str(told),
            "RCCLTUNE_SIM_SHM_DIR": scratch,
            **manner.environment,
        }
        if manner.ranks is not None:
            environment["RCCLTUNE_SIM_RANKS"] = str(manner.ranks)
        if manner.devices:
            environment["ROCR_VISIBLE_DEVICES"] = manner.devices
        program = (folder or sim_folder()) / f"{collective}_perf"
        for size in sizes:
            options = f"-b {size} -e {size} -n 1 -w 0 -c 0 {manner.options}"
            subprocess.run(
                [program, *options.split()], env=environment, capture_output=True, check=True
            )
        for line in told.read_text(encoding="ascii").splitlines():
            _, nbytes, half, dtype, what, channels, ranks, placement, time_us, _ = line.split()
            if (half == "in") == in_place:
                found[int(nbytes)] = Ran(
                    what=what,
                    channels=int(channels),
                    ranks=int(ranks),
                    placement=placement,
                    dtype=dtype,
                    time_us=float(time_us),
                )
    return found


@cache
def _compiled(node: Path) -> bytes:
    return compile_node(sources.load_node(node))
