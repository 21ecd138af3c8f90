"""Rules that a library writes over: what it sets after a tuner has answered, release by release.

RCCL's ``rcclUpdateCollectiveProtocol`` (src/rccl_wrap.cc, off under NCCL_PROTO) sets the protocol
by the bytes of a rank's share. It came with ROCm 7.0 and is called without asking whether a tuner
has answered, until change 1985 of ROCm/rccl (2025-11-03) leaves a tuner's exact zero as it is.
RCCL's develop branch of five days, kept in meta-pytorch/torchcomms, dates it:

================  ========================  =======================================================
torchcomms        number, for ROCm          src/rccl_wrap.cc, and the call in src/enqueue.cc
================  ========================  =======================================================
9e93d281, July    2.25.1, 7.0.0 to be       :36 three collectives on several nodes; :1823
35a97fc2, Oct 17  2.27.7, 7.1.0 to be       :49 five collectives on several nodes; :2120
76271ffa, Oct 31  2.27.7, 7.2.0 to be       :46, :49, :52 on one node, too, and :55; :2138
97cad7d4, Nov 13  2.27.7, 7.2.0 to be       the same, guarded at :2139 and :2158
59426ba4, Feb     2.28.3, 7.11 to be        the same, guarded at :2184 and :2203
================  ========================  =======================================================

So builds with the number 2.27.7 differ. That of ROCm 7.2.4, asked without a GPU, does what a tuner
answers, on one node and on two (tests/simulate/test_real_rules.py). Of a build only the library
itself, asked, tells: ``rccltune verify`` does, at the ends of each rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model.rule import Rule
from rccltune.model.settings import Scale, Setting
from rccltune.model.units import MAX_NBYTES, format_size
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol
from rccltune.releases import Release, listed, release_of, releases_of, since


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Calls that some releases run otherwise than a tuner has answered.

    Attributes:
        releases: number and first ROCm of each, as ``releases.RELEASES`` has them.
        all_builds: whether every build of them does; of others only the library, asked, tells.
        archs: of the GPUs; empty for any.
        nodes: numbers of nodes; empty for every number above one.
        least_ranks: of a communicator.
        nbytes: smallest and largest, of a rank's share where ``by_share``, else of all ranks.
        runs: what runs instead; None where the library's ranges of sizes decide its protocol.
        switch: variable that keeps a tuner's answer; None where only another release does.
        source: file and line of which tree.
    """

    releases: tuple[tuple[str, str], ...]
    all_builds: bool
    collectives: tuple[Collective, ...]
    archs: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    least_ranks: int = 2
    nbytes: tuple[int, int] = (0, MAX_NBYTES)
    by_share: bool = True
    runs: Setting | None = None
    switch: str | None = None
    source: str

    def is_of(self, release: Release) -> bool:
        """Whether it is one of a release's."""
        return release.rocm is not None and (release.number, release.rocm[0]) in self.releases

    def concerns(self, collective: Collective, scale: Scale, arch: str | None) -> bool:
        """Whether calls of a collective are concerned at all.

        Args:
            collective: of the calls.
            scale: of the communicator.
            arch: ``gfx942``; where it is not known no architecture's own limits are assumed.
        """
        n = scale.n_nodes
        return (
            collective in self.collectives
            and (n in self.nodes if self.nodes else n > 1)
            and scale.n_ranks >= self.least_ranks
            and (not self.archs or arch in self.archs)
        )

    def span(self, collective: Collective, n_ranks: int) -> tuple[int, int]:
        """Smallest and largest bytes as a tuner counts them."""
        low, high = self.nbytes
        if collective is Collective.ALL_REDUCE or not self.by_share:
            return low, high
        # RCCL divides and forgets the rest (rcclGetSizePerRank, src/include/rccl_common.h:102).
        return low * n_ranks, min(MAX_NBYTES, (high + 1) * n_ranks - 1)

    def takes(self, rule: Rule, scale: Scale, arch: str | None) -> bool:
        """Whether something else than a rule's setting runs, or may, somewhere in its range."""
        if not self.concerns(rule.collective, scale, arch):
            return False
        low, high = self.span(rule.collective, scale.n_ranks)
        differs = self.runs is None or rule.setting.contradicts(self.runs)
        return differs and rule.min_nbytes <= high and rule.max_nbytes >= low

    def words(self, collectives: Iterable[Collective], n_ranks: int) -> str:
        """``reduce_scatter up to 2.69 MiB runs ll whatever a rule says``."""
        names = ", ".join(one.value for one in collectives)
        if self.runs is None:
            return (
                f"the library chooses the protocol of {names} again on several nodes; algorithm "
                "and channels of a rule count"
            )
        low, high = self.span(self.collectives[0], n_ranks)
        last = format_size(high)
        where = f"from {format_size(low)} to {last}" if low else f"up to {last}"
        ran = str(self.runs).removeprefix("-/")
        return f"{names} {where} runs {ran} whatever a rule says"

    @property
    def remedy(self) -> str:
        """What keeps a tuner's answer."""
        if self.switch is not None:
            return f"export {self.switch}"
        return f"use {KEEPING_PROTOCOLS} or later, which leaves a tuner's answer as it is"


