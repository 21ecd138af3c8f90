"""Rules against the baseline on the machine itself: what stands, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from rccltune.launch import signals
from rccltune.machine.real_rccl import unchecked
from rccltune.measure.hosts import same_hosts
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.site import Site
from rccltune.model import schema
from rccltune.model.chosen import Judgement, RuleCount
from rccltune.model.measured import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import Collective
from rccltune.rules.documents import counted
from rccltune.rules.line_format import Change, rewritten
from rccltune.rules.reader import read_rules
from rccltune.rules.sheets import file_name, sheet_name
from rccltune.rules.writer import VERIFIED_MARK
from rccltune.session import files, store
from rccltune.session.store import NODE_FILE
from rccltune.simulate import compiled
from rccltune.verify import verdict_store
from rccltune.verify.begun import VerifyRequest, begin, walks_of
from rccltune.verify.cuts import Cut, exports_without, is_given_back, without_unneeded
from rccltune.verify.evidence import Weighed
from rccltune.verify.harm import EnvironmentGain, Sizes
from rccltune.verify.held import Held
from rccltune.verify.intervals import Estimate
from rccltune.verify.rounds import ours, settle
from rccltune.verify.standing import Settled, Standing
from rccltune.verify.verdict_store import (
    ConditionFile,
    EnvironmentGainFile,
    FactorFile,
    StandingFile,
    VerdictFile,
)

# What makes a job use a rule file.
_USE: Final = ("NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_PLUGIN", "RCCLTUNE_PLACEMENT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How a verification ended.

    Attributes:
        text: the file as it stands.
        held: every condition.
        weighed: every size in every condition.
        standings: rules that are left, and with ``keep_losers`` those that lose.
        cuts: what was taken away.
        before: rules that the file had for this scale.
        after: rules that it has now.
        needs: what the file asks of the environment, name and value.
        lost_needs: variables that the file asked for and no longer does: they do harm.
        unneeded: likewise, since no rule that is left needs them.
        environment: log(untouched time / time with what the rules need), over sizes without a
            rule; None where they need nothing.
        environment_gains: where that wins without a rule, of a file that is for it.
        harmed: sizes without a rule that the rules slow; with ``keep_losers`` alone.
        is_paired: whether the idle plugin stood in for the baseline, inside launches.
        runner: of the machine's fingerprint: that the real library ran over simulated times.
    """

    path: Path | None
    text: str
    held: tuple[Held, ...]
    weighed: tuple[Weighed, ...]
    standings: tuple[Standing, ...]
    cuts: tuple[Cut, ...]
    before: RuleCount
    after: RuleCount
    n_launches: int
    n_looks: int
    simulated: bool
    needs: tuple[tuple[str, str], ...] = ()
    lost_needs: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()
    environment: Estimate | None = None
    environment_gains: tuple[EnvironmentGain, ...] = ()
    harmed: Sizes = field(default_factory=dict)
    is_paired: bool = True
    runner: str | None = None

    @property
    def lost_exports(self) -> dict[str, str]:
        """Variables that nobody should export any more, and why; without rules all of them."""
        unused = () if self.after.rules else _USE
        why = dict.fromkeys((*self.unneeded, *unused), "is not exported: no rule needs it")
        return why | dict.fromkeys(self.lost_needs, "slows sizes without a rule")

    @property
    def n_hits(self) -> int:
        """Calls that a rule answered."""
        return sum(sum(held.proven.hits.values()) for held in self.held)

    @property
    def n_misses(self) -> int:
        """Calls for which there is no rule, and none answered."""
        return sum(held.proven.misses for held in self.held)

    @property
    def losers(self) -> tuple[Standing, ...]:
        """Rules that do not stand as they are."""
        return tuple(one for one in self.standings if not one.stands)

    def is_given_back(self, one: Weighed) -> bool:
        """Whether a size was measured with a rule that is no longer there."""
        verdict = one.verdict
        return is_given_back(self.cuts, verdict.target.collective, verdict.nbytes)

    @property
    def undecided(self) -> Sizes:
        """Sizes of which nothing can be said with the rules as they are now."""
        found: dict[Collective, frozenset[int]] = {}
        for one in self.weighed:
            if one.verdict.judgement is Judgement.UNDECIDED and not self.is_given_back(one):
                collective = one.verdict.target.collective
                found[collective] = found.get(collective, frozenset()) | {one.verdict.nbytes}
        return found

    @property
    def file(self) -> VerdictFile:
        """For verdict.json and --json."""
        return VerdictFile(
            path=str(self.path) if self.path else None,
            simulated=self.simulated,
            runner=self.runner,
            rules_before=self.before.rules,
            rules=self.after.rules,
            fallbacks=self.after.fallbacks,
            rounds=self.n_looks,
            launches=self.n_launches,
            conditions=tuple(_condition(held) for held in self.held),
            verdicts=tuple(one.verdict for one in self.weighed),
            standings=tuple(_standing(one) for one in self.standings),
            cuts=self.cuts,
            needs=dict(self.needs),
            lost_needs=(*self.lost_needs, *self.unneeded),
            environment=None if self.environment is None else _factor(self.environment),
            environment_gains=tuple(_range(one) for one in self.environment_gains),
            paired=self.is_paired,
            sha256=tuple(sorted({digest for held in self.held for digest in held.proven.hashes})),
        )


