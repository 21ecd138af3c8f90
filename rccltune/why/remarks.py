"""Remarks that hold for the whole job, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rccltune.logs.library_log import parse_cell, parse_collective
from rccltune.logs.messages import find_reason, plugin_reasons
from rccltune.model.settings import why_never
from rccltune.model.units import format_size
from rccltune.model.vocabulary import Collective
from rccltune.why import remedies
from rccltune.why.causes import DEFAULTS
from rccltune.why.job_logs import JobLogs, is_ours
from rccltune.why.job_report import AnswerKind, CommunicatorScale, JobRemark, SizeAnswer
from rccltune.why.knowledge import JobKnowledge

_MOST_TOTALS: Final = 8
# The real library over the stand-in HIP runtime reads it (native_plugin/hip/hip.h).
_STAND_IN: Final = "/simulated/topology.xml"


def job_remarks(
    job: JobLogs, knowledge: JobKnowledge, answers: Sequence[SizeAnswer]
) -> Iterator[JobRemark]:
    """The variables, the files, the library, and what the files do not say."""
    yield from _about_variables(job, knowledge)
    yield from _about_rules(job)
    for where, sums in sorted(job.summaries.items(), key=str)[:_MOST_TOTALS]:
        yield JobRemark(
            text=f"the plugin was asked {sums['calls']:,} times for {where}, all ranks together: "
            f"{sums['hits']:,} rule hits, {sums['misses']:,} without a rule, "
            f"{sums['not_selectable']:,} not selectable"
        )
    yield from _about_library(job, knowledge)
    yield from _about_files(job, knowledge)
    yield from _about_missing_lines(job, answers)


def _about_variables(job: JobLogs, knowledge: JobKnowledge) -> Iterator[JobRemark]:
    for name in (*remedies.FORCING, "NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"):
        for value in sorted(job.variables.get(name, ())):
            yield JobRemark(
                text=f"{name}={value} is set in the job and "
                f"{_describe_limit(name, value, knowledge)}",
                remedy=None if name in job.added_variables else remedies.unset(name),
            )
    for need in job.needs:
        yield JobRemark(
            text=f"the rule file wants {need}, which the job lacks", remedy=remedies.export(need)
        )


def _describe_limit(name: str, value: str, knowledge: JobKnowledge) -> str:
    """Effect of a variable on rules, counted where there is a file."""
    rules = knowledge.file_rules or ()
    if not rules or name not in ("NCCL_ALGO", "NCCL_PROTO"):
        return "limits what rules can choose"
    excluded = [
        one for one in rules if not remedies.admits(name, value, one.setting, one.collective)
    ]
    if not excluded:
        return f"limits what the library can choose, though none of the {len(rules)} rules"
    words = [one.setting.algorithm if "ALGO" in name else one.setting.protocol for one in excluded]
    out = ", ".join(sorted({word.value for word in words if word}))
    return f"shuts out {len(excluded)} of the {len(rules)} rules, those for {out}"


def _about_rules(job: JobLogs) -> Iterator[JobRemark]:
    """Remarks on what a file's rules are bound to, on lines, and on rules that never match."""
    bound = {(one.words["measured"], one.words["library"]) for one in job.facts("rules")}
    for measured, runs in sorted(bound - {("", "")}):
        yield JobRemark(
            text=f"the rules were measured with {measured}, and the job runs {runs}",
            remedy=plugin_reasons()["R16"].remedy,
        )
    unchecked = {name for one in job.facts("rules") for name in one.words["unchecked"].split(",")}
    if unchecked - {""}:
        names = " and ".join(sorted(unchecked - {""}))
        yield JobRemark(
            text=f"the rule file names its {names}, which the plugin could not find out here: not "
            "checked"
        )
    for words, line in job.facts("remark"):
        yield JobRemark(text=f"{words['text']} ({line})", remedy=words["remedy"] or None)
    yield from _about_rules_that_never_match(job)


def _about_rules_that_never_match(job: JobLogs) -> Iterator[JobRemark]:
    """Rules of NVIDIA's example plugin, which says what it read."""
    scales = {where for where in job.scales if where.n_nodes is not None}
    for words, line in job.facts("rule"):
        collective: Collective | None = parse_collective(words["collective"])
        setting = parse_cell(words["algorithm"], words["protocol"])
        nodes, ranks = (int(words[name]) for name in ("nodes", "ranks"))
        rule = CommunicatorScale(nodes if nodes >= 0 else None, ranks if ranks >= 0 else None)
        why = why_never(*rule)
        if why is None and scales and not any(_serves(rule, where) for where in scales):
            why = f"the job has {', '.join(sorted(map(str, scales)))}"
        if why is not None and collective is not None and setting is not None:
            first, last = format_size(int(words["first"])), format_size(int(words["last"]))
            yield JobRemark(
                text=f"the rule for {collective.value} from {first} to {last} ({setting}) is for "
                f"{rule} and never matches: {why} ({line})",
                remedy=f"correct its nodes and ranks in {job.table or 'the rule file'}",
            )


