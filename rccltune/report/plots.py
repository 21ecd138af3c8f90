"""Figures of a session as files, and as the SVG that its page embeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from matplotlib.figure import Figure

from rccltune.model.defaults import FIGURES, MORE_FIGURES
from rccltune.model.errors import CommandLineError
from rccltune.model.link_map import LinkMap
from rccltune.model.reporter import Reporter
from rccltune.model.vocabulary import FIGURE_FORMATS
from rccltune.report import by_name, figures, link_figure, style
from rccltune.report.contents import read_contents
from rccltune.report.tables import FigureTables, tables_of
from rccltune.session.files import disk_errors, write_atomically

if TYPE_CHECKING:
    from rccltune.transferbench import Ceilings

_DRAWN: Final[Mapping[str, Callable[[FigureTables], Figure | None]]] = {
    **{name: getattr(figures, name) for name in FIGURES},
    **{name: getattr(by_name, name) for name in MORE_FIGURES},
}
_WHY_NOT: Final = {
    "gain": "there is no rule whose gain is known",
    "speedup": "no baseline was measured beside other settings (see --baseline)",
    "bandwidth": "one rank sends nothing over any link",
    "channels": "no setting was measured with several numbers of channels",
    "predictions": "nothing said which settings the library takes by itself",
    "residuals": "every curve joins its points",
}
# Of a link map, which a page and a reader of the folder look at.
LINK_FORMATS: Final = ("svg", "png")
# Twice as fast as the default level, and a tenth larger.
_COMPRESSION: Final = 3
_SVG: Final = "{http://www.w3.org/2000/svg}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_DIGITS: Final = re.compile(r"(\d+\.\d)\d+")


def plot_session(
    folder: Path,
    *,
    reporter: Reporter,
    directory: Path | None,
    formats: Sequence[str],
    names: Sequence[str] = (),
    overwrite: bool,
    bounds: Callable[[Ceilings], None] = lambda _found: None,
) -> tuple[Path, ...]:
    """Draw the figures that a session has data for; all or none is written.

    Args:
        folder: the session.
        reporter: told what is worth telling.
        directory: of the figures, None for the session's own.
        formats: of the files.
        names: of the figures; empty for the five that everybody wants.
        overwrite: replace figures that are there; the session's own always are.
        bounds: told what the session's rates of links say, where it has any.

    Raises:
        CommandLineError: an unknown name or format, or a figure is there and may not be
            overwritten.
        TooLittleDataError: no good sample.
    """
    _check(formats, FIGURE_FORMATS, "figure can be drawn as")
    _check(names, tuple(_DRAWN), "figure is called")
    where = directory or folder / "plots"
    if directory is not None and not overwrite:
        _check_free(where / f"{name}.{kind}" for name in names or FIGURES for kind in formats)
    contents = read_contents(folder, reporter=reporter)
    if contents.choice is None and not any(one.rules for one in contents.files):
        reporter.say("no rules are drawn: nothing was chosen yet; rccltune emit-config chooses")
    for one in contents.done.excluded:
        reporter.say(f"not measured: {one}: excluded, {one.reason}")
    if contents.limits is not None:
        bounds(contents.limits)
    tables = tables_of(contents)
    content_of: dict[Path, bytes] = {}
    gone: list[Path] = []
    with style.applied():
        for name in names or FIGURES:
            figure = _DRAWN[name](tables)
            if figure is None:
                message = f"{name} is not drawn: {_WHY_NOT[name]}"
                # One of an earlier choice would be taken for this one's.
                old = [where / f"{name}.{kind}" for kind in FIGURE_FORMATS]
                gone += [path for path in old if directory is None and path.exists()]
                (reporter.say if names else reporter.detail)(message)
                continue
            for kind in formats:
                content_of[where / f"{name}.{kind}"] = encoded(
                    figure, kind, name, simulated=contents.simulated
                )
    with disk_errors(where):
        for path, content in content_of.items():
            write_atomically(path, content)
        for path in gone:
            path.unlink()
            reporter.say(f"{path} was of an earlier choice, and is taken away")
    return tuple(content_of)


def draw_links(link_map: LinkMap, directory: Path) -> tuple[Path, ...]:
    """Draw a link map as ``links.svg`` and ``links.png``, in place of older ones; the files.

    Raises:
        SessionError: the disk refuses.
    """
    paths = []
    with style.applied():
        figure = link_figure.link_map(link_map)
        for kind in LINK_FORMATS:
            paths.append(directory / f"links.{kind}")
            content = encoded(figure, kind, "links", simulated=link_map.simulated)
            write_atomically(paths[-1], content)
    return tuple(paths)


def encoded(figure: Figure, kind: str, title: str, *, simulated: bool) -> bytes:
    """A figure's bytes: the same for the same figure, with its origin in the metadata."""
    origin = "simulated" if simulated else "measured"
    said: dict[str, str | None] = {"Title": title}
    said |= {"Subject": origin, "CreationDate": None} if kind == "pdf" else {"Description": origin}
    said |= {"Date": None} if kind == "svg" else {}
    extra: dict[str, Any] = {}
    if kind == "png":
        extra = {"pil_kwargs": {"compress_level": _COMPRESSION}}
    buffer = BytesIO()
    figure.savefig(buffer, format=kind, metadata=said, **extra)
    return buffer.getvalue()


