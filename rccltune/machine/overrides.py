"""Overrides: what a library makes of a setting; not every release does as it is told.

One that is too old to load our plugin is given a setting through its own switches. NCCL_ALGO,
NCCL_PROTO and the channel counts switch more than the setting (docs/measuring.md), so this is the
second best way. No plugin watches what runs: the benchmark's columns say it, or a log that the
library writes of every call. Writing takes time, so the untouched launches write it too.

On several nodes some releases choose the protocol again after a tuner has: RCCL's
``rcclUpdateCollectiveProtocol`` came with ROCm 7.0 and sets the protocol of three collectives by
size alone; from RCCL 2.28.3 on it leaves a tuner's exact zero as it is (change 1985). What the
plugin answered cannot show that. Only the benchmark's own columns say what ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from rccltune.model.choice import Zone
from rccltune.model.measurement import Caution, Launch, Notice, Outcome
from rccltune.model.settings import Role, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Protocol
from rccltune.releases import (
    KEEPING_PROTOCOLS,
    LOADING_OURS,
    TELLING_CHOICES,
    dotted,
    overwriting,
    parse_library,
    release_of,
)

CONCERNED: Final = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
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


# --- chooses the protocol again -------------------------------------------------------------------


def overwrites(library: str | None, n_nodes: int | None) -> bool:
    """Whether a library may set another protocol than a tuner's answer.

    Args:
        library: ``RCCL 2.26.6+hip7.0``, None where that is not known; it is then taken for one
            that does not.
        n_nodes: of the communicator.
    """
    release = release_of(library)
    several = n_nodes is not None and n_nodes > 1
    return several and release is not None and release.overwrites_protocol is not False


def overwrite_remark(library: str | None, scale: Scale) -> str | None:
    """Remark for a user before anything is measured; None where it does not matter.

    Args:
        library: as its file says.
        scale: what will be measured.
    """
    if not overwrites(library, scale.n_nodes):
        return None
    return (
        f"{_said(library)} on several nodes: it runs a protocol that NCCL_PROTO forces, and "
        "may not run one that a rule asks for"
    )


def _said(library: str | None) -> str:
    release = release_of(library)
    verb = "overwrites" if release and release.overwrites_protocol else "may overwrite"
    names = ", ".join(one.value for one in CONCERNED)
    return f"{library} {verb} the protocol that a tuner chooses for {names}"


def overwrite_notice(libraries: Iterable[str | None], zones: Sequence[Zone]) -> Notice | None:
    """Notice for whoever deploys rules for several nodes; None where none is concerned.

    Args:
        libraries: that were measured, as :func:`library_named` has them.
        zones: what becomes rules.
    """
    concerned = [one for one in libraries if overwrites(one, 2)]
    if not concerned or not any(_touches(zone) for zone in zones):
        return None
    return Notice(
        caution=Caution.PROTOCOL_OVERWRITTEN,
        message=f"{_said(concerned[0])} on several nodes: of the rules for these, algorithm and "
        "channels count there and the protocol does not",
        remedy="compare with rccltune verify, which measures what the rules do; "
        f"{KEEPING_PROTOCOLS} and later do what they say.",
    )


def _touches(zone: Zone) -> bool:
    target = zone.target
    return zone.setting is not None and target.collective in CONCERNED and target.scale.n_nodes > 1


def overwrite_provenance(
    libraries: Iterable[str | None], made: Sequence[tuple[Launch, Outcome]]
) -> tuple[str, ...]:
    """A line for the header of rules that such a release was measured for."""
    nodes = max((one.scale.n_nodes for one, _ in made if one.scale is not None), default=1)
    concerned = [one for one in libraries if overwrites(one, nodes)]
    return (f"{_said(concerned[0])} on several nodes",) if concerned else ()


def overwrite_explained(collective: Collective, scale: Scale) -> str | None:
    """Explain what these releases make of a collective's rules at a scale."""
    if collective not in CONCERNED or scale.n_nodes < 2:
        return None
    return (
        f"{overwriting()}: the library overwrites the protocol on several nodes; algorithm and "
        "channels count"
    )