def _serves(rule: CommunicatorScale, where: CommunicatorScale) -> bool:
    return rule.n_nodes in (None, where.n_nodes) and rule.n_ranks in (None, where.n_ranks)


def _about_library(job: JobLogs, knowledge: JobKnowledge) -> Iterator[JobRemark]:
    versions = sorted(job.versions)
    if len(versions) > 1:
        yield JobRemark(
            text=f"the files name {len(versions)} libraries: {', '.join(versions)}; ranks load "
            "different ones, or these are the logs of several jobs",
            remedy=remedies.CHECK_LIBRARY,
        )
    elif versions:
        measured = ", ".join(knowledge.file_libraries)
        than = f"; the rules were measured with {measured}" if measured else ""
        simulated = _STAND_IN in job.variables.get("NCCL_TOPO_FILE", ())
        real = ", real; times simulated" if simulated else ""
        yield JobRemark(text=f"library: {versions[0]}{real}{than}")
    bundled = sorted(one.words["file"] for one in job.facts("path"))
    bundled = [path for path in bundled if "/torch/lib/" in path]
    if bundled:
        yield JobRemark(
            text=f"PyTorch loads the library that it brings with it: {bundled[0]}",
            remedy=remedies.CHECK_LIBRARY,
        )
    lacking = [one for one in job.names("not found", "unsupported") if one not in DEFAULTS]
    if lacking and any(map(is_ours, job.names("using"))):
        yield JobRemark(
            text=f"some processes loaded the plugin, and others did not: {lacking[0]}",
            remedy=remedies.USE_PLUGIN,
        )


def _about_files(job: JobLogs, knowledge: JobKnowledge) -> Iterator[JobRemark]:
    files = {(one.path, one.sha256) for starts in job.starts.values() for one in starts}
    for path, sha256 in sorted(files - {("", "")}):
        text = f"the job read {path} (sha256 {sha256[:12]}…)"
        if knowledge.file_sha256 in ("", sha256):
            yield JobRemark(text=text)
        else:
            yield JobRemark(
                text=f"{text}, which is another file than {knowledge.file_name}: what is said of "
                "rules is said of the latter",
                remedy=remedies.SAME_FILE,
            )
    for text in (one.words["text"] for how in ("warned", "unwritten") for one in job.facts(how)):
        reason = find_reason(text)
        yield JobRemark(text=f"the plugin says: {text}", remedy=reason.remedy if reason else None)
    if job.n_dropped_lines:
        yield JobRemark(
            text=f"{job.n_dropped_lines} lines on further calls did not fit and are left out"
        )


def _about_missing_lines(job: JobLogs, answers: Sequence[SizeAnswer]) -> Iterator[JobRemark]:
    """Remarks on what the files do not say, and how to be told."""
    kinds = {answer.kind for answer in answers}
    unknown = AnswerKind.UNKNOWN in kinds
    for text in sorted(job.unread_tables):
        yield JobRemark(
            text=f"rows like those of a benchmark are left out: {text}",
            remedy="say what it measured with --collective all_reduce" if unknown else None,
        )
    if job.n_torn_lines:
        yield JobRemark(
            text=f"{job.n_torn_lines} lines hold messages of several ranks, cut where they met: "
            "only the last one of each is read",
            remedy=remedies.TELL_LIBRARY,
        )
    if not job.scales_with_choices and (AnswerKind.HIT in kinds or unknown):
        yield JobRemark(
            text="these files have no line of what the library chose (subsystem TUNING)",
            remedy=remedies.TELL_LIBRARY,
        )
    # Where no plugin is loaded, a path around it is not what anybody wants to know.
    loaded = kinds != {AnswerKind.NOT_LOADED} and kinds
    is_without_calls = not job.facts("calls") and not job.n_tables and not job.recorded_scales
    if loaded and is_without_calls and (job.scales_with_choices or unknown):
        yield JobRemark(
            text="calls that ask no tuner leave no line here (subsystem COLL): what is bypassed "
            "cannot be seen",
            remedy=remedies.TELL_LIBRARY,
        )
