"""A sweep by rccl-tests before it starts: its launches, and what of them the session has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rccltune.launch import variables
from rccltune.measure import launch_order, one_launch
from rccltune.measure.instrument import same_machine, same_setup, setup_of
from rccltune.measure.launch_order import UnmeasuredSetting
from rccltune.measure.rccl_tests import RcclTestsSetup
from rccltune.measure.request import Request, site_keys
from rccltune.measure.site import Site, find_site
from rccltune.model import defaults
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.failure import Quarantine
from rccltune.model.measurement import Launch, Outcome, Sweep
from rccltune.model.ranges import Range
from rccltune.model.settings import Role
from rccltune.perf import plan
from rccltune.session import place, store
from rccltune.session.launches import setting_of
from rccltune.session.samples import (
    Ended,
    covers,
    is_good,
    quarantines,
)
from rccltune.session.store import NODE_FILE, SessionSetup

GRAPH: Final = "graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLaunches:
    """A sweep by rccl-tests that could start now.

    Attributes:
        launches: all of the plan, in their order.
        left_out: settings that are not measured here, each with the reason.
        ended: launches that the session has.
        cleared: variables of the site that no rank sees where a setting is forced.
        passed: variables of the site that every rank sees.
        filled: what hidden files set in every rank, as (file, name, value).
        remarks: what a user should know before it starts.
    """

    folder: Path
    setup: SessionSetup
    sweep: Sweep
    where: RcclTestsSetup
    launches: tuple[Launch, ...]
    left_out: tuple[UnmeasuredSetting, ...]
    timeout_s: float | None
    budget_s: float | None
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]
    filled: tuple[tuple[str, str, str], ...]
    remarks: tuple[str, ...]
    keys: Mapping[str, Any]
    ended: list[Ended] = field(default_factory=list)

    @property
    def left(self) -> tuple[Launch, ...]:
        """Launches still to be made."""
        return tuple(one for one in self.launches if self.is_left(one))

    @property
    def aside(self) -> tuple[Quarantine, ...]:
        """Settings that are measured no more."""
        return quarantines(self.ended)

    @property
    def spent_s(self) -> float:
        """Seconds that the session's launches took."""
        return sum(outcome.duration_s or 0.0 for _, outcome in self.ended)

    @property
    def outcomes(self) -> list[Outcome]:
        """How the session's launches ended."""
        return [outcome for _, outcome in self.ended]

    def expected_s(self, launches: Sequence[Launch]) -> float:
        """Seconds that launches roughly take."""
        return launch_order.expected_s(launches, self.sweep, self.where.site, self.outcomes)

    def made(self, planned: Launch) -> list[Ended]:
        """Every attempt at a planned launch."""
        return [pair for pair in self.ended if _planned(pair[0]) == planned.id]

    def is_left(self, planned: Launch) -> bool:
        """Whether a planned launch is still to be made."""
        made = self.made(planned)
        return not any(map(is_good, made)) and not any(covers(one, planned) for one in self.aside)

    def next_attempt(self, planned: Launch) -> Launch:
        """The launch to make; failed attempts keep their folders."""
        attempt = max((one.attempt for one, _ in self.made(planned)), default=-1) + 1
        following = replace(planned, attempt=attempt)
        return replace(following, id=store.launch_id(following))

    def shell_lines(self) -> dict[str, tuple[str, int]]:
        """What is still to be started, as for a shell: what it measures, and how often."""
        found: dict[str, tuple[str, int]] = {}
        for one in self.left:
            own = self.folder.resolve() / one_launch.FOLDER / "ID"
            line = one_launch.shell_line(one, self.where, own)
            what, n = found.get(line, (what_of(one), 0))
            found[line] = (what, n + 1)
        return found

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "runner": defaults.RUNNER,
            "launches": [
                {
                    "id": one.id,
                    "collective": one.collectives[0].value,
                    "setting": str(setting_of(one)),
                    "argv": list(one.argv),
                    "environment": dict(one.environment),
                }
                for one in self.left
            ],
            "left_out": list(map(str, self.left_out)),
            "cleared": dict(self.cleared),
            "passed": dict(self.passed),
            "hidden": [list(item) for item in self.filled],
            "estimate_s": round(self.expected_s(self.left), 1),
            "simulated": self.where.site.node is not None,
        }


def _planned(one: Launch) -> str:
    """The planned launch that a launch is an attempt at."""
    return store.launch_id(replace(one, attempt=0))


