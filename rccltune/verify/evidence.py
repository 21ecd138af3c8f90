"""All that the launches of a verification say so far under one condition, size by size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, lgamma, log
from statistics import fmean
from types import MappingProxyType
from typing import Any, Final, TypeVar

from rccltune.model.chosen import Judgement, Rule, Verdict
from rccltune.model.defaults import LEVEL
from rccltune.model.settings import Scale, Target, View
from rccltune.model.vocabulary import Collective
from rccltune.verify.cells import Cell, Key
from rccltune.verify.intervals import (
    LEAST,
    Around,
    Estimate,
    Value,
    by_launch,
    replicates,
    usual,
    usual_variance,
    variance_about_mean,
)

# Silence tells the noise of a size from the sizes within so many octaves, at least so many values.
_AROUND: Final = 1.0
_FEWEST: Final = 9
# Launches that an interval must rest on.
FEWEST_LAUNCHES: Final = 4
# Slower by more than this must be ruled out at every size of a rule.
MARGIN: Final = log(1.05)
# A loss of less is nobody's, however certain: large sizes repeat within 0.3 % on real machines.
SLIGHTLY: Final = log(1.01)
# Chance of stalls in one arm alone at which they are its own.
_OWN_STALLS: Final = 0.01
T = TypeVar("T")
Side = tuple[Target, View]
_NOTHING: Final[Mapping[Key, float]] = MappingProxyType({})


@dataclass(slots=True)
class Evidence:
    """What launches gave, by size and launch.

    Attributes:
        cells: the idle plugin beside the rules.
        beside: log(time of the baseline / time of the idle plugin), of launches next to each other;
            where rules need variables, of launches without and with those alone.
        turns: log(time of the baseline / time of the idle plugin that takes turns with the rules);
            the same unless rules need variables.
        wrong: wrong elements with the rules.
        checked: sizes at which results were.
        is_own: measured as the sweep was, so that a rule must win here; elsewhere it must not lose.
        words: what else ran on the devices.
    """

    is_own: bool
    words: str | None = None
    cells: dict[Key, dict[str, Cell]] = field(default_factory=dict)
    beside: dict[Key, dict[str, float]] = field(default_factory=dict)
    turns: dict[Key, dict[str, float]] = field(default_factory=dict)
    wrong: dict[Key, int] = field(default_factory=dict)
    checked: set[Key] = field(default_factory=set)
    # Sizes of each side, of the dicts above by their identity: they are asked for in every window.
    _by_side: dict[int, dict[Side, list[tuple[int, Any]]]] = field(default_factory=dict, repr=False)

    def _of(self, found: Mapping[Key, T], side: Side) -> list[tuple[int, T]]:
        """What a dict of this evidence has of one side: size and launches."""
        by_side = self._by_side.get(id(found))
        if by_side is None:
            by_side = self._by_side[id(found)] = {}
            for (target, view, nbytes), launches in found.items():
                by_side.setdefault((target, view), []).append((nbytes, launches))
        return by_side.get(side, [])

    def add(
        self,
        launch: str,
        cells: Mapping[Key, Cell],
        untouched: Mapping[Key, float],
        bare: Mapping[Key, float] = _NOTHING,
    ) -> None:
        """Take up a launch of both sides, and those next to it.

        Args:
            launch: its id.
            cells: what it gave.
            untouched: the site's times in µs.
            bare: those with the variables alone that the rules need.
        """
        self._by_side.clear()
        for key, cell in cells.items():
            self.cells.setdefault(key, {})[launch] = cell
            other = bare.get(key, cell.silent_us)
            if key in untouched:
                self.beside.setdefault(key, {})[launch] = log(untouched[key] / other)
                self.turns.setdefault(key, {})[launch] = log(untouched[key] / cell.silent_us)

    def forget(self, holds: Callable[[Key], bool]) -> None:
        """Leave out sizes, since what chose what is left of a rule does not prove it."""
        self._by_side.clear()
        for kept in (self.cells, self.wrong):
            for key in [key for key in kept if holds(key)]:
                del kept[key]

    def sizes(self) -> dict[Collective, set[int]]:
        """What was measured of each collective."""
        found: dict[Collective, set[int]] = {}
        for target, _, nbytes in self.cells:
            found.setdefault(target.collective, set()).add(nbytes)
        return found

    def sides(self) -> tuple[Side, ...]:
        """Targets and views, in the order in which they came."""
        return tuple(dict.fromkeys(key[:2] for key in self.cells))

    def gains(
        self, side: Side, holds: Callable[[int], bool], *, by_means: bool = False
    ) -> list[Value]:
        """log(time of the idle plugin / time with the rules) at some sizes."""
        return [
            Value(nbytes, launch, cell.mean_gain if by_means else cell.gain)
            for nbytes, found in self._of(self.cells, side)
            if holds(nbytes)
            for launch, cell in found.items()
        ]

    def differences(self, side: Side, holds: Callable[[int], bool]) -> list[Value]:
        """log(time of the baseline / time of the idle plugin) at some sizes."""
        return self._values(self.beside, side, holds)

    def between(self, side: Side, low: float, high: float) -> list[Value]:
        """The same at sizes from one to another, both included."""
        return self.differences(side, lambda nbytes: low <= nbytes <= high)

    def outright(
        self, side: Side, holds: Callable[[int], bool], *, by_means: bool = False
    ) -> Estimate:
        """log(time of the baseline / time with the rules) at some sizes, over launches."""
        gains = self.gains(side, holds, by_means=by_means)
        turns = {(v.nbytes, v.launch): v.value for v in self._values(self.turns, side, holds)}
        both = [(v, turns[v.nbytes, v.launch]) for v in gains if (v.nbytes, v.launch) in turns]
        return by_launch(replace(v, value=v.value + turn) for v, turn in both)

    def difference(self, side: Side, rule: Rule) -> Estimate:
        """The same over a rule's sizes; around them where few launches have these."""
        own = by_launch(self.between(side, rule.min_nbytes, rule.max_nbytes))
        if own.n_launches >= FEWEST_LAUNCHES:
            return own
        return by_launch(self.between(side, rule.min_nbytes / 2, rule.max_nbytes * 2))

    def slowness(self, side: Side, rule: Rule) -> Estimate | None:
        """log(time of the baseline / of the idle plugin) where launches are certain of a loss.

        They contradict the pairs then: what the rules need costs something at its sizes, or what
        ran before them in the launch does. None where they are not.
        """
        in_turns = by_launch(self._values(self.turns, side, rule.reaches))
        found = (in_turns, self.difference(side, rule))
        return next((one for one in found if one.high(LEVEL / 2 / len(found)) < 0), None)

    def controls_of(self, side: Side, holds: Callable[[int], bool]) -> list[Value]:
        """log(time of the idle plugin behind the rules / behind the idle plugin) at some sizes."""
        return [
            Value(nbytes, launch, cell.control)
            for nbytes, found in self._of(self.cells, side)
            if holds(nbytes)
            for launch, cell in found.items()
            if cell.control is not None
        ]

    def controls(self, side: Side) -> list[tuple[int, float]]:
        """The same at every size, without the launches."""
        return [(one.nbytes, one.value) for one in self.controls_of(side, lambda _: True)]

    def stalls_are_its_own(self, side: Side, holds: Callable[[int], bool]) -> bool:
        """Whether the rules' side stalls more often than chance has it (Fisher's exact test)."""
        cells = [
            cell
            for nbytes, found in self._of(self.cells, side)
            if holds(nbytes)
            for cell in found.values()
        ]
        theirs, ours = (sum(cell.stalls[i] for cell in cells) for i in (0, 1))
        if ours <= theirs:
            return False
        n_theirs, n_ours = (sum(cell.n_passes[i] for cell in cells) for i in (0, 1))
        return chance_of_as_many(ours, n_ours, theirs, n_theirs) < _OWN_STALLS

    def n_wrong(self, key: Key) -> int | None:
        """Wrong elements with the rules at a size; None where no result was checked."""
        return self.wrong.get(key, 0 if key in self.checked else None)

    def of_side(self, side: Side) -> dict[int, dict[str, Cell]]:
        """Cells by size, rising."""
        return dict(sorted(self._of(self.cells, side)))

    def _values(
        self, found: Mapping[Key, Mapping[str, float]], side: Side, holds: Callable[[int], bool]
    ) -> list[Value]:
        return [
            Value(nbytes, launch, value)
            for nbytes, by_launches in self._of(found, side)
            if holds(nbytes)
            for launch, value in by_launches.items()
        ]


