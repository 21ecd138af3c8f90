"""Simulated nodes of different character, on which a search for the best setting is judged.

All are the shipped CPX node with other all_reduce times: what the library knows, and so what it
chooses by itself, is the same, and so is the noise where a character does not say otherwise. A
node's times are one common curve times a factor of each setting, so that a character is written
as factors: 1 where a setting is the best one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path
from typing import Any, Final

import yaml

from rccltune import simulate
from rccltune.model import Setting, parse_size

MODE: Final = "cpx-nps4"
N_RANKS: Final = 64
# What a search plans with; the environment shortens the waiting.
STARTUP_S: Final = 10.0
PAIRS: Final = ("tree/ll", "tree/ll128", "ring/ll", "ring/ll128", "ring/simple")
COUNTS: Final = (4, 8, 16, 24)
# What a stock library can choose (Tree with Simple it cannot, on one node), channels left to it and
# four counts; one is left out, so that they are 24.
SETTINGS: Final = tuple(
    name
    for pair in PAIRS
    for name in (pair, *(f"{pair}/{count}" for count in COUNTS))
    if name != "tree/ll/24"
)
# The size at which RCCL 2.28.3's cost model turns from ring/ll (112.8 us, 1.95 GB/s) to ring/simple
# (281.6 us, 24.4 GB/s) on this node's graph and 64 ranks.
TURN: Final = 357_900
_SIZES: Final = tuple(round(2.0 ** (quarter / 4)) for quarter in range(3 * 4, 31 * 4))
Factor = Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Character:
    """What is peculiar about a node.

    Attributes:
        factors: of settings that are no ordinary also-rans, by name.
        noise: what replaces keys of the shipped noise.
        no_rule: nothing beats the library's own choice by the gain that a rule must have.
        as_shipped: the times of the shipped node, measured ones, instead of factors.
    """

    name: str
    factors: Mapping[str, Factor] = field(default_factory=dict)
    noise: Mapping[str, Any] = field(default_factory=dict)
    no_rule: bool = False
    as_shipped: bool = False


def always(factor: float) -> Factor:
    """The same at every size."""
    return lambda _: factor


def winner(low: str | None, high: str | None, slope: float, best: float = 1.0) -> Factor:
    """The best from ``low`` to ``high``; outside it falls behind with a power of the size."""
    first = 1.0 if low is None else float(parse_size(low))
    last = 2.0**40 if high is None else float(parse_size(high))

    def factor(nbytes: float) -> float:
        outside = max(first / nbytes, nbytes / last, 1.0)
        return float(min(best * outside**slope, 4.0))

    return factor


def steps(start: float, *later: tuple[str, float]) -> Factor:
    """A staircase: from each size on, another factor."""
    edges = [(float(parse_size(size)), factor) for size, factor in later]

    def factor(nbytes: float) -> float:
        return next((f for size, f in reversed(edges) if nbytes >= size), start)

    return factor


def own_choice(factor: float) -> dict[str, Factor]:
    """Both settings that the library chooses by itself, equally far behind the best."""
    return {"ring/ll": always(factor), "ring/simple": always(factor)}


# At no size of a grid of powers of two does the library's own choice lie 2 to 10 % behind: gains of
# 3 to 6 % cannot be proven from three repeats of this noise, and the bench would judge the proof.
# The shipped node has such sizes.
_FIVE: Final = {
    "tree/ll/4": winner(None, "3K", 0.15),
    "tree/ll": winner("3K", "40K", 0.15),
    "tree/ll128/16": winner("40K", "300K", 0.15),
    "ring/ll128/8": winner("300K", "2500K", 0.15),
    "ring/ll128": winner("2500K", "36M", 0.15),
    "ring/simple": winner("36M", None, 0.15),
    "ring/ll": always(1.4),
}
_BEST_ONE: Final = "tree/ll128/16"

CHARACTERS: Final = (
    Character(
        name="one-crossover",
        factors={
            "tree/ll/8": winner(None, "550K", 0.2),
            "ring/simple": winner("550K", None, 0.2),
            "ring/ll": always(1.5),
        },
    ),
    Character(name="five-crossovers", factors=_FIVE),
    Character(name="no-crossover", factors={_BEST_ONE: always(1.0), **own_choice(1.4)}),
    Character(
        # Steps lie between powers of two, as those of protocols do; one setting is the best in two
        # octaves only, where a search that skips sizes would not see it.
        name="plateaus",
        factors={
            "tree/ll": steps(1.0, ("24K", 1.25), ("400K", 1.6)),
            "ring/ll128/16": steps(1.2, ("24K", 1.0), ("3M", 1.3)),
            "ring/simple/16": steps(2.0, ("768K", 1.5), ("3M", 1.0), ("100M", 1.15)),
            "tree/ll128/8": steps(1.3, ("96K", 0.9), ("384K", 1.3)),
            "ring/simple": steps(1.5, ("100M", 1.0)),
            "ring/ll": always(1.4),
        },
    ),
    Character(
        # All others are equal but for the library's own choice: rules are wanted, and any is right.
        name="one-ahead",
        factors={
            **dict.fromkeys(SETTINGS, always(1.01)),
            _BEST_ONE: always(1.0),
            **own_choice(1.3),
        },
    ),
    Character(
        name="bursts",
        factors=_FIVE,
        noise={"bursts": {"probability": 0.04, "seconds": 0.05, "factor": 20}},
    ),
    Character(name="mi300x-as-shipped", as_shipped=True),
    Character(
        name="baseline-is-best",
        factors={
            "ring/ll": winner(None, str(TURN), 0.3),
            "ring/simple": winner(str(TURN), None, 0.3),
        },
        no_rule=True,
    ),
    Character(name="all-equal", factors=dict.fromkeys(SETTINGS, always(1.0)), no_rule=True),
    Character(
        name="one-ahead-of-baseline",
        factors={**dict.fromkeys(SETTINGS, always(1.01)), _BEST_ONE: always(1.0)},
        no_rule=True,
    ),
)


def write_node(character: Character, folder: Path) -> Path:
    """The character's node file."""
    path = folder / f"{character.name}.yaml"
    path.write_text(yaml.safe_dump(document(character)), encoding="utf-8")
    return path


