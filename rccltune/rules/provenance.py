"""Provenance of a rule file's figures: lines of its header."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rccltune.launch import overrides
from rccltune.model.settings import Role
from rccltune.model.version import __version__
from rccltune.ranks import runs
from rccltune.releases import exact_release, name_library
from rccltune.rules.header import SIMULATED
from rccltune.rules.needs import listed, odd_needs
from rccltune.session import store
from rccltune.session.imports import VENDOR_UNKNOWN
from rccltune.session.store import Session

if TYPE_CHECKING:
    from rccltune.analyse.session_fit import FitResult


def provenance(done: FitResult) -> tuple[str, ...]:
    """Lines on what was measured where, with which library, and by which rccltune."""
    return (
        *([SIMULATED] if done.session.simulated else []),
        f"written by rccltune {__version__} for {done.session.fingerprint.words}",
        *_session_lines(done),
        *([] if is_vendor_told(done) else [VENDOR_UNKNOWN]),
    )


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
        f"environment: {listed(environment)}" if environment else "",
        f"of it {beyond} must be set for every job: a rule file asks for shipped variables alone"
        if beyond
        else "",
        f"measured as: {', '.join(views)} (a tuner sees neither type, operation nor placement)",
        f"samples: sha256 {done.samples_sha256}",
        *(f"not measured: {one}: excluded, {one.reason}" for one in done.excluded),
    ]
    return [line for line in lines if line]


def library_of(done: FitResult) -> str | None:
    """``NCCL 2.28.9``, where all of a session is known to have measured that one."""
    arch = done.session.fingerprint.arch_or_vendor
    properties = {
        exact_release(name_library(version, arch))
        for version in store.library_versions(done.session.path)
    }
    return properties.pop() if len(properties) == 1 else None


def libraries_in(session: Session) -> list[str]:
    """Versions of the libraries that a session was measured with, each once."""
    return sorted({one for one in store.library_versions(session.path) if one})


def is_switched(session: Session) -> bool:
    """Whether settings were forced in a library that loads no tuner of ours."""
    arch = session.fingerprint.arch_or_vendor
    return any(
        any(setting.role is Role.FORCED for setting in run.settings)
        and overrides.tunerless(name_library(run.library_version, arch))
        for run in runs.read_runs(session.path, most_ranks=0)
    )


def unchecked(runner: str | None) -> str:
    """Words behind "simulated" where what ran is the real library's choice.

    Args:
        runner: of the fingerprint, None for the imitation.
    """
    return f" ({runner}; results not checked)" if runner else ""
