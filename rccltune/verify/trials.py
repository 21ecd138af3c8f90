"""The launches of a verification: made in turns, and what the plugin did in each proven."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rccltune import logs, measure, plan, plugin, session
from rccltune.logs import Asked
from rccltune.measure import Site, completed, ground_of, limit_s, open_ledger, stop_if_changed
from rccltune.model import (
    Collective,
    Doubt,
    Launch,
    LaunchError,
    MachineError,
    Outcome,
    RccltuneError,
    Reporter,
    Rule,
    Sample,
    Status,
    Variant,
    VerificationError,
)
from rccltune.plan import Condition
from rccltune.rules import RuleFile, counted
from rccltune.session import of_all_ranks
from rccltune.verify import verdicts
from rccltune.verify.verdicts import Weighed

FOLDER: Final = "verification"
TUNED: Final = "tuned"
_TRIES: Final = 2
_SHA: Final = re.compile(r"\bsha256=([0-9a-f]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all rounds have in common.

    Attributes:
        folder: in which launches are kept.
        conditions: the sweep's own, and others in which rules must do no harm.
        n_repeats: launches of each arm at each size, of each state of a file.
    """

    folder: Path
    conditions: tuple[Condition, ...]
    site: Site
    n_repeats: int
    timeout_s: float | None
    reporter: Reporter


@dataclass(slots=True)
class Proven:
    """What the plugin said that it did.

    Attributes:
        hits: calls answered by each rule, by its line.
        misses: calls for which no rule was meant and none answered.
        skipped: sizes at which a rule's setting was not selectable, by line.
        bypassed: sizes at which a path went past the tuner.
        hashes: of the rule file, as every rank read it.
    """

    hits: Counter[int] = field(default_factory=Counter)
    misses: int = 0
    skipped: dict[int, set[int]] = field(default_factory=dict)
    bypassed: dict[Collective, set[int]] = field(default_factory=dict)
    hashes: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One condition of one state of a file.

    Attributes:
        weighed: every size.
        proven: what the plugin did.
        n_launches: that this rests on.
    """

    condition: Condition
    weighed: tuple[Weighed, ...]
    proven: Proven
    n_launches: int


def _tuned(file: RuleFile, text: str, folder: Path, site: Site) -> Variant:
    """The environment of the tuned arm; its rules lie beside the launches under their hash."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    name = f"rules-{digest}.csv"
    session.write_atomically(folder / name, text)
    pairs = {
        **dict(file.needs),
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "NCCL_TUNER_CONFIG_FILE": "{session}/" + name,
        "RCCLTUNE_TRACE": "{launch}/trace-%h-%p.csv",
        "RCCLTUNE_LOG": "summary:{launch}/plugin-%h-%p.log",
    }
    placement = dict(file.requires).get("placement")
    if placement is not None:
        pairs["RCCLTUNE_PLACEMENT"] = placement
    if site.node is not None and site.fingerprint.mode is not None:
        # There is no device that could say its mode.
        pairs["RCCLTUNE_MODE"] = str(site.fingerprint.mode)
    return Variant(name=TUNED, environment=tuple(sorted(pairs.items())))


def of_scale(file: RuleFile, site: Site) -> tuple[Rule, ...]:
    """Rules that this communicator can meet, in the file's order."""
    scale = site.scale
    return tuple(
        rule
        for rule in file.rules
        if rule.n_nodes in (None, scale.n_nodes) and rule.n_ranks in (None, scale.n_ranks)
    )


