"""Remarks that hold for the whole job, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rccltune.logs.messages import plugin_reasons
from rccltune.model.settings import why_never
from rccltune.model.vocabulary import format_size
from rccltune.why import remedies
from rccltune.why.causes import DEFAULTS
from rccltune.why.knowledge import JobKnowledge
from rccltune.why.records import (
    AnswerKind,
    CommunicatorScale,
    JobLogs,
    JobRemark,
    SizeAnswer,
    TunerLoading,
    is_ours,
)
from rccltune.why.remedies import admits


def job_remarks(
    job: JobLogs, known: JobKnowledge, answers: Sequence[SizeAnswer]
) -> Iterator[JobRemark]:
    """The library, the files, the variables, and what the files do not say."""
    yield from _about_variables(job, known)
    yield from _about_conditions(job)
    yield from _about_other_rules(job)
    yield from _about_totals(job)
    yield from _about_library(job, known)
    yield from _about_files(job, known)
    yield from _not_told(job, answers)


def _about_library(job: JobLogs, known: JobKnowledge) -> Iterator[JobRemark]:
    versions = sorted(job.versions)
    if len(versions) > 1:
        yield JobRemark(
            text=f"the files name {len(versions)} libraries: {', '.join(versions)}; ranks load "
            "different ones, or these are the logs of several jobs",
            remedy=remedies.CHECK_LIBRARY,
        )
    elif versions:
        measured = ", ".join(known.file_libraries)
        than = f"; the rules were measured with {measured}" if measured else ""
        simulated = _STAND_IN in job.variables.get("NCCL_TOPO_FILE", ())
        real = ", real; times simulated" if simulated else ""
        yield JobRemark(text=f"library: {versions[0]}{real}{than}")
    bundled = sorted(path for path in job.paths if "/torch/lib/" in path)
    if bundled:
        yield JobRemark(
            text=f"PyTorch loads the library that it brings with it: {bundled[0]}",
            remedy=remedies.CHECK_LIBRARY,
        )
    ours = [name for what, name in job.loading if what is TunerLoading.USING]
    lacking = [name for what, name in job.loading if what in _LACKING and name not in DEFAULTS]
    if lacking and any(is_ours(name) for name in ours):
        yield JobRemark(
            text=f"some processes loaded the plugin, and others did not: {lacking[0]}",
            remedy=remedies.USE_PLUGIN,
        )


def _about_files(job: JobLogs, known: JobKnowledge) -> Iterator[JobRemark]:
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
            yield JobRemark(
                text=f"{text}, which is another file than {known.file_name}: what is said of rules "
                "is said of the latter",
                remedy=remedies.SAME_FILE,
            )
        else:
            yield JobRemark(text=text)
    for what in sorted(job.unwritten):
        yield JobRemark(
            text=f"the plugin says: {what}",
            remedy="name a file that every rank can make, no link and no pipe: export "
            "RCCLTUNE_RECORD=/path/record.%h",
        )
    if job.dropped:
        yield JobRemark(text=f"{job.dropped} records of further sizes did not fit and are left out")


_MOST_TOTALS: Final = 8
_LACKING = (TunerLoading.NOT_FOUND, TunerLoading.UNSUPPORTED)
# The real library over the stand-in HIP runtime reads it (native_plugin/hip/hip.h).
_STAND_IN: Final = "/simulated/topology.xml"
_CHOOSERS = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "RCCL_OVERRIDE_ALGO",
    "RCCL_OVERRIDE_PROTO",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
)


def _limited(name: str, value: str, known: JobKnowledge) -> str:
    """Effect of a variable on rules, counted where there is a file."""
    rules = known.file_rules or ()
    if not rules or name not in ("NCCL_ALGO", "NCCL_PROTO"):
        return "limits what rules can choose"
    shut = [rule for rule in rules if not admits(name, value, rule.setting, rule.collective)]
    if not shut:
        return f"limits what the library can choose, though none of the {len(rules)} rules"
    words = [one.setting.algorithm if "ALGO" in name else one.setting.protocol for one in shut]
    out = ", ".join(sorted({word.value for word in words if word}))
    return f"shuts out {len(shut)} of the {len(rules)} rules, those for {out}"


def _about_totals(job: JobLogs) -> Iterator[JobRemark]:
    """Remarks on what the plugin counted."""
    for where, sums in sorted(job.totals.items(), key=str)[:_MOST_TOTALS]:
        yield JobRemark(
            text=f"the plugin was asked {sums.calls:,} times for {where}, all ranks together: "
            f"{sums.hits:,} rule hits, {sums.misses:,} without a rule, {sums.not_selectable:,} "
            "not selectable"
        )


def _about_variables(job: JobLogs, known: JobKnowledge) -> Iterator[JobRemark]:
    for name in _CHOOSERS:
        for value in sorted(job.variables.get(name, ())):
            yield JobRemark(
                text=f"{name}={value} is set in the job and {_limited(name, value, known)}",
                remedy=None if name in job.added else remedies.unset(name),
            )
    needs = sorted({one.needs for counted in job.started.values() for one in counted if one.needs})
    for need in needs:
        yield JobRemark(
            text=f"the rule file wants {need}, which the job lacks", remedy=remedies.export(need)
        )


def _about_conditions(job: JobLogs) -> Iterator[JobRemark]:
    """Remarks on the library and the product that a rule file is bound to."""
    for measured, runs in sorted(job.other_library):
        yield JobRemark(
            text=f"the rules were measured with {measured}, and the job runs {runs}",
            remedy=plugin_reasons()["R16"].remedy,
        )
    if job.unchecked:
        names = " and ".join(sorted(job.unchecked))
        yield JobRemark(
            text=f"the rule file names its {names}, which the plugin could not find out here: not "
            "checked"
        )


def _about_other_rules(job: JobLogs) -> Iterator[JobRemark]:
    """Remarks on what lines mean, and on rules of another tuner that can never match."""
    for text, remedy in job.said:
        yield JobRemark(
            text=f"{text} ({job.shown[text]})" if text in job.shown else text, remedy=remedy
        )
    scales = {where for where in job.scales if where.n_nodes is not None}
    for rule, shown in job.rules.items():
        why = why_never(*rule.where)
        if why is None and scales and not any(_serves(rule.where, where) for where in scales):
            why = f"the job has {', '.join(sorted(map(str, scales)))}"
        if why is not None:
            yield JobRemark(
                text=f"the rule for {rule.collective.value} from {format_size(rule.min_nbytes)} to "
                f"{format_size(rule.max_nbytes)} ({rule.setting}) is for {rule.where} and never "
                f"matches: {why} ({shown})",
                remedy=f"correct its nodes and ranks in {job.table or 'the rule file'}",
            )


def _serves(rule: CommunicatorScale, where: CommunicatorScale) -> bool:
    return rule.n_nodes in (None, where.n_nodes) and rule.n_ranks in (None, where.n_ranks)


def _not_told(job: JobLogs, answers: Sequence[SizeAnswer]) -> Iterator[JobRemark]:
    """Remarks on what the files do not say, and how to be told."""
    unknown = any(answer.kind is AnswerKind.UNKNOWN for answer in answers)
    answered = any(answer.kind is AnswerKind.HIT for answer in answers)
    for text in sorted(job.unread):
        yield JobRemark(
            text=f"a benchmark's table is left out: {text}",
            remedy="say what it measured with --collective all_reduce",
        )
    if job.torn:
        yield JobRemark(
            text=f"{job.torn} lines hold messages of several ranks, cut where they met: only the "
            "last one of each is read",
            remedy=remedies.TELL_LIBRARY,
        )
    if not job.tuning and (answered or unknown):
        yield JobRemark(
            text="these files have no line of what the library chose (subsystem TUNING)",
            remedy=remedies.TELL_LIBRARY,
        )
    # Where no plugin is loaded, a path around it is not what anybody wants to know.
    loaded = any(answer.kind is not AnswerKind.NOT_LOADED for answer in answers)
    silent = not job.has_calls and not job.tables and not job.recorded
    if loaded and silent and (job.tuning or unknown):
        yield JobRemark(
            text="calls that ask no tuner leave no line here (subsystem COLL): what is bypassed "
            "cannot be seen",
            remedy=remedies.TELL_LIBRARY,
        )
