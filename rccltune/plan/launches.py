"""A launch for each setting, in an order that spreads drift; and what all plans share."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final

from rccltune.model.measured import Launch, Outcome, Schedule, Status, Sweep
from rccltune.model.search import Range
from rccltune.model.settings import (
    BASELINE,
    DEFAULT_VARIANT,
    LL128_FORCED,
    TREE_SIMPLE_PATCHED,
    Role,
    Scale,
    Setting,
    Variant,
    widened_by,
)
from rccltune.model.vocabulary import (
    TREE_SIMPLE_NEEDS_NODES,
    Algorithm,
    Collective,
    Placement,
    Protocol,
)
from rccltune.session.launches import REPEATING, passes_of

N_BASELINES: Final = 3
# What is taken for a launch's start-up before one was measured: 64 ranks of RCCL take tens of
# seconds on hardware (no published figure; see docs/sweep.md), eight a few.
_START_S: Final = 0.5
_GATED: Final = ("gfx94", "gfx95")
# A launch that fails takes no more than this along; one that needs two passes may take longer.
LONGEST_S: Final = 120.0
_PASSES: Final = 2
_SIZES: Final = ("-b", "-e", "-f", "-i")
_TOLD: Final = (*_SIZES, "-n", "-w")
_LEFT_OUT: Final = "this RCCL leaves Tree with Simple out on one node; "
_UNPATCHED: Final = (
    _LEFT_OUT + "point --librccl at a build with the change of scripts/enable-tree-simple to "
    "measure it"
)
Arm = tuple[Collective, Setting, Variant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What there is to measure on.

    Attributes:
        programs: benchmark of each collective.
        letters: option letters that the benchmark's --help lists.
        launch: from ranks and program to the whole command line.
        arch: ``gfx942`` …, None for GPUs of another vendor.
        ll128: the variant that makes LL128 selectable, where it is not by itself.
        has_patched_library: whether --librccl is a build that can run Tree with Simple.
        environment: set in every side, baseline included (--env and what the launcher needs).
        tunerless: the library (``RCCL 2.20.5``) where it is too old to load the plugin, so that
            its own switches must force a setting; None where it loads it or is not known.
        shares: the launcher's options for a job on devices that another job uses already.
    """

    programs: Mapping[Collective, str]
    letters: frozenset[str]
    launch: Callable[[int, tuple[str, ...]], tuple[str, ...]]
    scale: Scale
    arch: str | None
    has_patched_library: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    tunerless: str | None = None
    shares: tuple[str, ...] = ()
    ll128: Variant = LL128_FORCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """A setting that cannot be measured here, and why."""

    collective: Collective
    setting: Setting
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Launches in their order, ids still empty, and what is left out."""

    launches: tuple[Launch, ...]
    impossible: tuple[Impossible, ...]


def sizes(sweep: Sweep) -> tuple[int, ...]:
    """The sizes that rccl-tests steps through, before it rounds them to whole elements."""
    return Range(
        min_nbytes=sweep.min_nbytes,
        max_nbytes=sweep.max_nbytes,
        factor=sweep.factor,
        step_nbytes=sweep.step_nbytes,
    ).sizes


def sizes_of(launch: Launch) -> str:
    """The sizes of a launch as its command line has them."""
    told = {a: b for a, b in itertools.pairwise(launch.argv) if a in _SIZES}
    return " ".join(f"{a} {b}" for a, b in told.items())


def over_own(sweep: Sweep, launch: Launch) -> Sweep:
    """The sweep over the launch's own sizes and calls, where its command line says them."""
    told = {a: int(b) for a, b in itertools.pairwise(launch.argv) if a in _TOLD and b.isdigit()}
    return replace(
        sweep,
        iterations=told.get("-n", sweep.iterations),
        warmup=told.get("-w", sweep.warmup),
        min_nbytes=told.get("-b", sweep.min_nbytes),
        max_nbytes=told.get("-e", sweep.max_nbytes),
        factor=told.get("-f", sweep.factor),
        step_nbytes=told.get("-i") if {"-f", "-i"} & told.keys() else sweep.step_nbytes,
    )


