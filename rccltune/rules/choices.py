"""The choice of a fitted session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from rccltune.analyse.choice_options import ChoiceOptions
from rccltune.analyse.choose import Choice, choose
from rccltune.analyse.library_behaviour import Bypass
from rccltune.analyse.session_fit import FitResult
from rccltune.model.choice import (
    NOT_MEASURED,
    NOTHING_SELECTABLE,
    Zone,
    is_not_beaten,
)
from rccltune.model.errors import CommandLineError, TooLittleDataError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import format_size
from rccltune.session.samples import load_frame


def choice_of(done: FitResult, options: ChoiceOptions) -> Choice:
    """Zones for a fitted session.

    Where our plugin answering nothing is known to be the baseline, what was measured of it
    counts as baseline too.

    Raises:
        CommandLineError: the baseline that was named is not in the session.
    """
    if options.baseline is not None and options.baseline not in _settings(done):
        raise _no_such_baseline(str(options.baseline), done)
    try:
        chosen = choose(
            table_of(done),
            replace(
                options,
                arch=done.session.fingerprint.arch_or_vendor,
                own=done.own_choices,
            ),
        )
    except TooLittleDataError as error:
        raise _under_a_path(error, done.bypasses) from error
    return replace(
        chosen,
        zones=explained(chosen.zones, done.bypasses),
    )


def table_of(done: FitResult) -> pd.DataFrame:
    """The samples of a fitted session, as a table."""
    return load_frame(done.session, Reporter())


def _under_a_path(error: TooLittleDataError, bypasses: Sequence[Bypass]) -> TooLittleDataError:
    """Extend an error: where a path takes all that was measured, that is the finding."""
    if not bypasses:
        return error
    taken: dict[str, list[int]] = {}
    for bypass in bypasses:
        taken.setdefault(bypass.collective.value, []).extend((bypass.min_nbytes, bypass.max_nbytes))
    seen = "; ".join(
        f"{name} from {format_size(min(found))} to {format_size(max(found))}"
        for name, found in taken.items()
    )
    return TooLittleDataError(
        f"no rule can do anything: the library takes a path that asks no tuner for {seen}",
        where=error.where,
        hint="measure larger sizes, or an environment without that path (--env NAME=VALUE).",
    )


def explained(chosen: Sequence[Zone], bypasses: Sequence[Bypass]) -> tuple[Zone, ...]:
    """Zones with gaps that say where the library asks no tuner."""
    return tuple(_explained(zone, bypasses) for zone in chosen)


def _is_in(bypass: Bypass, zone: Zone) -> bool:
    """Whether a path was seen at sizes of a zone alone."""
    target = zone.target
    return (
        (target.collective, target.scale) == (bypass.collective, bypass.scale)
        and zone.min_nbytes <= bypass.min_nbytes
        and bypass.max_nbytes <= zone.max_nbytes
    )


def _explained(zone: Zone, bypasses: Sequence[Bypass]) -> Zone:
    """A gap under a bypass says so: there a rule would do nothing."""
    for bypass in bypasses:
        stretch = f"{format_size(bypass.min_nbytes)} to {format_size(bypass.max_nbytes)}"
        if _is_in(bypass, zone) and zone.reason == NOTHING_SELECTABLE:
            return replace(zone, reason=f"bypassed from {stretch}: the library asks no tuner")
        if _is_in(bypass, zone) and (zone.reason == NOT_MEASURED or is_not_beaten(zone.reason)):
            return replace(zone, reason=f"bypassed from {stretch}; else {zone.reason}")
    return zone


def _settings(done: FitResult) -> set[Setting]:
    return {curve.key.setting for curve in done.curves}


def _no_such_baseline(named: str, done: FitResult) -> CommandLineError:
    return CommandLineError(
        f"'{named}' was not measured, so it cannot be the baseline",
        where=str(done.session.path),
        hint=f"measured are {', '.join(sorted(map(str, _settings(done))))}.",
    )


def baseline_named(text: str | None, done: FitResult) -> Setting | None:
    """Read --baseline: a setting that was measured."""
    if text is None:
        return None
    try:
        return Setting.parse(text)
    except ValueError:
        raise _no_such_baseline(text, done) from None
