"""How figures look: colours and markers, ticks, places of labels, curves as polylines.

Colours are Okabe and Ito's (jfly.uni-koeln.de/color), which people with any common colour
blindness can tell apart. Nothing depends on colour alone: in greyscale the marker still gives
the protocol, and the dashes and the marker's filling the algorithm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model.chosen import Proof, Zone
from rccltune.model.curves import Curve, CurvePoint, Model
from rccltune.model.settings import Role, Setting
from rccltune.model.vocabulary import Algorithm, Protocol

Dashes = tuple[float, ...]
BLACK: Final = "#000000"
GREY: Final = "#6b6b6b"
PALE: Final = "#d9d9d9"
VERMILLION: Final = "#D55E00"
# For things that are no settings, each with the ink of its text; black is the site's own.
PALETTE: Final = (
    (BLACK, BLACK),
    ("#0072B2", "#005b8e"),
    ("#D55E00", "#a34800"),
    ("#009E73", "#00694c"),
    ("#CC79A7", "#94457a"),
    ("#E69F00", "#8f6200"),
    ("#56B4E9", "#1f6f9e"),
)
_COLOUR: Final = {Protocol.LL: "#0072B2", Protocol.LL128: "#E69F00", Protocol.SIMPLE: "#009E73"}
# Text needs more contrast with white paper than a line does.
_INK: Final = {Protocol.LL: "#005b8e", Protocol.LL128: "#8f6200", Protocol.SIMPLE: "#00694c"}
_MARKER: Final = {Protocol.LL: "o", Protocol.LL128: "s", Protocol.SIMPLE: "^"}
_DASHES: Final[dict[Algorithm | None, Dashes]] = {
    Algorithm.RING: (),
    Algorithm.TREE: (5.0, 1.8),
    Algorithm.COLLNET_DIRECT: (7.0, 1.5, 1.2, 1.5),
    Algorithm.COLLNET_CHAIN: (7.0, 1.5, 1.2, 1.5, 1.2, 1.5),
    Algorithm.NVLS: (1.2, 1.5),
    Algorithm.NVLS_TREE: (3.0, 1.2, 1.2, 1.2),
    Algorithm.PAT: (1.2, 3.0),
    None: (),
}
_ROLE_MARKER: Final = {Role.BASELINE: "X", Role.SILENT: "P", Role.UNSTATED: "D"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one setting is drawn.

    Attributes:
        colour: of lines and fills.
        ink: of text, dark enough to read on white.
        dashes: on and off lengths in points, empty for a solid line.
        filled: whether the marker is filled with its colour or white.
    """

    colour: str
    ink: str
    dashes: Dashes
    marker: str
    filled: bool


def look(setting: Setting, *, graph: bool = False) -> Look:
    """The look of a setting; graph-captured calls are dotted with an open diamond."""
    if setting.role is not Role.FORCED:
        colour = GREY if setting.role is Role.SILENT else BLACK
        if graph:
            return Look(colour=GREY, ink=GREY, dashes=(1.2, 1.5), marker="d", filled=False)
        marker = _ROLE_MARKER[setting.role]
        return Look(colour=colour, ink=colour, dashes=(), marker=marker, filled=True)
    protocol = setting.protocol
    return Look(
        colour=_COLOUR[protocol] if protocol else GREY,
        ink=_INK[protocol] if protocol else GREY,
        dashes=(1.2, 1.5) if graph else _DASHES[setting.algorithm],
        marker=_MARKER[protocol] if protocol else "v",
        filled=setting.algorithm is not Algorithm.TREE and not graph,
    )


# Exponent steps 1, 2, 4, 5, 10: every size, powers of 4, of 16, of 32 (1 KiB, 32 KiB, 1 MiB …).
_STEPS: Final = (1, 2, 4, 5, 10, 20)
_MANTISSAS: Final = ((1, 2, 5), (1, 3), (1,))
_WIDE_RATIOS: Final = (
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.33, 0.5, 0.67, 0.8, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 12),
    (0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 50, 100),
    (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000),
    (0.01, 0.1, 1, 10, 100, 1000, 10_000),
)
_AT_MOST: Final = 9


