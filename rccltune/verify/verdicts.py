"""Tuned runs against untouched ones, size by size, and whether a rule stands on them.

Both arms are launches of the same benchmark in turns, A B B A …, so that a drift hits both alike.
What is compared is the logarithm of their times: few launches tell little of their own spread, so
it is pooled with that of the sizes around (the moderated t of Smyth, 2004). Sizes of one launch
share what is peculiar to it, so that the spread of a mean over sizes is that of launches, not of
sizes (the clustered variance of Liang and Zeger, 1986).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from statistics import fmean, median
from typing import Final

from rccltune.model import (
    DEFAULT_VARIANT,
    Doubt,
    Judgement,
    Sample,
    Target,
    Verdict,
    View,
    limit_of,
    upper_quantile,
)
from rccltune.model.defaults import LEVEL

# What the spread of the other sizes is worth beside a size's own launches, in degrees of freedom.
_PRIOR: Final = 4.0
# Slower by less than this nobody can tell from three launches of each; it must be certain then.
_SLIGHTLY: Final = 0.02
_AROUND: Final = 2 * log(2)
_FEWEST: Final = 9
Key = tuple[Target, View, int]


@dataclass(frozen=True, slots=True)
class _Arm:
    """Logs of launches at one size, without slow ones.

    Attributes:
        shares: by launch, what its distance from the centre moves that; widened as few launches
            lie closer to their own mean than to the true one.
    """

    centre: float
    variance: float
    n: int
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One size as it enters what is said of a rule.

    Attributes:
        difference: log(untouched time / tuned time).
        spread: standard error of that.
        freedom: degrees of freedom behind the spread.
        harmed: wrong, or slower with a certainty that is shared out over all sizes.
        shares: by launch, what it alone moves the difference.
        gains: measured as the sweep was, so that a rule must win here; elsewhere it must not lose.
    """

    verdict: Verdict
    difference: float
    spread: float
    freedom: float
    harmed: bool
    shares: Mapping[str, float]
    gains: bool = True


def weigh(
    baseline: Iterable[Sample],
    tuned: Iterable[Sample],
    *,
    gains: bool = True,
    beside: str | None = None,
) -> tuple[Weighed, ...]:
    """Every size at which both arms were measured, by target, view and size.

    Args:
        baseline: of launches with nothing of ours loaded.
        tuned: of launches with plugin, rules and environment.
        gains: whether rules must win here.
        beside: what else ran on the devices.

    Returns:
        Sizes at which the tuned arm gave wrong results are among them whatever their time.
    """
    theirs, ours = _arms(baseline), _arms(samples := list(tuned))
    wrong = _wrong(samples)
    pairs = {key: (theirs[key], ours[key]) for key in ours if key in theirs}
    usual = _usual(pairs)
    level = LEVEL / max(1, len(pairs))
    found = [
        _weighed(key, pair, usual[key], level, wrong.get(key, 0)) for key, pair in pairs.items()
    ]
    return tuple(
        replace(
            one,
            gains=gains,
            verdict=replace(one.verdict, view=replace(one.verdict.view, beside=beside)),
        )
        for one in sorted(found, key=_order)
    )


def _order(one: Weighed) -> tuple[str, str, int]:
    verdict = one.verdict
    return verdict.target.collective.value, str(verdict.view), verdict.nbytes


def _key(sample: Sample) -> Key:
    """Of both arms alike: the variant is what they differ in."""
    target = replace(sample.key.target, variant=DEFAULT_VARIANT)
    return target, sample.key.view, sample.nbytes


def _arms(samples: Iterable[Sample]) -> dict[Key, _Arm]:
    times: dict[Key, dict[str, list[float]]] = {}
    for sample in samples:
        usable = sample.doubt in (None, Doubt.WRONG) and sample.time_us
        if usable and sample.time_us is not None and sample.nbytes:
            times.setdefault(_key(sample), {}).setdefault(sample.launch, []).append(sample.time_us)
    return {
        key: _arm({launch: log(median(t)) for launch, t in by.items()}) for key, by in times.items()
    }


def _arm(logs: Mapping[str, float]) -> _Arm:
    limit = limit_of(logs.values())
    kept = {launch: x for launch, x in logs.items() if x <= limit}
    kept = kept if len(kept) > 1 else dict(logs)
    mean = fmean(kept.values())
    n = len(kept)
    if n == 1:
        return _Arm(mean, 0.0, n, dict.fromkeys(kept, 0.0))
    variance = sum((x - mean) ** 2 for x in kept.values()) / (n - 1) / n
    widened = sqrt(n / (n - 1)) / n
    return _Arm(mean, variance, n, {one: (x - mean) * widened for one, x in kept.items()})