def hold(ground: Ground, file: RuleFile, text: str, rounds: range) -> tuple[Held, ...]:
    """Make all launches for one state of a file, where they are not there yet.

    Args:
        ground: what all rounds have in common.
        file: as read.
        text: of the file.
        rounds: those of this state, numbered from 1; each has untouched runs of its own, and they
            count together.

    Returns:
        What each condition gave, the sweep's own first.

    Raises:
        MachineError: the benchmark cannot be run under a condition.
        LaunchError: the untouched benchmark does not work.
        VerificationError: it is wrong, the tuned one fails, or the plugin disagrees with the file.
    """
    site = ground.site
    rules = of_scale(file, site)
    tuned = _tuned(file, text, ground.folder, site)
    planned = {
        condition: _launches(ground, condition, (file, rules), tuned, rounds)
        for condition in ground.conditions
    }
    n_launches = sum(map(len, planned.values()))
    before = len(rounds) - 1
    again = f", counted together with {before} round{'s'[: before > 1]} before" if before else ""
    launches = f"{n_launches // len(rounds)} launches, with and without them in turns{again}"
    ground.reporter.say(f"Verifying {counted(rules)}: {launches}")
    runner = _Runner(ground)
    held = tuple(
        _hold_under(condition, launches, runner, rules) for condition, launches in planned.items()
    )
    hashes = {digest for one in held for digest in one.proven.hashes}
    if len(hashes) > 1:
        raise VerificationError(
            f"ranks read {len(hashes)} different rule files under one name",
            where=str(ground.folder),
            hint="the folder must be the same shared one on every host.",
        )
    return held


def _launches(
    ground: Ground,
    condition: Condition,
    asked: tuple[RuleFile, Sequence[Rule]],
    tuned: Variant,
    rounds: range,
) -> tuple[Launch, ...]:
    """All of them, with their ids.

    Raises:
        MachineError: the benchmark cannot be run like that.
    """
    site = ground.site
    on = ground_of(site)
    _check(condition, on)
    n = ground.n_repeats
    file, rules = asked
    # What rules need holds for the whole job.
    others = condition.sweep.collectives if file.needs else ()
    planned = [
        launch
        for number in rounds
        for launch in plan.plan_verification(
            condition, on, rules, tuned, range((number - 1) * n, number * n), others=others
        )
    ]
    complete = (completed(one, site, ground.timeout_s) for one in planned)
    made = plan.Plan(launches=tuple(complete), impossible=())
    return plan.with_ids(made, session.launch_id).launches


def _check(condition: Condition, on: plan.Ground) -> None:
    if condition.sweep.graph and "G" not in on.letters:
        raise MachineError(
            "this benchmark captures no graphs: its --help lists no -G",
            hint="leave out --graph, or take a build of rccl-tests for ROCm 5 or newer.",
        )
    if condition.beside is None:
        return
    name = condition.beside[0].benchmark
    if condition.beside[0] not in on.programs:
        raise MachineError(
            f"there is no {name} beside the other benchmarks, to run at the same time",
            hint="build it with the others, or name another collective after --beside.",
        )
    if plan.repeat_letter(on) is None:
        raise MachineError(
            f"{name} cannot run on until it is ended: its --help lists neither -N nor -s",
            hint="leave out --beside, or take a newer rccl-tests.",
        )


def _hold_under(
    condition: Condition, launches: Sequence[Launch], runner: _Runner, rules: Sequence[Rule]
) -> Held:
    """Make the launches of one condition."""
    samples: dict[str, list[Sample]] = {"default": [], TUNED: []}
    proven = Proven()
    for one in launches:
        found = runner.run(one)
        if one.variant.name == TUNED:
            _prove(runner.ground, one, rules, found, proven)
        samples[one.variant.name] += found
    weighed = verdicts.weigh(
        samples["default"],
        samples[TUNED],
        gains=condition.is_own,
        beside=condition.beside_words,
    )
    return Held(condition=condition, weighed=weighed, proven=proven, n_launches=len(launches))


