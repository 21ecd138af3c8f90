"""Why no rule can have been used at all: at a scale, or where the plugin was not loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from rccltune.logs.messages import plugin_reasons, reason_in
from rccltune.releases import LOADING_OURS, release_of
from rccltune.why import remedies
from rccltune.why.knowledge import JobKnowledge
from rccltune.why.records import (
    AnswerKind,
    CommunicatorScale,
    JobLogs,
    PluginStart,
    Reason,
    TunerLoading,
    is_ours,
)


def cause(job: JobLogs, where: CommunicatorScale, known: JobKnowledge) -> Reason | None:
    """The first reason that holds for every size; None where rules may have been used."""
    return next(_causes(job, where, known), None)


def _causes(job: JobLogs, where: CommunicatorScale, known: JobKnowledge) -> Iterator[Reason]:
    if where.n_ranks == 1:
        yield Reason(AnswerKind.NOT_TUNABLE, "a communicator of one rank has nothing to choose")
    if job.table is not None and job.loaded.get(job.table) == 0 and not job.table_applied:
        yield Reason(AnswerKind.REFUSED, no_rules(job), correct_lines(job))
    started = tuple(job.started.get(where, ()))
    stopped = [one for one in started if one.how == "error"]
    if stopped:
        yield _said(stopped[0], job, "the plugin stopped the communicator")
    if not started and not any(known_to_answer(job)):
        yield from not_loaded(job)
    yield from _different(job, where)
    for one in started:
        if one.how == "inert":
            yield _said(one, job, "the plugin is loaded and says nothing", known)
    if not started and known.file_scales and not known_in_file(where, known):
        yield Reason(
            AnswerKind.OTHER_SCALE,
            f"{known.file_name} has no rule for {where}; it has {', '.join(known.file_scales)}",
            plugin_reasons()["R14"].remedy,
        )


def no_rules(job: JobLogs) -> str:
    """Lines that the library's own reader passed over, where it took nothing of a file."""
    return f"{skipped_lines(job)}no rule was loaded from {job.table}"


def skipped_lines(job: JobLogs) -> str:
    """Lines that the library's own reader passed over, ready for a further half-sentence."""
    file = job.table or "the rule file"
    told = [f"line {n} of {file} {_as_fault(why)}" for n, why in [*job.skipped][:3]]
    more = [f"{len(job.skipped) - 3} more lines were skipped"] if len(job.skipped) > 3 else []
    return "".join(f"{one}, " for one in [*told, *more])


def _as_fault(why: str) -> str:
    """``unknown algorithm value allreduce,0,…`` as what the line does."""
    match = _UNKNOWN.match(why)
    return f"names an unknown {match[1]} ({match[2]})" if match else f"has {why}"


def correct_lines(job: JobLogs) -> str:
    """Remedy for lines that the library's own reader passes over."""
    for _, why in job.skipped:
        match = _UNKNOWN.match(why)
        words = _ROW_WORDS.findall(match[2]) if match else []
        near = next((word.lower() for word in words if word != word.lower()), None)
        if near is not None:
            return f"write names in lower case, as {near}; rccltune explain FILE names every line"
    return "correct the lines that rccltune explain FILE names"


_UNKNOWN: Final = re.compile(
    r"(?:unknown|invalid) (collective type|collective|algorithm|protocol)(?: value)?\s*(.*)"
)
_ROW_WORDS: Final = re.compile(r"[A-Za-z]\w*")


def known_to_answer(job: JobLogs) -> Iterator[bool]:
    """Signs that rules are applied by somebody: our plugin, or the library's own table."""
    yield bool(job.recorded)
    yield bool(job.started)
    yield job.table_applied
    yield bool(job.loaded)
    for loading, name in job.loading:
        yield loading is TunerLoading.TABLE or (loading is TunerLoading.USING and is_ours(name))


def known_in_file(where: CommunicatorScale, known: JobKnowledge) -> bool:
    """Whether the file has a rule for the scale; one that is not known may be in it."""
    if where.n_ranks is None or where.n_nodes is None:
        return True
    return str(where) in known.file_scales or "any" in known.file_scales


def _said(
    started: PluginStart, job: JobLogs, head: str, known: JobKnowledge | None = None
) -> Reason:
    """The plugin's own reason, and what mends it."""
    reason = reason_in(started.text)
    if reason is None:
        return Reason(AnswerKind.UNKNOWN, f"{head}: {started.text}", remedies.TELL_PLUGIN)
    kind, text = AnswerKind(reason.answer), f"{head}: {started.text}"
    if kind is AnswerKind.REFUSED and job.findings:
        text += "; " + "; ".join(sorted(job.findings)[:3])
    if kind is AnswerKind.OTHER_SCALE and known is not None and known.file_scales:
        text += f"; the file has {', '.join(known.file_scales)}"
    return Reason(kind, text, reason.remedy)


