"""Rule files by placement of ranks: the zones that each will hold, and their names.

Communicators that are smaller than the node may run on any of its devices. Design §7: a rule for
fewer ranks than the node holds is for any of their placements only where each was measured and
none is slower than the baseline; else it is for its placement alone.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from rccltune.analyse.choice import Choice, choose_together
from rccltune.analyse.fit import FitResult
from rccltune.analyse.options import ChoiceOptions
from rccltune.model import schema
from rccltune.model.brief import brief
from rccltune.model.choice import RuleCount, UnselectableSetting, Zone
from rccltune.model.measurement import Fingerprint, Notice
from rccltune.model.reporter import Reporter
from rccltune.model.settings import RankLocation, Scale
from rccltune.model.vocabulary import RankPlacement
from rccltune.rules import documents
from rccltune.rules.choices import explained, table_of
from rccltune.rules.stored_choice import StoredChoice
from rccltune.session.place import stored_place

_ANYWHERE = (None, RankPlacement.NODE.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFile:
    """Zones of one rule file, before it is written.

    Attributes:
        placement: which the file requires; None is right for any.
        lines: where the ranks were, for the file's header.
    """

    placement: str | None
    zones: tuple[Zone, ...]
    notices: tuple[Notice, ...] = ()
    lines: tuple[str, ...] = ()

    @property
    def requires(self) -> tuple[tuple[str, str], ...]:
        """Pairs for the file's ``#@ requires``."""
        return () if self.placement is None else (("placement", self.placement),)

    @property
    def has_rules(self) -> bool:
        """Whether it says anything but gaps."""
        return any(zone.setting is not None for zone in self.zones)


def files_by_placement(
    fits: Sequence[FitResult],
    choices: Sequence[Choice],
    options: Callable[[FitResult], ChoiceOptions],
    *,
    reporter: Reporter,
) -> tuple[PlacementFile, ...]:
    """The files that sessions make together, the one for any placement first; at least one.

    Args:
        fits: of one machine.
        choices: what each alone chooses.
        options: of a session.
        reporter: told which rules are for one placement only, and why.
    """
    zones = [zone for choice in choices for zone in choice.zones]
    apart: dict[str, list[Zone]] = {}
    for zone in zones:
        name = zone.target.rank_placement
        if name is not None and name not in _ANYWHERE:
            apart.setdefault(name, []).append(zone)
    joint = [
        _file_for_any_placement(fits, scale, by_name, options(fits[0]), reporter)
        for scale, by_name in _by_scale(fits).items()
    ]
    chosen = tuple(zone for sheet in joint for zone in sheet.zones)
    plain = PlacementFile(
        placement=None,
        zones=(*(zone for zone in zones if zone.target.rank_placement in _ANYWHERE), *chosen),
        notices=tuple(notice for sheet in joint for notice in sheet.notices),
        lines=tuple(line for sheet in joint for line in sheet.lines),
    )
    placed = [
        PlacementFile(placement=name, zones=tuple(found), lines=(f"placement of ranks: {name}",))
        for name, found in apart.items()
    ]
    said = _says(chosen)
    # A placement whose own choice is what holds everywhere needs no file.
    needed = (plain, *(sheet for sheet in placed if not _says(sheet.zones) <= said))
    made = tuple(sheet for sheet in needed if sheet.has_rules)
    return made or ((plain,) if plain.zones or not placed else (placed[0],))


def file_name(fingerprint: Fingerprint) -> str:
    """``rccl_tuner_<arch>_<mode>.csv``, the name that the plugin looks for."""
    parts = ["rccl_tuner", gfx_of(fingerprint) or ""]
    if fingerprint.mode is not None and fingerprint.mode.compute is not None:
        parts.append(str(fingerprint.mode))
    return "_".join(part for part in parts if part) + ".csv"


def gfx_of(fingerprint: Fingerprint) -> str | None:
    """The name of an AMD architecture; nothing checks another vendor's."""
    arch = fingerprint.arch
    return arch if arch is not None and arch.startswith("gfx") else None


def name_with_placement(plain: str, placement: str | None) -> str:
    """A rule file's name with its placement, as the plugin looks for it in a directory."""
    path = Path(plain)
    return plain if placement is None else f"{path.stem}_{placement}{path.suffix}"


@dataclass(frozen=True, slots=True)
class _PlacementSamples:
    """Samples of one scale in one placement, and what placements that scale can have."""

    samples: pd.DataFrame
    alike: tuple[str, ...]


def _by_scale(fits: Sequence[FitResult]) -> dict[Scale, dict[str, _PlacementSamples]]:
    """Sessions of communicators that are smaller than the node, by scale and placement."""
    by_scale: dict[Scale, dict[str, _PlacementSamples]] = {}
    for done in fits:
        place = stored_place(done.session.path)
        table = table_of(done)
        for scale, name in dict.fromkeys((c.key.scale, c.key.rank_placement) for c in done.curves):
            if name is None or name in _ANYWHERE:
                continue
            is_here = (table["n_nodes"] == scale.n_nodes) & (table["n_ranks"] == scale.n_ranks)
            mine = table[is_here & (table["rank_placement"] == name)]
            parts = by_scale.setdefault(scale, {})
            known = parts.get(name)
            # Communicators of two sessions are different ones.
            mine = mine.assign(process=f"{done.session.path} " + mine["process"].astype(object))
            both = mine if known is None else pd.concat([known.samples, mine], ignore_index=True)
            parts[name] = _PlacementSamples(both, _alike(place, name, scale))
    return by_scale


