"""``rccltune npkit``: one setting at one size with NPKit's events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, TextParameter, common
from rccltune.cli.help import verb
from rccltune.cli.shared_options import COLLECTIVE, FOLDER, session_argument
from rccltune.measure.sweep_schema import parse_measured_setting
from rccltune.model.text import JoinedLines, join_lines
from rccltune.model.units import parse_size
from rccltune.model.vocabulary import Collective

if TYPE_CHECKING:
    from rccltune.model.settings import Setting
    from rccltune.npkit import DumpResult

_SETTING = TextParameter("setting", parse_measured_setting)
_SIZE = TextParameter("size", parse_size)


@verb("npkit")
@session_argument
@click.option("--setting", type=_SETTING, required=True, help="Which: tree/ll128, ring/ll/16, …")
@click.option("--collective", type=COLLECTIVE, required=True, help="Of which collective.")
@click.option("--bytes", "nbytes", type=_SIZE, required=True, help="At which message size.")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("npkit-dump"),
    show_default=True,
    metavar="DIR",
    help="New folder for the events, which every host has.",
)
@common
def npkit(
    *,
    console: Console,
    session: Path,
    setting: Setting,
    collective: Collective,
    nbytes: int,
    output: Path,
) -> None:
    """Run one setting at one size with NPKit's events, and say what makes a trace of them.

    Where is what SESSION was swept with: ranks, launcher, and a library built with NPKit.

    \b
    Example:
      rccltune npkit --setting tree/ll --collective all_reduce --bytes 4M -o dump

    Exit codes: 0 done, 2 the folder is not empty, 4 no NPKit in the library, 5 the ranks fail,
    another setting ran, or the events are of no use, 7 no session.
    """
    from rccltune.measure.request import session_request
    from rccltune.npkit import DumpPlan, dump_setting
    from rccltune.session.store import open_session

    console.say(f"Session: {session}")
    open_session(session)
    measured = session_request(session, {})
    chosen = DumpPlan(collective=collective, setting=setting, nbytes=nbytes)
    done = dump_setting(session, output, chosen, measured, reporter=console)
    console.result(done, _text(done))


def _text(done: DumpResult) -> JoinedLines:
    dump = done.dump
    simulated = "SIMULATED " if done.simulated else ""
    what = f"{dump.n_gpu_events} events of {len(dump.ranks)} GPUs"
    lines = [
        f"{simulated}NPKit: {done.chosen}: {what}, {dump.n_files} files in {done.folder}",
        f"the run: {done.run}",
    ]
    if done.generator is None:
        lines.append(
            "npkit_trace_generator.py was not found in or above the library's folder: it is in "
            "RCCL's sources, tools/scripts/"
        )
    if done.header is None:
        lines.append(
            "npkit_event.h was not found: take src/include/npkit/npkit_event.h of the sources that "
            "this library was built from, since event numbers differ between releases"
        )
    return join_lines([*lines, f"Next: {done.command}"])
