"""The report: answers at single sizes joined into ranges, the questions and the remarks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Final

from rccltune.model.vocabulary import Collective
from rccltune.why import remedies
from rccltune.why.answers import SizeAnswers, answer_by_summary
from rccltune.why.differences import find_hanging_calls
from rccltune.why.job_logs import JobLogs
from rccltune.why.job_report import (
    NOWHERE,
    AnswerKind,
    CommunicatorScale,
    JobReport,
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


def compose_report(job: JobLogs, knowledge: JobKnowledge) -> JobReport:
    """All answers and remarks that the facts give.

    Args:
        job: all facts.
        knowledge: of other packages.
    """
    size_answers = SizeAnswers(job, knowledge)
    answers = [
        *_answer_hanging_calls(job),
        *_answer_stuck_calls(job),
        *_answer_sizes(job, size_answers),
        *_answer_nameless_choices(job),
    ]
    # The summary names rules that were hit: all that is known where single sizes stay open.
    open_scales = {answer.where for answer in answers if answer.kind is AnswerKind.UNKNOWN}
    for where in sorted(open_scales & set(job.hits), key=str):
        answers += _answer_hits(job, where, knowledge)
    answers += _answer_scales(job, size_answers, knowledge)
    if not answers:
        reason = size_answers.find_cause(NOWHERE)
        answers = [_make_answer(reason, NOWHERE)] if reason is not None else []
    answers.sort(key=_order)
    remarks = tuple(job_remarks(job, knowledge, answers))
    return JobReport(
        questions=job_questions(job, answers, remarks),
        answers=tuple(answers),
        remarks=remarks,
        is_benchmark=job.n_tables > 0,
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


def _make_answer(
    reason: Reason,
    where: CommunicatorScale,
    collective: Collective | None = None,
    sizes: Sequence[int] = (),
    channels: Collection[int] = (),
) -> SizeAnswer:
    """An answer said of sizes; of any where there are none."""
    return SizeAnswer(
        where=where,
        collective=collective,
        min_nbytes=min(sizes, default=None),
        max_nbytes=max(sizes, default=None),
        n_sizes=len(sizes),
        kind=reason.kind,
        text=reason.text,
        remedy=reason.remedy,
        channels=(min(channels), max(channels)) if channels else None,
    )


def _answer_hanging_calls(job: JobLogs) -> Iterator[SizeAnswer]:
    """Calls that ranks of a communicator run differently."""
    for call, reason, _ in find_hanging_calls(job):
        where, collective, nbytes = call.key
        yield _make_answer(reason, where, collective, (nbytes,))


def _answer_stuck_calls(job: JobLogs) -> Iterator[SizeAnswer]:
    """Calls that ended the job: no rule helps, since a tuner can only choose from what is left."""
    library = job.library or "the library"
    for call in job.stuck_calls:
        name = call.collective.value if call.collective else "a call"
        kind = f" of {call.dtype}" if call.dtype else ""
        limits = call.limits or _find_limits(job)
        settings = ", ".join(f"{variable}={value}" for variable, value in limits)
        why = f" and ended the job: {settings} leaves none that can" if settings else ""
        reason = Reason(
            AnswerKind.STUCK,
            f"{library} found no algorithm and protocol for {name}{kind}{why}",
            remedies.lift(limits, job.library) if limits else remedies.TELL_LIBRARY,
        )
        yield _make_answer(reason, call.where, call.collective)


def _find_limits(job: JobLogs) -> tuple[tuple[str, str], ...]:
    """Releases that do not name them said before which variables they read."""
    return tuple(
        (name, value)
        for name in ("NCCL_ALGO", "NCCL_PROTO")
        for value in sorted(job.variables.get(name, ()))
    )


def _answer_sizes(job: JobLogs, size_answers: SizeAnswers) -> Iterator[SizeAnswer]:
    """Sizes in rising order; neighbours with the same answer are one range."""
    keys = sorted(
        (key for key in job.sizes if key.nbytes > 0),
        key=lambda key: (str(key.where), key.collective.value, key.nbytes),
    )
    reasons = {key: size_answers.answer(key) for key in keys}
    ranges = groupby(keys, key=lambda key: (reasons[key], key.where, key.collective))
    for (reason, where, collective), group in ranges:
        members = list(group)
        channels = {n for key in members for n in job.sizes[key].n_channels}
        sizes = [key.nbytes for key in members]
        yield _make_answer(reason, where, collective, sizes, channels)


def _answer_nameless_choices(job: JobLogs) -> Iterator[SizeAnswer]:
    """Choices of which no line names the collective."""
    for (where, nbytes), record in sorted(job.nameless_choices.items(), key=str):
        names = ", ".join(
            f"{one}{remedies.describe_request(job.variables, one)}"
            for one in record.ran
            if one is not None
        )
        reason = Reason(
            AnswerKind.UNKNOWN,
            f"a call took {names or 'what has no name here'}; which collective is not told",
            remedies.TELL_LIBRARY,
        )
        yield _make_answer(reason, where, sizes=(nbytes,))


def _answer_scales(
    job: JobLogs, size_answers: SizeAnswers, knowledge: JobKnowledge
) -> Iterator[SizeAnswer]:
    """Communicators of which no call is known by its size."""
    with_sizes = {key.where for key in job.sizes if key.nbytes > 0}
    without_sizes = {*job.starts, *job.summaries, *job.hits, *job.scales} - with_sizes
    for where in sorted(without_sizes, key=str):
        cause = size_answers.find_cause(where)
        if cause is None and where in job.hits:
            yield from _answer_hits(job, where, knowledge)
            continue
        reason = cause or answer_by_summary(where, job)
        if reason is None and not with_sizes:
            text = "which sizes were called is not told, nor what was answered"
            remedy = remedies.TELL_LIBRARY if job.table is not None else remedies.TELL_PLUGIN
            reason = Reason(AnswerKind.UNKNOWN, text, remedy)
        if reason is not None and where.n_ranks != 1:
            yield _make_answer(reason, where)


def _answer_hits(
    job: JobLogs, where: CommunicatorScale, knowledge: JobKnowledge
) -> Iterator[SizeAnswer]:
    """The summary names the rules that were hit, not the sizes of the calls."""
    open_question = "nothing here says what ran"
    if where in job.scales_with_choices:
        open_question = "the plugin's summary does not say at which sizes"
    for answer, count in sorted(job.hits[where].items(), key=lambda one: one[0].line):
        reason = Reason(
            AnswerKind.HIT,
            f"rule of line {answer.line} answered {answer.setting or 'nothing'}, {count} times in "
            f"all; {open_question}",
        )
        rule = next((one for one in knowledge.file_rules or () if one.line == answer.line), None)
        if rule is None:
            yield _make_answer(reason, where)
        else:
            sizes = (rule.min_nbytes, rule.max_nbytes)
            yield _make_answer(reason, where, rule.collective, sizes)
    rest = answer_by_summary(where, job)
    if rest is not None and rest.kind is not AnswerKind.HIT:
        yield _make_answer(rest, where)
