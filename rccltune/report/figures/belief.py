"""Data of the prediction figure: measured times beside those that the library predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rccltune.model import Belief, Held, Role, Setting, by_target, comparable, hold, is_usable
from rccltune.report.figures.scene import Scene, Series
from rccltune.report.figures.shapes import Band, Polyline


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefLine:
    """One setting, measured and as the library predicts it; either may lack sizes."""

    series: Series
    measured: Polyline
    predicted: Polyline


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefData:
    """All of the prediction figure.

    Attributes:
        variant: whose choice it is; predictions are those of each setting's own variant.
        held: its choice against the fastest, at each measured size.
        chosen: ranges of one choice, borders halfway between sizes.
        table: the same by its table alone, empty where the library kept to that.
        fastest: ranges of one setting that was measured fastest, its choice where that is as
            good.
    """

    scene: Scene
    variant: str
    lines: tuple[BeliefLine, ...]
    held: tuple[Held, ...]
    chosen: tuple[Band, ...]
    table: tuple[Band, ...]
    fastest: tuple[Band, ...]

    @property
    def beaten(self) -> tuple[Held, ...]:
        """Sizes at which its choice is not the best measured."""
        return tuple(one for one in self.held if one.is_beaten)


def belief_data(scene: Scene) -> BeliefData | None:
    """Measured against predicted, None where no prediction is known.

    Only leads are held against the model, which knows nothing of numbers of channels.
    """
    mine = _mine(scene)
    if not mine:
        return None
    own = mine.get("default") or next(iter(mine.values()))
    lines = tuple(line for series in scene.leads if (line := _line(series, mine)) is not None)
    if not any(line.predicted for line in lines):
        return None
    curves = [series.curve for series in scene.everyone]
    near = comparable(curves, own[0].target, scene.view)
    held = tuple(one for belief in own if (one := hold(belief, near)).best is not None)
    return BeliefData(
        scene=scene,
        variant=own[0].target.variant.name,
        lines=lines,
        held=held,
        chosen=_bands(held, _choice),
        table=_bands(held, _table) if any(one.is_corrected for one in held) else (),
        fastest=_bands(held, _fastest),
    )


def _mine(scene: Scene) -> Mapping[str, Sequence[Belief]]:
    """Predictions of the scene's target by the name of their variant."""
    return {
        target.variant.name: beliefs
        for target, beliefs in by_target(scene.given.beliefs).items()
        if (target.collective, target.scale, target.rank_placement)
        == (scene.collective, scene.scale, scene.rank_placement)
    }


def _line(series: Series, mine: Mapping[str, Sequence[Belief]]) -> BeliefLine | None:
    """None for the baseline and for settings without a cell of their own."""
    setting = series.setting
    if setting.role is not Role.FORCED or not setting.is_complete:
        return None
    times = series.time_by_size
    predicted = (
        (float(belief.nbytes), time_us)
        for belief in mine.get(series.curve.key.variant.name, ())
        if min(times) <= belief.nbytes <= max(times)
        and is_usable(time_us := belief.predicted_us(setting))
    )
    measured = tuple((float(nbytes), time_us) for nbytes, time_us in times.items())
    return BeliefLine(series=series, measured=measured, predicted=tuple(predicted))


def _choice(one: Held) -> Setting | None:
    return one.choice


def _table(one: Held) -> Setting | None:
    return one.table


def _fastest(one: Held) -> Setting | None:
    return one.choice if one.loss is not None and not one.is_beaten else one.best


def _bands(held: Sequence[Held], who: Callable[[Held], Setting | None]) -> tuple[Band, ...]:
    """Ranges of one setting."""
    borders = [math.sqrt(one.nbytes * other.nbytes) for one, other in pairwise(held)]
    lows = [one.nbytes / 2 for one in held[:1]] + borders
    highs = borders + [one.nbytes * 2 for one in held[-1:]]
    cells = list(zip(held, lows, highs, strict=True))
    made = []
    for setting, run in groupby(cells, lambda cell: who(cell[0])):
        stretch = list(run)
        text = str(setting) if setting is not None else "not known"
        made.append(
            Band(
                low=stretch[0][1],
                high=stretch[-1][2],
                setting=setting,
                labels=(text,),
            )
        )
    return tuple(made)