def _condition(held: Held) -> ConditionFile:
    proven = held.proven
    return ConditionFile(
        name=str(held.condition),
        launches=held.n_launches,
        hits={str(line): calls for line, calls in proven.hits.items()},
        misses=proven.misses,
        not_selectable={
            f"{one.value} {setting}": tuple(sorted(n))
            for (one, setting), n in proven.skipped.items()
        },
        bypassed={one.value: tuple(sorted(n)) for one, n in proven.bypassed.items()},
    )


def _standing(one: Standing) -> StandingFile:
    bare = {f.name: getattr(one.rule, f.name) for f in fields(one.rule)}
    sizes = len({w.verdict.nbytes for w in one.sizes})
    return StandingFile(
        **bare,
        certainty=one.certainty,
        sizes=sizes,
        stands=one.stands,
        state=one.state.value,
        gain=_factor(one.gain),
        shown=one.shown.value,
    )


def _range(one: EnvironmentGain) -> EnvironmentGainFile:
    return EnvironmentGainFile(
        collective=one.collective,
        min_nbytes=one.min_nbytes,
        max_nbytes=one.max_nbytes,
        gain=_factor(one.gain),
    )


def _factor(one: Estimate) -> FactorFile:
    ratio, low, high = one.ratios
    return FactorFile(ratio=ratio, low=low, high=high, launches=one.n_launches)


def verify_rules(
    request: VerifyRequest,
    sweep: Sweep,
    site: Site,
    *,
    reporter: Reporter,
    following: VerifyRequest | None = None,
) -> Verified:
    """Verify a file, narrow it until all that is left stands, and write that.

    It always ends, with what is proven: what is undecided when no time is left goes back to the
    library. Interrupted at any moment, the same command goes on with the launches that are missing.

    Args:
        request: the file, and what it is held to.
        sweep: as measured.
        site: the machine.
        reporter: told what is worth telling.
        following: a file for another environment, which is verified next. Its first combined
            launches are made next to those of this one, so that the idle plugin in both says what
            the environment does.

    Raises:
        InputFileError: the plugin refuses the file, or RCCL would cut a line of it.
        CommandLineError: it has no rule, or none for this scale; it needs a variable that nobody
            allowed.
        MachineError: several hosts are not alike.
        LaunchError: the untouched benchmark does not work.
        HarmError: rows of a vendor's behind the rules slow sizes.
        VerificationError: wrong results without rules, ranks without the plugin, a benchmark that
            fails with it and no rule is to blame, or a plugin that does not do what the file says.
    """
    begun = begin(request, sweep, site, reporter)
    ground = begun.ground
    name = verdict_store.verdict_name(request.output, request.folder, file_name(site.fingerprint))
    with (
        verdict_store.kept(request.folder, name, request.rules),
        files.writing(ground.folder, reporter),
        signals.interruptible(),
    ):
        end_leftovers(ground.folder, reporter)
        same_hosts(site, ground.folder, reporter=reporter, rules=request.rules)
        if site.node is not None:
            files.write_atomically(ground.folder / NODE_FILE, compiled.written(site.node))
        alongside = walks_of(following, ground, sweep, site)
        state = settle(begun.wanted, ground, begun.text, alongside=alongside)
    cuts = (*begun.beyond, *state.cuts)
    text = begun.text
    unneeded: tuple[str, ...] = ()
    if not request.keep_losers:
        text, unneeded = without_unneeded(
            _with_evidence(state, site), sweep, is_worth_it=bool(state.environment_gains)
        )
    path = None if request.keep_losers else request.output
    after = read_rules(text.encode())
    made = Verified(
        path=path,
        text=text,
        held=state.held,
        weighed=tuple(one for weighed in state.weighed for one in weighed),
        standings=state.standings,
        cuts=cuts,
        before=begun.before,
        after=counted(ours(after, site)),
        n_launches=state.n_launches,
        n_looks=state.n_looks,
        simulated=site.node is not None,
        needs=tuple(dict(after.needs).items()),
        lost_needs=state.lost_needs,
        unneeded=unneeded,
        environment=state.environment,
        environment_gains=state.environment_gains,
        harmed=state.harmed,
        is_paired=ground.is_paired,
        runner=site.fingerprint.runner,
    )
    if path is not None:
        files.write_atomically(path, text)
        exports = path.with_suffix(".env")
        if exports.exists() and made.lost_exports:
            kept = exports_without(exports.read_text(encoding="utf-8"), made.lost_exports)
            files.write_atomically(exports, kept)
    store.write_derived(request.folder, name, schema.to_plain(made.file))
    return made


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / sheet_name(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def _with_evidence(state: Settled, site: Site) -> str:
    """The file with what its rules rest on."""
    changes = {
        one.rule.line: Change(parts=(one.rule,), evidence=_evidence(one))
        for one in state.standings
        if one.rule.line is not None
    }
    where = "on this machine"
    if site.node is not None:
        where = f"SIMULATED, no hardware{unchecked(site.fingerprint.runner)}"
    what = "the rules" if state.standings else "the environment alone"
    how = f"with and without {what} in turns, {where}, {site.scale}"
    lines = [f"{VERIFIED_MARK} {how}, {state.n_launches} launches"]
    lines += [f"{VERIFIED_MARK} {one}, without a rule" for one in state.environment_gains]
    if others := [str(one.condition) for one in state.held if not one.condition.is_own]:
        lines.append(f"{VERIFIED_MARK} nowhere slower under: {', '.join(others)}")
    return rewritten(state.text, changes, lines)


def _evidence(one: Standing) -> str:
    ratios = one.ratios
    return (
        f"{VERIFIED_MARK} {one.gain} over {one.n_gaining} sizes "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}), shown {one.shown.value}"
    )