def plan(sweep: Sweep, ground: Ground) -> Plan:
    """All launches of a sweep.

    First the baselines, whose spread says whether the machine is fit to be measured; then whole
    rounds, each in an order of its own, so that a drift hits every setting alike.
    """
    wanted, impossible = arms(sweep, ground)
    launches = [
        launch
        for repeat in range(max(N_BASELINES, sweep.repeats))
        for launch in baselines(sweep, ground, repeat)
    ]
    for repeat in range(sweep.repeats):
        turn = list(wanted)
        random.Random(f"{sweep.seed}/{repeat}").shuffle(turn)  # noqa: S311 - an order, no secret
        launches += [launch_of(sweep, ground, arm, repeat) for arm in turn]
    return Plan(launches=tuple(launches), impossible=impossible)


def arms(
    sweep: Sweep, ground: Ground, base: Variant = DEFAULT_VARIANT
) -> tuple[list[Arm], tuple[Impossible, ...]]:
    """What can be measured in a variant, with the environment that it needs, and what cannot."""
    impossible: list[Impossible] = []
    wanted: list[Arm] = []
    for collective in sweep.collectives:
        for setting in _settings(sweep, collective):
            variant = variant_of(setting, ground, base)
            reason = why_impossible(collective, setting, variant, ground)
            if reason is None:
                wanted.append((collective, setting, variant))
            else:
                impossible.append(Impossible(collective=collective, setting=setting, reason=reason))
    return wanted, tuple(impossible)


def _settings(sweep: Sweep, collective: Collective) -> tuple[Setting, ...]:
    """Those asked for; the usual ones otherwise, with each channel count beside."""
    usual = sweep.settings or default_settings(collective)
    if sweep.settings:
        return usual
    return (*usual, *(replace(s, channels=n) for s in usual for n in sweep.counts))


def baselines(
    sweep: Sweep, ground: Ground, repeat: int, variant: Variant = DEFAULT_VARIANT
) -> list[Launch]:
    """One launch for each collective in which nothing of ours is loaded.

    In the default variant that is the baseline.
    """
    return [
        launch_of(sweep, ground, (collective, BASELINE, variant), repeat)
        for collective in sweep.collectives
        if collective in ground.programs
    ]


def default_settings(collective: Collective) -> tuple[Setting, ...]:
    """Ring with each protocol, and for all_reduce the tree; channels are left to the library."""
    algorithms = [Algorithm.RING]
    if collective.has_tree:
        algorithms.insert(0, Algorithm.TREE)
    if not collective.is_tunable:
        return ()
    return tuple(Setting(algorithm=a, protocol=p) for a in algorithms for p in Protocol)


def why_impossible(
    collective: Collective, setting: Setting, variant: Variant, ground: Ground
) -> str | None:
    """Why a setting cannot run here; None where it can be tried."""
    only_tree = setting.algorithm is Algorithm.TREE and not collective.has_tree
    silent = setting.role is Role.SILENT and ground.tunerless is not None
    reasons = (
        (
            collective not in ground.programs,
            f"there is no {collective.benchmark} beside the other benchmarks",
        ),
        (
            not collective.is_tunable,
            f"{collective.value} never asks a tuner; it is measured as it is",
        ),
        (only_tree, "only all_reduce has a tree"),
        (
            silent,
            f"a plugin that answers nothing must be loaded, and {ground.tunerless} loads none",
        ),
        (variant.patched and not ground.has_patched_library, _UNPATCHED),
    )
    return next((why for stands, why in reasons if stands), None)


