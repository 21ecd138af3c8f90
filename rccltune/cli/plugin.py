"""``rccltune plugin``: where the plugin is, that it works, and which file a library needs."""

from __future__ import annotations

import shlex
import sys

import click

from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.model.errors import CommandLineError
from rccltune.model.text import join_lines


@verb("plugin")
@click.option("--path", "action", flag_value="path", help="Print the file's path (the default).")
@click.option("--env", "action", flag_value="env", help="Print the exports that use it.")
@click.option(
    "--check",
    "action",
    flag_value="check",
    help="Load it, ask it at every version, and say what each library here needs.",
)
@common
def plugin(*, console: Console, action: str | None) -> None:
    """Show where the bundled tuner plugin is, how to use it, and that it works.

    A library needs a rule file alone, or the plugin too: docs/deploy.md has all releases.

    \b
    Example:
      eval "$(rccltune plugin --env)"
      rccltune plugin --check

    Exit codes: 0 done, 4 this install has no plugin, 9 the plugin answers wrongly.
    """
    from rccltune.plugin import library as plugin_library

    path = plugin_library()
    match action:
        case None | "path":
            console.result({"path": path}, str(path))
            # A script that captures the path is spared a line in its log.
            if sys.stdout.isatty():
                console.say('Next: eval "$(rccltune plugin --env)" uses it in this shell.')
        case "env":
            export = f"export NCCL_TUNER_PLUGIN={shlex.quote(str(path))}"
            console.result({"NCCL_TUNER_PLUGIN": path}, export)
        case "check":
            lines = _checked()
            console.result({"checks": lines}, join_lines([*lines, "The plugin works."]))
        case _:
            raise CommandLineError(f"unknown action '{action}'")


def _checked() -> list[str]:
    """Answers of the plugin, and what each library of this machine needs."""
    from rccltune.machine.installed_software import reads_rules
    from rccltune.machine.this_machine import detect_this_machine
    from rccltune.plugin import build_info, library
    from rccltune.rules.library_support import describe_needs
    from rccltune.rules.plugin_check import check_plugin

    offered = tuple(int(abi) for abi in build_info().get("abi_versions", ()))
    lines = check_plugin(library())
    for one in detect_this_machine(None).libraries:
        need = describe_needs(one.version, offered, built_in=reads_rules(one.path))
        lines.append(f"{one.owner}, {one.version or 'no version'}: {need} ({one.path})")
    return lines
