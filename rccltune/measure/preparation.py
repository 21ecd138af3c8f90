"""A sweep before it runs: what is planned, and what of that the session already has."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rccltune.launch import variables
from rccltune.machine import overrides
from rccltune.measure import searching, variants
from rccltune.measure.instrument import same_machine, same_runner
from rccltune.measure.launches import CLOCK, TELL_TUNER, choosing
from rccltune.measure.ledger import Ledger, open_ledger
from rccltune.measure.request import Request, site_keys
from rccltune.measure.searching import Search
from rccltune.measure.site import Site
from rccltune.model.failure import Quarantine
from rccltune.model.measured import Launch, Outcome, Sample, Sweep
from rccltune.model.settings import KNOWN_VARIANTS, LL128_FORCED
from rccltune.plan import rounds, walks
from rccltune.plan.launches import Ground, Impossible, Plan, arms, repeat_letter, sizes_of, with_ids
from rccltune.plan.launches import estimate_s as plan_estimate_s
from rccltune.plan.launches import plan as plan_plan
from rccltune.plan.variants import controls, plan_variants
from rccltune.session import place, store
from rccltune.session.launches import channels_in, name_of, read_launch
from rccltune.session.samples import barred, counted, doubted
from rccltune.session.store import NODE_FILE

# Samples of launches by their ids, where they were read already.
Read = dict[str, tuple[Sample, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A sweep that could start now.

    Attributes:
        plan: every launch that is planned as far as is known; a search adds to it.
        ledger: what the session already has.
        method: how settings are measured, and why so.
        search: None where everything is planned at once.
        varied: launches of variants, which no search plans.
        timeout_s: longest time for one launch, None to go by what launches take.
        budget_s: wall time for the launches of the session, those before included; None for
            as long as it takes.
        cleared: site variables that no rank will see.
        passed: site variables that every rank of every launch will see.
        filled: what hidden files set in every rank, as (file, name, value).
        refused: variants that cannot be measured here, each with the reason.
        left_out: sizes that are not measured, in words; of a workload what else is not.
        site_keys: what the user said about where, for the session's sweep.yaml.
    """

    folder: Path
    sweep: Sweep
    site: Site
    plan: Plan
    ledger: Ledger
    method: str
    search: Search | None
    varied: tuple[Launch, ...]
    timeout_s: float | None
    budget_s: float | None
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]
    filled: tuple[tuple[str, str, str], ...] = ()
    refused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    site_keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> tuple[Launch, ...]:
        """Launches still to be made."""
        return tuple(one for one in self.plan.launches if self.ledger.is_left(one))

    @property
    def done(self) -> tuple[Outcome, ...]:
        """Launches of the plan that ended well."""
        found = (self.ledger.done(one) for one in self.plan.launches)
        return tuple(pair[1] for pair in found if pair is not None)

    @property
    def quarantined(self) -> tuple[Quarantine, ...]:
        """Settings of the plan that are not tried any more."""
        return tuple(
            one
            for one in self.ledger.quarantined
            if any(barred([one], launch) for launch in self.plan.launches)
        )

    @property
    def estimate_s(self) -> float:
        """Seconds for what is left."""
        return self._seconds(self.left)

    @property
    def most_following(self) -> int:
        """Rounds of a search that may come after what is planned."""
        return 0 if self.search is None else self.search.most_following

    @property
    def most_s(self) -> float:
        """Seconds for what is left and for all rounds that may follow, each like the first."""
        if self.search is None or not self.most_following:
            return self.estimate_s
        return self.estimate_s + self.most_following * self._seconds(self.search.planned[0])

    def _seconds(self, launches: Sequence[Launch]) -> float:
        return plan_estimate_s(launches, self.sweep, self.done, self.site.start_s)


def prepare_request(request: Request, site: Site, folder: Path) -> Prepared:
    """Plan what a user asked for, with the variants that this site can have.

    Args:
        request: all of it.
        site: where.
        folder: the session.

    Raises:
        CommandLineError: a variant that nobody knows, a parameter that is missing, or a workload
            without a call of this scale.
        InputFileError: mistakes in the user's file of variants, all at once.
        MachineError: a variant's library is not there, or :func:`prepare` cannot.
        SessionError: the session is of another machine.
    """
    same_runner(folder, is_perf=False)
    wanted, refused = variants.with_variants(request, site)
    left_out: tuple[str, ...] = ()
    if request.workload is not None:
        named = request.named_collectives
        path = request.workload
        wanted, left_out = variants.with_sizes(wanted, path, site.scale, named_collectives=named)
    return prepare(
        wanted,
        site,
        folder,
        timeout_s=request.timeout_s,
        budget_s=request.budget_s,
        refused=refused,
        left_out=left_out,
        site_keys=site_keys(request.site, folder),
    )


