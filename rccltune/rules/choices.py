"""The choice of a fitted session, and what its variants gain and lose against the site's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from rccltune.analyse.choice import Choice, choose
from rccltune.analyse.fit import FitResult
from rccltune.analyse.library_behaviour import Bypass
from rccltune.analyse.options import ChoiceOptions
from rccltune.analyse.variant_gains import compare_with_site
from rccltune.model.choice import (
    NOT_MEASURED,
    NOTHING_SELECTABLE,
    ExportedVariant,
    Zone,
    is_not_beaten,
)
from rccltune.model.errors import CommandLineError, TooLittleDataError
from rccltune.model.reporter import Reporter
from rccltune.model.settings import DEFAULT_VARIANT, Setting, Variant, base_variant, in_default
from rccltune.model.vocabulary import MAX_NBYTES, format_size
from rccltune.session.samples import load_frame


def choice_of(done: FitResult, options: ChoiceOptions) -> Choice:
    """Zones for a fitted session.

    Where our plugin answering nothing is known to be the baseline, what was measured of it
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
    try:
        chosen = choose(
            table_of(done),
            variants_of(done),
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


def variants_of(done: FitResult) -> dict[str, Variant]:
    """The variants of a session by name."""
    return {one.name: one for one in done.session.variants}


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
        hint="measure larger sizes, or a variant without that path (rccltune variants).",
    )


def explained(chosen: Sequence[Zone], bypasses: Sequence[Bypass]) -> tuple[Zone, ...]:
    """Zones with gaps that say where the library asks no tuner."""
    return tuple(_explained(zone, bypasses) for zone in chosen)


def _is_in(bypass: Bypass, zone: Zone) -> bool:
    """Whether a path was seen at sizes of a zone alone."""
    target = zone.target
    return (
        (target.collective, target.scale, target.variant.name)
        == (bypass.collective, bypass.scale, bypass.variant)
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


def _no_such_baseline(named: str, done: FitResult, there: list[str]) -> CommandLineError:
    return CommandLineError(
        f"'{named}' was not measured, so it cannot be the baseline",
        where=str(done.session.path),
        hint=f"measured are {', '.join(there)}.",
    )


def baseline_named(text: str | None, done: FitResult) -> Setting | str | None:
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


def environments_of(
    done: FitResult, choice: Choice, options: ChoiceOptions
) -> tuple[ExportedVariant, ...]:
    """The variants of a session, held against the site; the one that the options name is chosen.

    Raises:
        CommandLineError: the variant that was named was not measured.
    """
    exported = (
        compare_with_site(choice.candidates, choice.zones, options, wrong=done.wrong)
        if done.is_varied
        else ()
    )
    if options.variant in (None, DEFAULT_VARIANT.name):
        return exported
    widening = _widening(done, choice)
    if options.variant not in widening and not any(one.chosen for one in exported):
        names = [DEFAULT_VARIANT.name, *widening, *(one.variant.name for one in exported)]
        raise CommandLineError(
            f"the variant '{options.variant}' was not measured beside the default",
            where=str(done.session.path),
            hint=f"measured are {', '.join(names)}.",
        )
    return exported


def _widening(done: FitResult, choice: Choice) -> list[str]:
    """Variants that only make more of the site's own settings selectable, measured or needed."""
    named = [curve.key.variant for curve in done.curves]
    named += [zone.variant for zone in choice.zones if zone.setting]
    return list(dict.fromkeys(one.name for one in named if one.widens == DEFAULT_VARIANT.name))


def merge_exports(judged: Iterable[tuple[ExportedVariant, ...]]) -> tuple[ExportedVariant, ...]:
    """The variants of several sessions as one, since a job has one environment.

    A threshold is the smallest of theirs, so that it is beyond no session's crossover.
    """
    by_name: dict[str, ExportedVariant] = {}
    for one in (one for found in judged for one in found):
        known = by_name.get(one.variant.name)
        by_name[one.variant.name] = one if known is None else _both(known, one)
    return tuple(by_name.values())


def _both(one: ExportedVariant, other: ExportedVariant) -> ExportedVariant:
    """Merge the exports of one variant in two sessions."""
    first = min(one, other, key=lambda found: found.threshold_nbytes or MAX_NBYTES)
    return replace(first, gains=(*one.gains, *other.gains))


def zones_in(zones: Sequence[Zone], environments: Iterable[ExportedVariant]) -> tuple[Zone, ...]:
    """The zones of the variant that is chosen; of the site's own where none is.

    What a path serves before a tuner is asked is a gap: a rule there would do nothing. Collectives
    that the variant does not concern keep the default's.
    """
    plain = [zone for zone in zones if _is_default(zone.target.variant)]
    chosen = next((one for one in environments if one.chosen), None)
    if chosen is None:
        return tuple(plain)
    variant = chosen.variant
    name = chosen.beyond if variant.path else variant.name
    of_variant = [zone for zone in zones if zone.target.variant.name == name]
    concerned = {zone.target.collective for zone in of_variant if _concerns(variant, zone)}
    kept = [zone for zone in plain if zone.target.collective not in concerned]
    kept += [zone for zone in of_variant if zone.target.collective in concerned]
    if not variant.path:
        return tuple(kept)
    bare = [_in_default(zone) for zone in kept]
    parts = (part for zone in bare for part in _behind(zone, variant, chosen.reach))
    return tuple(_as_one(parts))


def _as_one(zones: Iterable[Zone]) -> list[Zone]:
    """Zones with neighbouring gaps of one reason as one."""
    joined: list[Zone] = []
    for zone in zones:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.setting is None
            and (last.target, last.reason) == (zone.target, zone.reason)
            and last.max_nbytes + 1 == zone.min_nbytes
        ):
            joined[-1] = replace(last, max_nbytes=zone.max_nbytes)
        else:
            joined.append(zone)
    return joined


def _is_default(variant: Variant) -> bool:
    return base_variant(variant).name == DEFAULT_VARIANT.name


def _concerns(variant: Variant, zone: Zone) -> bool:
    return not variant.serves or zone.target.collective in variant.serves


def _in_default(zone: Zone) -> Zone:
    """A zone of the variant in which a path is off, as it stands beyond the path's threshold.

    There the library is in the same state, so that the rule needs nothing of that variant.
    """
    target = replace(zone.target, variant=DEFAULT_VARIANT)
    return replace(zone, target=target, variant=in_default(zone.variant))


def _behind(zone: Zone, variant: Variant, reach: int | None) -> list[Zone]:
    """Cut a zone where a path serves calls up to a size; the rest becomes a gap."""
    if not _concerns(variant, zone) or (reach is not None and zone.min_nbytes > reach):
        return [zone]
    up_to = "" if reach is None else f" up to {format_size(reach)}"
    last = zone.max_nbytes if reach is None else min(zone.max_nbytes, reach)
    hole = replace(
        zone,
        max_nbytes=last,
        setting=None,
        reason=f"{variant.name} serves it{up_to}, before a tuner is asked",
        measured_from=None,
        measured_to=None,
        n_sizes=0,
        worst_regret=None,
        mean_regret=None,
        gain=None,
        fallback=None,
        proof=None,
    )
    return [hole] if last == zone.max_nbytes else [hole, replace(zone, min_nbytes=last + 1)]
