"""Rules and the library in turns on the machine itself: what stays of a rule file.

Both sides are called in a number of communicators that is fixed before the first one is made
(:mod:`rccltune.verify.pairs`); :mod:`rccltune.verify.judge_rules` judges once. What was trimmed is
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
from rccltune.model import grammar
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
from rccltune.rules.refusals import content_of, read_accepted
from rccltune.rules.requirements import of_another_machine
from rccltune.rules.rule_file import RuleFile, read_rules
from rccltune.rules.rule_order import count_rules
from rccltune.session import files, lock
from rccltune.session.samples import bring_up_to_date
from rccltune.verify import confirm as confirming
from rccltune.verify import rewriting, same_bits, verdict_store
from rccltune.verify.communicators import CommunicatorPairs
from rccltune.verify.judge_rules import JudgedFile, judge
from rccltune.verify.outcome import (
    OngoingVerification,
    VerificationResult,
    VerifyRequest,
    make_result,
)
from rccltune.verify.pairs import find_rule
from rccltune.verify.rewriting import select_rules
from rccltune.verify.verdict_file import RuleVerdict

_NO_RULES: Final = "write one with rccltune emit-config, or name another with --rules."


def verify_rules(
    request: VerifyRequest,
    sweep: Sweep,
    instrument: Instrument,
    *,
    reporter: Reporter,
    waiting: OngoingSweep | None = None,
) -> VerificationResult:
    """Verify a file, trim it until all that is left stands, and write that.

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
    content = content_of(request.rules, hint=_NO_RULES)
    file = read_accepted(content, request.rules)
    sides = CommunicatorPairs(
        instrument=instrument,
        sweep=sweep,
        session=request.folder,
        needs=tuple(one for one in file.needs if one not in instrument.site.environment),
        reporter=reporter,
        waiting=waiting,
        n_communicators=request.n_communicators,
        requested_dtype=request.dtype,
        timing=request.timing,
    )
    verifying = OngoingVerification(request=request, sides=sides, reporter=reporter)
    _check_rules(file, request, verifying.scale)
    _check_machine(file, request, verifying.site)
    text, unswept, before = _prepare_text(verifying, file, content)
    with (
        _keep_failure(request, verifying.site),
        lock.lock_session(request.folder, reporter),
        signals.interruptible(),
    ):
        if waiting is None:
            end_leftovers(request.folder, reporter)
        with sides.measuring.closing() if sides.measuring is not waiting else nullcontext():
            result = _measure_and_judge(verifying, text, unswept, before)
        if waiting is None:
            bring_up_to_date(request.folder)
    if result.path is None:
        return result
    _write(result, request, verifying.site)
    return result if waiting is not None else confirm_rules(request, result, sides.site, reporter)


def _prepare_text(
    verifying: OngoingVerification, file: RuleFile, content: bytes
) -> tuple[str, tuple[LeftToLibrary, ...], RuleCount]:
    """Clip a file's rules to what was swept, and split those that hide parts of others.

    Returns:
        The text, what rules lost, and how many rules the file had, parts counted one by one.

    Raises:
        CommandLineError: no rule is for a size that was swept.
        InputFileError: a line that RCCL would cut.
    """
    request, site, scale = verifying.request, verifying.site, verifying.scale
    release = exact_release(name_library(site.library, site.fingerprint.arch_or_vendor))
    text = rewriting.bind_to_library(rewriting.strip_evidence(grammar.text_of(content)), release)
    before = count_rules(select_rules(file, scale))
    # A line that cannot be written again is told now, and not when all is measured.
    rewrite_lines(text, {}, ())
    if request.keep_losers or file.bits is not None:
        return text, (), before
    reach = {name.value: (sizes[0], sizes[-1]) for name, sizes in verifying.sides.swept.items()}
    # Its lines are no longer those of the file.
    text, unswept = rewriting.clip_to_measured(
        text, select_rules(read_rules(text.encode()), scale), reach
    )
    rules = select_rules(read_rules(text.encode()), scale)
    if not rules:
        raise CommandLineError(
            "none of these rules is for a size that this sweep has: nothing can be verified",
            where=str(request.rules),
            hint="sweep the sizes that they are for (--min-bytes, --max-bytes).",
        )
    text = rewriting.split_hidden(text, rules)
    # One that became two counts twice.
    after = count_rules(select_rules(read_rules(text.encode()), scale))
    return text, unswept, before.plus(after, count_rules(rules))


