"""Options of the verbs that measure, and what a shell completes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, Final, TypeAlias, TypeVar

import click

from rccltune.cli import gone
from rccltune.cli.console import Word
from rccltune.cli.help import grouped
from rccltune.cli.options import FOLDER, PAIR
from rccltune.measure.all_options import declared
from rccltune.measure.declaration import Declared
from rccltune.model.errors import CommandLineError
from rccltune.model.schema import FromUp, OneOf

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
        both = f"{one.flag}/--no-{one.flag.removeprefix('--')}"
        return grouped(both, is_flag=True, default=None, help=help or one.help, **place)
    return grouped(
        one.flag,
        type=_type(one),
        multiple=one.option.again,
        metavar=one.option.metavar,
        help=help or one.help,
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
    parse = one.parsed.parse
    if isinstance(parse, OneOf):
        return _Choice(parse.words)
    if isinstance(parse, FromUp):
        return click.IntRange(min=parse.minimum)
    known = {"file": FOLDER, "line": None}
    return known.get(one.parsed.what, Word(one.parsed.what, parse))


class _Choice(click.Choice[str]):
    """A few words; one that went says what to use instead."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word."""
        if param is not None and ctx is not None:
            went = gone.sentence(ctx.info_name or "", f"{param.opts[0]} {value}")
            if went is not None:
                raise CommandLineError(went)
        return super().convert(value, param, ctx)


_Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]
_MODES: Final = (
    *("auto", "none", "spx-nps1", "spx-nps4", "dpx-nps1", "dpx-nps2", "tpx-nps1"),
    *("qpx-nps1", "qpx-nps4", "cpx-nps1", "cpx-nps4"),
)


def _nodes() -> Iterable[str]:
    from rccltune.simulate.sources import shipped_nodes

    return ("mi300x", *shipped_nodes())


def _collectives() -> Iterable[str]:
    from rccltune.model.vocabulary import Collective

    return (one.value for one in Collective)


def _settings() -> Iterable[str]:
    from rccltune.model.vocabulary import Algorithm, Protocol

    found = product((Algorithm.TREE, Algorithm.RING), Protocol)
    return (f"{algorithm.value}/{protocol.value}" for algorithm, protocol in found)


def _variants() -> Iterable[str]:
    from rccltune.variants import catalog

    return (one.name for one in catalog.read_catalog(None).specs)


_VALUES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "mode": lambda: _MODES,
    "simulate": _nodes,
    "collective": _collectives,
    "setting": _settings,
    "variant": _variants,
}


def completing(name: str) -> _Complete | None:
    """What completes the values of an option; None where click knows them, or nobody does."""
    values = _VALUES.get(name)
    if values is None:
        return None

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        return [value for value in values() if value.startswith(begun)]

    return complete
