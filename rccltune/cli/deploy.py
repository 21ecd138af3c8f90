"""``rccltune deploy``: the plugin and its rules, in a folder for a site's jobs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import DEFAULT_SESSION, Console, common
from rccltune.cli.help import verb
from rccltune.cli.shared_options import FOLDER
from rccltune.model.text import JoinedLines, join_lines

if TYPE_CHECKING:
    from rccltune.deploy.folder import Deployment


@verb("deploy")
@click.argument("directory", type=FOLDER, metavar="DIR")
@click.argument("sessions", nargs=-1, type=FOLDER, metavar="[SESSION]...")
@click.option("--unproven", is_flag=True, help="Deploy rules whose gain nothing proves, too.")
@common
def deploy(
    *, console: Console, directory: Path, sessions: tuple[Path, ...], unproven: bool
) -> None:
    """Make a folder with plugin, rules, env.sh and README for a site's jobs.

    The plugin is loaded from it and asked before the folder gets its name. A folder that deploy
    made is replaced as a whole; any other is refused. Jobs that run may still need the files of
    before: make a new folder while they do. Sessions of one machine, library and environment that
    differ in scale become one rule file; placements of ranks keep files of their own.

    \b
    Example:
      rccltune deploy /apps/rccltune
      . /apps/rccltune/env.sh

    Exit codes: 0 done, 2 DIR is something else's or rules are unproven (--unproven), 3 a rule file
    has mistakes, 4 no plugin, 7 no session, no rule, or a full disk, 9 verification refused the
    rules.
    """
    from rccltune.deploy.session import deploy_sessions

    folders = sessions or (DEFAULT_SESSION,)
    console.say(f"Session: {', '.join(map(str, folders))}")
    done = deploy_sessions(directory, folders, unproven=unproven, reporter=console)
    console.result(done, _text(done))


def _text(done: Deployment) -> JoinedLines:
    from rccltune.deploy.folder import SIMULATED

    lines = [SIMULATED, ""] if done.simulated else []
    lines.append(f"{done.directory}: {'replaced' if done.replaced else 'made'}, loaded and asked")
    lines += [f"  {one.name}: {one.count}, {one.remark}" for one in done.rules]
    lines += [f"  needs {name}={value}" for name, value in done.environment]
    if done.placements:
        placements = " or ".join(done.placements)
        lines.append(f"  only for jobs that export RCCLTUNE_PLACEMENT={placements}")
    lines.append(f"To use it: . {shlex.quote(str(done.directory / 'env.sh'))}")
    return join_lines(lines)
