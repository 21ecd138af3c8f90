"""What figures are drawn from, and what all figures of one target share."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model.chosen import Environment, LeftOut, Zone
from rccltune.model.curves import Crossover, Curve
from rccltune.model.failure import Quarantine
from rccltune.model.links import Ceiling
from rccltune.model.settings import Scale, Setting, Variant, View
from rccltune.model.vocabulary import Collective
from rccltune.report.verified import Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotInput:
    """Everything the figures are drawn from; curves of several targets may be mixed.

    Attributes:
        baseline: what speed-ups are relative to: a setting, the name of the variant whose baseline
            counts, or None for the site's own.
        left_out: settings that no rule of a target can choose, with the reasons.
        quarantined: settings that are not measured because their launches fail.
        environments: variants that were measured beside the baseline.
        ceilings: what the slowest link lets a collective reach, at most one for each target.
        source: where the numbers come from, as a reader would cite it.
        machine: product and mode.
        simulated: measured on the stand-in node; every figure then says so.
        published: copied from somebody's publication rather than measured here.
        imported: read from files; the benchmarks were not started by us.
        verified: what verifications of the session's rule files say.
    """

    curves: tuple[Curve, ...]
    crossovers: tuple[Crossover, ...] = ()
    zones: tuple[Zone, ...] = ()
    baseline: Setting | str | None = None
    left_out: tuple[LeftOut, ...] = ()
    quarantined: tuple[Quarantine, ...] = ()
    environments: tuple[Environment, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    source: str = ""
    machine: str = ""
    simulated: bool = False
    published: bool = False
    imported: bool = False
    verified: tuple[Verification, ...] = ()

    @property
    def stamp(self) -> tuple[str, bool]:
        """The word on every figure, and whether it speaks against taking it as measured here."""
        if self.simulated:
            return "SIMULATED, no hardware", True
        if self.published:
            return "published by others, imported", False
        return ("imported, measured elsewhere", False) if self.imported else ("measured", False)

    @property
    def origin(self) -> str:
        """``simulated``, ``published`` or ``measured``, for a file's metadata."""
        if self.simulated:
            return "simulated"
        return "published" if self.published else "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve with the name it has in the figures.

    Attributes:
        unselectable: why no rule can choose it, None where one can.
    """

    curve: Curve
    label: str
    unselectable: str | None = None

    @property
    def setting(self) -> Setting:
        """The setting that ran."""
        return self.curve.key.setting

    @property
    def time_by_size(self) -> dict[int, float]:
        """Time in µs at each measured size."""
        return {point.nbytes: point.time_us for point in self.curve.points}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One target, ready to be drawn.

    Attributes:
        leads: drawn strongly and labelled, the baseline first; at least one.
        faint: drawn thinly behind them, without labels.
        baseline: one of the leads, None where no baseline was measured.
        zones: by rising size, of one variant.
        views_left_out: views that were measured and are not drawn.
    """

    collective: Collective
    scale: Scale
    rank_placement: str | None
    view: View
    leads: tuple[Series, ...]
    faint: tuple[Series, ...]
    baseline: Series | None
    zones: tuple[Zone, ...]
    crossovers: tuple[Crossover, ...]
    views_left_out: tuple[View, ...]
    given: PlotInput

    @property
    def everyone(self) -> tuple[Series, ...]:
        """Leads and the faint."""
        return self.leads + self.faint

    @property
    def sizes(self) -> tuple[int, ...]:
        """Every measured size, rising."""
        return tuple(sorted({p.nbytes for s in self.everyone for p in s.curve.points}))

    @property
    def about(self) -> str:
        """``all_reduce, 64 ranks on 1 node``: what every title begins with."""
        placed = "" if self.rank_placement in (None, "node") else f", {self.rank_placement}"
        return f"{self.collective.value}, {self.scale}{placed}"

    @property
    def stem(self) -> str:
        """Start of the figures' file names: ``all_reduce-1n64r``."""
        stem = f"{self.collective.value}-{self.scale.n_nodes}n{self.scale.n_ranks}r"
        placement = self.rank_placement
        return stem if placement in (None, "node") else f"{stem}-{placement}"

    @property
    def chosen(self) -> tuple[tuple[Zone, Series], ...]:
        """Each zone that chooses, with the series of its setting where that was measured."""
        found = ((z, self.find(z.setting, z.variant)) for z in self.zones if z.setting is not None)
        return tuple((zone, series) for zone, series in found if series is not None)

    def find(self, setting: Setting, variant: Variant) -> Series | None:
        """The series of a zone's setting, in its variant where it was measured there."""
        found = [s for s in self.everyone if s.setting == setting]
        same = [s for s in found if s.curve.key.variant.name == variant.name]
        return next(iter(same or found), None)
