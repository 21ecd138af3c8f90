"""What every figure of a target carries beside its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rccltune.report import Axis, Band, Figure, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What every figure of a target carries.

    Attributes:
        stem: start of its name on the page.
        about: target in words.
        stamp: whether it was measured.
        source: where its figures are from.
        most_points: of one figure.
    """

    stem: str
    about: str
    stamp: str
    loud: bool
    source: str
    most_points: int


def figure(
    frame: Frame,
    kind: str,
    *,
    title: str,
    words: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    rows: tuple[tuple[str, ...], ...],
    header: tuple[str, ...],
    more: str = "",
    bands: tuple[tuple[str, tuple[Band, ...]], ...] = (),
    level: float | None = None,
) -> Figure:
    """A figure under a target's name, with its stamp and source."""
    return Figure(
        name=f"{frame.stem}-{kind}",
        title=f"{frame.about}: {title}",
        words=words,
        stamp=frame.stamp,
        loud=frame.loud,
        x=x,
        y=y,
        lines=tuple(lines),
        header=header,
        rows=rows,
        source=f"{frame.source} {more}".strip(),
        bands=bands,
        level=level,
    )
