"""A sweep from plan to session: run, read, prove, keep; stoppable and resumable anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rccltune import __version__
from rccltune.fit.agreement import Agreements, agreements
from rccltune.launch import signals, variables
from rccltune.measure import searching, sweep_file
from rccltune.measure.hosts import same_hosts
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.ledger import open_ledger, write_quarantine
from rccltune.measure.preparation import (
    Prepared,
    Read,
    caught_up,
    library_of,
    next_round,
    samples_so_far,
)
from rccltune.measure.runs import run_all
from rccltune.model import schema
from rccltune.model.errors import CommandLineError, LaunchError, MachineError, SessionError
from rccltune.model.failure import Quarantine
from rccltune.model.measured import Launch, Outcome, Sample
from rccltune.model.reporter import Reporter
from rccltune.model.search import Expected
from rccltune.model.settings import KNOWN_VARIANTS, Variant
from rccltune.plan.launches import estimate_s
from rccltune.search import rounds
from rccltune.session import files, folders, store
from rccltune.session.place import PLACE_FILE
from rccltune.session.samples import failure_of, samples_of
from rccltune.session.store import NODE_FILE, Session
from rccltune.simulate import compiled


def plan_as_plain(prepared: Prepared) -> dict[str, Any]:
    """A plan for --json."""
    return {
        "launches": [
            {"id": one.id, "argv": list(one.argv), "environment": dict(one.environment)}
            for one in prepared.left
        ],
        "impossible": schema.to_plain(prepared.plan.impossible),
        "quarantined": schema.to_plain(prepared.quarantined),
        "refused": list(prepared.refused),
        "left_out": list(prepared.left_out),
        "cleared": dict(prepared.cleared),
        "passed": dict(prepared.passed),
        "hidden": [list(item) for item in prepared.filled],
        "estimate_s": prepared.estimate_s,
        "most_following_rounds": prepared.most_following,
        "most_s": prepared.most_s,
        "simulated": prepared.site.node is not None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How a sweep ended.

    Attributes:
        n_launches: of the plan, those that ended well.
        failed: attempts that failed, forgiven or tried again with success among them.
        quarantined: settings of the plan that are not tried any more.
        left: combined launches that failed although no setting could be blamed.
        expected: regret that is still expected of the best choice; empty without a search.
        unaffordable: launches that the budget did not allow.
        agreements: the idle plugin beside the baseline, one launch beside separate ones.
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
                {**schema.to_plain(one), "reason": one.reason} for one in self.quarantined
            ],
            "left": [one.id for one in self.left],
            "tuner_of_baseline": self.tuner,
            "expected_regret": schema.to_plain(self.expected),
            "unaffordable": [one.id for one in self.unaffordable],
            **self.agreements.as_plain(),
        }


def sweep(prepared: Prepared, *, reporter: Reporter, command: str, force: bool) -> Swept:
    """Run what is left of a plan.

    Interrupted at any moment, the session keeps every launch that ended, and the same command
    goes on with the rest.

    Raises:
        CommandLineError: the budget allows no launch at all.
        LaunchError: nothing could be measured, or the baseline never ended well.
        MachineError: untouched runs differ too much, a hidden file chooses, or several hosts are
            not alike (unless ``force``).
        KeyboardInterrupt: after all that was started is gone and the session is whole.
    """
    if not force:
        _refuse_hidden_choices(prepared)
    folder = prepared.folder
    with files.writing(folder, reporter), signals.interruptible():
        _begin(prepared, command)
        end_leftovers(folder, reporter)
        same_hosts(prepared.site, folder, reporter=reporter, force=force)
        # Looked at again: another rccltune may have gone on with it before we held it.
        ledger = open_ledger(folder)
        prepared = replace(prepared, ledger=ledger)
        known: Read = {}
        samples_so_far(prepared, known)
        try:
            prepared, unaffordable = _run(
                caught_up(prepared, known), known, reporter=reporter, force=force
            )
            expected = _expected(prepared, known)
            _write_search(prepared, expected)
        finally:
            opened, samples = _finish(prepared, known)
    failed = tuple(o for _, o in ledger.ended if failure_of(o) is not None)
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
    found = agreements(samples, folder=folder)
    return Swept(
        session=opened,
        n_launches=len(prepared.done),
        n_samples=len(samples),
        failed=failed,
        quarantined=prepared.quarantined,
        left=tuple(one for one in prepared.left if one not in unaffordable),
        tuner=found.tuner,
        expected=expected,
        unaffordable=unaffordable,
        agreements=found,
    )


def _run(
    prepared: Prepared,
    known: Read,
    *,
    reporter: Reporter,
    force: bool,
) -> tuple[Prepared, tuple[Launch, ...]]:
    """Round after round, until the search is over or the budget is spent."""
    wanted = prepared.plan.launches
    while True:
        under_way = prepared.search
        if under_way is not None:
            _write_search(prepared, under_way.rounds[-1].expected)
            if not under_way.is_over:
                reporter.say(searching.round_text(under_way.rounds[-1]))
                reporter.detail(searching.round_details(under_way.rounds[-1]))
        batch = [one for one in wanted if prepared.ledger.is_left(one)]
        tried: set[str] = set()
        while affordable := _affordable(prepared, [o for o in batch if o.id not in tried]):
            tried |= {one.id for one in affordable}
            for ran in run_all(prepared, affordable, known, reporter=reporter, force=force):
                known[ran.launch.id] = ran.samples
                write_quarantine(prepared.folder, prepared.ledger)
        out = tuple(one for one in batch if one.id not in tried)
        if under_way is None or under_way.is_over or out:
            return prepared, out
        prepared = next_round(prepared, under_way, known)
        there = store.open_session(prepared.folder)
        store.write_header(_with_variants(there, _own_variants(prepared)))
        # What failed twice in an earlier round is left to the next command.
        wanted = prepared.search.planned[-1] if prepared.search is not None else ()


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
    return estimate_s([one], prepared.sweep, prepared.done, prepared.site.start_s)


def _expected(prepared: Prepared, known: Read) -> tuple[Expected, ...]:
    """What the best choice is still expected to lose."""
    if prepared.search is None:
        return ()
    samples = samples_so_far(prepared, known)
    library = library_of(prepared, samples)
    return rounds.undecided(searching.known_of(prepared.sweep, samples, library=library))


def _write_search(prepared: Prepared, expected: Sequence[Expected]) -> None:
    """Keep the decisions where people and programs find them; derived, like samples.csv."""
    if prepared.search is not None:
        made = searching.file_of(prepared.search, expected)
        store.write_derived(prepared.folder, store.SEARCH_FILE, schema.to_plain(made))


def _refuse_hidden_choices(prepared: Prepared) -> None:
    """A file that chooses would falsify every launch, and the environment cannot clear it.

    Raises:
        MachineError: there is one.
    """
    choosing = [
        item for item in prepared.filled if variables.chooses(item[1], prepared.site.cleared)
    ]
    if choosing:
        path = choosing[0][0]
        said = "; ".join(f"{where} sets {name}={value}" for where, name, value in choosing)
        raise MachineError(
            f"a configuration file chooses for every launch, the baseline's too: {said}",
            where=path,
            hint=f"mv {path} {path}.off while measuring; --force measures all the same.",
        )


def _begin(prepared: Prepared, command: str) -> None:
    folder, site = prepared.folder, prepared.site
    made = _header(prepared, command)
    if (folder / "session.json").exists():
        there = store.open_session(folder)
        _check_variants(prepared, there)
        made = _with_variants(there, made.variants)
    store.write_header(made)
    files.write_atomically(folder / PLACE_FILE, store.dump_json(site.seating.place))
    files.write_atomically(
        folder / folders.SWEEP_FILE, sweep_file.dump_sweep(prepared.sweep, prepared.site_keys)
    )
    folders.remember(folder)
    if site.node is not None:
        files.write_atomically(folder / NODE_FILE, compiled.written(site.node))


def _with_variants(there: Session, more: Sequence[Variant]) -> Session:
    """The header with variants that an earlier command, or an earlier round, did not measure."""
    known = {one.name for one in there.variants}
    added = tuple(one for one in more if one.name not in known)
    return replace(there, variants=(*there.variants, *added))


def _check_variants(prepared: Prepared, there: Session) -> None:
    """Samples name their variant, so that one name stands for one environment.

    Raises:
        SessionError: a variant of this sweep was measured there with other variables.
    """
    ended = store.read_launches(there.path)
    recorded = {made.variant.name: made.variant for made, _ in ended}
    for one in dict.fromkeys(made.variant for made in prepared.plan.launches):
        before = recorded.get(one.name, one)
        # What a path's threshold is depends on the sizes of the sweep, and takes all of them.
        if one.threshold is None and before.environment != one.environment:
            raise SessionError(
                f"variant '{one.name}' was measured with {_variables(before)}, and is to be "
                f"measured with {_variables(one)}",
                where=str(there.path),
                hint="measure it into a session of its own with -o DIR, or name the file of "
                "variants that was given before (--variants FILE).",
            )


def _variables(variant: Variant) -> str:
    return " ".join(f"{name}={value}" for name, value in variant.environment) or "no variable"


def _header(prepared: Prepared, command: str) -> Session:
    return Session(
        path=prepared.folder,
        command=command,
        tool=f"rccltune {__version__}",
        fingerprint=prepared.site.fingerprint,
        variants=_own_variants(prepared),
    )


def _own_variants(prepared: Prepared) -> tuple[Variant, ...]:
    """Variants of the plan that not every session knows, or knows otherwise."""
    own = {one.variant.name: one.variant for one in prepared.plan.launches}
    return tuple(one for name, one in own.items() if one != KNOWN_VARIANTS.get(name))


def _finish(
    prepared: Prepared, known: Mapping[str, tuple[Sample, ...]]
) -> tuple[Session, list[Sample]]:
    folder = prepared.folder
    opened = store.open_session(folder)
    ended = store.read_launches(folder)
    samples = samples_of(folder, ended, known)
    write_quarantine(folder, prepared.ledger)
    return store.commit(opened, [], samples), samples
