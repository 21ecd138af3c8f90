"""The launches of a sweep by rccl-tests: the library as it is and every setting, in turns.

One launch measures one setting of one collective at all sizes. One more has our plugin loaded and
nothing forced, which shows at which sizes a tuner is asked at all. A repetition goes through all of
them once, the baseline first and the settings in an order of its own, so that a drift of the
machine hits all alike; the launch is what is repeated.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from rccltune import plugin
from rccltune.logs import decisions
from rccltune.machine import overrides
from rccltune.measure import rccl_tests
from rccltune.measure.rccl_tests import BenchmarkCall
from rccltune.measure.site import Site
from rccltune.model import defaults
from rccltune.model.measurement import Launch, Outcome, Status, Sweep
from rccltune.model.settings import (
    BASELINE,
    LL128_FORCED,
    SILENT,
    TREE_SIMPLE_FORCED,
    Role,
    Setting,
)
from rccltune.model.vocabulary import TREE_SIMPLE_NEEDS_NODES, Algorithm, Collective, Protocol
from rccltune.perf import plan
from rccltune.releases import release_of
from rccltune.session import store
from rccltune.session.launches import setting_of

# GPUs whose RCCL leaves LL128 and Tree with Simple out on one node.
_GATED: Final = ("gfx94", "gfx95")
_ALGORITHMS: Final = (Algorithm.TREE, Algorithm.RING)
# The library says at start which tuner it uses; asked of one launch, since it is the same in all.
_TELL_TUNER: Final = (
    ("NCCL_DEBUG", "INFO"),
    ("NCCL_DEBUG_FILE", "{launch}/nccl-%h-%p.log"),
    ("NCCL_DEBUG_SUBSYS", "INIT,ENV"),
)
# Guesses, high ones, of what a launch takes: its start, and calls at 50 µs and 10 GB/s.
_START_S: Final = 2.0
_RANK_S: Final = 0.25
_CALL_S: Final = 50e-6
_BYTES_S: Final = 10e9


class ExecutionProof(Enum):
    """What says that a setting ran: our plugin, the benchmark's columns, the library, nothing."""

    DECISIONS = "decisions"
    COLUMNS = "columns"
    LOG = "log"
    NOTHING = "nothing"