def _alike(place: RankLocation | None, name: str, scale: Scale) -> tuple[str, ...]:
    """Placements of a scale; of logs that were imported nobody knows."""
    is_same = place is not None and (place.name, place.scale) == (name, scale)
    return place.alike if place is not None and is_same else ()


def _file_for_any_placement(
    fits: Sequence[FitResult],
    scale: Scale,
    parts: Mapping[str, _PlacementSamples],
    options: ChoiceOptions,
    reporter: Reporter,
) -> PlacementFile:
    """Rules for any placement of a scale; none where not every placement was measured."""
    why = _why_apart(parts)
    chosen = None
    if why is None:
        chosen = choose_together(
            {name: part.samples for name, part in parts.items()},
            replace(
                options,
                arch=fits[0].session.fingerprint.arch_or_vendor,
                own=dict(ChainMap(*(dict(done.own_choices) for done in fits))),
            ),
        )
    if chosen is None or not chosen.zones:
        why = why or "not every one of them has a run with nothing forced"
        reporter.say(f"{scale}: rules are for placement {' and '.join(parts)} alone: {why}")
        return PlacementFile(placement=None, zones=())
    bypasses = [bypass for done in fits for bypass in done.bypasses]
    return PlacementFile(
        placement=None,
        zones=explained(chosen.zones, bypasses),
        # One placement that stands for all has said the same by itself.
        notices=chosen.notices if len(parts) > 1 else (),
        lines=(f"{scale}: rules hold in every placement measured: {', '.join(parts)}",),
    )


def _why_apart(parts: Mapping[str, _PlacementSamples]) -> str | None:
    """Why nothing can be said of the other placements of a scale, None where it can."""
    alike = next((part.alike for part in parts.values() if part.alike), ())
    if not alike:
        return "so many ranks can lie in ways that have no name and were not measured"
    missing = [name for name in alike if name not in parts]
    if missing:
        return (
            f"{' and '.join(missing)} was not measured (sweep --rank-placement {missing[0]} "
            "-o ANOTHER, and give both sessions)"
        )
    return None


def _says(found: Sequence[Zone]) -> set[tuple[object, ...]]:
    """Rules that zones make, whatever they rest on."""
    return {
        (
            zone.target.collective,
            zone.target.scale,
            zone.min_nbytes,
            zone.max_nbytes,
            zone.setting,
            zone.fallback,
        )
        for zone in found
        if zone.setting is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitRequest:
    """Request to emit-config.

    Attributes:
        options: for each session, since a baseline is found in its own curves.
        home: the folder of the default name, None for the first session.
        output: None is the default name; ``-`` writes no file.
    """

    folders: tuple[Path, ...]
    options: Callable[[FitResult], ChoiceOptions]
    home: Path | None = None
    output: Path | None = None
    overwrite: bool = False


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedRules:
    """Rules that were written, with their files.

    Attributes:
        path: None where the text goes to stdout.
        text: of the rule file.
        environment_path: of the exports that use it, None where all goes to stdout.
        environment_text: of the exports.
        needs: what the rules need to be exported.
        placement: the only one that the rules are for, None where they are for any.
        beside: files for one placement of ranks each, where there are more files than one.
        is_kept: verified rules lie at ``path``; neither they nor their exports were replaced.
        choices: of each session, as its choice.json is to have it.
    """

    path: Path | None
    text: str
    zones: tuple[Zone, ...]
    environment_path: Path | None = None
    environment_text: str = ""
    needs: tuple[tuple[str, str], ...] = ()
    left_out: tuple[UnselectableSetting, ...] = ()
    notices: tuple[Notice, ...] = ()
    placement: str | None = None
    beside: tuple[EmittedRules, ...] = ()
    is_kept: bool = False
    choices: tuple[tuple[Path, StoredChoice], ...] = ()

    @property
    def count(self) -> RuleCount:
        """Rules in the file, whether it is written or not."""
        return documents.count_rules(
            [rule for s in documents.sections_of(self.zones) for rule in s.rules]
        )

    def as_plain(self) -> dict[str, Any]:
        """Plain form for --json."""
        return {
            "path": str(self.path) if self.path else None,
            "environment_path": str(self.environment_path) if self.environment_path else None,
            "kept": self.is_kept,
            "needs": dict(self.needs),
            **self.count.as_plain(),
            "zones": schema.to_plain(self.zones),
            "left_out": schema.to_plain(self.left_out),
            "notices": schema.to_plain(self.notices),
            "text": self.text,
            "placement": self.placement,
            "beside": [one.as_plain() for one in self.beside],
        }
