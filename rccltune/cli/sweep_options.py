"""Options of the verbs that measure, from the record that sweep.yaml keeps to as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain, product
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

import click

from rccltune.cli.console import ValueType
from rccltune.cli.help import grouped
from rccltune.cli.shared_options import FILE, PAIR
from rccltune.measure.sweep_schema import (
    LAUNCHERS,
    PLACEMENTS,
    PRESETS,
    RUNNERS,
    TIMINGS,
    SweepOptions,
    flag,
)
from rccltune.model.schema import convert
from rccltune.model.settings import MODES
from rccltune.model.vocabulary import DTYPE_BYTES, RANK_PLACEMENTS, REDOPS

F = TypeVar("F", bound=Callable[..., Any])
# Fields that name a file, or a folder, which is there already.
_READ: Final = ("rccl_tests", "hostfile", "workload")


def sweep_option(name: str, help: str | None = None) -> Callable[[F], F]:  # noqa: A002 - click's
    """One option of a sweep, for any verb.

    Args:
        name: of its field.
        help: what it means to this verb, where that is something else.
    """
    field = SweepOptions.model_fields[name]
    extra: Any = field.json_schema_extra
    place: dict[str, Any] = {"group": extra["group"], "usual": extra["usual"]}
    place["help"] = help or field.description
    if isinstance(field.default, bool):
        return grouped(flag(name), is_flag=True, default=None, **place)
    if name in _READ:
        kind: Any = FILE
        gather: Any = None
    elif name == "env":
        kind = PAIR
        gather = _pairs
    else:
        kind = _FieldValue(name)
        gather = _together if isinstance(field.default, tuple) else None
    return grouped(
        flag(name),
        type=kind,
        multiple=gather is not None,
        callback=gather,
        metavar=extra["metavar"],
        shell_complete=completing(name),
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
    return tuple(name for name, one in SweepOptions.model_fields.items() if one.description)


class _FieldValue(ValueType):
    """One text for an option, held to the option's field; of a list also several words."""

    def __init__(self, name: str) -> None:
        """Name the field."""
        self.name = name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's
        """The value; anything but a text was read already."""
        if not isinstance(value, str):
            return value
        result, mistakes = convert(_kinds()[self.name], value, strict=False)
        if mistakes:
            self.fail("; ".join(said for _, _, said in mistakes), param, ctx)
        return result


@cache
def _kinds() -> dict[str, Any]:
    return get_type_hints(SweepOptions, include_extras=True)


def _together(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - click's
    """Words of an option that was given several times."""
    return tuple(chain.from_iterable(value))


def _pairs(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - click's
    return dict(value)


_Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def _nodes() -> Iterable[str]:
    from rccltune.simulate.sources import shipped_nodes

    return ("mi300x", *shipped_nodes())


def _collectives() -> Iterable[str]:
    from rccltune.model.vocabulary import Collective

    return (one.value for one in Collective)


def _settings() -> Iterable[str]:
    from rccltune.model.vocabulary import Algorithm, Protocol

    pairs = product((Algorithm.TREE, Algorithm.RING), Protocol)
    return (f"{algorithm.value}/{protocol.value}" for algorithm, protocol in pairs)


_VALUES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "mode": lambda: MODES,
    "simulate": _nodes,
    "collective": _collectives,
    "setting": _settings,
    "runner": lambda: RUNNERS,
    "launcher": lambda: LAUNCHERS,
    "rank_placement": lambda: RANK_PLACEMENTS,
    "preset": lambda: PRESETS,
    "dtype": lambda: DTYPE_BYTES,
    "op": lambda: REDOPS,
    "placement": lambda: PLACEMENTS,
    "timing": lambda: TIMINGS,
}


def completing(name: str) -> _Complete | None:
    """What completes the values of an option; None where nobody knows them."""
    values = _VALUES.get(name)
    if values is None:
        return None

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
        return [value for value in values() if value.startswith(begun)]

    return complete
