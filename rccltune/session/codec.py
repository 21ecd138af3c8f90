"""Records to plain JSON values and back, driven by the records' own annotations.

A field that a newer version added takes its default when an older file lacks it; a field that a
file has and the record lacks is an error, since dropping it would lose what somebody measured.
"""

from __future__ import annotations

import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin

from rccltune.errors import SessionError

T = TypeVar("T")


def to_plain(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Dicts, lists, strings, numbers and None; default values are left out of records."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: to_plain(getattr(value, f.name))
            for f in fields(value)
            if getattr(value, f.name) != f.default
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def from_plain(kind: type[T], plain: object, where: str) -> T:
    """The record that :func:`to_plain` came from.

    Raises:
        SessionError: the values do not fit the record; ``where`` names the file.
    """
    try:
        return typing.cast("T", _build(kind, plain))
    except (TypeError, ValueError, KeyError) as error:
        raise SessionError(
            f"{kind.__name__} cannot be read: {error}",
            where=where,
            hint="the file was changed by hand or by another program; delete derived files "
            "(fit.json, samples.csv) and they are rebuilt from the raw logs.",
        ) from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, plain: object) -> object:  # noqa: ANN401 - annotations are values here
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = [arg for arg in get_args(kind) if arg is not type(None)]
        return None if plain is None else _build(inner[0], plain)
    if origin is tuple:
        return _build_tuple(get_args(kind), plain)
    if is_dataclass(kind):
        return _build_record(typing.cast("type", kind), plain)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(plain)
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    if not isinstance(plain, kind) or (kind is int and isinstance(plain, bool)):
        raise TypeError(f"{plain!r} is no {kind.__name__}")
    return plain


def _build_tuple(parts: tuple[Any, ...], plain: object) -> tuple[object, ...]:
    if not isinstance(plain, list):
        raise TypeError(f"{plain!r} is no list")
    if len(parts) == 2 and parts[1] is Ellipsis:
        return tuple(_build(parts[0], item) for item in plain)
    if len(parts) != len(plain):
        raise ValueError(f"{plain!r} needs {len(parts)} items")
    return tuple(_build(part, item) for part, item in zip(parts, plain, strict=True))


def _build_record(kind: type, plain: object) -> object:
    if not isinstance(plain, dict):
        raise TypeError(f"{plain!r} is no {kind.__name__}")
    hints = _hints(kind)
    unknown = sorted(set(plain) - set(hints))
    if unknown:
        raise KeyError(f"unknown field {unknown[0]}")
    values = {name: _build(hints[name], value) for name, value in plain.items()}
    for f in fields(kind):
        if f.name not in values and f.default is MISSING and f.default_factory is MISSING:
            raise KeyError(f"field {f.name} is missing")
    return kind(**values)
