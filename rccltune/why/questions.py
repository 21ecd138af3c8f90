"""The six questions of a job in their order, each with the line that shows its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rccltune.why import causes, remedies
from rccltune.why.differences import calls_that_hang, differences, is_known
from rccltune.why.records import (
    EMBEDDED,
    AnswerKind,
    JobLogs,
    JobQuestion,
    JobRemark,
    SizeAnswer,
    TunerLoading,
    is_ours,
)

_NETWORK: Final = "aws-ofi-nccl, the network plugin,"
_PLUGIN: Final = "NCCL_TUNER_PLUGIN"
_FILE: Final = "NCCL_TUNER_CONFIG_FILE"
_FORCING: Final = ("NCCL_ALGO", "NCCL_PROTO", "RCCL_OVERRIDE_ALGO", "RCCL_OVERRIDE_PROTO")
# What shows a call of one size: our plugin's word, the library's own reader's, or its choice.
_CALLS: Final = ("decision", "applied", "choice")


def job_questions(
    job: JobLogs, answers: Sequence[SizeAnswer], remarks: Sequence[JobRemark]
) -> tuple[JobQuestion, ...]:
    """Answer them from all evidence.

    Args:
        job: all evidence.
        answers: what is said of single sizes.
        remarks: what holds for the whole job.
    """
    ranks = _ranks(job)
    others = (_tuner(job), _rules(job), _sizes(job, answers), _overwritten(job, answers))
    # What hangs is said first of all.
    hangs = any(one.kind is AnswerKind.RANKS_DIFFER for one in answers)
    five = (ranks, *others) if hangs else (*others, ranks)
    remedies_given = [*(one.remedy for one in five), *(one.remedy for one in answers)]
    remedies_given += [one.remedy for one in remarks]
    todo = list(dict.fromkeys(one for one in remedies_given if one))
    return (*five, JobQuestion(title="to do", answer="\n".join(todo) or "nothing"))


def _named(job: JobLogs, what: TunerLoading) -> list[str]:
    return [name for kind, name in job.loading if kind is what]


def _tuner(job: JobLogs) -> JobQuestion:
    """Is a tuner loaded, whose, and who asked for it?"""
    using = _named(job, TunerLoading.USING) or ["rccltune"] * bool(job.started or job.recorded)
    if "shut out" in job.shown:
        return JobQuestion(
            title="tuner",
            answer="aws-ofi-nccl's tuner refused to start, since NCCL_ALGO or NCCL_PROTO is set",
            shown=job.shown["shut out"],
        )
    if using:
        is_own = is_ours(using[0])
        loaded = "our plugin is loaded" if is_own else f"{using[0]} is loaded, somebody else's"
        return JobQuestion(
            title="tuner",
            answer=f"{loaded}; {_asked(job, _PLUGIN)}",
            shown=job.shown.get("loading using") or job.shown.get(f"added {_PLUGIN}"),
        )
    if job.table is not None:
        asked = "the library brings it with it" if _is_embedded(job) else _asked(job, _FILE)
        return JobQuestion(
            title="tuner",
            answer=f"the library's own reader of rule files, and no plugin; {asked}",
            shown=job.shown.get("loading table"),
        )
    reason = next(causes.not_loaded(job), None)
    line = next((job.shown[key] for key in job.shown if key.startswith("loading ")), None)
    if reason is not None:
        return JobQuestion(title="tuner", answer=f"none: {reason.text}", shown=line)
    if line is not None:
        return JobQuestion(title="tuner", answer="none is loaded", shown=line)
    return JobQuestion(title="tuner", answer="no line tells of one")


def _asked(job: JobLogs, name: str) -> str:
    """Answer who asked for the plugin."""
    if name in job.added:
        return f"{_NETWORK} asked for it: it put {name}={job.added[name]} into the environment"
    values = sorted(job.variables.get(name, ()))
    if values:
        return f"the job's environment asks for it ({name}={'|'.join(values)})"
    return "no line here says who asked for it: a variable, or the library found it by its name"


def _is_embedded(job: JobLogs) -> bool:
    return job.table is not None and job.table.startswith(EMBEDDED)


def _rules(job: JobLogs) -> JobQuestion:
    """Answer which rule file is in force, and whether a named one was refused or cut."""
    if job.table is not None:
        return _taken(job, job.table)
    named = sorted(job.variables.get(_FILE, ()))
    stopped = [one for counted in job.started.values() for one in counted if one.how != "rules"]
    shown, remedy = None, None
    if job.lost:
        answer = f"no rule was loaded: {next(iter(job.lost))} is not there or holds none"
        shown, remedy = job.shown.get("lost"), remedies.SAME_FILE
    elif job.rule_file is not None:
        answer, shown = f"{job.rule_file} is in force, the user's file", job.shown.get("rules")
    elif stopped:
        answer, shown = f"none: {stopped[0].text}", job.shown.get("rules")
    elif named:
        answer = f"{_FILE}={named[0]} is set, and no line says that anybody read it"
        shown = job.shown.get(f"variable {_FILE}")
    else:
        answer = "no line tells of a rule file"
    return JobQuestion(title="rules", answer=answer, shown=shown, remedy=remedy)


def _taken(job: JobLogs, table: str) -> JobQuestion:
    """Answer what the library's own reader made of the file that it took, and of one named."""
    named = sorted(job.variables.get(_FILE, ()))
    ignored = [one for one in named if one != table]
    shown, remedy = job.shown.get("loading table") or job.shown.get("loaded"), None
    if ignored:
        answer = f"{ignored[0]}, which {_FILE} names, was not used: {table} is in force"
        answer += _brought(job)
        shown = job.shown.get("lost") or shown
        remedy = f"see that {ignored[0]} can be read on every host: rccltune explain {ignored[0]}"
    elif job.loaded.get(table) == 0:
        answer, remedy = causes.no_rules(job), causes.correct_lines(job)
        shown = job.shown.get("skipped") or job.shown.get("loaded")
    elif job.skipped:
        answer = f"{causes.skipped_lines(job)}the other rules of {table} are in force"
        shown, remedy = job.shown["skipped"], causes.correct_lines(job)
    else:
        read = f", {job.loaded[table]} rules" if table in job.loaded else ""
        answer = f"{table} is in force{read}" + (", the user's file" if named else _brought(job))
    return JobQuestion(title="rules", answer=answer, shown=shown, remedy=remedy)


