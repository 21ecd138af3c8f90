"""The six questions of a job in their order, each with the line that shows its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rccltune.logs.messages import find_reason
from rccltune.why import causes, remedies
from rccltune.why.differences import are_several_ranks_known, find_differences, find_hanging_calls
from rccltune.why.job_logs import LOADING, JobLogs, PluginStart, is_ours
from rccltune.why.job_report import AnswerKind, JobQuestion, JobRemark, Key, SizeAnswer

_NETWORK: Final = "aws-ofi-nccl, the network plugin,"
_PLUGIN: Final = "NCCL_TUNER_PLUGIN"
_FILE: Final = "NCCL_TUNER_CONFIG_FILE"
_USERS: Final = ", the user's file"
# What shows a call of one size: our plugin's word, another reader's, or the library's choice.
_CALLS: Final = ("answered", "applied", "ran")


def job_questions(
    job: JobLogs, answers: Sequence[SizeAnswer], remarks: Sequence[JobRemark]
) -> tuple[JobQuestion, ...]:
    """Answer the six questions of a job.

    Args:
        job: all facts.
        answers: what is said of single sizes.
        remarks: what holds for the whole job.
    """
    ranks = _answer_ranks(job)
    others = (
        _answer_tuner(job),
        _answer_rules(job),
        _answer_sizes(job, answers),
        _answer_overwritten(job, answers),
    )
    # What hangs is said first of all.
    hangs = any(one.kind is AnswerKind.RANKS_DIFFER for one in answers)
    five = (ranks, *others) if hangs else (*others, ranks)
    remedies_of_all = [one.remedy for part in (five, answers, remarks) for one in part]
    to_do = "\n".join(dict.fromkeys(filter(None, remedies_of_all)))
    return (*five, JobQuestion(title="to do", answer=to_do or "nothing"))


def _answer_tuner(job: JobLogs) -> JobQuestion:
    """Is a tuner loaded, whose, and who asked for it?"""
    using = job.names("using") or ["rccltune"] * job.has_our_plugin
    refused = job.find_line("shut out")
    line = next(filter(None, map(job.find_line, LOADING)), None)
    reason = next(causes.find_why_not_loaded(job), None)
    if refused is not None:
        answer = "aws-ofi-nccl's tuner refused to start, since NCCL_ALGO or NCCL_PROTO is set"
        line = refused
    elif using:
        whose = "our plugin is loaded"
        if not is_ours(using[0]):
            whose = f"{using[0]} is loaded, somebody else's"
        answer = f"{whose}; {_describe_request(job, _PLUGIN)}"
        line = job.find_line("using") or job.find_line("added", name=_PLUGIN)
    elif job.table is not None:
        source = "the library brings it with it"
        if not job.has_embedded_table:
            source = _describe_request(job, _FILE)
        answer = f"the library's own reader of rule files, and no plugin; {source}"
        line = job.find_line("table")
    elif reason is not None:
        answer = f"none: {reason.text}"
    else:
        answer = "none is loaded" if line is not None else "no line tells of one"
    return JobQuestion(title="tuner", answer=answer, shown=line)


def _describe_request(job: JobLogs, name: str) -> str:
    """Describe who asked for a plugin or a file, by the variable that names it."""
    if name in job.added_variables:
        setting = f"{name}={job.added_variables[name]}"
        return f"{_NETWORK} asked for it: it put {setting} into the environment"
    values = sorted(job.variables.get(name, ()))
    if values:
        return f"the job's environment asks for it ({name}={'|'.join(values)})"
    return "no line here says who asked for it: a variable, or the library found it by its name"


def _answer_rules(job: JobLogs) -> JobQuestion:
    """Answer which rule file is in force, and whether a named one was refused or cut."""
    if job.table is not None:
        return _answer_other_reader(job, job.table)
    files = sorted(job.variables.get(_FILE, ()))
    starts = {one: line for by_start in job.starts.values() for one, line in by_start.items()}
    without_rules = next((one for one in starts if one.how != "rules"), None)
    missing, remedy = job.facts("lost"), None
    shown = next(iter(starts.values()), None)
    if missing:
        answer = f"no rule was loaded: {missing[0].words['file']} is not there or holds none"
        shown, remedy = missing[0].line, remedies.SAME_FILE
    elif job.rule_file is not None:
        answer = f"{job.rule_file} is in force{_USERS}"
    elif without_rules is not None:
        answer, shown = _describe_start(without_rules, starts[without_rules])
    elif files:
        answer = f"{_FILE}={files[0]} is set, and no line says that anybody read it"
        shown = job.find_line("variable", name=_FILE)
    else:
        answer = "no line tells of a rule file"
    return JobQuestion(title="rules", answer=answer, shown=shown, remedy=remedy)


def _describe_start(start: PluginStart, line: str) -> tuple[str, str]:
    """Describe why our plugin has no rules, and the line that shows it; answers quote all of it."""
    reason = find_reason(start.text)
    if reason is None:
        return f"none: {start.text}", line
    code = f"{reason.code} {reason.name}"
    return f"none: {reason.means}", f"{line.partition(code)[0]}{code}: …"


def _answer_other_reader(job: JobLogs, table: str) -> JobQuestion:
    """Answer what another reader than our plugin made of the file it took, and of one named."""
    files = sorted(job.variables.get(_FILE, ()))
    ignored = [one for one in files if one != table]
    shown, remedy = job.find_line("table") or job.find_line("loaded"), None
    whose = ", the library's own file"
    if using := job.names("using"):
        whose = f", read by {using[0]}"
    elif job.has_embedded_table:
        whose = ", the library's embedded table"
    if ignored:
        answer = f"{ignored[0]}, which {_FILE} names, was not used: {table} is in force{whose}"
        shown = job.find_line("lost") or shown
        remedy = f"see that {ignored[0]} can be read on every host: rccltune explain {ignored[0]}"
    elif job.rules_loaded.get(table) == 0:
        answer, remedy = causes.explain_no_rules(job), causes.correct_lines(job)
        shown = job.find_line("skipped") or job.find_line("loaded")
    elif job.facts("skipped"):
        answer = f"{causes.describe_skipped_lines(job)}the other rules of {table} are in force"
        shown, remedy = job.find_line("skipped"), causes.correct_lines(job)
    else:
        n_rules = f", {job.rules_loaded[table]} rules" if table in job.rules_loaded else ""
        answer = f"{table} is in force{n_rules}{_USERS if files else whose}"
    return JobQuestion(title="rules", answer=answer, shown=shown, remedy=remedy)


def _answer_sizes(job: JobLogs, answers: Sequence[SizeAnswer]) -> JobQuestion:
    """Answer at each size: a rule, no rule, or not asked, and by which path."""
    n_sizes: Counter[str] = Counter()
    for one in answers:
        n_sizes[one.kind.value] += one.n_sizes
    counts = [f"{n} size{'s'[: n != 1]}: {kind}" for kind, n in n_sizes.items() if n]
    paths = sorted({one.text for one in answers if one.kind is AnswerKind.BYPASSED})
    shown = next((job.first_lines[kind] for kind in _CALLS if kind in job.first_lines), None)
    answer = "; ".join([*counts, *paths]) or "no call is known by its size"
    return JobQuestion(title="sizes", answer=answer, shown=shown if counts else None)


def _answer_overwritten(job: JobLogs, answers: Sequence[SizeAnswer]) -> JobQuestion:
    """Is a tuner's answer overwritten by NCCL_ALGO or NCCL_PROTO, and who set them?"""
    added_names = [name for name in remedies.FORCING if name in job.added_variables]
    forcing = [name for name in remedies.FORCING if name in job.variables]
    overwritten = next((one for one in answers if one.kind is AnswerKind.OVERWRITTEN), None)
    answer, shown, remedy = "no variable forces a choice", None, None
    if added_names:
        setting = f"{added_names[0]}={job.added_variables[added_names[0]]}"
        why = "; ".join(one.words["why"] for one in job.facts("simple"))
        since = f", since: {why}" if why else ""
        answer = f"{setting} shuts other choices out: {_NETWORK} set it{since}"
        shown = job.find_line("added", name=added_names[0])
        remedy = remedies.KEEP_SIMPLE if why else None
    elif forcing:
        values = ", ".join(f"{n}={'|'.join(sorted(job.variables[n]))}" for n in forcing)
        answer = f"{values} shuts other choices out: the job's environment sets it"
        shown, remedy = job.find_line("variable", name=forcing[0]), remedies.unset(*forcing)
    elif overwritten is not None:
        answer = overwritten.text
        if overwritten.collective is not None and overwritten.min_nbytes is not None:
            key = Key(overwritten.where, overwritten.collective, overwritten.min_nbytes)
            shown = (job.sizes[key].line or None) if key in job.sizes else None
    return JobQuestion(title="overwritten", answer=answer, shown=shown, remedy=remedy)


def _answer_ranks(job: JobLogs) -> JobQuestion:
    """Do ranks differ?"""
    hanging, differing = find_hanging_calls(job), list(find_differences(job))
    texts = [*(reason.text for _, reason, _ in hanging), *(text for text, _ in differing)]
    lines = [line for _, _, lines in hanging for line in lines]
    lines += [line for _, lines in differing for line in lines]
    remedy = None
    if texts:
        answer = "; ".join(texts)
        remedy = hanging[0][1].remedy if hanging else remedies.SAME_FILE
    elif are_several_ranks_known(job):
        answer = "no difference between ranks is seen"
    else:
        is_any_known = job.scales_with_choices or job.recorded_scales
        whose = "only one rank's choices are" if is_any_known else "no choice is"
        answer = f"not known: {whose} here; every rank's are told by {remedies.LOG}"
    shown = "\n".join(dict.fromkeys(lines)) or None
    return JobQuestion(title="ranks", answer=answer, shown=shown, remedy=remedy)
