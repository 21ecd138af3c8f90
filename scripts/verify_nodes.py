"""Simulated nodes with a trap each, on which verification is judged.

All are the shipped CPX node with made-up times: one common curve times a factor of each setting, 1
where it is the best one. The library's own choice is ring/LL up to 350 KiB and ring/simple above
(reduce_scatter: up to 16 MiB and from 32 MiB on). Three settings beat it, one after the other, with
steep edges: where one of them is a trap, no other setting beats the library, so what a verified file
must keep is known without asking it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from rccltune.model.units import MAX_NBYTES, parse_size
from rccltune.simulate import compiled, sources

MODE: Final = "cpx-nps4"
PAIRS: Final = ("tree/ll", "tree/ll128", "ring/ll", "ring/ll128", "ring/simple")
_SIZES: Final = tuple(round(2.0 ** (quarter / 4)) for quarter in range(3 * 4, 31 * 4))
Factor = Callable[[float], float]


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


ALL_REDUCE: Final = "all_reduce"
REDUCE_SCATTER: Final = "reduce_scatter"
TRAPPED: Final = "tree/ll128"
NODE_FILE: Final = "node.node"  # a session's own copy of its node, compiled
_FROM, _TO = 40 << 10, 500 << 10
_STEEP: Final = 2.0
_RANK: Final = 37

_THREE: Final[Mapping[str, Factor]] = {
    "tree/ll": winner(None, "40K", _STEEP),
    TRAPPED: winner("40K", "500K", _STEEP),
    "ring/ll128": winner("500K", "5M", 0.25),
    "ring/ll": always(1.4),
    # Falls to the best at 5 MiB without a step: no boundary between two measured sizes can be
    # known better than the curves say.
    "ring/simple": lambda nbytes: min(1.4, max(1.0, (parse_size("5M") / nbytes) ** 0.25)),
}
# Behind the library's own choice from 5 MiB on, and nearly as fast: noise and drift make them seem
# faster, and whoever believes it loses 3 %.
_NEARLY: Final[Mapping[str, Factor]] = {
    **_THREE,
    "tree/ll": lambda nbytes: min(_THREE["tree/ll"](nbytes), _near(nbytes)),
    "ring/ll128": lambda nbytes: min(_THREE["ring/ll128"](nbytes), _near(nbytes)),
}


def _near(nbytes: float) -> float:
    return 1.03 if nbytes >= parse_size("16M") else 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsafe:
    """Sizes at which a setting must not be counted on, whatever its time at one of them.

    Attributes:
        collective: None is any.
        setting: the same.
    """

    collective: str | None = None
    setting: str | None = None
    min_nbytes: int = 0
    max_nbytes: int = MAX_NBYTES

    def holds(self, collective: str, setting: str, nbytes: int) -> bool:
        """Whether it speaks of this."""
        return (
            self.collective in (None, collective)
            and self.setting in (None, setting)
            and self.min_nbytes <= nbytes <= self.max_nbytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrapNode:
    """A node, and what is wrong with it.

    Attributes:
        trap: in words.
        factors: of the settings in all_reduce.
        others: of the settings in other collectives.
        noise: what replaces keys of the shipped noise.
        parts: entries added to the lists of the node file, by key.
        later: faults that begin after the sweep and before verification.
        unsafe: what no gain may be expected of.
        must_refuse: no file of this node may pass: verification ends with another code than 0.
    """

    name: str
    trap: str
    factors: Mapping[str, Factor] = field(default_factory=lambda: _THREE)
    others: Mapping[str, Mapping[str, Factor]] = field(default_factory=dict)
    noise: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    later: tuple[Mapping[str, Any], ...] = ()
    unsafe: tuple[Unsafe, ...] = ()
    must_refuse: bool = False

    @property
    def collectives(self) -> tuple[str, ...]:
        """Those that are swept and judged."""
        return (ALL_REDUCE, *self.others)

    def document(self) -> dict[str, Any]:
        """The node file as the sweep finds it."""
        text = sources.node_path("mi300x", MODE).read_text(encoding="utf-8")
        raw: dict[str, Any] = yaml.safe_load(text)
        # Nobody waits for a start-up here, and the simulated clock shall count collectives alone.
        raw["start"] |= {"startup_s": 0}
        raw |= {"name": self.name, "description": f"made up: {self.name}", "effects": []}
        # LL128 is on by default there: what is tuned is the site as it is.
        raw["hardware"]["arch"] = "gfx90a"
        raw["library"]["ll128"] = True
        raw["curves"] = _curves(ALL_REDUCE, self.factors)
        raw["noise"] |= self.noise
        # The library turns at the graph that the file assumes, with its channels.
        del raw["fill"], raw["library"]["graph"]["linked"]
        raw["library"]["channels"] = 32
        for collective, factors in self.others.items():
            raw["curves"] += _curves(collective, factors)
        for key, entries in self.parts.items():
            raw[key] = [*raw.get(key, ()), *entries]
        return raw

    def is_safe(self, collective: str, setting: str, nbytes: int) -> bool:
        """Whether a rule may name it at this size."""
        return not any(one.holds(collective, setting, nbytes) for one in self.unsafe)


def settings_of(collective: str) -> tuple[str, ...]:
    """What is swept: only all_reduce can go by tree."""
    return tuple(name for name in PAIRS if collective == ALL_REDUCE or name.startswith("ring"))


def _curves(collective: str, factors: Mapping[str, Factor]) -> list[dict[str, Any]]:
    """70 us and 12 GB/s for what is large, times each setting's factor."""
    return [
        {
            "collective": collective,
            "setting": name,
            "kind": "modelled",
            "source": "made up",
            "points": [[n, round((70 + n / 12_000) * factors[name](n), 4)] for n in _SIZES],
        }
        for name in settings_of(collective)
    ]


