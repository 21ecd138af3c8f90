"""Provenance of a rule file's figures, and the variables that a file may ask for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.launch import overrides
from rccltune.model import grammar
from rccltune.model.errors import CommandLineError
from rccltune.model.settings import LL128_FORCED, Role, Scale
from rccltune.model.version import __version__
from rccltune.overwritten import losses
from rccltune.ranks import runs
from rccltune.releases import exact_release, library_named
from rccltune.rules.rule_file import RuleFile
from rccltune.rules.writer import VERIFIED_MARK
from rccltune.session import store
from rccltune.session.imports import VENDOR_UNKNOWN
from rccltune.session.store import Session
from rccltune.variants import catalog
from rccltune.variants.spec import Parameter

if TYPE_CHECKING:
    from rccltune.analyse.session_fit import FitResult

# How everything made with the real library on a simulated node names it.
_REAL: Final = re.compile(r"RCCL \S+, real \([^()]+\); times simulated")
# Benchmarks print a release without its family, files of libraries have both.
_LIBRARIES: Final = re.compile(rb"^# library: (.+)$", re.MULTILINE)
_LIBRARY: Final = re.compile(r"(?:[RN]CCL )?\d+\.\d+\.\d+\S*")
_VERIFIED: Final = re.compile(rf"^# {VERIFIED_MARK}", re.MULTILINE)
# As a verification says it of a rule that the library wrote over (verify/verdict.py).
_RAN: Final = re.compile(r"\S+ was answered and \S+ ran at [\d.]+ \w+")
# What we add to rules ourselves; no catalog need be read for it.
_OURS: Final = frozenset((LL128_FORCED[0],))


@cache
def harmless() -> frozenset[str]:
    """Names that the catalog of variants sets and that load no code and open no file.

    A list of names and not of families: ``HSA_TOOLS_LIB`` loads a library and ``MSCCL_XML_FILES``
    opens files, beside others of their families that do not.
    """
    return frozenset(
        name
        for spec in catalog.load_catalog().specs
        if spec.parameter is not Parameter.DIR and spec.library_file is None
        for name, value in spec.environment
        if not _may_be_path(value)
    )


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable may be set for whoever wrote the rules that need it."""
    return not _may_be_path(value) and (name in _OURS or name in harmless())


def odd_needs(needs: Iterable[tuple[str, str]]) -> str:
    """``NAME=VALUE, …`` of what is not harmless; empty where all is."""
    return _listed(sorted({pair for pair in needs if not is_harmless(*pair)}))


def check_needs(
    needs: Iterable[tuple[str, str]], allowed: Collection[str], *, where: str
) -> tuple[str, ...]:
    """Stop where rules ask for what may load code or open files.

    Args:
        needs: (name, value) of what a job would get.
        allowed: names that this command line allows.
        where: the rules, for the message.

    Returns:
        The names that needed to be allowed, each once.

    Raises:
        CommandLineError: some are not; all of them are named.
    """
    odd = sorted({(name, value) for name, value in needs if not is_harmless(name, value)})
    refused = [(name, value) for name, value in odd if name not in allowed]
    if refused:
        options = " ".join(f"--allow-need {name}" for name in dict(refused))
        raise CommandLineError(
            f"these rules need {_listed(refused)}. Only variables of the shipped catalog are set "
            "unasked; any other may load code or open files",
            where=where,
            hint=f"if you know what it does and who wrote the rules, add {options}.",
        )
    return tuple(dict(odd))


def _may_be_path(value: str) -> bool:
    return "/" in value or value.startswith((".", "~"))


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)


SIMULATED: Final = "SIMULATED: made from a stand-in benchmark, not from hardware"


def provenance(done: FitResult) -> tuple[str, ...]:
    """Lines on what was measured where, with which library, and by which rccltune."""
    return (
        *([SIMULATED] if done.session.simulated else []),
        f"written by rccltune {__version__} for {done.session.fingerprint.words}",
        *_session_lines(done),
        *([] if is_vendor_told(done) else [VENDOR_UNKNOWN]),
    )


def simulated_over(path: Path) -> tuple[bool, str | None]:
    """Whether a rule file says that it is simulated, and over which real library."""
    comments = [
        line[2:] for line in grammar.lines(grammar.read_text(path)) if line.startswith("# ")
    ]
    real = _REAL.search(" ".join(comments))
    return any(line.startswith("SIMULATED") for line in comments), real and real[0]


