"""What holds for the whole job, whatever the size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rccltune.why import remedies
from rccltune.why.loading import DEFAULTS
from rccltune.why.records import Answer, Job, Kind, Known, Loading, Remark


def remarks(job: Job, known: Known, answers: Sequence[Answer]) -> Iterator[Remark]:
    """The library, the files, the variables, and what the files are silent about."""
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
        measured = ", ".join(known.file_libraries)
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


def _not_told(job: Job, answers: Sequence[Answer]) -> Iterator[Remark]:
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
