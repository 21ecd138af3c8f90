"""Overrides: what a library makes of a setting; not every release does as it is told.

One that is too old to load our plugin is given a setting through its own switches. NCCL_ALGO,
NCCL_PROTO and the channel counts switch more than the setting (docs/measuring.md), so this is the
second best way. No plugin watches what runs: the benchmark's columns say it, or a log that the
library writes of every call. Writing takes time, so the untouched launches write it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from rccltune.model.measurement import Caution, Launch, Notice
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.releases import (
    LOADING_OURS,
    TELLING_CHOICES,
    dotted,
    parse_library,
    release_of,
)

HOW: Final = "forced through NCCL_ALGO and NCCL_PROTO"
_ALGORITHMS: Final = {
    Algorithm.TREE: "Tree",
    Algorithm.RING: "Ring",
    Algorithm.COLLNET_DIRECT: "CollNetDirect",
    Algorithm.COLLNET_CHAIN: "CollNetChain",
    Algorithm.NVLS: "NVLS",
    Algorithm.NVLS_TREE: "NVLSTree",
    Algorithm.PAT: "PAT",
}
_PROTOCOLS: Final = {Protocol.LL: "LL", Protocol.LL128: "LL128", Protocol.SIMPLE: "Simple"}
_SWITCHES: Final = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")
_DECISIONS: Final = "RCCLTUNE_LOG"
_DEBUG: Final = "NCCL_DEBUG"
# INIT has the channels of the communicator, once; TUNING a line for every call.
_TELL: Final = (
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_FILE", "{launch}/nccl-%h-%p.log"),
    ("NCCL_DEBUG_SUBSYS", "INIT,TUNING"),
)


# --- too old to load the plugin -------------------------------------------------------------------


def tunerless(library: str | None) -> str | None:
    """The library, ``RCCL 2.20.5``, where it is too old to look for our plugin.

    Args:
        library: as its file says, None where that is not known; it is then taken for a newer one.
    """
    release = release_of(library)
    named = parse_library(library)
    if release is None or named is None or release.loads_ours:
        return None
    return f"{release.family.value} {dotted(named[1])}"


def switches(setting: Setting, *, tells: bool) -> tuple[tuple[str, str], ...]:
    """Environment of a launch where the library's own switches choose.

    Args:
        setting: what it measures; the baseline's sets no switch.
        tells: the library's log is to say what ran.
    """
    values = (
        _ALGORITHMS.get(setting.algorithm) if setting.algorithm else None,
        _PROTOCOLS.get(setting.protocol) if setting.protocol else None,
        setting.channels,
        setting.channels,
    )
    chosen = [(n, str(v)) for n, v in zip(_SWITCHES, values, strict=True) if v is not None]
    return (*chosen, *(_TELL if tells else ()))


def is_switched(wanted: Launch) -> bool:
    """Whether a launch's setting was forced through switches and not by the plugin."""
    names = {name for name, _ in wanted.environment}
    forced = any(setting.role is Role.FORCED for setting in wanted.settings)
    return forced and not names.isdisjoint(_SWITCHES)


def is_watched(wanted: Launch) -> bool:
    """Whether our plugin, answering nothing, logs what the library makes of its switches."""
    return is_switched(wanted) and _DECISIONS in {name for name, _ in wanted.environment}


def how_to_prove(
    library: str, letters: Collection[str], variables: Iterable[str]
) -> tuple[bool, str]:
    """Whether the library's log is to say what ran, and what the user should know of it.

    Args:
        library: as :func:`tunerless` names it.
        letters: options of the benchmark; with -A its columns say it and cost nothing.
        variables: names of all that a launch gets from the site and from --env.
    """
    start = f"{library} looks for no tuner plugin: settings are {HOW}"
    against = sorted(name for name in variables if name.startswith(_DEBUG))
    release = release_of(library)
    if "A" in letters:
        return False, f"{start}, and the benchmark's own columns say what ran"
    if release is not None and not release.tells_choices:
        return False, (
            f"{start}, and nothing will say what ran, since its log names no choice before "
            f"{TELLING_CHOICES}: no forced time will count. Measure with a newer library "
            "(--librccl)"
        )
    if against:
        return False, (
            f"{start}, and nothing will say what ran, since the site sets {', '.join(against)}: no "
            f"forced time will count. Unset them, and rccltune logs it"
        )
    return True, (
        f"{start}, and the library's log of every call says what ran; in every launch, the "
        "baseline too, small sizes take a little longer for it"
    )


PROVENANCE: Final = (
    f"{HOW}: the library measured loads no tuner, so these rules need a newer one ({LOADING_OURS})"
)


def switch_notice(library: str | None) -> Notice:
    """Notice for whoever deploys rules of such a session."""
    return Notice(
        caution=Caution.FORCED_BY_SWITCHES,
        message=f"settings were {HOW}, since the library measured ({library or 'not recorded'}) "
        "loads no tuner: it cannot use these rules",
        remedy=f"use them with {LOADING_OURS} and later, and measure again there: a "
        "newer library may be fast elsewhere.",
    )
