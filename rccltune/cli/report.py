"""``rccltune report``: one page of a session, to be mailed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common
from rccltune.cli.options import FOLDER, Choosing, choosing, session_argument

if TYPE_CHECKING:
    from rccltune.pipeline.reporting import Reported


@click.command("report")
@session_argument
@click.option("-o", "--output", type=FOLDER, help="File. Default: report.html in the session.")
@click.option("--force", is_flag=True, help="Replace a page that is there.")
@choosing
@common
def report(
    *,
    console: Console,
    session: Path,
    output: Path | None,
    force: bool,
    choosing: Choosing,
) -> None:
    """Write one page that says what was won, where, and how it was proven.

    One HTML file under 2 MB that loads nothing: headline, machine, figures whose values can be
    read off by pointer and keyboard, rules with their evidence, the library's own belief, what is
    undecided, every launch with an excerpt of its log, how to use the rules and how to repeat it.
    A simulated session says so on top and on every figure.

    \b
    Example:
      rccltune report
      rccltune report examples-session -o for-the-team.html

    \b
    Exit codes: 0 done, 2 the file is there (--force), 7 no session, 8 no usable sample.
    """
    from rccltune.pipeline.reporting import report_session

    console.say(f"Session: {session}")
    done = report_session(
        session, choosing.options, note=console.say, output=output, overwrite=force
    )
    console.result(done.as_plain(), _text(done))


def _text(done: Reported) -> str:
    return f"{done.claim}\n{done.path} ({done.n_bytes:,} bytes)"
