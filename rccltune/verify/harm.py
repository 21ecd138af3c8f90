"""Sizes that no rule answers: what rules, plugin or environment do there all the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import log, log1p
from pathlib import Path
from typing import Final

from rccltune.model.chosen import Rule
from rccltune.model.defaults import LEVEL
from rccltune.model.errors import HarmError
from rccltune.model.settings import Target
from rccltune.model.vocabulary import Collective, format_span
from rccltune.rules.reader import RuleFile
from rccltune.verify import cuts
from rccltune.verify.cells import Key
from rccltune.verify.cuts import Cut
from rccltune.verify.evidence import Evidence, Side
from rccltune.verify.intervals import (
    LEAST,
    Around,
    Estimate,
    Value,
    by_launch,
    over,
    variance_about_mean,
)

# Harm is believed when two looks see it that share nothing; of each this is the chance to err.
_LEVEL: Final = 1e-3
# Harm of what rules need is believed at once if luck makes it this seldom, and looked at again if
# luck makes it so often: one file in twenty would lose its rules to the second alone.
_CERTAIN: Final = 1e-4
_SUSPECTED: Final = LEVEL / 10
# A mean loss below this is nobody's harm, whatever the launches agree on.
_SLIGHT: Final = log(1.005)
# An environment must be shown not to cost this much where no rule answers.
_EQUIVALENT: Final = log(1.015)
_OCTAVES: Final = 2.0
_FEWEST: Final = 9
Sizes = Mapping[Collective, frozenset[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentGain:
    """Neighbouring sizes without a rule at which variables alone make a collective faster.

    Attributes:
        gain: log(untouched time / time with the variables), of the placement that gains least.
    """

    collective: Collective
    min_nbytes: int
    max_nbytes: int
    gain: Estimate

    def __str__(self) -> str:
        """``all_gather 16 MiB to 256 MiB: 1.05x (1.04 to 1.06), 8 launches``."""
        span = format_span(self.min_nbytes, self.max_nbytes)
        return f"{self.collective.value} {span}: {self.gain}, {self.gain.n_launches} launches"


class Environment(Enum):
    """What is known of what rules need, at sizes without a rule."""

    HARMLESS = "not slower"
    UNDECIDED = "undecided"
    HARMFUL = "slower"


def harmed(evidence: Evidence, answered: Callable[[Target, int], bool]) -> Sizes:
    """Sizes that no rule answers and that are slower with certainty, together or in a window.

    Args:
        evidence: of one look alone.
        answered: whether it was the rule for a size that answered there.
    """
    found: dict[Collective, frozenset[int]] = {}
    for side, sizes in _free(evidence.cells, answered).items():
        windows = _windows(sizes)
        level = _LEVEL / len(windows)
        for window in windows:
            gains = evidence.gains(side, window.__contains__)
            differences = evidence.differences(side, window.__contains__)
            if _is_slower(by_launch(gains), level) or _is_slower(by_launch(differences), level):
                collective = side[0].collective
                found[collective] = found.get(collective, frozenset()) | window
    return found


def environment(
    evidence: Evidence, answered: Callable[[Target, int], bool]
) -> tuple[Environment, Estimate | None]:
    """Whether the idle plugin under what the rules need is as fast as the baseline, without a rule.

    Args:
        evidence: of all looks at one state of a file.
        answered: whether it was the rule for a size that answered there.

    Returns:
        And the largest mean loss over all such sizes of a collective; None where every size has
        a rule.
    """
    free = _free(evidence.beside, answered)
    differences: dict[Target, list[Value]] = {}
    for side, sizes in free.items():
        # A launch has both views, so that both say of it what neither says alone.
        found = evidence.differences(side, sizes.__contains__)
        differences.setdefault(side[0], []).extend(found)
    means = [_pooled(found) for found in differences.values()]
    worst = min(means, key=lambda mean: mean.low(LEVEL), default=None)
    is_suspected = False
    for side, sizes in free.items():
        windows = _windows(sizes)
        values = [evidence.differences(side, one.__contains__) for one in windows]
        in_launches = [by_launch(found) for found in values]
        if any(_is_slower(one, _CERTAIN / len(windows)) for one in in_launches):
            return Environment.HARMFUL, worst
        # Harm at a few sizes, which some launches have and others do not, shows in replicates; the
        # few of one look may agree by luck.
        slower = [*in_launches, *map(over, values)]
        is_suspected |= any(_is_slower(one, _SUSPECTED / len(windows)) for one in slower)
    if is_suspected:
        return Environment.UNDECIDED, worst
    if worst is None or worst.low(LEVEL) >= -_EQUIVALENT:
        return Environment.HARMLESS, worst
    return Environment.UNDECIDED, worst


def environment_gains(
    evidence: Evidence, answered: Callable[[Target, int], bool], least: float
) -> tuple[EnvironmentGain, ...]:
    """Where what rules need wins by itself, with certainty over all that is asked here.

    Args:
        evidence: of all looks at one state of a file.
        answered: whether it was the rule for a size that answered there.
        least: what counts as a gain, 0.02 for 2 %.
    """
    free: dict[Target, dict[Side, frozenset[int]]] = {}
    for side, sizes in _free(evidence.beside, answered).items():
        free.setdefault(side[0], {})[side] = sizes
    return tuple(
        EnvironmentGain(
            collective=target.collective,
            min_nbytes=run[0],
            max_nbytes=run[-1],
            gain=_least_gain(evidence, by_side, run),
        )
        for target, by_side in free.items()
        for run in _winning(evidence, by_side, least)
    )


def _winning(
    evidence: Evidence, by_side: Mapping[Side, frozenset[int]], least: float
) -> list[list[int]]:
    """Sizes of each range of one collective that wins in every placement."""
    every = sorted(frozenset.intersection(*by_side.values()))
    windows = _windows(every)[1:]
    level = LEVEL / 2 / max(1, len(windows) * len(by_side))
    won = {
        nbytes
        for window in windows
        if _least_gain(evidence, by_side, window).low(level) > 0
        for nbytes in window
    }

    def is_worth_it(nbytes: int) -> bool:
        """The ends of a window that wins may gain nothing."""
        near = [other for other in won if nbytes / 2 < other < 2 * nbytes]
        return _least_gain(evidence, by_side, near).mean >= log1p(least)

    runs = _runs(every, {nbytes for nbytes in won if is_worth_it(nbytes)})
    return [
        run
        for run in runs
        if len(run) >= _FEWEST // 2 and _least_gain(evidence, by_side, run).low(LEVEL / 2) > 0
    ]


def _least_gain(evidence: Evidence, sides: Iterable[Side], sizes: Collection[int]) -> Estimate:
    """Of the placement for which the least is certain."""
    gains = [by_launch(evidence.differences(side, sizes.__contains__)) for side in sides]
    return min(gains, key=lambda gain: gain.low(LEVEL))


def _runs(every: Sequence[int], some: Collection[int]) -> list[list[int]]:
    """Those of some sizes that are next to each other among all."""
    runs: list[list[int]] = [[]]
    for nbytes in every:
        if nbytes in some:
            runs[-1].append(nbytes)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def cuts_for(sizes: Sizes, rules: Iterable[Rule], file: RuleFile, where: Path) -> list[Cut]:
    """All rules of the collectives that are slower where no rule answers.

    Args:
        sizes: that are slower.
        rules: that may go.
        file: with them.
        where: it stands.

    Raises:
        HarmError: rows of a base are in the file, which stay whatever goes.
    """
    if any(rule.vendor for rule in file.rules):
        raise HarmError(
            f"rows of the base are slower than no rule at all: {in_words(sizes)}",
            where=str(where),
            hint="the base is not what this library has: emit the rules over its own (--base "
            "auto), or over none. Nothing was written.",
        )
    why = "with the rules sizes that they do not answer are slower"
    return [
        cuts.whole(rule, f"{why}: {spanned(sizes[rule.collective])}")
        for rule in rules
        if rule.collective in sizes
    ]


def in_words(sizes: Sizes) -> str:
    """``all_reduce at 7 sizes from 4 KiB to 512 KiB``; at the size where it is one."""
    return "; ".join(f"{one.value} at {spanned(found)}" for one, found in sizes.items())


def spanned(found: Collection[int]) -> str:
    """``7 sizes from 4 KiB to 512 KiB``; the size where it is one."""
    span = format_span(min(found), max(found))
    return span if len(found) == 1 else f"{len(found)} sizes from {span}"


def _free(
    measured: Iterable[Key], answered: Callable[[Target, int], bool]
) -> dict[Side, frozenset[int]]:
    """Sizes of each collective and view that no rule answers."""
    found: dict[Side, set[int]] = {}
    for target, view, nbytes in measured:
        if not answered(target, nbytes):
            found.setdefault((target, view), set()).add(nbytes)
    return {side: frozenset(sizes) for side, sizes in found.items()}


def _windows(sizes: Iterable[int]) -> list[frozenset[int]]:
    """All of them, and two octaves at a time."""
    every = sorted(sizes)
    found = {frozenset(every): None}
    for start in every:
        window = frozenset(n for n in every if start <= n < start * 2**_OCTAVES)
        if len(window) >= _FEWEST // 2 and max(window) * 2 >= start * 2**_OCTAVES:
            found[window] = None
    return list(found)


def _is_slower(found: Estimate, level: float) -> bool:
    return found.mean < -_SLIGHT and found.high(level) < 0


def _pooled(values: Sequence[Value]) -> Estimate:
    """The mean over sizes of what launches have, sizes that repeat better counting more."""
    about = Around((one.nbytes, one.value) for one in values)
    weights = {
        nbytes: 1 / max(LEAST, variance_about_mean(about.near(nbytes, _OCTAVES / 2, _FEWEST)))
        for nbytes in {one.nbytes for one in values}
    }
    sums: dict[str, tuple[float, float]] = {}
    for one in values:
        weight = weights[one.nbytes]
        total, mass = sums.get(one.launch, (0.0, 0.0))
        sums[one.launch] = total + weight * one.value, mass + weight
    return by_launch(Value(0, launch, total / mass) for launch, (total, mass) in sums.items())
