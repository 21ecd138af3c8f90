"""Names of rule files, and the placement of ranks that a session's rules are for.

Communicators that are smaller than the node may run on any of its devices. A rule for fewer ranks
than the node holds is for the placement that was measured alone, unless ranks can lie in no other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import Fingerprint
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import RankPlacement

if TYPE_CHECKING:
    from rccltune.analyse.session_fit import FitResult

_ANYWHERE = (None, RankPlacement.NODE.value)


def required_placement(fitted: FitResult, reporter: Reporter) -> str | None:
    """The placement of ranks that a session's rules require; None where they hold in any.

    Args:
        fitted: the session.
        reporter: told where they do not, and why.

    Raises:
        CommandLineError: its ranks were in several.
    """
    keys = [curve.key for curve in fitted.curves]
    names = dict.fromkeys(key.rank_placement for key in keys if key.rank_placement not in _ANYWHERE)
    if not names:
        return None
    if len(names) > 1:
        raise CommandLineError(
            f"this session has ranks in several placements: {', '.join(map(str, names))}",
            where=str(fitted.session.path),
            hint="import each into a session of its own; deploy puts their rules into one folder.",
        )
    (name,) = names
    place = fitted.session.setup.placement
    others = [] if place is None else [one for one in place.equivalent if one != name]
    if place is not None and place.equivalent and not others:
        return None
    why = "so many ranks can lie in ways that have no name and were not measured"
    if others:
        why = (
            f"{' and '.join(others)} was not measured (sweep --rank-placement {others[0]} "
            "-o ANOTHER, and deploy both)"
        )
    reporter.say(f"rules are for placement {name} alone: {why}")
    return name


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
