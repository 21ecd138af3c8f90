"""Settings forced by a library's own switches, and libraries that load no tuner.

NCCL_ALGO, NCCL_PROTO and the channel counts switch more than the setting (docs/measuring.md).
"""

from __future__ import annotations

from typing import Final

from rccltune.model.measurement import Caution, Notice
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.releases import (
    LOADING_OURS,
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


def tunerless(library: str | None) -> str | None:
    """The library, ``RCCL 2.20.5``, where it is too old to look for our plugin.

    Args:
        library: as its file says, None where that is not known; it is then taken for a newer one.
    """
    release = release_of(library)
    version = parse_library(library)
    if release is None or version is None or release.loads_ours:
        return None
    return f"{release.family.value} {dotted(version[1])}"


def switches(setting: Setting) -> tuple[tuple[str, str], ...]:
    """Variables by which the library's own switches choose a setting; none for the baseline."""
    values = (
        _ALGORITHMS.get(setting.algorithm) if setting.algorithm else None,
        _PROTOCOLS.get(setting.protocol) if setting.protocol else None,
        setting.channels,
        setting.channels,
    )
    return tuple((n, str(v)) for n, v in zip(_SWITCHES, values, strict=True) if v is not None)


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
