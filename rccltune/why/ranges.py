"""Answers at single sizes, joined into ranges; and what holds for the whole job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from rccltune.why import remedies
from rccltune.why.causes import DEFAULTS
from rccltune.why.judging import Judge
from rccltune.why.records import (
    NOWHERE,
    Answer,
    Job,
    Key,
    Kind,
    Known,
    Loading,
    Reason,
    Remark,
    Verdict,
    Where,
)


def verdict(job: Job, known: Known) -> Verdict:
    """All answers and remarks that the evidence gives.

    Args:
        job: all evidence.
        known: what other rooms know.
    """
    judge = Judge(job, known)
    answers = [*_by_size(job, judge), *_by_scale(job, judge, known)]
    if not answers:
        reason = judge.cause(NOWHERE)
        answers = [_answer(NOWHERE, None, (), reason)] if reason is not None else []
    return Verdict(
        answers=tuple(sorted(answers, key=_order)), remarks=tuple(_remarks(job, known, answers))
    )


def _order(answer: Answer) -> tuple[int, int, int, int]:
    where, collective = answer.where, answer.collective
    return (
        where.n_nodes or 0,
        where.n_ranks or 0,
        99 if collective is None or not collective.is_tunable else collective.func_index,
        answer.min_nbytes or 0,
    )


def _by_size(job: Job, judge: Judge) -> Iterator[Answer]:
    """Sizes in rising order; neighbours with the same answer are one range."""
    keys = sorted(
        (key for key in job.seen if key[2] > 0), key=lambda k: (str(k[0]), k[1].value, k[2])
    )
    judged = [(key, judge.at(key)) for key in keys]
    for _, group in groupby(judged, key=lambda one: (one[0][0], one[0][1], one[1])):
        members = list(group)
        first, reason = members[0]
        yield _answer(first[0], first, [key[2] for key, _ in members], reason)


def _answer(where: Where, key: Key | None, sizes: Iterable[int], reason: Reason) -> Answer:
    found = list(sizes)
    return Answer(
        where=where,
        collective=key[1] if key else None,
        min_nbytes=min(found, default=None),
        max_nbytes=max(found, default=None),
        n_sizes=len(found),
        kind=reason.kind,
        text=reason.text,
        remedy=reason.remedy,
    )


def _by_scale(job: Job, judge: Judge, known: Known) -> Iterator[Answer]:
    """Communicators of which no call is known by its size."""
    sized = {key[0] for key in job.seen if key[2] > 0}
    told = {*job.started, *job.totals, *job.hit_rules, *job.scales} - sized
    for where in sorted(told, key=str):
        reason = judge.cause(where)
        if reason is not None:
            if where.n_ranks != 1:
                yield _answer(where, None, (), reason)
        elif where in job.hit_rules:
            yield from _hits(job, where, known)
        elif where in job.totals:
            yield _answer(where, None, (), _sum(job, where))
        elif not sized and where.n_ranks != 1:
            text = "which sizes were called is not told, nor what was answered"
            yield _answer(where, None, (), Reason(Kind.UNKNOWN, text, remedies.TELL_PLUGIN))


def _hits(job: Job, where: Where, known: Known) -> Iterator[Answer]:
    """The summary names the rules that were hit, not the sizes of the calls."""
    for said, count in sorted(job.hit_rules[where].items(), key=lambda one: one[0].line):
        setting = said.setting or "nothing"
        reason = Reason(
            Kind.HIT,
            f"rule of line {said.line} answered {setting}, {count} times in all; "
            "nothing here says what ran",
        )
        sizes = known.line_range(said.line) if known.line_range else None
        if sizes is None:
            yield _answer(where, None, (), reason)
        else:
            key: Key = (where, sizes[0], sizes[1])
            yield _answer(where, key, sizes[1:], reason)
    sums = job.totals.get(where)
    if sums is not None and sums.hits < sums.calls:
        yield _answer(where, None, (), _sum(job, where))


def _sum(job: Job, where: Where) -> Reason:
    """Calls by the summary alone."""
    sums = job.totals[where]
    if not sums.calls:
        return Reason(
            Kind.BYPASSED,
            "the plugin was not asked once: every call went a path before the tuner, or there was "
            "none of the five collectives",
            remedies.TELL_LIBRARY,
        )
    if sums.not_selectable and not sums.misses:
        return Reason(
            Kind.NOT_SELECTABLE,
            f"{sums.not_selectable} of {sums.calls} calls: a rule matched, and the library does "
            "not offer what it asks for",
            remedies.TELL_PLUGIN,
        )
    if sums.misses and not sums.not_selectable:
        return Reason(
            Kind.HOLE,
            f"{sums.misses} of {sums.calls} calls: the file has no rule for them",
            remedies.TELL_PLUGIN,
        )
    return Reason(
        Kind.UNKNOWN,
        f"{sums.misses} of {sums.calls} calls met no rule, {sums.not_selectable} one that cannot "
        "be chosen; the summary does not say which sizes",
        remedies.TELL_PLUGIN,
    )


# --- remarks --------------------------------------------------------------------------------------


def _remarks(job: Job, known: Known, answers: list[Answer]) -> Iterator[Remark]:
    yield from _about_library(job, known)
    yield from _about_files(job, known)
    yield from _about_variables(job)
    yield from _not_told(job, answers)


def _about_library(job: Job, known: Known) -> Iterator[Remark]:
    versions = sorted(job.versions)
    if len(versions) > 1:
        yield Remark(
            text=f"the files name {len(versions)} libraries: {', '.join(versions)}; ranks load "
            "different ones, or these are the logs of several jobs",
            remedy=remedies.CHECK_LIBRARY,
        )
    elif versions:
        measured = known.file_library
        than = f"; the rules were measured with {measured}" if measured else ""
        yield Remark(text=f"library: {versions[0]}{than}")
    bundled = sorted(path for path in job.paths if "/torch/lib/" in path)
    if bundled:
        yield Remark(
            text=f"PyTorch loads the library that it brings with it: {bundled[0]}",
            remedy=remedies.CHECK_LIBRARY,
        )
    if job.groups > 1:
        yield Remark(
            text=f"the processes form {job.groups} groups that share no communicator: the logs of "
            f"{job.groups} jobs, or ranks that did not find each other",
            remedy="give the files of one job at a time",
        )
    ours = [name for what, name in job.loading if what is Loading.USING]
    lacking = [name for what, name in job.loading if what in _LACKING and name not in DEFAULTS]
    if lacking and any(name.startswith("rccltune ") for name in ours):
        yield Remark(
            text=f"some processes loaded the plugin, and others did not: {lacking[0]}",
            remedy=remedies.USE_PLUGIN,
        )
    tables = sorted(name for what, name in job.loading if what is Loading.TABLE)
    if tables:
        yield Remark(text=f"the library's own table is used, without a plugin: {tables[0]}")


def _about_files(job: Job, known: Known) -> Iterator[Remark]:
    read = {
        (one.path, one.sha256)
        for counted in job.started.values()
        for one in counted
        if one.how == "rules"
    }
    for path, sha256 in sorted(read):
        other = known.file_sha256 not in ("", sha256)
        text = f"the job read {path} (sha256 {sha256[:12]}…)"
        if other:
            yield Remark(
                text=f"{text}, which is another file than {known.file_name}: what is said of rules "
                "is said of the latter",
                remedy=remedies.SAME_FILE,
            )
        else:
            yield Remark(text=text)
    for path in sorted(job.unwritten):
        yield Remark(
            text=f"the plugin could not write its trace {path}",
            remedy="name a folder that every rank can write: export RCCLTUNE_TRACE=/path/"
            "trace-%h-%p-%c-%n.csv",
        )
    if job.n_empty_traces:
        yield Remark(
            text=f"{job.n_empty_traces} traces have no record: no call asked a tuner, or the "
            "communicator was never destroyed, and then none is written",
            remedy="end the job with destroy_process_group(), or use decisions, which are written "
            "at once: export RCCLTUNE_LOG=decisions:/path/plugin.%h.%p",
        )
    if job.dropped:
        yield Remark(text=f"{job.dropped} records of further sizes did not fit and are left out")


_LACKING = (Loading.NOT_FOUND, Loading.UNSUPPORTED)
_CHOOSERS = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "RCCL_OVERRIDE_ALGO",
    "RCCL_OVERRIDE_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
)


def _about_variables(job: Job) -> Iterator[Remark]:
    for name in _CHOOSERS:
        for value in sorted(job.variables.get(name, ())):
            yield Remark(
                text=f"{name}={value} is set in the job and limits what rules can choose",
                remedy=remedies.unset(name),
            )
    needs = sorted({one.needs for counted in job.started.values() for one in counted if one.needs})
    for need in needs:
        yield Remark(
            text=f"the rule file wants {need}, which the job lacks", remedy=remedies.export(need)
        )


def _not_told(job: Job, answers: list[Answer]) -> Iterator[Remark]:
    """What the files are silent about, and how to be told."""
    unknown = any(answer.kind is Kind.UNKNOWN for answer in answers)
    answered = any(answer.kind is Kind.HIT for answer in answers)
    for text in sorted(job.unread):
        yield Remark(
            text=f"a benchmark's table is left out: {text}",
            remedy="say what it measured with --collective all_reduce",
        )
    if not job.tuning and (answered or unknown):
        yield Remark(
            text="these files have no line of what the library chose (subsystem TUNING)",
            remedy=remedies.TELL_LIBRARY,
        )
    if not job.has_calls and not job.tables and not job.recorded and (job.tuning or unknown):
        yield Remark(
            text="calls that ask no tuner leave no line here (subsystem COLL): what is bypassed "
            "cannot be seen",
            remedy=remedies.TELL_LIBRARY,
        )
