"""The link map: sendrecv of the rank program between pairs of devices of each class, drawn.

Each pair is a start of two ranks of its own, kept as a sweep's runs are (``links/pair-0-1/``): it
speaks of two devices, and is never pooled with those of a whole node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from rccltune.launch import signals
from rccltune.machine import device_pairs, placement
from rccltune.machine.device_pairs import DevicePair
from rccltune.machine.system import System
from rccltune.machine.visible_devices import VISIBLE, make_device_variables
from rccltune.measure.instrument import Instrument, check_same_machine, find_instrument
from rccltune.measure.rank_program import waiting_ranks
from rccltune.measure.site import SiteRequest
from rccltune.model.errors import LaunchError, MachineError
from rccltune.model.link_map import LinkClass, LinkMap, PairTimes
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, RankLocation, Scale
from rccltune.model.version import __version__
from rccltune.model.vocabulary import Collective, Placement
from rccltune.ranks import plan, runs
from rccltune.ranks.plan import CollectiveCall, Label, Step, TimingEffort
from rccltune.ranks.rows import rows_of_runs
from rccltune.ranks.runs import Run
from rccltune.session import files, lock, store
from rccltune.session.store import Session, SessionSetup
from rccltune.simulate import compiled

# The smallest size of AMD's own tables, and the one of its transfers over a link (ROCm blog on
# xGMI, 2025-03-02): long enough that latency is 1 % of a link's time.
SMALL: Final = 8
LARGE: Final = 64 << 20
PAIR: Final = Scale(n_nodes=1, n_ranks=2)
# Twenty calls of 13 µs are over before clocks have risen.
_EFFORT: Final = TimingEffort(least_us=1000, least_calls=100, most_us=1_000_000)
# Pairs of each class of links, and communicators of each pair.
PER_CLASS: Final = 3
REPEATS: Final = 3
_FOLDER: Final = "links"
_RECORD: Final = f"{_FOLDER}/links.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMapPlan:
    """A link map that could be measured now.

    Attributes:
        every: all pairs of the machine.
        chosen: those that are measured.
    """

    folder: Path
    instrument: Instrument
    machine: str
    vendor: str | None
    devices: tuple[int, ...]
    every: tuple[DevicePair, ...]
    chosen: tuple[DevicePair, ...]

    def folder_of(self, pair: DevicePair) -> Path:
        """Folder of a pair's runs."""
        return self.folder / _FOLDER / f"pair-{pair.first.index}-{pair.second.index}"


def stored_links(folder: Path) -> LinkMap | None:
    """The link map that a session has, None where it has none that can be read.

    Raises:
        SessionError: another format, or values that do not fit.
    """
    again = "use the rccltune that wrote it, or measure it anew in a new session."
    return store.read_derived(folder, _RECORD, LinkMap, hint=again)


def prepare_links(request: SiteRequest, folder: Path, *, system: System | None) -> LinkMapPlan:
    """Find out which pairs there are and what to measure them with. Nothing is started.

    Args:
        request: library, simulated node.
        folder: the session.
        system: this machine; None where a node is simulated.

    Raises:
        MachineError: no library, fewer than two GPUs, no topology.
        SessionError: the session is of another machine.
    """
    gpus = device_pairs.find_usable_devices(system, os.environ) if system is not None else ()
    # Of a sweep's ranks two are left, on this host.
    pair = replace(request, n_ranks=PAIR.n_ranks, placement=None, hostfile=None, launcher="local")
    instrument = find_instrument(pair, folder / _FOLDER, None, must_choose=False)
    if instrument.site.node is not None:
        system = placement.make_simulated_system(instrument.site.node)
        gpus = device_pairs.find_usable_devices(system, os.environ)
    if system is None:
        raise AssertionError("a real machine was looked at")
    check_same_machine(folder, instrument.site, is_perf=True)
    every = device_pairs.pair_devices(gpus, system.links)
    known = instrument.site.fingerprint
    mode = str(known.mode) if known.mode and known.mode.compute else ""
    words = (known.product or system.product or "GPUs of unknown kind", mode)
    return LinkMapPlan(
        folder=folder,
        instrument=instrument,
        machine=", ".join(filter(None, words)),
        vendor=system.vendor,
        devices=tuple(sorted(gpu.index for gpu in gpus)),
        every=every,
        chosen=device_pairs.choose_pairs(every, PER_CLASS),
    )


def measure_links(prepared: LinkMapPlan, *, reporter: Reporter, command: str) -> LinkMap:
    """Measure every chosen pair and write the record.

    A pair that fails is shown as failed. Pairs that ended well are never repeated, so the same
    command continues what was interrupted.

    Raises:
        LaunchError: every pair failed.
        MachineError: the machine changed meanwhile.
        SessionError: another writer, or the disk refuses.
        KeyboardInterrupt: after all that was started is gone.
    """
    site = prepared.instrument.site
    with lock.lock_session(prepared.folder, reporter), signals.interruptible():
        if not (prepared.folder / store.HEADER).exists():
            header = Session(
                path=prepared.folder,
                command=command,
                tool=f"rccltune {__version__}",
                fingerprint=site.fingerprint,
                setup=SessionSetup(),
            )
            store.write_header(header)
        if site.node is not None:
            node = prepared.folder / _FOLDER / store.NODE_FILE
            files.write_atomically(node, compiled.compile_node(site.node))
        link_map = _make_link_map(prepared, tuple(_measure_missing(prepared, reporter)))
        if len(link_map.failed) == len(link_map.pairs):
            first = link_map.failed[0]
            raise LaunchError(
                f"sendrecv works between no two devices: {first.failure}",
                where=str(prepared.folder / first.log),
                hint="run its command by hand (run.json has it) until it works.",
            )
        store.write_derived(prepared.folder, _RECORD, link_map)
    return link_map


