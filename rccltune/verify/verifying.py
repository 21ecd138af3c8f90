"""Rules and the library in turns on the machine itself: what stays of a rule file.

Both sides are called in a number of communicators that is fixed before the first one is made
(:mod:`rccltune.verify.pairs`); :mod:`rccltune.verify.judge` judges once. What was narrowed is
judged again on as many fresh communicators, and then stays or goes: it always ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rccltune.launch import signals
from rccltune.machine.real_rccl import unchecked
from rccltune.measure.hosts import same_hosts
from rccltune.measure.instrument import Instrument
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.site import Site, SiteRequest
from rccltune.model import defaults, schema
from rccltune.model.chosen import Rule, RuleCount, Verdict
from rccltune.model.errors import CommandLineError, HarmError
from rccltune.model.measured import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.settings import DEFAULT_VARIANT, Scale, Target, Variant, View
from rccltune.model.vocabulary import Placement, format_span
from rccltune.perf import plan
from rccltune.rules.documents import counted, left_over
from rccltune.rules.line_format import rewritten
from rccltune.rules.provenance import check_needs
from rccltune.rules.reader import RuleFile, read_rules
from rccltune.rules.refusals import accepted
from rccltune.rules.sheets import file_name, sheet_name
from rccltune.session import files, store
from rccltune.verify import confirm as confirming
from rccltune.verify import rewriting, verdict_store
from rccltune.verify.beside import not_judged_below
from rccltune.verify.communicators import Communicators
from rccltune.verify.judge import Judged, Part, judge
from rccltune.verify.launches import Launches
from rccltune.verify.sides import Sides
from rccltune.verify.verdict import Cut, RuleVerdict, State, VerdictFile, replicates_of
from rccltune.verify.verdict_store import FOLDER


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """What verify was asked for.

    Attributes:
        folder: the session.
        rules: the file to verify.
        output: where what stays goes.
        min_gain: what a rule must gain, 0.02 for 2 %.
        n_communicators: None for the usual number.
        keep_losers: leave the file as it is, whatever loses.
        needs_stay: the file is for what its rules need: without it nothing of it is kept.
        dtype: type to verify with; None for the sweep's.
        timing: ``auto``, ``graph`` or ``loop``.
        timeout_s: after which a launch is ended, in a session of rccl-tests.
        confirms: where rccl-tests are looked for, which have the last word; None leaves them out.
        allowed: variables beyond the harmless ones that ranks may be given for the rules.
    """

    folder: Path
    rules: Path
    output: Path
    min_gain: float = defaults.MIN_GAIN
    n_communicators: int | None = None
    keep_losers: bool = False
    needs_stay: bool = False
    dtype: str | None = None
    timing: str = defaults.TIMING
    timeout_s: float | None = None
    confirms: SiteRequest | None = None
    allowed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """How a verification ended.

    Attributes:
        text: the file as it stands.
        file: for verdict.json and --json.
        before: rules that the file had for this scale.
        after: rules that it has now.
        unneeded: variables that the file asked for and no rule needs any more.
        harmed: sizes without a rule of ours that are slower; with ``keep_losers`` alone.
    """

    path: Path | None
    text: str
    file: VerdictFile
    before: RuleCount
    after: RuleCount
    unneeded: tuple[str, ...] = ()
    harmed: tuple[str, ...] = ()

    @property
    def standings(self) -> tuple[RuleVerdict, ...]:
        """Every rule of ours."""
        return self.file.standings

    @property
    def losers(self) -> tuple[RuleVerdict, ...]:
        """Rules that do not stand as they are."""
        return tuple(one for one in self.standings if not one.is_kept)

    @property
    def lost_exports(self) -> dict[str, str]:
        """Variables that nobody should export any more, and why; without rules all of them."""
        unused = () if self.after.rules else rewriting.USE
        return dict.fromkeys((*self.unneeded, *unused), "is not exported: no rule needs it")


@dataclass(slots=True, kw_only=True)
class Course:
    """A verification under way.

    Attributes:
        n_replicates, n_processes, seconds: of all that was called so far.
    """

    request: VerifyRequest
    sweep: Sweep
    sides: Sides
    reporter: Reporter
    n_replicates: int = 0
    n_processes: int = 0
    seconds: float = 0.0

    @property
    def site(self) -> Site:
        """Where."""
        return self.sides.site

    @property
    def scale(self) -> Scale:
        """Of the communicator."""
        return self.sides.site.scale


def verify_rules(
    request: VerifyRequest,
    sweep: Sweep,
    where: Instrument | Site,
    *,
    reporter: Reporter,
) -> Verified:
    """Verify a file, narrow it until all that is left stands, and write that.

    Interrupted at any moment, the same command goes on with the steps that are missing.

    Args:
        request: the file, and what it is held to.
        sweep: as measured.
        where: the rank program on this machine; or the site of a session of rccl-tests, which
            launches of theirs verify.
        reporter: told what is worth telling.

    Raises:
        InputFileError: the plugin refuses the file, or RCCL would cut a line of it.
        CommandLineError: it has no rule, or none for this scale; it needs a variable that nobody
            allowed.
        MachineError: several hosts are not alike.
        LaunchError: the library fails without rules.
        HarmError: rows of a vendor's behind the rules slow sizes.
        VerificationError: wrong results without rules.
    """
    text = rewriting.read_text(request.rules)
    file = accepted(text.encode(), request.rules)
    sides = _sides(request, sweep, where, _variant_of(file, sweep), reporter)
    course = Course(request=request, sweep=sweep, sides=sides, reporter=reporter)
    site, scale = sides.site, sides.site.scale
    name = verdict_store.verdict_name(request.output, request.folder, file_name(site.fingerprint))
    before = counted(ours(file, scale))
    _check(file, before, request, scale)
    # A line that cannot be written again is told now, and not when all is measured.
    rewritten(text, {}, ())
    beyond: tuple[Cut, ...] = ()
    if not request.keep_losers:
        reach = {name.value: (sizes[0], sizes[-1]) for name, sizes in sides.swept.items()}
        text, beyond = rewriting.within(text, ours(file, scale), reach)
        if not ours(read_rules(text.encode()), scale) and not request.needs_stay:
            raise CommandLineError(
                "none of these rules is for a size that this sweep has: nothing can be verified",
                where=str(request.rules),
                hint="sweep the sizes that they are for (--min-bytes, --max-bytes).",
            )
    own = request.folder / FOLDER
    with (
        verdict_store.kept(request.folder, name, request.rules),
        files.writing(own, reporter),
        signals.interruptible(),
    ):
        end_leftovers(own, reporter)
        same_hosts(site, own, reporter=reporter, rules=request.rules)
        made = _settled(course, text, beyond, before)
    if made.path is not None:
        files.write_atomically(made.path, made.text)
        exports = made.path.with_suffix(".env")
        if exports.exists() and made.lost_exports:
            left = rewriting.exports_without(exports.read_text("utf-8"), made.lost_exports)
            files.write_atomically(exports, left)
    store.write_derived(request.folder, name, schema.to_plain(made.file))
    with verdict_store.kept(request.folder, name, request.rules):
        sentence = _last_word(request, made, reporter)
    if sentence:
        made = replace(made, file=replace(made.file, confirmed=sentence))
        store.write_derived(request.folder, name, schema.to_plain(made.file))
    return made


def _last_word(request: VerifyRequest, made: Verified, reporter: Reporter) -> str:
    """What rccl-tests say of the rules, in a sentence; empty where they were not asked.

    Raises:
        VerificationError: they contradict a rule, twice.
    """
    if request.confirms is None or made.path is None or not made.after.rules:
        return ""
    site = confirming.find(request.confirms, reporter)
    if site is None:
        return ""
    found = confirming.confirm(
        confirming.Confirming(
            site=site,
            verdict=made.file,
            rules=made.path,
            session=request.folder,
            reporter=reporter,
        )
    )
    return f"{found.sentence}, in {found.seconds:.0f} s" if found else ""


def _sides(
    request: VerifyRequest,
    sweep: Sweep,
    where: Instrument | Site,
    variant: Variant,
    reporter: Reporter,
) -> Sides:
    """Who calls both sides: the rank program, or rccl-tests in a session of theirs."""
    if isinstance(where, Instrument):
        return Communicators(
            instrument=where,
            sweep=sweep,
            session=request.folder,
            variant=variant,
            reporter=reporter,
            asked=request.n_communicators,
            dtype_asked=request.dtype,
            timing=request.timing,
        )
    return Launches(
        site=where,
        sweep=sweep,
        session=request.folder,
        variant=variant,
        reporter=reporter,
        asked=request.n_communicators,
        graph=bool(sweep.graph),
        timeout_s=request.timeout_s,
    )


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / sheet_name(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def ours(file: RuleFile, scale: Scale) -> tuple[Rule, ...]:
    """Rules of this scale, fallbacks too; a vendor's behind them are what the site has anyway."""
    return tuple(one for one in of_scale(file, scale) if not one.vendor)