def size_ticks(low: float, high: float, at_most: int = _AT_MOST) -> tuple[int, ...]:
    """Powers of two from low to high, evenly spaced and at most so many.

    Where no power of two lies between them, the two ends themselves.
    """
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    for step in _STEPS:
        exponents = [e for e in range(first, last + 1) if e % step == 0]
        if exponents and len(exponents) <= at_most:
            return tuple(2**e for e in exponents)
    return tuple(sorted({round(low), round(high)}))


def log_ticks(low: float, high: float, at_most: int = _AT_MOST) -> tuple[float, ...]:
    """Round values (1, 2, 5 or 1, 3 or 1 times powers of ten) from low to high.

    The densest series with at most so many; every tenth power is thinned further where needed.
    Evenly spaced values where high is less than four times low.
    """
    if high / low < 4:
        return linear_ticks(low, high, at_most)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    inside: list[float] = []
    for mantissas in _MANTISSAS:
        ticks = [m * 10.0**e for e in range(first, last + 1) for m in mantissas]
        inside = [t for t in ticks if low <= t <= high]
        if len(inside) <= at_most:
            return tuple(inside)
    return tuple(inside[:: math.ceil(len(inside) / at_most)])


def linear_ticks(low: float, high: float, at_most: int = 7) -> tuple[float, ...]:
    """Multiples of 1, 2 or 5 times a power of ten from low to high, at most so many."""
    span = high - low
    if span <= 0:
        return (low,)
    power = 10.0 ** math.floor(math.log10(span / at_most))
    ticks: tuple[float, ...] = ()
    for factor in (1, 2, 5, 10, 20):
        step = factor * power
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        ticks = tuple(round(k * step, 12) for k in range(first, last + 1))
        if len(ticks) <= at_most:
            break
    return ticks


def ratio_ticks(low: float, high: float, at_most: int = _AT_MOST) -> tuple[float, ...]:
    """Ticks for a speed-up axis; 1.0 is among them when it lies between low and high."""
    if high / low < 2:
        return linear_ticks(low, high, at_most)
    candidates = (tuple(float(t) for t in row if low <= t <= high) for row in _WIDE_RATIOS)
    return next((ticks for ticks in candidates if len(ticks) <= at_most), (1.0,))


def capacity(height: float, low: float, high: float) -> int:
    """How many labels of a height fit between two borders."""
    return int((high - low) / height + 1e-9)


def spread(wanted: Sequence[float], height: float, low: float, high: float) -> tuple[float, ...]:
    """Centres of labels, as near as can be to the wanted ones (least squares).

    Neighbours are at least ``height`` apart, all lie inside [low, high] with their full height,
    and their order is that of the wanted positions. What fits as wanted is not moved.

    Raises:
        ValueError: more labels than there is room for; ask ``capacity`` first.
    """
    n = len(wanted)
    if n > capacity(height, low, high):
        raise ValueError(f"{n} labels of height {height} do not fit in {high - low}")
    order = sorted(range(n), key=lambda i: wanted[i])
    # With i*height taken off, "at least height apart" becomes "not falling": isotonic regression,
    # whose bounded solution is the unbounded one, clipped.
    level = _not_falling([wanted[i] - k * height for k, i in enumerate(order)])
    floor, roof = low + height / 2, high - height / 2 - (n - 1) * height
    centres = [0.0] * n
    for k, i in enumerate(order):
        centres[i] = min(max(level[k], floor), max(roof, floor)) + k * height
    return tuple(centres)