_DEVELOP: Final = "comms/rcclx/develop/src/"


def _oct_31(line: int) -> str:
    return f"torchcomms 76271ffa {_DEVELOP}rccl_wrap.cc:{line}, enqueue.cc:2138"


def _small(collective: Collective, arch: str, share: int, line: int) -> Overwrite:
    """LL on one node up to so many bytes a rank, in builds of a few days."""
    return Overwrite(
        releases=(("2.27.7", "7.2"),),
        all_builds=False,
        collectives=(collective,),
        archs=(arch,),
        nodes=(1,),
        nbytes=(0, share),
        runs=Setting(protocol=Protocol.LL),
        source=_oct_31(line),
    )


_BY_SIZE: Final = (
    Overwrite(
        releases=(("2.26.6", "7.0"),),
        all_builds=True,
        collectives=(Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER),
        source=f"torchcomms 9e93d281 {_DEVELOP}rccl_wrap.cc:36, enqueue.cc:1823",
    ),
    Overwrite(
        releases=(("2.27.7", "7.1"),),
        all_builds=True,
        collectives=TUNABLE,
        source=f"torchcomms 35a97fc2 {_DEVELOP}rccl_wrap.cc:49, enqueue.cc:2120",
    ),
    Overwrite(
        releases=(("2.27.7", "7.2"),),
        all_builds=False,
        collectives=TUNABLE,
        source=_oct_31(55),
    ),
    _small(Collective.REDUCE_SCATTER, "gfx942", 352128, 52),
    _small(Collective.ALL_GATHER, "gfx950", 88448, 46),
    _small(Collective.REDUCE_SCATTER, "gfx950", 175488, 49),
)


def _direct(nodes: tuple[int, ...], low: int, high: int) -> Overwrite:
    """Reduce_scatter by sends to every rank, whose reducing kernel is of one setting alone."""
    return Overwrite(
        releases=(("2.30.7", "10.1"),),
        all_builds=False,
        collectives=(Collective.REDUCE_SCATTER,),
        archs=("gfx950",),
        nodes=nodes,
        # Only with PXN, which gfx950 has from 32 ranks on (rcclSetPxn).
        least_ranks=32,
        nbytes=(low, high),
        by_share=False,
        runs=Setting(algorithm=Algorithm.RING, protocol=Protocol.SIMPLE),
        switch="RCCL_DIRECT_REDUCE_SCATTER_DISABLE=1",
        source="rocm-systems 006a440c projects/rccl/src/rccl_wrap.cc rcclUseReduceScatterDirect; "
        "pull request 10132 (2026-08-13): whatever the tuner picks",
    )


