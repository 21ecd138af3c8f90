"""Launches that never ran, with known truth: samples as the walk's reader gives them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import exp
from typing import NamedTuple

from rccltune.model.chosen import Rule
from rccltune.model.measured import Launch, Sample, Schedule
from rccltune.model.settings import RULES, SILENT, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Doubt, Placement, Protocol
from rccltune.verify import held
from rccltune.verify.cells import cells_of
from rccltune.verify.evidence import Evidence, Judging, weigh
from rccltune.verify.standing import Standing, standings

SCALE = Scale(n_nodes=1, n_ranks=8)
# Four sizes an octave, each launch of a different quarter.
SIZES = [round(1024 * 2 ** (k / 4)) for k in range(64)]
STEPS = (SILENT, SILENT, RULES, *(SILENT, SILENT, RULES, RULES) * 4)
# log(time of silence / time with the rules) by size.
Gain = Callable[[int], float]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Standard deviations of logarithms: of a launch, of an arm in it at a size, of a pass."""

    launch: float = 0.3
    arm: float = 0.01
    passes: float = 0.01


def rule(low: int, high: int, line: int = 1) -> Rule:
    """For the sizes between."""
    return Rule(
        collective=Collective.ALL_REDUCE,
        min_nbytes=low,
        max_nbytes=high,
        setting=Setting(algorithm=Algorithm.TREE, protocol=Protocol.LL),
        line=line,
    )


def launch() -> Launch:
    """With its schedule; the first step is the warm-up's."""
    return Launch(id="x", schedule=Schedule(settings=STEPS, scale=SCALE))


def samples(
    gain: Gain,
    sizes: Sequence[int],
    rng: random.Random,
    noise: Noise,
    *,
    slow: Callable[[int, Setting], float] = lambda _step, _arm: 1.0,
) -> list[_Read]:
    """One launch that walked.

    Args:
        gain: of the rules.
        sizes: in bytes.
        rng: of the launch.
        noise: how it scatters.
        slow: a factor on the time of a step, by its number and arm.
    """
    off = rng.gauss(0, noise.launch)
    arms = (SILENT, RULES)
    # Thousands of launches are made up: nothing is looked up for each sample.
    walked = [(step, setting == RULES) for step, setting in enumerate(STEPS[1:], start=1)]
    slowed = [slow(step, arms[is_tuned]) for step, is_tuned in walked]
    found = []
    for placement in Placement:
        keys = [_key(setting, placement) for setting in arms]
        for nbytes in sizes:
            time_us = 20 + nbytes / 1e4
            usual = (time_us, time_us / exp(gain(nbytes)))
            arm = [off + rng.gauss(0, noise.arm) for _ in arms]
            for (step, is_tuned), factor in zip(walked, slowed, strict=True):
                log_of = arm[is_tuned] + rng.gauss(0, noise.passes)
                one = usual[is_tuned] * factor * exp(log_of)
                doubt = Doubt.CONNECTING if step in (1, 2) else None
                found.append(_Read(keys[is_tuned], nbytes, one, step, doubt))
    return found


def sample(
    placement: Placement, nbytes: int, setting: Setting, step: int, time_us: float
) -> Sample:
    """A half-row; the first pass of an arm pays for its connections."""
    doubt = Doubt.CONNECTING if step in (1, 2) else None
    return Sample(
        key=_key(setting, placement),
        launch="x",
        nbytes=nbytes,
        time_us=time_us,
        step=step,
        doubt=doubt,
        n_wrong=0,
    )


class _Read(NamedTuple):
    """What is read of a sample: half of the time went into making and checking whole ones."""

    key: CurveKey
    nbytes: int
    time_us: float
    step: int
    doubt: Doubt | None


@cache
def _key(setting: Setting, placement: Placement) -> CurveKey:
    return CurveKey(
        collective=Collective.ALL_REDUCE, setting=setting, placement=placement, scale=SCALE
    )


def evidence(
    gain: Gain,
    seed: int = 0,
    noise: Noise | None = None,
    *,
    n_launches: int = 12,
    slow_launches: float = 0.0,
    untouched: Gain | None = None,
    n_untouched: int = 4,
    sizes: Sequence[int] = SIZES,
) -> Evidence:
    """Launches of a look, each of a quarter of the sizes.

    Args:
        gain: of the rules.
        seed: of all noise.
        noise: how launches scatter.
        n_launches: how many walk.
        slow_launches: share of launches in which the rules take twice as long.
        untouched: log(time of the untouched site / time of silence), where launches of it stand
            beside the first ones.
        n_untouched: how many do; eight where rules need variables.
        sizes: of all launches together.
    """
    rng = random.Random(seed)
    noise = noise or Noise()
    made = Evidence(is_own=True)
    for number in range(n_launches):
        quarter = sizes[number % 4 :: 4]
        factor = 2.0 if rng.random() < slow_launches else 1.0
        found = samples(
            gain, quarter, rng, noise, slow=lambda _, arm, f=factor: f if arm == RULES else 1.0
        )
        cells = cells_of(launch(), found)
        beside = {}
        if untouched is not None and number < n_untouched:
            off = rng.gauss(0, noise.launch)
            beside = {
                key: (20 + key[2] / 1e4) * exp(untouched(key[2]) + off + rng.gauss(0, noise.arm))
                for key in cells
            }
        made.add(str(number), cells, beside)
        made.checked |= set(cells)
    return made


def judging(*rules: Rule, level: float = 0.025) -> Judging:
    """Of a first look."""
    return Judging(rules=rules, scale=SCALE, level=level)


def standing(found: Evidence, *rules: Rule, seen: int = 16) -> Standing:
    """What is said of the first of some rules, whose settings a sweep saw in so many launches."""
    by = judging(*rules)
    every = [(found, weigh(found, by))]
    delays = {(rules[0].max_nbytes, str(n)): 0.0 for n in range(seen)}
    swept = held.Swept(delays={(Collective.ALL_REDUCE, rules[0].setting): delays})
    return standings(rules, every, by, swept, 0.02)[0]
