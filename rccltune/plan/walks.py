"""Combined launches of many settings, at sizes that the benchmark can call.

A combined launch that hangs or crashes has measured whatever came before. What it did not reach is
made again without the setting at fault, as often as settings fail; each of those then has a
launch of its own. Everything follows from the planned combined launch and from how far its launches
came, so that an interrupted sweep goes on with the launches that an uninterrupted one makes.

One launch measures all settings of a collective and a variant, in interleaved repeats; the plugin
goes to the next one where the benchmark's table begins again (docs/inside/schedule.md).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import Final

from rccltune.model.measured import Launch, Questions, Schedule, Sweep
from rccltune.model.settings import SILENT, Role, Setting, Variant, base_variant
from rccltune.model.vocabulary import DTYPE_BYTES, Collective
from rccltune.plan.launches import (
    LONGEST_S,
    N_BASELINES,
    Arm,
    Ground,
    Plan,
    anchor_of,
    arms,
    baselines,
    benchmark_options,
    launch_of,
    pass_s,
    repeat_letter,
    sizes,
)
from rccltune.session.launches import REPEATING

_SHARE_NBYTES: Final = 16
# How far from its own size a call may be measured.  A time grows with its size, and less than in
# proportion, so it is off by no more than that: as much as --tolerance gives away.  No more is
# given to small sizes: of 288 pairs up to 2 KiB apart in five public logs (MI355X, GH200 and
# others) times differ by 5 % in the median, and by a third and more for a tenth.
NEAR: Final = 0.02


def unit_of(sweep: Sweep) -> int:
    """Bytes of an element."""
    return DTYPE_BYTES.get(sweep.dtypes[0], 4)


def grain(sweep: Sweep, collective: Collective, n_ranks: int) -> int:
    """Bytes between the sizes that a benchmark can call with.

    Where each rank has a share of the message it is whole elements of every share, and those are
    rounded down to 16 bytes, or to 4 elements in releases of 2024 (rccl-tests src/all_gather.cu,
    reduce_scatter.cu).
    """
    unit = unit_of(sweep)
    return n_ranks * max(_SHARE_NBYTES, 4 * unit) if collective.is_shared else unit


def called_sizes(sweep: Sweep, collective: Collective, n_ranks: int) -> tuple[int, ...]:
    """Sizes of the sweep as the benchmark's table shows them, rising, each once.

    A size that is rounded down to nothing is not among them: nothing is called there, and no
    tuner is asked.
    """
    unit = grain(sweep, collective, n_ranks)
    shown = dict.fromkeys(nbytes // unit * unit for nbytes in sizes(sweep))
    return tuple(nbytes for nbytes in shown if nbytes)


def nearest(sweep: Sweep, collective: Collective, n_ranks: int, nbytes: int) -> int | None:
    """The nearest size that can be called with; None where none is near (NEAR)."""
    unit = grain(sweep, collective, n_ranks)
    found = max(1, round(nbytes / unit)) * unit
    return found if abs(found - nbytes) <= NEAR * nbytes else None


def shows_steps(sweep: Sweep, collective: Collective, n_ranks: int) -> bool:
    """Whether the size falls where the table begins, be it the first time.

    Newer benchmarks warm up at the first size, twice that, and so on.
    """
    unit = grain(sweep, collective, n_ranks)
    warm = sweep.min_nbytes
    while 0 < warm <= sweep.max_nbytes // 2:
        warm *= 2
    called = called_sizes(sweep, collective, n_ranks)
    return len(called) > 1 and warm // unit * unit > called[0]


# The warm-up is one step of its own wherever two sizes or more are measured.
LEADING: Final = 1
Group = tuple[Collective, Variant]


def why_no_walk(sweep: Sweep, ground: Ground) -> str | None:
    """Why each setting needs a launch of its own here; None where launches can be combined."""
    tunable = [collective for collective in sweep.collectives if collective.is_tunable]
    n_ranks = ground.scale.n_ranks
    fewest = min((len(called_sizes(sweep, one, n_ranks)) for one in tunable), default=0)
    hindrances = (
        (ground.tunerless is not None, f"this library ({ground.tunerless}) has no tuner plugin"),
        (
            repeat_letter(ground) is None,
            "this benchmark cannot repeat its table (it has neither -N nor -s)",
        ),
        (not tunable, "none of these collectives asks a tuner"),
        (fewest < 2, "one size alone does not show where a step ends"),
        (
            not all(shows_steps(sweep, one, n_ranks) for one in tunable),
            "sizes from one to less than its double do not show where a step ends",
        ),
        (sweep.warmup < 1, "without warm-up calls the first use of a setting would be timed"),
    )
    return next((why for stands, why in hindrances if stands), None)


def plan_walks(sweep: Sweep, ground: Ground) -> Plan:
    """All launches of a sweep, as few as their length allows.

    Baselines have launches of their own: first, last and between, since the combined launch must be
    compared with the baseline and a drift must be seen.

    Args:
        sweep: what to measure.
        ground: what there is.
    """
    wanted, impossible = arms(sweep, ground)
    walks = whole_walks(sweep, ground, wanted)
    random.Random(f"{sweep.seed}/walks").shuffle(walks)  # noqa: S311 - an order, no secret
    launches: list[Launch] = []
    n = max(N_BASELINES, sweep.repeats)
    for repeat in range(n):
        launches += baselines(sweep, ground, repeat)
        start, end = (len(walks) * k // (n - 1) for k in (repeat, repeat + 1))
        launches += walks[start:end] if repeat < n - 1 else []
    return Plan(launches=tuple(launches), impossible=impossible)


def whole_walks(sweep: Sweep, ground: Ground, wanted: Iterable[Arm]) -> list[Launch]:
    """Combined launches over all sizes, by collective and variant in the order of these."""
    groups: dict[Group, list[Setting]] = {}
    for collective, setting, variant in wanted:
        groups.setdefault((collective, variant), []).append(setting)
    n_passes = LONGEST_S / pass_s(sweep)
    found: list[Launch] = []
    for (collective, variant), settings in groups.items():
        base = base_variant(variant)
        is_wider = base != variant and not variant.patched
        plain = groups.get((collective, base), ()) if is_wider else ()
        anchor = anchor_of(plain, ground, base)
        group = (collective, variant)
        found += walks_of(sweep, ground, group, settings, n_passes, anchor=anchor)
    return found


def walks_of(
    sweep: Sweep,
    ground: Ground,
    group: Group,
    settings: Sequence[Setting],
    n_passes: float,
    *,
    anchor: Setting | None = None,
    n_launches: int = 1,
    silence: bool = True,
) -> list[Launch]:
    """Launches of one group; settings are parted only where one repeat of all is too long.

    Args:
        sweep: sizes and repeats.
        ground: what there is.
        group: collective and variant, which all steps of a combined launch share.
        settings: forced ones; with none the idle plugin runs alone.
        n_passes: over the sizes, that one launch may make.
        anchor: a setting that runs in each of them too, so that they can be compared with others.
        n_launches: over which repeats are spread at least, as far as there are so many.
        silence: runs along.
    """
    n_passes = max(1.0, n_passes)
    shared = [anchor] if anchor is not None else []
    # A setting and silence, each thrown away once and kept once, is the least that can be.
    at_once = max(1, int(n_passes / 2) - 1 - len(shared))
    n_parts = max(1, ceil(len(settings) / at_once))
    return [
        walk
        for part in (list(settings[k::n_parts]) for k in range(n_parts))
        for walk in _repeats(
            sweep, ground, group, [*part, *shared], n_passes, n_launches=n_launches, silence=silence
        )
    ]


def _repeats(
    sweep: Sweep,
    ground: Ground,
    group: Group,
    settings: list[Setting],
    n_passes: float,
    *,
    n_launches: int,
    silence: bool,
) -> list[Launch]:
    turn = [SILENT, *settings] if silence else settings
    fit = max(1, int(n_passes / len(turn)) - 1)
    n_launches = max(min(n_launches, sweep.repeats), ceil(sweep.repeats / fit))
    shares = [sweep.repeats * (k + 1) // n_launches for k in range(n_launches)]
    counts = [end - start for start, end in zip([0, *shares], shares, strict=False)]
    return [
        _walk(sweep, ground, group, turn, n_repeats=count, number=number)
        for number, count in enumerate(counts)
    ]


def _walk(
    sweep: Sweep,
    ground: Ground,
    group: Group,
    turn: list[Setting],
    *,
    n_repeats: int,
    number: int,
) -> Launch:
    collective, variant = group
    steps = [SILENT] * LEADING + turn
    for repeat in range(n_repeats):
        order = list(turn)
        key = f"{sweep.seed}/{collective.value}/{variant.name}/{number}/{repeat}"
        random.Random(key).shuffle(order)  # noqa: S311 - an order, no secret
        steps += order
    arm = (collective, SILENT, variant)
    return replace(
        launch_of(sweep, ground, arm, number, len(steps) - LEADING),
        schedule=schedule_of(sweep, ground, collective, steps),
    )


def schedule_of(
    sweep: Sweep, ground: Ground, collective: Collective, steps: Sequence[Setting]
) -> Schedule:
    """What a launch goes through, the warm-up's steps among it."""
    return Schedule(
        settings=tuple(steps),
        scale=ground.scale,
        questions=_questions(sweep, ground, collective),
    )


