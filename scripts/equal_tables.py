"""Made-up sweeps whose settings are all equal: every rule that is chosen from one is luck."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import exp

from choosers import zones_of
from public_sweeps import key_of
from sample_rows import Sample

from rccltune.model.settings import BASELINE, Setting
from rccltune.model.units import KIB
from rccltune.model.vocabulary import Placement

# As two H100 and public sweeps have it: launches differ more where calls are short, one row in
# fifty stands still.
SMALL = 512 * KIB
STALLS = 0.02
STALLED = 1.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What such sweeps are like.

    Attributes:
        launches: of each setting.
        passes: of each setting in one launch.
        arms: settings beside the baseline.
        views: placements.
        row: standard deviation of the log time of a row.
        small: of that of a launch below 512 KiB.
        large: of that of a launch above.
        mood: of that of a pass below 512 KiB, at all sizes alike.
        walks: each launch has all settings, a pass each in turns; else each has its own.
        sizes: from 1 KiB on, by a factor of two.
    """

    launches: int
    passes: int = 1
    arms: int = 10
    views: int = 1
    row: float = 0.03
    small: float = 0.01
    large: float = 0.01
    mood: float = 0.0
    walks: bool = False
    sizes: int = 16

    def __str__(self) -> str:
        """For a row of figures."""
        passes = f" of {self.passes} passes" if self.passes > 1 else ""
        passes += " of all in turns" if self.walks else ""
        passes += f" {self.mood:.0%} apart" if self.mood else ""
        return (
            f"{self.arms} settings, {self.launches} launches{passes}, {self.views} views, rows "
            f"{self.row:.1%}, launches {self.small:.1%} and {self.large:.1%}"
        )


KINDS = (
    *(
        Kind(launches=n, arms=arms, views=views, row=row)
        for n, (arms, views), row in product((1, 2, 3), ((10, 1), (30, 2)), (0.015, 0.05))
    ),
    *(Kind(launches=n, small=0.17, large=0.015) for n in (1, 2, 3)),
    Kind(launches=1, passes=6, row=0.01, small=0.05),
    Kind(launches=2, passes=4, row=0.01, small=0.05),
    # All settings in one launch, as two H100 have it at 32 channels.
    *(
        Kind(launches=n, passes=passes, row=0.02, mood=0.12, arms=6, walks=True)
        for n, passes in ((1, 3), (2, 2), (2, 4), (3, 2))
    ),
    # Rows that agree within a percent, whose passes do not.
    *(
        Kind(launches=2, passes=2, row=row, mood=0.12, arms=arms, walks=True)
        for row, arms in ((0.005, 6), (0.01, 6), (0.02, 1))
    ),
)


def table(kind: Kind, seed: int) -> list[Sample]:
    """The samples of one such sweep."""
    return list(_samples(kind, random.Random(seed)))


def _samples(kind: Kind, noise: random.Random) -> Iterator[Sample]:
    for arm, launch in product(range(kind.arms + 1), range(kind.launches)):
        setting = BASELINE if arm == 0 else Setting.parse(f"ring/simple/{arm}")
        mood = noise.gauss(0, 1)
        moods = [noise.gauss(0, kind.mood) if kind.mood else 0.0 for _ in range(kind.passes)]
        # Settings that share a communicator are in one run of the rank program.
        of = f"run-{launch + 1}:0" if kind.walks else f"{arm}-{launch}"
        for number, power in product(range(kind.passes), range(kind.sizes)):
            nbytes = KIB << power
            shared = mood * (kind.small if nbytes < SMALL else kind.large)
            shared += moods[number] if nbytes < SMALL else 0.0
            for placement in list(Placement)[: kind.views]:
                stalls = STALLED if noise.random() < STALLS else 1.0
                time_us = (20 + nbytes / 1e4) * stalls * exp(shared + noise.gauss(0, kind.row))
                key = key_of(setting, placement=placement)
                yield Sample(key=key, launch=of, cycle=number, nbytes=nbytes, time_us=time_us)


def false_rules(kind: Kind, seed: int) -> tuple[bool, bool]:
    """Whether anything is chosen from such a sweep, and whether that is called proven."""
    rules = [zone for zone in zones_of(table(kind, seed)) if zone.setting is not None]
    return bool(rules), any(zone.is_proven for zone in rules)
