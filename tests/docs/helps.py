"""Helps of all commands, taken apart: what each is for, its example, its exit codes."""

from __future__ import annotations

import inspect
import re

import click

from rccltune.cli import group


def paragraphs(command: click.Command) -> list[str]:
    r"""The help of a command, parted at blank lines; click's \b lines are left out."""
    text = inspect.cleandoc(command.help or "").replace("\b", "")
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def purpose(command: click.Command) -> str:
    """The first paragraph: what the command is for."""
    return " ".join(paragraphs(command)[0].split())


def part_of(command: click.Command, heading: str) -> str:
    """The text behind ``Example:`` or ``Exit codes:``; empty where it is missing."""
    for part in paragraphs(command):
        if part.lstrip().startswith(heading):
            return part.lstrip().removeprefix(heading)
    return ""


_CONTEXT = click.Context(group)
COMMANDS = {
    f"rccltune {word}": command
    for word in group.list_commands(_CONTEXT)
    if (command := group.get_command(_CONTEXT, word))
}
