"""A node file for the C program: one record a line (native_plugin/sim/node.c reads it)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from rccltune.model.vocabulary import Collective
from rccltune.simulate.node import (
    SPREADS,
    Effect,
    Fault,
    NodeCurve,
    Points,
    Selector,
    SimulatedNode,
)

FIRST_LINE: Final = "rccltune-node 3"
LAST_LINE: Final = "end"
_ALGORITHMS: Final = ("tree", "ring")
_PROTOCOLS: Final = ("ll", "ll128", "simple")


def compile_node(node: SimulatedNode) -> bytes:
    """The compiled form, ASCII, ending in ``end``."""
    if node.compiled is not None:
        return node.compiled
    return ("\n".join([FIRST_LINE, *_records(node), LAST_LINE]) + "\n").encode("ascii")


def compile_timeless(
    node: SimulatedNode, rccl: str | None = None, link_gbs: float | None = None
) -> bytes:
    """The compiled form of the same node, every call of it taking a microsecond at any scale.

    For whoever asks what is chosen there, and not how long it takes.

    Args:
        node: as its file has it.
        rccl: the release that chooses, where it is not the file's.
        link_gbs: of the link between any two devices, from which the library makes its graphs;
            None leaves it to the file.
    """
    release = node.raw["release"] | ({} if rccl is None else {"rccl": rccl})
    library = node.raw["library"]
    if link_gbs is not None:
        graph = library["graph"] | {"linked": link_gbs}
        library = library | {"graph": graph, "tuning_model": "auto", "cpu": "intel"}
    raw = node.raw | {"release": release, "library": library}
    settings = [f"{a}/{p}" for a in _ALGORITHMS for p in _PROTOCOLS]
    curves = tuple(
        NodeCurve(
            where=Selector(collective=collective.value, setting=setting),
            measured=None,
            source="none",
            points=((1, 1.0),),
        )
        for collective in Collective
        if collective.is_tunable
        for setting in (*settings, *node.paths)
    )
    return compile_node(replace(node, curves=curves, effects=(), faults=(), raw=raw))


def _records(node: SimulatedNode) -> Iterator[str]:
    raw = node.raw
    yield f"name {_text(node.name)}"
    yield from _hardware(raw["hardware"])
    yield f"scale {node.ranks} {node.nodes} {node.devices_per_oam} {node.devices_per_iod}"
    release = raw["release"]
    yield _line("release", release["rccl"], release["benchmark"], node.library)
    yield from _library(raw["library"])
    start = raw.get("start", {})
    yield _line(
        "start",
        start.get("startup_s", 0),
        start.get("first_use_us", 0),
        start.get("first_use_calls", 0),
    )
    yield from _noise(raw.get("noise", {}))
    yield from (f"path {_text(path)}" for path in raw.get("paths", ()))
    for variant in node.variants:
        yield f"variant {_text(variant.name)}"
        yield from (_when(*condition) for condition in variant.when)
    for curve in node.curves:
        yield _curve(curve)
    for effect in node.effects:
        yield from _effect(effect)
    for bypass in node.bypasses:
        limit, where = bypass.limit or "-", _selector(bypass.where)
        yield _line("bypass", bypass.path, where, limit, bypass.chunks, bypass.min_channels)
    for fault in node.faults:
        yield _fault(fault)


def _line(keyword: str, *values: object) -> str:
    return " ".join([keyword, *(_word(value) for value in values)])


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    # 17 digits bring a double back exactly as it was.
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _text(text: str) -> str:
    """ASCII without blanks: everything else as %XX of its UTF-8 bytes."""
    plain = b"%\x7f"
    return "".join(
        chr(byte) if 0x20 < byte < 0x7F and byte not in plain else f"%{byte:02X}"
        for byte in text.encode()
    )


def _hardware(hardware: dict[str, Any]) -> Iterator[str]:
    names = (
        hardware["product"],
        hardware["arch"],
        hardware["mode"],
        hardware.get("host", "simnode"),
    )
    mib = int(hardware["memory_gib"] * 1024)
    yield _line("hardware", *map(_text, names), hardware["compute_units"], mib)


def _library(library: dict[str, Any]) -> Iterator[str]:
    model = library.get("tuning_model", "auto")
    yield _line(
        "library",
        -1 if model == "auto" else model,
        library.get("links", "nvl") == "nvl",
        library.get("all_xgmi", True),
        library.get("ll128", False),
        library.get("rome_model", False),
        library.get("cpu", "amd") == "intel",
        library["channels"],
        library.get("channel_ceiling", library["channels"]),
        library.get("bypasses", True),
        library.get("overwrites", -1),
    )
    graphs = dict(library["graph"])
    if (linked := graphs.pop("linked", None)) is not None:
        yield _line("linked", 1, linked, 0, 0)
    for order in graphs.pop("rings", ()):
        yield _line("order", order.replace(" ", ","))
    for name, graph in sorted(graphs.items()):
        inter = graph.get("bw_inter", 0), graph.get("latency_inter", 0)
        yield _line(name, graph["channels"], graph["bw_intra"], *inter)


def _noise(noise: dict[str, Any]) -> Iterator[str]:
    outliers = noise.get("outliers", {"rate": 0, "factor": 1})
    bursts = noise.get("bursts", {"probability": 0, "seconds": 0, "factor": 1})
    yield _line(
        "noise",
        noise.get("rank_sigma", 0),
        outliers["rate"],
        outliers["factor"],
        bursts["probability"],
        bursts["seconds"],
        bursts["factor"],
    )
    functions = {kind: _spread(noise.get(name, 0)) for name, kind in SPREADS.items()}
    functions["drift"] = noise.get("drift", ())
    yield from (_line(kind, *_points(points)) for kind, points in functions.items() if points)


def _spread(sigma: float | Points) -> Points:
    """Sigma by size: one number is that of every size."""
    if isinstance(sigma, tuple):
        return sigma
    return ((1, sigma),) if sigma else ()


def _when(kind: str, name: str, value: str) -> str:
    variant = name if kind == "without" else "-"
    launches = value if kind == "launches" else 0
    has_name = kind in ("env", "set", "unset", "patch")
    words = (_text(name) if has_name else "-", _text(value) if kind == "env" else "-")
    return _line("when", kind, variant, launches, *words)


def _selector(where: Selector) -> str:
    values = (
        where.collective,
        where.setting,
        where.channels,
        where.ranks,
        where.placement,
        where.variant,
        where.half,
        where.dtype,
        where.min_bytes,
        where.max_bytes,
    )
    return " ".join("-" if value is None else str(value) for value in values)


def _points(points: Sequence[tuple[float, float]]) -> Iterator[str]:
    yield from (f"{_word(x)}:{_word(y)}" for x, y in points)


def _curve(curve: NodeCurve) -> str:
    low, high = curve.measured or (0, 0)
    is_measured = curve.measured is not None
    values = (_selector(curve.where), is_measured, low, high, _text(curve.source))
    return _line("curve", *values, *_points(curve.points))


def _effect(effect: Effect) -> Iterator[str]:
    mixed = 2 if effect.mixed == "launch" else int(bool(effect.mixed))
    setting, within = effect.after or ("-", "-")
    # A factor alone acts in all of each octave.
    between = effect.between or (1, 2, 1 if effect.factor is None else effect.factor)
    values = (_selector(effect.where), mixed, within, setting, effect.first, *between)
    yield _line("effect", *values, *_points(effect.points))
    yield from (_line("row", channels, *_points(row)) for channels, row in effect.by_channels)


def _fault(fault: Fault) -> str:
    entry = fault.entry
    # One number and one factor: only one of these belongs to a kind.
    numbers = ("exit_code", "elements", "passes")
    factors = ("factor", "share")
    number = next((int(entry[key]) for key in numbers if key in entry), int(fault.kind == "crash"))
    factor = next((entry[key] for key in factors if key in entry), 0)
    # A rank that differs is one for which another setting is put.
    kind = "substitute" if fault.kind == "differs" else fault.kind
    return _line(
        *("fault", kind, _selector(fault.where)),
        *(-1 if fault.rank is None else fault.rank, fault.probability, number, factor),
        *(entry.get("how", "segv"), entry.get("with", "-"), _text(entry.get("message", "-"))),
    )
