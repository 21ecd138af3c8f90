"""Settings forced through the library's own switches, where it is too old to load our plugin.

NCCL_ALGO, NCCL_PROTO and the channel counts switch more than the setting (docs/sweep.md), so this
is the second best way. No plugin watches what runs: the benchmark's columns say it, or a log that
the library writes of every call. Writing takes time, so the untouched launches write it too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from rccltune.model import Algorithm, Caution, Launch, Notice, Protocol, Role, Setting

HOW: Final = "forced through NCCL_ALGO and NCCL_PROTO"
# The first releases that look for a tuner which the plugin exports, version 2 of the interface.
_FIRST: Final = {"RCCL": (2, 21, 5), "NCCL": (2, 21, 0)}
# The first releases whose log has a line for every choice (src/enqueue.cc of both).
_TELLING: Final = (2, 20, 3)
_NAME: Final = re.compile(r"([RN]CCL) (\d+)\.(\d+)\.(\d+)")
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
_TRACE: Final = "RCCLTUNE_TRACE"
_DEBUG: Final = "NCCL_DEBUG"
# INIT has the channels of the communicator, once; TUNING a line for every call.
_TELL: Final = (
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_FILE", "{launch}/nccl-%h-%p.log"),
    ("NCCL_DEBUG_SUBSYS", "INIT,TUNING"),
)


def tunerless(library: str | None) -> str | None:
    """The library, ``RCCL 2.20.5``, where it is too old to look for our plugin.

    Args:
        library: as its file says, None where that is not known; it is then taken for a newer one.
    """
    match = _NAME.match(library or "")
    return match[0] if match is not None and _release(match) < _FIRST[match[1]] else None


def _release(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(match[at]) for at in (2, 3, 4))


def switches(setting: Setting, *, tells: bool) -> tuple[tuple[str, str], ...]:
    """Environment of a launch where the library's own switches choose.

    Args:
        setting: what it measures; the untouched site's sets no switch.
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
    settings = wanted.schedule.settings if wanted.schedule else ()
    forced = any(setting.role is Role.FORCED for setting in settings)
    return forced and _TRACE not in names and not names.isdisjoint(_SWITCHES)


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
    match = _NAME.match(library)
    if "A" in letters:
        return False, f"{start}, and the benchmark's own columns say what ran"
    if match is not None and _release(match) < _TELLING:
        return False, (
            f"{start}, and nothing will say what ran, since its log names no choice before 2.20.3: "
            "no forced time will count. Measure with a newer library (--librccl)"
        )
    if against:
        return False, (
            f"{start}, and nothing will say what ran, since the site sets {', '.join(against)}: no "
            f"forced time will count. {' '.join(f'--clear {name}' for name in against)} lets "
            "rccltune log it"
        )
    return True, (
        f"{start}, and the library's log of every call says what ran; in every arm, the "
        "untouched one too, small sizes take a little longer for it"
    )


PROVENANCE: Final = (
    f"{HOW}: the library measured loads no tuner, so these rules need a newer one "
    "(RCCL 2.21.5, NCCL 2.21)"
)


def switch_notice(library: str | None) -> Notice:
    """What whoever deploys rules of such a session must know."""
    return Notice(
        caution=Caution.FORCED_BY_SWITCHES,
        message=f"settings were {HOW}, since the library measured ({library or 'not recorded'}) "
        "loads no tuner: it cannot use these rules",
        remedy="use them with RCCL 2.21.5 or NCCL 2.21 and later, and measure again there: a "
        "newer library may be fast elsewhere.",
    )