def _measure_missing(prepared: LinkMapPlan, reporter: Reporter) -> list[PairTimes]:
    """Times of each chosen pair; those that no run has are measured."""
    every = []
    for number, pair in enumerate(prepared.chosen, start=1):
        earlier = (_read_times(pair, run) for run in runs.read_runs(prepared.folder_of(pair)))
        times = next((one for one in earlier if one.failure is None), None)
        if times is None:
            times = _read_times(pair, _run_pair(prepared, pair))
            if changes := prepared.instrument.site.changed():
                raise MachineError(
                    f"the machine changed during a launch: {'; '.join(changes)}",
                    hint="measure it anew into another session.",
                )
            reporter.say(
                f"[{number}/{len(prepared.chosen)}] devices {pair.first.index} and "
                f"{pair.second.index}, {pair.link.meaning}: {times.failure or 'ok'}"
            )
        every.append(times)
    return every


def _run_pair(prepared: LinkMapPlan, pair: DevicePair) -> Run:
    """A start of two ranks on a pair's devices: communicators with both sizes."""
    ground, numbers = prepared.instrument.ground, (pair.first.index, pair.second.index)
    chosen = make_device_variables(prepared.vendor, *numbers)
    added = dict(ground.added) | dict(chosen)
    ground = replace(
        ground,
        place=RankLocation(name=pair.link.value, scale=PAIR, devices=numbers),
        added=tuple(added.items()),
        # The site's own choice is in the pairs already; a second one would index the first.
        cleared=(*ground.cleared, *VISIBLE),
    )
    small, large = (
        CollectiveCall(Collective.SENDRECV, "float", "sum", Placement.OUT_OF_PLACE, nbytes)
        for nbytes in (SMALL, LARGE)
    )
    first = plan.CHECK if prepared.instrument.checked_up_to != 0 else plan.CALL
    steps = [
        # The first calls connect the ranks.
        *[Step(first, BASELINE, small)] * 3,
        *(Step(plan.MEASURE, BASELINE, one, plan.LOOP, _EFFORT) for one in (small, large)),
    ]
    folder = prepared.folder_of(pair)
    with waiting_ranks(ground, folder, site=os.environ, with_plugin=False, largest=LARGE) as ranks:
        ranks.make({Label(plan.SITE, number): steps for number in range(REPEATS)})
    return ranks.run


def _read_times(pair: DevicePair, run: Run) -> PairTimes:
    """Times that a run has of its pair."""
    table = rows_of_runs([run])
    timed = table[(table["step"] == plan.MEASURE) & (table["note"] == "")].dropna(
        subset=["time_us"]
    )
    small, large = (
        tuple(timed.loc[timed["asked_nbytes"] == nbytes, "time_us"].astype(float))
        for nbytes in (SMALL, LARGE)
    )
    end, failure = run.ended, None
    if end is not None and end.failure is not None:
        failure = f"it {end.failure.words}{f' ({end.words})' if end.words else ''}"
    elif (table["wrong"] > 0).any():
        failure = "its results are wrong"
    elif not len(small) == len(large) == REPEATS:
        failure = "it was interrupted"
    return PairTimes(
        first=pair.first.index,
        second=pair.second.index,
        names=(pair.first.address, pair.second.address),
        link=pair.link,
        small_us=small,
        large_us=large,
        run=run.number,
        failure=failure,
    )


def _make_link_map(prepared: LinkMapPlan, pairs: tuple[PairTimes, ...]) -> LinkMap:
    site = prepared.instrument.site
    return LinkMap(
        machine=prepared.machine,
        simulated=site.node is not None,
        node=site.node.name if site.node is not None else None,
        measured=datetime.now(tz=timezone.utc).isoformat(timespec="seconds"),
        library=site.library,
        small_nbytes=SMALL,
        large_nbytes=LARGE,
        repeats=REPEATS,
        devices=prepared.devices,
        grid=_make_grid(prepared),
        pairs=pairs,
    )


def _make_grid(prepared: LinkMapPlan) -> tuple[str, ...]:
    order: Mapping[LinkClass, str] = {link: str(at) for at, link in enumerate(LinkClass)}
    cells = {}
    for pair in prepared.every:
        a, b = pair.first.index, pair.second.index
        cells[a, b] = cells[b, a] = order[pair.link]
    return tuple(
        "".join("-" if a == b else cells[a, b] for b in prepared.devices) for a in prepared.devices
    )


def draw_links(link_map: LinkMap, folder: Path, *, anew: bool) -> tuple[Path, ...]:
    """The map as plots/links.svg and .png in the session.

    Args:
        link_map: what to draw.
        folder: the session.
        anew: draw although the pictures are there.

    Raises:
        SessionError: the disk refuses.
    """
    from rccltune.report import plots

    paths = tuple(folder / f"plots/links.{kind}" for kind in plots.LINK_FORMATS)
    if not anew and all(path.exists() for path in paths):
        return paths
    return plots.draw_links(link_map, folder / "plots")
