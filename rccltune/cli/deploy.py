"""``rccltune deploy``: the plugin and its rules, in a folder for a site's jobs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import verb
from rccltune.cli.options import FOLDER, allow_need_option
from rccltune.model import CommandLineError, Laid, lay

if TYPE_CHECKING:
    from rccltune.deploy import Deployed


@verb("deploy")
@click.argument("folders", nargs=-1, type=FOLDER, metavar="[SESSION] DIR")
@click.option("--rollback", is_flag=True, help="Switch DIR back to the version before.")
@click.option(
    "--force",
    is_flag=True,
    help="Put it into a folder with other things in it; replace a version that was changed.",
)
@click.option("--unproven", is_flag=True, help="Deploy rules whose gain nothing proves, too.")
@click.option(
    "--environment",
    metavar="NAME",
    help="The pair of files for another environment, channels-32, in place of the site's.",
)
@allow_need_option
@common
def deploy(
    *,
    console: Console,
    folders: tuple[Path, ...],
    rollback: bool,
    force: bool,
    unproven: bool,
    environment: str | None,
    allowed: frozenset[str],
) -> None:
    """Make a folder that a site can put before its jobs, or an image.

    The plugin, the session's rule files, env.sh to source, module files, lines for Slurm and
    containers, a MANIFEST with hashes, and check.sh, which asks a node whether it is ready.
    Versions lie side by side; running jobs keep theirs.

    \b
    Example:
      rccltune deploy /apps/rccltune
      srun --ntasks-per-node=1 /apps/rccltune/check.sh
      . /apps/rccltune/env.sh

    Exit codes: 0 done, 2 DIR holds other things (--force) or rules are unproven (--unproven), 3 a
    rule file has mistakes, 4 no plugin, 7 no session, no rule file, no version before, or a full
    disk.
    """
    from rccltune.deploy import deploy_session, placed_as_plain, undo_delivery

    session, directory = _folders(folders, rollback=rollback)
    if rollback:
        placed = undo_delivery(directory, reporter=console)
        plain = placed_as_plain(directory, placed)
        lines = [f"{directory}: back to version {placed.name}; it was {placed.before}."]
        lines += [f"  {remark}" for remark in plain["remarks"]]
        lines.append("Jobs that run keep what they have opened.")
        lines.append(_check_line(directory))
        console.result(plain, lay(lines))
        return
    console.say(f"Session: {session}")
    done = deploy_session(
        session,
        directory,
        force=force,
        reporter=console,
        allowed=allowed,
        unproven=unproven,
        environment=environment,
    )
    console.result(done.as_plain(), _text(done))


def _folders(given: tuple[Path, ...], *, rollback: bool) -> tuple[Path, Path]:
    """The session and where to."""
    match given:
        case (directory,):
            return DEFAULT_SESSION, directory
        case (session, directory) if not rollback:
            return session, directory
        case ():
            raise click.UsageError("Missing argument 'DIR': the folder to make.")
        case _:
            raise CommandLineError(
                "--rollback takes the deployed folder alone"
                if rollback
                else f"{len(given)} folders are too many",
                hint="rccltune deploy --rollback DIR"
                if rollback
                else "rccltune deploy [SESSION] DIR",
            )


def _text(done: Deployed) -> Laid:
    from rccltune.deploy import NOT_VERIFIED, SIMULATED, unproven_words

    delivery, placed = done.delivery, done.placed
    lines = [SIMULATED, ""] if delivery.simulated else []
    was = f" (before: {placed.before})" if placed.before else ""
    if placed.before == placed.name:
        was = " (it was there already)"
    lines.append(f"Version {placed.name} in {done.directory}{was}")
    for one in delivery.rules:
        state = f"verified: {one.verified}" if one.verified else NOT_VERIFIED
        lines.append(f"  {one.name}: {one.count}, {state}")
    lines += [f"  {unproven_words(one)}" for one in delivery.rules if one.n_unproven]
    lines += [f"  needs {name}={value}" for name, value in delivery.environment]
    if delivery.placements:
        listed = " or ".join(delivery.placements)
        lines.append(f"  only for jobs that export RCCLTUNE_PLACEMENT={listed}")
    directory = shlex.quote(str(done.directory))
    lines += [
        _check_line(done.directory),
        f"To use it: . {directory}/env.sh",
        f"or: module use {directory}/modulefiles; module load rccltune",
    ]
    if placed.before not in (None, placed.name):
        lines.append(f"To go back: rccltune deploy --rollback {directory}")
    return lay(lines)


def _check_line(directory: Path) -> str:
    check = shlex.quote(str(directory / "check.sh"))
    return f"To check every node: srun --ntasks-per-node=1 -N NODES {check}"