def prepare_launches(request: Request, folder: Path) -> PreparedLaunches:
    """Find out what is there, what was asked for, and what of it the session already has.

    Nothing is started or written.

    Args:
        request: all of it.
        folder: the session.

    Raises:
        CommandLineError: what was said does not fit together.
        MachineError: no benchmark or no launcher.
        SessionError: the session is of another machine, runner, library or environment.
    """
    site = find_site(request.site)
    if request.sweep.wanted or request.workload is not None:
        raise CommandLineError(
            "rccl-tests step through a range of sizes, and call no single ones",
            hint="leave --runner out for the sizes of a workload, or say a range.",
        )
    for setting in request.sweep.settings:
        if setting.role is not Role.FORCED:
            raise CommandLineError(
                f"'{setting}' cannot be forced: a setting names an algorithm and a protocol",
                hint="write ring/ll128 or ring/ll128/16; the baseline is measured anyway.",
            )
    setup = setup_of(request.site, site)
    same_setup(folder, setup)
    same_machine(folder, site)
    place.same_place(folder, site.seating)
    found = request.sweep
    mode = site.fingerprint.mode
    if not request.named_sizes and mode is not None and mode.compute == "CPX":
        found = replace(found, max_nbytes=defaults.MAX_NBYTES_CPX)
    sweep, uncallable = _callable(
        replace(found, rank_placement=site.seating.place.name, scales=(site.scale,))
    )
    seen = variables.launch_environment(
        os.environ, site.environment, clear=site.cleared, keep=variables.CHANNELS
    )
    proof, remark = launch_order.proof_of(site, seen.variables)
    planned = launch_order.launch_order_of(
        sweep,
        site,
        proof,
        repeats=request.communicators,
        graph=request.timing == GRAPH,
        tells=not any(name.startswith("NCCL_DEBUG") for name in seen.variables),
    )
    filled = tuple(
        (str(one.path), name, value)
        for one in site.hidden
        for name, value in one.fills(seen.variables)
    )
    return PreparedLaunches(
        folder=folder,
        setup=setup,
        sweep=sweep,
        where=RcclTestsSetup(site=site, node=None if site.node is None else folder / NODE_FILE),
        launches=planned.launches,
        left_out=planned.left_out,
        timeout_s=request.timeout_s,
        budget_s=request.budget_s,
        cleared=seen.cleared,
        passed=seen.passed,
        filled=filled,
        remarks=(*site.remarks, *uncallable, *([remark] if remark else [])),
        keys={
            **site_keys(request.site, folder),
            "communicators": request.communicators,
            "timing": request.timing,
        },
        ended=list(store.read_launches(folder)),
    )


def _callable(sweep: Sweep) -> tuple[Sweep, list[str]]:
    """The sweep of collectives that can be called with some size, and what else there was.

    Raises:
        CommandLineError: nothing is left.
    """
    every = Range(
        min_nbytes=sweep.min_nbytes, max_nbytes=sweep.max_nbytes, factor=sweep.factor
    ).sizes
    n_ranks = sweep.scales[0].n_ranks
    empty = [one for one in sweep.collectives if not plan.sizes_for(every, one, n_ranks)]
    if len(empty) == len(sweep.collectives):
        raise CommandLineError(
            f"nothing of what was asked for can be called by {n_ranks} ranks",
            hint="ask for larger sizes (--max-bytes).",
        )
    kept = tuple(one for one in sweep.collectives if one not in empty)
    said = [
        f"Not measured: {one.value}: no size is large enough for {n_ranks} ranks" for one in empty
    ]
    return replace(sweep, collectives=kept), said


def refuse_hidden_choices(filled: Sequence[tuple[str, str, str]], site: Site) -> None:
    """Stop where a file chooses for every launch, which the environment cannot take back.

    Raises:
        MachineError: one does.
    """
    choosing = [item for item in filled if variables.chooses(item[1], site.cleared)]
    if choosing:
        path = choosing[0][0]
        said = "; ".join(f"{where} sets {name}={value}" for where, name, value in choosing)
        raise MachineError(
            f"a configuration file chooses for every launch, the baseline's too: {said}",
            where=path,
            hint=f"mv {path} {path}.off while measuring.",
        )


def what_of(one: Launch) -> str:
    """``all_reduce ring/ll``: what a launch measures."""
    return f"{one.collectives[0].value} {setting_of(one)}"
