"""Figures of one or several targets: pure figure data, thin renderers, deterministic files.

``draw`` is the way in. Each figure is a function from a Scene to frozen data (speedup, bandwidth,
timing, belief, variants, channels, table), tested without drawing, and a renderer of the same
name in ``render``.
matplotlib is imported with this room, so the command line imports the room late.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from rccltune import defaults
from rccltune.model import LinkMap
from rccltune.plot import files
from rccltune.plot.bandwidth import bandwidth_data
from rccltune.plot.belief import belief_data
from rccltune.plot.casting import scenes
from rccltune.plot.channels import channel_data
from rccltune.plot.render.bandwidth import draw_bandwidth
from rccltune.plot.render.belief import draw_belief
from rccltune.plot.render.channels import draw_channels
from rccltune.plot.render.links import draw_link_map
from rccltune.plot.render.sheet import house_style
from rccltune.plot.render.speedup import draw_speedup
from rccltune.plot.render.table import draw_table
from rccltune.plot.render.timing import draw_timing
from rccltune.plot.render.variants import draw_variants
from rccltune.plot.scene import PlotInput, Scene
from rccltune.plot.speedup import speedup_data
from rccltune.plot.table import table_data
from rccltune.plot.timing import time_data
from rccltune.plot.variants import variant_data

__all__ = ["LINK_FORMATS", "PlotInput", "draw", "draw_links", "omissions"]

_NO_BASELINE: Final = "speed-up: no baseline was measured beside other settings (see --baseline)"
_NO_BANDWIDTH: Final = "bandwidth: one rank sends nothing over any link"
_NO_TIMES: Final = "belief: no time that the library predicts is known here"
# From this many targets on, starting processes costs less than it saves.
_WORTH_PROCESSES: Final = 3
_NO_CHANNELS: Final = "channels: no setting was measured with several numbers of channels"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A figure whose data is there and which only waits to be drawn."""

    stem: str
    draw: Callable[[], Figure]


def draw(
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
    files.check_formats(formats)
    seen = scenes(figures_input)
    names = [f"{one.stem}.{kind}" for scene in seen for one in _plan(scene) for kind in formats]
    paths = [directory / name for name in names]
    if not overwrite:
        files.check_free(paths)
    contents = [content for drawn in _draw_all(seen, tuple(formats)) for content in drawn]
    for path, content in zip(paths, contents, strict=True):
        files.write(path, content)
    return tuple(paths)


# Of a link map, which a page and a reader of the folder look at.
LINK_FORMATS: Final = ("svg", "png")


def draw_links(
    link_map: LinkMap, directory: Path, formats: Sequence[str] = LINK_FORMATS
) -> tuple[Path, ...]:
    """Draw a link map as ``links.<format>``, in place of an older one, and return the files.

    Raises:
        CommandLineError: an unknown format.
        OSError: the disk refuses.
    """
    files.check_formats(formats)
    origin = "simulated" if link_map.simulated else "measured"
    with house_style():
        figure = draw_link_map(link_map, origin)
        contents = {kind: files.encode(figure, kind, "links", origin) for kind in formats}
    paths = []
    for kind, content in contents.items():
        paths.append(directory / f"links.{kind}")
        files.write(paths[-1], content)
    return tuple(paths)


def _draw_all(seen: Sequence[Scene], formats: tuple[str, ...]) -> Iterable[list[bytes]]:
    """Every scene's figures; many scenes are drawn by several processes."""
    if len(seen) < _WORTH_PROCESSES:
        return [_draw_scene(scene, formats) for scene in seen]
    # Started anew rather than forked: numpy's threads would not survive a fork.
    with ProcessPoolExecutor(
        max_workers=min(len(seen), os.cpu_count() or 1), mp_context=get_context("spawn")
    ) as pool:
        return list(pool.map(_draw_scene, seen, repeat(formats)))


def _draw_scene(scene: Scene, formats: tuple[str, ...]) -> list[bytes]:
    contents = []
    with house_style():
        for one in _plan(scene):
            figure = one.draw()
            origin = scene.given.origin
            contents += [files.encode(figure, kind, one.stem, origin) for kind in formats]
    return contents


def omissions(figures_input: PlotInput) -> tuple[str, ...]:
    """Which figures ``draw`` leaves out and why, one sentence each, for the talk on stderr."""
    left_out = []
    for scene in scenes(figures_input):
        if speedup_data(scene) is None:
            left_out.append(f"{scene.stem}: {_NO_BASELINE}")
        if bandwidth_data(scene) is None:
            left_out.append(f"{scene.stem}: {_NO_BANDWIDTH}")
        if figures_input.beliefs and belief_data(scene) is None:
            left_out.append(f"{scene.stem}: {_NO_TIMES}")
        if channel_data(scene) is None:
            left_out.append(f"{scene.stem}: {_NO_CHANNELS}")
    return tuple(left_out)


def _plan(scene: Scene) -> list[_Planned]:
    speedup, bandwidth = speedup_data(scene), bandwidth_data(scene)
    channels, belief = channel_data(scene), belief_data(scene)
    variants = variant_data(scene)
    steps: list[tuple[str, Callable[[], Figure] | None]] = [
        ("speedup", partial(draw_speedup, speedup) if speedup else None),
        ("bandwidth", partial(draw_bandwidth, bandwidth) if bandwidth else None),
        ("time", partial(draw_timing, time_data(scene))),
        ("belief", partial(draw_belief, belief) if belief else None),
        ("variants", partial(draw_variants, variants) if variants else None),
        ("channels", partial(draw_channels, channels) if channels else None),
        ("table", partial(draw_table, table_data(scene))),
    ]
    return [
        _Planned(stem=f"{scene.stem}-{name}", draw=step) for name, step in steps if step is not None
    ]