def inline_svg(figure: Figure, name: str, title: str) -> str:
    """A figure as an element of a page.

    Ids are the page's own, styles become attributes (the page allows no others), and ink and paper
    are the page's, whatever its colours are.

    Args:
        figure: to draw.
        name: begins every id.
        title: for who cannot see it.
    """
    figure.patch.set_visible(False)
    buffer = BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    root = ET.fromstring(buffer.getvalue())  # noqa: S314 - made in the line above
    for unwanted in (f"{_SVG}metadata",):
        for one in root.findall(unwanted):
            root.remove(one)
    for parent in root.iter(f"{_SVG}defs"):
        for one in parent.findall(f"{_SVG}style"):
            parent.remove(one)
    for one in root.iter():
        _restyle(one, name)
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib |= {"viewBox": box, "role": "img", "aria-label": title}
    ET.register_namespace("", _SVG.strip("{}"))
    ET.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    return ET.tostring(root, encoding="unicode")


def _restyle(one: ET.Element, name: str) -> None:
    """Change one element of an SVG into one that a page may hold."""
    for pair in one.attrib.pop("style", "").split(";"):
        key, _, value = pair.partition(":")
        if key.strip() == "font":
            size = re.search(r"([\d.]+)px", value)
            one.attrib["font-size"] = size[1] if size else "8"
            one.attrib |= {"font-weight": "bold"} if "bold" in value else {}
        elif key.strip():
            one.attrib[key.strip()] = value.strip()
    is_group = one.tag == f"{_SVG}g"
    if "id" in one.attrib and is_group:
        del one.attrib["id"]
    for key, value in one.attrib.items():
        text = value.replace(style.INK, "currentColor").replace(style.PAPER, "var(--paper)")
        if key == "id":
            text = f"{name}-{value}"
        elif key == _LINK:
            text = f"#{name}-{value[1:]}"
        elif "url(#" in value:
            text = value.replace("url(#", f"url(#{name}-")
        elif key in ("d", "x", "y", "transform"):
            text = _DIGITS.sub(r"\1", text)
        one.attrib[key] = text


def _check(words: Iterable[str], known: Sequence[str], what: str) -> None:
    unknown = [name for name in words if name not in known]
    if unknown:
        raise CommandLineError(
            f"No {what} {', '.join(unknown)}.", hint=f"Choose from {', '.join(known)}."
        )


def _check_free(paths: Iterable[Path]) -> None:
    existing = [path for path in paths if path.exists()]
    if existing:
        raise CommandLineError(
            f"{len(existing)} of the figures exist already: {', '.join(p.name for p in existing)}.",
            where=str(existing[0].parent),
            hint="Give --force to overwrite them, or -o for another folder.",
        )
