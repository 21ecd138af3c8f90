"""Curves from tables of times, and a machine of known truth that a search can measure."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from rccltune.model.curves import Curve, CurvePoint, Model
from rccltune.model.search import Round
from rccltune.model.settings import BASELINE, CurveKey, Scale, Setting
from rccltune.model.vocabulary import Collective, Placement
from rccltune.search.estimates import estimate, prospect
from rccltune.search.rounds import Known, first_round, second_round

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE
Times = Mapping[int, Sequence[float]]
Truth = Callable[[Setting, int], float | None]


def settings(*names: str) -> tuple[Setting, ...]:
    """By name."""
    return tuple(map(Setting.parse, names))


def key(
    setting: Setting | str,
    placement: Placement = OUT,
    collective: Collective = Collective.ALL_REDUCE,
) -> CurveKey:
    """Eight ranks of one node."""
    return CurveKey(
        collective=collective,
        setting=setting if isinstance(setting, Setting) else Setting.parse(setting),
        placement=placement,
        scale=Scale(n_nodes=1, n_ranks=8),
    )


def curve(setting: Setting | str, times: Times, placement: Placement = OUT) -> Curve:
    """A curve of one setting: launches' times in µs by size."""
    points = tuple(
        CurvePoint(
            nbytes=nbytes,
            time_us=median(found),
            low_us=min(found),
            high_us=max(found),
            n_communicators=len(found),
            launches=tuple(f"{k}" for k in range(len(found))),
            launch_times_us=tuple(found),
        )
        for nbytes, found in sorted(times.items())
    )
    return Curve(key=key(setting, placement), points=points, fits=(), chosen=Model.LOGLOG)


@dataclass
class Machine:
    """Times that are known, and noise.

    Attributes:
        truth: µs of a setting at a size, None where it cannot run.
        sigma: of log-normal noise, which all views of a launch have alike.
        untouched: which setting the site takes by itself at a size; None leaves it unmeasured.
        lost: settings of which the first round brings nothing that counts.
        cheap_nbytes: largest size whose passes take little beside a launch's start.
    """

    truth: Truth
    grid: tuple[int, ...]
    arms: tuple[Setting, ...]
    counts: tuple[int, ...] = ()
    sigma: float = 0.0
    seed: int = 0
    repeats: int = 3
    n_ranks: int = 8
    untouched: Callable[[int], Setting] | None = None
    lost: tuple[Setting, ...] = ()
    cheap_nbytes: int = 0
    rounds: list[Round] = field(default_factory=list)
    times: dict[tuple[Setting, Placement], dict[int, list[float]]] = field(default_factory=dict)
    barred: dict[Setting, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Noise of its own."""
        self.noise = random.Random(self.seed)

    def search(self) -> Machine:
        """Measure both rounds."""
        self._measure(first_round({Collective.ALL_REDUCE: self.arms}, self.grid))
        self._measure(second_round([self.known()]))
        return self

    def known(self) -> Known:
        """As the pipeline tells it."""
        return Known(
            collective=Collective.ALL_REDUCE,
            curves=tuple(curve(s, times, view) for (s, view), times in self.times.items()),
            grid=self.grid,
            barred={setting: frozenset(sizes) for setting, sizes in self.barred.items()},
            first_uses=tuple(s for s in self.lost if (s, OUT) not in self.times),
            counts=self.counts,
            n_ranks=self.n_ranks,
            repeats=self.repeats,
            cheap_nbytes=self.cheap_nbytes,
        )

    def _measure(self, made: Round) -> None:
        self.rounds.append(made)
        for want in made.wants:
            for setting in want.settings:
                if made.number == 1 and setting in self.lost:
                    continue
                for _ in range(want.repeats):
                    self._once(setting, setting, want.nbytes)
        if self.untouched is not None:
            for nbytes in self.grid[::2]:
                self._once(BASELINE, self.untouched(nbytes), nbytes)

    def _once(self, setting: Setting, runs: Setting, nbytes: int) -> None:
        time_us = self.truth(runs, nbytes)
        if time_us is None:
            self.barred.setdefault(setting, set()).add(nbytes)
            return
        for view in (OUT, IN):
            row = self.times.setdefault((setting, view), {})
            row.setdefault(nbytes, []).append(time_us * self.noise.lognormvariate(0, self.sigma))

    def choice(self) -> dict[int, Setting]:
        """What the search believes in at each size of the grid."""
        known = self.known()
        found = prospect(estimate(known.curves, self.grid, known.barred))
        names = tuple(dict.fromkeys(c.key.setting for c in known.curves))
        return {n: names[arm] for n, arm in zip(self.grid, found.choice, strict=True) if arm >= 0}

    def regrets(self) -> dict[int, float]:
        """What that choice truly loses."""
        found = {}
        for nbytes, setting in self.choice().items():
            runs = setting
            if setting == BASELINE and self.untouched is not None:
                runs = self.untouched(nbytes)
            best = min(t for s in self._all() if (t := self.truth(s, nbytes)) is not None)
            taken = self.truth(runs, nbytes)
            assert taken is not None, f"{setting} cannot run at {nbytes}"
            found[nbytes] = taken / best - 1
        return found

    def _all(self) -> tuple[Setting, ...]:
        forced = {s for s, _ in self.times if s != BASELINE}
        return tuple(forced | set(self.arms))

    def wanted(self, setting: Setting, *, of: Sequence[Round] | None = None) -> list[int]:
        """Numbers of the rounds in which a setting was wanted."""
        rounds = self.rounds if of is None else of
        return [r.number for r in rounds if any(setting in want.settings for want in r.wants)]