def prepare(
    wanted: Sweep,
    site: Site,
    folder: Path,
    *,
    timeout_s: float | None,
    budget_s: float | None = None,
    refused: tuple[str, ...] = (),
    left_out: tuple[str, ...] = (),
    site_keys: Mapping[str, Any] | None = None,
) -> Prepared:
    """Plan a sweep and find out what of it the session already has. Nothing is started or written.

    Args:
        wanted: what is to be measured.
        site: where.
        folder: the session.
        timeout_s: longest time for one launch, None to go by what launches take.
        budget_s: wall time for all launches of the session.
        refused: variants that cannot be measured, for the user to know.
        left_out: of a workload, for the user to know.
        site_keys: what the user said about where.

    Raises:
        CommandLineError: the benchmark can call nothing with these sizes.
        SessionError: the session is of another machine.
    """
    wanted, uncallable = variants.callable_only(wanted, site.scale)
    wanted = replace(
        wanted,
        rank_placement=site.seating.place.name,
        scales=(site.scale,),
    )
    own = {one.name: one for one in wanted.variants}
    ground = replace(ground_of(site), ll128=own.get(LL128_FORCED.name, LL128_FORCED))
    parts = rounds.parted(wanted, ground, site.start_s)
    method, hindrance = _method(parts, wanted, ground)
    search = None
    # A search would have little to look for at a few sizes.
    if parts:
        made = _in_parts(parts, ground)
    elif hindrance is not None:
        made = plan_plan(wanted, ground)
    else:
        search = searching.begin(wanted, ground)
        made = Plan(
            launches=search.launches, impossible=arms(replace(wanted, counts=()), ground)[1]
        )
    named = replace(made, launches=_named(made.launches, site, timeout_s, is_first=True))
    if search is not None:
        search = replace(search, planned=(named.launches,))
    others = [
        one
        for part in parts or (wanted,)
        for one in plan_variants(part, ground, walks=hindrance is None)
    ]
    varied = _named(others, site, timeout_s, is_first=False)
    named = replace(named, launches=(*named.launches, *varied))
    same_machine(folder, site)
    place.same_place(folder, site.seating)
    ledger = open_ledger(folder)
    seen = variables.environment(os.environ, site.environment, clear=site.cleared)
    prepared = Prepared(
        folder=folder,
        sweep=wanted,
        site=site,
        plan=named,
        ledger=ledger,
        method=method,
        search=search,
        varied=varied,
        timeout_s=timeout_s,
        budget_s=budget_s,
        cleared=seen.cleared,
        passed=seen.passed,
        filled=tuple(
            (str(one.path), name, value)
            for one in site.hidden
            for name, value in one.fills(seen.variables)
        ),
        refused=refused,
        left_out=(*left_out, *uncallable),
        site_keys=site_keys or {},
    )
    return caught_up(prepared, {})


def _in_parts(parts: Sequence[Sweep], ground: Ground) -> Plan:
    """Each range whole, one after the other."""
    launches: list[Launch] = []
    impossible: dict[Impossible, None] = {}
    for part in parts:
        can_walk = walks.why_no_walk(part, ground) is None
        made = walks.plan_walks(part, ground) if can_walk else plan_plan(part, ground)
        launches += made.launches
        impossible |= dict.fromkeys(made.impossible)
        if can_walk and part is parts[0]:
            launches += controls(part, ground)
    return Plan(launches=tuple(launches), impossible=tuple(impossible))


def ground_of(site: Site) -> Ground:
    """What launches can be planned on."""
    return Ground(
        programs=site.programs,
        letters=site.help_letters,
        launch=lambda n_ranks, program: site.launcher.argv(
            # Groups that run side by side have fewer ranks each than are started.
            site.seating.n_started if n_ranks == site.scale.n_ranks else n_ranks,
            program,
            bind=site.binding,
            hostfile=site.hostfile,
        ),
        scale=site.scale,
        arch=site.fingerprint.arch,
        has_patched_library=site.has_patched_library,
        environment=_environment(site),
        tunerless=site.tunerless,
        shares=site.launcher.shares,
    )


def _method(parts: Sequence[Sweep], wanted: Sweep, ground: Ground) -> tuple[str, str | None]:
    """How settings are measured, in words, and what stands against one launch for many."""
    hindrance = walks.why_no_walk(parts[0] if parts else wanted, ground)
    if hindrance is None:
        how = "every setting at every size" if parts else "searching in rounds"
        said = f"many settings in each launch ({repeat_letter(ground)}), {how}"
    else:
        each = "one launch for each setting" + (f", {overrides.HOW}" if ground.tunerless else "")
        said = f"{each}, since {hindrance}"
    return f"{said}, of a workload's" if parts else said, hindrance