def document(character: Character) -> dict[str, Any]:
    """The shipped node with the character's times and noise."""
    raw = shipped()
    if character.as_shipped:
        return raw | {"name": character.name, "start": raw["start"] | {"startup_s": STARTUP_S}}
    factors = {name: character.factors.get(name, also_ran(name)) for name in SETTINGS}
    raw["start"]["startup_s"] = STARTUP_S
    raw["name"] = character.name
    raw["description"] = f"made up: {character.name}"
    raw["curves"] = [_curve(pair, factors[pair]) for pair in PAIRS]
    raw["effects"] = [_effect(pair, factors) for pair in PAIRS]
    raw["noise"] |= character.noise
    # The library turns where the characters do, at the graph that the file assumes, with its channels.
    del raw["fill"], raw["library"]["graph"]["linked"]
    raw["library"]["channels"] = 32
    return raw


def shipped() -> dict[str, Any]:
    """The node file that comes with rccltune."""
    text = simulate.node_path("mi300x", MODE).read_text(encoding="utf-8")
    raw: dict[str, Any] = yaml.safe_load(text)
    return raw


def also_ran(name: str) -> Factor:
    """Settings that are never the best: 6 % to 112 % behind, some at small sizes, some at large."""
    index = SETTINGS.index(name)
    behind = 0.06 + 0.02 * (index * 7 % len(SETTINGS))
    tilt = (index % 3 - 1) * 0.02
    return lambda nbytes: 1 + behind * 2.0 ** (tilt * (log2(nbytes) - 16))


def envelope_us(nbytes: float) -> float:
    """The best possible time: 70 us, and 12 GB/s for what is large."""
    return 70 + nbytes / 12_000


def _curve(pair: str, factor: Factor) -> dict[str, Any]:
    points = [[size, round(envelope_us(size) * factor(size), 4)] for size in _SIZES]
    return {
        "collective": "all_reduce",
        "setting": pair,
        "kind": "modelled",
        "source": "made up",
        "points": points,
    }


def _effect(pair: str, factors: Mapping[str, Factor]) -> dict[str, Any]:
    """Channel counts against the library's own; counts between them are interpolated."""
    counts = [count for count in COUNTS if f"{pair}/{count}" in factors]
    rows = {
        count: [[n, factors[f"{pair}/{count}"](n) / factors[pair](n)] for n in _SIZES]
        for count in counts
    }
    return {"setting": pair, "by_channels": rows | {32: [[8, 1.0]]}}


def truth_us(node: simulate.SimulatedNode, setting: Setting, nbytes: int) -> float:
    """Noise-free µs; channels are capped at the communicator's, as the library does."""
    channels = min(setting.channels or 0, node.channels)
    pair = str(replace(setting, channels=None))
    time_us = simulate.truth(node, "all_reduce", pair, nbytes, channels=channels, ranks=N_RANKS)
    if time_us is None:
        raise ValueError(f"the node file says nothing of {setting} at {nbytes} B")
    return time_us


def best_us(node: simulate.SimulatedNode, nbytes: int) -> float:
    """The least that any of the settings takes."""
    return min(truth_us(node, Setting.parse(name), nbytes) for name in SETTINGS)