def _brought(job: JobLogs) -> str:
    if using := _named(job, TunerLoading.USING):
        return f", read by {using[0]}"
    return ", the library's embedded table" if _is_embedded(job) else ", the library's own file"


def _sizes(job: JobLogs, answers: Sequence[SizeAnswer]) -> JobQuestion:
    """Answer at each size: a rule, no rule, or not asked, and by which path."""
    counted: Counter[str] = Counter()
    for one in answers:
        counted[one.kind.value] += one.n_sizes
    counts = [f"{n} size{'s'[: n != 1]}: {kind}" for kind, n in counted.items() if n]
    paths = sorted({one.text for one in answers if one.kind is AnswerKind.BYPASSED})
    shown = next((job.shown[key] for key in _CALLS if key in job.shown), None)
    answer = "; ".join([*counts, *paths]) or "no call is known by its size"
    return JobQuestion(title="sizes", answer=answer, shown=shown if counts else None)


def _added(job: JobLogs) -> list[str]:
    return [name for name in _FORCING if name in job.added]


def _overwritten(job: JobLogs, answers: Sequence[SizeAnswer]) -> JobQuestion:
    """Is a tuner's answer overwritten by NCCL_ALGO or NCCL_PROTO, and who set them?"""
    added = _added(job)
    if added:
        name = added[0]
        why = f", since: {'; '.join(job.simple)}" if job.simple else ""
        return JobQuestion(
            title="overwritten",
            answer=f"{name}={job.added[name]} shuts other choices out: {_NETWORK} set it{why}",
            shown=job.shown.get(f"added {name}"),
            remedy=remedies.KEEP_SIMPLE if job.simple else None,
        )
    forced = [name for name in _FORCING if name in job.variables]
    if forced:
        values = ", ".join(f"{n}={'|'.join(sorted(job.variables[n]))}" for n in forced)
        return JobQuestion(
            title="overwritten",
            answer=f"{values} shuts other choices out: the job's environment sets it",
            shown=job.shown.get(f"variable {forced[0]}"),
            remedy=remedies.unset(*forced),
        )
    overwritten = next((one for one in answers if one.kind is AnswerKind.OVERWRITTEN), None)
    if overwritten is None:
        return JobQuestion(title="overwritten", answer="no variable forces a choice")
    record = None
    if overwritten.collective is not None and overwritten.min_nbytes is not None:
        record = job.seen.get((overwritten.where, overwritten.collective, overwritten.min_nbytes))
    return JobQuestion(
        title="overwritten",
        answer=overwritten.text,
        shown=(record.shown or None) if record else None,
    )


def _ranks(job: JobLogs) -> JobQuestion:
    """Do ranks differ?"""
    hanging = list(calls_that_hang(job))
    differing = list(differences(job))
    if not differing and not hanging:
        unknown = job.tuning or job.recorded
        return JobQuestion(
            title="ranks",
            answer="no difference between ranks is seen"
            if is_known(job) or not unknown
            else "not known: only one rank's choices are here; every rank's are told by "
            f"{remedies.LOG}",
        )
    shown = [line for _, _, lines in hanging for line in lines]
    shown += [job.shown[key] for _, keys in differing for key in keys if key in job.shown]
    texts = [*(reason.text for _, reason, _ in hanging), *(text for text, _ in differing)]
    return JobQuestion(
        title="ranks",
        answer="; ".join(texts),
        shown="\n".join(dict.fromkeys(shown)) or None,
        remedy=hanging[0][1].remedy if hanging else remedies.SAME_FILE,
    )
