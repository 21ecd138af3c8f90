"""Reading a YAML file into records, with every mistake gathered and placed.

PyYAML's node tree is read rather than its dicts: nodes know their line and column, show keys that
are given twice, and keep ``0``, ``no`` and ``-1`` as the texts that an environment wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from rccltune.errors import InputFileError
from rccltune.showing import lay
from rccltune.units import parse_size

# PyYAML's stubs leave out what its nodes are made of.
Node: TypeAlias = Any
Field: TypeAlias = "Callable[[Reader, Node], Any]"
HINT: Final = "see docs/variants.md."
_NULL: Final = "tag:yaml.org,2002:null"


class Reader:
    """One file's mistakes, and where they stand."""

    def __init__(self, name: str) -> None:
        """Begin a file of that name."""
        self.name = name
        self.mistakes: list[str] = []

    def say(self, node: Node, what: str) -> None:
        """Note a mistake at a node."""
        mark = node.start_mark
        self.mistakes.append(f"  {self.name}:{mark.line + 1}:{mark.column + 1}: {what}")

    def end(self) -> None:
        """Raise InputFileError with all mistakes; nothing to do without any."""
        if self.mistakes:
            count = len(self.mistakes)
            raise InputFileError(
                lay([f"{count} mistake{'' if count == 1 else 's'}:", *self.mistakes]),
                where=self.name,
                hint=HINT,
            )

    def keyed(self, node: Node) -> dict[str, tuple[Node, Node]]:
        """Key and value nodes by key; a key that is there twice is a mistake, the first counts."""
        found: dict[str, tuple[Node, Node]] = {}
        if node.id != "mapping":
            self.say(node, "'key: value' lines are wanted here")
            return found
        for key, value in node.value:
            if key.id != "scalar":
                self.say(key, "a name is wanted here")
            elif key.value in found:
                self.say(key, f"'{key.value}' is given twice")
            else:
                found[key.value] = (key, value)
        return found

    def read(self, node: Node, fields: Mapping[str, Field]) -> dict[str, Any]:
        """Values of the keys that are there and right; unknown keys are mistakes."""
        values: dict[str, Any] = {}
        for name, (key, value) in self.keyed(node).items():
            if name in fields:
                before = len(self.mistakes)
                read = fields[name](self, value)
                if len(self.mistakes) == before:
                    values[name] = read
            else:
                near = get_close_matches(name, list(fields), n=1)
                meant = f", did you mean '{near[0]}'?" if near else ""
                self.say(key, f"unknown key '{name}'{meant} (keys are {', '.join(fields)})")
        return values


def compose(text: str, name: str) -> Node | None:
    """The file's node tree, None for an empty file.

    Raises:
        InputFileError: this is no YAML; the place is in the error.
    """
    import yaml

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
    raise InputFileError(f"this is no YAML: {problem}", where=place, hint=HINT)


def scalar(parse: Callable[[str], Any]) -> Field:
    """One value, read by a function that raises ValueError."""

    def read(reader: Reader, node: Node) -> Any:  # noqa: ANN401 - the parser's type
        if node.id != "scalar" or node.tag == _NULL:
            reader.say(node, "one value is wanted here")
            return None
        try:
            return parse(node.value)
        except ValueError as error:
            reader.say(node, str(error))
            return None

    return read


def many(field: Field) -> Field:
    """A list, or one value that stands for a list of one."""

    def read(reader: Reader, node: Node) -> tuple[Any, ...]:
        items = node.value if node.id == "sequence" else [node]
        return tuple(field(reader, item) for item in items)

    return read


def pairs(parse_key: Callable[[str], str], parse_value: Callable[[str], str]) -> Field:
    """``NAME: value`` lines as sorted pairs."""
    key_field, value_field = scalar(parse_key), scalar(parse_value)

    def read(reader: Reader, node: Node) -> tuple[tuple[str, str], ...]:
        found = [
            (key_field(reader, key), value_field(reader, value))
            for key, value in reader.keyed(node).values()
        ]
        return tuple(sorted(pair for pair in found if None not in pair))

    return read


def record(fields: Mapping[str, Field], make: Callable[[dict[str, Any]], Any]) -> Field:
    """A mapping; ``make`` gets what is there and may raise ValueError."""

    def read(reader: Reader, node: Node) -> Any:  # noqa: ANN401 - the maker's type
        before = len(reader.mistakes)
        values = reader.read(node, fields)
        if len(reader.mistakes) > before:
            return None
        try:
            return make(values)
        except ValueError as error:
            reader.say(node, str(error))
            return None

    return read


# --- single values --------------------------------------------------------------------------------


def text(value: str) -> str:
    """Any text that says something, on one line."""
    if not value.strip():
        raise ValueError("a text is wanted here")
    return " ".join(value.split())


def flag(value: str) -> bool:
    """``true`` or ``false``."""
    if value.lower() not in ("true", "false"):
        raise ValueError(f"'{value}' is neither true nor false")
    return value.lower() == "true"


def one_of(*words: str) -> Callable[[str], str]:
    """One of a few words."""

    def parse(value: str) -> str:
        if value not in words:
            raise ValueError(f"'{value}' is none of {', '.join(words)}")
        return value

    return parse


def whole(minimum: int) -> Callable[[str], int]:
    """A whole number from ``minimum`` up."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", value) or int(value) < minimum:
            raise ValueError(f"'{value}' is no whole number from {minimum} up")
        return int(value)

    return parse


def size(value: str) -> int:
    """Bytes of ``4K`` or ``16MiB``."""
    return parse_size(value)
