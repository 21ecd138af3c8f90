"""``rccltune plugin``: where the bundled plugin is and whether it works."""

from __future__ import annotations

import click

from rccltune.cli.console import Console, common
from rccltune.errors import CommandLineError


@click.command("plugin")
@click.option("--path", "wish", flag_value="path", help="Print the file's path (the default).")
@click.option("--env", "wish", flag_value="env", help="Print the exports that use it.")
@click.option("--check", "wish", flag_value="check", help="Load it and ask it at every version.")
@common
def plugin(*, console: Console, wish: str | None) -> None:
    """Show where the bundled tuner plugin is, how to use it, and that it works.

    \b
    Example:
      eval "$(rccltune plugin --env)"

    \b
    Exit codes: 0 done, 4 this install has no plugin, 9 the plugin answers wrongly.
    """
    from rccltune import plugin as installed

    path = installed.library()
    match wish:
        case None | "path":
            console.result(str(path), str(path))
        case "env":
            console.result({"NCCL_TUNER_PLUGIN": str(path)}, f"export NCCL_TUNER_PLUGIN={path}")
        case "check":
            from rccltune.pipeline.checking import check_plugin

            lines = check_plugin(path)
            console.result(lines, "\n".join(lines))
        case _:
            raise CommandLineError(f"unknown wish '{wish}'")