OVERWRITES: Final = (
    *_BY_SIZE,
    _direct((2,), 131072, 2097152),
    _direct((4,), 0, 4194304),
    _direct((8, 16), 0, 8388608),
)
# From which release on the library never chooses a protocol by size after a tuner has answered.
KEEPING_PROTOCOLS: Final = since(lambda one: not any(row.is_of(one) for row in _BY_SIZE))


def overwrites(
    library: str | None, collective: Collective, scale: Scale, arch: str | None
) -> tuple[Overwrite, ...]:
    """What a library sets after a tuner, or may, of calls of a collective.

    Args:
        library: ``RCCL 2.26.6+hip7.0``; of one that is not known nothing is assumed.
        collective: of the calls.
        scale: of the communicator.
        arch: of the GPUs, as :meth:`Overwrite.concerns` takes it.
    """
    release = release_of(library)
    return tuple(
        row
        for row in OVERWRITES
        if release is not None and row.is_of(release) and row.concerns(collective, scale, arch)
    )


def remark(library: str | None, scale: Scale, arch: str | None) -> str | None:
    """What whoever measures should know first; None where nothing is written over.

    Args:
        library: that is measured.
        scale: of the communicators.
        arch: of the GPUs.
    """
    rows = {row: None for one in TUNABLE for row in overwrites(library, one, scale, arch)}
    if not rows:
        return None
    rows_text = "; ".join(
        _describe_row(library, row, row.collectives, scale.n_ranks) for row in rows
    )
    return f"{rows_text}. What NCCL_PROTO forces runs; verify asks this library at each rule's ends"


def losses(
    library: str | None, rules: Iterable[Rule], scales: Iterable[Scale], arch: str | None
) -> tuple[str, ...]:
    """What a library writes over of rules, or may, a sentence each.

    Args:
        library: that the job loads, or that the rules were measured with.
        rules: of a file.
        scales: of its communicators; a rule for any number of ranks is for each.
        arch: of the GPUs.
    """
    every = list(rules)
    concerned: dict[tuple[Overwrite, int], dict[Collective, None]] = {}
    for scale in scales:
        for rule in every:
            if rule.n_nodes in (None, scale.n_nodes) and rule.n_ranks in (None, scale.n_ranks):
                for row in overwrites(library, rule.collective, scale, arch):
                    if row.takes(rule, scale, arch):
                        concerned.setdefault((row, scale.n_ranks), {})[rule.collective] = None
    return tuple(_describe_row(library, row, names, n) for (row, n), names in concerned.items())


def _describe_row(
    library: str | None, row: Overwrite, collectives: Iterable[Collective], n_ranks: int
) -> str:
    """``RCCL 2.27.7, some builds: reduce_scatter up to 2.69 MiB runs ll whatever a rule says``."""
    builds = "" if row.all_builds else ", some builds"
    return f"{library}{builds}: {row.words(collectives, n_ranks)}"


def explained(
    rules: Sequence[Rule], collective: Collective, scale: Scale, arch: str | None
) -> tuple[str, ...]:
    """A sentence for each way in which releases write over some of these rules.

    Args:
        rules: of one collective and scale.
        collective: theirs.
        scale: theirs.
        arch: that they are for.
    """
    by_words: dict[str, list[Overwrite]] = {}
    for row in OVERWRITES:
        if any(row.takes(rule, scale, arch) for rule in rules):
            by_words.setdefault(row.words((collective,), scale.n_ranks), []).append(row)
    return tuple(f"{_releases(rows)}: {words}" for words, rows in by_words.items())


def _releases(rows: Sequence[Overwrite]) -> str:
    """``RCCL 2.26.6 and 2.27.7 (ROCm 7.0 and 7.1), some builds of RCCL 2.27.7 (ROCm 7.2)``."""
    sure, maybe = (
        releases_of(pair for row in rows if row.all_builds is every for pair in row.releases)
        for every in (True, False)
    )
    words = [listed(sure)] if sure else []
    words += [f"some builds of {listed(maybe)}"] if maybe else []
    return ", ".join(words)
