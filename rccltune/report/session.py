"""A session to one page that can be mailed, escaped wherever the template fills in."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from rccltune.model.errors import CommandLineError
from rccltune.model.reporter import Reporter
from rccltune.report.drawing import draw, number, svg_marker, svg_path
from rccltune.report.records import Page
from rccltune.report.sections import findings, headline, launches, machine, rules, usage
from rccltune.report.sections.found import Found, gather
from rccltune.session import files

if TYPE_CHECKING:
    pass


# What a mail attachment may weigh.
LIMIT_NBYTES: Final = 2_000_000
_FILES: Final = Path(__file__).parent / "files"
# Control characters are no text in HTML, and those that turn the direction of writing make a line
# read as what it is not.
_NO_TEXT: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_REPLACEMENT: Final = "\ufffd"


def render(page: Page) -> str:
    """The page as HTML.

    Nothing is fetched by it: style and script are inside, and the page itself forbids all else.
    """
    style, script = _file("page.css"), _file("page.js")
    return _template().render(
        page=page,
        style=Markup(style),  # noqa: S704 - a file of ours
        script=Markup(script),  # noqa: S704 - ditto
        policy=(
            f"default-src 'none'; style-src 'sha256-{_digest(style)}'; "
            f"script-src 'sha256-{_digest(script)}'; base-uri 'none'; form-action 'none'"
        ),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FILES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_clean,
    )
    environment.globals |= {"draw": draw, "path": svg_path, "marker": svg_marker}
    environment.filters["px"] = number
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html")


@cache
def _file(name: str) -> str:
    # The hash is of what stands between the tags, so the file goes in as it is.
    return (_FILES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _clean(value: object) -> object:
    """Text as a page may hold it."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _NO_TEXT.sub(_REPLACEMENT, value)


def _breakable(text: str) -> Markup:
    """Text in which a long path may be broken behind its slashes."""
    clean = _NO_TEXT.sub(_REPLACEMENT, text)
    return escape(clean).replace("/", Markup("/<wbr>"))


REPORT_FILE: Final = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much of a large session is shown.

    Attributes:
        targets: whose figures are drawn.
        points: of one figure.
        launches: with an excerpt, of the sweep and of the verification each.
    """

    targets: int
    points: int
    launches: int


# The first that keeps the page below its limit.
_BOUNDS: Final = (
    Bounds(targets=12, points=420, launches=150),
    Bounds(targets=8, points=240, launches=60),
    Bounds(targets=5, points=160, launches=30),
    Bounds(targets=2, points=100, launches=10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The page that was written.

    Attributes:
        claim: its headline.
    """

    path: Path
    n_bytes: int
    claim: str
    simulated: bool

    def as_plain(self) -> dict[str, Any]:
        """For --json."""
        return {
            "path": str(self.path),
            "bytes": self.n_bytes,
            "claim": self.claim,
            "simulated": self.simulated,
        }


def report_session(
    folder: Path,
    *,
    reporter: Reporter,
    output: Path | None = None,
    overwrite: bool = False,
) -> Reported:
    """Write the page of a session.

    Args:
        folder: the session.
        reporter: told what is worth telling.
        output: the page; None for the session's own.
        overwrite: replace a page that is there; the session's own always is.

    Raises:
        CommandLineError: the file is there and may not be overwritten.
        SessionError: no session, or one that cannot be read.
        TooLittleDataError: no good sample.
    """
    path = output or folder / REPORT_FILE
    if path.exists() and (path.is_dir() or not (overwrite or output is None)):
        raise CommandLineError(
            "the report is there already" if path.is_file() else "this is a folder, no page",
            where=str(path),
            hint="add --force, or write elsewhere with -o FILE.",
        )
    found = gather(folder, reporter=reporter)
    text = ""
    made = _page(found, _BOUNDS[0])
    for turn, bounds in enumerate(_BOUNDS):
        made = made if turn == 0 else _page(found, bounds)
        text = render(made)
        if len(text.encode()) <= LIMIT_NBYTES:
            break
        reporter.say(
            f"the page would have {len(text.encode()):,} bytes: less of the session is shown"
        )
    files.write_atomically(path, text)
    return Reported(
        path=path,
        n_bytes=len(text.encode()),
        claim=made.headline.claim,
        simulated=found.simulated,
    )


def _page(found: Found, bounds: Bounds) -> Page:
    sections = (
        rules.rules_section(found),
        usage.use_section(found),
        findings.targets_section(
            found,
            most_targets=bounds.targets,
            most_points=bounds.points,
        ),
        machine.machine_section(found),
        findings.undecided_section(found),
        usage.repeat_section(found),
        # Last, since on paper it is most of the sheets.
        launches.launches_section(found, most=bounds.launches),
    )
    names = ", ".join(dict.fromkeys(curve.key.collective.value for curve in found.done.curves))
    said = headline.headline(found)
    return Page(
        title=f"rccltune: {names}",
        subject=found.machine or "machine not recorded",
        marks=usage.marks(found),
        headline=replace(said, plots=findings.gain_plot(found, bounds.points)),
        sections=tuple(one for one in sections if one is not None),
        footer=usage.footer(found),
    )