# Up in half a minute of collectives and down again: about what a sweep takes, and then verification.
_DRIFT: Final = [[30 * half, 1.1 if half % 2 else 1.0] for half in range(60)]
# Nothing is to be had where the trap is: its neighbours reach a fifth of an octave into it, which is
# no part of their rules.
_NOTHING: Final = (Unsafe(setting=TRAPPED), Unsafe(min_nbytes=_FROM, max_nbytes=_TO))
_WRONG: Final = (98 << 10, 124 << 10)
_WINDOW: Final = (150 << 10, 178 << 10)
# Between measured sizes nobody knows where it begins; a file that stays away from it there must not
# lose much by that.
_BYPASSED: Final = (20 << 10, 200 << 10)

# Launches of their own differ by 40 % at small sizes where pairs agree within 3 % (2 x H200).
OFFSETS: Final = {
    "launch_sigma": [[256 << 10, 0.4], [1 << 20, 0.015]],
    "setting_sigma": [[256 << 10, 0.02], [1 << 20, 0.003]],
}
# What the library chooses by itself at small sizes.
_OWN: Final = "ring/ll"


def _bimodal(share: float) -> TrapNode:
    """A setting that is twice as slow in some launches; on the mean it loses, or gains less."""
    slow = {"kind": "slow-rank", "setting": TRAPPED, "rank": _RANK, "factor": 2.0}
    return TrapNode(
        name=f"bimodal-{round(100 * share)}",
        trap=f"{TRAPPED} is twice as slow in {100 * share:.0f} % of launches",
        parts={"faults": [{**slow, "probability": share}]},
        unsafe=_NOTHING,
    )


