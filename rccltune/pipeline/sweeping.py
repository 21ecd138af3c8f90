"""A sweep from wish to session: plan, run, read, prove, keep; stoppable and resumable anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rccltune import (
    __version__,
    config,
    interrupts,
    launch,
    plan,
    quarantine,
    session,
    simnode,
)
from rccltune.errors import CommandLineError, LaunchError, MachineError, SessionError
from rccltune.model import (
    KNOWN_VARIANTS,
    Expected,
    Launch,
    Outcome,
    Quarantine,
    Sample,
    Sweep,
    Variant,
)
from rccltune.pipeline import launching, searching, switching
from rccltune.pipeline.agreeing import Agreements, agreements
from rccltune.pipeline.ledger import Ledger, lift, open_ledger, samples_of, write_quarantine
from rccltune.pipeline.proving import name_of
from rccltune.pipeline.running import Tell, run_all
from rccltune.pipeline.searching import Search
from rccltune.pipeline.site import Site
from rccltune.session import Session

_NODE_FILE: Final = "node.node"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A sweep that could start now.

    Attributes:
        plan: every launch that is planned as far as is known; a search adds to it.
        ledger: what the session already has.
        method: how settings are measured, and why so.
        search: None where everything is planned at once.
        timeout_s: longest time for one launch, None to go by what launches take.
        budget_s: wall time for the launches of the session, those before included; None for
            as long as it takes.
        lifts: quarantined settings of the plan are tried again.
        cleared: site variables that no rank will see.
        passed: site variables that every rank of every arm will see.
        filled: what hidden files set in every rank, as (file, name, value).
    """

    folder: Path
    sweep: Sweep
    site: Site
    plan: plan.Plan
    ledger: Ledger
    method: str
    search: Search | None
    timeout_s: float | None
    budget_s: float | None
    lifts: bool
    cleared: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]
    filled: tuple[tuple[str, str, str], ...] = ()

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
            if any(quarantine.barred([one], launch) for launch in self.plan.launches)
        )

    @property
    def estimate_s(self) -> float:
        """Seconds for what is left."""
        return plan.estimate_s(self.left, self.sweep, self.done, self.site.start_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How a sweep ended.

    Attributes:
        n_launches: of the plan, those that ended well.
        failed: attempts that failed, forgiven or tried again with success among them.
        quarantined: settings of the plan that are not tried any more.
        left: walks that failed although no setting could be blamed.
        expected: regret that is still expected of the best choice; empty without a search.
        unaffordable: launches that the budget did not allow.
        agreements: silence beside the untouched site, one launch beside separate ones.
    """

    session: Session
    n_launches: int
    n_samples: int
    failed: tuple[Outcome, ...]
    quarantined: tuple[Quarantine, ...]
    left: tuple[Launch, ...]
    tuner: str | None
    expected: tuple[Expected, ...] = ()
    unaffordable: tuple[Launch, ...] = ()
    agreements: Agreements = field(default_factory=Agreements)

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "session": str(self.session.path),
            "simulated": self.session.simulated,
            "launches": self.n_launches,
            "samples": self.n_samples,
            "failed": [outcome.launch for outcome in self.failed],
            "quarantined": [
                {**session.to_plain(one), "reason": one.reason} for one in self.quarantined
            ],
            "left": [one.id for one in self.left],
            "tuner_of_baseline": self.tuner,
            "expected_regret": session.to_plain(self.expected),
            "unaffordable": [one.id for one in self.unaffordable],
            **self.agreements.as_plain(),
        }


Note = Callable[[str], None]


def prepare(
    wanted: Sweep,
    site: Site,
    folder: Path,
    *,
    timeout_s: float | None,
    budget_s: float | None = None,
    lifts: bool = False,
) -> Prepared:
    """Plan a sweep and find out what of it the session already has. Nothing is started or written.

    Args:
        wanted: the wish.
        site: where.
        folder: the session.
        timeout_s: longest time for one launch, None to go by what launches take.
        budget_s: wall time for all launches of the session.
        lifts: try quarantined settings again.

    Raises:
        SessionError: the session is of another machine.
        MachineError: this benchmark cannot walk, and a walk was asked for.
    """
    ground = plan.Ground(
        programs=site.programs,
        letters=site.help_letters,
        launch=lambda n_ranks, program: site.launcher.argv(
            n_ranks, program, bind=site.binding, hostfile=site.hostfile
        ),
        scale=site.scale,
        arch=site.fingerprint.arch,
        has_patched_library=site.has_patched_library,
        environment=_environment(site),
        tunerless=site.tunerless,
    )
    method, hindrance = _method(wanted, ground)
    search = None
    if hindrance is not None:
        made = plan.plan(wanted, ground)
    elif wanted.exhaustive:
        made = plan.plan_walks(wanted, ground)
        made = replace(made, launches=(*made.launches, *plan.controls(wanted, ground)))
    else:
        search = searching.begin(wanted, ground)
        made = plan.Plan(launches=search.launches, impossible=plan.arms(wanted, ground)[1])
    named = replace(made, launches=_named(made.launches, site, timeout_s, is_first=True))
    if search is not None:
        search = replace(search, planned=(named.launches,))
    same_machine(folder, site)
    ledger = open_ledger(folder)
    for one, outcome in ledger.blamed(named.launches) if lifts else ():
        ledger.add(one, replace(outcome, lifted=True))
    seen = launch.environment(os.environ, site.environment, clear=site.cleared)
    prepared = Prepared(
        folder=folder,
        sweep=wanted,
        site=site,
        plan=named,
        ledger=ledger,
        method=method,
        search=search,
        timeout_s=timeout_s,
        budget_s=budget_s,
        lifts=lifts,
        cleared=seen.cleared,
        passed=seen.passed,
        filled=tuple(
            (str(one.path), name, value)
            for one in site.hidden
            for name, value in one.fills(seen.variables)
        ),
    )
    return _caught_up(prepared, {})


def _method(wanted: Sweep, ground: plan.Ground) -> tuple[str, str | None]:
    """How settings are measured, in words, and what stands against one launch for many.

    Raises:
        MachineError: one launch was asked for, and something stands against it.
    """
    each = "one launch for each setting" + (f", {switching.HOW}" if ground.tunerless else "")
    if wanted.method == "per-setting":
        return f"{each}, as asked for", "asked for"
    hindrance = plan.why_no_walk(wanted, ground)
    if hindrance is None:
        how = "every setting at every size" if wanted.exhaustive else "searching in rounds"
        letter = "-N" if "N" in ground.letters else "-s"
        return f"one launch walks through many settings ({letter}), {how}", None
    if wanted.method == "one-launch":
        raise MachineError(
            f"--method one-launch cannot be used here: {hindrance}",
            hint="leave it out, or say --method per-setting.",
        )
    return f"{each}, since {hindrance}", hindrance


def _named(
    launches: Sequence[Launch], site: Site, timeout_s: float | None, *, is_first: bool
) -> tuple[Launch, ...]:
    """Launches with all that they need, and their ids."""
    complete = tuple(_completed(one, site, timeout_s) for one in launches)
    told = _tell_tuner(complete) if is_first else complete
    made = plan.Plan(launches=told, impossible=())
    return plan.with_ids(made, session.launch_id).launches


def _caught_up(prepared: Prepared, known: dict[str, tuple[Sample, ...]]) -> Prepared:
    """The plan as far as what the session has decides it."""
    while prepared.search is not None and not prepared.search.is_over:
        if any(prepared.ledger.is_left(one) for one in prepared.search.planned[-1]):
            break
        prepared = _next_round(prepared, prepared.search, known)
    return prepared


def _next_round(
    prepared: Prepared, search: Search, known: dict[str, tuple[Sample, ...]]
) -> Prepared:
    """Decide what follows the launches that have ended."""
    ended = _ended(prepared)
    site = prepared.site
    samples = _samples(prepared, known)
    made = searching.step(search, samples, ended, site.fingerprint.arch, site.start_s)
    named = _named(made.planned[-1], prepared.site, prepared.timeout_s, is_first=False)
    made = replace(made, planned=(*made.planned[:-1], named))
    return replace(prepared, search=made, plan=replace(prepared.plan, launches=made.launches))


def _ended(prepared: Prepared) -> list[tuple[Launch, Outcome]]:
    """All that was made for the plan."""
    found = [pair for one in prepared.plan.launches for pair in prepared.ledger.of(one)]
    return list({one.id: (one, outcome) for one, outcome in found}.values())


def _samples(prepared: Prepared, known: dict[str, tuple[Sample, ...]]) -> list[Sample]:
    """Samples of the plan's launches; read ones are kept in ``known``."""
    ended = _ended(prepared)
    for one, outcome in ended:
        if one.id not in known:
            known[one.id] = launching.read_launch(one, prepared.folder, outcome)
    found = [sample for one, _ in ended for sample in known[one.id]]
    return quarantine.doubted(found, ended)


def _environment(site: Site) -> tuple[tuple[str, str], ...]:
    if site.node is None:
        return site.environment
    return (
        *site.environment,
        ("RCCLTUNE_SIM_NODE", "{session}/" + _NODE_FILE),
        ("RCCLTUNE_SIM_CLOCK", "{session}/clock"),
    )


def _completed(one: Launch, site: Site, timeout_s: float | None) -> Launch:
    """Add what forcing needs, and the time limit."""
    extra = dict(launching.choosing(one, tunerless=site.tunerless is not None, tells=site.tells))
    if site.node is not None:
        # Noise depends on what is measured and not on how it is started, so that one process
        # and 64 give the same samples.
        name = f"{one.collectives[0].value} {name_of(one)} {one.repeat}"
        if one.round:
            name += f" {one.variant.name} {one.round} {plan.sizes_of(one)}"
        extra["RCCLTUNE_SIM_LAUNCH"] = name
        if one.variant.patched:
            extra["RCCLTUNE_SIM_PATCHES"] = "force-tree-simple"
    environment = tuple(sorted({**dict(one.environment), **extra}.items()))
    return replace(one, environment=environment, timeout_s=timeout_s)


def _tell_tuner(launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Let the first launch say which tuner the site uses, unless the site logs by itself."""
    first = launches[0] if launches else None
    if first is None or any(name.startswith("NCCL_DEBUG") for name in os.environ):
        return tuple(launches)
    environment = tuple(sorted({**dict(first.environment), **dict(launching.TELL_TUNER)}.items()))
    return (replace(first, environment=environment), *launches[1:])


def same_machine(folder: Path, site: Site) -> None:
    """Stop where a folder is a session of another machine, or no session but not empty.

    Raises:
        SessionError: it is.
    """
    if (folder / "session.json").exists():
        known = session.open_session(folder).fingerprint
        try:
            session.combined_fingerprint([(str(folder), known), ("this machine", site.fingerprint)])
        except SessionError as error:
            raise SessionError(
                error.message, where=str(folder), hint="choose another session with -o."
            ) from error
    elif folder.is_dir() and any(not _is_ours(path.name) for path in folder.iterdir()):
        raise SessionError(
            "this folder is not empty and no session",
            where=str(folder),
            hint="choose another with -o.",
        )


def _is_ours(name: str) -> bool:
    """What a sweep that was killed in its first moment leaves: a marker, a file half written."""
    return name.startswith(("writer.lock", ".writer.lock.", ".session.json."))


def plan_as_plain(prepared: Prepared) -> dict[str, Any]:
    """A plan for --json."""
    return {
        "launches": [
            {"id": one.id, "argv": list(one.argv), "environment": dict(one.environment)}
            for one in prepared.left
        ],
        "impossible": session.to_plain(prepared.plan.impossible),
        "quarantined": session.to_plain(prepared.quarantined),
        "cleared": dict(prepared.cleared),
        "passed": dict(prepared.passed),
        "hidden": [list(item) for item in prepared.filled],
        "estimate_s": prepared.estimate_s,
    }


def sweep(prepared: Prepared, *, tell: Tell, note: Note, command: str, force: bool) -> Swept:
    """Run what is left of a plan.

    Interrupted at any moment, the session keeps every launch that ended, and the same command
    goes on with the rest.

    Raises:
        CommandLineError: the budget allows no launch at all.
        LaunchError: nothing could be measured, or the baseline never ended well.
        MachineError: untouched runs differ too much, or a hidden file chooses (unless ``force``).
        KeyboardInterrupt: after all that was started is gone and the session is whole.
    """
    if not force:
        _refuse_hidden_choices(prepared)
    folder, launches = prepared.folder, prepared.plan.launches
    with session.writing(folder, note), interrupts.interruptible():
        _begin(prepared, command)
        _end_leftovers(folder, note)
        # Looked at again: another rccltune may have gone on with it before we held it.
        ledger = open_ledger(folder)
        if prepared.lifts:
            _lift_all(folder, ledger, launches, note)
        prepared = replace(prepared, ledger=ledger)
        known: dict[str, tuple[Sample, ...]] = {}
        _samples(prepared, known)
        try:
            prepared, unaffordable = _run(
                _caught_up(prepared, known), known, tell=tell, note=note, force=force
            )
        finally:
            opened, samples = _finish(prepared, known)
    failed = tuple(o for _, o in ledger.ended if quarantine.failure_of(o) is not None)
    if not samples and unaffordable and not failed:
        raise CommandLineError(
            f"the budget allows not even one launch, which takes about "
            f"{_cost_s(prepared, unaffordable[0]):.0f} s",
            hint="give more with --budget; the same command then begins.",
        )
    if not samples:
        raise LaunchError(
            "no launch gave a sample",
            where=str(folder / "launches"),
            hint=failed[0].notices[-1].message if failed and failed[0].notices else None,
        )
    return Swept(
        session=opened,
        n_launches=len(prepared.done),
        n_samples=len(samples),
        failed=failed,
        quarantined=prepared.quarantined,
        left=tuple(one for one in prepared.left if one not in unaffordable),
        tuner=_tuner(folder, ledger, launches),
        expected=_expected(prepared, known),
        unaffordable=unaffordable,
        agreements=agreements(samples),
    )


def _run(
    prepared: Prepared,
    known: dict[str, tuple[Sample, ...]],
    *,
    tell: Tell,
    note: Note,
    force: bool,
) -> tuple[Prepared, tuple[Launch, ...]]:
    """Round after round, until the search is over or the budget is spent."""
    wanted = prepared.plan.launches
    _write_search(prepared, known)
    while True:
        search = prepared.search
        if search is not None and not search.is_over:
            note(searching.round_text(search.rounds[-1]))
        batch = [one for one in wanted if prepared.ledger.is_left(one)]
        tried: set[str] = set()
        while affordable := _affordable(prepared, [o for o in batch if o.id not in tried]):
            tried |= {one.id for one in affordable}
            for ran in run_all(
                prepared, affordable, _known(known), tell=tell, note=note, force=force
            ):
                known[ran.launch.id] = ran.samples
                write_quarantine(prepared.folder, prepared.ledger)
        out = tuple(one for one in batch if one.id not in tried)
        if search is None or search.is_over or out:
            _write_search(prepared, known)
            return prepared, out
        prepared = _next_round(prepared, search, known)
        # What failed twice in an earlier round is left to the next command.
        wanted = prepared.search.planned[-1] if prepared.search is not None else ()
        _write_search(prepared, known)


def _known(known: Mapping[str, tuple[Sample, ...]]) -> Mapping[str, tuple[Sample, ...]]:
    return dict(known)


def _affordable(prepared: Prepared, batch: Sequence[Launch]) -> list[Launch]:
    """Launches, in their order, that the budget is thought to allow; a long one bars no other."""
    if prepared.budget_s is None:
        return list(batch)
    left = prepared.budget_s - sum(o.duration_s or 0.0 for _, o in prepared.ledger.ended)
    found: list[Launch] = []
    for one in batch:
        cost = _cost_s(prepared, one)
        if cost <= left:
            left -= cost
            found.append(one)
    return found


def _cost_s(prepared: Prepared, one: Launch) -> float:
    return plan.estimate_s([one], prepared.sweep, prepared.done, prepared.site.start_s)


def _expected(prepared: Prepared, known: dict[str, tuple[Sample, ...]]) -> tuple[Expected, ...]:
    """What the best choice is still expected to lose."""
    if prepared.search is None:
        return ()
    from rccltune import search

    arch = prepared.site.fingerprint.arch
    return search.undecided(searching.known_of(prepared.sweep, _samples(prepared, known), arch))


def _write_search(prepared: Prepared, known: dict[str, tuple[Sample, ...]]) -> None:
    """Keep the decisions where people and programs find them; derived, like samples.csv."""
    if prepared.search is not None:
        plain = searching.as_plain(prepared.search, _expected(prepared, known))
        session.write_derived(prepared.folder, searching.SEARCH_FILE, plain)


def _refuse_hidden_choices(prepared: Prepared) -> None:
    """A file that chooses would falsify every arm, and the environment cannot clear it.

    Raises:
        MachineError: there is one.
    """
    choosing = [item for item in prepared.filled if launch.chooses(item[1], prepared.site.cleared)]
    if choosing:
        path = choosing[0][0]
        said = "; ".join(f"{where} sets {name}={value}" for where, name, value in choosing)
        raise MachineError(
            f"a configuration file chooses for every launch, the untouched ones too: {said}",
            where=path,
            hint=f"mv {path} {path}.off while measuring; --force measures all the same.",
        )


def _begin(prepared: Prepared, command: str) -> None:
    folder, site = prepared.folder, prepared.site
    if not (folder / "session.json").exists():
        session.write_header(_header(prepared, command))
    session.write_atomically(folder / "sweep.yaml", config.dump_sweep(prepared.sweep))
    if site.node is not None:
        session.write_atomically(folder / _NODE_FILE, simnode.written(site.node))


def _header(prepared: Prepared, command: str) -> Session:
    own = {one.variant.name: one.variant for one in prepared.plan.launches}
    variants: dict[str, Variant] = {n: v for n, v in own.items() if n not in KNOWN_VARIANTS}
    return Session(
        path=prepared.folder,
        command=command,
        tool=f"rccltune {__version__}",
        fingerprint=prepared.site.fingerprint,
        variants=tuple(variants.values()),
    )


def _end_leftovers(folder: Path, note: Note) -> None:
    """What a killed sweep left running would disturb this one, if not worse."""
    # Ended launches too: one may have left a process that could not be killed then.
    n_left = launch.end_leftovers(
        path.parent for path in folder.glob(f"launches/*/{launch.RUN_ID}")
    )
    if n_left:
        note(f"{n_left} processes of an interrupted launch were still there; they are gone now")


def _lift_all(folder: Path, ledger: Ledger, launches: Sequence[Launch], note: Note) -> None:
    lifted = ledger.quarantined
    for one, outcome in ledger.blamed(launches):
        lift(folder, ledger, one, outcome)
    still = ledger.quarantined
    for quarantined in lifted:
        if quarantined not in still:
            note(f"{quarantined} is out of quarantine and tried again")


def _finish(
    prepared: Prepared, known: Mapping[str, tuple[Sample, ...]]
) -> tuple[Session, list[Sample]]:
    folder = prepared.folder
    opened = session.open_session(folder)
    ended = session.read_launches(folder)
    samples = samples_of(folder, ended, known)
    write_quarantine(folder, prepared.ledger)
    return session.commit(opened, [], samples), samples


def _tuner(folder: Path, ledger: Ledger, launches: Sequence[Launch]) -> str | None:
    from rccltune import proof

    first = ledger.done(launches[0]) if launches else None
    logs = sorted((folder / "launches" / first[0].id).glob("nccl-*.log")) if first else []
    return proof.tuner_of(logs[0].read_text(errors="replace")) if logs else None
