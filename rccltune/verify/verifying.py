"""Rules against the baseline on the machine itself: what stands, and what is left of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from rccltune import fit, launch, measure, model, plan, session, simulate
from rccltune.measure import Site, end_leftovers, same_hosts
from rccltune.model import (
    NOT_MEASURED,
    Collective,
    CommandLineError,
    Judgement,
    Reporter,
    RuleCount,
    Sweep,
    defaults,
)
from rccltune.rules import (
    VERIFIED_MARK,
    Change,
    RuleFile,
    accepted,
    check_needs,
    counted,
    file_name,
    read_rules,
    rewritten,
    sheet_name,
)
from rccltune.session import NODE_FILE
from rccltune.verify import cuts as cutting
from rccltune.verify import verdict_store
from rccltune.verify.cuts import Cut
from rccltune.verify.evidence import Weighed
from rccltune.verify.harm import Sizes
from rccltune.verify.intervals import Estimate
from rccltune.verify.looks import FOLDER, Ground, Held
from rccltune.verify.rounds import Settled, Wanted, ours, settle
from rccltune.verify.rule_text import exports_without, text_of, without_unneeded
from rccltune.verify.standing import Standing
from rccltune.verify.swept import read_swept
from rccltune.verify.verdict_store import ConditionFile, FactorFile, StandingFile, VerdictFile

# What makes a job use a rule file.
_USE: Final = ("NCCL_TUNER_CONFIG_FILE", "NCCL_TUNER_PLUGIN", "RCCLTUNE_PLACEMENT")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What verify was asked for.

    Attributes:
        folder: the session, in which launches and the verdict are kept.
        rules: the file to verify.
        output: where what stands goes.
        min_gain: what a rule must gain over its range, 0.02 for 2 %.
        n_looks: launches at each size, while something is undecided.
        dtypes: further element types under which no rule may lose.
        graphs: further numbers of graph replays, likewise; 0 is none.
        besides: collectives and sizes that run at the same time, likewise.
        keep_losers: leave the file as it is, whatever loses.
        needs_stay: the file is for what its rules need: without it nothing of it is kept.
        extrapolate: rules keep what they answer beyond the sizes verified, unverified.
        allowed: variables beyond the harmless ones that ranks may be given for the rules.
    """

    folder: Path
    rules: Path
    output: Path
    min_gain: float = defaults.MIN_GAIN
    n_looks: int = defaults.REPEATS
    keep_losers: bool = False
    needs_stay: bool = False
    extrapolate: bool = False
    timeout_s: float | None = None
    dtypes: tuple[str, ...] = ()
    graphs: tuple[int, ...] = ()
    besides: tuple[tuple[Collective, int], ...] = ()
    allowed: frozenset[str] = frozenset()


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
        harmed: sizes without a rule that the rules slow; with ``keep_losers`` alone.
        is_paired: whether the idle plugin stood in for the baseline, inside launches.
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
    harmed: Sizes = field(default_factory=dict)
    is_paired: bool = True

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
        return any(cut.holds(verdict.target.collective, verdict.nbytes) for cut in self.cuts)

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


def _factor(one: Estimate) -> FactorFile:
    ratio, low, high = one.ratios
    return FactorFile(ratio=ratio, low=low, high=high, launches=one.n_launches)


