"""A sweep over several scales: for each its session, its ranks and its part of the hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rccltune.launch import hostfiles
from rccltune.measure.launcher import check_reads_hosts
from rccltune.measure.site import Site, SiteRequest, launcher_for
from rccltune.model.errors import CommandLineError
from rccltune.model.settings import Scale
from rccltune.session import files


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRequest:
    """One of the scales: what is asked for there, and the session that it goes into."""

    scale: Scale
    request: SiteRequest
    folder: Path


def at_scales(
    request: SiteRequest, scales: Sequence[Scale], folder: Path
) -> tuple[ScaleRequest, ...]:
    """One request for each scale; a part of the host file is written beside each session.

    Args:
        request: with all hosts, and no number of ranks.
        scales: in the order in which they are to be measured.
        folder: each session is a folder in it, named like ``2x128``.

    Raises:
        CommandLineError: ranks are said twice, do not divide, hosts are not named, or nothing
            reads the file that names them.
        InputFileError: the host file has too few of them.
        MachineError: there is no launcher, or no benchmark.
    """
    if request.n_ranks is not None:
        raise CommandLineError("--np and --scales both say how many ranks", hint="drop --np.")
    found = tuple(dict.fromkeys(scales))
    for scale in found:
        _check(scale, request)
    flavour = ""
    if request.hostfile is not None:
        launcher = launcher_for(request)
        check_reads_hosts(launcher)
        flavour = launcher.flavour
    # All of them before the first is written.
    texts = [_hosts(request.hostfile, flavour, scale) for scale in found]
    return tuple(
        _at(scale, request, text, folder) for scale, text in zip(found, texts, strict=True)
    )


def _check(scale: Scale, request: SiteRequest) -> None:
    if scale.n_ranks % scale.n_nodes:
        raise CommandLineError(
            f"--scales {scale.short}: {scale.n_ranks} ranks are not the same number on each of "
            f"{scale.n_nodes} nodes"
        )
    if scale.n_nodes > 1 and request.hostfile is None and request.simulate is None:
        raise CommandLineError(
            f"--scales {scale.short} needs {scale.n_nodes} hosts, and none are named",
            hint="name them with --hostfile; in a Slurm allocation scontrol show hostnames lists "
            "them.",
        )


def _hosts(hostfile: Path | None, flavour: str, scale: Scale) -> str | None:
    if hostfile is None:
        return None
    n_each = scale.n_ranks // scale.n_nodes
    return hostfiles.first_hosts(hostfile, flavour, scale.n_nodes, n_each)


def _at(scale: Scale, request: SiteRequest, hosts: str | None, folder: Path) -> ScaleRequest:
    own = replace(request, n_ranks=scale.n_ranks)
    if hosts is not None:
        path = folder / f"{scale.short}.hosts"
        folder.mkdir(parents=True, exist_ok=True)
        files.write_atomically(path, hosts)
        own = replace(own, hostfile=path)
    return ScaleRequest(scale=scale, request=own, folder=folder / scale.short)


def check_scale(wanted: Scale, site: Site) -> None:
    """Stop where ranks would run at another scale than was asked for.

    Raises:
        CommandLineError: they would.
    """
    if site.scale == wanted:
        return
    what = f"the simulated node {site.node.name}" if site.node is not None else "this machine"
    raise CommandLineError(
        f"--scales {wanted.short} cannot be had here: {what} would run {site.scale}",
        hint="name whole hosts, or leave that scale out.",
    )