def schedule_text(schedule: Schedule) -> str:
    """The file that the plugin goes by; its format is in docs/inside/schedule.md.

    Raises:
        ValueError: the schedule does not say for which scale it is.
    """
    if schedule.scale is None:
        raise ValueError("a schedule needs a scale")
    scale = schedule.scale
    head = f"#@ nodes={scale.n_nodes} ranks={scale.n_ranks} calls={schedule.calls}"
    n_spare = schedule.questions.spare if schedule.questions else 0
    steps = (*schedule.settings, *(SILENT,) * n_spare)
    return "\n".join(["#@ format 1", head, *map(str, steps), ""])


def _questions(sweep: Sweep, ground: Ground, collective: Collective) -> Questions:
    """docs/inside/schedule.md, "What each benchmark asks"."""
    options = benchmark_options(sweep, ground.letters, collective)
    halves = 1 if "-O" in options else 2
    return Questions(
        leading=LEADING,
        per_row=halves * (1 + sweep.iterations + int(sweep.check)) + ("-A" in options),
        extra=sweep.warmup,
        columns=int("-A" in options),
        spare=1,
    )


# A launch of a walk, and the steps of it that are proven, from its first one.
Walked = tuple[Launch, int]


def continuation(walk: Launch, walked: Sequence[Walked], barred: Container[Setting]) -> Launch:
    """The combined launch as it is still to be made.

    The warm-up's steps stay, and every setting that is left has its first pass thrown away again:
    a new communicator connects anew. The repeats that are left come in their planned order.

    Args:
        walk: as planned.
        walked: what was made of it so far.
        barred: settings that it must leave out.

    Returns:
        The combined launch itself where nothing of it was made and nothing is barred. Ids, attempts
        and what it is a part of are the caller's.

    Raises:
        ValueError: nothing is left (:func:`is_walked`), or it goes through nothing.
    """
    leading, steps = _parts(walk)
    left = _left(walk, walked, barred)
    if not _is_worth(left, steps):
        raise ValueError("nothing of this launch is left")
    turn = [setting for setting in dict.fromkeys(steps) if left[setting]]
    done = Counter(steps)
    done.subtract(Counter(turn))
    done.subtract(left)
    rest: list[Setting] = []
    skipped: Counter[Setting] = Counter()
    for setting in islice(steps, len(set(steps)), None):
        skipped[setting] += 1
        if left[setting] and skipped[setting] > done[setting]:
            rest.append(setting)
    return _walking(walk, (*leading, *turn, *rest))