def measured_with(content: bytes) -> tuple[str, ...]:
    """Libraries that the header of a rule file says the rules were measured with."""
    match = _LIBRARIES.search(content)
    names = match[1].decode("ascii", "replace").strip().split(", ") if match else []
    return tuple(name for name in names if _LIBRARY.fullmatch(name))


def written_over(content: bytes, file: RuleFile) -> tuple[str, ...]:
    """What the library writes over of a rule file, a sentence each.

    Of verified rules what the library itself ran at their ends; of others what is known of the
    release that they were measured with.
    """
    text = grammar.text_of(content)
    if _VERIFIED.search(text):
        # A comment is wrapped.
        ran = _RAN.findall(" ".join(text.split()).replace(" # ", " "))
        return tuple(f"when they were verified {said}" for said in dict.fromkeys(ran))
    scales = {
        Scale(n_nodes=rule.n_nodes or 1, n_ranks=rule.n_ranks or 8 * (rule.n_nodes or 1))
        for rule in file.rules
    }
    arch = dict(file.requires).get("arch")
    found = (
        losses(library_named(one, file.arch_or_vendor), file.rules, sorted(scales, key=str), arch)
        for one in measured_with(content)
    )
    return tuple(dict.fromkeys(said for one in found for said in one))


def is_vendor_told(done: FitResult) -> bool:
    """Whether it is known whose library's limits hold; of what was swept, a trace says what ran."""
    is_imported = bool(store.imported_files(done.session.path))
    return done.session.fingerprint.vendor is not None or not is_imported


def _dates(times: Iterable[str | None]) -> str:
    """Text of the days, first to last; empty where no day is known."""
    days = sorted({one[:10] for one in times if one})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _session_lines(done: FitResult) -> list[str]:
    imported = store.imported_files(done.session.path)
    origins = sorted({one.origin for one in imported if one.origin})
    libraries = libraries_in(done.session)
    dates = _dates(one.file.started for one in runs.read_runs(done.session.path, most_ranks=0))
    # Of files nobody knows more than when they were last written; a clone writes them anew.
    files = _dates(one.written for one in imported if not one.origin)
    views = sorted({str(curve.key.view) for curve in done.curves})
    environment = tuple(done.session.setup.environment.items())
    beyond = odd_needs(environment)
    lines = [
        f"source: {', '.join(origins)}" if origins else "",
        f"measured: {dates}" if dates else "",
        f"imported: files written {files}; when they were measured is not recorded"
        if files
        else "",
        f"library: {', '.join(libraries) if libraries else 'not recorded'}",
        overrides.PROVENANCE if is_switched(done.session) else "",
        f"environment: {_listed(environment)}" if environment else "",
        f"of it {beyond} must be set for every job: a rule file asks for shipped variables alone"
        if beyond
        else "",
        f"measured as: {', '.join(views)} (a tuner sees neither type, operation nor placement)",
        f"samples: sha256 {done.samples_sha256}",
        *(f"not measured: {one}: quarantined, {one.reason}" for one in done.quarantined),
    ]
    return [line for line in lines if line]


def library_of(done: FitResult) -> str | None:
    """``NCCL 2.28.9``, where all of a session is known to have measured that one."""
    arch = done.session.fingerprint.arch_or_vendor
    found = {
        exact_release(library_named(version, arch))
        for version in store.library_versions(done.session.path)
    }
    return found.pop() if len(found) == 1 else None


def libraries_in(session: Session) -> list[str]:
    """Versions of the libraries that a session was measured with, each once."""
    return sorted({one for one in store.library_versions(session.path) if one})


def is_switched(session: Session) -> bool:
    """Whether settings were forced in a library that loads no tuner of ours."""
    arch = session.fingerprint.arch_or_vendor
    return any(
        any(setting.role is Role.FORCED for setting in run.settings)
        and overrides.tunerless(library_named(run.library_version, arch))
        for run in runs.read_runs(session.path, most_ranks=0)
    )


def unchecked(runner: str | None) -> str:
    """Words behind "simulated" where what ran is the real library's choice.

    Args:
        runner: of the fingerprint, None for the imitation.
    """
    return f" ({runner}; results not checked)" if runner else ""
