"""Sendrecv between pairs of devices: the launches of a link map and what each pair gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.machine.links import DevicePair
from rccltune.machine.visible_devices import VISIBLE, variables_that_choose
from rccltune.measure import one_launch, rccl_tests
from rccltune.measure.one_launch import LaunchResult
from rccltune.measure.rccl_tests import BenchmarkCall, RcclTestsSetup
from rccltune.measure.site import Site
from rccltune.model.measurement import Launch, Outcome, Sample, Status
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective, Placement, UnusableReason, format_size
from rccltune.session import store
from rccltune.session.launches import read_launch

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

    def take(self, one: Launch, outcome: Outcome, samples: Sequence[Sample]) -> None:
        """One launch more."""
        self.launches.append(one.id)
        self.failure = _failure(outcome, samples)
        self.library = outcome.library_version or self.library
        if self.failure is None:
            self.small.append(_time(samples, SMALL) or 0.0)
            self.large.append(_time(samples, LARGE) or 0.0)


def _failure(outcome: Outcome, samples: Sequence[Sample]) -> str | None:
    """Why a launch gave no figures; wrong results are none."""
    if outcome.status is not Status.OK:
        return outcome.notices[-1].message if outcome.notices else "it failed and said nothing"
    if any(sample.doubt is UnusableReason.WRONG for sample in samples):
        return UnusableReason.WRONG.meaning
    gone = [format_size(nbytes) for nbytes in (SMALL, LARGE) if _time(samples, nbytes) is None]
    return f"its table has no usable row of {' and '.join(gone)}" if gone else None


def _time(samples: Sequence[Sample], nbytes: int) -> float | None:
    """Out of place: older releases have no in-place half for sendrecv."""
    for sample in samples:
        if (
            sample.nbytes == nbytes
            and sample.key.placement is Placement.OUT_OF_PLACE
            and sample.doubt is None
        ):
            return sample.time_us
    return None


def measure_pairs(
    prepared: LinkMapPlan, pairs: Mapping[DevicePair, PairResult], reporter: Reporter
) -> None:
    """Run what is missing, in rounds over all pairs, so that a drift hits every class alike.

    A pair that fails is left out of later rounds; launches that ended well are never repeated.

    Raises:
        MachineError: the machine changed meanwhile.
    """
    ended = {one.id: outcome for one, outcome in store.read_launches(prepared.links)}
    outcomes = [outcome for outcome in ended.values() if outcome.status is Status.OK]
    number = 0
    for turn in range(REPEATS):
        for pair, tried in pairs.items():
            number += 1
            if tried.failure is not None:
                continue
            one = _launch(prepared, pair, turn)
            known = ended.get(one.id)
            if known is not None and known.status is Status.OK:
                tried.take(one, known, read_launch(one, prepared.links, known))
                continue
            one_launch.stop_if_changed(prepared.site, "before")
            ran = _run(prepared, one, outcomes)
            outcomes.append(ran.outcome)
            tried.take(one, ran.outcome, ran.samples)
            one_launch.stop_if_changed(prepared.site, "during")
            reporter.progress(
                PairProgress(
                    number=number,
                    of=len(pairs) * REPEATS,
                    pair=pair,
                    failure=tried.failure,
                    seconds=ran.outcome.duration_s or 0.0,
                )
            )


def _run(prepared: LinkMapPlan, one: Launch, outcomes: Sequence[Outcome]) -> LaunchResult:
    # The pair says which devices, and not the placement of a whole job.
    site = replace(prepared.site, seating=replace(prepared.site.seating, gpus=()))
    return one_launch.run_launch(
        one,
        RcclTestsSetup(site=site, node=None if site.node is None else prepared.links / NODE_FILE),
        prepared.links,
        timeout_s=one_launch.limit_s(outcomes),
        # The site's choice of devices is in the pairs already; a second one would index the first.
        removed=VISIBLE,
    )


def _launch(prepared: LinkMapPlan, pair: DevicePair, turn: int) -> Launch:
    site = prepared.site
    first, second = pair.first.index, pair.second.index
    environment = dict(site.environment)
    environment |= dict(variables_that_choose(prepared.vendor, first, second))
    if site.node is not None:
        environment["RCCLTUNE_SIM_LAUNCH"] = f"link {first}-{second} {turn}"
    launch = Launch(
        id="",
        argv=_command(site),
        environment=tuple(sorted(environment.items())),
        collectives=(Collective.SENDRECV,),
        scale=PAIR,
        rank_placement=pair.link.value,
        repeat=turn,
    )
    return replace(launch, id=store.launch_id(launch))


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