def variant_of(setting: Setting, ground: Ground, base: Variant = DEFAULT_VARIANT) -> Variant:
    """The environment that a setting needs on this GPU, beside that of the variant it is in."""
    gated = ground.arch is not None and ground.arch.startswith(_GATED)
    one_node = ground.scale.n_nodes < TREE_SIMPLE_NEEDS_NODES
    if not (gated and one_node):
        return base
    if setting.protocol is Protocol.LL128:
        return widened_by(base, ground.ll128)
    if (setting.algorithm, setting.protocol) == (Algorithm.TREE, Protocol.SIMPLE):
        return TREE_SIMPLE_PATCHED
    return base


def anchor_of(
    settings: Iterable[Setting], ground: Ground, base: Variant = DEFAULT_VARIANT
) -> Setting | None:
    """The setting that runs in launches of a wider environment too, so that they can be compared.

    Ring with Simple where it is there: on two H100 its time differs by 1 % between launches at
    sizes where that of LL differs by 10 %, and it is quick where sizes are dear.
    """
    plain = [one for one in settings if variant_of(one, ground, base) == base]
    return min(
        (one for one in plain if one.role is Role.FORCED),
        key=lambda one: (
            (one.algorithm, one.protocol) != (Algorithm.RING, Protocol.SIMPLE),
            one.channels is not None,
        ),
        default=None,
    )


def launch_of(
    sweep: Sweep, ground: Ground, arm: Arm, repeat: int, n_passes: int = _PASSES
) -> Launch:
    """One launch of one setting; the id comes later, from all of its content.

    It prints its table twice where the benchmark can: what serves sizes in the middle is first used
    there, since benchmarks warm up some sizes only, and clocks rise. The first pass pays for that
    and does not count, as in a combined launch, so that no side is held against a colder one.
    """
    collective, setting, variant = arm
    options = benchmark_options(sweep, ground.letters, collective)
    letter = repeat_letter(ground)
    program = (
        ground.programs[collective],
        *_varied(options, variant, ground.scale.n_ranks),
        *((letter, str(n_passes)) if letter else ()),
    )
    return Launch(
        id="",
        argv=ground.launch(1 if variant.one_process else ground.scale.n_ranks, program),
        environment=tuple(
            sorted({**dict(ground.environment), **dict(variant.environment)}.items())
        ),
        collectives=(collective,),
        schedule=Schedule(settings=(setting,), scale=ground.scale),
        variant=variant,
        scale=ground.scale,
        rank_placement=sweep.rank_placement,
        repeat=repeat,
    )


def repeat_letter(ground: Ground) -> str | None:
    """The option that has this benchmark print its table several times; None where it cannot."""
    return next((one for one in REPEATING if one[1] in ground.letters), None)


def _varied(options: tuple[str, ...], variant: Variant, n_ranks: int) -> tuple[str, ...]:
    """The benchmark's options with those of a variant, which win."""
    pairs = dict(zip(options[::2], options[1::2], strict=True))
    pairs |= {letter: value.replace("{ranks}", str(n_ranks)) for letter, value in variant.options}
    return tuple(part for pair in pairs.items() for part in pair)


def benchmark_options(
    sweep: Sweep, letters: frozenset[str], collective: Collective
) -> tuple[str, ...]:
    """Options of rccl-tests; every default that moved between releases is given explicitly."""
    step = ("-i", sweep.step_nbytes) if sweep.step_nbytes else ("-f", sweep.factor)
    pairs: list[tuple[str, object]] = [
        ("-b", sweep.min_nbytes),
        ("-e", sweep.max_nbytes),
        step,
        ("-n", sweep.iterations),
        ("-w", sweep.warmup),
        ("-c", int(sweep.check)),
        ("-g", 1),
        ("-d", sweep.dtypes[0]),
    ]
    if collective.reduces:
        pairs.append(("-o", sweep.redop))
    if sweep.graph:
        pairs.append(("-G", sweep.graph))
    if "A" in letters:
        pairs.append(("-A", 1))
    if len(sweep.placements) == 1 and "O" in letters:
        pairs.append(("-O", int(sweep.placements[0] is Placement.OUT_OF_PLACE)))
    return tuple(str(part) for pair in pairs for part in pair)