def verify_rules(
    request: VerifyRequest, sweep: Sweep, site: Site, *, reporter: Reporter
) -> Verified:
    """Verify a file, narrow it until all that is left stands, and write that.

    It always ends, with what is proven: what is undecided when no time is left goes back to the
    library. Interrupted at any moment, the same command goes on with the launches that are missing.

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
    text = text_of(request.rules)
    file = accepted(text.encode(), request.rules)
    before = counted(ours(file, site))
    if not file.rules:
        raise CommandLineError(
            "this file has no rule, so there is nothing to verify",
            where=str(request.rules),
            hint="the library chooses as it did; its comments say why at each size.",
        )
    if not before.rules:
        raise CommandLineError(
            f"no rule of this file is for {site.scale}",
            where=str(request.rules),
            hint="emit one first (rccltune emit-config), or start as many ranks (--np).",
        )
    # A line that cannot be written again is told now, and not when all is measured.
    rewritten(text, {}, ())
    check_needs(file.needs, request.allowed, where=str(request.rules))
    beyond: tuple[Cut, ...] = ()
    if not request.keep_losers:
        narrowed, beyond = _within_reach(request, text, file, sweep, site)
        if request.extrapolate or ours(accepted(narrowed.encode(), request.rules), site):
            text = narrowed
        else:
            raise CommandLineError(
                "none of these rules is for a size that this sweep has: nothing can be verified",
                where=str(request.rules),
                hint="sweep the sizes that they are for (--min-bytes, --max-bytes).",
            )
    walks = plan.why_no_walk(sweep, measure.ground_of(site)) is None
    is_paired = walks and _is_silent_site(request.folder, file)
    ground = Ground(
        folder=request.folder / FOLDER,
        conditions=plan.conditions(
            replace(sweep, rank_placement=site.seating.place.name, scales=(site.scale,)),
            dtypes=request.dtypes,
            graphs=request.graphs,
            besides=request.besides,
        ),
        site=site,
        swept=read_swept(request.folder, reporter),
        is_paired=is_paired,
        walks=walks,
        timeout_s=request.timeout_s,
        reporter=reporter,
    )
    name = verdict_store.verdict_name(request.output, request.folder, file_name(site.fingerprint))
    with (
        verdict_store.kept(request.folder, name, request.rules),
        session.writing(ground.folder, reporter),
        launch.interruptible(),
    ):
        end_leftovers(ground.folder, reporter)
        same_hosts(site, ground.folder, reporter=reporter, rules=request.rules)
        if site.node is not None:
            session.write_atomically(ground.folder / NODE_FILE, simulate.written(site.node))
        wanted = Wanted(
            where=request.rules,
            min_gain=request.min_gain,
            n_looks=request.n_looks,
            keep_losers=request.keep_losers,
            needs_stay=request.needs_stay,
        )
        state = settle(wanted, ground, text)
    cuts = (*beyond, *state.cuts)
    unneeded: tuple[str, ...] = ()
    if not request.keep_losers:
        text, unneeded = without_unneeded(_with_evidence(state, site), sweep)
    path = None if request.keep_losers else request.output
    after = read_rules(text.encode())
    made = Verified(
        path=path,
        text=text,
        held=state.held,
        weighed=tuple(one for weighed in state.weighed for one in weighed),
        standings=state.standings,
        cuts=cuts,
        before=before,
        after=counted(ours(after, site)),
        n_launches=state.n_launches,
        n_looks=state.n_looks,
        simulated=site.node is not None,
        needs=tuple(dict(after.needs).items()),
        lost_needs=state.lost_needs,
        unneeded=unneeded,
        environment=state.environment,
        harmed=state.harmed,
        is_paired=is_paired,
    )
    if path is not None:
        session.write_atomically(path, text)
        exports = path.with_suffix(".env")
        if exports.exists() and made.lost_exports:
            kept = exports_without(exports.read_text(encoding="utf-8"), made.lost_exports)
            session.write_atomically(exports, kept)
    session.write_derived(request.folder, name, model.to_plain(made.file))
    return made


def _is_silent_site(folder: Path, file: RuleFile) -> bool:
    """Whether a plugin that answers nothing leaves the library as it is: it has no other tuner."""
    if any(rule.vendor for rule in file.rules):
        return False
    return fit.tuner_of(folder) in (None, "none")


def _within_reach(
    request: VerifyRequest, text: str, file: RuleFile, sweep: Sweep, site: Site
) -> tuple[str, tuple[Cut, ...]]:
    """The file with rules that end where verification will, and what they lose.

    Extrapolated, what lies beyond stays in rules of its own, of which nothing is said.
    """
    rules = ours(file, site)
    n_ranks = site.scale.n_ranks
    beyond = cutting.beyond(
        {
            one: plan.verified_sizes(sweep, one, n_ranks) if one in sweep.collectives else ()
            for one in dict.fromkeys(rule.collective for rule in rules)
        }
    )
    changes: dict[int, Change] = {}
    taken: dict[Cut, None] = {}
    said: set[tuple[Collective, int, int]] = set()
    for rule in rules:
        mine = [cut for cut in beyond if cutting.inside(rule, cut) is not None]
        if not mine or rule.line is None:
            continue
        outside = [part for cut in mine if (part := cutting.inside(rule, cut)) is not None]
        parts = cutting.without(rule, mine)
        if request.extrapolate:
            if parts:
                changes[rule.line] = Change(parts=parts, evidence="", unproven=tuple(outside))
            continue
        taken |= dict.fromkeys(
            replace(cut, min_nbytes=part.min_nbytes, max_nbytes=part.max_nbytes)
            for cut, part in zip(mine, outside, strict=True)
        )
        # A fallback behind a rule has the same bounds.
        new = [p for p in outside if (p.collective, p.min_nbytes, p.max_nbytes) not in said]
        said |= {(p.collective, p.min_nbytes, p.max_nbytes) for p in new}
        holes = tuple((part.min_nbytes, part.max_nbytes, NOT_MEASURED) for part in new)
        changes[rule.line] = Change(parts=parts, evidence="", holes=holes)
    return rewritten(text, changes, ()), tuple(taken)


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
    where = "SIMULATED, no hardware" if site.node is not None else "on this machine"
    if site.node is not None and site.fingerprint.runner:
        where += f" ({site.fingerprint.runner}; results not checked)"
    head = f"{VERIFIED_MARK} with and without the rules in turns, {where}, {site.scale}"
    others = [str(one.condition) for one in state.held if not one.condition.is_own]
    also = (f"{VERIFIED_MARK} nowhere slower under: {', '.join(others)}",) if others else ()
    return rewritten(state.text, changes, (f"{head}, {state.n_launches} launches", *also))


def _evidence(one: Standing) -> str:
    ratios = one.ratios
    return (
        f"{VERIFIED_MARK} {one.gain} over {one.n_gaining} sizes "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f}), shown {one.shown.value}"
    )
