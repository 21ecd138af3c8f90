"""``rccltune report`` and ``rccltune plot``: a session as a page, and as figures in files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, WordChoice, common
from rccltune.cli.fit_tables import ceiling_lines
from rccltune.cli.help import verb
from rccltune.cli.shared_options import (
    FOLDER,
    markdown_option,
    named,
    session_argument,
)
from rccltune.model import defaults
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.vocabulary import FIGURE_FORMATS

if TYPE_CHECKING:
    from rccltune.report.page import WrittenPage


@verb("report")
@session_argument
@click.option(
    "-o", "--output", type=FOLDER, help="File for the page. [default: report.html in the session]"
)
@click.option("--force", is_flag=True, help="Replace the file of -o.")
@markdown_option
@common
def report(
    *,
    console: Console,
    session: Path,
    output: Path | None,
    force: bool,
    markdown: Path | None,
) -> None:
    """Write one page that says what was won, where, and how it was proven.

    One HTML file that loads nothing and runs no script. First what was tuned and where, what it
    gains, the rules with what proves them, and the line that uses them; folded below what is left
    to the library, all settings, machine, method and files.

    \b
    Example:
      rccltune report
      rccltune report rccltune-session -o for-the-team.html

    Exit codes: 0 done, 2 the file of -o is there (--force), 3 a rule file was cut, 7 no session, 8
    no usable sample.
    """
    _name_session(console, session)
    from rccltune.report.page import report_session, write_markdown

    done = report_session(
        session,
        reporter=console,
        output=output,
        overwrite=force,
        session="" if session == DEFAULT_SESSION else shlex.quote(str(session)),
    )
    console.result(done, _text(done))
    if markdown is not None:
        write_markdown(session, markdown, reporter=console)
    console.say(f"Next: {done.following}")


def _name_session(console: Console, session: Path) -> None:
    """Say which session it is, and stop where there is none, before matplotlib is imported."""
    from rccltune.session.store import open_session

    console.say(f"Session: {session}")
    open_session(session)


def _text(done: WrittenPage) -> JoinedLines:
    return join_lines([done.headline, f"{done.path} ({done.n_bytes:,} bytes)"])


@verb("plot")
@session_argument
@click.option(
    "-o", "--output", type=FOLDER, help="Folder for the figures. [default: plots/ in the session]"
)
@click.option(
    "--format",
    "formats",
    type=WordChoice(FIGURE_FORMATS),
    multiple=True,
    default=defaults.FIGURE_FORMAT,
    show_default=True,
    help="Format of the figures (repeatable).",
)
@click.option(
    "--figure",
    "names",
    type=WordChoice((*defaults.FIGURES, *defaults.MORE_FIGURES)),
    multiple=True,
    metavar="NAME",
    help=f"Draw this figure alone (repeatable): {', '.join(defaults.FIGURES)}, which are the "
    f"default; {', '.join(defaults.MORE_FIGURES)}.",
)
@click.option("--force", is_flag=True, help="Replace figures in the folder of -o.")
@common
def plot(
    *,
    console: Console,
    session: Path,
    output: Path | None,
    formats: tuple[str, ...],
    names: tuple[str, ...],
    force: bool,
) -> None:
    """Draw what was measured, fitted and chosen.

    What the rules gain, speed-up over the baseline, time with its fit, bus bandwidth, and a table
    of all settings, a panel for each collective and scale. By name: how far fits are off, what
    channels buy, what the library takes by itself, environments beside the site.

    \b
    Example:
      rccltune plot --format svg
      rccltune plot --figure channels

    Exit codes: 0 done, 2 a figure is in the folder of -o (--force), 3 a rule file was cut, 7 no
    session, 8 no usable sample.
    """
    _name_session(console, session)
    from rccltune.report import plots

    paths = plots.plot_session(
        session,
        reporter=console,
        directory=output,
        formats=formats,
        names=names,
        overwrite=force,
        bounds=lambda found: console.say(join_lines(ceiling_lines(found))),
    )
    console.result({"figures": paths}, join_lines(map(str, paths)))
    console.say(f"Next: {named('report', session)} makes one page of them, to mail.")
