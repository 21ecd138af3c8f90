"""Settings, and what a time belongs to: modes, scales, vendors, keys of curves.

RCCL and NCCL have different limits, so that what a rule may choose depends on it. Benchmarks print
what the runtime calls the device: drivers of NVIDIA before 470 left the vendor out
(``A100-SXM4-40GB``, ``Tesla V100-SXM2-16GB``), ROCm has market names (``AMD Instinct MI300X``) and,
where the machine lacks a table of them, ``AMD Radeon Graphics``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from rccltune.model.schema import Line, Whole, Word
from rccltune.model.text import unknown
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol

_MODE: Final = re.compile(r"([sdtqc]px|none|unknown)(?:-(nps\d+))?", re.IGNORECASE | re.ASCII)

# What drivers offer of MI300 and MI350: most of these, by the number of dies.
_COMPUTE: Final = ("spx", "dpx", "tpx", "qpx", "cpx")
_MEMORY: Final = ("nps1", "nps2", "nps4", "nps8")
MODES: Final = (
    *("auto", "none", "spx-nps1", "spx-nps4", "dpx-nps1", "dpx-nps2", "tpx-nps1"),
    *("qpx-nps1", "qpx-nps2", "qpx-nps4", "cpx-nps1", "cpx-nps2", "cpx-nps4"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """Compute and memory partition of a node's GPUs.

    Attributes:
        compute: ``CPX``, ``SPX`` …, ``None`` where GPUs have no partitions.
        memory: ``NPS4`` …, ``None`` where unknown or not there.
    """

    compute: Word | None
    memory: Word | None

    @classmethod
    def parse_option(cls, text: str) -> Mode | None:
        """Parse a mode of an option: one that exists, or ``auto`` for the machine's own."""
        word = text.strip().lower()
        compute, _, memory = word.partition("-")
        if word not in MODES and (compute not in _COMPUTE or memory not in ("", *_MEMORY)):
            raise ValueError(unknown("mode", text, MODES))
        return None if word == "auto" else cls.parse(text)

    @classmethod
    def parse(cls, text: str) -> Mode:
        """Read ``cpx-nps4``, ``spx`` or ``none``; ValueError for anything else."""
        match = _MODE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"'{text}' is no mode: write cpx-nps4, spx-nps1, … or none")
        compute, memory = match.groups()
        if compute.lower() in ("none", "unknown"):
            return cls(compute=None, memory=None)
        return cls(compute=compute.upper(), memory=memory.upper() if memory else None)

    def __str__(self) -> str:
        """``cpx-nps4``; ``none`` without partitions."""
        parts = [part.lower() for part in (self.compute, self.memory) if part]
        return "-".join(parts) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Numbers of nodes and ranks that a communicator spans."""

    n_nodes: Whole
    n_ranks: Whole

    def __post_init__(self) -> None:
        """Refuse counts that no communicator has."""
        if self.n_nodes < 1 or self.n_ranks < self.n_nodes:
            raise ValueError(f"{self.n_ranks} ranks on {self.n_nodes} nodes is no scale")

    @classmethod
    def parse(cls, text: str) -> Scale:
        """Read ``2x128``: nodes, and the ranks of all of them; ValueError for anything else."""
        nodes, _, ranks = text.strip().partition("x")
        if not (text.isascii() and nodes.isdecimal() and ranks.isdecimal()):
            raise ValueError(f"'{text}' is no scale: write 2x128 for 128 ranks on 2 nodes")
        return cls(n_nodes=int(nodes), n_ranks=int(ranks))

    @property
    def short(self) -> str:
        """``2x128``, as :meth:`parse` reads it."""
        return f"{self.n_nodes}x{self.n_ranks}"

    def __str__(self) -> str:
        """``64 ranks on 1 node``."""
        ranks = "1 rank" if self.n_ranks == 1 else f"{self.n_ranks} ranks"
        return f"{ranks} on {self.n_nodes} node{'s' if self.n_nodes > 1 else ''}"


def why_never(n_nodes: int | None, n_ranks: int | None) -> str | None:
    """Why no communicator can have such numbers, each None for any; None where one can."""
    if n_nodes is None or n_ranks is None or n_ranks >= n_nodes:
        return None
    return f"{n_ranks} ranks cannot be on {n_nodes} nodes, so that no call can match; swapped?"


class Role(Enum):
    """Role of a timing: who chose the setting that ran."""

    FORCED = "forced"
    BASELINE = "baseline"
    IDLE = "idle"
    RULES = "rules"
    UNSTATED = "unstated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Setting that a tuner may choose; ``None`` leaves that part to RCCL."""

    algorithm: Algorithm | None = None
    protocol: Protocol | None = None
    channels: Whole | None = None
    role: Role = Role.FORCED

    def __post_init__(self) -> None:
        """Only a forced setting names parts; channels are at least one."""
        has_parts = (self.algorithm, self.protocol, self.channels) != (None, None, None)
        if has_parts != (self.role is Role.FORCED):
            raise ValueError("a forced setting names a part, baseline, idle and rules name none")
        if self.channels is not None and self.channels < 1:
            raise ValueError(f"{self.channels} channels is no setting")

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read ``tree/ll128``, ``tree/ll128/16``, ``ring/-``, ``baseline``, ``idle``, ``rules``.

        Raises:
            ValueError: an unknown word or a number of channels below one.
        """
        folded = text.strip().lower()
        if folded in _SETTING_BY_WORD:
            return _SETTING_BY_WORD[folded]
        parts = folded.split("/")
        if not 2 <= len(parts) <= 3:
            raise ValueError(f"'{text}' is no setting: write tree/ll128 or tree/ll128/16")
        channels = parts[2] if len(parts) == 3 else "-"
        if channels != "-" and not (channels.isascii() and channels.isdigit()):
            raise ValueError(f"'{channels}' in '{text}' is no number of channels")
        return cls(
            algorithm=None if parts[0] == "-" else Algorithm.parse(parts[0]),
            protocol=None if parts[1] == "-" else Protocol.parse(parts[1]),
            channels=None if channels == "-" else int(channels),
        )

    def contradicts(self, executed: Setting) -> bool:
        """Whether another setting than the forced one ran, in a part that both name."""
        pairs = (
            (self.algorithm, executed.algorithm),
            (self.protocol, executed.protocol),
            (self.channels, executed.channels),
        )
        return self.role is Role.FORCED and any(
            wish is not None and ran is not None and wish != ran for wish, ran in pairs
        )

    def __str__(self) -> str:
        """``tree/ll128/16``; the word for baseline, idle, rules and unstated."""
        if self.role is not Role.FORCED:
            return str(self.role.value)
        parts = [
            self.algorithm.value if self.algorithm else "-",
            self.protocol.value if self.protocol else "-",
        ]
        if self.channels is not None:
            parts.append(str(self.channels))
        return "/".join(parts)

    @property
    def is_complete(self) -> bool:
        """Whether algorithm and protocol are both named, as a rule needs."""
        return self.algorithm is not None and self.protocol is not None


BASELINE: Final = Setting(role=Role.BASELINE)
# Our plugin is loaded and answers nothing.
IDLE: Final = Setting(role=Role.IDLE)
# Whatever the rule file that is set answers.
RULES: Final = Setting(role=Role.RULES)
UNSTATED: Final = Setting(role=Role.UNSTATED)
_SETTING_BY_WORD: Final = {str(s): s for s in (BASELINE, IDLE, RULES, UNSTATED)}


# On one node of gfx94x and gfx95x the library lets LL128 be chosen with this variable alone.
LL128_FORCED: Final = ("RCCL_LL128_FORCE_ENABLE", "1")
# Of a library whose sources scripts/enable-tree-simple changed: it keeps Tree with Simple.
TREE_SIMPLE_FORCED: Final = ("RCCL_FORCE_TREE_SIMPLE", "1")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveKey:
    """Key of a curve: all that two samples must share to lie on one.

    Attributes:
        graph: whether calls were replayed from a captured graph.
        rank_placement: ``node``, ``one-oam``, ``one-per-oam`` …
    """

    collective: Collective
    setting: Setting
    placement: Placement
    scale: Scale
    dtype: Line | None = None
    op: Line | None = None
    graph: bool | None = None
    rank_placement: Word | None = None

    @property
    def target(self) -> Target:
        """Target: the key without what no tuner sees."""
        return Target(
            collective=self.collective,
            scale=self.scale,
            rank_placement=self.rank_placement,
        )

    @property
    def view(self) -> View:
        """View: the parts of the key that no tuner sees, which one rule must serve alike."""
        return View(dtype=self.dtype, op=self.op, placement=self.placement, graph=self.graph)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Target of a list of zones: collective, scale, placement of ranks."""

    collective: Collective
    scale: Scale
    rank_placement: Word | None


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The parts of a curve's key that a tuner cannot see; a rule serves all views alike.

    Attributes:
        ranks: where the ranks are, while a rule for several placements of them is chosen.
    """

    dtype: Line | None
    op: Line | None
    placement: Placement
    graph: bool | None
    ranks: Line | None = None

    def __str__(self) -> str:
        """``float sum out-of-place``."""
        words = [self.dtype, self.op if self.op != "none" else None]
        words.append("in-place" if self.placement is Placement.IN_PLACE else "out-of-place")
        words.append("graph" if self.graph else None)
        words.append(self.ranks)
        return " ".join(word for word in words if word)


class Vendor(Enum):
    """Vendor of the GPUs, in the words that stand in for an unknown arch."""

    AMD = "amd"
    NVIDIA = "nvidia"


_AMD: Final = re.compile(
    r"\b(?:AMD|Instinct|Radeon|Vega|MI\d{2,3}[A-Z]?)\b|\bgfx[0-9a-f]{3,4}", re.IGNORECASE
)
# A bare chip only at the beginning: 'Radeon PRO V620' is none of NVIDIA's.
_NVIDIA: Final = re.compile(
    r"\b(?:NVIDIA|GeForce|Tesla|Quadro|RTX)\b|^(?:sm_?\d{2}|TITAN\b|G[BH]\d{3}|[ABHLPTV]\d{1,3}\b)",
    re.IGNORECASE,
)


def vendor_of(*words: str | None) -> Vendor | None:
    """The vendor that product and arch name; None where none does, or two are named.

    Args:
        words: ``NVIDIA H200``, ``gfx942``, ``nvidia`` …; several products with `` + `` between
            them; None is unsaid.
    """
    parts = [part for word in words if word is not None for part in word.split(" + ")]
    vendors = {vendor for part in parts if (vendor := _of_one(part)) is not None}
    return vendors.pop() if len(vendors) == 1 else None


def _of_one(word: str) -> Vendor | None:
    if _AMD.search(word):
        return Vendor.AMD
    return Vendor.NVIDIA if _NVIDIA.search(word) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLocation:
    """The devices that the ranks of a session were on.

    Attributes:
        name: of the placement: ``node``, ``one-oam`` …
        scale: of a communicator; several run side by side in sub-groups.
        devices: numbers of the devices in the order of the ranks; empty where nothing chose them.
        equivalent: names of all placements that a communicator of this scale can have here, this
            one's among them; empty where not every one of them has a name.
    """

    name: Word
    scale: Scale
    devices: tuple[Whole, ...] = ()
    equivalent: tuple[Line, ...] = ()

    def __str__(self) -> str:
        """``one-oam, 8 ranks on 1 node, devices 0 to 7``; devices where they were chosen."""
        if not self.devices:
            return f"{self.name}, {self.scale}"
        first, last = self.devices[0], self.devices[-1]
        is_row = len(self.devices) > 2 and self.devices == tuple(range(first, last + 1))
        numbers = f"{first} to {last}" if is_row else ", ".join(map(str, self.devices))
        return f"{self.name}, {self.scale}, devices {numbers}"
