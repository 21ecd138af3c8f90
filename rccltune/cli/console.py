"""What a user sees: results on stdout, talk on stderr, colour only where it is wanted."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from rccltune.model import Caution, Notice

DEFAULT_SESSION = Path("rccltune-session")
F = TypeVar("F", bound=Callable[..., Any])


def talk(text: str) -> None:
    """Say something on stderr; a terminal that is gone ends no sweep."""
    try:
        click.echo(text, err=True)
    except OSError as error:
        # A job that was disowned lives on when its terminal closes (EIO).
        if error.errno != errno.EIO:
            raise


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
                head = click.style("Warning:", fg="yellow") if self.color else "Warning:"
                talk(f"{head} {notice.message}{where}\n  {notice.remedy}")
        for caution, count in seen.items():
            if count > 3 and self.verbosity == 0:
                talk(f"Warning: {count - 3} more of '{caution.value}' (-v)")

    def result(self, plain: object, text: str) -> None:
        """The result: JSON where asked for, text otherwise."""
        click.echo(json.dumps(plain, indent=1, ensure_ascii=False) if self.as_json else text)


def common(command: F) -> F:
    """Options that every verb has; the verb gets a Console as ``console``."""

    def gather(verbose: int, quiet: bool, as_json: bool, color: str) -> Console:
        return Console(
            verbosity=-1 if quiet else verbose, as_json=as_json, color=_wants_color(color)
        )

    def wrapped(
        *args: Any,  # noqa: ANN401 - click passes whatever the verb declares
        verbose: int,
        quiet: bool,
        as_json: bool,
        color: str,
        **kwargs: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        return command(
            *args,
            console=gather(verbose=verbose, quiet=quiet, as_json=as_json, color=color),
            **kwargs,
        )

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            help="Colour; auto is a terminal without NO_COLOR.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Result as JSON on stdout."),
        click.option("-q", "--quiet", is_flag=True, help="Errors and warnings only."),
        click.option("-v", "--verbose", count=True, help="Say more."),
    ):
        option(wrapped)
    return wrapped  # type: ignore[return-value]


def _wants_color(choice: str) -> bool:
    if choice == "auto":
        return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return choice == "always"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int]) -> str:
    """A plain table of text; ``numeric`` columns are set flush right."""
    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        grid.add_column(name, justify="right" if number in numeric else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*(cell.replace("[", r"\[") for cell in row))
    # Wide enough for any row: cutting columns to a terminal's width would hide figures from pipes.
    console = RichConsole(width=400, color_system=None, file=sys.stderr)
    with console.capture() as capture:
        console.print(grid)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())