def _not_falling(values: Sequence[float]) -> list[float]:
    """Pool adjacent violators: the nearest not falling sequence in least squares."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, size = value, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean = (before * count + mean * size) / (count + size)
            size += count
        blocks.append((mean, size))
    return [mean for mean, size in blocks for _ in range(size)]


_SPACES: Final = re.compile(r"[^\S\N{NO-BREAK SPACE}]+")


def wrap(text: str, width: float, measure: Callable[[str], float], at_most: int = 9) -> list[str]:
    """Lines of words no wider than ``width``; the last of so many ends in an ellipsis.

    Whatever is wider than a line by itself is cut. A no-break space is no place to break.
    """
    lines: list[str] = []
    words = [word for word in _SPACES.split(text) if word]
    while words and len(lines) < at_most:
        line = words.pop(0)
        while words and measure(f"{line} {words[0]}") <= width:
            line += f" {words.pop(0)}"
        lines.append(elide(line, width, measure))
    if words:
        lines[-1] = elide(f"{lines[-1]} {' '.join(words)}", width, measure)
    return lines


def elide(text: str, width: float, measure: Callable[[str], float]) -> str:
    """The text, or as much of its start as fits with an ellipsis."""
    if measure(text) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(text[:middle] + "…") <= width else (low, middle - 1)
    return text[:low].rstrip() + "…"


Polyline = tuple[tuple[float, float], ...]
# Points per fitted segment: a straight line in bytes is curved on logarithmic axes.
_GRID: Final = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A zone as far as it lies inside the axis.

    Attributes:
        setting: None for a gap.
        labels: what may be written on it, the longest first.
        is_doubted: a choice that the sweep does not prove.
    """

    low: float
    high: float
    setting: Setting | None
    labels: tuple[str, ...]
    is_doubted: bool = False


def repeated(point: CurvePoint) -> bool:
    """Whether an interval stands behind the point: passes of one communicator are no repeats."""
    return point.n_communicators != 1 and point.low_us < point.high_us


def model_paths(curve: Curve, model: Model) -> tuple[Polyline, ...]:
    """One polyline for each segment of a fitted model, inside the measured sizes.

    Log-log interpolation is straight between measured points on log-log axes, so its polyline
    is the points. No path where the curve has no such fit.
    """
    fit = curve.fit(model)
    if model is Model.LOGLOG:
        return (tuple((float(p.nbytes), p.time_us) for p in curve.points),)
    if fit is None:
        return ()
    paths = []
    for segment in fit.segments:
        low = max(segment.min_nbytes, curve.min_nbytes)
        high = min(segment.max_nbytes, curve.max_nbytes)
        if low <= high:
            paths.append(tuple((x, segment.predict(x)) for x in geometric(low, high, _GRID)))
    return tuple(paths)


def geometric(low: float, high: float, count: int) -> tuple[float, ...]:
    """Evenly spaced on a logarithmic axis, both ends exactly included."""
    ratio = math.log(high / low)
    inner = (low * math.exp(ratio * i / (count - 1)) for i in range(1, count - 1))
    return (float(low), *inner, float(high))


def axis_range(values: Sequence[float], margin: float = 0.03) -> tuple[float, float]:
    """Logarithmic axis limits with a margin; a single value gets a factor of two each way."""
    low, high = min(values), max(values)
    if low == high:
        return low / 2, high * 2
    pad = (high / low) ** margin
    return low / pad, high * pad


def bands(zones: Sequence[Zone], low: float, high: float) -> tuple[Band, ...]:
    """Zones cut to the axis; those wholly outside are left out.

    A border between two zones (next min = previous max + 1) is drawn at one place.
    """
    cut = []
    for zone in zones:
        left, right = max(low, float(zone.min_nbytes)), min(high, float(zone.max_nbytes) + 1)
        if left < right:
            cut.append(
                Band(
                    low=left,
                    high=right,
                    setting=zone.setting,
                    labels=_labels(zone),
                    is_doubted=is_doubted(zone),
                )
            )
    return tuple(cut)


def is_doubted(zone: Zone) -> bool:
    """Whether it is a choice that the sweep does not prove."""
    return zone.proof in (Proof.UNPROVEN, Proof.NO_BASELINE)


def _labels(zone: Zone) -> tuple[str, ...]:
    if zone.setting is None:
        return f"no rule: {zone.reason}", str(zone.reason)
    text = str(zone.setting)
    return (f"{text}, not proven by the sweep", text) if is_doubted(zone) else (text,)
