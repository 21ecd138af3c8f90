"""A session's fit, kept in fit.json: curves, and all that is found beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import pandas as pd

from rccltune.analyse import library_behaviour, points, unusable_notices
from rccltune.analyse.candidates import candidates_in
from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.crossovers import crossovers
from rccltune.analyse.fit_curves import curves
from rccltune.analyse.library_behaviour import Bypass, IdleComparison, LibrarySetting
from rccltune.analyse.steps import separate
from rccltune.model.brief import brief
from rccltune.model.curves import Crossover, Curve, Separation
from rccltune.model.errors import TooLittleDataError
from rccltune.model.failure import ExcludedSetting
from rccltune.model.measurement import Notice
from rccltune.model.reporter import Reporter
from rccltune.model.rounding import round_record
from rccltune.model.schema import Line, Whole
from rccltune.model.settings import Setting, Target
from rccltune.ranks import runs
from rccltune.session import files, store
from rccltune.session.samples import damage, excluded, load_frame
from rccltune.session.samples import notices as session_notices
from rccltune.session.store import Session

FIT_FILE: Final = "fit.json"
_VERSION: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFile:
    """Curves of a session, and all that was found beside them: the content of fit.json.

    Attributes:
        version: of this record: with another one it is made again.
        samples_sha256: of the samples.csv that it was made from.
        excluded: settings that are not measured because their launches fail.
        idle: the plugin, answering nothing, beside the baseline.
        own: settings that the library was seen to run by itself.
    """

    version: Whole
    samples_sha256: Line
    simulated: bool
    curves: tuple[Curve, ...]
    crossovers: tuple[Crossover, ...]
    separations: tuple[Separation, ...]
    notices: tuple[Notice, ...]
    bypasses: tuple[Bypass, ...]
    excluded: tuple[ExcludedSetting, ...]
    idle: tuple[IdleComparison, ...]
    own: tuple[LibrarySetting, ...] = ()
    runner: Line | None = None


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult(FitFile):
    """The fit of a session that is open."""

    session: Session

    @property
    def own_choices(self) -> Mapping[Target, Mapping[int, Setting]]:
        """Settings that the library was seen to run by itself, by target and size in bytes."""
        return library_behaviour.settings_by_target(self.own)

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """Notices of what weakens the fit, and of what is missing from it."""
        missing = session_notices(self.excluded)
        return (*self.notices, *library_behaviour.idle_notices(self.idle), *missing)

    @property
    def file(self) -> FitFile:
        """Record for fit.json and --json."""
        return FitFile(**_fields_of(self))


def _fields_of(record: FitFile) -> dict[str, Any]:
    return {one.name: getattr(record, one.name) for one in fields(FitFile)}


def fit_session(folder: Path, *, reporter: Reporter, again: bool = False) -> FitResult:
    """Fit every curve of a session, or read fit.json where it is current.

    A session that may only be read is fitted all the same; nothing is kept then.

    Args:
        folder: the session.
        reporter: told what is worth telling.
        again: fit even if fit.json is current.

    Raises:
        SessionError: no session, or one that cannot be read.
        TooLittleDataError: no good sample.
    """
    opened = store.open_session(folder)
    if not again and store.why_not_current(opened) is None:
        stored = _read(opened, store.samples_sha256(opened))
        if stored is not None:
            return stored
    derived = files.DerivedFiles(folder, reporter)
    table = load_frame(opened, reporter, derived)
    opened = store.open_session(folder)
    # Of a session that may only be read they are kept nowhere.
    is_kept = store.why_not_current(opened) is None
    digest = store.samples_sha256(opened) if is_kept else store.samples_sha256(opened, table)
    done = _fit_samples(opened, table, digest)
    derived.keep(FIT_FILE, lambda: store.write_derived(folder, FIT_FILE, done.file))
    return done


def _fit_samples(opened: Session, samples: pd.DataFrame, digest: str) -> FitResult:
    timings = points.split_by_timing(samples)
    parts = [points.by_communicator(part) for part in timings]
    is_apart = len(parts) > 1
    table = points.by_communicator(points.usable(samples)) if is_apart else parts[0]
    wrong = unusable_notices.wrong_counts(samples)
    fitted_curves = tuple(curve for part in parts for curve in curves(part, wrong))
    session_runs = runs.read_runs(opened.path)
    lost = damage(opened.path, session_runs)
    if lost and not fitted_curves:
        raise TooLittleDataError(lost[0].message, where=lost[0].where, hint=lost[0].remedy)
    if samples.empty and store.is_swept(opened.path):
        raise TooLittleDataError(
            "nothing is measured yet",
            where=str(opened.path),
            hint=f"the command that began it goes on: {opened.command}",
        )
    if not fitted_curves:
        raise TooLittleDataError(
            f"none of the {len(samples)} samples can be used",
            where=str(opened.path / store.SAMPLES),
            hint="its column 'unusable' says why for each of them.",
        )
    out = excluded(session_runs)
    grids = list(points.grids(table))
    options = ChoiceOptions(arch=opened.fingerprint.arch_or_vendor)
    candidates = candidates_in(grids, samples, options)
    return FitResult(
        session=opened,
        version=_VERSION,
        samples_sha256=digest,
        simulated=opened.simulated,
        runner=opened.fingerprint.runner,
        curves=round_record(fitted_curves),
        crossovers=tuple(one for each in candidates for one in crossovers(each)),
        separations=round_record(separate(fitted_curves)),
        notices=(*lost, *unusable_notices.notices(samples, table, out)),
        bypasses=library_behaviour.bypasses(samples),
        excluded=out,
        idle=round_record(library_behaviour.compare_idle(grids)),
        own=library_behaviour.library_settings(samples),
    )


def _read(opened: Session, digest: str) -> FitResult | None:
    # Of other samples, or of a version that kept less, it is made again.
    read = store.read_derived(
        opened.path,
        FIT_FILE,
        FitFile,
        serves=lambda said: (said.get("samples_sha256"), said.get("version")) == (digest, _VERSION),
    )
    if read is None:
        return None
    # Not from the file: a failed launch changes no sample, and so no file.
    out = excluded(runs.read_runs(opened.path))
    return FitResult(session=opened, **_fields_of(read) | {"excluded": out})
