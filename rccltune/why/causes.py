"""Why no rule can have been used at all: at a scale, or where our plugin was not loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from rccltune.logs.messages import find_reason, plugin_reasons
from rccltune.releases import LOADING_OURS, release_of
from rccltune.why import remedies
from rccltune.why.job_logs import LOADING, JobLogs, PluginStart, is_ours
from rccltune.why.job_report import AnswerKind, CommunicatorScale, Reason
from rccltune.why.knowledge import JobKnowledge

_PLUGIN: Final = "NCCL_TUNER_PLUGIN"
# What RCCL and NCCL look for where nothing is named; the prefix moved between releases.
DEFAULTS: Final = ("librccl-tuner.so", "libnccl-tuner.so")
_COLLECTIVES: Final = re.compile(r"lib[nr]ccl\.so(?:\.\d+)*")
_UNKNOWN: Final = re.compile(
    r"(?:unknown|invalid) (collective type|collective|algorithm|protocol)(?: value)?\s*(.*)"
)
_ROW_WORDS: Final = re.compile(r"[A-Za-z]\w*")


def find_cause(job: JobLogs, where: CommunicatorScale, knowledge: JobKnowledge) -> Reason | None:
    """The first reason that holds for every size; None where rules may have been used."""
    return next(_find_causes(job, where, knowledge), None)


def _find_causes(
    job: JobLogs, where: CommunicatorScale, knowledge: JobKnowledge
) -> Iterator[Reason]:
    if where.n_ranks == 1:
        yield Reason(AnswerKind.NOT_TUNABLE, "a communicator of one rank has nothing to choose")
    is_empty_table = job.table is not None and job.rules_loaded.get(job.table) == 0
    if is_empty_table and "applied" not in job.first_lines:
        yield Reason(AnswerKind.REFUSED, explain_no_rules(job), correct_lines(job))
    starts = list(job.starts.get(where, ()))
    failures = [one for one in starts if one.how == "stopped"]
    if failures:
        yield _explain_start(failures[0], job, "the plugin stopped the communicator")
    if not starts and not _applies_rules(job):
        yield from find_why_not_loaded(job)
    yield from _find_differing_starts(starts)
    read = {one.sha256: one.path for one in starts if one.sha256}
    # One that differs, and was measured with the library of the job, may be a newer one.
    if (
        read
        and knowledge.file_sha256 not in ("", *read)
        and knowledge.is_of_another_library(job.library)
    ):
        yield Reason(
            AnswerKind.OTHER_FILE,
            f"the job read {', '.join(sorted(read.values()))}, and {knowledge.file_name} is "
            "another file",
            "give rccltune why the file that the job read",
        )
    idle = [one for one in starts if one.how == "without rules"]
    if idle:
        yield _explain_start(idle[0], job, "the plugin is loaded and idle", knowledge)
    scales = ", ".join(knowledge.file_scales)
    if not starts and scales and not knowledge.has_rules_for(where):
        yield Reason(
            AnswerKind.OTHER_SCALE,
            f"{knowledge.file_name} has no rule for {where}; it has {scales}",
            plugin_reasons()["R14"].remedy,
        )


def _explain_start(
    start: PluginStart, job: JobLogs, head: str, knowledge: JobKnowledge | None = None
) -> Reason:
    """The plugin's own words; its code says what kind of answer that is and what mends it."""
    reason, text = find_reason(start.text), f"{head}: {start.text}"
    if reason is None:
        return Reason(AnswerKind.UNKNOWN, text, remedies.TELL_PLUGIN)
    kind = AnswerKind(reason.answer)
    mistakes = [one.words["text"] for one in job.facts("mistake")]
    if kind is AnswerKind.REFUSED and mistakes:
        text += "; " + "; ".join(sorted(mistakes)[:3])
    scales = knowledge.file_scales if knowledge is not None else ()
    if kind is AnswerKind.OTHER_SCALE and scales:
        text += f"; the file has {', '.join(scales)}"
    return Reason(kind, text, reason.remedy)


def _find_differing_starts(starts: list[PluginStart]) -> Iterator[Reason]:
    """Ranks that began differently: a hang, or another choice on some."""
    files = sorted({f"{one.path} ({one.sha256[:12]})" for one in starts if one.sha256})
    n_files = len({one.sha256 for one in starts if one.sha256})
    if n_files > 1:
        yield Reason(
            AnswerKind.OTHER_FILE,
            f"ranks read {n_files} different rule files: {', '.join(files)}",
            remedies.SAME_FILE,
        )
    idle = {one.text for one in starts if one.how == "without rules"}
    if n_files and len(idle) == 1:
        yield Reason(
            AnswerKind.OTHER_FILE,
            f"some ranks have rules and others none ({idle.pop()})",
            "set the same variables on every rank: source the same env.sh in the job's script",
        )


def _applies_rules(job: JobLogs) -> bool:
    """Whether rules are applied by somebody: our plugin, or another reader of rule files."""
    return job.has_our_plugin or job.table is not None or "applied" in job.first_lines


