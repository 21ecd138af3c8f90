"""Releases that choose the protocol again after a tuner has, on several nodes.

RCCL's ``rcclUpdateCollectiveProtocol`` came with ROCm 7.0 and sets the protocol of three
collectives by size alone where there are several nodes; from RCCL 2.28.3 on it leaves a tuner's
exact zero as it is (change 1985). The plugin's trace cannot show that: the plugin was asked and did
answer. Only the benchmark's own columns say what ran.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from rccltune.model import (
    Caution,
    Collective,
    Doubt,
    Launch,
    Notice,
    Outcome,
    Role,
    Sample,
    Scale,
    Vendor,
    Zone,
    vendor_of,
)

CONCERNED: Final = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
RELEASES: Final = "RCCL 2.26.6 and 2.27.7 (ROCm 7.0 and 7.1)"
_FIRST: Final = (2, 26, 6)
_AFTER: Final = (2, 28, 3)
_NAME: Final = re.compile(r"RCCL (\d+)\.(\d+)\.(\d+)")
# ROCm 7.2 has 7.1's number; whether it has the change is not known. A log may not name the ROCm.
_SURE: Final = re.compile(r"RCCL (2\.26\.|\S*hip7\.[01](?!\d))")


def overwrites(library: str | None, n_nodes: int | None) -> bool:
    """Whether a library may set another protocol than a tuner's answer.

    Args:
        library: ``RCCL 2.26.6+hip7.0``, None where that is not known; it is then taken for one
            that does not.
        n_nodes: of the communicator.
    """
    match = _NAME.match(library or "")
    if match is None or n_nodes is None or n_nodes < 2:
        return False
    return _FIRST <= tuple(int(part) for part in match.groups()) < _AFTER


def library_named(version: str | None, arch: str | None) -> str | None:
    """A library with its family: benchmarks print ``2.26.6`` alone, and NCCL has such numbers too.

    Args:
        version: as a log or a file has it.
        arch: ``gfx942`` …, or ``amd``, of GPUs that RCCL alone serves.
    """
    bare = version is not None and version[:1].isdigit()
    return f"RCCL {version}" if bare and vendor_of(arch) is Vendor.AMD else version


def overwrite_remark(library: str | None, scale: Scale, letters: Collection[str]) -> str | None:
    """What a user should know before anything is measured; None where it does not matter.

    Args:
        library: as its file says.
        scale: what will be measured.
        letters: options of the benchmark; with -A its columns say what ran.
    """
    if not overwrites(library, scale.n_nodes):
        return None
    seen = (
        "the benchmark's columns say what ran, and only that counts"
        if "A" in letters
        else "this benchmark has no columns (-A) that say what ran: no forced time of these three "
        "will count; measure with newer rccl-tests"
    )
    return f"{_said(library)} on several nodes: {seen}"


def _said(library: str | None) -> str:
    verb = "overwrites" if _SURE.match(library or "") else "may overwrite"
    names = ", ".join(one.value for one in CONCERNED)
    return f"{library} {verb} the protocol that a tuner chooses for {names}"


def overwrite_doubted(
    samples: Sequence[Sample], library: str | None, printed: Sequence[Sample]
) -> tuple[Sample, ...]:
    """Samples whose protocol nobody has seen are not proven, though the plugin answered it.

    Args:
        samples: as the plugin's trace proves them.
        library: that made them.
        printed: the same as read from the log alone, where columns say what ran or nothing does.
    """
    if any(one.executed is not None for one in printed):
        return tuple(samples)
    return tuple(
        replace(one, doubt=Doubt.UNPROVEN, executed=None) if _is_blind(one, library) else one
        for one in samples
    )


def _is_blind(one: Sample, library: str | None) -> bool:
    key = one.key
    return (
        one.doubt is None
        and key.setting.role is Role.FORCED
        and key.collective in CONCERNED
        and overwrites(library, key.scale.n_nodes)
    )


def overwrite_notice(libraries: Iterable[str | None], zones: Sequence[Zone]) -> Notice | None:
    """What whoever deploys rules for several nodes must know; None where none is concerned.

    Args:
        libraries: that were measured, as :func:`named` has them.
        zones: what becomes rules.
    """
    concerned = [one for one in libraries if overwrites(one, 2)]
    if not concerned or not any(_touches(zone) for zone in zones):
        return None
    return Notice(
        caution=Caution.PROTOCOL_OVERWRITTEN,
        message=f"{_said(concerned[0])} on several nodes: of the rules for these, algorithm and "
        "channels count there and the protocol does not",
        remedy="compare with rccltune verify, which measures what the rules do; RCCL from 2.28.3 "
        "on does what they say.",
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
    """What these releases make of a collective's rules at a scale."""
    if collective not in CONCERNED or scale.n_nodes < 2:
        return None
    return (
        f"{RELEASES}: the library overwrites the protocol on several nodes; algorithm and channels "
        "count"
    )
