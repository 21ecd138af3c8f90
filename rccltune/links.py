"""The link map: sendrecv between pairs of devices of each class, measured and drawn.

The launches are kept as a sweep's are, in a folder of their own (``links/``), because they speak
of two devices each and must never be pooled with those of a whole node.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from rccltune import __version__
from rccltune.launch import signals
from rccltune.machine import links, placement, records
from rccltune.machine.links import DevicePair
from rccltune.machine.visible_devices import VISIBLE, variables_that_choose
from rccltune.measure import instrument, rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.site import Site, SiteRequest, find_site
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.links import LinkClass, LinkMap, PairTimes
from rccltune.model.measurement import StatedFacts
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, Scale
from rccltune.model.vocabulary import Collective, Placement, format_size
from rccltune.session import files, store
from rccltune.session.store import Session, SessionSetup
from rccltune.simulate import compiled

# The smallest size of AMD's own tables, and the one of its transfers over a link (ROCm blog on
# xGMI, 2025-03-02): long enough that latency is 1 % of a link's time.
SMALL: Final = 8
LARGE: Final = 64 << 20
PAIR: Final = Scale(n_nodes=1, n_ranks=2)
# Twenty calls of 13 µs are over before clocks have risen.
_ITERATIONS: Final = 100
# Pairs of each class of links, and launches of each pair.
PER_CLASS: Final = 3
REPEATS: Final = 3
_RECORD: Final = "links/links.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMapPlan:
    """A link map that could be measured now.

    Attributes:
        every: all pairs of the machine.
        chosen: those that are measured.
    """

    folder: Path
    site: Site
    machine: str
    vendor: str | None
    devices: tuple[int, ...]
    every: tuple[DevicePair, ...]
    chosen: tuple[DevicePair, ...]

    @property
    def links(self) -> Path:
        """Folder of the launches and of the record."""
        return self.folder / "links"


@dataclass(slots=True)
class _PairResult:
    """Times of one pair of devices so far, in µs."""

    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    failure: str | None = None
    library: str | None = None

    def take(self, done: BenchmarkResult) -> None:
        """One launch more."""
        self.launches.append(done.folder.name)
        self.library = done.library or self.library
        if done.table is None or done.failure is not None:
            self.failure = done.words
            return
        # Out of place: older releases have no in-place half for sendrecv.
        good = done.table[
            (done.table["unusable"] == "")
            & (done.table["placement"] == Placement.OUT_OF_PLACE.value)
        ]
        times = {int(row.nbytes): float(row.time_us) for row in good.itertuples()}
        gone = [format_size(nbytes) for nbytes in (SMALL, LARGE) if nbytes not in times]
        if gone:
            self.failure = f"its table has no usable row of {' and '.join(gone)}"
            return
        self.small.append(times[SMALL])
        self.large.append(times[LARGE])


def stored_links(folder: Path) -> LinkMap | None:
    """The link map that a session has, None where it has none that can be read.

    Raises:
        SessionError: another format, or values that do not fit.
    """
    again = "use the rccltune that wrote it, or measure it anew in a new session."
    return store.read_derived(folder, _RECORD, LinkMap, hint=again)


def prepare_links(
    request: SiteRequest, folder: Path, *, system: records.System | None
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
    mode = site.fingerprint.mode
    named = (site.fingerprint.product or system.product, str(mode) if mode and mode.compute else "")
    return LinkMapPlan(
        folder=folder,
        site=site,
        machine=", ".join(word for word in named if word) or "GPUs of unknown kind",
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
    site = prepared.site
    with files.writing(prepared.folder, reporter), signals.interruptible():
        if not (prepared.folder / "session.json").exists():
            header = Session(
                path=prepared.folder,
                command=command,
                tool=f"rccltune {__version__}",
                fingerprint=site.fingerprint,
                setup=SessionSetup(),
            )
            store.write_header(header)
        node = None if site.node is None else prepared.links / "node.node"
        if site.node is not None and node is not None:
            files.write_atomically(node, compiled.written(site.node))
        pairs = _measured(prepared, RcclTestsSetup(site=site, node=node), reporter)
        done = _link_map(prepared, pairs)
        if len(done.failed) == len(done.pairs):
            first = done.failed[0]
            raise LaunchError(
                f"sendrecv works between no two devices: {first.failure}",
                where=f"{prepared.links}/launches/{first.launches[-1]}/",
                hint="run its command by hand (command.txt has it) until it works.",
            )
        store.write_derived(prepared.folder, _RECORD, done)
    return done


def _measured(
    prepared: LinkMapPlan, where: RcclTestsSetup, reporter: Reporter
) -> dict[DevicePair, _PairResult]:
    """Run what is missing, in rounds over all pairs, so that a drift hits every class alike.

    A pair that fails is left out of later rounds.
    """
    pairs = {pair: _PairResult() for pair in prepared.chosen}
    seconds: list[float] = []
    turns = [(turn, pair) for turn in range(REPEATS) for pair in pairs]
    for number, (turn, pair) in enumerate(turns, start=1):
        tried = pairs[pair]
        if tried.failure is not None:
            continue
        first, second = pair.first.index, pair.second.index
        own = prepared.links / "launches" / f"pair-{first}-{second}-{turn}"
        stated = StatedFacts(
            collective=Collective.SENDRECV,
            setting=BASELINE,
            n_ranks=PAIR.n_ranks,
            n_nodes=PAIR.n_nodes,
            assume=(("rank_placement", pair.link.value),),
        )
        if rccl_tests.is_complete(own):
            tried.take(rccl_tests.read_launched(own, stated))
            continue
        with files.disk_errors(own):
            shutil.rmtree(own, ignore_errors=True)
        done = rccl_tests.launch(
            where,
            _command(where.site),
            own,
            stated,
            added=variables_that_choose(prepared.vendor, first, second),
            # The site's choice of devices is in the pairs already; a second one would index the
            # first.
            removed=VISIBLE,
            timeout_s=rccl_tests.limit_s(seconds),
        )
        if changes := where.site.changed():
            raise MachineError(
                f"the machine changed during a launch: {'; '.join(changes)}",
                hint="measure it anew into another session.",
            )
        tried.take(done)
        seconds += [done.seconds] if tried.failure is None else []
        reporter.say(
            f"[{number}/{len(turns)}] devices {first} and {second}, {pair.link.meaning}: "
            f"{tried.failure or 'ok'}, {done.seconds:.1f} s"
        )
    return pairs


def _command(site: Site) -> tuple[str, ...]:
    call = BenchmarkCall(
        collective=Collective.SENDRECV,
        min_nbytes=SMALL,
        max_nbytes=LARGE,
        factor=LARGE // SMALL,
        placements=(Placement.OUT_OF_PLACE,),
        iterations=_ITERATIONS,
    )
    # Without a launcher one process has both devices.
    alone = site.launcher.flavour == "none" and site.node is None
    n_gpus = PAIR.n_ranks if alone else 1
    return rccl_tests.command(site, call, n_started=PAIR.n_ranks, n_gpus=n_gpus)


def _link_map(prepared: LinkMapPlan, pairs: Mapping[DevicePair, _PairResult]) -> LinkMap:
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
        a, b = pair.first.index, pair.second.index
        cells[a, b] = cells[b, a] = order[pair.link]
    return tuple(
        "".join("-" if a == b else cells[a, b] for b in prepared.devices) for a in prepared.devices
    )


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


def links_json(done: LinkMap, folder: Path, pictures: Sequence[Path]) -> dict[str, Any]:
    """A link map for --json; times in µs, bandwidths in GB/s (1e9 B/s) of one direction."""
    return {
        "format": done.FORMAT,
        "session": folder,
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
                "link": row.link,
                "meaning": row.link.meaning,
                "pairs": row.n_there,
                "measured": row.n_measured,
                "failed": row.n_failed,
                "latency_us": row.latency_us,
                "gb_per_s": row.gb_per_s,
            }
            for row in done.rows
        ],
        "pairs": [
            {
                "devices": [pair.first, pair.second],
                "names": pair.names,
                "link": pair.link,
                "latency_us": pair.latency_us,
                "gb_per_s": done.bandwidth(pair),
                "failure": pair.failure,
                "logs": [f"links/launches/{one}" for one in pair.launches],
            }
            for pair in done.pairs
        ],
        "pictures": pictures,
    }