def _different(job: JobLogs, where: CommunicatorScale) -> Iterator[Reason]:
    """Ranks that began differently: a hang, or another choice on some."""
    started = tuple(job.started.get(where, ()))
    hashes = {one.sha256 for one in started if one.how == "rules"}
    if len(hashes) > 1:
        files = sorted({f"{one.path} ({one.sha256[:12]})" for one in started if one.sha256})
        yield Reason(
            AnswerKind.OTHER_FILE,
            f"ranks read {len(hashes)} different rule files: {', '.join(files)}",
            remedies.SAME_FILE,
        )
    hows = {one.how for one in started}
    if {"rules", "inert"} <= hows and len({one.text for one in started if one.how == "inert"}) == 1:
        silent = next(one.text for one in started if one.how == "inert")
        yield Reason(
            AnswerKind.OTHER_FILE,
            f"some ranks have rules and others none ({silent})",
            "set the same variables on every rank: source the same env.sh in the job's script",
        )


_PLUGIN: Final = "NCCL_TUNER_PLUGIN"
# What RCCL and NCCL look for where nothing is named; the prefix moved between releases.
DEFAULTS: Final = ("librccl-tuner.so", "libnccl-tuner.so")
_COLLECTIVES: Final = re.compile(r"lib[nr]ccl\.so(?:\.\d+)*")


def not_loaded(job: JobLogs) -> Iterator[Reason]:
    """Why the plugin cannot have been loaded, as the library's log tells it."""
    loading = {what: [n for w, n in job.loading if w is what] for what in TunerLoading}
    # Releases before 2.28 name the file alone, once it is open.
    names = sorted(job.variables.get(_PLUGIN, ())) or sorted(loading[TunerLoading.NAMED])
    named = names[0] if names else None
    version = next(iter(job.versions), None)
    if _is_too_old(version):
        yield Reason(
            AnswerKind.NOT_LOADED,
            f"{version} looks for no tuner that can be used",
            f"use {LOADING_OURS}, or later",
        )
    if named is not None and named.lower() == "none":
        yield Reason(
            AnswerKind.NOT_LOADED, f"{_PLUGIN}=none switches every tuner off", remedies.USE_PLUGIN
        )
    others = [name for name in loading[TunerLoading.USING] if not is_ours(name)]
    if others:
        yield Reason(
            AnswerKind.NOT_LOADED,
            f"another tuner plugin is loaded: {others[0]}",
            remedies.USE_PLUGIN,
        )
    yield from _failed(loading, named, version)
    # Releases before 2.24 say nothing at all where nobody names a tuner.
    if job.loading or (named is None and job.tuning and job.scales):
        yield _unset(named, version)


def _failed(
    loading: dict[TunerLoading, list[str]], named: str | None, version: str | None
) -> Iterator[Reason]:
    """A file was looked for: it was not there, could not be loaded, or has not what is wanted."""
    symbols = sorted(set(loading[TunerLoading.NO_SYMBOL]))
    if loading[TunerLoading.UNSUPPORTED]:
        yield _no_symbol(loading[TunerLoading.UNSUPPORTED][0], symbols, version)
    messages = [text for text in loading[TunerLoading.FAILED] if _is_own(text, named)]
    missing = [name for name in loading[TunerLoading.NOT_FOUND] if name not in DEFAULTS]
    for text in messages:
        if "No such file or directory" in text and text.split(":")[0] == named:
            continue
        yield Reason(
            AnswerKind.NOT_LOADED,
            f"dlopen failed: {text}",
            "mend what it names, see with: ldd $NCCL_TUNER_PLUGIN, or use the bundled file: "
            'export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"',
        )
    if missing or (named is not None and (messages or loading[TunerLoading.NOT_FOUND])):
        yield Reason(
            AnswerKind.NOT_LOADED,
            f"no such file on the ranks' hosts: {missing[0] if missing else named}",
            remedies.USE_PLUGIN,
        )
    if named is not None and symbols:
        yield _no_symbol(named, symbols, version)


def _no_symbol(name: str, symbols: list[str], version: str | None) -> Reason:
    wanted = ", ".join(symbols) or _wanted(version)
    library = version or "the library"
    itself = _COLLECTIVES.fullmatch(PurePath(name).name)
    what = "; it is the library of the collectives itself, and no plugin" if itself else ""
    return Reason(
        AnswerKind.NOT_LOADED,
        f"{name} has no symbol that {library} looks for ({wanted}){what}",
        "use the plugin that comes with rccltune, which has versions 2 to 7: export "
        'NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"',
    )


def _wanted(version: str | None) -> str:
    """The symbols that a release looks for, where it does not say them itself."""
    release = release_of(version)
    if release is None or not release.loads_ours:
        return "ncclTunerPlugin_v…"
    newest, oldest = release.interfaces[0], release.interfaces[-1]
    return f"ncclTunerPlugin_v{newest}" + (f" down to v{oldest}" if newest > oldest else "")


def _unset(named: str | None, version: str | None) -> Reason:
    library = version or "the library"
    if named is None:
        return Reason(
            AnswerKind.NOT_LOADED,
            f"NCCL_TUNER_PLUGIN is not set, and {library} found no tuner by itself",
            remedies.USE_PLUGIN,
        )
    return Reason(
        AnswerKind.NOT_LOADED,
        f"{library} was given NCCL_TUNER_PLUGIN={named} and does not say that it loaded it",
        remedies.USE_PLUGIN,
    )


def _is_own(text: str, named: str | None) -> bool:
    """Whether a message of dlopen is about the file that was named, not a default one."""
    return named is not None and not any(text.startswith(name) for name in DEFAULTS)


def _is_too_old(version: str | None) -> bool:
    release = release_of(version)
    return release is not None and not release.loads_ours
