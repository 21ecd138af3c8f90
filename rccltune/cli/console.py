"""What a user sees: results on stdout, talk on stderr, colour only where it is wanted.

All that rccltune prints goes through :func:`talk` and :func:`put`, so that nothing that came from
data reaches a terminal as more than letters (:mod:`rccltune.showing`).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rccltune.showing import Laid, json_text, lay, shown

if TYPE_CHECKING:
    from rccltune.model import Caution, Notice

DEFAULT_SESSION = Path("rccltune-session")
F = TypeVar("F", bound=Callable[..., Any])


def talk(*lines: str) -> None:
    """Say something on stderr."""
    click.echo(lay(lines), err=True)


def put(text: str) -> None:
    """Write to stdout: the result, or a part of it."""
    click.echo(lay([text]))


def styled(text: str, color: str | None) -> Laid:
    """Text in a colour, None for none."""
    return Laid(click.style(shown(text), fg=color)) if color else lay([text])


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    """How this command line wants to be spoken to.

    Attributes:
        verbosity: -1 quiet, 0 normal, 1 and more verbose.
        as_json: the result goes to stdout as one JSON value.
    """

    verbosity: int
    as_json: bool
    color: bool

    def say(self, text: str) -> None:
        """Talk, unless quiet."""
        if self.verbosity >= 0:
            talk(text)

    def detail(self, text: str) -> None:
        """Talk that only -v wants."""
        if self.verbosity > 0:
            talk(text)

    def warn(self, notices: Iterable[Notice]) -> None:
        """Print each warning with its remedy; the same caution is spelled out three times."""
        seen: dict[Caution, int] = {}
        for notice in notices:
            seen[notice.caution] = seen.get(notice.caution, 0) + 1
            if seen[notice.caution] <= 3 or self.verbosity > 0:
                where = f" ({notice.where})" if notice.where else ""
                head = styled("Warning:", "yellow" if self.color else None)
                talk(lay([head, f" {notice.message}{where}"], gap=""), f"  {notice.remedy}")
        for caution, count in seen.items():
            if count > 3 and self.verbosity == 0:
                talk(f"Warning: {count - 3} more of '{caution.value}' (-v)")

    def result(self, plain: object, text: str) -> None:
        """The result: JSON where asked for, text otherwise."""
        put(json_text(plain, indent=1) if self.as_json else text)

    def event(self, name: str, plain: Mapping[str, Any], text: str) -> None:
        """A part of a result that comes bit by bit: a line of JSON where asked for, or text."""
        put(json_text({"event": name, **plain}) if self.as_json else text)


def common(command: F) -> F:
    """Options that every verb has; the verb gets a Console as ``console``."""

    def gather(given: dict[str, Any]) -> None:
        verbose, quiet = given.pop("verbose"), given.pop("quiet")
        given["console"] = Console(
            verbosity=-1 if quiet else verbose,
            as_json=given.pop("as_json"),
            color=_wants_color(given.pop("color")),
        )

    return with_options(command, _COMMON, gather)


_COMMON = (
    click.option("-v", "--verbose", count=True, help="Say more."),
    click.option("-q", "--quiet", is_flag=True, help="Errors and warnings only."),
    click.option("--json", "as_json", is_flag=True, help="Result as JSON on stdout."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        help="Colour; auto is a terminal without NO_COLOR.",
    ),
)


def with_options(
    command: F, options: Sequence[Callable[[F], F]], gather: Callable[[dict[str, Any]], None]
) -> F:
    """The verb with more options, in the order of its help.

    Args:
        command: the verb, with the options that it has so far.
        options: what click.option made.
        gather: turns what click passes for these options into what the verb wants, in place.
    """

    @wraps(command)
    def wrapped(**given: Any) -> Any:  # noqa: ANN401 - click passes whatever the verb declares
        gather(given)
        return command(**given)

    verb = cast("F", wrapped)
    # click appends in place, and wraps() shared the list with the verb underneath.
    vars(verb)["__click_params__"] = list(getattr(command, "__click_params__", []))
    for option in reversed(options):
        option(verb)
    return verb


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int]) -> Laid:
    """A plain table of text; ``numeric`` columns are set flush right."""
    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        grid.add_column(lay([name]), justify="right" if number in numeric else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*map(shown, row))
    # Wide enough for any row: cutting columns to a terminal's width would hide figures from pipes.
    text = io.StringIO()
    RichConsole(
        width=400, color_system=None, markup=False, emoji=False, highlight=False, file=text
    ).print(grid)
    return lay(line.rstrip() for line in text.getvalue().splitlines())
