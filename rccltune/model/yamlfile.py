"""YAML files held to a schema: every mistake at once, each with its line and column.

PyYAML's node tree is read rather than its dicts: nodes know where they stand, show keys that are
given twice, and keep ``0``, ``no`` and ``-1`` as the texts that an environment wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from difflib import get_close_matches
from functools import partial
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import is_typeddict

from rccltune.model import schema
from rccltune.model.errors import InputFileError
from rccltune.model.schema import Mistake
from rccltune.model.text import join_lines, printable

T = TypeVar("T")
# PyYAML's stubs leave out what its nodes are made of.
Node: TypeAlias = Any
_NULL: Final = "tag:yaml.org,2002:null"
_DEEPEST: Final = 30
# Aliases of aliases make a small file an endless one.
_MOST_NODES: Final = 200_000
_PART: Final = re.compile(r"\[\d+\]|\.?[^.\[]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlFile(Generic[T]):
    """A file that keeps to its schema, and where in it each value stands.

    Attributes:
        value: what the schema made of it.
        keys: all that it gives, ``curves[2].setting`` and the like.
        places: finds line and column, from 1, of ``curves[2].setting`` and of every other value.
    """

    value: T
    name: str
    hint: str
    keys: tuple[str, ...] = field(repr=False)
    places: Callable[[], _Nodes] = field(repr=False)

    def refuse(self, mistakes: list[tuple[str, str]], *, at_key: bool = False) -> None:
        """Raise InputFileError with all (place, message) pairs; nothing to do without any."""
        if mistakes:
            nodes = self.places()
            marks = {**nodes.marks, **nodes.keys} if at_key else nodes.marks
            _refuse([(*_mark(marks, at), said) for at, said in mistakes], self.name, self.hint)


def read(
    kind: type[T],
    text: str,
    name: str,
    hint: str,
    *,
    rename: Callable[[str], str] = str,
) -> YamlFile[T]:
    """Hold a file to a schema; an empty one has no key.

    Args:
        kind: a TypedDict or a pydantic model, whose annotations are the schema.
        text: of the file.
        name: its path, for messages.
        hint: what helps against mistakes.
        rename: spellings of a key into the schema's one.

    Raises:
        InputFileError: this is no YAML, or it has mistakes: all of them are listed.
    """

    def nodes_of(*, quick: bool) -> _Nodes:
        return _Nodes(_compose(text, name, hint, quick=quick), rename)

    nodes = nodes_of(quick=True)
    value, found = schema.convert(kind, nodes.value, strict=False)
    if nodes.mistakes or found:
        nodes = nodes_of(quick=False)
    mistakes = [*nodes.mistakes]
    for place, mistake, message in found:
        at = schema.path(place)
        if mistake is Mistake.UNKNOWN:
            known = _known(kind, place[:-1])
            words = _unknown(nodes.written[at], str(place[-1]), known)
            mistakes.append((*nodes.keys[at], words))
        elif mistake is Mistake.KEY:
            mistakes.append((*nodes.keys[at], f"the key {message}"))
        elif mistake is Mistake.MISSING:
            holder = schema.path(place[:-1])
            mark = nodes.keys.get(holder, _mark(nodes.marks, holder))
            lacks = f"lacks {place[-1]}"
            if isinstance(place[-1], int):
                lacks = f"has fewer than {place[-1] + 1} elements"
            mistakes.append((*mark, f"{holder or 'the file'} {lacks}"))
        else:
            mistakes.append((*_mark(nodes.marks, at), f"{at} {message}".strip()))
    _refuse(sorted(dict.fromkeys(mistakes)), name, hint)
    return YamlFile(
        value=value,
        name=name,
        hint=hint,
        keys=tuple(nodes.keys),
        places=partial(nodes_of, quick=False),
    )


def _unknown(written: str, name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    meant = f", did you mean '{near[0]}'?" if near else ""
    return f"unknown key '{printable(written)}'{meant} (keys are {', '.join(known)})"


def _refuse(mistakes: list[tuple[int, int, str]], name: str, hint: str) -> None:
    if mistakes:
        count = len(mistakes)
        lines = [f"  {name}:{line}:{column}: {said}" for line, column, said in mistakes]
        raise InputFileError(
            join_lines([f"{count} mistake{'' if count == 1 else 's'}:", *lines]),
            where=name,
            hint=hint,
        )


def _mark(marks: Mapping[str, tuple[int, int]], at: str) -> tuple[int, int]:
    """Place of a value, or of what holds it."""
    position, there = marks.get("", (1, 1)), ""
    for part in _PART.findall(at):
        inside = f"{there}{part}" if there else part.removeprefix(".")
        if inside in marks:
            position, there = marks[inside], inside
        # One value may stand for a list of one.
        elif part != "[0]":
            break
    return position


def _compose(text: str, name: str, hint: str, *, quick: bool) -> Node | None:
    """The node tree; a quick one has other places of empty values."""
    import yaml

    # libyaml takes a tenth of the time, and says less well what is wrong.
    loader = getattr(yaml, "CSafeLoader", None) if quick else None
    if loader is not None:
        with suppress(yaml.YAMLError):
            return yaml.compose(text, Loader=loader)
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        problem = error.problem or str(error)
    except yaml.reader.ReaderError as error:
        before = text[: error.position].split("\n")
        place = f"{name}:{len(before)}:{len(before[-1]) + 1}"
        problem = error.reason
    except RecursionError:
        place, problem = f"{name}:1:1", "it is nested too deeply"
    raise InputFileError(f"this is no YAML: {problem}", where=place, hint=hint)


class _Nodes:
    """A node tree as plain values, and where each stands."""

    def __init__(self, root: Node | None, rename: Callable[[str], str]) -> None:
        self.rename = rename
        self.marks: dict[str, tuple[int, int]] = {}
        self.keys: dict[str, tuple[int, int]] = {}
        self.written: dict[str, str] = {}
        self.mistakes: list[tuple[int, int, str]] = []
        self.count = 0
        self.value = {} if root is None else self.plain(root, "", 0)

    def plain(self, node: Node, at: str, depth: int) -> object:
        self.marks.setdefault(at, _start(node))
        self.count += 1
        if depth > _DEEPEST or self.count > _MOST_NODES:
            self._say(node, "this is nested too deeply, or has too many values")
            return None
        if node.id == "mapping":
            return dict(self._pairs(node, at, depth))
        if node.id == "sequence":
            items = enumerate(node.value)
            return [self.plain(item, f"{at}[{i}]", depth + 1) for i, item in items]
        return None if node.tag == _NULL else str(node.value)

    def _pairs(self, node: Node, at: str, depth: int) -> Iterator[tuple[str, object]]:
        seen: set[str] = set()
        for key, value in node.value:
            if key.id != "scalar":
                self._say(key, "a name is wanted here")
                continue
            name = self.rename(str(key.value))
            inside = schema.path((name,), at)
            self.keys.setdefault(inside, _start(key))
            self.written.setdefault(inside, str(key.value))
            if name in seen:
                self._say(key, f"'{printable(str(key.value))}' is given twice")
                continue
            seen.add(name)
            yield name, self.plain(value, inside, depth + 1)

    def _say(self, node: Node, what: str) -> None:
        self.mistakes.append((*_start(node), what))


def _start(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _known(kind: Any, place: schema.Place) -> list[str]:  # noqa: ANN401 - annotations are values here
    """The keys that a schema has at a place."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    arguments = [one for one in get_args(kind) if one is not type(None)]
    if is_typeddict(kind) or is_dataclass(kind) or hasattr(kind, "model_fields"):
        hints = get_type_hints(kind, include_extras=True)
        hints = {name: _bare(one) for name, one in hints.items()}
        return _known(hints[str(place[0])], place[1:]) if place else list(hints)
    if not arguments:
        return []
    if get_origin(kind) in (dict, Mapping):
        return _known(arguments[-1], place[1:])
    if get_origin(kind) in (tuple, list):
        return _known(arguments[0], place[1:] if place and isinstance(place[0], int) else place)
    return _known(arguments[0], place)


def _bare(kind: Any) -> Any:  # noqa: ANN401 - annotations are values here
    """A key's type without ``Required`` and ``NotRequired``."""
    from typing_extensions import NotRequired, Required

    return get_args(kind)[0] if get_origin(kind) in (Required, NotRequired) else kind
