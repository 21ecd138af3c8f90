"""Records of the catalog: variables of a variant, the calls it concerns, its releases."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rccltune.model.vocabulary import Collective
from rccltune.releases import LibraryVendor, Version, dotted, rocm_of, version_of


class DecidedBy(Enum):
    """Decider under a variant: the tuner for every call, or a path taken before it is asked."""

    SETTINGS = "settings"
    PATH = "path"


class Parameter(Enum):
    """Parameter that a user adds to a variant's name; also the word in braces that it replaces."""

    CHANNELS = "channels"
    DIR = "dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFilter:
    """One kind of calls that a variant concerns; what is left out is any.

    Attributes:
        dtypes: as rccl-tests prints them.
        min_nbytes: smallest size as a tuner sees it, in bytes.
        max_nbytes: largest, included; None for no limit.
        multiple_of: divides the size in bytes.
        arch: prefixes of the GPU's architecture, any of them; empty for every GPU.
        nodes: fewest and most nodes; None for any number.
        max_nbytes_a_node: largest size for each node of the communicator; None for no such limit.
        share_multiple_of: divides the size of one rank's share, which is then a whole number.
        maybe: whether such a call is taken depends on more than is written here.
    """

    collectives: tuple[Collective, ...] = ()
    dtypes: tuple[str, ...] = ()
    redops: tuple[str, ...] = ()
    min_nbytes: int = 0
    max_nbytes: int | None = None
    max_nbytes_a_node: int | None = None
    arch: tuple[str, ...] = ()
    nodes: tuple[int, int] | None = None
    multiple_of: int = 1
    share_multiple_of: int = 1
    maybe: bool = False

    def last(self, n_nodes: int | None) -> int | None:
        """Largest size in bytes on so many nodes, one where nobody knows; None for no limit."""
        if self.max_nbytes_a_node is not None:
            return self.max_nbytes_a_node * (n_nodes or 1)
        return self.max_nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantNeeds:
    """Needs of a variant where it is measured.

    Attributes:
        arch: prefixes of the GPU's architecture, any of them; empty for every GPU.
        ranks: exact numbers of ranks, any of them; empty for every number.
        graph: calls must be replayed from a captured graph.
        registered: buffers must (True) or must not (False) be registered; None for either.
    """

    arch: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    ranks_multiple_of: int = 1
    one_node: bool = False
    graph: bool = False
    registered: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The variable that confines a variant to sizes.

    Attributes:
        default_nbytes: what the library takes where nobody sets it.
        from_above: calls of at most its value are taken; otherwise those of at least it.
    """

    variable: str
    default_nbytes: int | None = None
    from_above: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSpec:
    """One entry of the catalog.

    Attributes:
        feature: what a release without it lacks, for messages; the name in general.
        environment: sorted (name, value); values may hold ``{ranks}``, ``{max_bytes}`` and the
            parameter's word.
        options: further (letter, value) options of the benchmark.
        releases: who has it; empty for every library.
        library_file: another library to measure with, None for the one at hand.
        calls: kinds of calls that it concerns; empty for all.
        runner: ``torch`` where only PyTorch can run it.
        not_tunable: why it cannot be measured as a variant.
        without: the variant in which the library goes on beyond this one's threshold.
        costs: what a job pays for it that no benchmark shows.
        unverified: what neither a run nor a source has settled.
        own: from a user's file.
    """

    name: str
    summary: str
    feature: str
    environment: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    releases: tuple[ReleaseRange, ...] = ()
    library_file: str | None = None
    calls: tuple[CallFilter, ...] = ()
    needs: VariantNeeds = field(default_factory=VariantNeeds)
    acts: DecidedBy = DecidedBy.SETTINGS
    threshold: Threshold | None = None
    parameter: Parameter | None = None
    lossy: bool = False
    runner: str | None = None
    not_tunable: str | None = None
    without: str | None = None
    source: str | None = None
    costs: str | None = None
    unverified: str | None = None
    own: bool = False

    @property
    def libraries(self) -> frozenset[LibraryVendor]:
        """The libraries that have it in some release; all of them where none is named."""
        return frozenset(one.library for one in self.releases) or frozenset(LibraryVendor)

    @property
    def title(self) -> str:
        """The name as a user may type it, with the parameter's place: ``channels-N``."""
        match self.parameter:
            case None:
                return self.name
            case Parameter.CHANNELS:
                return f"{self.name}-N"
            case Parameter.DIR:
                return f"{self.name}=DIR"


