"""What one launch says of one size; and launches of two files, one an environment.

A launch goes S S R R, so that the second pass of each side follows its own kind, as calls do in a
job with or without the rules. What is compared are these settled passes; the first of each, behind
the other side, serves the control: the idle plugin behind the rules against the idle plugin behind
itself.

The idle plugin in the one, beside the idle plugin in the other, says what the environment does by
itself. Both are combined launches, so that what a recorded combined launch costs (half a
microsecond a call) is in both.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from math import inf, log
from pathlib import Path
from statistics import fmean, median
from typing import Final

from rccltune.measure.ledger import SIM_LAUNCH
from rccltune.model.chosen import Rule
from rccltune.model.measured import Launch, Outcome, Sample, Status
from rccltune.model.settings import DEFAULT_VARIANT, RULES, SILENT, Target, View
from rccltune.model.vocabulary import Doubt
from rccltune.session import launches
from rccltune.session.launches import REPEATING, is_walk
from rccltune.session.samples import Ended

# A pass this many times as slow as the fastest of its arm hit a stall.
STALL: Final = 1.5
Key = tuple[Target, View, int]
# Results that are wrong were measured all the same.
_TIMED: Final = (None, Doubt.WRONG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One size in one launch; times in µs, the rest natural logarithms of their ratios.

    Attributes:
        silent_us: of the side that the rules are held against.
        gain: time of that side / time with the rules, of passes without a stall.
        mean_gain: the same of all passes.
        control: time of the idle plugin behind the rules / behind the idle plugin; None where
            nothing took turns.
        stalls: passes that hit a stall, of each side, the idle plugin first.
        n_passes: settled passes of each side.
    """

    silent_us: float
    tuned_us: float
    gain: float
    mean_gain: float
    control: float | None = None
    stalls: tuple[int, int] = (0, 0)
    n_passes: tuple[int, int] = (1, 1)


def is_of(rule: Rule, key: Key) -> bool:
    """Whether a rule answers what was compared, whatever stands before it in its file."""
    return key[0].collective is rule.collective and rule.reaches(key[2])


def key_of(sample: Sample) -> Key:
    """What both sides are compared by: the variant is what they differ in."""
    target = replace(sample.key.target, variant=DEFAULT_VARIANT)
    return target, sample.key.view, sample.nbytes


def cells_of(walk: Launch, samples: Iterable[Sample]) -> dict[Key, Cell]:
    """Every size of a launch, with the plugin idle and with the rules.

    Args:
        walk: the launch, with its schedule.
        samples: of it, each with its step.

    Returns:
        Sizes at which both sides have a settled pass.
    """
    # Behind the last step there is silence.
    steps = (*(walk.schedule.settings if walk.schedule else ()), SILENT)
    settled = [False, *(before == after for before, after in pairwise(steps))]
    usable = [one for one in samples if one.doubt in _TIMED and one.step is not None]
    sides, kinds = _kinds(usable)
    # The first pass of each arm pays for its connections, wrong results or not.
    paid: dict[int, int] = {}
    for one in usable:
        arm, step = kinds[id(one.key)][1], one.step or 0
        paid[arm] = min(step, paid.get(arm, step))
    timed: dict[tuple[int, int], dict[tuple[int, bool], list[float]]] = {}
    for one in usable:
        side, arm = kinds[id(one.key)]
        if one.time_us is None or one.step is None:
            continue
        if one.doubt is Doubt.WRONG and one.step == paid[arm]:
            # A wrong result hides that a pass was the first of its side.
            continue
        arms = timed.setdefault((side, one.nbytes), {})
        arms.setdefault((arm, settled[one.step]), []).append(one.time_us)
    return {
        (*sides[side], nbytes): cell_of(
            arms[_IDLE, True],
            arms[_TUNED, True],
            arms.get((_IDLE, False), ()),
            arms.get((_TUNED, False), ()),
        )
        for (side, nbytes), arms in timed.items()
        if (_IDLE, True) in arms and (_TUNED, True) in arms
    }


_ARMS: Final = (SILENT, RULES)
_IDLE, _TUNED = range(len(_ARMS))


def _kinds(
    samples: Iterable[Sample],
) -> tuple[list[tuple[Target, View]], dict[int, tuple[int, int]]]:
    """Targets and views, and for each key object which of them it has, idle or by rules.

    A launch has thousands of samples and few keys: to hash all that is in a key for each of them
    took most of the time.
    """
    sides: dict[tuple[Target, View], int] = {}
    kinds: dict[int, tuple[int, int]] = {}
    for one in samples:
        if id(one.key) not in kinds:
            target, view, _ = key_of(one)
            side = sides.setdefault((target, view), len(sides))
            setting = one.key.setting
            kinds[id(one.key)] = side, _ARMS.index(setting) if setting in _ARMS else len(_ARMS)
    return list(sides), kinds


