"""What a node file may say: every key with its type, its range and its words.

The records are built from the values that keep to this; ``data/node.schema.json``, for people's
editors, is made from it (scripts/make_tables.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from annotated_types import Ge, Gt, Le, Len, MaxLen
from pydantic import AfterValidator, PlainValidator
from typing_extensions import Required, TypedDict

from rccltune.model.schema import LARGEST, FieldCheck, Line, Text, matching, read_by
from rccltune.model.vocabulary import Collective

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MAX_CHANNELS: Final = 128  # MAXCHANNELS of RCCL


def _one_of(known: dict[str, Any]) -> PlainValidator:
    def parse(text: str) -> Any:  # noqa: ANN401 - words stand for what they stand for
        if text not in known:
            raise ValueError(f"is '{text}', not one of {', '.join(known)}")
        return known[text]

    return read_by(parse, Literal[tuple(known.values())])


def _listed(*words: str) -> PlainValidator:
    return _one_of({word: word for word in words})


def _fits(pattern: str) -> FieldCheck:
    return matching(pattern, f"match of {pattern}")


@dataclass(frozen=True, slots=True)
class _NumberOr:
    """A number, or points where a list stands.

    pydantic's own union would tell of one mistake as often as there are members.
    """

    number: Any
    points: Any

    def __get_pydantic_core_schema__(
        self, _source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """How pydantic asks for it."""
        from pydantic_core import SchemaValidator, core_schema

        number = SchemaValidator(handler.generate_schema(self.number))

        def choose(value: object, points: Callable[[object], object]) -> object:
            return points(value) if isinstance(value, list) else number.validate_python(value)

        return core_schema.no_info_wrap_validator_function(
            choose, handler.generate_schema(self.points)
        )

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Both, for editors."""
        from pydantic_core import core_schema

        number = handler(core_schema.float_schema(ge=0, le=1))
        return {"anyOf": [number, handler(core)]}


_TRUE: Final = _one_of({"true": True})
Flag: TypeAlias = Annotated[bool, _one_of({"true": True, "false": False})]
Share: TypeAlias = Annotated[float, Ge(0), Le(1)]
Slowdown: TypeAlias = Annotated[float, Ge(0.001), Le(1000)]
PlacementName: TypeAlias = Annotated[
    str, _listed("node", "one-iod", "one-oam", "one-per-oam", "other")
]
CollectiveName: TypeAlias = Annotated[str, _listed(*(one.value for one in Collective))]
SettingName: TypeAlias = Annotated[str, MaxLen(30), _fits(r"[a-z][a-z0-9_-]*(/[a-z0-9]+)?")]
Channels: TypeAlias = Annotated[int, Ge(0), Le(MAX_CHANNELS)]
Ranks: TypeAlias = Annotated[int, Ge(1), Le(1024)]
Rank: TypeAlias = Annotated[int, Ge(0), Le(1023)]
Half: TypeAlias = Annotated[str, _listed("out", "in")]
TypeName: TypeAlias = Annotated[
    str,
    _listed(
        *("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double"),
        *("bfloat16", "fp8_e4m3", "fp8_e5m2"),
    ),
]
Nbytes: TypeAlias = Annotated[int, Ge(0), Le(LARGEST)]
Range: TypeAlias = tuple[Nbytes, Nbytes]
Point: TypeAlias = tuple[Annotated[int, Ge(1), Le(LARGEST)], Annotated[float, Ge(1e-6), Le(1e12)]]
SigmaPoint: TypeAlias = tuple[Annotated[int, Ge(1), Le(LARGEST)], Share]
Points: TypeAlias = Annotated[tuple[Point, ...], Len(1)]
Sigma: TypeAlias = Annotated[
    float | tuple[SigmaPoint, ...],
    _NumberOr(Share, Annotated[tuple[SigmaPoint, ...], Len(1)]),
]
RingOrder: TypeAlias = Annotated[str, MaxLen(900), _fits(r"[0-9]+( [0-9]+)*")]
Bandwidth: TypeAlias = Annotated[float, Ge(0), Le(1e6)]
Name: TypeAlias = Annotated[str, MaxLen(40), _fits(r"[a-z0-9][a-z0-9.-]*")]