NODES: Final = (
    TrapNode(name="plain", trap="none: what is gained must be kept"),
    TrapNode(
        name="mixed",
        trap=f"{TRAPPED} is the fastest in a sweep, and among other rules 60 % slower than untouched",
        parts={"effects": [{"setting": TRAPPED, "mixed": True, "factor": 1.6 * 1.4}]},
        unsafe=_NOTHING,
    ),
    TrapNode(
        name="between",
        trap=f"{TRAPPED} is 60 % slower than untouched from 1.3 to 1.625 times each power of two",
        parts={
            "effects": [
                {
                    "setting": TRAPPED,
                    "between": {"low": 1.3, "high": 1.3 * 1.25, "factor": 1.6 * 1.4},
                }
            ]
        },
        unsafe=_NOTHING,
    ),
    TrapNode(
        name="between-edges",
        trap="two settings are 60 % slower just above powers of two, and just below them",
        parts={
            "effects": [
                {"setting": name, "between": {"low": low, "high": 1.25 * low, "factor": 1.6 * 1.4}}
                for name, low in ((TRAPPED, 1.04), ("ring/ll128", 1.56))
            ]
        },
        unsafe=(
            Unsafe(setting=TRAPPED),
            Unsafe(setting="ring/ll128"),
            Unsafe(min_nbytes=_FROM),
        ),
    ),
    TrapNode(
        name="drift",
        trap="everything becomes 10 % slower during the run and recovers; two settings lie 3 % behind",
        factors=_NEARLY,
        noise={"drift": _DRIFT},
    ),
    TrapNode(
        name="bypass",
        trap="a path that asks no tuner takes 20 to 200 KiB",
        parts={
            "paths": ["shortcut"],
            "bypasses": [{"path": "shortcut", "collective": ALL_REDUCE, "bytes": [*_BYPASSED]}],
            "curves": [
                {
                    "collective": ALL_REDUCE,
                    "setting": "shortcut",
                    "kind": "modelled",
                    "source": "made up",
                    "points": [[8, 80.0], [1 << 20, 165.0]],
                }
            ],
        },
    ),
    TrapNode(
        name="wrong",
        trap=f"{TRAPPED} gives wrong results from 98 to 124 KiB, where no sweep looks",
        parts={
            "faults": [
                {"kind": "wrong", "setting": TRAPPED, "bytes": [*_WRONG], "elements": 12},
            ]
        },
        unsafe=_NOTHING,
    ),
    TrapNode(
        name="one-rank-without",
        trap=f"rank {_RANK} of 64 has no plugin when the rules are used",
        later=({"kind": "no-plugin", "rank": _RANK},),
        must_refuse=True,
    ),
    TrapNode(
        name="one-rank-no-file",
        trap=f"rank {_RANK} of 64 does not find the file when the rules are used",
        later=({"kind": "no-file", "rank": _RANK},),
        must_refuse=True,
    ),
    TrapNode(
        name="two-collectives",
        trap="ring/ll128 is 60 % slower than untouched between powers of two, in reduce_scatter alone",
        others={
            REDUCE_SCATTER: {
                "ring/ll128": winner(None, "1M", _STEEP),
                "ring/simple": winner("1M", None, _STEEP),
                "ring/ll": always(1.4),
            }
        },
        parts={
            "effects": [
                {
                    "collective": REDUCE_SCATTER,
                    "setting": "ring/ll128",
                    "between": {"low": 1.3, "high": 1.3 * 1.25, "factor": 1.6 * 1.4},
                }
            ]
        },
        unsafe=(
            Unsafe(collective=REDUCE_SCATTER, setting="ring/ll128"),
            Unsafe(collective=REDUCE_SCATTER, max_nbytes=1 << 20),
        ),
    ),
    _bimodal(0.1),
    _bimodal(0.3),
    TrapNode(
        name="sliver",
        trap=f"{TRAPPED} is 60 % slower than untouched in the last 3 % of each side of its range",
        parts={
            "effects": [
                {"setting": TRAPPED, "factor": 1.6 * 1.4, "bytes": [low, high]}
                for low, high in (
                    (_FROM, round(1.03 * _FROM)),
                    (round(_TO / 1.03), _TO),
                )
            ]
        },
        unsafe=(
            Unsafe(setting=TRAPPED, max_nbytes=round(1.1 * _FROM)),
            Unsafe(setting=TRAPPED, min_nbytes=round(_TO / 1.1)),
            Unsafe(min_nbytes=_FROM, max_nbytes=round(1.1 * _FROM)),
            Unsafe(min_nbytes=round(_TO / 1.1), max_nbytes=_TO),
        ),
    ),
    TrapNode(
        name="window",
        trap=f"{TRAPPED} is 60 % slower than untouched over a quarter of an octave in its middle",
        parts={
            "effects": [
                {"setting": TRAPPED, "factor": 1.6 * 1.4, "bytes": [*_WINDOW]},
            ]
        },
        unsafe=(Unsafe(min_nbytes=round(_WINDOW[0] / 1.3), max_nbytes=round(1.3 * _WINDOW[1])),),
    ),
    TrapNode(
        name="carry-over",
        trap=f"tree/ll is 3 % behind {_OWN}, which is 30 % slower once tree/ll ran in the launch",
        factors={**_THREE, "tree/ll": winner(None, "40K", _STEEP, 1.44)},
        parts={
            "effects": [
                {
                    "setting": _OWN,
                    "after": {"setting": "tree/ll", "within": "launch"},
                    "factor": 1.3,
                }
            ]
        },
        unsafe=(Unsafe(setting="tree/ll"), Unsafe(max_nbytes=_FROM)),
    ),
    TrapNode(
        name="first-size",
        trap="the first size of a pass is 50 % slower where another setting ran before it",
        parts={"effects": [{"first": True, "factor": 1.5}]},
    ),
    TrapNode(
        name="heat",
        trap=f"everything is 6 % slower in the pass behind one that ran {TRAPPED}",
        parts={
            "effects": [{"after": {"setting": TRAPPED, "within": "pass"}, "factor": 1.06}],
        },
        # Whatever heats is everybody's loss: no file with it may stand.
        unsafe=(Unsafe(),),
    ),
    TrapNode(
        name="offsets",
        trap="launches of their own differ by 40 % below 512 KiB, whichever setting runs",
        noise=OFFSETS,
    ),
    TrapNode(
        name="bursts",
        trap="3 % of noise and windows of 50 ms that are 20 times as slow; two settings lie 3 % behind",
        factors=_NEARLY,
        noise={
            "sigma": 0.03,
            "bursts": {"probability": 0.04, "seconds": 0.05, "factor": 20},
        },
    ),
)


def write_node(node: TrapNode, folder: Path) -> Path:
    """The node file as the sweep finds it."""
    return _write(node.document(), folder / f"{node.name}.yaml")


def spoil(node: TrapNode, path: Path, session: Path) -> None:
    """Let begin what begins after the sweep, in the node file and in the session's copy of it."""
    if not node.later:
        return
    raw = node.document()
    raw["faults"] = [*raw.get("faults", ()), *map(dict, node.later)]
    _write(raw, path)
    (session / NODE_FILE).write_bytes(compiled.compile_node(sources.load_node(path)))


def _write(raw: dict[str, Any], path: Path) -> Path:
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return path


def without_faults(node: TrapNode) -> TrapNode:
    """The same with its times alone: faults are judged by what the node file says of them."""
    parts = {key: entries for key, entries in node.parts.items() if key != "faults"}
    return replace(node, parts=parts, later=())