def _wrong(samples: Iterable[Sample]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for sample in samples:
        if sample.doubt is Doubt.WRONG:
            found[_key(sample)] = found.get(_key(sample), 0) + max(1, sample.n_wrong or 0)
    return found


def _usual(pairs: Mapping[Key, tuple[_Arm, _Arm]]) -> dict[Key, float]:
    """Usual variance of a difference near each size of a view.

    From the median, as one stall would spoil a mean; from sizes around, as latencies differ by
    tens of percent between launches on machines where bandwidths agree within one.
    """
    by_view: dict[View, list[tuple[int, float, int]]] = {}
    for (_, view, nbytes), (one, other) in pairs.items():
        if one.n > 1 and other.n > 1:
            by_view.setdefault(view, []).append(
                (nbytes, one.variance + other.variance, one.n + other.n - 2)
            )
    return {key: _usual_at(key[2], by_view.get(key[1], [])) for key in pairs}


def _usual_at(nbytes: int, found: Sequence[tuple[int, float, int]]) -> float:
    """From the sizes within two octaves, and at least as many as tell anything, nearest first."""
    if not found:
        return _SLIGHTLY**2
    ordered = sorted(found, key=lambda one: abs(log(one[0] / nbytes)))
    near = [one for one in ordered if abs(log(one[0] / nbytes)) <= _AROUND]
    near = near if len(near) >= _FEWEST else ordered[:_FEWEST]
    freedom = median(n for _, _, n in near)
    # The median of few squares lies below their mean (Wilson and Hilferty).
    usual = median(variance for _, variance, _ in near) / (1 - 2 / (9 * freedom)) ** 3
    return max(usual, 1e-8)


def _weighed(
    key: Key, pair: tuple[_Arm, _Arm], pooled: float, level: float, n_wrong: int
) -> Weighed:
    target, view, nbytes = key
    one, other = pair
    own = one.n + other.n - 2
    freedom = _PRIOR + own
    square = (_PRIOR * pooled + own * (one.variance + other.variance)) / freedom
    difference, spread = one.centre - other.centre, sqrt(square)
    reach = upper_quantile(freedom, LEVEL / 2) * spread
    certain = upper_quantile(freedom, level) * spread
    judgement = Judgement.SAME
    if n_wrong:
        judgement = Judgement.WRONG
    elif difference - reach > 0:
        judgement = Judgement.BETTER
    elif (difference + reach < 0 and difference < -_SLIGHTLY) or difference + certain < 0:
        judgement = Judgement.WORSE
    verdict = Verdict(
        target=target,
        view=view,
        nbytes=nbytes,
        baseline_us=exp(one.centre),
        tuned_us=exp(other.centre),
        ratio=exp(difference),
        low=exp(difference - reach),
        high=exp(difference + reach),
        n_wrong=n_wrong,
        judgement=judgement,
    )
    return Weighed(
        verdict=verdict,
        difference=difference,
        spread=spread,
        freedom=freedom,
        harmed=bool(n_wrong) or difference + certain < 0,
        shares={**one.shares, **other.shares},
    )


def lost(found: Sequence[Weighed]) -> bool:
    """Whether the mean over these sizes is slower, as that of one size is judged to be."""
    mean, spread, freedom = mean_of(found)
    return mean < -_SLIGHTLY and mean + upper_quantile(freedom, LEVEL / 2) * spread < 0


def mean_of(found: Sequence[Weighed]) -> tuple[float, float, float]:
    """Mean difference of logarithms over some sizes, its standard error, degrees of freedom."""
    n = len(found)
    # Few launches may lie together by chance: no better than half the usual single size.
    spread = max(
        sqrt(sum(one.spread**2 for one in found)) / n,
        median(one.spread for one in found) / 2,
        sqrt(sum(share**2 for share in _by_launch(found).values())) / n,
    )
    return fmean(one.difference for one in found), spread, fmean(one.freedom for one in found)


def _by_launch(found: Sequence[Weighed]) -> dict[str, float]:
    """What each launch moves the sum of the differences."""
    sums: dict[str, float] = {}
    for one in found:
        for launch, share in one.shares.items():
            sums[launch] = sums.get(launch, 0.0) + share
    return sums


def certainty(found: Sequence[Weighed], min_gain: float) -> float:
    """Chance that the mean gain over these sizes is at least so much, in the worst of their views.

    Args:
        found: sizes of a rule; only those where it must win count.
        min_gain: 0.02 for 2 %.

    Returns:
        0 without any size.
    """
    from scipy.special import stdtr

    views: dict[View, list[Weighed]] = {}
    for one in (one for one in found if one.gains):
        views.setdefault(one.verdict.view, []).append(one)
    chances = []
    for members in views.values():
        mean, spread, freedom = mean_of(members)
        chances.append(float(stdtr(freedom, (mean - log(1 + min_gain)) / spread)))
    return min(chances, default=0.0)