def _named(
    launches: Sequence[Launch], site: Site, timeout_s: float | None, *, is_first: bool
) -> tuple[Launch, ...]:
    """Launches with all that they need, and their ids."""
    complete = tuple(completed(one, site, timeout_s) for one in launches)
    told = _tell_tuner(complete) if is_first else complete
    made = Plan(launches=told, impossible=())
    return with_ids(made, store.launch_id).launches


def caught_up(prepared: Prepared, known: Read) -> Prepared:
    """The plan as far as what the session has decides it."""
    while prepared.search is not None and not prepared.search.is_over:
        # Variants are measured with the first round, so that a later one has their launches too.
        before = (*prepared.search.planned[-1], *prepared.varied)
        if any(prepared.ledger.is_left(one) for one in before):
            break
        prepared = next_round(prepared, prepared.search, known)
    return prepared


def next_round(prepared: Prepared, search: Search, known: Read) -> Prepared:
    """Decide what follows the launches that have ended."""
    ended = _ended(prepared)
    site = prepared.site
    samples = samples_so_far(prepared, known)
    told = prepared.ledger.done(search.planned[0][0])
    own = channels_in(prepared.folder / "launches" / told[0].id) if told else ()
    made = searching.step(
        search,
        samples,
        ended,
        start_s=site.start_s,
        most_channels=max(own, default=None),
        library=library_of(prepared, samples),
    )
    named = _named(made.planned[-1], prepared.site, prepared.timeout_s, is_first=False)
    made = replace(made, planned=(*made.planned[:-1], named))
    launches = (*made.launches, *prepared.varied)
    return replace(prepared, search=made, plan=replace(prepared.plan, launches=launches))


def library_of(prepared: Prepared, samples: Sequence[Sample]) -> searching.Library:
    """What the launches so far show of the library as it is."""
    return searching.library_of(prepared.folder, _ended(prepared), samples)


def _ended(prepared: Prepared) -> list[tuple[Launch, Outcome]]:
    """All that was made for the plan and came to its own end: what decides how it goes on."""
    found = [pair for one in prepared.plan.launches for pair in prepared.ledger.of(one)]
    own = [pair for pair in found if not pair[1].was_cut_off]
    return list({one.id: (one, outcome) for one, outcome in counted(own)}.values())


def samples_so_far(prepared: Prepared, known: Read) -> list[Sample]:
    """Samples of the plan's launches that came to their own end; ``known`` keeps what was read."""
    ended = _ended(prepared)
    for one, outcome in ended:
        if one.id not in known:
            known[one.id] = read_launch(one, prepared.folder, outcome)
    found = [sample for one, _ in ended for sample in known[one.id]]
    return doubted(found, ended)


def _environment(site: Site) -> tuple[tuple[str, str], ...]:
    if site.node is None:
        return site.environment
    return (
        *site.environment,
        ("RCCLTUNE_SIM_NODE", "{session}/" + NODE_FILE),
        # Of what has ended: a launch that is made again begins when it began before.
        ("RCCLTUNE_SIM_EPOCH", "{clock}"),
        ("RCCLTUNE_SIM_CLOCK", "{launch}/" + CLOCK),
    )


def completed(one: Launch, site: Site, timeout_s: float | None) -> Launch:
    """Add what forcing needs, and the time limit."""
    extra = dict(choosing(one, tunerless=site.tunerless is not None, tells=site.tells))
    if site.node is not None:
        # Noise depends on what is measured and not on how it is started, so that one process
        # and 64 give the same samples.
        name = f"{one.collectives[0].value} {name_of(one)} {one.repeat}"
        if one.round or one.variant.name not in KNOWN_VARIANTS:
            name += f" {one.variant.name} {one.round} {sizes_of(one)}"
        if one.beside is not None:
            name += f" beside {one.beside.collective.value} {one.beside.nbytes}"
        extra["RCCLTUNE_SIM_LAUNCH"] = name
        if one.variant.one_process:
            extra["RCCLTUNE_SIM_RANKS"] = "1"
        if one.variant.patched:
            extra["RCCLTUNE_SIM_PATCHES"] = "force-tree-simple"
    environment = tuple(sorted({**dict(one.environment), **extra}.items()))
    return replace(one, environment=environment, timeout_s=timeout_s)


def _tell_tuner(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Let the first launch say which tuner the site uses, unless the site logs by itself."""
    first = launches[0] if launches else None
    if first is None or any(name.startswith("NCCL_DEBUG") for name in os.environ):
        return tuple(launches)
    environment = tuple(sorted({**dict(first.environment), **dict(TELL_TUNER)}.items()))
    return (replace(first, environment=environment), *launches[1:])