class _Runner:
    """Makes what is missing, and tries once more what failed."""

    def __init__(self, ground: Ground) -> None:
        """Begin with what was made before."""
        self.ground = ground
        self.site = ground.site
        self.folder = ground.folder
        self.ledger = open_ledger(self.folder)
        self.outcomes: list[Outcome] = [o for _, o in self.ledger.ended]

    def run(self, planned: Launch) -> tuple[Sample, ...]:
        """Samples of one launch, made now or before.

        Raises:
            LaunchError: the untouched benchmark fails twice.
            VerificationError: it is wrong, or the tuned one fails twice.
        """
        for _ in range(_TRIES):
            done = next((p for p in self.ledger.of(planned) if p[1].status is Status.OK), None)
            if done is not None:
                samples = session.read_launch(done[0], self.folder, done[1])
                self._stop_where_wrong(planned, samples)
                return samples
            self._attempt(self.ledger.next_attempt(planned))
        raise self._failed(planned)

    def _attempt(self, one: Launch) -> None:
        stop_if_changed(self.site, "before")
        ran = measure.run_launch(
            replace(one, timeout_s=one.timeout_s or limit_s(self.outcomes)),
            self.folder,
            site=tuple(os.environ.items()),
            clear=self.site.cleared,
            carry=self.site.launcher.carry,
            fingerprint=self.site.fingerprint,
            changed=self.site.changed,
        )
        self.ledger.add(ran.launch, ran.outcome)
        self.outcomes.append(ran.outcome)
        stop_if_changed(self.site, "during")

    def _stop_where_wrong(self, planned: Launch, samples: Iterable[Sample]) -> None:
        is_wrong = any(sample.doubt is Doubt.WRONG for sample in samples)
        if is_wrong and planned.variant.name != TUNED:
            raise VerificationError(
                "the untouched library gives WRONG RESULTS: nothing can be held against it",
                where=f"{self.folder / 'launches' / planned.id}/stdout.log",
                hint="the machine, its driver or this RCCL is at fault, and no rule: see dmesg.",
            )

    def _failed(self, planned: Launch) -> RccltuneError:
        where = f"{self.folder / 'launches' / planned.id}/"
        failures = [o.notices[-1].message for _, o in self.ledger.of(planned) if o.notices]
        why = failures[-1] if failures else "no reason given"
        if planned.variant.name == TUNED:
            return VerificationError(
                f"with the rules the benchmark fails, and without them it works: {why}",
                where=where,
                hint="ranks that do not all have plugin, file and environment hang like this: see "
                "the plugin's log there. Nothing was written.",
            )
        return LaunchError(f"the untouched benchmark does not work: {why}", where=where)


def _prove(
    ground: Ground,
    one: Launch,
    rules: Sequence[Rule],
    samples: Sequence[Sample],
    proven: Proven,
) -> None:
    """Hold what every rank's plugin answered against the file.

    Raises:
        VerificationError: it is not what the file says, or a rank had no plugin.
    """
    own = ground.folder / "launches" / one.id
    try:
        traces = of_all_ranks(own, logs.read_trace, logs.agree)
    except LaunchError as error:
        raise VerificationError(error.message, where=error.where, hint=error.hint) from error
    wanted = ground.site.seating.n_started if ground.site.launcher.program else 1
    if len(traces) < wanted:
        raise VerificationError(
            f"{wanted - len(traces)} of {wanted} ranks did not load the plugin",
            where=str(own),
            hint="plugin, rules and environment must be the same on every rank and host.",
        )
    for log in own.glob("plugin-*.log"):
        proven.hashes |= set(_SHA.findall(log.read_text(errors="replace")))
    scale = ground.site.scale
    rows = _really_asked(next(iter(traces.values())), one, samples)
    for row in rows:
        matching = [r for r in rules if r.matches(row.collective, row.nbytes, scale)]
        answer = row.answer
        hit = next((r for r in matching if r.setting == answer), None)
        if answer is not None and hit is None:
            raise VerificationError(
                f"the plugin answered {answer} to {row.collective.value} of {row.nbytes} bytes, "
                "where the file has no such rule",
                where=str(own),
                hint="please report this with the session: it is a bug.",
            )
        if matching and hit is not matching[0]:
            proven.skipped.setdefault(matching[0].line or 0, set()).add(row.nbytes)
        if hit is not None:
            proven.hits[hit.line or 0] += row.calls
        else:
            proven.misses += row.calls
    asked = {(row.collective, row.nbytes) for row in rows}
    for sample in samples:
        key = (sample.key.collective, sample.nbytes)
        if sample.nbytes and key not in asked and sample.doubt is None:
            proven.bypassed.setdefault(key[0], set()).add(key[1])


def _really_asked(trace: Sequence[Asked], one: Launch, samples: Iterable[Sample]) -> list[Asked]:
    """Rows of a trace that calls asked, and not only what prints the columns of ``-A``."""
    if "-A" not in one.argv:
        return list(trace)
    lines = Counter(nbytes for nbytes, _ in {(s.nbytes, s.line) for s in samples})
    return [row for row in trace if row.calls > lines[row.nbytes]]
