"""A link map from request to session: pairs of devices, sendrecv between them, one record.

The launches are kept as a sweep's are, in a folder of their own (``links/``), because they speak
of two devices each and must never be pooled with those of a whole node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from rccltune import __version__
from rccltune.launch import signals
from rccltune.links.pairs import (
    FOLDER,
    LARGE,
    NODE_FILE,
    PAIR,
    PER_CLASS,
    REPEATS,
    SMALL,
    LinkMapPlan,
    PairResult,
    measure_pairs,
)
from rccltune.machine import links, placement, records
from rccltune.measure import instrument
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.model import schema
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.links import LinkClass, LinkMap, PairTimes, Spread
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import Collective
from rccltune.session import files, store
from rccltune.session.store import Session, SessionSetup
from rccltune.simulate import compiled

_RECORD: Final = f"{FOLDER}/links.json"
_FORMAT: Final = 1


def stored_links(folder: Path) -> LinkMap | None:
    """The link map that a session has, None where it has none that can be read.

    Raises:
        SessionError: another format, or values that do not fit.
    """
    again = "use the rccltune that wrote it, or measure it anew in a new session."
    return store.read_derived(folder, _RECORD, LinkMap, number=_FORMAT, hint=again)


def prepare_links(
    request: SiteRequest,
    folder: Path,
    *,
    system: records.System | None,
) -> LinkMapPlan:
    """Find out which pairs there are and what to measure them with. Nothing is started.

    Args:
        request: benchmarks, launcher, simulated node.
        folder: the session.
        system: this machine; None where a node is simulated.

    Raises:
        MachineError: no sendrecv benchmark, no launcher, fewer than two GPUs, no topology.
        SessionError: the session is of another machine.
    """
    gpus = links.usable(system, os.environ) if system is not None else ()
    # Of a sweep's ranks two are left, on this host.
    site = find_site(replace(request, n_ranks=PAIR.n_ranks, placement=None, hostfile=None))
    if Collective.SENDRECV not in site.programs:
        raise MachineError(
            "there is no sendrecv_perf beside the other benchmarks",
            where=str(Path(next(iter(site.programs.values()))).parent),
            hint="build all of rccl-tests (make MPI=1) and name the folder with --rccl-tests.",
        )
    if site.node is not None:
        system = placement.simulated_system(site.node)
        gpus = links.usable(system, os.environ)
    if system is None:
        raise AssertionError("a real machine was looked at")
    instrument.same_machine(folder, site)
    every = links.pairs(gpus, system.links)
    return LinkMapPlan(
        folder=folder,
        site=site,
        machine=_machine(site, system),
        vendor=system.vendor,
        devices=tuple(sorted(gpu.index for gpu in gpus)),
        every=every,
        chosen=links.representatives(every, PER_CLASS),
    )


def measure_links(prepared: LinkMapPlan, *, reporter: Reporter, command: str) -> LinkMap:
    """Measure every chosen pair and write the record.

    A pair that fails is shown as failed. Launches that ended well are never repeated, so the same
    command continues what was interrupted.

    Raises:
        LaunchError: every pair failed.
        MachineError: the machine changed meanwhile.
        SessionError: another writer, or the disk refuses.
        KeyboardInterrupt: after all that was started is gone.
    """
    with files.writing(prepared.folder, reporter), signals.interruptible():
        _begin(prepared, command)
        pairs = {pair: PairResult() for pair in prepared.chosen}
        measure_pairs(prepared, pairs, reporter)
        done = _record(prepared, pairs)
        if len(done.failed) == len(done.pairs):
            first = done.failed[0]
            raise LaunchError(
                f"sendrecv works between no two devices: {first.failure}",
                where=f"{prepared.links}/launches/{first.launches[-1]}/",
                hint="run its command by hand (launch.json has it) until it works.",
            )
        plain = {"format": _FORMAT, **schema.to_plain(done)}
        store.write_derived(prepared.folder, _RECORD, plain)
    return done


def draw_links(done: LinkMap, folder: Path, *, anew: bool) -> tuple[Path, ...]:
    """The map as plots/links.svg and .png in the session.

    Args:
        done: what to draw.
        folder: the session.
        anew: draw although the pictures are there.

    Raises:
        SessionError: the disk refuses.
    """
    from rccltune.report import plots

    paths = tuple(folder / f"plots/links.{kind}" for kind in plots.LINK_FORMATS)
    if not anew and all(path.exists() for path in paths):
        return paths
    return plots.draw_links(done, folder / "plots")


def links_as_plain(done: LinkMap, folder: Path, pictures: Sequence[Path]) -> dict[str, Any]:
    """A link map for --json; times in µs, bandwidths in GB/s (1e9 B/s) of one direction."""
    return {
        "format": _FORMAT,
        "session": str(folder),
        "simulated": done.simulated,
        "node": done.node,
        "machine": done.machine,
        "measured": done.measured,
        "benchmark": done.benchmark,
        "library": done.library,
        "small_bytes": done.small_nbytes,
        "large_bytes": done.large_nbytes,
        "repeats": done.repeats,
        "n_devices": len(done.devices),
        "classes": [
            {
                "link": row.link.value,
                "meaning": row.link.meaning,
                "pairs": row.n_there,
                "measured": row.n_measured,
                "failed": row.n_failed,
                "latency_us": _plain(row.latency_us),
                "gb_per_s": _plain(row.gb_per_s),
            }
            for row in done.rows
        ],
        "pairs": [
            {
                "devices": [pair.first, pair.second],
                "names": list(pair.names),
                "link": pair.link.value,
                "latency_us": pair.latency_us,
                "gb_per_s": done.bandwidth(pair),
                "failure": pair.failure,
                "logs": [f"{FOLDER}/launches/{one}" for one in pair.launches],
            }
            for pair in done.pairs
        ],
        "pictures": [str(path) for path in pictures],
    }


def _plain(spread: Spread | None) -> dict[str, float] | None:
    if spread is None:
        return None
    return {"median": spread.median, "least": spread.least, "most": spread.most}


def _begin(prepared: LinkMapPlan, command: str) -> None:
    site = prepared.site
    if not (prepared.folder / "session.json").exists():
        store.write_header(
            Session(
                path=prepared.folder,
                command=command,
                tool=f"rccltune {__version__}",
                fingerprint=site.fingerprint,
                setup=SessionSetup(),
            )
        )
    if site.node is not None:
        files.write_atomically(prepared.links / NODE_FILE, compiled.written(site.node))


def _record(prepared: LinkMapPlan, pairs: Mapping[links.DevicePair, PairResult]) -> LinkMap:
    node = prepared.site.node
    return LinkMap(
        machine=prepared.machine,
        simulated=node is not None,
        node=node.name if node is not None else None,
        measured=datetime.now(tz=timezone.utc).isoformat(timespec="seconds"),
        benchmark=Collective.SENDRECV.benchmark,
        library=next((tried.library for tried in pairs.values() if tried.library), None),
        small_nbytes=SMALL,
        large_nbytes=LARGE,
        repeats=REPEATS,
        devices=prepared.devices,
        grid=_grid(prepared),
        pairs=tuple(
            PairTimes(
                first=pair.first.index,
                second=pair.second.index,
                names=(pair.first.address, pair.second.address),
                link=pair.link,
                small_us=tuple(tried.small),
                large_us=tuple(tried.large),
                launches=tuple(tried.launches),
                failure=tried.failure,
            )
            for pair, tried in pairs.items()
        ),
    )


def _grid(prepared: LinkMapPlan) -> tuple[str, ...]:
    order = {link: str(position) for position, link in enumerate(LinkClass)}
    cells = {}
    for pair in prepared.every:
        for key in ((pair.first.index, pair.second.index), (pair.second.index, pair.first.index)):
            cells[key] = order[pair.link]
    return tuple(
        "".join("-" if a == b else cells[a, b] for b in prepared.devices) for a in prepared.devices
    )


def _machine(site: Site, system: records.System) -> str:
    mode = site.fingerprint.mode
    product = site.fingerprint.product or system.product
    parts = [product, str(mode) if mode and mode.compute else None]
    return ", ".join(part for part in parts if part) or "GPUs of unknown kind"