def chance_of_as_many(ours: int, n_ours: int, theirs: int, n_theirs: int) -> float:
    """Chance that so many of all hits or more fall to us (Fisher's exact test, one-sided).

    As scipy.stats.fisher_exact, which takes half a second to import.
    """
    hits, n = ours + theirs, n_ours + n_theirs
    every = _log_ways(n, n_ours)
    logs = (
        _log_ways(hits, k) + _log_ways(n - hits, n_ours - k) - every
        for k in range(max(ours, hits - n_theirs), min(hits, n_ours) + 1)
    )
    return min(1.0, sum(map(exp, logs)))


def _log_ways(n: int, k: int) -> float:
    """Logarithm of the ways to choose k of n."""
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One size as it enters what is said of a rule.

    Attributes:
        gain: log(time of the idle plugin / time with the rules).
        gains: measured as the sweep was, so that a rule must win here; elsewhere it must not lose.
    """

    verdict: Verdict
    gain: Estimate
    gains: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How all sizes of a look are judged.

    Attributes:
        rules: of this scale that are to win, in the file's order.
        scale: of the communicator.
        level: chance of a mistake in this look, shared out over what is judged.
    """

    rules: Sequence[Rule]
    scale: Scale
    level: float

    def rule_at(self, key: Key) -> Rule | None:
        """The first rule for a size."""
        target, _, nbytes = key
        return next(
            (r for r in self.rules if r.matches(target.collective, nbytes, self.scale)), None
        )