def is_walked(walk: Launch, walked: Sequence[Walked], barred: Container[Setting]) -> bool:
    """Whether every setting that is not barred was kept as often as planned.

    The idle plugin runs along to be compared with; what is left of a combined launch is not made
    for it alone.
    """
    return not _is_worth(_left(walk, walked, barred), _parts(walk)[1])


def n_kept(walk: Launch, walked: Sequence[Walked], setting: Setting) -> tuple[int, int]:
    """How many passes of a setting were kept, and how many were planned."""
    planned = _kept(walk, None)[setting]
    return sum(_kept(one, n)[setting] for one, n in walked), planned


def alone(walk: Launch, setting: Setting) -> Launch:
    """A launch of one setting of a combined launch, as it is made where each setting has its own.

    Ids, attempts and the environment that chooses are the caller's.
    """
    at = _cycles_at(walk)
    return replace(
        walk,
        argv=(*walk.argv[:at], *walk.argv[at + 2 :]),
        schedule=Schedule(settings=(setting,), scale=walk.scale),
    )


def _parts(walk: Launch) -> tuple[tuple[Setting, ...], tuple[Setting, ...]]:
    """The warm-up's steps and the table's."""
    if walk.schedule is None or walk.schedule.questions is None:
        raise ValueError("this launch has no setting")
    n = walk.schedule.questions.leading
    return walk.schedule.settings[:n], walk.schedule.settings[n:]


def _kept(walk: Launch, n_steps: int | None) -> Counter[Setting]:
    """Passes of each setting behind its first one, among the first steps of a launch."""
    leading, steps = _parts(walk)
    whole = steps if n_steps is None else steps[: max(0, n_steps - len(leading))]
    return Counter({setting: n - 1 for setting, n in Counter(whole).items()})


def _left(walk: Launch, walked: Sequence[Walked], barred: Container[Setting]) -> Counter[Setting]:
    """Passes that are still to be kept."""
    left = _kept(walk, None)
    for one, n_steps in walked:
        left.subtract(_kept(one, n_steps))
    return Counter({s: n for s, n in left.items() if n > 0 and s not in barred})


def _is_worth(left: Counter[Setting], steps: Sequence[Setting]) -> bool:
    if all(setting.role is not Role.FORCED for setting in steps):
        return bool(left)
    return any(setting.role is Role.FORCED for setting in left)


def _walking(walk: Launch, steps: tuple[Setting, ...]) -> Launch:
    if walk.schedule is None or steps == walk.schedule.settings:
        return walk
    at = _cycles_at(walk)
    n_cycles = len(steps) - len(_parts(walk)[0])
    return replace(
        walk,
        argv=(*walk.argv[: at + 1], str(n_cycles), *walk.argv[at + 2 :]),
        schedule=replace(walk.schedule, settings=steps),
    )


def _cycles_at(walk: Launch) -> int:
    """Where the command line says how often the table is repeated; the last one counts."""
    return max(at for at, word in enumerate(walk.argv) if word in REPEATING)
