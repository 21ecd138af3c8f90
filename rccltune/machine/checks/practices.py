"""AMD's own advice for RCCL on the MI300X, where a machine or an environment departs from it.

Sources: "Understanding RCCL Bandwidth and xGMI Performance" (2025-03) and RCCL's usage tips. One
process per GPU is looked after with the launcher, NUMA balancing and numad with the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rccltune.machine.checks.facts import Circumstances, notes, warns
from rccltune.machine.records import Finding
from rccltune.machine.situation import VISIBLE

_CHANNELS: Final = "NCCL_MIN_NCHANNELS"


def all_gpus(facts: Circumstances) -> Iterator[Finding]:
    """Every pair has its own link, so leaving GPUs out leaves links idle."""
    system = facts.system
    if not facts.has_amd or not system.gpus:
        return
    total = len(system.oams)
    used = len({oam.address for oam in system.oams if oam.n_gpus})
    chosen = [facts.variables[n] for n in VISIBLE if facts.variables.get(n)]
    numbered = [t for t in (chosen[0].split(",") if chosen else []) if t.strip().isdecimal()]
    if numbered:
        picked = [g.oam for g in system.gpus if str(g.index) in {t.strip() for t in numbered}]
        used = len(set(picked))
    if used < total:
        yield notes(
            "all-gpus",
            f"{used} of {total} OAMs are in use, and each pair has a link of its own: bandwidth is "
            "a fraction of the node's",
            ", ".join(n for n in VISIBLE if n in facts.variables) or "KFD",
            remedy=f"use all of them; where the job cannot, measure a variant with {_CHANNELS}=32 "
            "(RCCL's tips) and 112 (AMD's article).",
        )


def channels(facts: Circumstances) -> Iterator[Finding]:
    """A bound on channels decides what a rule can ask for."""
    for name in (_CHANNELS, "NCCL_MAX_NCHANNELS"):
        value = facts.variables.get(name)
        if value:
            yield warns(
                "channels",
                f"{name}={value}: a sweep clears it, and a communicator's channels are fixed by it "
                "at the start of a job",
                name,
                expected="not set, or a variant of its own",
                remedy=f"unset {name}; or sweep with --variant channels-{value}, and keep it.",
                spoils=True,
            )


def graph_mode(facts: Circumstances) -> Iterator[Finding]:
    """Replayed graphs save the start of kernels, so their times are others."""
    if facts.has_amd and facts.system.gpus:
        yield notes(
            "graph-mode",
            "a job that replays graphs (vLLM, SGLang, torch.compile) spends less on starting "
            "kernels than what is measured without them",
            "AMD's best practices",
            remedy="where the job does, sweep with --graph N too.",
        )


CHECKS: Final = (all_gpus, channels, graph_mode)