def proof_of(site: Site, variables: Mapping[str, str]) -> tuple[ExecutionProof, str | None]:
    """What will say which setting ran, and what a user should know of that.

    Args:
        site: whose library it is.
        variables: that a launch gets from the site and from --env.
    """
    release = release_of(site.library)
    if site.tunerless is None and (release is None or release.abi > 2):
        return ExecutionProof.DECISIONS, None
    # The second version of the tuner interface shows no costs.
    name = site.tunerless or str(site.library)
    against = sorted(one for one in variables if one.startswith("NCCL_DEBUG"))
    if "A" in site.help_letters:
        return (
            ExecutionProof.COLUMNS,
            f"{name} tells no plugin its choices; the benchmark's columns say them",
        )
    if against or (release is not None and not release.tells_choices):
        why = f"the site sets {', '.join(against)}" if against else "its log does not name them"
        return ExecutionProof.NOTHING, (
            f"{name} tells no plugin its choices, and {why}: no time of a setting will count"
        )
    return ExecutionProof.LOG, (
        f"{name} tells no plugin its choices: its log of every call says them, in every launch, so "
        "that small sizes take a little longer, the baseline's too"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmeasuredSetting:
    """A setting that is not measured, and why."""

    collective: Collective
    setting: Setting
    reason: str

    def __str__(self) -> str:
        """``all_reduce tree/simple: this RCCL …``."""
        return f"{self.collective.value} {self.setting}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOrder:
    """All launches of a sweep in their order, and what is left out."""

    launches: tuple[Launch, ...]
    left_out: tuple[UnmeasuredSetting, ...]


Arm = tuple[Collective, Setting]


def launch_order_of(
    sweep: Sweep,
    site: Site,
    proof: ExecutionProof,
    *,
    repeats: int,
    graph: bool,
    tells: bool = True,
) -> LaunchOrder:
    """Plan a sweep.

    Args:
        sweep: what is measured.
        site: where.
        proof: what says that a setting ran.
        repeats: launches of each setting.
        graph: calls are replayed from a captured graph.
        tells: the site keeps no log of the library's, so that the first launch may.
    """
    arms: list[Arm] = []
    left_out: list[UnmeasuredSetting] = []
    for collective in sweep.collectives:
        if collective not in site.programs:
            missing = f"there is no {collective.benchmark} beside the other benchmarks"
            left_out.append(
                UnmeasuredSetting(collective=collective, setting=BASELINE, reason=missing)
            )
            continue
        arms.append((collective, BASELINE))
        settings = _settings(sweep, collective)
        if settings and proof is ExecutionProof.DECISIONS:
            # NCCL_ALGO switches paths off that go around a tuner; this launch shows where they are.
            arms.append((collective, SILENT))
        for setting in settings:
            reason = why_left_out(setting, sweep, site)
            if reason is None:
                arms.append((collective, setting))
            else:
                left_out.append(
                    UnmeasuredSetting(collective=collective, setting=setting, reason=reason)
                )
    launches = [
        launch_of(sweep, site, arm, repeat, proof, graph=graph)
        for repeat in range(repeats)
        for arm in _turned(arms, sweep.seed, repeat)
    ]
    if launches and tells and proof is not ExecutionProof.LOG:
        launches[0] = _with(launches[0], _TELL_TUNER)
    return LaunchOrder(
        launches=tuple(replace(one, id=store.launch_id(one)) for one in launches),
        left_out=tuple(dict.fromkeys(left_out)),
    )


def _turned(arms: Sequence[Arm], seed: int, repeat: int) -> Iterator[Arm]:
    """One repetition: each collective's baselines, then its settings in an order of their own."""
    drawn = random.Random(f"{seed}/{repeat}")  # noqa: S311 - an order, no secret
    for collective in dict.fromkeys(collective for collective, _ in arms):
        own = [arm for arm in arms if arm[0] is collective]
        first = [arm for arm in own if arm[1] == BASELINE or (arm[1] == SILENT and not repeat)]
        others = [arm for arm in own if arm[1].role is Role.FORCED]
        drawn.shuffle(others)
        yield from (*first, *others)


def _settings(sweep: Sweep, collective: Collective) -> tuple[Setting, ...]:
    """Settings that are named, or the pairs of AMD's documents; none where no tuner is asked."""
    if not collective.is_tunable:
        return ()
    if sweep.settings:
        return tuple(one for one in sweep.settings if plan.has(collective, one))
    usual = [one for one in plan.usual_settings(collective) if one.algorithm in _ALGORITHMS]
    return (*usual, *(replace(one, channels=n) for one in usual for n in sweep.counts))


def why_left_out(setting: Setting, sweep: Sweep, site: Site) -> str | None:
    """Why a setting is not measured; None where it is."""
    if not is_gated(site):
        return None
    if (setting.algorithm, setting.protocol) == (Algorithm.TREE, Protocol.SIMPLE):
        forced = f"--env {'='.join(TREE_SIMPLE_FORCED)}"
        if not site.has_patched_library:
            return (
                "this RCCL leaves Tree with Simple out on one node; --librccl FILE of a build "
                f"after scripts/enable-tree-simple measures it, with {forced}"
            )
        return None if TREE_SIMPLE_FORCED in site.environment else f"{forced} measures it"
    # Who names it tries it.
    is_tried = bool(sweep.settings) or LL128_FORCED in site.environment
    if setting.protocol is Protocol.LL128 and not is_tried:
        return (
            f"this RCCL leaves LL128 out on one node; --env {'='.join(LL128_FORCED)} measures it, "
            "in a session of its own"
        )
    return None


def is_gated(site: Site) -> bool:
    """Whether the library there leaves LL128, and Tree with Simple, out by itself."""
    arch = site.fingerprint.arch or ""
    return arch.startswith(_GATED) and site.scale.n_nodes < TREE_SIMPLE_NEEDS_NODES


def call_of(
    sweep: Sweep, collective: Collective, *, graph: bool, shows: bool = False
) -> BenchmarkCall:
    """What every launch of a collective calls."""
    return BenchmarkCall(
        collective=collective,
        min_nbytes=sweep.min_nbytes,
        max_nbytes=sweep.max_nbytes,
        factor=sweep.factor,
        dtype=sweep.dtypes[0],
        op=sweep.redop,
        placements=sweep.placements,
        graph=graph,
        iterations=sweep.iterations,
        warmup=sweep.warmup,
        shows=shows,
    )


def forcing(setting: Setting, proof: ExecutionProof) -> tuple[tuple[str, str], ...]:
    """Variables that make a library take a setting, and those that let it be seen.

    Args:
        setting: the baseline's forces nothing.
        proof: what says that it ran.
    """
    pairs = overrides.switches(setting, tells=proof is ExecutionProof.LOG)
    if setting == BASELINE or proof is not ExecutionProof.DECISIONS:
        return pairs
    # Of a communicator's channels the library's log tells, once at its start.
    told = _TELL_TUNER if setting.channels is not None else ()
    return (
        *pairs,
        *told,
        ("NCCL_TUNER_PLUGIN", str(plugin.library())),
        ("RCCLTUNE_LOG", f"decisions:{{launch}}/{decisions.NAME}"),
    )


def launch_of(
    sweep: Sweep, site: Site, arm: Arm, repeat: int, proof: ExecutionProof, *, graph: bool
) -> Launch:
    """One launch of one setting; its id comes later, from all of its content."""
    collective, setting = arm
    call = call_of(sweep, collective, graph=graph, shows=proof is ExecutionProof.COLUMNS)
    one = Launch(
        id="",
        argv=rccl_tests.command(site, call),
        environment=site.environment,
        collectives=(collective,),
        settings=(setting,),
        scale=site.scale,
        rank_placement=sweep.rank_placement,
        repeat=repeat,
    )
    one = _with(one, forcing(setting, proof))
    return one if site.node is None else _with(one, _simulated(one, graph=graph))


def _simulated(one: Launch, *, graph: bool) -> tuple[tuple[str, str], ...]:
    """Noise depends on what is measured and not on how it is started."""
    name = f"{one.collectives[0].value} {setting_of(one)} {one.repeat}"
    pairs = [("RCCLTUNE_SIM_LAUNCH", name + " graph" * graph)]
    if TREE_SIMPLE_FORCED in one.environment:
        pairs.append(("RCCLTUNE_SIM_PATCHES", "force-tree-simple"))
    return tuple(pairs)


def _with(one: Launch, pairs: Sequence[tuple[str, str]]) -> Launch:
    """The launch with further variables, which win."""
    return replace(one, environment=tuple(sorted({**dict(one.environment), **dict(pairs)}.items())))


def expected_s(
    launches: Sequence[Launch], sweep: Sweep, site: Site, ended: Sequence[Outcome]
) -> float:
    """Seconds that launches roughly take: as those before did, else a guess that is high.

    Args:
        launches: to be made.
        sweep: they are of.
        site: where.
        ended: what was made before.
    """
    known = sorted(o.duration_s for o in ended if o.duration_s and o.status is Status.OK)
    if known:
        return len(launches) * known[len(known) // 2]
    start = site.start_s if site.start_s is not None else _START_S + _RANK_S * site.scale.n_ranks
    if site.node is not None:
        return len(launches) * start
    calls = (sweep.iterations + sweep.warmup + 1) * len(sweep.placements)
    nbytes, sizes = sweep.min_nbytes, []
    while nbytes <= sweep.max_nbytes:
        sizes.append(nbytes)
        nbytes *= max(sweep.factor, defaults.FACTOR)
    each = start + sum(calls * (_CALL_S + size / _BYTES_S) for size in sizes)
    return len(launches) * each