def times_of(samples: Iterable[Sample]) -> dict[Key, float]:
    """Median time in µs of each size of a launch whose passes are all of one kind."""
    found: dict[Key, list[float]] = {}
    for one in samples:
        if one.doubt in _TIMED and one.time_us is not None:
            found.setdefault(key_of(one), []).append(one.time_us)
    return {key: median(times) for key, times in found.items()}


def cells_between(untouched: Mapping[Key, float], tuned: Mapping[Key, float]) -> dict[Key, Cell]:
    """Sizes of two launches, where no launch can have both sides; times in µs."""
    return {
        key: Cell(
            silent_us=untouched[key],
            tuned_us=tuned[key],
            gain=log(untouched[key] / tuned[key]),
            mean_gain=log(untouched[key] / tuned[key]),
        )
        for key in tuned
        if key in untouched
    }


def cell_of(
    silent: Sequence[float],
    tuned: Sequence[float],
    behind: Sequence[float],
    first: Sequence[float] = (),
) -> Cell:
    """One size in one launch; all times in µs.

    Args:
        silent: of settled passes without the rules, at least one.
        tuned: the same with them.
        behind: of the idle plugin in the first pass behind the rules.
        first: of the rules in the first pass behind the idle plugin.
    """
    least, ours_least = min(*silent, *behind, inf), min(*tuned, *first, inf)
    usual, ours = _usual(silent, least, behind), _usual(tuned, ours_least, first)
    return Cell(
        silent_us=usual,
        tuned_us=ours,
        gain=log(usual / ours),
        mean_gain=log(fmean(silent) / fmean(tuned)),
        control=log(_usual(behind, least, silent) / usual) if behind else None,
        stalls=(_n_stalls(silent, least), _n_stalls(tuned, ours_least)),
        n_passes=(len(silent), len(tuned)),
    )


def _usual(times: Sequence[float], least: float, others: Sequence[float]) -> float:
    """Median of those that hit no stall; of the others of its side where all did."""
    fine = [time for time in times if time <= STALL * least]
    return median(fine or [time for time in others if time <= STALL * least])


def _n_stalls(times: Sequence[float], least: float) -> int:
    return sum(time > STALL * least for time in times)


def checked_in(samples: Iterable[Sample]) -> set[Key]:
    """Sizes at which results were checked with the rules."""
    return {key_of(one) for one in samples if one.n_wrong is not None and one.key.setting != SILENT}


def wrong_in(samples: Iterable[Sample]) -> dict[Key, int]:
    """Wrong elements by size, at least one for each timing that was wrong."""
    found: dict[Key, int] = {}
    for one in samples:
        if one.doubt is Doubt.WRONG:
            found[key_of(one)] = found.get(key_of(one), 0) + max(1, one.n_wrong or 0)
    return found


# Further apart in time, clocks and temperatures may have changed more than environments do.
_APART: Final = timedelta(minutes=5)
_VARYING: Final = frozenset({"NCCL_TUNER_CONFIG_FILE", SIM_LAUNCH})


def calls_alike(one: Launch, other: Launch) -> bool:
    """Whether two launches call the same sizes in the same way, however often."""
    return _called(one) == _called(other)


def _called(one: Launch) -> tuple[object, ...]:
    behind = {at + 1 for at, word in enumerate(one.argv) if word in REPEATING}
    argv = tuple(word for at, word in enumerate(one.argv) if at not in behind)
    return (one.collectives, argv, one.beside, one.rank_placement)


def nearest(
    walk: Launch, needs: Collection[str], ended: Iterable[Ended], taken: Collection[str]
) -> Ended | None:
    """The launch nearest in time that differs in rules and in what these need.

    Args:
        walk: whose rules need something; one that is still to be made stands beside nothing.
        needs: names of variables.
        ended: launches of the same folder.
        taken: ids of launches that stand beside another combined launch.
    """
    made = [pair for pair in ended if pair[1].status is Status.OK]
    own = next((outcome for one, outcome in made if one.id == walk.id), None)
    if own is None:
        return None
    at = _started(own)
    found = [
        (abs(_started(outcome) - at), (one, outcome))
        for one, outcome in made
        if one.id not in taken
        and is_walk(one)
        and calls_alike(one, walk)
        and _site(one) == _site(walk, needs)
    ]
    apart, pair = min(found, key=lambda each: each[0], default=(_APART, None))
    return pair if apart < _APART else None


def silence(pair: Ended, folder: Path) -> dict[Key, float]:
    """Times in µs of a combined launch without its rules, by size.

    Args:
        pair: the combined launch, and how it ended.
        folder: of the verification.
    """
    walk, outcome = pair
    made = cells_of(walk, launches.read_launch(walk, folder, outcome))
    return {key: cell.silent_us for key, cell in made.items()}


def _site(one: Launch, needs: Collection[str] = ()) -> dict[str, str]:
    """A combined launch's environment without its rules and what these need."""
    return {n: v for n, v in one.environment if n not in _VARYING and n not in needs}


def _started(outcome: Outcome) -> datetime:
    return datetime.fromisoformat(outcome.started or "1970-01-01T00:00:00+00:00")