def _verdict_name(request: VerifyRequest, site: Site) -> str:
    return verdict_store.verdict_name(request.output, request.folder, file_name(site.fingerprint))


def _keep_failure(request: VerifyRequest, site: Site) -> AbstractContextManager[None]:
    """Keep the error of a verification, unless it is to leave all as it is."""
    if request.keep_losers:
        return nullcontext()
    return verdict_store.keep_failure(request.folder, _verdict_name(request, site), request.rules)


def _write(result: VerificationResult, request: VerifyRequest, site: Site) -> None:
    """Write the rules that stay, exports without what no rule needs, and the verdict."""
    if result.path is None:
        return
    files.write_atomically(result.path, result.text)
    exports = result.path.with_suffix(".env")
    if exports.exists() and result.lost_exports:
        left = rewriting.drop_exports(exports.read_text("utf-8"), result.lost_exports)
        files.write_atomically(exports, left)
    verdict_store.write_verdict(request.folder, _verdict_name(request, site), result.file)


def confirm_rules(
    request: VerifyRequest, result: VerificationResult, site: Site, reporter: Reporter
) -> VerificationResult:
    """Let rccl-tests confirm what was verified, where they are asked; and keep what they say.

    Args:
        request: of the verification.
        result: what came of it.
        site: where.
        reporter: told what is worth telling.

    Raises:
        VerificationError: they contradict a rule, twice.
    """
    with _keep_failure(request, site):
        sentence = _ask_rccl_tests(request, result, reporter)
    if sentence:
        result = replace(result, file=replace(result.file, confirmed=sentence))
        verdict_store.write_verdict(request.folder, _verdict_name(request, site), result.file)
    return result


def _ask_rccl_tests(request: VerifyRequest, result: VerificationResult, reporter: Reporter) -> str:
    """Sentence of rccl-tests about the rules; empty where they were not asked.

    Raises:
        VerificationError: they contradict a rule, twice.
    """
    # Rules that keep the bits may be slower, and rccl-tests know times alone.
    is_timed = result.file.bits is None
    if request.confirms is None or result.path is None or not result.file.rules or not is_timed:
        return ""
    site = confirming.find(request.confirms, reporter)
    if site is None:
        return ""
    confirmation = confirming.confirm(
        confirming.ConfirmationRequest(
            site=site,
            verdict=result.file,
            rules=result.path,
            session=request.folder,
            reporter=reporter,
        )
    )
    return f"{confirmation.sentence}, in {confirmation.seconds:.0f} s" if confirmation else ""


def rule_file_of(folder: Path, site: Site) -> Path:
    """The session's own rule file for these ranks, of their placement where there is one."""
    plain = folder / file_name(site.fingerprint)
    placed = folder / name_with_placement(plain.name, site.seating.place.name)
    return placed if placed.exists() else plain


def _check_rules(file: RuleFile, request: VerifyRequest, scale: Scale) -> None:
    """Stop where there is nothing to verify.

    Raises:
        CommandLineError: why.
    """
    if not file.rules:
        raise CommandLineError(
            "this file has no rule, so there is nothing to verify",
            where=str(request.rules),
            hint="leave jobs as they are: the library chooses by itself, as without the file.",
        )
    if not count_rules(select_rules(file, scale)).rules:
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
        requirements = ", ".join(f"{one.name}={one.wanted}" for one in other)
        maker = site.fingerprint.vendor.name if site.fingerprint.vendor is not None else ""
        words = (
            f"{one.name}={one.found}" if one.found is not None else f"{maker}'s GPUs"
            for one in other
        )
        machine_words = ", ".join(dict.fromkeys(words))
        raise InputFileError(
            f"this file requires a machine with {requirements}, and this one has {machine_words}",
            where=str(request.rules),
            hint="verify it on such a machine, in the mode that it was made for.",
        )


def _measure_and_judge(
    verifying: OngoingVerification,
    text: str,
    unswept: tuple[LeftToLibrary, ...],
    before: RuleCount,
) -> VerificationResult:
    """Call, judge, trim; and once more what was trimmed."""
    request, scale = verifying.request, verifying.scale
    file = read_rules(text.encode())
    if file.bits is not None:
        judged = same_bits.judge_bits(verifying, text, file.bits)
        return make_result(verifying, text, judged=judged, cuts=(), before=before)
    rules = select_rules(file, scale)
    judged = _call_and_judge(verifying, text, rules)
    cuts = [*rewriting.read_earlier_cuts(text, scale), *unswept]
    if not request.keep_losers:
        first = rewriting.trim_rules(text, rules, judged.rules)
        # One of which several parts are kept counts as so many.
        n_more = sum(len(parts) - 1 for parts in first.kept.values() if parts)
        before = replace(before, rules=before.rules + n_more)
        text, judged, more = _judge_trimmed(verifying, first.text, judged)
        cuts += [*first.cuts, *more]
    return make_result(verifying, text, judged=judged, cuts=cuts, before=before)


