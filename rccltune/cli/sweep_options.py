"""The command line's options of a sweep, made from their one declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rccltune.cli.completion import completing
from rccltune.cli.console import Word
from rccltune.cli.help import grouped
from rccltune.cli.options import FOLDER, PAIR
from rccltune.measure import Declared, declared
from rccltune.model import FromUp, OneOf

F = TypeVar("F", bound=Callable[..., Any])


def sweep_option(name: str, help: str | None = None) -> Callable[[F], F]:  # noqa: A002 - click's
    """One option of a sweep, for any verb.

    Args:
        name: of its field.
        help: what it means to this verb, where that is something else.
    """
    one = declared()[name]
    place: dict[str, Any] = {"group": one.option.group, "usual": one.option.is_usual}
    if one.option.is_flag:
        return grouped(one.flag, is_flag=True, default=None, help=help or one.help, **place)
    return grouped(
        one.flag,
        type=_type(one),
        multiple=one.option.again,
        metavar=one.option.metavar,
        help=help or one.help,
        callback=_meaning(one) if one.option.words else None,
        shell_complete=completing(one.name),
        **place,
    )


def sweep_options(*names: str) -> Callable[[F], F]:
    """Several options of a sweep, in this order."""

    def decorate(command: F) -> F:
        for name in reversed(names):
            command = sweep_option(name)(command)
        return command

    return decorate


def names() -> tuple[str, ...]:
    """All that a command line can say, in the order of the help."""
    return tuple(name for name, one in declared().items() if one.option.help is not None)


def _type(one: Declared) -> click.ParamType[Any] | None:
    """How click reads it; None for a text as it is."""
    if one.option.read is not None:
        return Word(one.name, one.option.read)
    if one.parsed is None:
        return None if one.is_list else PAIR
    if one.option.words:
        return click.Choice(one.option.words)
    parse = one.parsed.parse
    if isinstance(parse, OneOf):
        return click.Choice(parse.words)
    if isinstance(parse, FromUp):
        return click.IntRange(min=parse.minimum)
    known = {"file": FOLDER, "line": None}
    return known.get(one.parsed.what, Word(one.parsed.what, parse))


def _meaning(one: Declared) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """What the few words of an option stand for."""

    def read(_context: click.Context, _parameter: click.Parameter, word: str | None) -> object:
        return None if word is None or one.parsed is None else one.parsed.parse(word)

    return read
