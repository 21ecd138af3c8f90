"""Rules and the library in turns on the machine itself: what stays of a rule file.

Both sides are called in a number of communicators that is fixed before the first one is made
(:mod:`rccltune.verify.pairs`); :mod:`rccltune.verify.judge` judges once. What was narrowed is
judged again on as many fresh communicators, and then stays or goes: it always ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.launch import signals
from rccltune.measure.instrument import Instrument
from rccltune.measure.launcher import end_leftovers
from rccltune.measure.ongoing_sweep import OngoingSweep
from rccltune.measure.site import Site
from rccltune.model.errors import CommandLineError, InputFileError
from rccltune.model.measurement import Sweep
from rccltune.model.reporter import Reporter
from rccltune.model.rule import LeftToLibrary, Rule, RuleCount, RuleState
from rccltune.model.settings import Scale
from rccltune.model.verdict import SizeVerdict
from rccltune.releases import exact_release, name_library
from rccltune.rules.line_format import rewrite_lines
from rccltune.rules.needs import check_needs
from rccltune.rules.placement_files import file_name, name_with_placement
from rccltune.rules.refusals import read_accepted
from rccltune.rules.requirements import of_another_machine
from rccltune.rules.rule_file import RuleFile, read_rules
from rccltune.rules.rule_order import count_rules
from rccltune.session import files, lock
from rccltune.session.samples import bring_up_to_date
from rccltune.verify import confirm as confirming
from rccltune.verify import rewriting, same_bits, verdict_store
from rccltune.verify.communicators import CommunicatorPairs
from rccltune.verify.judge import JudgedFile, judge
from rccltune.verify.outcome import (
    OngoingVerification,
    VerificationResult,
    VerifyRequest,
    result_of,
)
from rccltune.verify.pairs import answering
from rccltune.verify.rewriting import of_scale
from rccltune.verify.rule_sides import beyond
from rccltune.verify.verdict import RuleVerdict


def verify_rules(
    request: VerifyRequest,
    sweep: Sweep,
    instrument: Instrument,
    *,
    reporter: Reporter,
    waiting: OngoingSweep | None = None,
) -> VerificationResult:
    """Verify a file, narrow it until all that is left stands, and write that.

    Interrupted at any moment, the same command goes on with the steps that are missing.

    Args:
        request: the file, and what it is held to.
        sweep: as measured.
        instrument: the rank program on this machine.
        reporter: told what is worth telling.
        waiting: a sweep of the session whose ranks wait for more; who says so lets rccl-tests
            confirm, when they have ended.

    Raises:
        InputFileError: the plugin refuses the file, also as one of another machine, or RCCL would
            cut a line of it.
        CommandLineError: it has no rule, or none for this scale; it needs a variable that nobody
            allowed.
        MachineError: several hosts are not alike.
        LaunchError: the library fails without rules.
        VerificationError: wrong results without rules.
    """
    text = rewriting.read_text(request.rules)
    file = read_accepted(request.rules.read_bytes(), request.rules)
    sides = CommunicatorPairs(
        instrument=instrument,
        sweep=sweep,
        session=request.folder,
        needs=beyond(file.needs, instrument.site),
        reporter=reporter,
        waiting=waiting,
        asked=request.n_communicators,
        dtype_asked=request.dtype,
        timing=request.timing,
    )
    verifying = OngoingVerification(request=request, sweep=sweep, sides=sides, reporter=reporter)
    site, scale = sides.site, sides.site.scale
    release = exact_release(name_library(site.library, site.fingerprint.arch_or_vendor))
    text = rewriting.bound_to(text, release)
    name = verdict_store.verdict_name(request.output, request.folder, file_name(site.fingerprint))
    before = count_rules(of_scale(file, scale))
    _check(file, before, request, scale)
    _check_machine(file, request, site)
    # A line that cannot be written again is told now, and not when all is measured.
    rewrite_lines(text, {}, ())
    unswept: tuple[LeftToLibrary, ...] = ()
    if not request.keep_losers and file.bits is None:
        reach = {name.value: (sizes[0], sizes[-1]) for name, sizes in sides.swept.items()}
        # Its lines are no longer those of the file.
        known = of_scale(read_rules(text.encode()), scale)
        text, unswept = rewriting.within(text, known, reach)
        there = of_scale(read_rules(text.encode()), scale)
        if not there:
            raise CommandLineError(
                "none of these rules is for a size that this sweep has: nothing can be verified",
                where=str(request.rules),
                hint="sweep the sizes that they are for (--min-bytes, --max-bytes).",
            )
        text = rewriting.apart(text, there)
        # One that became two counts twice.
        before = before.plus(
            count_rules(of_scale(read_rules(text.encode()), scale)), count_rules(there)
        )

    def recording() -> AbstractContextManager[None]:
        if request.keep_losers:
            # What was verified before, and what was refused, stay as they are.
            return nullcontext()
        return verdict_store.keep_failure(request.folder, name, request.rules)

    with (
        recording(),
        lock.lock_session(request.folder, reporter),
        signals.interruptible(),
    ):
        if waiting is None:
            end_leftovers(request.folder, reporter)
        with sides.measuring.closing() if sides.measuring is not waiting else nullcontext():
            made = _settled(verifying, text, unswept, before)
        if waiting is None:
            bring_up_to_date(request.folder)
    if made.path is None:
        return made
    files.write_atomically(made.path, made.text)
    exports = made.path.with_suffix(".env")
    if exports.exists() and made.lost_exports:
        left = rewriting.exports_without(exports.read_text("utf-8"), made.lost_exports)
        files.write_atomically(exports, left)
    verdict_store.write_verdict(request.folder, name, made.file)
    return made if waiting is not None else confirm_rules(request, made, site, reporter)


def confirm_rules(
    request: VerifyRequest, made: VerificationResult, site: Site, reporter: Reporter
) -> VerificationResult:
    """Let rccl-tests confirm what was verified, where they are asked; and keep what they say.

    Args:
        request: of the verification.
        made: what came of it.
        site: where.
        reporter: told what is worth telling.

    Raises:
        VerificationError: they contradict a rule, twice.
    """
    name = verdict_store.verdict_name(request.output, request.folder, file_name(site.fingerprint))
    with verdict_store.keep_failure(request.folder, name, request.rules):
        sentence = _last_word(request, made, reporter)
    if sentence:
        made = replace(made, file=replace(made.file, confirmed=sentence))
        verdict_store.write_verdict(request.folder, name, made.file)
    return made


def _last_word(request: VerifyRequest, made: VerificationResult, reporter: Reporter) -> str:
    """What rccl-tests say of the rules, in a sentence; empty where they were not asked.

    Raises:
        VerificationError: they contradict a rule, twice.
    """
    # Rules that keep the bits may be slower, and rccl-tests know times alone.
    is_timed = made.file.bits is None
    if request.confirms is None or made.path is None or not made.after.rules or not is_timed:
        return ""
    site = confirming.find(request.confirms, reporter)
    if site is None:
        return ""
    found = confirming.confirm(
        confirming.ConfirmationRequest(
            site=site,
            verdict=made.file,
            rules=made.path,
            session=request.folder,
            reporter=reporter,
        )
    )
    return f"{found.sentence}, in {found.seconds:.0f} s" if found else ""


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / name_with_placement(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def _check(file: RuleFile, before: RuleCount, request: VerifyRequest, scale: Scale) -> None:
    """Stop where there is nothing to verify.

    Raises:
        CommandLineError: why.
    """
    if not file.rules:
        raise CommandLineError(
            "this file has no rule, so there is nothing to verify",
            where=str(request.rules),
            hint="the library chooses by itself, as without the file.",
        )
    if not before.rules:
        raise CommandLineError(
            f"no rule of this file is for {scale}",
            where=str(request.rules),
            hint="emit one first (rccltune emit-config), or start as many ranks (--np).",
        )
    check_needs(file.needs, request.allowed, where=str(request.rules))


def _check_machine(file: RuleFile, request: VerifyRequest, site: Site) -> None:
    """Stop where the plugin of every rank would.

    Raises:
        InputFileError: the file requires another machine.
    """
    other = of_another_machine(file.requires, site.fingerprint)
    if other:
        wanted = ", ".join(f"{one.name}={one.wanted}" for one in other)
        maker = site.fingerprint.vendor.name if site.fingerprint.vendor is not None else ""
        words = (
            f"{one.name}={one.found}" if one.found is not None else f"{maker}'s GPUs"
            for one in other
        )
        found = ", ".join(dict.fromkeys(words))
        raise InputFileError(
            f"this file requires a machine with {wanted}, and this one has {found}",
            where=str(request.rules),
            hint="verify it on such a machine, in the mode that it was made for.",
        )


def _settled(
    verifying: OngoingVerification,
    text: str,
    unswept: tuple[LeftToLibrary, ...],
    before: RuleCount,
) -> VerificationResult:
    """Call, judge, narrow; and once more what was narrowed."""
    request = verifying.request
    file = read_rules(text.encode())
    if file.bits is not None:
        judged = same_bits.judge_bits(verifying, text, file.bits)
        return result_of(verifying, text, judged=judged, cuts=(), before=before)
    rules = of_scale(file, verifying.scale)
    judged = _looked(verifying, text, rules)
    cuts = [*rewriting.cut_before(text, verifying.scale), *unswept]
    if not request.keep_losers:
        first = rewriting.narrowed(text, rules, judged.rules)
        # One of which several parts are kept counts as so many.
        n_more = sum(len(parts) - 1 for parts in first.kept.values() if parts)
        before = replace(before, rules=before.rules + n_more)
        text, judged, more = _confirmed(verifying, first.text, judged)
        cuts += [*first.cuts, *more]
    return result_of(verifying, text, judged=judged, cuts=cuts, before=before)


_SHOWN: Final = 3


def _looked(
    verifying: OngoingVerification,
    text: str,
    rules: Sequence[Rule],
    *,
    only: Sequence[Rule] = (),
    n_rules: int | None = None,
) -> JudgedFile:
    """What both sides say of a file, in replicates of its own."""
    called = verifying.sides.call(text, only)
    verifying.n_replicates += called.n_replicates
    verifying.n_processes += called.n_processes
    verifying.seconds += called.seconds
    for name, by_size in called.executed.items():
        verifying.executed.setdefault(name, {}).update(by_size)
    found = judge(
        called.pairs,
        rules,
        min_gain=verifying.request.min_gain,
        checked=called.checked,
        wrong=called.wrong,
        idle_cost=verifying.sides.idle_cost,
        keeps_ends=verifying.request.keep_losers,
        only=only,
        n_rules=n_rules,
    )
    failed = called.failed
    verdicts = [
        replace(one, state=RuleState.FAILED, reason=failed[one.collective])
        if one.collective in failed
        else one
        for one in found.rules
    ]
    return replace(found, rules=tuple(verdicts))


def _confirmed(
    verifying: OngoingVerification, text: str, judged: JudgedFile
) -> tuple[str, JudgedFile, tuple[LeftToLibrary, ...]]:
    """What was narrowed, judged in fresh replicates; it stays as it is, or goes.

    What is said of its sizes is what those replicates say.
    """
    cut = [one for one in judged.rules if one.state is RuleState.NOT_PROVEN]
    if not cut:
        return text, judged, ()
    rules = of_scale(read_rules(text.encode()), verifying.scale)

    def now(part: RuleVerdict) -> Rule | None:
        return answering(rules, part.collective, part.min_nbytes, str(part.setting))

    again = [one for one in rules if any(one is now(part) for part in cut)]
    verifying.reporter.say(
        f"Narrowed: {len(again)} rule{'s' * (len(again) != 1)}, judged again in fresh communicators"
    )
    n_rules = sum(not one.fallback for one in rules)
    looked = _looked(verifying, text, rules, only=again, n_rules=n_rules)
    found = [_with_registered(one, cut) for one in _whole(looked.rules, again)]
    made = rewriting.narrowed(text, rules, found)

    def is_again(size: SizeVerdict) -> bool:
        return any(one.collective is size.collective and one.reaches(size.nbytes) for one in again)

    return (
        made.text,
        replace(
            judged,
            rules=(*(one for one in judged.rules if one not in cut), *found),
            sizes=(
                *(one for one in judged.sizes if not is_again(one)),
                *(one for one in looked.sizes if is_again(one)),
            ),
        ),
        made.cuts,
    )


def _with_registered(part: RuleVerdict, before: Sequence[RuleVerdict]) -> RuleVerdict:
    """A part for unregistered buffers with what it was seen to lose with registered ones."""
    seen = (
        one.registered
        for one in before
        if part.reg_buff == one.reg_buff == 0
        and (part.collective, part.setting) == (one.collective, one.setting)
        and one.min_nbytes <= part.max_nbytes
        and part.min_nbytes <= one.max_nbytes
    )
    return replace(part, registered=next(seen, part.registered))


def _whole(parts: Sequence[RuleVerdict], rules: Sequence[Rule]) -> list[RuleVerdict]:
    """One verdict for each rule: one that would have to be narrowed once more goes instead."""
    by_line: dict[int | None, RuleVerdict] = {}
    for one in parts:
        if not one.is_kept or one.line not in by_line:
            by_line[one.line] = one
    bounds = {one.line: (one.min_nbytes, one.max_nbytes) for one in rules}
    found = []
    for line, one in by_line.items():
        low, high = bounds[line]
        whole = replace(one, min_nbytes=low, max_nbytes=high)
        if one.state is RuleState.NOT_PROVEN:
            why = "it would have to be narrowed a second time"
            whole = replace(whole, state=RuleState.UNDECIDED, reason=why)
        found.append(whole)
    return found
