"""The field's words: collectives, algorithms, protocols, types, in every spelling a file uses.

Indices are those of the tuner ABI: ncclFunc_t 0-4 and the algorithm and protocol numbers are
the same in every NCCL and RCCL release that looks for a tuner (NCCL 2.30.7
``src/include/nccl_common.h``, RCCL 2.28.3 ``src/include/nccl_common.h``); ncclFunc_t above 4
differs between them and is therefore not listed.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from rccltune.model.text import unknown


class Collective(Enum):
    """Collective that a benchmark measures; the first five are those that ask a tuner."""

    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALLTOALL = "alltoall"
    ALLTOALLV = "alltoallv"
    GATHER = "gather"
    SCATTER = "scatter"
    SENDRECV = "sendrecv"
    HYPERCUBE = "hypercube"

    @property
    def csv_name(self) -> str:
        """Name in a rule file: ``allreduce``."""
        return self.value.replace("_", "")

    @property
    def is_tunable(self) -> bool:
        """Whether RCCL asks a tuner: point-to-point collectives never do."""
        return self in TUNABLE

    @property
    def is_shared(self) -> bool:
        """Whether the message is cut into a share for each rank, which is what a call states.

        A tuner sees the total over all ranks, where the library's log has a rank's own bytes.
        """
        return self in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)

    @property
    def reduces(self) -> bool:
        """Whether it computes, so that it needs an operation."""
        return self in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)

    @property
    def has_root(self) -> bool:
        """Whether one rank sends or receives for all, so that calls with one root overlap."""
        return self in (Collective.BROADCAST, Collective.REDUCE)

    @property
    def has_tree(self) -> bool:
        """Whether the library has the algorithm Tree for it (``tuning.cc`` of both libraries)."""
        return self is Collective.ALL_REDUCE

    @property
    def ring_passes(self) -> int | None:
        """Rounds of the message through the ring; None where ``tuning.cc`` counts n steps."""
        return 2 if self is Collective.ALL_REDUCE else 1 if self.is_shared else None

    @property
    def has_own_algbw(self) -> bool:
        """Whether the benchmark counts other bytes for its bandwidth than its size column's."""
        return self in (Collective.HYPERCUBE, Collective.ALLTOALLV)

    @property
    def func_index(self) -> int:
        """Number of the collective at the tuner ABI; raises ValueError where it has none."""
        return TUNABLE.index(self)

    @property
    def benchmark(self) -> str:
        """Name of the rccl-tests program."""
        return f"{self.value}_perf"

    @classmethod
    def parse(cls, text: str) -> Collective:
        """Read any known spelling: ``AllReduce``, ``all_reduce_perf``, ``allreduce``.

        Raises:
            ValueError: the text names no collective.
        """
        name = text.strip().lower().replace("-", "_").removesuffix("_mpi").removesuffix("_perf")
        collective = _COLLECTIVE_BY_NAME.get(name.replace("_", ""))
        if collective is None:
            raise ValueError(unknown("collective", text, [one.value for one in Collective]))
        return collective


TUNABLE: Final = (
    Collective.BROADCAST,
    Collective.REDUCE,
    Collective.ALL_GATHER,
    Collective.REDUCE_SCATTER,
    Collective.ALL_REDUCE,
)
_COLLECTIVE_BY_NAME: Final = {c.csv_name: c for c in Collective}


class Algorithm(Enum):
    """Algorithms in ABI order; the value is the spelling of rule files and NCCL_ALGO."""

    TREE = "tree"
    RING = "ring"
    COLLNET_DIRECT = "collnet_direct"
    COLLNET_CHAIN = "collnet_chain"
    NVLS = "nvls"
    NVLS_TREE = "nvls_tree"
    PAT = "pat"

    @property
    def index(self) -> int:
        """Row of the cost table."""
        return tuple(Algorithm).index(self)

    @classmethod
    def parse(cls, text: str) -> Algorithm:
        """Read ``Ring``, ``RING``, ``CollNetDirect`` and the like; ValueError when unknown."""
        return _ALGORITHM_BY_NAME[_known(text, _ALGORITHM_BY_NAME, "algorithm")]