def with_ids(plan: Plan, identify: Callable[[Launch], str]) -> Plan:
    """The same plan with the launches' ids, which are hashes of their content."""
    named = tuple(replace(launch, id=identify(launch)) for launch in plan.launches)
    return replace(plan, launches=named)


def estimate_s(
    launches: Sequence[Launch],
    sweep: Sweep,
    finished: Iterable[Outcome] = (),
    start_s: float | None = None,
) -> float:
    """Seconds that launches will take.

    Args:
        launches: those to be made, each with its own sizes.
        sweep: their calls, and the sizes of launches that do not say theirs.
        finished: launches that have ended; their median is the best guess there is.
        start_s: what a launch is known to take, None where only a rough model is left.
    """
    known = [o.duration_s for o in finished if o.duration_s is not None]
    if known and all(
        launch.schedule is None or len(launch.schedule.settings) == 1 for launch in launches
    ):
        return len(launches) * median(known)
    if start_s is not None:
        return len(launches) * start_s
    start = starting_s(launches, known)
    return sum(start + passes_of(one) * pass_s(over_own(sweep, one)) for one in launches)


def left_s(
    launches: Sequence[Launch],
    sweep: Sweep,
    ended: Iterable[tuple[Launch, Outcome]],
    share: float = 1.0,
) -> float | None:
    """Seconds that launches will take, by what others took; None while nobody can know.

    A launch takes a start and a share of what its calls would take by :func:`pass_s`, both fitted
    by least squares and neither below zero. Where that is not within a factor of two of what the
    last three took, or fewer than two have ended well, no number is better than a wrong one.

    Args:
        launches: those to be made.
        sweep: their calls.
        ended: launches of the same session.
        share: time that goes by for each second of a launch.
    """

    def calls_s(one: Launch) -> float:
        return passes_of(one) * pass_s(over_own(sweep, one))

    seen = [
        (calls_s(one), outcome.duration_s)
        for one, outcome in ended
        if outcome.duration_s is not None and outcome.status is Status.OK
    ]
    if len(seen) < 2:
        return None
    mean_calls, mean_s = (fmean(column) for column in zip(*seen, strict=True))
    spread = sum((calls - mean_calls) ** 2 for calls, _ in seen)
    both = sum((calls - mean_calls) * (took - mean_s) for calls, took in seen)
    slope = min(max(0.0, both / spread if spread else 0.0), mean_s / mean_calls)
    start = mean_s - slope * mean_calls
    by_calls = sum(start + slope * calls_s(one) for one in launches)
    by_last = len(launches) * fmean(took for _, took in seen[-3:])
    if not by_last / 2 <= by_calls <= 2 * by_last:
        return None
    return share * math.sqrt(by_calls * by_last)


def starting_s(launches: Iterable[Launch], known: Iterable[float] = ()) -> float:
    """Seconds that one of some launches takes beside its collectives, guessed from its ranks.

    Args:
        launches: of them the one with the most ranks.
        known: what launches took; the shortest was little more than its start.
    """
    ranks = max((launch.scale.n_ranks for launch in launches if launch.scale), default=1)
    return min([2.0 + _START_S * ranks, *known])


def pass_s(sweep: Sweep) -> float:
    """Seconds for one pass over the sizes, guessed high: 50 µs and 10 GB/s."""
    calls = (sweep.iterations + sweep.warmup) * len(sweep.placements)
    return sum(calls * (50e-6 + nbytes / 10e9) for nbytes in sizes(sweep))


def digest(plan: Plan) -> str:
    """A name for the whole plan."""
    text = "\n".join(launch.id for launch in plan.launches)
    return hashlib.sha256(text.encode()).hexdigest()[:10]
