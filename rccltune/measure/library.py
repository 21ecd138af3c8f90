"""What the library changes of a site: the real one on a simulated node; what it is forced to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rccltune import machine
from rccltune.model import MachineError
from rccltune.releases import release_of, running_closed_tree

if TYPE_CHECKING:
    from rccltune.measure.site import Site


def over_real(site: Site, library: Path, one_process: bool) -> Site:
    """The same node with the real library's decisions, its times still the node file's."""
    node, n_ranks, n_hosts = site.node, site.seating.n_started, site.scale.n_nodes
    if node is None or node.library == "rcclx":
        raise MachineError(
            "the real library runs on simulated nodes with AMD's RCCL alone",
            hint="simulate such a node, or leave --librccl out.",
        )
    if n_hosts > 1 and one_process:
        raise MachineError(
            "the real library tells simulated hosts apart by process",
            hint="leave --launcher none out, or say ranks of one host (--np).",
        )
    free = machine.free_mib(Path("/proc/meminfo").read_text(encoding="utf-8"))
    machine.check_real_memory(n_ranks, n_hosts, one_process=one_process, free_mib=free)
    version, words = machine.real_words(library)
    machine.check_real_starts(library)
    start_s = machine.real_start_s(n_ranks, one_process=one_process)
    return replace(
        site,
        fingerprint=replace(site.fingerprint, runner=words),
        environment=(*site.environment, ("RCCLTUNE_SIM_LIBRCCL", str(library))),
        remarks=(*site.remarks, f"{words}; kernels are launched and not run: no result is checked"),
        has_patched_library=False,
        start_s=start_s + (site.start_s or 0),
        library=version,
        library_file=library,
        tunerless=machine.tunerless(version),
    )


def can_force(site: Site) -> bool:
    """Whether the library was seen to run Tree with Simple where it leaves it out."""
    played = site.node is not None and site.library_file is None
    release = None if played else release_of(site.library)
    return release is not None and release.runs_closed_tree


def forcing(site: Site) -> Site:
    """Only where the library was seen to run what is forced; another might hang or do harm."""
    if not can_force(site):
        played = site.node is not None and site.library_file is None
        known = "the imitation" if played else site.library or "this library"
        raise MachineError(
            f"nobody has seen {known} run Tree with Simple where it leaves it out",
            hint=f"leave --force-tree-simple out, or measure with {running_closed_tree()}.",
        )
    said = "Tree with Simple is forced in steps of its own: shown, in no rule"
    return replace(site, forces_tree_simple=True, remarks=(*site.remarks, said))
