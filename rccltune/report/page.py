"""Records to one HTML text: the template fills in, and whatever it fills in is escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from rccltune.report.drawing import draw, number, svg_marker, svg_path
from rccltune.report.records import Page

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
