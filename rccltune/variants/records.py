"""What the catalog knows of a variant: what it sets, where it exists, which calls it concerns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rccltune.model import Collective
from rccltune.releases import Family
from rccltune.variants.releases import Releases


class Acts(Enum):
    """Who decides under a variant: the tuner for every call, or a path taken before it is asked."""

    SETTINGS = "settings"
    PATH = "path"


class Parameter(Enum):
    """What a user adds to a variant's name; also the word in braces that it replaces."""

    CHANNELS = "channels"
    DIR = "dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """One kind of calls that a variant concerns; what is left out is any.

    Attributes:
        dtypes: as rccl-tests prints them.
        min_nbytes: smallest size as a tuner sees it, in bytes.
        max_nbytes: largest, included; None for no limit.
        multiple_of: divides the size in bytes.
        share_multiple_of: divides the size of one rank's share, which is then a whole number.
        maybe: whether such a call is taken depends on more than is written here.
    """

    collectives: tuple[Collective, ...] = ()
    dtypes: tuple[str, ...] = ()
    redops: tuple[str, ...] = ()
    min_nbytes: int = 0
    max_nbytes: int | None = None
    multiple_of: int = 1
    share_multiple_of: int = 1
    maybe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What must be so where a variant is measured.

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
        widens: the variant of which this one only makes more settings selectable.
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
    releases: tuple[Releases, ...] = ()
    library_file: str | None = None
    calls: tuple[Calls, ...] = ()
    needs: Needs = field(default_factory=Needs)
    acts: Acts = Acts.SETTINGS
    threshold: Threshold | None = None
    parameter: Parameter | None = None
    lossy: bool = False
    runner: str | None = None
    not_tunable: str | None = None
    widens: str | None = None
    without: str | None = None
    source: str | None = None
    costs: str | None = None
    unverified: str | None = None
    own: bool = False

    @property
    def libraries(self) -> frozenset[Family]:
        """The libraries that have it in some release; all of them where none is named."""
        return frozenset(one.library for one in self.releases) or frozenset(Family)

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
