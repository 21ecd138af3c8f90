"""``rccltune plot``: figures of a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rccltune.cli.ceiling import ceiling_lines, take
from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import verb
from rccltune.cli.options import FOLDER, Choosing, choosing, scales_option, transferbench_option
from rccltune.model import FIGURE_FORMATS, defaults, lay

if TYPE_CHECKING:
    from rccltune.model import Scale


@verb("plot")
@click.argument("sessions", nargs=-1, type=FOLDER, metavar="[SESSION]...")
@click.option(
    "-o", "--output", type=FOLDER, help="Folder for the figures. [default: plots/ in the session]"
)
@click.option(
    "--format",
    "formats",
    type=click.Choice(FIGURE_FORMATS),
    multiple=True,
    default=defaults.FIGURES,
    show_default=True,
    help="Format of the figures (repeatable).",
)
@click.option("--force", is_flag=True, help="Replace figures in the folder of -o.")
@transferbench_option
@scales_option
@choosing
@common
def plot(
    *,
    console: Console,
    sessions: tuple[Path, ...],
    output: Path | None,
    formats: tuple[str, ...],
    force: bool,
    transferbench: Path | None,
    scales: tuple[Scale, ...],
    choosing: Choosing,
) -> None:
    """Draw what was measured, fitted and chosen.

    Speed-up over baseline, bus bandwidth, time with fitted curves and zones, time against
    channels, measured against what the library predicted, and a table of all settings, for each
    collective and scale.

    With --extrapolate --scales 2x128 also what a model over the sessions' scales says of others.

    \b
    Example:
      rccltune plot --baseline ring/simple --format svg
      rccltune plot --transferbench a2a.txt

    Exit codes: 0 done, 2 a figure is in the folder of -o (--force), 5 TransferBench failed, 6 its
    output is not understood, 7 no session, 8 no usable sample.
    """
    from rccltune import report
    from rccltune.session import sessions_in

    given = sessions or (DEFAULT_SESSION,)
    folders = sessions_in(given)
    wanted = choosing.predicted(scales)
    console.say(f"Session: {', '.join(str(folder) for folder in folders)}")

    def how(directory: Path | None) -> dict[str, Any]:
        return {
            "reporter": console,
            "directory": directory,
            "formats": formats,
            "overwrite": force,
        }

    paths: list[Path] = []
    for folder in folders:
        take(console, [folder], transferbench)
        # Two sessions may have figures of one name, such as those of two placements of one scale.
        own = output / folder.name if output and len(folders) > 1 else output
        paths += report.plot_session(
            folder,
            choosing.options,
            **how(own),
            bounds=lambda found: console.say(lay(ceiling_lines(found))),
        )
    if wanted:
        where = output or given[0] / "plots"
        predicted = {**how(where), "overwrite": force or output is None}
        paths += report.plot_predicted(folders, wanted, choosing.options, **predicted)
    console.result([str(path) for path in paths], lay(map(str, paths)))
    console.say("Next: rccltune report makes one page of them, to mail.")
