"""A node to plan for, and what a planned command line says."""

from __future__ import annotations

from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective
from rccltune.plan import launches

GROUND = launches.Ground(
    programs={c: f"/bench/{c.benchmark}" for c in Collective},
    letters=frozenset("befnwcgdoGAON"),
    launch=lambda n, program: ("mpirun", "-np", str(n), *program),
    scale=Scale(n_nodes=1, n_ranks=64),
    arch="gfx942",
)


def option(argv: tuple[str, ...], name: str) -> int:
    """A number that a benchmark is told."""
    return int(argv[argv.index(name) + 1])
