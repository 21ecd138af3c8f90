"""The report: answers at single sizes joined into ranges, the questions and the remarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from rccltune.model.vocabulary import Collective
from rccltune.why import remedies
from rccltune.why.answers import SizeAnswers, by_sums
from rccltune.why.differences import find_hanging_calls
from rccltune.why.job_logs import JobLogs
from rccltune.why.job_report import (
    NOWHERE,
    AnswerKind,
    CommunicatorScale,
    JobReport,
    Key,
    Reason,
    SizeAnswer,
)
from rccltune.why.knowledge import JobKnowledge
from rccltune.why.questions import job_questions
from rccltune.why.remarks import job_remarks

# Jobs spend most of their time in the first.
_WEIGHT: Final = (
    Collective.ALL_REDUCE,
    Collective.REDUCE_SCATTER,
    Collective.ALL_GATHER,
    Collective.BROADCAST,
    Collective.REDUCE,
)


# What ended the job.
_FIRST: Final = (AnswerKind.RANKS_DIFFER, AnswerKind.STUCK)


def job_report(job: JobLogs, known: JobKnowledge) -> JobReport:
    """All answers and remarks that the facts give.

    Args:
        job: all facts.
        known: what other packages know.
    """
    judge = SizeAnswers(job, known)
    answers = [*_hanging(job), *_stuck(job), *_by_size(job, judge), *_nameless(job)]
    # The summary names rules that were hit: all that is known where single sizes stay open.
    open_scales = {answer.where for answer in answers if answer.kind is AnswerKind.UNKNOWN}
    for where in sorted(open_scales & set(job.hits), key=str):
        answers += _hits(job, where, known)
    answers += _by_scale(job, judge, known)
    if not answers:
        reason = judge.cause(NOWHERE)
        answers = [_answer(NOWHERE, None, (), reason)] if reason is not None else []
    answers.sort(key=_order)
    remarks = tuple(job_remarks(job, known, answers))
    return JobReport(
        questions=job_questions(job, answers, remarks),
        answers=tuple(answers),
        remarks=remarks,
        is_benchmark=job.tables > 0,
    )


def _order(answer: SizeAnswer) -> tuple[int, int, int, int, int]:
    """Order of answers: what ended the job first, then scale by scale and size by size."""
    where, collective = answer.where, answer.collective
    return (
        _FIRST.index(answer.kind) if answer.kind in _FIRST else len(_FIRST),
        where.n_nodes or 0,
        where.n_ranks or 0,
        _WEIGHT.index(collective) if collective in _WEIGHT else len(_WEIGHT),
        answer.min_nbytes or 0,
    )


def _hanging(job: JobLogs) -> Iterator[SizeAnswer]:
    """Calls that ranks of a communicator run differently."""
    for call, reason, _ in find_hanging_calls(job):
        yield _answer(call.key[0], call.key, (call.key[2],), reason)


def _nameless(job: JobLogs) -> Iterator[SizeAnswer]:
    """Choices of which no line names the collective."""
    for (where, nbytes), record in sorted(job.nameless.items(), key=str):
        ran = [one for one in record.ran if one is not None]
        took = ", ".join(f"{one}{remedies.as_asked(job.variables, one)}" for one in ran)
        reason = Reason(
            AnswerKind.UNKNOWN,
            f"a call took {took or 'what has no name here'}; which collective is not told",
            remedies.TELL_LIBRARY,
        )
        yield _answer(where, None, (nbytes,), reason)


def _stuck(job: JobLogs) -> Iterator[SizeAnswer]:
    """Calls that ended the job: no rule helps, since a tuner can only choose from what is left."""
    library = job.library or "the library"
    for stuck in job.stuck:
        name = stuck.collective.value if stuck.collective else "a call"
        kind = f" of {stuck.dtype}" if stuck.dtype else ""
        limits = stuck.limits or _limits(job)
        set_to = ", ".join(f"{variable}={value}" for variable, value in limits)
        why = f" and ended the job: {set_to} leaves none that can" if set_to else ""
        reason = Reason(
            AnswerKind.STUCK,
            f"{library} found no algorithm and protocol for {name}{kind}{why}",
            remedies.lift(limits, job.library) if limits else remedies.TELL_LIBRARY,
        )
        yield replace(_answer(stuck.where, None, (), reason), collective=stuck.collective)


def _limits(job: JobLogs) -> tuple[tuple[str, str], ...]:
    """Releases that do not name them said before which variables they read."""
    return tuple(
        (name, value)
        for name in ("NCCL_ALGO", "NCCL_PROTO")
        for value in sorted(job.variables.get(name, ()))
    )


def _by_size(job: JobLogs, judge: SizeAnswers) -> Iterator[SizeAnswer]:
    """Sizes in rising order; neighbours with the same answer are one range."""
    keys = sorted(
        (key for key in job.seen if key[2] > 0), key=lambda k: (str(k[0]), k[1].value, k[2])
    )
    judged = [(key, judge.at(key)) for key in keys]
    for _, group in groupby(judged, key=lambda one: (one[0][0], one[0][1], one[1])):
        members = [key for key, _ in group]
        ran = {n for key in members for n in job.seen[key].n_channels}
        answer = _answer(
            members[0][0], members[0], [key[2] for key in members], judge.at(members[0])
        )
        yield replace(answer, channels=(min(ran), max(ran)) if ran else None)


def _answer(
    where: CommunicatorScale, key: Key | None, sizes: Iterable[int], reason: Reason
) -> SizeAnswer:
    all_sizes = list(sizes)
    return SizeAnswer(
        where=where,
        collective=key[1] if key else None,
        min_nbytes=min(all_sizes, default=None),
        max_nbytes=max(all_sizes, default=None),
        n_sizes=len(all_sizes),
        kind=reason.kind,
        text=reason.text,
        remedy=reason.remedy,
    )


def _by_scale(job: JobLogs, judge: SizeAnswers, known: JobKnowledge) -> Iterator[SizeAnswer]:
    """Communicators of which no call is known by its size."""
    sized = {key[0] for key in job.seen if key[2] > 0}
    told = {*job.starts, *job.totals, *job.hits, *job.scales} - sized
    for where in sorted(told, key=str):
        reason = judge.cause(where)
        if reason is None and where in job.hits:
            yield from _hits(job, where, known)
        elif (reason := reason or by_sums(where, job)) is not None:
            if where.n_ranks != 1:
                yield _answer(where, None, (), reason)
        elif not sized and where.n_ranks != 1:
            text = "which sizes were called is not told, nor what was answered"
            remedy = remedies.TELL_LIBRARY if job.table is not None else remedies.TELL_PLUGIN
            yield _answer(where, None, (), Reason(AnswerKind.UNKNOWN, text, remedy))


def _hits(job: JobLogs, where: CommunicatorScale, known: JobKnowledge) -> Iterator[SizeAnswer]:
    """The summary names the rules that were hit, not the sizes of the calls."""
    unsaid = "nothing here says what ran"
    if where in job.tuning:
        unsaid = "the plugin's summary does not say at which sizes"
    for answer, count in sorted(job.hits[where].items(), key=lambda one: one[0].line):
        setting = answer.setting or "nothing"
        reason = Reason(
            AnswerKind.HIT,
            f"rule of line {answer.line} answered {setting}, {count} times in all; {unsaid}",
        )
        rule = next((one for one in known.file_rules or () if one.line == answer.line), None)
        if rule is None:
            yield _answer(where, None, (), reason)
        else:
            key: Key = (where, rule.collective, rule.min_nbytes)
            yield _answer(where, key, (rule.min_nbytes, rule.max_nbytes), reason)
    rest = by_sums(where, job)
    if rest is not None and rest.kind is not AnswerKind.HIT:
        yield _answer(where, None, (), rest)