def weigh(evidence: Evidence, judging: Judging) -> tuple[Weighed, ...]:
    """Every size under one condition, by collective, view and size."""
    level = judging.level / max(1, len(evidence.cells))
    found = [one for side in evidence.sides() for one in _side(evidence, side, judging, level)]
    return tuple(sorted(found, key=_order))


def _order(one: Weighed) -> tuple[str, str, int]:
    verdict = one.verdict
    return verdict.target.collective.value, str(verdict.view), verdict.nbytes


def _side(evidence: Evidence, side: Side, judging: Judging, level: float) -> Iterable[Weighed]:
    cells = evidence.of_side(side)
    controls = Around(evidence.controls(side))
    everywhere = evidence.gains(side, lambda _: True)
    residuals = Around(replicates(everywhere))
    own_stalls = {
        id(rule): evidence.stalls_are_its_own(side, rule.reaches) for rule in judging.rules
    }
    slowness = {id(rule): evidence.slowness(side, rule) for rule in judging.rules}
    for nbytes, found in cells.items():
        key = (*side, nbytes)
        rule = judging.rule_at(key)
        by_means = rule is not None and own_stalls[id(rule)]
        noise = noise_at(nbytes, controls, residuals)
        gain = _at_size(list(found.values()), noise, by_means=by_means)
        slow = None if rule is None else slowness[id(rule)]
        if slow is not None and (turns := evidence.turns.get(key)):
            # Sizes of one range share what ran before them; those of another may not.
            slow = replace(slow, mean=fmean(turns.values()))
        gain = gain.slowed(slow)
        launches = list(found.values())
        yield Weighed(
            verdict=replace(
                _verdict(key, gain, level, evidence.n_wrong(key)),
                view=replace(side[1], beside=evidence.words),
                control=exp(2 * noise[0] ** 0.5) - 1,
                tuned_us=(tuned_us := exp(fmean(log(cell.tuned_us) for cell in launches))),
                baseline_us=tuned_us * exp(gain.mean),
                launches=len(launches),
            ),
            gain=gain,
            gains=evidence.is_own,
        )


def noise_at(nbytes: int, controls: Around, residuals: Around) -> tuple[float, int]:
    """Variance of one launch's value at a size, and how many values tell it.

    No claim is finer than the idle plugin against itself is between launches, and none finer than
    what replicates of the gain usually differ by.
    """
    about = controls.near(nbytes, _AROUND, _FEWEST)
    own = residuals.near(nbytes, _AROUND, _FEWEST)
    return max(LEAST, usual_variance(about), usual(own)), max(2, len(about), len(own))


def _at_size(cells: Sequence[Cell], noise: tuple[float, int], *, by_means: bool) -> Estimate:
    variance, n_values = noise
    values = [cell.mean_gain if by_means else cell.gain for cell in cells]
    own = variance_about_mean(values) if len(values) > 1 else 0.0
    return Estimate(
        mean=fmean(values),
        spread=(max(variance, own) / len(values)) ** 0.5,
        # A median of squares tells a variance no better than 0.4 times as many squares do.
        freedom=max(2.0, 0.4 * n_values),
        n_launches=len(values),
    )


def _verdict(key: Key, gain: Estimate, level: float, n_wrong: int | None) -> Verdict:
    target, view, nbytes = key
    low, high = gain.low(LEVEL / 2), gain.high(LEVEL / 2)
    ratio, *ends = gain.ratios
    judgement = Judgement.UNDECIDED
    if n_wrong:
        judgement = Judgement.WRONG
    elif low > 0:
        judgement = Judgement.BETTER
    elif gain.mean < -SLIGHTLY and gain.high(level) < 0:
        judgement = Judgement.WORSE
    elif low >= -MARGIN and not (high < 0 and gain.mean < -SLIGHTLY):
        judgement = Judgement.SAME
    return Verdict(
        target=target,
        view=view,
        nbytes=nbytes,
        baseline_us=0.0,
        tuned_us=0.0,
        ratio=ratio,
        low=ends[0],
        high=ends[1],
        n_wrong=n_wrong,
        judgement=judgement,
    )
