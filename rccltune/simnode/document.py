"""Reading YAML against a JSON schema: every mistake at once, each with its line and column.

The schema is the one description of the format: people's editors use it, and so does this module,
which knows the part of JSON Schema (draft 2020-12) that ``data/node.schema.json`` uses. A library
for it would not know the lines of the YAML file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from rccltune.errors import InputFileError
from rccltune.showing import lay

Schema = dict[str, Any]

# Not importlib.resources: in editable installs it does not see file names that are no identifiers.
DATA: Final = Path(__file__).parents[1] / "data"

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


class _Loader(yaml.SafeLoader):
    """Reads ``no``, ``on`` and dates as the texts they are; only true and false are booleans."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))
# YAML 1.1 wants a sign in the exponent; people write 1e-3 and 4e6 alike.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"),
    list("-+0123456789"),
)


def node_schema() -> Schema:
    """The schema of node files, as shipped."""
    schema: Schema = json.loads((DATA / "node.schema.json").read_text("utf-8"))
    return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file that keeps to its schema, and where in it each value stands."""

    path: Path
    value: dict[str, Any]
    marks: dict[str, yaml.Mark]

    def place(self, at: str) -> str:
        """``file:line:column`` of a value such as ``curves[2].setting``, or of what holds it."""
        while at not in self.marks and at:
            at = re.sub(r"(\.[^.\[]*|\[\d+\]|^[^.\[]*)$", "", at)
        mark = self.marks.get(at)
        return str(self.path) if mark is None else f"{self.path}:{mark.line + 1}:{mark.column + 1}"

    def refuse(self, mistakes: list[tuple[str, str]]) -> None:
        """Raise InputFileError listing (value, message) pairs; nothing to do without any."""
        if mistakes:
            lines = [f"{self.place(at)}: {at or 'the file'} {message}" for at, message in mistakes]
            raise InputFileError(
                lay(["The node file has mistakes.", *lines]),
                where=str(self.path),
                hint="See docs/node-file.md.",
            )


def read_document(path: Path, schema: Schema) -> Document:
    """Load a YAML file and check it.

    Raises:
        InputFileError: it cannot be read, is no YAML, or breaks the schema (all breaks are listed).
    """
    try:
        text = path.read_text("utf-8")
        root = yaml.compose(text, Loader=_Loader)
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader with fewer types
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputFileError(f"Cannot read the node file: {error}", where=str(path)) from error
    if root is None or not isinstance(value, dict):
        raise InputFileError("The node file is empty or no mapping.", where=str(path))
    document = Document(path=path, value=value, marks=dict(_marks(root, "")))
    document.refuse(list(_check(value, root, schema, schema, "")))
    return document


def _marks(node: yaml.Node, at: str) -> Iterator[tuple[str, yaml.Mark]]:
    yield at, node.start_mark
    if isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            yield from _marks(child, f"{at}.{key.value}" if at else str(key.value))
    if isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _marks(child, f"{at}[{index}]")


def _check(
    value: object, node: yaml.Node, schema: Schema, root: Schema, at: str
) -> Iterator[tuple[str, str]]:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if not _is_type(value, schema.get("type")):
        yield at, f"must be {_wanted(schema['type'])}"
        return
    yield from ((at, message) for message in _scalar(value, schema))
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode):
        yield from _check_mapping(value, node, schema, root, at)
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode):
        items = schema.get("prefixItems", [])
        for index, (item, child) in enumerate(zip(value, node.value, strict=True)):
            sub = items[index] if index < len(items) else schema.get("items", {})
            yield from _check(item, child, sub, root, f"{at}[{index}]")


def _check_mapping(
    value: dict[Any, Any], node: yaml.MappingNode, schema: Schema, root: Schema, at: str
) -> Iterator[tuple[str, str]]:
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    seen: set[str] = set()
    for key_node, child in node.value:
        key = str(key_node.value)
        inside = f"{at}.{key}" if at else key
        if key in seen:
            yield inside, "is there twice"
        seen.add(key)
        if key in known or isinstance(others, dict):
            item = value.get(key, value.get(_number(key)))
            yield from _check(item, child, known.get(key, others), root, inside)
        elif others is False:
            yield inside, f"is unknown (known: {', '.join(sorted(known))})"
    for key in schema.get("required", []):
        if key not in value:
            yield at, f"lacks {key}"
    choices = schema.get("oneOf", [])
    if choices and sum(set(c["required"]) <= set(value) for c in choices) != 1:
        names = ", ".join(" with ".join(c["required"]) for c in choices)
        yield at, f"needs exactly one of {names}"


def _number(key: str) -> int | str:
    return int(key) if key.lstrip("-").isdigit() else key


def _is_type(value: object, wanted: str | list[str] | None) -> bool:
    if wanted is None:
        return True
    names = [wanted] if isinstance(wanted, str) else wanted
    return any(
        isinstance(value, _TYPES[name]) and (name == "boolean") == isinstance(value, bool)
        for name in names
    )


def _wanted(wanted: str | list[str]) -> str:
    return wanted if isinstance(wanted, str) else " or ".join(wanted)


def _scalar(value: object, schema: Schema) -> Iterator[str]:
    if "enum" in schema and value not in schema["enum"]:
        yield f"is '{value}', not one of {', '.join(map(str, schema['enum']))}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_mistakes(value, schema)
    if isinstance(value, str):
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            yield f"is '{value}', which does not match {schema['pattern']}"
        if len(value) > schema.get("maxLength", len(value)):
            yield f"is longer than {schema['maxLength']} characters"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"has fewer than {schema['minItems']} elements"
        if len(value) > schema.get("maxItems", len(value)):
            yield f"has more than {schema['maxItems']} elements"


def _number_mistakes(value: float, schema: Schema) -> Iterator[str]:
    # Written so that NaN, which YAML has, fails every bound.
    if "minimum" in schema and not value >= schema["minimum"]:
        yield f"is {value}, below {schema['minimum']}"
    if "maximum" in schema and not value <= schema["maximum"]:
        yield f"is {value}, above {schema['maximum']}"
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        yield f"is {value}, which must be above {schema['exclusiveMinimum']}"