# --- lines that the library's own reader skipped --------------------------------------------------


def explain_no_rules(job: JobLogs) -> str:
    """Describe the lines that the reader skipped, where it took nothing of a file."""
    return f"{describe_skipped_lines(job)}no rule was loaded from {job.table}"


def describe_skipped_lines(job: JobLogs) -> str:
    """Describe them, ready for a further half-sentence."""
    file, skipped = job.table or "the rule file", [one.words for one in job.facts("skipped")]
    faults = [f"line {one['line']} of {file} {_describe_fault(one['why'])}" for one in skipped[:3]]
    more = [f"{len(skipped) - 3} more lines were skipped"] if len(skipped) > 3 else []
    return "".join(f"{one}, " for one in [*faults, *more])


def _describe_fault(why: str) -> str:
    """Describe ``unknown algorithm value allreduce,0,…`` as what the line does."""
    match = _UNKNOWN.match(why)
    return f"names an unknown {match[1]} ({match[2]})" if match else f"has {why}"


def correct_lines(job: JobLogs) -> str:
    """Remedy for lines that the reader skipped."""
    for one in job.facts("skipped"):
        match = _UNKNOWN.match(one.words["why"])
        words = _ROW_WORDS.findall(match[2]) if match else []
        near = next((word.lower() for word in words if word != word.lower()), None)
        if near is not None:
            return f"write names in lower case, as {near}; rccltune explain FILE names every line"
    return "correct the lines that rccltune explain FILE names"


# --- not loaded -----------------------------------------------------------------------------------


def find_why_not_loaded(job: JobLogs) -> Iterator[Reason]:
    """Why our plugin cannot have been loaded, as the library's log tells it."""
    # Releases before 2.28 name the file alone, once it is open.
    names = sorted(job.variables.get(_PLUGIN, ())) or sorted(job.names("named", "opened"))
    plugin, version = next(iter(names), None), next(iter(job.versions), None)
    release, library = release_of(version), version or "the library"
    if release is not None and not release.loads_ours:
        yield _not_loaded(
            f"{version} looks for no tuner that can be used", f"use {LOADING_OURS}, or later"
        )
    if plugin is not None and plugin.lower() == "none":
        yield _not_loaded(f"{_PLUGIN}=none switches every tuner off")
    for other in (name for name in job.names("using") if not is_ours(name)):
        yield _not_loaded(f"another tuner plugin is loaded: {other}")
    for name in job.names("unsupported"):
        yield _no_symbol(name, job, version)
    yield from _find_failed_loads(job, plugin, version)
    # Releases before 2.24 say nothing at all where nobody names a tuner.
    if any(map(job.facts, LOADING)) or (plugin is None and job.scales_with_choices and job.scales):
        yield _not_loaded(
            f"NCCL_TUNER_PLUGIN is not set, and {library} found no tuner by itself"
            if plugin is None
            else f"{library} was given {_PLUGIN}={plugin} and does not say that it loaded it"
        )


def _not_loaded(text: str, remedy: str = remedies.USE_PLUGIN) -> Reason:
    return Reason(AnswerKind.NOT_LOADED, text, remedy)


def _find_failed_loads(job: JobLogs, plugin: str | None, version: str | None) -> Iterator[Reason]:
    """A file was looked for: it was not there, could not be loaded, or has not what is wanted."""
    missing = [name for name in job.names("not found") if name not in DEFAULTS]
    if plugin is not None:
        # Messages of dlopen about the file that was named, not a default one.
        failed = [one for one in job.names("failed") if not one.startswith(DEFAULTS)]
        for text in failed:
            if "No such file or directory" in text and text.split(":")[0] == plugin:
                continue
            yield _not_loaded(
                f"dlopen failed: {text}",
                "mend what it names, see with: ldd $NCCL_TUNER_PLUGIN, or use the bundled file: "
                'export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"',
            )
        if failed or job.facts("not found"):
            missing = [*missing, plugin]
    if missing:
        yield _not_loaded(f"no such file on the ranks' hosts: {missing[0]}")
    if plugin is not None and job.facts("no symbol"):
        yield _no_symbol(plugin, job, version)


def _no_symbol(name: str, job: JobLogs, version: str | None) -> Reason:
    release = release_of(version)
    wanted = ", ".join(sorted(job.names("no symbol"))) or "ncclTunerPlugin_v…"
    if not job.facts("no symbol") and release is not None and release.loads_ours:
        newest, oldest = release.interfaces[0], release.interfaces[-1]
        wanted = f"ncclTunerPlugin_v{newest}" + (f" down to v{oldest}" if newest > oldest else "")
    itself = _COLLECTIVES.fullmatch(PurePath(name).name)
    what = "; it is the library of the collectives itself, and no plugin" if itself else ""
    return _not_loaded(
        f"{name} has no symbol that {version or 'the library'} looks for ({wanted}){what}",
        "use the plugin that comes with rccltune, which has versions 2 to 7: export "
        'NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"',
    )
