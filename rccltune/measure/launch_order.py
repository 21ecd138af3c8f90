"""The launches of a sweep by rccl-tests: the library as it is and every setting, in turns.

One launch measures one setting of one collective at all sizes. One more has our plugin loaded and
nothing forced, which shows at which sizes a tuner is asked at all. A repetition goes through all of
them once, the baseline first and the settings in an order of its own, so that a drift of the
machine hits all alike; the launch is what is repeated. A variant is measured as a whole: what the
library does in its environment by itself, and every setting that a tuner could choose there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
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
    DEFAULT_VARIANT,
    LL128_FORCED,
    SILENT,
    TREE_SIMPLE_PATCHED,
    Role,
    Setting,
    Variant,
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


Arm = tuple[Collective, Setting, Variant]


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
    for variant, collective in product(sweep.variants, sweep.collectives):
        if variant.serves and collective not in variant.serves:
            continue
        if collective not in site.programs:
            missing = f"there is no {collective.benchmark} beside the other benchmarks"
            left_out.append(
                UnmeasuredSetting(collective=collective, setting=BASELINE, reason=missing)
            )
            continue
        arms.append((collective, BASELINE, variant))
        settings = _settings(sweep, collective, variant)
        if settings and proof is ExecutionProof.DECISIONS:
            # NCCL_ALGO switches paths off that go around a tuner; this launch shows where they are.
            arms.append((collective, SILENT, variant))
        for setting in settings:
            own, reason = variant_for(setting, variant, sweep, site)
            if reason is None:
                arms.append((collective, setting, own))
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
    for collective in dict.fromkeys(collective for collective, *_ in arms):
        own = [arm for arm in arms if arm[0] is collective]
        first = [arm for arm in own if arm[1] == BASELINE or (arm[1] == SILENT and not repeat)]
        others = [arm for arm in own if arm[1].role is Role.FORCED]
        drawn.shuffle(others)
        yield from (*first, *others)


def _settings(sweep: Sweep, collective: Collective, variant: Variant) -> tuple[Setting, ...]:
    """Settings that are named, or the pairs of AMD's documents; none where no tuner is asked."""
    if not collective.is_tunable or variant.path:
        return ()
    if sweep.settings:
        return tuple(one for one in sweep.settings if plan.has(collective, one))
    usual = [one for one in plan.usual_settings(collective) if one.algorithm in _ALGORITHMS]
    return (*usual, *(replace(one, channels=n) for one in usual for n in sweep.counts))


def variant_for(
    setting: Setting, variant: Variant, sweep: Sweep, site: Site
) -> tuple[Variant, str | None]:
    """The environment that a setting is measured in, and why it is not; None where it is."""
    gated = is_gated(site)
    if gated and (setting.algorithm, setting.protocol) == (Algorithm.TREE, Protocol.SIMPLE):
        if not site.has_patched_library:
            return variant, (
                "this RCCL leaves Tree with Simple out on one node; --librccl FILE of a build "
                "after scripts/enable-tree-simple measures it"
            )
        if variant != DEFAULT_VARIANT:
            return variant, "Tree with Simple is measured once, in the patched library's own way"
        return TREE_SIMPLE_PATCHED, None
    (switch,) = LL128_FORCED.environment
    is_forced = switch in variant.environment or switch in site.environment
    # Who names it tries it, where it is not measured with its variable anyway.
    tries = bool(sweep.settings) and not any(switch in one.environment for one in sweep.variants)
    if gated and setting.protocol is Protocol.LL128 and not (is_forced or tries):
        return variant, (
            f"this RCCL leaves LL128 out on one node; --variant {LL128_FORCED.name} measures it"
        )
    return variant, None


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
    collective, setting, variant = arm
    call = call_of(sweep, collective, graph=graph, shows=proof is ExecutionProof.COLUMNS)
    one = Launch(
        id="",
        argv=rccl_tests.command(site, call, variant),
        environment=site.environment,
        collectives=(collective,),
        settings=(setting,),
        variant=variant,
        scale=site.scale,
        rank_placement=sweep.rank_placement,
        repeat=repeat,
    )
    one = _with(one, (*variant.environment, *forcing(setting, proof)))
    return one if site.node is None else _with(one, _simulated(one, graph=graph))


def _simulated(one: Launch, *, graph: bool) -> tuple[tuple[str, str], ...]:
    """Noise depends on what is measured and not on how it is started."""
    name = f"{one.collectives[0].value} {setting_of(one)} {one.repeat}"
    if one.variant != DEFAULT_VARIANT:
        name += f" {one.variant.name}"
    pairs = [("RCCLTUNE_SIM_LAUNCH", name + " graph" * graph)]
    if one.variant.one_process:
        pairs.append(("RCCLTUNE_SIM_RANKS", "1"))
    if one.variant.patched:
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