def of_scale(file: RuleFile, scale: Scale) -> tuple[Rule, ...]:
    """Rules that answer at this scale, in the file's order, fallbacks marked."""
    found: list[Rule] = []
    for one in file.rules:
        if one.n_nodes in (None, scale.n_nodes) and one.n_ranks in (None, scale.n_ranks):
            before = [
                rule for rule in found if rule.collective is one.collective and not rule.vendor
            ]
            taken = not left_over((one.min_nbytes, one.max_nbytes), before)
            found.append(replace(one, fallback=taken and not one.vendor))
    return tuple(found)


def _check(file: RuleFile, before: RuleCount, request: VerifyRequest, scale: Scale) -> None:
    """Stop where there is nothing to verify.

    Raises:
        CommandLineError: why.
    """
    is_alone = request.needs_stay and bool(file.needs) and not before.rules
    if not file.rules and not is_alone:
        raise CommandLineError(
            "this file has no rule, so there is nothing to verify",
            where=str(request.rules),
            hint="the library chooses as it did; its comments say why at each size.",
        )
    if not before.rules and not is_alone:
        raise CommandLineError(
            f"no rule of this file is for {scale}",
            where=str(request.rules),
            hint="emit one first (rccltune emit-config), or start as many ranks (--np).",
        )
    check_needs(file.needs, request.allowed, where=str(request.rules))


