"""Options that several verbs share, and the types that read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from rccltune.cli.console import DEFAULT_SESSION
from rccltune.model import Mode, Setting
from rccltune.vocab import Collective

F = TypeVar("F", bound=Callable[..., Any])


class Word(click.ParamType[Any]):
    """A parameter read by a function that raises ValueError with a good message."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        """Name the metavar and the reader."""
        self.name = name
        self._parse = parse

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click hands over whatever there is
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> object:
        """Read text; anything else was read already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"'{text}' is no KEY=VALUE")
    return key, value


COLLECTIVE = Word("collective", Collective.parse)
MODE = Word("mode", Mode.parse)
SETTING = Word("setting", Setting.parse)
PAIR = Word("key=value", _pair)
FOLDER = click.Path(path_type=Path, file_okay=True, dir_okay=True)


def session_argument(command: F) -> F:
    """SESSION, which may be left out."""
    return click.argument("session", type=FOLDER, default=DEFAULT_SESSION)(command)


def choosing(command: F) -> F:
    """What fit, emit-config, plot and report take into account when they choose."""
    for option in (
        click.option(
            "--channel-cost",
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="PCT",
            help="Regret accepted for halving the channels.",
        ),
        click.option(
            "--max-channels",
            type=click.IntRange(min=1),
            default=None,
            help="Never choose more channels than this.",
        ),
        click.option(
            "--min-gain",
            type=click.FloatRange(min=0),
            default=2.0,
            show_default=True,
            metavar="PCT",
            help="Gain over baseline that a rule must have.",
        ),
        click.option(
            "--tolerance",
            type=click.FloatRange(min=0),
            default=2.0,
            show_default=True,
            metavar="PCT",
            help="Regret allowed to save a zone.",
        ),
        click.option(
            "--baseline",
            metavar="SETTING|VARIANT",
            default=None,
            help="What counts as baseline when no untouched run was measured.",
        ),
    ):
        command = option(command)
    return command
