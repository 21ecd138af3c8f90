"""The six questions of a job in their order, each with the line that shows its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rccltune.why import causes, remedies
from rccltune.why.differences import differences, find_hanging_calls, is_known
from rccltune.why.job_logs import LOADING, JobLogs, is_ours
from rccltune.why.job_report import AnswerKind, JobQuestion, JobRemark, SizeAnswer

_NETWORK: Final = "aws-ofi-nccl, the network plugin,"
_PLUGIN: Final = "NCCL_TUNER_PLUGIN"
_FILE: Final = "NCCL_TUNER_CONFIG_FILE"
_USERS: Final = ", the user's file"
# What shows a call of one size: our plugin's word, another reader's, or the library's choice.
_CALLS: Final = ("answered", "applied", "ran")


def job_questions(
    job: JobLogs, answers: Sequence[SizeAnswer], remarks: Sequence[JobRemark]
) -> tuple[JobQuestion, ...]:
    """Answer them from all facts.

    Args:
        job: all facts.
        answers: what is said of single sizes.
        remarks: what holds for the whole job.
    """
    ranks = _ranks(job)
    others = (_tuner(job), _rules(job), _sizes(job, answers), _overwritten(job, answers))
    # What hangs is said first of all.
    hangs = any(one.kind is AnswerKind.RANKS_DIFFER for one in answers)
    five = (ranks, *others) if hangs else (*others, ranks)
    given = [one.remedy for part in (five, answers, remarks) for one in part]
    todo = list(dict.fromkeys(one for one in given if one))
    return (*five, JobQuestion(title="to do", answer="\n".join(todo) or "nothing"))


def _tuner(job: JobLogs) -> JobQuestion:
    """Is a tuner loaded, whose, and who asked for it?"""
    using = job.names("using") or ["rccltune"] * job.has_our_plugin
    refused = job.line("shut out")
    line = next(filter(None, map(job.line, LOADING)), None)
    reason = next(causes.not_loaded(job), None)
    if refused is not None:
        answer = "aws-ofi-nccl's tuner refused to start, since NCCL_ALGO or NCCL_PROTO is set"
        line = refused
    elif using:
        ours = is_ours(using[0])
        loaded = "our plugin is loaded" if ours else f"{using[0]} is loaded, somebody else's"
        answer = f"{loaded}; {_asked(job, _PLUGIN)}"
        line = job.line("using") or job.line("added", name=_PLUGIN)
    elif job.table is not None:
        asked = "the library brings it with it" if job.is_embedded else _asked(job, _FILE)
        answer = f"the library's own reader of rule files, and no plugin; {asked}"
        line = job.line("table")
    elif reason is not None:
        answer = f"none: {reason.text}"
    else:
        answer = "none is loaded" if line is not None else "no line tells of one"
    return JobQuestion(title="tuner", answer=answer, shown=line)


def _asked(job: JobLogs, name: str) -> str:
    """Answer who asked for the plugin."""
    if name in job.added:
        return f"{_NETWORK} asked for it: it put {name}={job.added[name]} into the environment"
    values = sorted(job.variables.get(name, ()))
    if values:
        return f"the job's environment asks for it ({name}={'|'.join(values)})"
    return "no line here says who asked for it: a variable, or the library found it by its name"


def _rules(job: JobLogs) -> JobQuestion:
    """Answer which rule file is in force, and whether a named one was refused or cut."""
    if job.table is not None:
        return _taken(job, job.table)
    named = sorted(job.variables.get(_FILE, ()))
    starts = [(one, line) for found in job.starts.values() for one, line in found.items()]
    stopped = next((one for one, _ in starts if one.how != "rules"), None)
    lost, remedy = job.told("lost"), None
    shown = next((line for _, line in starts), None)
    if lost:
        answer = f"no rule was loaded: {lost[0].words['file']} is not there or holds none"
        shown, remedy = lost[0].line, remedies.SAME_FILE
    elif job.rule_file is not None:
        answer = f"{job.rule_file} is in force{_USERS}"
    elif stopped is not None:
        answer = f"none: {stopped.text}"
    elif named:
        answer = f"{_FILE}={named[0]} is set, and no line says that anybody read it"
        shown = job.line("variable", name=_FILE)
    else:
        answer = "no line tells of a rule file"
    return JobQuestion(title="rules", answer=answer, shown=shown, remedy=remedy)


def _taken(job: JobLogs, table: str) -> JobQuestion:
    """Answer what another reader than our plugin made of the file it took, and of one named."""
    named = sorted(job.variables.get(_FILE, ()))
    ignored = [one for one in named if one != table]
    shown, remedy = job.line("table") or job.line("loaded"), None
    brought = ", the library's embedded table" if job.is_embedded else ", the library's own file"
    if using := job.names("using"):
        brought = f", read by {using[0]}"
    if ignored:
        answer = f"{ignored[0]}, which {_FILE} names, was not used: {table} is in force{brought}"
        shown = job.line("lost") or shown
        remedy = f"see that {ignored[0]} can be read on every host: rccltune explain {ignored[0]}"
    elif job.loaded.get(table) == 0:
        answer, remedy = causes.no_rules(job), causes.correct_lines(job)
        shown = job.line("skipped") or job.line("loaded")
    elif job.told("skipped"):
        answer = f"{causes.skipped_lines(job)}the other rules of {table} are in force"
        shown, remedy = job.line("skipped"), causes.correct_lines(job)
    else:
        read = f", {job.loaded[table]} rules" if table in job.loaded else ""
        answer = f"{table} is in force{read}{_USERS if named else brought}"
    return JobQuestion(title="rules", answer=answer, shown=shown, remedy=remedy)


def _sizes(job: JobLogs, answers: Sequence[SizeAnswer]) -> JobQuestion:
    """Answer at each size: a rule, no rule, or not asked, and by which path."""
    counted: Counter[str] = Counter()
    for one in answers:
        counted[one.kind.value] += one.n_sizes
    counts = [f"{n} size{'s'[: n != 1]}: {kind}" for kind, n in counted.items() if n]
    paths = sorted({one.text for one in answers if one.kind is AnswerKind.BYPASSED})
    shown = next((job.first[tells] for tells in _CALLS if tells in job.first), None)
    answer = "; ".join([*counts, *paths]) or "no call is known by its size"
    return JobQuestion(title="sizes", answer=answer, shown=shown if counts else None)


def _overwritten(job: JobLogs, answers: Sequence[SizeAnswer]) -> JobQuestion:
    """Is a tuner's answer overwritten by NCCL_ALGO or NCCL_PROTO, and who set them?"""
    added = [name for name in remedies.FORCING if name in job.added]
    forced = [name for name in remedies.FORCING if name in job.variables]
    overwritten = next((one for one in answers if one.kind is AnswerKind.OVERWRITTEN), None)
    answer, shown, remedy = "no variable forces a choice", None, None
    if added:
        name, causes_told = added[0], "; ".join(one.words["why"] for one in job.told("simple"))
        why = f", since: {causes_told}" if causes_told else ""
        answer = f"{name}={job.added[name]} shuts other choices out: {_NETWORK} set it{why}"
        shown = job.line("added", name=name)
        remedy = remedies.KEEP_SIMPLE if causes_told else None
    elif forced:
        values = ", ".join(f"{n}={'|'.join(sorted(job.variables[n]))}" for n in forced)
        answer = f"{values} shuts other choices out: the job's environment sets it"
        shown, remedy = job.line("variable", name=forced[0]), remedies.unset(*forced)
    elif overwritten is not None:
        answer = overwritten.text
        if overwritten.collective is not None and overwritten.min_nbytes is not None:
            key = (overwritten.where, overwritten.collective, overwritten.min_nbytes)
            shown = (job.seen[key].shown or None) if key in job.seen else None
    return JobQuestion(title="overwritten", answer=answer, shown=shown, remedy=remedy)


def _ranks(job: JobLogs) -> JobQuestion:
    """Do ranks differ?"""
    hanging, differing = find_hanging_calls(job), list(differences(job))
    if not differing and not hanging:
        answer = "no difference between ranks is seen"
        if not is_known(job):
            whose = "only one rank's choices are" if job.tuning or job.recorded else "no choice is"
            answer = f"not known: {whose} here; every rank's are told by {remedies.LOG}"
        return JobQuestion(title="ranks", answer=answer)
    shown = [line for _, _, lines in hanging for line in lines]
    shown += [line for _, lines in differing for line in lines]
    texts = [*(reason.text for _, reason, _ in hanging), *(text for text, _ in differing)]
    return JobQuestion(
        title="ranks",
        answer="; ".join(texts),
        shown="\n".join(dict.fromkeys(shown)) or None,
        remedy=hanging[0][1].remedy if hanging else remedies.SAME_FILE,
    )
