"""Known changes between releases, named where a comparison of both shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rccltune.model.settings import Setting
from rccltune.model.verdict import Verdict
from rccltune.model.vocabulary import Collective, Protocol
from rccltune.ranks.plan import setting_of
from rccltune.releases import LibraryVendor, Version, dotted, parse_library

if TYPE_CHECKING:
    import pandas as pd

_GFX942: Final = "gfx942"
# Those whose protocol RCCL chooses anew on several nodes.
_RECHOSEN: Final = frozenset(
    (Collective.ALL_REDUCE.value, Collective.ALL_GATHER.value, Collective.REDUCE_SCATTER.value)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSize:
    """A size at which two releases are not equal.

    Attributes:
        old_ran, new_ran: what ran, or the path that asked no tuner, as a table has it.
    """

    collective: str
    old_ran: str
    new_ran: str

    @property
    def new(self) -> Setting | None:
        """The newer release's setting."""
        return setting_of(self.new_ran)

    @property
    def is_rechosen(self) -> bool:
        """Whether both ran settings, of different protocols."""
        old, new = setting_of(self.old_ran), self.new
        return old is not None and new is not None and old.protocol is not new.protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerSide:
    """Site of the newer of two releases.

    Attributes:
        variables: of its ranks.
    """

    arch: str | None
    n_nodes: int
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseChange:
    """Something that a release does and those before it do not.

    Attributes:
        says: what, and how it is switched off.
        source: where that is written.
        is_shown: whether a size at which both are not equal may come from it.
    """

    family: LibraryVendor
    since: Version
    says: str
    source: str
    is_shown: Callable[[ComparedSize, NewerSide], bool]

    def __str__(self) -> str:
        """A sentence with its source."""
        return f"known since {self.family.value} {dotted(self.since)}: {self.says} ({self.source})"


def _takes(path: str) -> Callable[[ComparedSize, NewerSide], bool]:
    """Whether the newer release alone takes a path past the tuner."""
    return lambda one, _: path in one.new_ran and path not in one.old_ran


def _took(path: str) -> Callable[[ComparedSize, NewerSide], bool]:
    """Whether the older release alone took a path past the tuner."""
    return lambda one, _: path in one.old_ran and path not in one.new_ran


# Only what a source or a bug report with the source's lines says.
CHANGES: Final = (
    ReleaseChange(
        family=LibraryVendor.NCCL,
        since=(2, 31),
        says="NCCL_ALGO first switches all algorithms of all collectives off, and symmetric "
        "kernels too: one that names all_reduce alone (allreduce:tree) leaves the others none "
        "where NCCL_PROTO is set; ring,tree;allreduce:tree does what it did before",
        source="src/tuning/cost_model.cc, ncclTuningCostModelInit; vllm-project/vllm pull request "
        "58179",
        is_shown=lambda _, side: bool(side.variables.get("NCCL_ALGO")),
    ),
    ReleaseChange(
        family=LibraryVendor.RCCL,
        since=(2, 30, 4),
        says="DDA takes calls of 8 ranks on one node before a tuner is asked, up to 8 MiB on "
        "gfx942, 128 MiB on gfx950; RCCL_DDA_ENABLE=0 switches it off",
        source="RCCL 2.30 src/collectives.cc, rcclDdaEnabled",
        is_shown=_takes("DDA"),
    ),
    ReleaseChange(
        family=LibraryVendor.RCCL,
        since=(2, 28, 3),
        says="MSCCL is not built by default any more",
        source="RCCL's CHANGELOG.md, ROCm 7.11",
        # Of MSCCL++ alone that is no sign.
        is_shown=lambda one, side: _took("MSCCL")(one, side) and "MSCCL++" not in one.old_ran,
    ),
    ReleaseChange(
        family=LibraryVendor.RCCL,
        since=(2, 27, 7),
        says="reduce_scatter of up to 344 KiB a rank runs LL on one gfx942 node, whatever the "
        "model says; NCCL_PROTO switches that off",
        source="RCCL 2.27.7 src/rccl_wrap.cc:52, builds since 2025-11; ROCm/rccl pull request 2019",
        is_shown=lambda one, side: (
            one.collective == Collective.REDUCE_SCATTER.value
            and side.arch == _GFX942
            and side.n_nodes == 1
            and one.is_rechosen
            and one.new is not None
            and one.new.protocol is Protocol.LL
        ),
    ),
    ReleaseChange(
        family=LibraryVendor.RCCL,
        since=(2, 26, 6),
        says="the protocol is chosen anew behind the model on several nodes; NCCL_PROTO switches "
        "that off",
        source="RCCL src/rccl_wrap.cc, rcclUpdateCollectiveProtocol, since e40ff4f8",
        is_shown=lambda one, side: (
            side.n_nodes > 1 and one.collective in _RECHOSEN and one.is_rechosen
        ),
    ),
)


def find_known_changes(
    table: pd.DataFrame, libraries: tuple[str | None, str | None], sides: tuple[NewerSide, ...]
) -> Iterator[ReleaseChange]:
    """Changes between the releases of two sides that a comparison shows.

    Args:
        table: of the comparison.
        libraries: ``NCCL 2.31.2`` of A and of B; None where it is not known.
        sides: A and B.
    """
    releases = [parse_library(one) for one in libraries]
    if releases[0] is None or releases[1] is None or releases[0][0] is not releases[1][0]:
        return
    family, versions = releases[0][0], [one[1] for one in releases if one is not None]
    newer = int(versions[1] >= versions[0])
    old, new = versions[1 - newer], versions[newer]
    names = ("a_ran", "b_ran")
    rows: list[dict[Any, Any]] = table[table["verdict"] != Verdict.EQUAL.value].to_dict("records")
    sizes = [
        ComparedSize(
            collective=row["collective"],
            old_ran=row[names[1 - newer]],
            new_ran=row[names[newer]],
        )
        for row in rows
    ]
    for change in CHANGES:
        is_between = change.family is family and old < change.since <= new
        if is_between and any(change.is_shown(one, sides[newer]) for one in sizes):
            yield change