_NUMBER: Final = r"\d+(?:\.\d+)+"
_RANGE: Final = re.compile(
    rf"(RCCLX?|NCCL)(?:\s+(?:from\s+(?P<first>{_NUMBER})|to\s+(?P<last>{_NUMBER})"
    rf"|(?P<low>{_NUMBER})(?:\s+to\s+(?P<high>{_NUMBER}))?))?"
    r"(?:\s+on\s+(?P<few>\d+)\s+to\s+(?P<many>\d+)\s+nodes)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRange:
    """Releases of one library, both ends included.

    Attributes:
        nodes: least and most nodes on which these releases have the thing; None for any number.
    """

    library: LibraryVendor
    first: Version | None = None
    last: Version | None = None
    nodes: tuple[int, int] | None = None

    @classmethod
    def parse(cls, text: str) -> ReleaseRange:
        """Read ``RCCL``, ``NCCL from 2.19.1``, ``RCCL 2.26.6``, ``… on 2 to 16 nodes``.

        Raises:
            ValueError: something else, or a range whose end comes first.
        """
        match = _RANGE.fullmatch(" ".join(text.split()))
        if match is None:
            raise ValueError(
                f"'{text}' names no releases: write RCCL, RCCL 2.26.6, RCCL from 2.30.4, "
                "RCCL 2.21.5 to 2.26.6 or RCCL 2.26.6 on 2 to 16 nodes, also with RCCLX or NCCL"
            )
        low, high = match["low"], match["high"]
        first = match["first"] or low
        last = match["last"] or high or low
        nodes = (int(match["few"]), int(match["many"])) if match["few"] else None
        release_range = cls(
            library=LibraryVendor(match[1]),
            first=version_of(first) if first else None,
            last=version_of(last) if last else None,
            nodes=nodes,
        )
        if release_range.first and release_range.last and release_range.first > release_range.last:
            raise ValueError(f"'{text}' ends before it begins")
        if nodes and not 1 <= nodes[0] <= nodes[1]:
            raise ValueError(f"'{text}' names no numbers of nodes")
        return release_range

    def has(self, version: Version) -> bool:
        """Whether a version lies in the range."""
        return (self.first is None or self.first <= version) and (
            self.last is None or version <= self.last
        )

    def has_nodes(self, n_nodes: int | None) -> bool:
        """Whether these releases have the thing on so many nodes; an unknown number may do."""
        return n_nodes is None or self.nodes is None or self.nodes[0] <= n_nodes <= self.nodes[1]

    def __str__(self) -> str:
        """``RCCL 2.21.5 to 2.26.6 (ROCm 6.3 to 7.0)``."""
        words = [self.library.value]
        match (self.first, self.last):
            case (None, None):
                pass
            case (first, None):
                words.append(f"from {dotted(first)}")
            case (None, last):
                words.append(f"to {dotted(last)}")
            case (first, last):
                words.append(
                    dotted(first) if first == last else f"{dotted(first)} to {dotted(last)}"
                )
        words += [f"({rocm})"] if (rocm := self._rocm()) else []
        words += [f"on {self.nodes[0]} to {self.nodes[1]} nodes"] if self.nodes else []
        return " ".join(words)

    def _rocm(self) -> str | None:
        """The ROCm releases that brought these, where all that is named is known."""
        if self.library is not LibraryVendor.RCCL:
            return None
        rocm_releases = [rocm_of(end) for end in (self.first, self.last) if end is not None]
        known = [one for one in rocm_releases if one is not None]
        if not known or len(known) < len(rocm_releases):
            return None
        begin, end = known[0][0], known[-1][1]
        if self.first is None:
            return f"up to ROCm {end}"
        if self.last is None:
            return f"ROCm {begin} and later"
        return f"ROCm {begin}" if begin == end else f"ROCm {begin} to {end}"


def name_all(releases: tuple[ReleaseRange, ...]) -> str:
    """``RCCL 2.26.6 and RCCLX have``; a sentence's subject and its verb."""
    names = [str(one) for one in releases]
    single = len(releases) == 1 and releases[0].first == releases[0].last
    if single:
        return f"{names[0]} has"
    return f"{' and '.join([', '.join(names[:-1])] * (len(names) > 1) + names[-1:])} have"
