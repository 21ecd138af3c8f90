"""What a model over scales is made of, and how far it can be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rccltune.model.schema import Line, Number, Whole
from rccltune.model.settings import CurveKey, Scale


class Hop(Enum):
    """What a hop crosses, the fastest first."""

    INSIDE = "inside an OAM"
    ACROSS = "across OAMs"
    NODES = "across nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A scale with what its ranks lie on.

    Attributes:
        n_oams: packages that hold a rank, in all nodes together.
    """

    scale: Scale
    n_oams: Whole

    def __post_init__(self) -> None:
        """Every node has a package and every package a rank."""
        if not self.scale.n_nodes <= self.n_oams <= self.scale.n_ranks:
            raise ValueError(f"{self.scale} cannot lie on {self.n_oams} OAMs")

    @property
    def slowest(self) -> Hop:
        """The slowest link that a ring or a chain over these ranks crosses."""
        if self.scale.n_nodes > 1:
            return Hop.NODES
        return Hop.ACROSS if self.n_oams > 1 else Hop.INSIDE

    def __str__(self) -> str:
        """``16 ranks on 1 node, 2 OAMs``."""
        return f"{self.scale}, {self.n_oams} OAM{'s' if self.n_oams > 1 else ''}"


class Shape(Enum):
    """Where the measured departure from latency and bandwidth is looked up for another scale."""

    BALANCE = "at equal shares of latency"
    PER_RANK = "at equal bytes per rank"
    TOTAL = "at equal bytes"
    LINE = "not at all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    """Marks what was predicted and never measured.

    Attributes:
        scales: from which it was predicted, by rising number of ranks.
        error: expected relative error, 0.1 for 10 %, the largest of the sizes; None where nothing
            that was measured says how large it is.
    """

    scales: tuple[Scale, ...]
    error: Number | None

    def __str__(self) -> str:
        """``extrapolated from 8, 16 ranks on 1 node, not measured; expected error 8 %``."""
        known = "unknown" if self.error is None else f"{100 * self.error:.0f} %"
        by_nodes: dict[int, list[str]] = {}
        for scale in self.scales:
            by_nodes.setdefault(scale.n_nodes, []).append(str(scale.n_ranks))
        origins = " and ".join(
            f"{', '.join(ranks)} ranks on {nodes} node{'s' if nodes > 1 else ''}"
            for nodes, ranks in by_nodes.items()
        )
        return f"extrapolated from {origins}, not measured; expected error {known}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleError:
    """What the model says of a scale that was measured, without having seen it.

    Attributes:
        span: the one left out.
        median: of the relative errors over the sizes, whatever their sign.
        worst: the largest of them, with its sign.
        unseen: no other scale has this one's slowest link, so that its bandwidth was assumed.
    """

    span: Span
    median: Number
    worst: Number
    unseen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleModel:
    """Time of one setting over size and scale: latency of each hop, bandwidth of the slowest link.

    Attributes:
        key: of the curve that it predicts.
        target: the scale that it was fitted for; near scales weigh more.
        spans: measured, by rising number of ranks.
        base_us: part of the latency that no hop adds.
        hop_us: time of a hop over each link that the target has.
        us_per_byte: of a byte over each link that is the slowest of a measured scale.
        separated: groups of terms that the measured scales tell apart; inside a group RCCL's own
            ratio of them is taken.
        assumed: what the target needs and no measured scale has, in words.
        shape: what is done with what latency and bandwidth do not explain.
        errors: of measured scales, each left out in turn.
    """

    key: CurveKey
    target: Span
    spans: tuple[Span, ...]
    base_us: Number
    hop_us: tuple[tuple[Hop, Number], ...]
    us_per_byte: tuple[tuple[Hop, Number], ...]
    separated: tuple[tuple[Line, ...], ...]
    assumed: tuple[Line, ...] = ()
    shape: Shape = Shape.LINE
    errors: tuple[ScaleError, ...] = ()
