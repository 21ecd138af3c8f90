"""Data of the variants figure: what environments gain over the baseline, against size."""

from __future__ import annotations

from dataclasses import dataclass

from rccltune.model import Environment, VariantGain, format_size
from rccltune.report.figures.scene import Scene
from rccltune.report.figures.shapes import Polyline


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantLine:
    """One environment with the rules that belong to it.

    Attributes:
        points: (size in bytes, baseline's time / time in it).
        threshold_nbytes: size up to which it is confined, None where it is not.
        chosen: the rules are for it.
        lossy: its results differ by more than the benchmark allows.
    """

    name: str
    points: Polyline
    threshold_nbytes: int | None = None
    chosen: bool = False
    lossy: bool = False

    @property
    def label(self) -> str:
        """Its name, and what a reader must know of it."""
        reach = self.threshold_nbytes
        words = [self.name if reach is None else f"{self.name} up to {format_size(reach)}"]
        words += ["lossy"] if self.lossy else []
        words += ["chosen"] if self.chosen else []
        return ", ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantData:
    """Lines in the order in which variants were named; the site's own rules first."""

    scene: Scene
    lines: tuple[VariantLine, ...]

    @property
    def ratios(self) -> list[float]:
        """All of them, 1 among them."""
        return [1.0, *(ratio for line in self.lines for _, ratio in line.points)]


def variant_data(scene: Scene) -> VariantData | None:
    """Gains of variants over the baseline, None where no variant was measured here."""
    pairs = [(one, gain) for one in scene.given.environments for gain in _mine(one, scene)]
    lines = [_line(one, gain) for one, gain in pairs if gain.points]
    if not lines:
        return None
    any_chosen = any(line.chosen for line in lines)
    tuned = VariantLine(
        name="site with its rules", points=_ratios(pairs[0][1].tuned), chosen=not any_chosen
    )
    return VariantData(scene=scene, lines=(*([tuned] if tuned.points else []), *lines))


def _mine(one: Environment, scene: Scene) -> list[VariantGain]:
    place = (scene.collective, scene.scale, scene.rank_placement)
    return [
        gain
        for gain in one.gains
        if (gain.target.collective, gain.target.scale, gain.target.rank_placement) == place
    ]


def _line(one: Environment, gain: VariantGain) -> VariantLine:
    return VariantLine(
        name=one.variant.name,
        points=_ratios(gain.points),
        threshold_nbytes=one.threshold_nbytes,
        chosen=one.chosen,
        lossy=one.variant.lossy,
    )


def _ratios(points: tuple[tuple[int, float], ...]) -> Polyline:
    return tuple((float(nbytes), 1 + gain) for nbytes, gain in points)