def _call_and_judge(
    verifying: OngoingVerification,
    text: str,
    rules: Sequence[Rule],
    *,
    only: Sequence[Rule] = (),
    n_rules: int | None = None,
) -> JudgedFile:
    """Judge a file in communicators of its own; rules of a collective that failed go."""
    result = verifying.sides.call(text, only)
    verifying.add(result)
    judged = judge(
        result.pairs,
        rules,
        min_gain=verifying.request.min_gain,
        checked=result.checked,
        wrong=result.wrong,
        idle_cost=verifying.sides.idle_cost,
        keeps_ends=verifying.request.keep_losers,
        only=only,
        n_rules=n_rules,
    )
    verdicts = [
        replace(one, state=RuleState.FAILED, reason=result.failed[one.collective])
        if one.collective in result.failed
        else one
        for one in judged.rules
    ]
    return replace(judged, rules=tuple(verdicts))


def _judge_trimmed(
    verifying: OngoingVerification, text: str, judged: JudgedFile
) -> tuple[str, JudgedFile, tuple[LeftToLibrary, ...]]:
    """Judge in fresh communicators what was trimmed; it stays as it is, or goes.

    Verdicts on its sizes are those of the fresh communicators.
    """
    trimmed = [one for one in judged.rules if one.state is RuleState.NOT_PROVEN]
    if not trimmed:
        return text, judged, ()
    rules = select_rules(read_rules(text.encode()), verifying.scale)
    answers = [
        find_rule(rules, part.collective, part.min_nbytes, str(part.setting)) for part in trimmed
    ]
    again = [rule for rule in rules if any(rule is one for one in answers)]
    verifying.reporter.say(
        f"Trimmed: {len(again)} rule{'s' * (len(again) != 1)}, judged again in fresh communicators"
    )
    n_rules = sum(not one.fallback for one in rules)
    fresh = _call_and_judge(verifying, text, rules, only=again, n_rules=n_rules)
    verdicts = [_with_registered(one, trimmed) for one in _join_parts(fresh.rules, again)]
    left = rewriting.trim_rules(text, rules, verdicts)

    def is_again(size: SizeVerdict) -> bool:
        return any(one.collective is size.collective and one.reaches(size.nbytes) for one in again)

    sizes = [
        *(one for one in judged.sizes if not is_again(one)),
        *(one for one in fresh.sizes if is_again(one)),
    ]
    others = [one for one in judged.rules if one not in trimmed]
    both = JudgedFile(rules=(*others, *verdicts), sizes=tuple(sizes))
    return left.text, both, left.cuts


def _with_registered(part: RuleVerdict, before: Sequence[RuleVerdict]) -> RuleVerdict:
    """A part for unregistered buffers with what it was seen to lose with registered ones."""
    losses = (
        one.registered
        for one in before
        if part.reg_buff == one.reg_buff == 0
        and (part.collective, part.setting) == (one.collective, one.setting)
        and one.min_nbytes <= part.max_nbytes
        and part.min_nbytes <= one.max_nbytes
    )
    return replace(part, registered=next(losses, part.registered))


def _join_parts(parts: Sequence[RuleVerdict], rules: Sequence[Rule]) -> list[RuleVerdict]:
    """One verdict for each rule: one that would have to be trimmed once more goes instead."""
    by_line: dict[int | None, RuleVerdict] = {}
    for one in parts:
        if not one.is_kept or one.line not in by_line:
            by_line[one.line] = one
    bounds = {one.line: (one.min_nbytes, one.max_nbytes) for one in rules}
    verdicts = []
    for line, one in by_line.items():
        low, high = bounds[line]
        whole = replace(one, min_nbytes=low, max_nbytes=high)
        if one.state is RuleState.NOT_PROVEN:
            why = "it would have to be trimmed a second time"
            whole = replace(whole, state=RuleState.UNDECIDED, reason=why)
        verdicts.append(whole)
    return verdicts
