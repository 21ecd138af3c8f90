"""Records that are shown in few lines, as a notebook's cell and a debugger show them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, TypeVar

T = TypeVar("T", bound=type[Any])
# A cell has 20 lines: the name, so many fields, and how many there are beside.
_MOST: Final = 18
_WIDEST: Final = 100


def brief(kind: T) -> T:
    """Let a dataclass of results show a line for each field; long lists are counted."""

    def lines(self: Any) -> str:  # noqa: ANN401 - any such record
        shown = [f"  {one.name}: {_short(getattr(self, one.name))}" for one in fields(self)]
        more = [f"  and {len(shown) - _MOST} more fields"] if len(shown) > _MOST else []
        return "\n".join([type(self).__name__, *shown[:_MOST], *more])

    setattr(kind, "__repr__", lines)  # noqa: B010 - what every instance has
    return kind


def _short(value: object) -> str:
    """A value on a part of a line."""
    if isinstance(value, (tuple, list, dict, frozenset)) and value:
        return f"{len(value)} of {type(next(iter(value))).__name__}"
    text = str(value) if type(value).__repr__ is object.__repr__ else repr(value)
    first, *rest = text.split("\n")
    return f"{first[:_WIDEST]} …" if rest or len(first) > _WIDEST else first
