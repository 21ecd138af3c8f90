"""Every setting at every size, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rccltune.report.figures.lines import evenly
from rccltune.report.figures.look import is_doubted
from rccltune.report.figures.scene import Scene, Series

MAX_ROWS: Final = 32
MAX_COLUMNS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One setting at one size.

    Attributes:
        time_us: None where it was not measured.
        ratio: to the fastest of the row, 1 for the best; None where it was not measured.
        best: the fastest of the row among all settings; ties are all marked.
        best_selectable: the fastest that a rule can choose, marked only where it is not the best.
        chosen: what the rules choose at this size.
        is_doubted: a choice that the sweep does not prove.
    """

    time_us: float | None
    ratio: float | None = None
    best: bool = False
    best_selectable: bool = False
    chosen: bool = False
    is_doubted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableData:
    """Rows by rising size, columns in the order of the scene's leads.

    The best of a row is sought among all settings that were measured, shown or not.

    Attributes:
        n_sizes: measured; more than the rows where some are left out.
        n_settings: measured; more than the columns where some are left out.
    """

    scene: Scene
    columns: tuple[Series, ...]
    sizes: tuple[int, ...]
    rows: tuple[tuple[Cell, ...], ...]
    n_sizes: int
    n_settings: int

    @property
    def footnotes(self) -> tuple[str, ...]:
        """Why columns are not selectable, each reason once, with its columns."""
        reasons: dict[str, list[str]] = {}
        for column in self.columns:
            if column.unselectable is not None:
                reasons.setdefault(column.unselectable, []).append(column.label)
        return tuple(f"{', '.join(who)}: {why}" for why, who in reasons.items())

    @property
    def missing(self) -> tuple[str, ...]:
        """Settings without a column because their launches fail, with the reason."""
        return tuple(
            f"{one.setting}: quarantined, {one.reason}"
            for one in self.scene.given.quarantined
            if (one.collective, one.scale) == (self.scene.collective, self.scene.scale)
        )


def table_data(scene: Scene) -> TableData:
    """The table of one scene: leads first, then what the rules choose, then winners."""
    columns = _columns(scene)
    sizes = evenly(scene.sizes, MAX_ROWS)
    return TableData(
        scene=scene,
        columns=columns,
        sizes=sizes,
        rows=tuple(_row(scene, columns, nbytes) for nbytes in sizes),
        n_sizes=len(scene.sizes),
        n_settings=len(scene.everyone),
    )


def _columns(scene: Scene) -> tuple[Series, ...]:
    """Leads, then the faint that are chosen somewhere, then those that win most rows."""
    chosen = {zone.setting for zone in scene.zones}
    wins = {id(s): 0 for s in scene.faint}
    for nbytes in scene.sizes:
        best = _fastest(scene.everyone, nbytes)
        for series in scene.faint:
            wins[id(series)] += series.time_by_size.get(nbytes) == best
    useful = [s for s in scene.faint if s.setting in chosen or wins[id(s)]]
    useful.sort(key=lambda s: (s.setting not in chosen, -wins[id(s)]))
    kept = (scene.leads + tuple(useful))[:MAX_COLUMNS]
    return tuple(sorted(kept, key=lambda s: (s is not scene.baseline, _words(s))))


def _words(series: Series) -> tuple[str, str, int]:
    setting = series.setting
    algorithm = setting.algorithm.value if setting.algorithm else ""
    protocol = setting.protocol.value if setting.protocol else ""
    return algorithm, protocol, setting.channels or 0


def _fastest(series: tuple[Series, ...], nbytes: int) -> float | None:
    times = [t for s in series if (t := s.time_by_size.get(nbytes)) is not None]
    return min(times, default=None)


def _row(scene: Scene, columns: tuple[Series, ...], nbytes: int) -> tuple[Cell, ...]:
    best = _fastest(scene.everyone, nbytes)
    selectable = tuple(s for s in scene.everyone if s.unselectable is None)
    best_selectable = _fastest(selectable, nbytes)
    zone = next((z for z in scene.zones if z.min_nbytes <= nbytes <= z.max_nbytes), None)
    cells = []
    for column in columns:
        time_us = column.time_by_size.get(nbytes)
        if time_us is None or best is None:
            cells.append(Cell(time_us=None))
            continue
        second = time_us == best_selectable and time_us > best and column.unselectable is None
        cells.append(
            Cell(
                time_us=time_us,
                ratio=time_us / best,
                best=time_us == best,
                best_selectable=second,
                chosen=zone is not None and zone.setting == column.setting,
                is_doubted=zone is not None and is_doubted(zone),
            )
        )
    return tuple(cells)
