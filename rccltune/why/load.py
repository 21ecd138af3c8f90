"""Why a library did not load the plugin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from rccltune.releases import LOADING_OURS, release_of
from rccltune.why import remedies
from rccltune.why.answers import Kind, Reason
from rccltune.why.records import Job, Loading, is_ours

_PLUGIN: Final = "NCCL_TUNER_PLUGIN"
# What RCCL and NCCL look for where nothing is named; the prefix moved between releases.
DEFAULTS: Final = ("librccl-tuner.so", "libnccl-tuner.so")
_COLLECTIVES: Final = re.compile(r"lib[nr]ccl\.so(?:\.\d+)*")


def not_loaded(job: Job) -> Iterator[Reason]:
    """Why the plugin cannot have been loaded, as the library's log tells it."""
    loading = {what: [n for w, n in job.loading if w is what] for what in Loading}
    # Releases before 2.28 name the file alone, once it is open.
    names = sorted(job.variables.get(_PLUGIN, ())) or sorted(loading[Loading.NAMED])
    named = names[0] if names else None
    version = next(iter(job.versions), None)
    if _is_too_old(version):
        yield Reason(
            Kind.NOT_LOADED,
            f"{version} looks for no tuner that can be used",
            f"use {LOADING_OURS}, or later",
        )
    if named is not None and named.lower() == "none":
        yield Reason(
            Kind.NOT_LOADED, f"{_PLUGIN}=none switches every tuner off", remedies.USE_PLUGIN
        )
    others = [name for name in loading[Loading.USING] if not is_ours(name)]
    if others:
        yield Reason(
            Kind.NOT_LOADED,
            f"another tuner plugin is loaded: {others[0]}",
            remedies.USE_PLUGIN,
        )
    yield from _failed(loading, named, version)
    # Releases before 2.24 say nothing at all where nobody names a tuner.
    if job.loading or (named is None and job.tuning and job.scales):
        yield _unset(named, version)


def _failed(
    loading: dict[Loading, list[str]], named: str | None, version: str | None
) -> Iterator[Reason]:
    """A file was looked for: it was not there, could not be loaded, or has not what is wanted."""
    symbols = sorted(set(loading[Loading.NO_SYMBOL]))
    if loading[Loading.UNSUPPORTED]:
        yield _no_symbol(loading[Loading.UNSUPPORTED][0], symbols, version)
    messages = [text for text in loading[Loading.FAILED] if _is_own(text, named)]
    missing = [name for name in loading[Loading.NOT_FOUND] if name not in DEFAULTS]
    for text in messages:
        if "No such file or directory" in text and text.split(":")[0] == named:
            continue
        yield Reason(
            Kind.NOT_LOADED,
            f"dlopen failed: {text}",
            "mend what it names, see with: ldd $NCCL_TUNER_PLUGIN, or use the bundled file: "
            'export NCCL_TUNER_PLUGIN="$(rccltune plugin --path)"',
        )
    if missing or (named is not None and (messages or loading[Loading.NOT_FOUND])):
        yield Reason(
            Kind.NOT_LOADED,
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
        Kind.NOT_LOADED,
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
            Kind.NOT_LOADED,
            f"NCCL_TUNER_PLUGIN is not set, and {library} found no tuner by itself",
            remedies.USE_PLUGIN,
        )
    return Reason(
        Kind.NOT_LOADED,
        f"{library} was given NCCL_TUNER_PLUGIN={named} and does not say that it loaded it",
        remedies.USE_PLUGIN,
    )


def _is_own(text: str, named: str | None) -> bool:
    """Whether a message of dlopen is about the file that was named, not a default one."""
    return named is not None and not any(text.startswith(name) for name in DEFAULTS)


def _is_too_old(version: str | None) -> bool:
    release = release_of(version)
    return release is not None and not release.loads_ours
