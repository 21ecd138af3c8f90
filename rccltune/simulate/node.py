"""A node file as frozen records, with the checks that a schema cannot express."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rccltune.model import yamlfile
from rccltune.model.errors import InputFileError, reason_of
from rccltune.model.vocabulary import Algorithm, Protocol
from rccltune.simulate.node_schema import MAX_CHANNELS, NodeFile

Points = tuple[tuple[int, float], ...]
# Paths of the library that are no setting (native_plugin/sim/sim.h), in its order.
LIBRARY_PATHS: Final = ("p2p", "msccl", "mscclpp", "direct", "dda")
# Conditions that the benchmark's command line fulfils, and that need no name.
_OF_THE_CALL: Final = ("graph", "registered", "threads", "gpus")
MAX_BYTES: Final = 2**63 - 1
# Noise that may depend on the size, and what the compiled form calls it.
SPREADS: Final = {
    "sigma": "sigma",
    "launch_sigma": "launch-sigma",
    "setting_sigma": "setting-sigma",
}
_NEEDS: Final = {
    "substitute": ("with",),
    "differs": ("with", "rank"),
    "no-plugin": ("rank",),
    "no-file": ("rank",),
    "slow-rank": ("factor", "rank"),
    "init-error": ("message",),
    "shift": ("passes",),
}
# What a fault of a whole launch cannot select.
_OF_CALLS: Final = ("setting", "channels", "half", "bytes", "rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Selection of calls; ``None`` is any."""

    collective: str | None = None
    setting: str | None = None
    channels: int | None = None
    ranks: int | None = None
    placement: str | None = None
    variant: str | None = None
    half: str | None = None
    dtype: str | None = None
    min_bytes: int = 0
    max_bytes: int = MAX_BYTES

    @classmethod
    def of(cls, entry: dict[str, Any]) -> Selector:
        """The selecting keys of a curve, an effect, a bypass or a fault."""
        low, high = entry.get("bytes", (0, MAX_BYTES))
        names = ("collective", "setting", "channels", "ranks", "placement", "variant", "half")
        chosen = {name: entry.get(name) for name in (*names, "dtype")}
        return cls(**chosen, min_bytes=low, max_bytes=high)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCurve:
    """Times of a setting; ``measured`` is the range of sizes that somebody measured, if any."""

    where: Selector
    measured: tuple[int, int] | None
    source: str
    points: Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A factor on times: constant, by size, between powers of two, or by channels and size.

    Attributes:
        mixed: only where another setting ran before, in the same pass over the sizes (True) or
            in the same launch (``launch``).
        after: a setting, and whether it must have run earlier in the launch (``launch``) or in the
            pass before (``pass``).
        first: only at the first size of a pass where another setting ran in the pass before.
    """

    where: Selector
    mixed: bool | str = False
    after: tuple[str, str] | None = None
    first: bool = False
    factor: float | None = None
    points: Points = ()
    between: tuple[float, float, float] | None = None
    by_channels: tuple[tuple[int, Points], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVariant:
    """A name, and the conditions under which it holds: (kind, name, value) triples."""

    name: str
    when: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBypass:
    """Calls that a path takes before a tuner is asked.

    Attributes:
        limit: the variable that says the largest size where it is set.
        chunks: it takes calls of a whole multiple of so many elements alone.
        min_channels: that a communicator of that many ranks has at least where the path is on.
    """

    path: str
    where: Selector
    limit: str | None = None
    chunks: int = 1
    min_channels: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong on purpose; ``entry`` keeps the keys of its kind."""

    kind: str
    where: Selector
    rank: int | None
    probability: float
    entry: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A node file, with its fill curves already computed.

    Attributes:
        devices_per_iod: 0 where a device has several I/O dies, or where they lie is not known.
        library: ``rccl``, or ``rcclx`` where Meta's library stands on that release.
        compiled: the form that it was read from; no curves, effects and faults are known then.
    """

    name: str
    library: str
    ranks: int
    nodes: int
    devices_per_oam: int
    devices_per_iod: int
    channels: int
    curves: tuple[NodeCurve, ...]
    effects: tuple[Effect, ...]
    variants: tuple[NodeVariant, ...]
    bypasses: tuple[NodeBypass, ...]
    faults: tuple[Fault, ...]
    paths: tuple[str, ...]
    raw: dict[str, Any] = field(repr=False)
    compiled: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class FileText:
    """A node file as it is written; two with the same text are the same, wherever they lie."""

    text: str
    name: str = field(compare=False)


def node_file(path: Path) -> FileText:
    """Read a node file, whatever it says.

    Raises:
        InputFileError: it cannot be read.
    """
    try:
        return FileText(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            f"Cannot read the node file: {reason_of(error)}", where=str(path)
        ) from error


def read_records(file_text: FileText) -> SimulatedNode:
    """A node file without its fill.

    Raises:
        InputFileError: every mistake with line and column.
    """
    file = yamlfile.read(NodeFile, file_text.text, file_text.name, "see docs/simulated-nodes.md.")
    raw: dict[str, Any] = dict(file.value)
    file.refuse([(at, f"{at} {words}") for at, words in _mistakes(raw)])
    scale = raw["scale"]
    return SimulatedNode(
        name=raw["name"],
        library=raw["release"].get("library", "rccl"),
        ranks=scale["ranks"],
        nodes=scale.get("nodes", 1),
        devices_per_oam=scale.get("devices_per_oam", 1),
        devices_per_iod=scale.get("devices_per_iod", 0),
        channels=raw["library"]["channels"],
        curves=tuple(_curve(entry) for entry in raw["curves"]),
        effects=tuple(_effect(entry) for entry in raw.get("effects", ())),
        variants=tuple(_variant(entry) for entry in raw.get("variants", ())),
        bypasses=tuple(
            NodeBypass(
                path=b["path"],
                where=Selector.of(b),
                **{k: b[k] for k in ("limit", "chunks", "min_channels") if k in b},
            )
            for b in raw.get("bypasses", ())
        ),
        faults=tuple(_fault(entry) for entry in raw.get("faults", ())),
        paths=(*LIBRARY_PATHS, *raw.get("paths", ())),
        raw=raw,
    )


def _points(entry: Points) -> Points:
    return tuple((int(size), float(value)) for size, value in entry)


def _curve(entry: dict[str, Any]) -> NodeCurve:
    points = _points(entry["points"])
    low, high = entry.get("measured", (points[0][0], points[-1][0]))
    measured = (low, high) if entry["kind"] == "measured" else None
    return NodeCurve(
        where=Selector.of(entry), measured=measured, source=entry["source"], points=points
    )


def _effect(entry: dict[str, Any]) -> Effect:
    between, after = entry.get("between"), entry.get("after")
    rows = sorted((int(n), _points(points)) for n, points in entry.get("by_channels", {}).items())
    return Effect(
        where=Selector.of(entry),
        mixed=entry.get("mixed", False),
        after=None if after is None else (after["setting"], after["within"]),
        first=entry.get("first", False),
        factor=entry.get("factor"),
        points=_points(entry.get("points", [])),
        between=None if between is None else (between["low"], between["high"], between["factor"]),
        by_channels=tuple(rows),
    )


def _variant(entry: dict[str, Any]) -> NodeVariant:
    when = entry["when"]
    conditions = [("env", name, value) for name, value in when.get("env", {}).items()]
    conditions += [(kind, name, "") for kind in ("set", "unset") for name in when.get(kind, ())]
    conditions += [(kind, "", "") for kind in _OF_THE_CALL if when.get(kind)]
    if "graph_launches" in when:
        conditions.append(("launches", "", str(when["graph_launches"])))
    conditions += [("without", name, "") for name in when.get("without", ())]
    conditions += [("patch", when["patch"], "")] if "patch" in when else []
    return NodeVariant(name=entry["name"], when=tuple(conditions))


def _fault(entry: dict[str, Any]) -> Fault:
    return Fault(
        kind=entry["kind"],
        where=Selector.of(entry),
        rank=entry.get("rank"),
        probability=entry.get("probability", 1.0),
        entry=entry,
    )


def is_setting(text: str) -> bool:
    """Whether the text is ``algorithm/protocol`` in the spelling of rule files."""
    algorithm, _, protocol = text.partition("/")
    return algorithm in {a.value for a in Algorithm} and protocol in {p.value for p in Protocol}


def _mistakes(raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
    library = raw["library"]
    if library.get("channel_ceiling", library["channels"]) < library["channels"]:
        yield "library.channel_ceiling", "is below the channels"
    yield from _scale_mistakes(raw["scale"])
    yield from _noise_mistakes(raw.get("noise", {}))
    paths = {*LIBRARY_PATHS, *raw.get("paths", ())}
    variants = {v["name"] for v in raw.get("variants", ())}
    for group in ("curves", "effects", "bypasses", "faults"):
        for index, entry in enumerate(raw.get(group, ())):
            at = f"{group}[{index}]"
            yield from _selector_mistakes(entry, at, paths, variants)
            yield from _points_mistakes(entry.get("points"), f"{at}.points")
    yield from _variant_mistakes(raw.get("variants", ()))
    for index, entry in enumerate(raw.get("effects", ())):
        at = f"effects[{index}]"
        yield from _effect_mistakes(entry, at)
        yield from _selector_mistakes(entry.get("after", {}), f"{at}.after", paths, variants)
    for index, entry in enumerate(raw.get("faults", ())):
        yield from _fault_mistakes(entry, f"faults[{index}]")


def _variant_mistakes(entries: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    above: set[str] = set()
    for index, entry in enumerate(entries):
        for name in entry["when"].get("without", ()):
            if name not in above:
                yield (
                    f"variants[{index}].when.without",
                    f"is '{name}', which no entry above defines",
                )
        above.add(entry["name"])


def _noise_mistakes(noise: dict[str, Any]) -> Iterator[tuple[str, str]]:
    seconds = [point[0] for point in noise.get("drift", ())]
    if seconds != sorted(set(seconds)):
        yield "noise.drift", "has seconds that do not ascend"
    for name in SPREADS:
        sigma = noise.get(name, ())
        if not isinstance(sigma, float):
            yield from _points_mistakes(sigma, f"noise.{name}")


def _scale_mistakes(scale: dict[str, int]) -> Iterator[tuple[str, str]]:
    if scale["ranks"] % scale.get("nodes", 1):
        yield "scale.ranks", "cannot be shared evenly by the nodes"
    if scale.get("devices_per_oam", 1) % scale.get("devices_per_iod", 1):
        yield "scale.devices_per_iod", "does not divide devices_per_oam"


def _effect_mistakes(entry: dict[str, Any], at: str) -> Iterator[tuple[str, str]]:
    if "mixed" in entry and "after" in entry:
        yield at, "cannot be both mixed and after"
    between = entry.get("between")
    if between is not None and not between["low"] < between["high"]:
        yield f"{at}.between", "must have low below high"
    for channels, row in entry.get("by_channels", {}).items():
        if not str(channels).isdigit() or not 1 <= int(channels) <= MAX_CHANNELS:
            yield f"{at}.by_channels.{channels}", "is no number of channels"
        yield from _points_mistakes(row, f"{at}.by_channels.{channels}")


def _fault_mistakes(entry: dict[str, Any], at: str) -> Iterator[tuple[str, str]]:
    for key in _NEEDS.get(entry["kind"], ()):
        if key not in entry:
            yield at, f"of kind {entry['kind']} lacks {key}"
    is_wrong = entry["kind"] in ("wrong", "wrong-replay")
    if is_wrong and not {"elements", "share"} & entry.keys():
        yield at, f"of kind {entry['kind']} lacks elements"
    for key in _OF_CALLS if entry["kind"] == "shift" else ():
        if key in entry:
            yield f"{at}.{key}", "stands in a shift, which is of the whole launch"


def _selector_mistakes(
    entry: dict[str, Any], at: str, paths: set[str], variants: set[str]
) -> Iterator[tuple[str, str]]:
    for key in ("setting", "with", "path"):
        text = entry.get(key)
        if text is None or text in paths or (key != "path" and is_setting(text)):
            continue
        words = "a path" if key == "path" else "algorithm/protocol or a path"
        yield f"{at}.{key}", f"is '{text}', not {words} ({', '.join(sorted(paths))})"
    if entry.get("variant") not in {None, *variants}:
        yield f"{at}.variant", f"is '{entry['variant']}', which no entry under variants defines"
    for key in ("bytes", "measured"):
        low, high = entry.get(key, (0, 0))
        if low > high:
            yield f"{at}.{key}", "has its minimum above its maximum"
    if "measured" in entry and entry["kind"] != "measured":
        yield f"{at}.measured", "stands in a curve that is modelled"


def _points_mistakes(points: Points | None, at: str) -> Iterator[tuple[str, str]]:
    sizes = [point[0] for point in points or ()]
    if sizes != sorted(set(sizes)):
        yield at, "has sizes that do not ascend"
