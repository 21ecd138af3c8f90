"""Figures of one or several targets as files: all or none, the same bytes for the same data.

``draw_figures`` is the way in. What a figure shows is decided where the page has it from; a file
is the same shapes on paper. matplotlib is imported here, so the command line imports this late.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from io import BytesIO
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from rccltune.model import defaults
from rccltune.model.errors import CommandLineError
from rccltune.model.links import LinkMap
from rccltune.model.vocabulary import FIGURE_FORMATS
from rccltune.report.figures.axes import frame_of
from rccltune.report.figures.cast import scenes
from rccltune.report.figures.gain import gained
from rccltune.report.figures.lines import bandwidth_data, channel_data, speedup_data
from rccltune.report.figures.pictures import figures_of
from rccltune.report.figures.scene import PlotInput, Scene
from rccltune.report.figures.table import table_data
from rccltune.report.renderers.links import draw_link_map
from rccltune.report.renderers.replay import draw_figure
from rccltune.report.renderers.sheet import house_style
from rccltune.report.renderers.table import draw_table
from rccltune.session.files import write_atomically

# Files have room for every size.
_MOST_POINTS: Final = 1_000_000
_DPI: Final = 150
# A figure's name, and its files by their format.
_Drawn = tuple[str, dict[str, bytes]]


def check_formats(formats: Sequence[str]) -> None:
    """Raise CommandLineError for a format that is none of FIGURE_FORMATS."""
    unknown = [name for name in formats if name not in FIGURE_FORMATS]
    if unknown:
        raise CommandLineError(
            f"No figure can be drawn as {', '.join(unknown)}.",
            hint=f"Choose from {', '.join(FIGURE_FORMATS)}.",
        )


def check_free(paths: Iterable[Path]) -> None:
    """Raise CommandLineError naming every path that exists."""
    taken = [path for path in paths if path.exists()]
    if taken:
        raise CommandLineError(
            f"{len(taken)} of the figures exist already: {', '.join(p.name for p in taken)}.",
            where=str(taken[0].parent),
            hint="Give --force to overwrite them, or -o for another folder.",
        )


def encode(figure: Figure, kind: str, title: str, origin: str) -> bytes:
    """The figure's bytes: the same for the same figure, with its origin in the metadata."""
    buffer = BytesIO()
    # Twice as fast as the default level, and a tenth larger.
    extra: dict[str, Any] = {"pil_kwargs": {"compress_level": 3}} if kind == "png" else {}
    figure.savefig(buffer, format=kind, dpi=_DPI, metadata=_metadata(kind, title, origin), **extra)
    return buffer.getvalue()


def _metadata(kind: str, title: str, origin: str) -> dict[str, str | None]:
    """Title and origin under each format's own names, and no date."""
    match kind:
        case "png":
            return {"Title": title, "Description": origin}
        case "svg":
            return {"Title": title, "Description": origin, "Date": None}
        case _:
            return {"Title": title, "Subject": origin, "CreationDate": None}


_NO_BASELINE: Final = "speed-up: no baseline was measured beside other settings (see --baseline)"
_NO_BANDWIDTH: Final = "bandwidth: one rank sends nothing over any link"
# From this many targets on, starting processes costs less than it saves.
_WORTH_PROCESSES: Final = 3
_NO_CHANNELS: Final = "channels: no setting was measured with several numbers of channels"


def draw_figures(
    figures_input: PlotInput,
    directory: Path,
    formats: Sequence[str] = defaults.FIGURES,
    overwrite: bool = False,
) -> tuple[Path, ...]:
    """Draw every figure that the data allows and return the files, in a fixed order.

    Files are ``<collective>-<n>n<m>r[-<placement>]-<figure>.<format>``. All figures are drawn
    before the first is written, each file is written atomically, and the same input gives the
    same bytes.

    Raises:
        CommandLineError: an unknown format, or a file exists and ``overwrite`` is not set;
            nothing has been written then.
    """
    check_formats(formats)
    seen = scenes(figures_input)
    drawn = [drawing for scene in _draw_all(seen, tuple(formats)) for drawing in scene]
    whole = gained(seen, _MOST_POINTS)
    if whole is not None:
        origin = figures_input.origin
        drawn.insert(0, _encoded(partial(draw_figure, whole), "gained", formats, origin))
    found = {
        directory / f"{stem}.{kind}": content
        for stem, contents in drawn
        for kind, content in contents.items()
    }
    if not overwrite:
        check_free(found)
    for path, content in found.items():
        write_atomically(path, content)
    return tuple(found)


# Of a link map, which a page and a reader of the folder look at.
LINK_FORMATS: Final = ("svg", "png")


def draw_links(
    link_map: LinkMap, directory: Path, formats: Sequence[str] = LINK_FORMATS
) -> tuple[Path, ...]:
    """Draw a link map as ``links.<format>``, in place of an older one, and return the files.

    Raises:
        CommandLineError: an unknown format.
        SessionError: the disk refuses.
    """
    check_formats(formats)
    origin = "simulated" if link_map.simulated else "measured"
    paths = []
    _, contents = _encoded(partial(draw_link_map, link_map), "links", formats, origin)
    for kind, content in contents.items():
        paths.append(directory / f"links.{kind}")
        write_atomically(paths[-1], content)
    return tuple(paths)


def _encoded(
    drawing: Callable[[], Figure], name: str, formats: Sequence[str], origin: str
) -> _Drawn:
    with house_style():
        figure = drawing()
        return name, {kind: encode(figure, kind, name, origin) for kind in formats}


def _draw_all(seen: Sequence[Scene], formats: tuple[str, ...]) -> Iterable[list[_Drawn]]:
    """Every scene's figures; many scenes are drawn by several processes."""
    if len(seen) < _WORTH_PROCESSES:
        return [_draw_scene(scene, formats) for scene in seen]
    # Started anew rather than forked: numpy's threads would not survive a fork.
    with ProcessPoolExecutor(
        max_workers=min(len(seen), os.cpu_count() or 1), mp_context=get_context("spawn")
    ) as pool:
        return list(pool.map(_draw_scene, seen, repeat(formats)))


def _draw_scene(scene: Scene, formats: tuple[str, ...]) -> list[_Drawn]:
    """Each figure's name with its files, the table last."""
    origin = scene.given.origin
    made = [
        _encoded(partial(draw_figure, one), one.name, formats, origin)
        for one in figures_of(scene, frame_of(scene, scene.stem, _MOST_POINTS))
    ]
    table = partial(draw_table, table_data(scene))
    return [*made, _encoded(table, f"{scene.stem}-table", formats, origin)]


def omissions(figures_input: PlotInput) -> tuple[str, ...]:
    """Which figures ``draw`` leaves out and why, one sentence each, for the talk on stderr."""
    left_out = []
    for scene in scenes(figures_input):
        if speedup_data(scene) is None:
            left_out.append(f"{scene.stem}: {_NO_BASELINE}")
        if bandwidth_data(scene) is None:
            left_out.append(f"{scene.stem}: {_NO_BANDWIDTH}")
        if not channel_data(scene):
            left_out.append(f"{scene.stem}: {_NO_CHANNELS}")
    return tuple(left_out)