class Hardware(TypedDict, total=False):
    """What detection would say of it."""

    product: Required[Annotated[Line, MaxLen(60)]]
    arch: Required[Annotated[str, MaxLen(15), _fits(r"[a-z0-9]+")]]
    mode: Required[Annotated[str, MaxLen(15), _fits(r"([sdtqc]px-nps[0-9]|none)")]]
    host: Annotated[str, MaxLen(30), _fits(r"[A-Za-z0-9.-]+")]
    compute_units: Required[Annotated[int, Ge(1), Le(4096)]]
    memory_gib: Required[Annotated[float, Gt(0), Le(16384)]]


class ScaleKeys(TypedDict, total=False):
    """Ranks, and how its devices lie together."""

    ranks: Required[Ranks]
    nodes: Ranks
    devices_per_oam: Ranks
    devices_per_iod: Ranks


class Release(TypedDict, total=False):
    """Which library and benchmark are played."""

    rccl: Required[Annotated[str, MaxLen(12), _fits(r"2\.[2-9][0-9]\.[0-9]+")]]
    benchmark: Required[Annotated[str, _listed("rt24", "rtmid", "rt25", "rtnew", "nt")]]
    library: Annotated[str, _listed("rccl", "rcclx")]


class Graph(TypedDict, total=False):
    """What the library knows of an algorithm's channels."""

    channels: Required[Annotated[int, Ge(1), Le(MAX_CHANNELS)]]
    bw_intra: Required[Annotated[float, Gt(0), Le(1e6)]]
    bw_inter: Bandwidth
    latency_inter: Bandwidth


class Graphs(TypedDict, total=False):
    """Both algorithms; what they carry follows from ``linked`` where that is said.

    ``linked`` is the bandwidth in GB/s of the link that each device has to every other; ``rings``
    are the ways of the channels through a host's ranks, ranks that one does not name last.
    """

    ring: Required[Graph]
    tree: Required[Graph]
    linked: Annotated[float, Gt(0), Le(1e6)]
    rings: Annotated[tuple[RingOrder, ...], Len(1)]


class LibraryKeys(TypedDict, total=False):
    """What the library assumes of the node."""

    tuning_model: Annotated[str | int, _one_of({"auto": "auto", "0": 0, "5": 5})]
    links: Annotated[str, _listed("nvl", "pci")]
    all_xgmi: Flag
    ll128: Flag
    rome_model: Flag
    cpu: Annotated[str, _listed("amd", "intel")]
    channels: Required[Annotated[int, Ge(1), Le(MAX_CHANNELS)]]
    channel_ceiling: Annotated[int, Ge(1), Le(MAX_CHANNELS)]
    bypasses: Flag
    overwrites: Flag
    graph: Required[Graphs]


class Start(TypedDict, total=False):
    """What beginning costs."""

    startup_s: Annotated[float, Ge(0), Le(3600)]
    first_use_us: Annotated[float, Ge(0), Le(1e9)]
    first_use_calls: Annotated[int, Ge(0), Le(1 << 20)]


class Outliers(TypedDict):
    """Calls that take longer, one by one."""

    rate: Share
    factor: Slowdown


class Bursts(TypedDict):
    """Calls that take longer, many in a row."""

    probability: Share
    seconds: Annotated[float, Gt(0), Le(1e6)]
    factor: Slowdown


class Noise(TypedDict, total=False):
    """How times scatter."""

    sigma: Sigma
    launch_sigma: Sigma
    setting_sigma: Sigma
    rank_sigma: Share
    outliers: Outliers
    bursts: Bursts
    drift: Annotated[tuple[tuple[Annotated[float, Ge(0), Le(1e9)], Slowdown], ...], Len(1)]


class When(TypedDict, total=False):
    """Conditions of a variant."""

    env: dict[Line, Annotated[Line, MaxLen(120)]]
    set: tuple[Annotated[Line, MaxLen(60)], ...]
    unset: tuple[Annotated[Line, MaxLen(60)], ...]
    graph: Annotated[bool, _TRUE]
    graph_launches: Annotated[int, Ge(1), Le(1 << 20)]
    registered: Annotated[bool, _TRUE]
    threads: Annotated[bool, _TRUE]
    gpus: Annotated[bool, _TRUE]
    without: tuple[Line, ...]
    patch: Annotated[Line, MaxLen(60)]


class VariantKeys(TypedDict):
    """A name for conditions."""

    name: Annotated[str, MaxLen(40), _fits(r"[a-z0-9][a-z0-9-]*")]
    when: When


