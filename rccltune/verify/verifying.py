"""Rules and the library in turns on the machine itself: what stays of a rule file.

Both sides are called in a number of communicators that is fixed before the first one is made
(:mod:`rccltune.verify.pairs`); :mod:`rccltune.verify.judge` judges once. What was narrowed is
judged again on as many fresh communicators, and then stays or goes: it always ends.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.launch import signals
from rccltune.machine.real_rccl import unchecked
from rccltune.measure.hosts import same_hosts
from rccltune.measure.instrument import Instrument
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.site import Site
from rccltune.model import defaults, schema
from rccltune.model.chosen import Rule, RuleCount, Verdict
from rccltune.model.errors import CommandLineError, HarmError, VerificationError
from rccltune.model.measured import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.settings import (
    DEFAULT_VARIANT,
    RULES,
    SILENT,
    Scale,
    Target,
    Variant,
    View,
)
from rccltune.model.vocabulary import Collective, Placement, format_span
from rccltune.perf import passes, plan, rows, runs
from rccltune.perf.passes import Wanted
from rccltune.perf.samples import GRAPH_UP_TO
from rccltune.perf.sweep import Measuring
from rccltune.rules.documents import counted
from rccltune.rules.line_format import rewritten
from rccltune.rules.provenance import check_needs
from rccltune.rules.reader import RuleFile, read_rules
from rccltune.rules.refusals import accepted
from rccltune.rules.sheets import file_name, sheet_name
from rccltune.session import files, store
from rccltune.simulate import compiled
from rccltune.verify import pairs, rewriting, verdict_store
from rccltune.verify.beside import SiteAndIdle, not_judged_below
from rccltune.verify.judge import Judged, Part, judge
from rccltune.verify.pairs import Calls
from rccltune.verify.verdict import Beside, Cut, RuleVerdict, State, VerdictFile
from rccltune.verify.verdict_store import FOLDER

if TYPE_CHECKING:
    import pandas as pd

# Of a node whose communicators take longer than this there are fewer.
_DEAR_S: Final = 1.0
_FEWER: Final = 4
# Sizes that all communicators of the sweep agree on so well are called in half of them.
_QUIET: Final = 0.003
RULES_FILE: Final = "rules.csv"


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
    """Where it is verified, and what the sweep says of it."""

    instrument: Instrument
    sweep: Sweep
    table: pd.DataFrame
    request: VerifyRequest
    variant: Variant
    reporter: Reporter
    seconds: float = 0.0
    n_communicators: int = 0
    n_processes: int = 0
    wrong: dict[Collective, frozenset[int]] = field(default_factory=dict)

    @property
    def scale(self) -> Scale:
        """Of the communicator."""
        return self.instrument.site.scale


def verify_rules(
    request: VerifyRequest,
    sweep: Sweep,
    instrument: Instrument,
    *,
    reporter: Reporter,
) -> Verified:
    """Verify a file, narrow it until all that is left stands, and write that.

    Interrupted at any moment, the same command goes on with the steps that are missing.

    Args:
        request: the file, and what it is held to.
        sweep: as measured.
        instrument: the rank program on this machine.
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
    name = verdict_store.verdict_name(
        request.output, request.folder, file_name(instrument.site.fingerprint)
    )
    known = sweep_table(request.folder)
    text = rewriting.read_text(request.rules)
    file = accepted(text.encode(), request.rules)
    where = Course(
        instrument=instrument,
        sweep=sweep,
        table=known,
        request=request,
        variant=_variant_of(file, sweep),
        reporter=reporter,
    )
    before = counted(ours(file, where.scale))
    _check(file, before, request, where.scale)
    rewritten(text, {}, ())
    beyond: tuple[Cut, ...] = ()
    if not request.keep_losers:
        text, beyond = rewriting.within(text, ours(file, where.scale), _reach(known))
        if not ours(read_rules(text.encode()), where.scale) and not request.needs_stay:
            raise CommandLineError(
                "none of these rules is for a size that this sweep has: nothing can be verified",
                where=str(request.rules),
                hint="sweep the sizes that they are for (--min-bytes, --max-bytes).",
            )
    with (
        verdict_store.kept(request.folder, name, request.rules),
        files.writing(request.folder / FOLDER, reporter),
        signals.interruptible(),
    ):
        end_leftovers(request.folder / FOLDER, reporter)
        same_hosts(instrument.site, request.folder / FOLDER, reporter=reporter, rules=request.rules)
        made = _settled(where, text, beyond, before)
    if made.path is not None:
        files.write_atomically(made.path, made.text)
        exports = made.path.with_suffix(".env")
        if exports.exists() and made.lost_exports:
            left = rewriting.exports_without(exports.read_text("utf-8"), made.lost_exports)
            files.write_atomically(exports, left)
    store.write_derived(request.folder, name, schema.to_plain(made.file))
    return made


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / sheet_name(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def sweep_table(folder: Path) -> pd.DataFrame:
    """Rows of the sweep's runs.

    Raises:
        OutputError: a run that cannot be read.
    """
    return rows.table(runs.read_runs(folder))


def ours(file: RuleFile, scale: Scale) -> tuple[Rule, ...]:
    """Rules of this scale, fallbacks too; a vendor's behind them are what the site has anyway."""
    return tuple(one for one in of_scale(file, scale) if not one.vendor)


def of_scale(file: RuleFile, scale: Scale) -> tuple[Rule, ...]:
    """Rules that answer at this scale, in the file's order."""
    return tuple(
        one
        for one in file.rules
        if one.n_nodes in (None, scale.n_nodes) and one.n_ranks in (None, scale.n_ranks)
    )


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


def _reach(table: pd.DataFrame) -> Mapping[str, tuple[int, int]]:
    """First and last size that the sweep measured, by collective."""
    timed = table[table["step"] == plan.MEASURE].groupby("collective")["nbytes"]
    return {
        str(name): (int(low), int(high))
        for name, low, high in zip(timed.min().index, timed.min(), timed.max(), strict=True)
    }


def n_communicators(table: pd.DataFrame, asked: int | None) -> int:
    """In how many communicators both sides are called; fewer where each costs seconds.

    Args:
        table: rows of the sweep's runs.
        asked: what the user says, None for the usual number.
    """
    if asked is not None:
        return asked
    made = table[table["step"] == plan.COMMUNICATOR]["time_us"]
    each_s = float(made.median()) * 1e-6 if len(made) else 0.0
    return defaults.VERIFY_COMMUNICATORS if each_s <= _DEAR_S else _FEWER


def calls_for(where: Course, rules: Sequence[Rule], only: frozenset[Collective] | None) -> Calls:
    """What is called for a file.

    Args:
        where: the site.
        rules: of this scale, in the file's order.
        only: collectives; None for all that were swept.
    """
    table, sweep = where.table, where.sweep
    changes = pairs.changes_in(table, where.variant)
    swept = table[table["step"] == plan.MEASURE].groupby("collective")["nbytes"].unique()
    named = [Collective(name) for name in swept.index]
    found = [
        pairs.sizes_of(
            rules,
            one,
            sorted(int(n) for n in swept[one.value]),
            changes.get(one.value, ()),
            where.scale,
        )
        for one in named
        if one.is_tunable and (only is None or one in only)
    ]
    told = table[table["dtype"] != ""]
    return Calls(
        sizes=tuple(found),
        placements=sweep.placements,
        dtype=where.request.dtype or str(told["dtype"].iloc[0]),
        op=str(told["op"].iloc[0]),
        captures=passes.captures(table, where.variant),
        timing=where.request.timing,
        checked_up_to=where.instrument.checked_up_to,
        quiet_from=_quiet_from(table),
    )


def _quiet_from(table: pd.DataFrame) -> int | None:
    """Size in bytes from which on the sweep's communicators agree within 0.3 % at every size."""
    import numpy as np

    own = table[
        (table["setting"] == str(SILENT))
        & (table["purpose"] == runs.FINE)
        & (table["step"] == plan.MEASURE)
        & (table["nbytes"] > GRAPH_UP_TO)
    ]
    if own.empty:
        return None
    cell = ["collective", "placement", "nbytes"]
    spread = np.log(own["time_us"]).groupby([own[name] for name in cell]).std()
    by_size = spread.groupby("nbytes").max().sort_index(ascending=False)
    found = None
    for nbytes, each in by_size.items():
        if not each <= _QUIET:
            break
        found = int(nbytes)
    return found


def _settled(where: Course, text: str, beyond: tuple[Cut, ...], before: RuleCount) -> Verified:
    """Measure, judge, narrow; and once more what was narrowed."""
    request = where.request
    offsets = SiteAndIdle(where.table, where.variant)
    rules = of_scale(read_rules(text.encode()), where.scale)
    judged = _looked(where, text, rules, only=None, offsets=offsets)
    harmed = tuple(
        f"{name.value} {format_span(low, high)} {ratio}" for name, low, high, ratio in judged.harmed
    )
    has_vendor = any(one.vendor for one in rules)
    if harmed and has_vendor and not request.keep_losers:
        raise HarmError(
            f"rows of the vendor's behind the rules slow sizes: {', '.join(harmed[:3])}",
            where=str(request.rules),
            hint="leave them out (emit-config without --base).",
        )
    parts = list(judged.parts)
    cuts = list(beyond)
    if not request.keep_losers:
        first = rewriting.narrowed(text, [one for one in rules if not one.vendor], parts)
        text, cuts = first.text, [*cuts, *first.cuts]
        text, parts, more = _confirmed(where, text, parts, offsets)
        cuts += more
    return _made(
        where,
        text,
        parts=parts,
        judged=judged,
        cuts=cuts,
        before=before,
        harmed=harmed,
        offsets=offsets,
    )


def _looked(
    where: Course,
    text: str,
    rules: Sequence[Rule],
    *,
    only: frozenset[Collective] | None,
    offsets: SiteAndIdle,
    n_rules: int | None = None,
) -> Judged:
    """What both sides say of a file, in fresh communicators."""
    table, failed = _measured(where, text, calls_for(where, rules, only))
    wrong = _wrong(table, where.request.rules)
    where.wrong |= wrong
    found = judge(
        pairs.ratios(table),
        rules,
        min_gain=where.request.min_gain,
        wrong=wrong,
        beside=offsets.between,
        keeps_ends=where.request.keep_losers,
        n_rules=n_rules,
    )
    parts = tuple(
        replace(one, state=State.FAILED, reason=failed[one.rule.collective], is_whole=True)
        if one.rule.collective in failed
        else one
        for one in found.parts
    )
    return replace(found, parts=parts)


def _measured(
    where: Course, text: str, calls: Calls
) -> tuple[pd.DataFrame, Mapping[Collective, str]]:
    """Rows of a file's runs, which lie in a folder of that file; what failed with the rules."""
    # Without what is said to people: a file is the same with its proof and without.
    bare = "".join(one for one in text.splitlines(keepends=True) if not one.startswith("# "))
    folder = where.request.folder / FOLDER / hashlib.sha256(bare.encode()).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RULES_FILE
    files.write_atomically(path, bare)
    ground, site = where.instrument.ground, where.instrument.site
    told = [("NCCL_TUNER_CONFIG_FILE", str(path.resolve()))]
    placement = dict(read_rules(bare.encode()).requires).get("placement")
    if placement is not None:
        told.append(("RCCLTUNE_PLACEMENT", placement))
    if site.node is not None:
        files.write_atomically(where.request.folder / store.NODE_FILE, compiled.written(site.node))
        if site.fingerprint.mode is not None:
            # There is no device that could say its mode.
            told.append(("RCCLTUNE_MODE", str(site.fingerprint.mode)))
    ground = replace(ground, added=(*ground.added, *told))
    measuring = Measuring(
        ground=ground,
        wanted=Wanted(
            sizes={},
            placements=calls.placements,
            dtype=calls.dtype,
            op=calls.op,
            variants=(where.variant,),
        ),
        session=folder,
        reporter=where.reporter,
        site=dict(os.environ),
    )
    measuring.read()
    n = n_communicators(where.table, where.request.n_communicators)
    measuring.complete(pairs.units(calls, n, where.variant))
    where.seconds += sum(run.ended.duration_s for run in measuring.runs if run.ended)
    where.n_communicators += n
    where.n_processes += min(pairs.PROCESSES, n)
    failed = {
        one.collective: f"{', '.join(f.words for f in one.failures)} with the rules"
        for one in measuring.aside()
        if one.setting == RULES
    }
    return measuring.table(), failed


def _wrong(table: pd.DataFrame, where: Path) -> dict[Collective, frozenset[int]]:
    """Sizes with wrong results under the rules, by collective.

    Raises:
        VerificationError: the library computes wrong results by itself.
    """
    checks = table[(table["step"] == plan.CHECK) & (table["wrong"] > 0)]
    if (own := checks[checks["setting"] == str(SILENT)]).size:
        sizes = format_span(int(own["nbytes"].min()), int(own["nbytes"].max()))
        raise VerificationError(
            f"wrong results without rules: {own['collective'].iloc[0]}, {sizes}",
            where=str(where),
            hint="no rule is to blame: this library or machine computes wrong results.",
        )
    ruled = checks[checks["setting"] == str(RULES)].groupby("collective")["nbytes"].unique()
    return {Collective(name): frozenset(map(int, sizes)) for name, sizes in ruled.items()}


def _confirmed(
    where: Course, text: str, parts: list[Part], offsets: SiteAndIdle
) -> tuple[str, list[Part], list[Cut]]:
    """What was narrowed, judged on fresh communicators; it stays as it is, or goes."""
    cut = [one for one in parts if one.state is State.KEPT and not one.is_whole]
    if not cut:
        return text, parts, []
    spans = {(one.rule.collective, one.low) for one in cut}
    rules = of_scale(read_rules(text.encode()), where.scale)
    again = [
        one
        for one in rules
        if not one.fallback
        and not one.vendor
        and any(name is one.collective and one.reaches(low) for name, low in spans)
    ]
    where.reporter.say(
        f"Narrowed: {len(again)} rule{'s' * (len(again) != 1)}, judged again on fresh communicators"
    )
    only = frozenset(one.collective for one in again)
    n_rules = sum(not one.vendor and not one.fallback for one in rules)
    looked = _looked(where, text, again, only=only, offsets=offsets, n_rules=n_rules)
    found = [_as_it_is(one) for one in looked.parts if one.is_whole] + [
        _as_it_is(one) for one in _merged([o for o in looked.parts if not o.is_whole])
    ]
    made = rewriting.narrowed(text, [one for one in rules if not one.vendor], found)
    others = [one for one in parts if one not in cut]
    return made.text, [*others, *found], list(made.cuts)


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
    where: Course,
    text: str,
    *,
    parts: Sequence[Part],
    judged: Judged,
    cuts: Sequence[Cut],
    before: RuleCount,
    harmed: tuple[str, ...],
    offsets: SiteAndIdle,
) -> Verified:
    """All that was found, as one record."""
    request, site = where.request, where.instrument.site
    standings = tuple(_standing(one, text, where.scale) for one in parts)
    unneeded: tuple[str, ...] = ()
    if not request.keep_losers:
        text = _with_evidence(where, text, standings)
        text, unneeded = rewriting.without_unneeded(
            text, where.sweep, is_worth_it=request.needs_stay
        )
    after = read_rules(text.encode())
    sizes: dict[Collective, set[int]] = {}
    for one in judged.sizes:
        sizes.setdefault(one.collective, set()).add(one.nbytes)
    beside = tuple(offsets.octaves(sizes))
    told = beside if where.variant != DEFAULT_VARIANT else _not_equal(beside)
    path = None if request.keep_losers else request.output
    count = counted(ours(after, where.scale))
    file = VerdictFile(
        path=str(path) if path else None,
        simulated=site.node is not None,
        runner=site.fingerprint.runner,
        scale=where.scale,
        rules_before=before.rules,
        rules=count.rules,
        fallbacks=count.fallbacks,
        communicators=where.n_communicators,
        processes=where.n_processes,
        seconds=round(where.seconds, 1),
        rules_sha256=hashlib.sha256(request.rules.read_bytes()).hexdigest(),
        verdicts=tuple(_verdicts(where, judged)),
        standings=standings,
        cuts=tuple(dict.fromkeys(cuts)),
        beside=told,
        needs=dict(after.needs),
        lost_needs=unneeded,
        not_judged_below=not_judged_below(beside) if where.variant != DEFAULT_VARIANT else None,
    )
    return Verified(
        path=path,
        text=text,
        file=file,
        before=before,
        after=count,
        unneeded=unneeded,
        harmed=harmed,
    )


def _not_equal(found: Sequence[Beside]) -> tuple[Beside, ...]:
    return tuple(one for one in found if not one.is_equal)


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


def _verdicts(where: Course, judged: Judged) -> list[Verdict]:
    target = {
        name: Target(
            collective=name,
            scale=where.scale,
            rank_placement=where.instrument.site.seating.place.name,
            variant=where.variant,
        )
        for name in {one.collective for one in judged.sizes}
    }
    told = where.table[where.table["dtype"] != ""].iloc[0]
    return [
        Verdict(
            target=target[one.collective],
            view=View(
                dtype=where.request.dtype or str(told["dtype"]),
                redop=str(told["op"]) if one.collective.reduces else "none",
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
            communicators=one.ratio.n,
        )
        for one in judged.sizes
    ]


def _with_evidence(where: Course, text: str, standings: Sequence[RuleVerdict]) -> str:
    """The file with what its rules rest on."""
    on = "on this machine"
    if where.instrument.site.node is not None:
        on = f"SIMULATED, no hardware{unchecked(where.instrument.site.fingerprint.runner)}"
    how = (
        f"with and without the rules in turns, {on}, {where.scale}, {where.n_communicators} "
        f"communicators of {where.n_processes} processes"
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
