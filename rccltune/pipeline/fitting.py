"""Samples to curves, kept in fit.json, and curves to a choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune import fit, quarantine, session, zones
from rccltune.errors import CommandLineError, TooLittleDataError
from rccltune.fields import Line, Whole, Word
from rccltune.model import (
    BASELINE,
    DEFAULT_VARIANT,
    NOT_BEATEN,
    NOT_MEASURED,
    Belief,
    Caution,
    Crossover,
    Curve,
    Equivalence,
    Notice,
    Quarantine,
    Sample,
    Scale,
    Separation,
    Setting,
    Silence,
    WrongShare,
    Zone,
    base_variant,
)
from rccltune.pipeline.agreeing import Agreements, agreements
from rccltune.pipeline.believing import gather_beliefs
from rccltune.pipeline.importing import load_samples
from rccltune.pipeline.rounding import wrong_shares
from rccltune.pipeline.searching import SEARCH_FILE
from rccltune.reporter import Note
from rccltune.session import Session
from rccltune.units import format_size
from rccltune.vocab import Collective, Doubt

if TYPE_CHECKING:
    from rccltune.zones import Choice, ChoiceOptions

FIT_FILE: Final = "fit.json"
# Without these it is from before they were compared, and made again.
_KEYS: Final = frozenset({"silence", "tuner", "bypasses"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bypass:
    """Sizes at which the library was seen to take a path that never asks a tuner.

    Attributes:
        variant: name of that in which it was seen.
    """

    collective: Collective
    scale: Scale
    min_nbytes: Whole
    max_nbytes: Whole
    variant: Word = DEFAULT_VARIANT.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FitFile:
    """What fit.json says; each field as :class:`FitDone` and its agreements have it."""

    samples_sha256: Line
    simulated: bool
    curves: tuple[Curve, ...]
    crossovers: tuple[Crossover, ...]
    separations: tuple[Separation, ...]
    notices: tuple[Notice, ...]
    bypasses: tuple[Bypass, ...]
    quarantined: tuple[Quarantine, ...]
    silence: tuple[Silence, ...]
    equivalence: tuple[Equivalence, ...]
    tuner: Line | None
    beliefs: tuple[Belief, ...] = ()
    wrong: tuple[WrongShare, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDone:
    """What fit found.

    Attributes:
        samples_sha256: of the samples.csv that it was made from.
        quarantined: settings that are not measured because their launches fail.
        agreements: silence beside the untouched site, one launch beside separate ones.
        beliefs: what the library would have done by itself, where launches were traced.
        wrong: what lossy variants got wrong.
    """

    session: Session
    samples_sha256: str
    curves: tuple[Curve, ...]
    crossovers: tuple[Crossover, ...]
    separations: tuple[Separation, ...]
    notices: tuple[Notice, ...]
    bypasses: tuple[Bypass, ...] = ()
    quarantined: tuple[Quarantine, ...] = ()
    agreements: Agreements = field(default_factory=Agreements)
    beliefs: tuple[Belief, ...] = ()
    wrong: tuple[WrongShare, ...] = ()

    @property
    def references(self) -> tuple[Curve, ...]:
        """The curves with what silence says of the untouched site: what rules must beat."""
        return fit.strengthened(self.curves, tunerless=self.agreements.tunerless)

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """What weakens the fit, and what is missing from it."""
        missing = quarantine.notices(self.quarantined)
        return (*self.notices, *self.agreements.notices, *missing)

    @property
    def file(self) -> FitFile:
        """For fit.json and --json."""
        return FitFile(
            samples_sha256=self.samples_sha256,
            simulated=self.session.simulated,
            curves=self.curves,
            crossovers=self.crossovers,
            separations=self.separations,
            notices=self.notices,
            bypasses=self.bypasses,
            quarantined=self.quarantined,
            silence=self.agreements.silence,
            equivalence=self.agreements.equivalence,
            tuner=self.agreements.tuner,
            beliefs=self.beliefs,
            wrong=self.wrong,
        )


def fit_session(folder: Path, *, note: Note, again: bool = False) -> FitDone:
    """Fit every curve of a session, or read fit.json where it is current.

    A session that may only be read is fitted all the same; nothing is kept then.

    Args:
        folder: the session.
        note: told what is worth telling.
        again: fit even if fit.json is current.

    Raises:
        SessionError: no session, or one that cannot be read.
        TooLittleDataError: no good sample.
    """
    opened = session.open_session(folder)
    if not again and session.has_current_samples(opened):
        kept = _read(opened, session.samples_sha256(opened))
        if kept is not None:
            return kept
    derived = session.Derived(folder, note)
    samples = load_samples(opened, note, derived)
    opened = session.open_session(folder)
    digest = (
        session.samples_sha256(opened)
        if session.has_current_samples(opened)
        else session.samples_sha256(opened, samples)
    )
    fitted = fit.curves(samples)
    if not fitted.curves:
        raise TooLittleDataError(
            f"none of the {len(samples)} samples can be used",
            where=str(folder / "samples.csv"),
            hint="its column 'doubt' says why for each of them.",
        )
    launches = session.read_launches(folder)
    believed = gather_beliefs(folder, launches, fitted.curves, samples)
    done = FitDone(
        session=opened,
        samples_sha256=digest,
        curves=fitted.curves,
        crossovers=fit.crossovers(fitted.curves),
        separations=fit.separate(fitted.curves),
        notices=(*fitted.notices, *believed.notices),
        bypasses=_bypasses(samples),
        quarantined=quarantine.quarantines(launches),
        agreements=agreements(samples, fitted.curves, folder=folder),
        beliefs=believed.beliefs,
        wrong=wrong_shares(samples),
    )
    derived.keep(
        FIT_FILE, lambda: session.write_derived(folder, FIT_FILE, session.to_plain(done.file))
    )
    return done


def _read(opened: Session, digest: str) -> FitDone | None:
    # Of other samples, or of a version that kept less, it is made again.
    read = session.read_derived(
        opened.path,
        FIT_FILE,
        FitFile,
        serves=lambda said: said.get("samples_sha256") == digest and said.keys() >= _KEYS,
    )
    if read is None:
        return None
    return FitDone(
        session=opened,
        samples_sha256=digest,
        curves=read.curves,
        crossovers=read.crossovers,
        separations=read.separations,
        notices=read.notices,
        bypasses=read.bypasses,
        # Not from the file: a failed launch changes no sample, and so no file.
        quarantined=_quarantined(opened.path),
        agreements=Agreements(silence=read.silence, equivalence=read.equivalence, tuner=read.tuner),
        beliefs=read.beliefs,
        wrong=read.wrong,
    )


def _quarantined(folder: Path) -> tuple[Quarantine, ...]:
    return quarantine.quarantines(session.read_launches(folder))


def choice_of(done: FitDone, options: ChoiceOptions) -> Choice:
    """Zones for a fitted session.

    Where our plugin answering nothing is known to be the untouched site, what was measured of it
    counts as baseline too.

    Raises:
        CommandLineError: the baseline that was named is not in the session.
    """
    if isinstance(options.baseline, str):
        names = {curve.key.variant.name for curve in done.curves}
        if options.baseline not in names:
            raise _no_such_baseline(options.baseline, done, sorted(names))
    elif options.baseline is not None and options.baseline not in _settings(done):
        names = {str(setting) for setting in _settings(done)}
        raise _no_such_baseline(str(options.baseline), done, sorted(names))
    curves = done.references
    try:
        chosen = zones.choose(
            curves, replace(options, arch=done.session.fingerprint.arch_or_vendor)
        )
    except TooLittleDataError as error:
        raise _under_a_path(error, done.bypasses) from error
    # A search measures no setting everywhere, on purpose.
    searched = (done.session.path / SEARCH_FILE).exists()
    return replace(
        chosen,
        zones=explained(chosen.zones, done.bypasses),
        notices=tuple(
            n for n in chosen.notices if not (searched and n.caution is Caution.MISSING_VIEW)
        ),
    )


def _under_a_path(error: TooLittleDataError, bypasses: Sequence[Bypass]) -> TooLittleDataError:
    """The same error; where a path takes all that was measured, that is the finding."""
    if not bypasses:
        return error
    taken: dict[str, list[int]] = {}
    for one in bypasses:
        taken.setdefault(one.collective.value, []).extend((one.min_nbytes, one.max_nbytes))
    seen = "; ".join(
        f"{name} from {format_size(min(found))} to {format_size(max(found))}"
        for name, found in taken.items()
    )
    return TooLittleDataError(
        f"no rule can do anything: the library takes a path that asks no tuner for {seen}",
        where=error.where,
        hint="measure larger sizes, or a variant without that path (rccltune variants).",
    )


def _bypasses(samples: Sequence[Sample]) -> tuple[Bypass, ...]:
    """One stretch for each collective and scale, from the smallest to the largest size seen."""
    seen: dict[tuple[Collective, Scale, str], list[int]] = {}
    for sample in samples:
        if sample.doubt is Doubt.BYPASSED:
            key = sample.key
            where = (key.collective, key.scale, base_variant(key.variant).name)
            seen.setdefault(where, []).append(sample.nbytes)
    return tuple(
        Bypass(collective=c, scale=s, min_nbytes=min(found), max_nbytes=max(found), variant=v)
        for (c, s, v), found in seen.items()
    )


def explained(chosen: Sequence[Zone], bypasses: Sequence[Bypass]) -> tuple[Zone, ...]:
    """The same zones, with holes that say where the library asks no tuner."""
    return tuple(_explained(zone, bypasses) for zone in chosen)


def _explained(zone: Zone, bypasses: Sequence[Bypass]) -> Zone:
    """A hole under a bypass says so: there a rule would do nothing."""
    for bypass in bypasses:
        target = zone.target
        same = (target.collective, target.scale, target.variant.name) == (
            *(bypass.collective, bypass.scale),
            bypass.variant,
        )
        inside = zone.min_nbytes <= bypass.min_nbytes and bypass.max_nbytes <= zone.max_nbytes
        if same and inside and zone.reason in (NOT_MEASURED, NOT_BEATEN):
            stretch = f"{format_size(bypass.min_nbytes)} to {format_size(bypass.max_nbytes)}"
            return replace(zone, reason=f"bypassed from {stretch}; else {zone.reason}")
    return zone


def _settings(done: FitDone) -> set[Setting]:
    return {curve.key.setting for curve in done.curves}


def _no_such_baseline(named: str, done: FitDone, there: list[str]) -> CommandLineError:
    return CommandLineError(
        f"'{named}' was not measured, so it cannot be the baseline",
        where=str(done.session.path),
        hint=f"measured are {', '.join(there)}.",
    )


def baseline_named(text: str | None, done: FitDone) -> Setting | str | None:
    """Read --baseline: a setting, or the name of a variant that was measured."""
    if text is None:
        return None
    if any(curve.key.variant.name == text for curve in done.curves):
        return text
    try:
        return Setting.parse(text)
    except ValueError:
        names = {c.key.variant.name for c in done.curves} | {str(s) for s in _settings(done)}
        raise _no_such_baseline(text, done, sorted(names)) from None


def has_baseline(done: FitDone) -> bool:
    """Whether an untouched run was measured."""
    return BASELINE in _settings(done)
