"""What the sweep saw of settings that rules name: how long calls take, and in how many launches.

A sweep chose its winners by these values, so they prove no gain. A slow launch of a setting is
evidence all the same, and so is that none was slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from statistics import median
from typing import Final

from rccltune import session
from rccltune.model import (
    Collective,
    Reporter,
    Role,
    Rule,
    Sample,
    SessionError,
    Setting,
)

# A launch in which a setting falls behind the others by so much was a slow one.
_SLOW: Final = log(1.25)
_FEWEST: Final = 2
_At = tuple[Collective, Setting]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Of one session's sweep.

    Attributes:
        times: of untouched runs in µs, by collective and size.
        delays: log(time of a setting / its usual time), less that of the other settings in the same
            launch, by collective and setting, size and launch.
    """

    times: Mapping[Collective, Mapping[int, float]] = field(default_factory=dict)
    delays: Mapping[_At, Mapping[tuple[int, str], float]] = field(default_factory=dict)

    def launches_of(self, rule: Rule) -> tuple[int, int]:
        """Launches in which a rule's setting ran at sizes of the rule, and slow ones of these."""
        by_launch: dict[str, list[float]] = {}
        for (nbytes, launch), delay in self.delays.get((rule.collective, rule.setting), {}).items():
            if rule.reaches(nbytes):
                by_launch.setdefault(launch, []).append(delay)
        n_slow = sum(median(found) > _SLOW for found in by_launch.values())
        return len(by_launch), n_slow


def read_swept(folder: Path, reporter: Reporter) -> Swept:
    """What a session's samples say; nothing where there are none."""
    with suppress(SessionError):
        return swept_of(session.load_samples(session.open_session(folder), reporter))
    return Swept()


def swept_of(samples: Iterable[Sample]) -> Swept:
    """What samples say.

    A setting that was measured in one launch alone at a size says nothing there, nor does a launch
    in which it was alone.
    """
    times: dict[Collective, dict[int, float]] = {}
    passes: dict[tuple[Collective, int], dict[Setting, dict[str, list[float]]]] = {}
    for one in samples:
        if one.doubt is not None or not one.time_us:
            continue
        collective, setting = one.key.collective, one.key.setting
        if setting.role is Role.BASELINE:
            times.setdefault(collective, {})[one.nbytes] = one.time_us
        # Passes of one launch are named 1.0, 1.1 and so on.
        launch = one.launch.partition(".")[0]
        own = passes.setdefault((collective, one.nbytes), {}).setdefault(setting, {})
        own.setdefault(launch, []).append(log(one.time_us))
    delays: dict[_At, dict[tuple[int, str], float]] = {}
    for (collective, nbytes), arms in passes.items():
        for (setting, launch), delay in _delays(arms).items():
            delays.setdefault((collective, setting), {})[nbytes, launch] = delay
    return Swept(times=times, delays=delays)


def _delays(arms: Mapping[Setting, Mapping[str, list[float]]]) -> dict[tuple[Setting, str], float]:
    """Of one collective at one size, from logarithms of times."""
    off: dict[str, dict[Setting, float]] = {}
    for setting, by_launch in arms.items():
        if setting.role is Role.BASELINE or len(by_launch) < _FEWEST:
            continue
        own = {launch: median(found) for launch, found in by_launch.items()}
        usual = median(own.values())
        for launch, value in own.items():
            off.setdefault(launch, {})[setting] = value - usual
    return {
        (setting, launch): value - median(others)
        for launch, found in off.items()
        for setting, value in found.items()
        if (others := [each for other, each in found.items() if other != setting])
    }
