"""A session's fit, kept in fit.json: curves, and all that is found beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.analyse.changes import crossovers
from rccltune.analyse.choosing import compared
from rccltune.analyse.options import ChoiceOptions
from rccltune.fit import models, points
from rccltune.fit.agreement import Agreements, agreements
from rccltune.fit.beliefs import OwnChoices, own_choices
from rccltune.model import schema
from rccltune.model.belief import Belief
from rccltune.model.chosen import WrongShare
from rccltune.model.curves import Crossover, Curve, Equivalence, Separation, Silence
from rccltune.model.errors import TooLittleDataError
from rccltune.model.failure import Quarantine
from rccltune.model.measured import Notice, Sample
from rccltune.model.reporter import Reporter
from rccltune.model.schema import Line, Whole, Word
from rccltune.model.settings import DEFAULT_VARIANT, Scale, Target, base_variant
from rccltune.model.vocabulary import DTYPE_BYTES, Collective, Doubt
from rccltune.session import files, store
from rccltune.session.frame import records
from rccltune.session.samples import load_frame, set_aside
from rccltune.session.samples import notices as session_notices
from rccltune.session.store import Session

if TYPE_CHECKING:
    import pandas as pd

FIT_FILE: Final = "fit.json"
_VERSION: Final = 2


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
    """What fit.json says; each field as :class:`FitDone` and its agreements have it.

    Attributes:
        version: of this record: with another one it is made again.
    """

    version: Whole
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
    runner: Line | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDone:
    """What fit found.

    Attributes:
        samples_sha256: of the samples.csv that it was made from.
        quarantined: settings that are not measured because their launches fail.
        agreements: the idle plugin beside the baseline, one launch beside separate ones.
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
    def own_choices(self) -> OwnChoices:
        """What the library runs by itself, as far as that is known."""
        return own_choices(self.beliefs, tunerless=self.agreements.tunerless)

    @property
    def is_varied(self) -> bool:
        """Whether a variant was measured that rules could be for, beside the default one."""
        variants = (c.key.variant for c in self.curves if not c.key.variant.patched)
        return any(base_variant(one).name != DEFAULT_VARIANT.name for one in variants)

    @property
    def warnings(self) -> tuple[Notice, ...]:
        """What weakens the fit, and what is missing from it."""
        missing = session_notices(self.quarantined)
        return (*self.notices, *self.agreements.notices, *missing)

    @property
    def file(self) -> FitFile:
        """For fit.json and --json."""
        return FitFile(
            version=_VERSION,
            samples_sha256=self.samples_sha256,
            simulated=self.session.simulated,
            runner=self.session.fingerprint.runner,
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


def fit_session(folder: Path, *, reporter: Reporter, again: bool = False) -> FitDone:
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
    if not again and store.has_current_samples(opened):
        kept = _read(opened, store.samples_sha256(opened))
        if kept is not None:
            return kept
    derived = files.Derived(folder, reporter)
    table = load_frame(opened, reporter, derived)
    opened = store.open_session(folder)
    samples = records(table, {one.name: one for one in opened.variants})
    digest = (
        store.samples_sha256(opened)
        if store.has_current_samples(opened)
        else store.samples_sha256(opened, table)
    )
    fitted = points.curves(samples)
    if not fitted.curves:
        raise TooLittleDataError(
            f"none of the {len(table)} samples can be used",
            where=str(folder / "samples.csv"),
            hint="its column 'unusable' says why for each of them.",
        )
    done = FitDone(
        session=opened,
        samples_sha256=digest,
        curves=fitted.curves,
        crossovers=_crossovers(opened, table),
        separations=models.separate(fitted.curves),
        notices=fitted.notices,
        bypasses=_bypasses(samples),
        quarantined=set_aside(opened),
        agreements=agreements(samples, fitted.curves, folder=folder),
        wrong=wrong_shares(samples),
    )
    # Half of all memory, where there are millions.
    del samples, table
    derived.keep(
        FIT_FILE, lambda: store.write_derived(folder, FIT_FILE, schema.to_plain(done.file))
    )
    return done


def _read(opened: Session, digest: str) -> FitDone | None:
    # Of other samples, or of a version that kept less, it is made again.
    read = store.read_derived(
        opened.path,
        FIT_FILE,
        FitFile,
        serves=lambda said: (said.get("samples_sha256"), said.get("version")) == (digest, _VERSION),
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
        quarantined=set_aside(opened),
        agreements=Agreements(silence=read.silence, equivalence=read.equivalence, tuner=read.tuner),
        beliefs=read.beliefs,
        wrong=read.wrong,
    )


def _crossovers(opened: Session, table: pd.DataFrame) -> tuple[Crossover, ...]:
    """Where the fastest setting changes, by target, view and size."""
    known = {one.name: one for one in opened.variants}
    arch = opened.fingerprint.arch_or_vendor
    found = compared(table, known, ChoiceOptions(arch=arch))
    return tuple(one for each in found for one in crossovers(each))


def _bypasses(samples: Sequence[Sample]) -> tuple[Bypass, ...]:
    """One range for each collective and scale, from the smallest to the largest size seen."""
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


def wrong_shares(samples: Iterable[Sample]) -> tuple[WrongShare, ...]:
    """Elements of lossy variants that the benchmark does not accept, as shares of all ranks'.

    The benchmark counts them over all ranks; how far they are off it does not say.
    """
    found: dict[Target, dict[int, float]] = {}
    for sample in samples:
        if sample.key.variant.lossy and sample.n_wrong is not None and sample.doubt is None:
            sizes = found.setdefault(sample.key.target, {})
            share = min(1.0, sample.n_wrong / _elements(sample))
            sizes[sample.nbytes] = max(share, sizes.get(sample.nbytes, 0.0))
    return tuple(_share(target, sizes) for target, sizes in found.items())


def _share(target: Target, sizes: dict[int, float]) -> WrongShare:
    worst = max(sizes, key=lambda nbytes: (sizes[nbytes], nbytes))
    return WrongShare(
        target=target,
        share=sizes[worst],
        at_nbytes=worst,
        from_nbytes=min((n for n, share in sizes.items() if share), default=None),
    )


def _elements(sample: Sample) -> float:
    """Elements that all ranks get from one call; of all_gather each rank gets the whole."""
    each = max(1, sample.nbytes // DTYPE_BYTES.get(sample.key.dtype or "float", 4))
    divided = sample.key.collective is Collective.REDUCE_SCATTER
    return each * (1 if divided else sample.key.scale.n_ranks)