def _variant_of(file: RuleFile, sweep: Sweep) -> Variant:
    """The environment that a file needs, by its name where the sweep has it."""
    needs = tuple(file.needs)
    if not needs:
        return DEFAULT_VARIANT
    own = (one for one in sweep.variants if tuple(one.environment) == needs)
    return next(own, Variant(name="needs-of-the-rules", environment=needs))


def _settled(course: Course, text: str, beyond: tuple[Cut, ...], before: RuleCount) -> Verified:
    """Call, judge, narrow; and once more what was narrowed."""
    request = course.request
    rules = of_scale(read_rules(text.encode()), course.scale)
    judged = _looked(course, text, rules)
    harmed = tuple(
        f"{name.value} {format_span(low, high)} {ratio}" for name, low, high, ratio in judged.harmed
    )
    if harmed and any(one.vendor for one in rules) and not request.keep_losers:
        raise HarmError(
            f"rows of the vendor's behind the rules slow sizes: {', '.join(harmed[:_SHOWN])}",
            where=str(request.rules),
            hint="leave them out (emit-config without --base).",
        )
    parts, cuts = list(judged.parts), list(beyond)
    if not request.keep_losers:
        first = rewriting.narrowed(text, [one for one in rules if not one.vendor], parts)
        text, parts, more = _confirmed(course, first.text, parts)
        cuts += [*first.cuts, *more]
    return _made(course, text, parts=parts, judged=judged, cuts=cuts, before=before, harmed=harmed)