class Protocol(Enum):
    """Protocols in ABI order; the value is the spelling of rule files."""

    LL = "ll"
    LL128 = "ll128"
    SIMPLE = "simple"

    @property
    def index(self) -> int:
        """Column of the cost table."""
        return tuple(Protocol).index(self)

    @classmethod
    def parse(cls, text: str) -> Protocol:
        """Read ``LL128``, ``Simple`` and the like; ValueError when unknown."""
        return _PROTOCOL_BY_NAME[_known(text, _PROTOCOL_BY_NAME, "protocol")]


def _fold(text: str) -> str:
    return text.strip().lower().replace("_", "").replace("-", "")


_ALGORITHM_BY_NAME: Final = {_fold(a.value): a for a in Algorithm}
_PROTOCOL_BY_NAME: Final = {_fold(p.value): p for p in Protocol}


def _known(text: str, names: dict[str, Algorithm] | dict[str, Protocol], what: str) -> str:
    folded = _fold(text)
    if folded not in names:
        raise ValueError(unknown(what, text, [one.value for one in names.values()]))
    return folded


class Placement(Enum):
    """The two halves of an rccl-tests row."""

    OUT_OF_PLACE = "out"
    IN_PLACE = "in"


class UnusableReason(Enum):
    """Why a sample is kept but never used in a fit or a choice; the value is its CSV spelling.

    ``ranks/unusable_rows.py`` says it of the rank program's rows, and of all samples of settings
    that failed; ``logs/unusable_timings.py`` of logs. What stood still is left out without it, by
    ``analyse/points.py``.
    """

    ZERO_BYTES = "zero-bytes"
    WRONG = "wrong-results"
    SUBSTITUTED = "substituted"
    INELIGIBLE = "ineligible"
    BYPASSED = "bypassed"
    INCONSISTENT = "inconsistent"
    ONE_RANK = "one-rank"
    NO_TIME = "no-time"
    EXCLUDED = "excluded"
    UNPROVEN = "unproven"
    UNKNOWN_TYPE = "unknown-type"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _DOUBT_MEANING[self]


_DOUBT_MEANING: Final = {
    UnusableReason.ZERO_BYTES: "0 bytes: nothing was communicated",
    UnusableReason.WRONG: "#wrong > 0: results differ from what the collective must give",
    UnusableReason.SUBSTITUTED: "another setting ran than the one asked for",
    UnusableReason.INELIGIBLE: "the library offered no such setting at this size",
    UnusableReason.BYPASSED: "the library asked no tuner, or left it nothing to choose",
    UnusableReason.INCONSISTENT: "size, count, time and algbw of the row contradict each other",
    UnusableReason.ONE_RANK: "one rank: nothing was communicated",
    UnusableReason.NO_TIME: "the row has no usable time",
    UnusableReason.EXCLUDED: "the setting failed and is excluded",
    UnusableReason.UNPROVEN: "nothing says which setting ran",
    UnusableReason.UNKNOWN_TYPE: "no benchmark has a data type of this name: a column may be lost",
}
# Bytes per element, by the type names that nccl-tests and rccl-tests print (src/common.cu).
DTYPE_BYTES: Final = {
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float": 4,
    "double": 8,
    "bfloat16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
}
FIGURE_FORMATS: Final = ("png", "svg", "pdf")
REDOPS: Final = ("sum", "prod", "max", "min", "avg", "mulsum", "none")
# What a fit on an AMD GPU of gfx94x/gfx950 can never be given by a rule on one node: RCCL 2.28.3
# src/graph/tuning.cc:660 leaves Tree+Simple out where all GPUs of the topology take part.
TREE_SIMPLE_NEEDS_NODES: Final = 2


class RankPlacement(Enum):
    """Placement of a communicator's ranks on the devices of a node; docs/machine.md."""

    NODE = "node"
    ONE_OAM = "one-oam"
    ONE_PER_OAM = "one-per-oam"
    ONE_IOD = "one-iod"
    FIRST = "first"
    EVERY_OAM = "every-oam"
    ACROSS_OAMS = "across-oams"


RANK_PLACEMENTS: Final = tuple(placement.value for placement in RankPlacement)