class Fill(TypedDict):
    """A scale whose curves are computed."""

    ranks: Annotated[int, Ge(2), Le(1024)]
    placement: PlacementName


class _Selecting(TypedDict, total=False):
    ranks: Ranks
    placement: PlacementName
    variant: Line
    half: Half
    dtype: TypeName


class CurveKeys(_Selecting, total=False):
    """Times of a setting."""

    collective: Required[CollectiveName]
    setting: Required[SettingName]
    channels: Channels
    kind: Required[Annotated[str, _listed("measured", "modelled")]]
    measured: Range
    source: Required[Annotated[Line, MaxLen(150)]]
    points: Required[Points]


class Between(TypedDict):
    """A factor between two powers of two."""

    low: Annotated[float, Ge(1), Le(2)]
    high: Annotated[float, Ge(1), Le(2)]
    factor: Slowdown


class After(TypedDict):
    """A setting that ran before, and where."""

    setting: SettingName
    within: Annotated[str, _listed("launch", "pass")]


class EffectKeys(_Selecting, total=False):
    """A factor on times; exactly one of the last four."""

    collective: CollectiveName
    setting: SettingName
    channels: Channels
    bytes: Range
    mixed: Annotated[bool | str, _one_of({"true": True, "launch": "launch"})]
    after: After
    first: Annotated[bool, _TRUE]
    factor: Slowdown
    points: Points
    between: Between
    by_channels: dict[Line, Points]


def _one_shape(effect: dict[str, Any]) -> dict[str, Any]:
    shapes = ("factor", "points", "between", "by_channels")
    if sum(shape in effect for shape in shapes) != 1:
        raise ValueError(f"needs exactly one of {', '.join(shapes)}")
    return effect


class BypassKeys(_Selecting, total=False):
    """Calls that a path takes before a tuner is asked."""

    collective: CollectiveName
    path: Required[Line]
    bytes: Range
    limit: Annotated[str, MaxLen(60), _fits(r"[A-Z][A-Z0-9_]*")]
    chunks: Annotated[int, Ge(1), Le(1 << 20)]
    min_channels: Channels


_With = TypedDict("_With", {"with": SettingName}, total=False)


class FaultKeys(_Selecting, _With, total=False):
    """Something that goes wrong on purpose."""

    collective: CollectiveName
    kind: Required[
        Annotated[
            str,
            _listed(
                *("hang", "crash", "wrong", "wrong-replay", "substitute", "no-plugin", "no-file"),
                *("differs", "slow-rank", "init-error", "shift"),
            ),
        ]
    ]
    setting: SettingName
    channels: Channels
    bytes: Range
    rank: Rank
    probability: Share
    how: Annotated[str, _listed("segv", "abort", "kill", "exit", "memory-fault")]
    exit_code: Annotated[int, Ge(0), Le(255)]
    elements: Annotated[int, Ge(1), Le(LARGEST)]
    share: Share
    factor: Slowdown
    message: Annotated[Line, MaxLen(150)]
    passes: Annotated[int, _one_of({"1": 1, "-1": -1})]


class NodeFile(TypedDict, total=False):
    """A simulated node: what its library knows and how it really behaves."""

    format: Required[Annotated[int, _one_of({"1": 1})]]
    name: Required[Name]
    description: Text
    hardware: Required[Hardware]
    scale: Required[ScaleKeys]
    release: Required[Release]
    library: Required[LibraryKeys]
    start: Start
    noise: Noise
    paths: Annotated[tuple[Annotated[str, MaxLen(20), _fits(r"[a-z][a-z0-9-]*")], ...], MaxLen(10)]
    variants: tuple[VariantKeys, ...]
    fill: tuple[Fill, ...]
    curves: Required[tuple[CurveKeys, ...]]
    effects: tuple[Annotated[EffectKeys, AfterValidator(_one_shape)], ...]
    bypasses: tuple[BypassKeys, ...]
    faults: tuple[FaultKeys, ...]


class LibraryHead(TypedDict):
    """What of the library's record a sweep asks."""

    all_xgmi: Annotated[bool, _one_of({"1": True, "0": False})]
    channels: Annotated[int, Ge(1), Le(MAX_CHANNELS)]


class NodeHead(TypedDict):
    """What a node's compiled form says of it, in a node file's own words."""

    name: Name
    hardware: Hardware
    scale: ScaleKeys
    release: Release
    library: LibraryHead
    start: Start