_SHOWN: Final = 3


def _looked(
    course: Course,
    text: str,
    rules: Sequence[Rule],
    *,
    again: bool = False,
    n_rules: int | None = None,
) -> Judged:
    """What both sides say of a file, in replicates of its own."""
    called = course.sides.call(text, rules, again=again)
    course.n_replicates += called.n_replicates
    course.n_processes += called.n_processes
    course.seconds += called.seconds
    found = judge(
        called.pairs,
        rules,
        min_gain=course.request.min_gain,
        wrong=called.wrong,
        beside=course.sides.beside,
        keeps_ends=course.request.keep_losers,
        n_rules=n_rules,
    )
    failed = called.failed
    parts = tuple(
        replace(one, state=State.FAILED, reason=failed[one.rule.collective], is_whole=True)
        if one.rule.collective in failed
        else one
        for one in found.parts
    )
    return replace(found, parts=parts)


def _confirmed(course: Course, text: str, parts: list[Part]) -> tuple[str, list[Part], list[Cut]]:
    """What was narrowed, judged in fresh replicates; it stays as it is, or goes."""
    cut = [one for one in parts if one.state is State.KEPT and not one.is_whole]
    if not cut:
        return text, parts, []
    spans = {(one.rule.collective, one.low) for one in cut}
    rules = of_scale(read_rules(text.encode()), course.scale)
    again = [
        one
        for one in rules
        if not one.fallback
        and not one.vendor
        and any(name is one.collective and one.reaches(low) for name, low in spans)
    ]
    course.reporter.say(
        f"Narrowed: {len(again)} rule{'s' * (len(again) != 1)}, judged again in fresh "
        f"{course.sides.replicate}{'es' if course.sides.replicate.endswith('h') else 's'}"
    )
    n_rules = sum(not one.vendor and not one.fallback for one in rules)
    looked = _looked(course, text, again, again=True, n_rules=n_rules)
    whole = [one for one in looked.parts if one.is_whole]
    found = [
        _as_it_is(one) for one in (*whole, *_merged([o for o in looked.parts if not o.is_whole]))
    ]
    made = rewriting.narrowed(text, [one for one in rules if not one.vendor], found)
    return made.text, [*(one for one in parts if one not in cut), *found], list(made.cuts)


def _merged(parts: Sequence[Part]) -> list[Part]:
    """One part for each rule that would have to be narrowed once more: it goes instead."""
    by_line: dict[int | None, Part] = {}
    for one in parts:
        if one.state is not State.KEPT or one.rule.line not in by_line:
            by_line[one.rule.line] = one
    return list(by_line.values())


def _as_it_is(part: Part) -> Part:
    """A part as all of its rule."""
    state = part.state
    reason = part.reason
    if not part.is_whole and state is State.KEPT:
        state, reason = State.UNDECIDED, "it would have to be narrowed a second time"
    return replace(
        part,
        state=state,
        reason=reason,
        low=part.rule.min_nbytes,
        high=part.rule.max_nbytes,
        is_whole=True,
    )


