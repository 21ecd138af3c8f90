"""``rccltune plot``: figures of a session."""

from __future__ import annotations

from pathlib import Path

import click

from rccltune.cli.ceiling import ceiling_lines, take, transferbench_option
from rccltune.cli.console import Console, common
from rccltune.cli.options import FOLDER, Choosing, choosing, session_argument


@click.command("plot")
@session_argument
@click.option("-o", "--output", type=FOLDER, help="Folder. Default: plots/ in the session.")
@click.option(
    "--format",
    "formats",
    type=click.Choice(["png", "svg", "pdf"]),
    multiple=True,
    default=("png",),
    show_default=True,
)
@click.option("--force", is_flag=True, help="Replace figures that are there.")
@transferbench_option
@choosing
@common
def plot(
    *,
    console: Console,
    session: Path,
    output: Path | None,
    formats: tuple[str, ...],
    force: bool,
    transferbench: Path | None,
    choosing: Choosing,
) -> None:
    """Draw what was measured, fitted and chosen.

    Speed-up over baseline, bus bandwidth, time with fitted curves and zones, time against
    channels, measured against what the library predicted, and a table of all settings, for each
    collective and scale.

    \b
    Example:
      rccltune plot --baseline ring/simple --format svg
      rccltune plot --transferbench a2a.txt

    \b
    Exit codes: 0 done, 2 a figure is there (--force), 5 TransferBench failed, 6 its output is not
    understood, 7 no session, 8 no usable sample.
    """
    from rccltune import pipeline

    console.say(f"Session: {session}")
    take(console, session, transferbench)
    paths = pipeline.plot_session(
        session,
        choosing.options,
        note=console.say,
        directory=output,
        formats=formats,
        overwrite=force,
        bounds=lambda found: console.say("\n".join(ceiling_lines(found))),
    )
    console.result([str(path) for path in paths], "\n".join(str(path) for path in paths))
