"""Made-up nodes whose times are computed from links and steps, and not by the model over scales.

What the model does not have, and these nodes do: a ring's steps run in lockstep, so that the slowest
edge holds all others up; a step is the soft maximum of its latency and its transfer, not their
sum; a step's bytes go in slices, each with a cost; links that several OAMs share slow down as
more of them take part; a tree fills its pipeline first; the base grows with the logarithm of ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, log2, sqrt
from typing import Any

import yaml

from rccltune import simulate

PER_OAM = 8
SIZES = tuple(2**power for power in range(10, 31))
SETTINGS = ("ring/ll", "ring/ll128", "ring/simple", "tree/ll", "tree/ll128", "tree/simple")
# Of each protocol: factor on latency, share of the bandwidth, bytes of a slice.
_PROTOCOLS = {"ll": (1.0, 0.42, 4096), "ll128": (1.15, 0.85, 16384), "simple": (2.6, 1.0, 131072)}


@dataclass(frozen=True, kw_only=True)
class Links:
    """One node's links: µs of a hop and GB/s, inside an OAM and across OAMs."""

    inside_us: float = 0.55
    across_us: float = 1.6
    inside_gb_per_s: float = 80.0
    across_gb_per_s: float = 38.0
    sharpness: float = 3.0
    contention: float = 0.03

    def bandwidth(self, n_oams: int, share: float) -> float:
        """Bytes per µs over the slowest link."""
        if n_oams == 1:
            return 1e3 * self.inside_gb_per_s * share
        return 1e3 * self.across_gb_per_s * share / (1 + self.contention * log2(n_oams))


def true_us(links: Links, setting: str, n_ranks: int, nbytes: int) -> float:
    """Time in µs of an all_reduce over whole OAMs."""
    algorithm, protocol = setting.split("/")
    slowdown, share, slice_bytes = _PROTOCOLS[protocol]
    n_oams = n_ranks // PER_OAM
    hops = 2 * ((n_ranks - n_oams) * links.inside_us + (n_oams - 1) * links.across_us) * slowdown
    speed = links.bandwidth(n_oams, share)
    if algorithm == "tree":
        fill = min(nbytes, 8 * slice_bytes) / speed * log2(n_ranks) / 2
        slices = min(ceil(nbytes / (32 * slice_bytes)), 64)
        whole = _softly(1.15 * hops, 2 * nbytes / (0.75 * speed), links.sharpness)
        return 10 * sqrt(slowdown) + whole + fill + 0.05 * slices
    chunk = nbytes / n_ranks
    slices = max(1, ceil(chunk / slice_bytes / 16))
    edge = links.inside_us if n_oams == 1 else max(links.inside_us, links.across_us)
    latency = edge * slowdown * (1.1 if slices > 1 else 1.0)
    step = _softly(latency, chunk / speed, links.sharpness) + 0.02 * sqrt(slices)
    n_steps = 2 * (n_ranks - 1)
    # Half of a step overlaps with the one before it where data is waiting.
    whole = (hops + n_steps * step + n_steps * chunk / speed) / 2
    return 9 * sqrt(slowdown) + whole + 0.8 * log2(n_ranks)


def _softly(one: float, other: float, sharpness: float) -> float:
    return float((one**sharpness + other**sharpness) ** (1 / sharpness))


def node_file(links: Links) -> str:
    """A node file of 64 partitions on eight OAMs, with curves of 8, 16, 32 and 64 ranks."""
    raw = yaml.safe_load(simulate.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
    raw |= {
        "name": "made-up-scales",
        "description": "Links made up by tests/scaling/scale_nodes.py.",
    }
    raw["noise"] = {"sigma": 0.015, "launch_sigma": 0.01}
    raw.pop("fill", None)
    raw.pop("effects", None)
    raw["bypasses"] = []
    placed = {8: "one-oam", 16: "other", 32: "other", 64: "node"}
    raw["curves"] = [
        _curve(setting, n_ranks, where, partial(true_us, links, setting, n_ranks))
        for n_ranks, where in placed.items()
        for setting in SETTINGS
    ]
    return yaml.safe_dump(raw)


def _curve(
    setting: str, n_ranks: int, where: str, time_us: Callable[[int], float]
) -> dict[str, Any]:
    return {
        "collective": "all_reduce",
        "setting": setting,
        "ranks": n_ranks,
        "placement": where,
        "kind": "modelled",
        "source": "made up: tests/scaling/scale_nodes.py",
        "points": [[nbytes, round(time_us(nbytes), 3)] for nbytes in SIZES],
    }
