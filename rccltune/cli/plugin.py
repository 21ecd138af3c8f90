"""``rccltune plugin``: where the bundled plugin is, that it works, and whether a job needs it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rccltune.cli.console import Console, common
from rccltune.cli.help import verb
from rccltune.model.errors import CommandLineError
from rccltune.model.vocabulary import lay

if TYPE_CHECKING:
    from rccltune.machine.loaded_libraries import LoadedTuner, Mapped
    from rccltune.rules.library import Answered, JobCheck


@verb("plugin")
@click.option("--path", "action", flag_value="path", help="Print the file's path (the default).")
@click.option("--env", "action", flag_value="env", help="Print the exports that use it.")
@click.option("--check", "action", flag_value="check", help="Load it and ask it at every version.")
@click.option(
    "--pid",
    type=click.IntRange(min=1),
    metavar="PID",
    help="With --check: which library this process has loaded, and which file it needs.",
)
@click.option(
    "--python",
    metavar="EXE",
    help="With --check: the same for what this Python's torch would load.",
)
@common
def plugin(*, console: Console, action: str | None, pid: int | None, python: str | None) -> None:
    """Show where the bundled tuner plugin is, how to use it, and that it works.

    \b
    Example:
      eval "$(rccltune plugin --env)"
      rccltune plugin --check --python /apps/venv/bin/python

    Exit codes: 0 done, 4 this install has no plugin, the process or its library is not to be seen,
    or no plugin works with it, 9 the plugin answers wrongly.
    """
    from rccltune.plugin import library as plugin_library
    from rccltune.rules.decision import check_plugin

    if pid is not None or python is not None:
        if action not in (None, "check") or (pid is not None and python is not None):
            raise CommandLineError(
                "--pid and --python belong to --check, one at a time",
                hint="rccltune plugin --check --pid PID",
            )
        _check_job(console, pid, python)
        return
    path = plugin_library()
    match action:
        case None | "path":
            console.result(str(path), str(path))
            # A script that captures the path is spared a line in its log.
            if sys.stdout.isatty():
                console.say('Next: eval "$(rccltune plugin --env)" uses it in this shell.')
        case "env":
            export = f"export NCCL_TUNER_PLUGIN={shlex.quote(str(path))}"
            console.result({"NCCL_TUNER_PLUGIN": str(path)}, export)
        case "check":
            lines = check_plugin(path)
            ending = "The plugin works. Next: rccltune plugin --check --pid PID, for a running job."
            console.result(lines, lay([*lines, ending]))
        case _:
            raise CommandLineError(f"unknown action '{action}'")


def _check_job(console: Console, pid: int | None, python: str | None) -> None:
    from rccltune.model.errors import MachineError
    from rccltune.releases import LOADING_OURS
    from rccltune.rules.library import Need, check_process, check_python

    found = check_process(pid) if pid is not None else check_python(python or "")
    console.result(found.as_plain(), lay(_lines(found)))
    if all(one.need is Need.NOTHING_WORKS for one in found.answers):
        raise MachineError(
            "no plugin and no rule file works with this library",
            where=str(found.answers[0].library.file.path),
            hint=f"use {LOADING_OURS}, or later.",
        )


def _lines(found: JobCheck) -> list[str]:
    lines = [f"{found.loaded.what}: {found.loaded.by}"]
    for one in found.answers:
        lines += _library_lines(one)
    if len(found.answers) > 1:
        lines.append("more than one library is loaded: which one a call takes, its caller decides")
    for tuner in found.loaded.tuners:
        lines += _tuner_lines(tuner, ours=tuner in found.ours)
    if not found.loaded.tuners:
        lines.append("no tuner plugin is loaded")
    lines += [f"started with {name}={value}" for name, value in found.loaded.variables]
    lines += [
        f"{found.rules} is read otherwise where our plugin does not: {one}" for one in found.misread
    ]
    lines.append(f"mode of this machine's GPUs: {found.mode or 'not known'}")
    return lines


def _library_lines(one: Answered) -> list[str]:
    library = one.library
    versions = ", ".join(f"v{abi}" for abi in one.looks_up) or "none that could be seen"
    origin = "" if library.looks_up or not one.looks_up else " (by its version)"
    return [
        f"library {_path(library.file)}",
        f"  version: {library.version or 'not known'}",
        f"  sha256: {library.sha256 or 'not readable'}",
        f"  tuner interfaces that it asks for: {versions}{origin}",
        f"  built-in tuner of rule files: {'yes' if library.built_in else 'no'}",
        f"  needs: {one.sentence}",
        *(f"  {modes.value}: {found.value}" for modes, found in one.ways),
    ]


def _tuner_lines(tuner: LoadedTuner, *, ours: bool) -> list[str]:
    offers = ", ".join(f"v{abi}" for abi in tuner.offers) or "not readable"
    whose = "this install's" if ours else "not this install's file"
    return [
        f"tuner plugin {_path(tuner.file)}: loaded, {whose}",
        f"  sha256: {tuner.sha256 or 'not readable'}",
        f"  tuner interfaces: {offers}",
    ]


def _path(file: Mapped) -> str:
    replaced = " (removed or replaced since it was loaded)" if file.deleted else ""
    return f"{Path(file.path)}{replaced}"
