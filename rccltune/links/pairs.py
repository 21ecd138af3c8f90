"""Sendrecv between pairs of devices: the launches of a link map and what each pair gave."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rccltune.machine.links import DevicePair
from rccltune.machine.visible_devices import VISIBLE, variables_that_choose
from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall, BenchmarkResult, RcclTestsSetup
from rccltune.measure.site import Site
from rccltune.model.errors import MachineError
from rccltune.model.measurement import StatedFacts
from rccltune.model.reporter import Reporter
from rccltune.model.settings import BASELINE, Scale
from rccltune.model.vocabulary import Collective, Placement, format_size
from rccltune.session import files

# The smallest size of AMD's own tables, and the one of its transfers over a link (ROCm blog on
# xGMI, 2025-03-02): long enough that latency is 1 % of a link's time.
SMALL: Final = 8
LARGE: Final = 64 << 20
FOLDER: Final = "links"
NODE_FILE: Final = "node.node"
PAIR: Final = Scale(n_nodes=1, n_ranks=2)
# Twenty calls of 13 µs are over before clocks have risen.
_ITERATIONS: Final = 100
# Pairs of each class of links, and launches of each pair.
PER_CLASS: Final = 3
REPEATS: Final = 3


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
        return self.folder / FOLDER


@dataclass(frozen=True, slots=True, kw_only=True)
class PairProgress:
    """Told after every launch; ``failure`` is None where it gave both times."""

    number: int
    of: int
    pair: DevicePair
    failure: str | None
    seconds: float


class PairResult:
    """Times of one pair of devices so far."""

    def __init__(self) -> None:
        """Begin with no launch made."""
        self.small: list[float] = []
        self.large: list[float] = []
        self.launches: list[str] = []
        self.failure: str | None = None
        self.library: str | None = None

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


def measure_pairs(
    prepared: LinkMapPlan, pairs: Mapping[DevicePair, PairResult], reporter: Reporter
) -> None:
    """Run what is missing, in rounds over all pairs, so that a drift hits every class alike.

    A pair that fails is left out of later rounds; launches that ended well are never repeated.

    Raises:
        MachineError: the machine changed meanwhile.
    """
    seconds: list[float] = []
    number = 0
    for turn in range(REPEATS):
        for pair, tried in pairs.items():
            number += 1
            if tried.failure is not None:
                continue
            own = (
                prepared.links / "launches" / f"pair-{pair.first.index}-{pair.second.index}-{turn}"
            )
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
            done = _launched(prepared, pair, own, stated, rccl_tests.limit_s(seconds))
            if changes := prepared.site.changed():
                raise MachineError(
                    f"the machine changed during a launch: {'; '.join(changes)}",
                    hint="measure it anew into another session.",
                )
            tried.take(done)
            seconds += [done.seconds] if tried.failure is None else []
            reporter.progress(
                PairProgress(
                    number=number,
                    of=len(pairs) * REPEATS,
                    pair=pair,
                    failure=tried.failure,
                    seconds=done.seconds,
                )
            )


def _launched(
    prepared: LinkMapPlan, pair: DevicePair, own: Path, stated: StatedFacts, limit_s: float
) -> BenchmarkResult:
    site = prepared.site
    first, second = pair.first.index, pair.second.index
    added = list(variables_that_choose(prepared.vendor, first, second))
    with files.disk_errors(own):
        shutil.rmtree(own, ignore_errors=True)
    return rccl_tests.launch(
        RcclTestsSetup(site=site, node=None if site.node is None else prepared.links / NODE_FILE),
        _command(site),
        own,
        stated,
        added=added,
        # The site's choice of devices is in the pairs already; a second one would index the first.
        removed=VISIBLE,
        timeout_s=limit_s,
    )


def _command(site: Site) -> tuple[str, ...]:
    call = BenchmarkCall(
        collective=Collective.SENDRECV,
        min_nbytes=SMALL,
        max_nbytes=LARGE,
        factor=LARGE // SMALL,
        placements=(Placement.OUT_OF_PLACE,),
        iterations=_ITERATIONS,
    )
    alone = site.launcher.flavour == "none" and site.node is None
    # One process then has both devices.
    n_gpus = PAIR.n_ranks if alone else 1
    return rccl_tests.command(site, call, n_started=PAIR.n_ranks, n_gpus=n_gpus)