def _made(
    course: Course,
    text: str,
    *,
    parts: Sequence[Part],
    judged: Judged,
    cuts: Sequence[Cut],
    before: RuleCount,
    harmed: tuple[str, ...],
) -> Verified:
    """All that was found, as one record."""
    request, site, sides = course.request, course.site, course.sides
    standings = tuple(_standing(one, text, course.scale) for one in parts)
    unneeded: tuple[str, ...] = ()
    if not request.keep_losers:
        text = _with_evidence(course, text, standings)
        text, unneeded = rewriting.without_unneeded(
            text, course.sweep, is_worth_it=request.needs_stay
        )
    after = read_rules(text.encode())
    beside = sides.octaves()
    is_site = sides.variant == DEFAULT_VARIANT
    count = counted(ours(after, course.scale))
    file = VerdictFile(
        path=None if request.keep_losers else str(request.output),
        simulated=site.node is not None,
        runner=site.fingerprint.runner,
        scale=course.scale,
        rules_before=before.rules,
        rules=count.rules,
        fallbacks=count.fallbacks,
        replicate=sides.replicate,
        replicates=course.n_replicates,
        processes=course.n_processes,
        seconds=round(course.seconds, 1),
        rules_sha256=hashlib.sha256(request.rules.read_bytes()).hexdigest(),
        verdicts=tuple(_verdicts(course, judged)),
        standings=standings,
        cuts=tuple(dict.fromkeys(cuts)),
        beside=tuple(one for one in beside if not (is_site and one.is_equal)),
        needs=dict(after.needs),
        lost_needs=unneeded,
        not_judged_below=None if is_site else not_judged_below(beside),
    )
    return Verified(
        path=None if request.keep_losers else request.output,
        text=text,
        file=file,
        before=before,
        after=count,
        unneeded=unneeded,
        harmed=harmed,
    )


def _standing(part: Part, text: str, scale: Scale) -> RuleVerdict:
    """A part as a rule: of the file as it is now where it is kept."""
    rule = part.rule
    if part.state is State.KEPT:
        now = (
            one
            for one in ours(read_rules(text.encode()), scale)
            if one.collective is rule.collective
            and not one.fallback
            and one.reaches(part.low)
            and one.setting == rule.setting
        )
        rule = next(now, rule)
    else:
        rule = replace(rule, min_nbytes=part.low, max_nbytes=part.high)
    return RuleVerdict(
        **{name: getattr(rule, name) for name in rule.__dataclass_fields__},
        state=part.state,
        gain=part.gain,
        loop=part.loop,
        n_sizes=part.n_sizes,
        n_undecided=part.n_undecided,
        clock=part.clock,
        reason=part.reason,
    )


def _verdicts(course: Course, judged: Judged) -> list[Verdict]:
    sides = course.sides
    return [
        Verdict(
            target=Target(
                collective=one.collective,
                scale=course.scale,
                rank_placement=course.site.seating.place.name,
                variant=sides.variant,
            ),
            view=View(
                dtype=sides.dtype,
                redop=sides.op if one.collective.reduces else "none",
                placement=Placement(one.placement),
                graph=one.clock == plan.GRAPH,
            ),
            nbytes=one.nbytes,
            baseline_us=round(one.library_us, 3),
            tuned_us=round(one.rules_us, 3),
            ratio=one.ratio.ratio,
            low=one.ratio.low,
            high=one.ratio.high,
            n_wrong=None,
            judgement=one.judgement,
            replicates=one.ratio.n,
        )
        for one in judged.sizes
    ]


def _with_evidence(course: Course, text: str, standings: Sequence[RuleVerdict]) -> str:
    """The file with what its rules rest on."""
    on = "on this machine"
    if course.site.node is not None:
        on = f"SIMULATED, no hardware{unchecked(course.site.fingerprint.runner)}"
    how = (
        f"with and without the rules in turns, {on}, {course.scale}, "
        f"{replicates_of(course.sides.replicate, course.n_replicates, course.n_processes)}"
    )
    evidence = {one.line: evidence_of(one) for one in standings if one.is_kept and one.line}
    return rewriting.with_evidence(text, evidence, [how])


def evidence_of(one: RuleVerdict) -> str:
    """``1.20x (1.18 to 1.22) by graph over 12 sizes; launched one by one 1.01x (0.97 to 1.05)``."""
    by = f" by {one.clock}" if one.clock else ""
    said = f"{one.gain}{by} over {one.n_sizes} sizes"
    if one.loop is not None:
        said += f"; {loop_words(one)}"
    if one.n_undecided:
        said += f"; undecided at {one.n_undecided}"
    return said


def loop_words(one: RuleVerdict) -> str:
    """What the loop says of a rule that graphs prove."""
    if one.loop is None:
        return ""
    if one.is_loop_noisy:
        return "launched one by one: too noisy to say"
    return f"launched one by one {one.loop}"
