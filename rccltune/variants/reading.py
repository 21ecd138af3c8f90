"""The format of a file of variants: its keys, and what an entry must be to make sense."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rccltune.variants.reader import (
    Field,
    Node,
    Reader,
    compose,
    flag,
    many,
    one_of,
    pairs,
    record,
    scalar,
    size,
    text,
    whole,
)
from rccltune.variants.records import Acts, Calls, Needs, Parameter, Threshold, VariantSpec
from rccltune.variants.releases import Releases
from rccltune.vocab import DTYPE_BYTES, REDOPS, Collective

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_BRACES: Final = re.compile(r"\{([a-z_]+)\}")
_WORDS: Final = ("ranks", "max_bytes")
# What rccltune sets itself to measure at all; a variant that set it would measure something else.
_OURS: Final = re.compile(r"NCCL_TUNER_.*|RCCLTUNE_.*|(NCCL|RCCL_OVERRIDE)_(ALGO|PROTO)")
_OUR_OPTIONS: Final = ("-b", "-e", "-f", "-i", "-n", "-w", "-o", "-d", "-r", "-m", "-c", "-N")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file: what it says, whether it replaces another, and where it stands."""

    spec: VariantSpec
    replaces: bool
    node: Node


def read_entries(content: str, name: str, *, own: bool) -> tuple[list[Entry], Reader]:
    """Entries of a file and its reader, to which the catalog adds what it finds.

    Args:
        content: the file's text.
        name: its path, for messages.
        own: whether it is a user's.

    Raises:
        InputFileError: this is no YAML.
    """
    reader = Reader(name)
    root = compose(content, name)
    if root is None:
        return [], reader
    found = reader.keyed(root)
    for key, (node, value) in found.items():
        if key == "format":
            scalar(one_of("1"))(reader, value)
        elif key != "variants":
            reader.say(node, f"unknown key '{key}' (keys are format, variants)")
    if "format" not in found:
        reader.say(root, "a file of variants begins with 'format: 1'")
    entries = reader.keyed(found["variants"][1]) if "variants" in found else {}
    made = (_entry(reader, *nodes, own=own) for nodes in entries.values())
    return [entry for entry in made if entry is not None], reader


def _entry(reader: Reader, key: Node, node: Node, *, own: bool) -> Entry | None:
    before = len(reader.mistakes)
    if not _NAME.fullmatch(key.value):
        reader.say(key, f"'{key.value}' is no name: write small letters, digits and single -")
    values = reader.read(node, _FIELDS)
    if node.id == "mapping" and all(name.value != "summary" for name, _ in node.value):
        reader.say(key, f"'{key.value}' lacks a summary")
    if len(reader.mistakes) > before:
        return None
    replaces = values.pop("replaces", False)
    spec = _spec(key.value, values, own=own)
    for what in _senseless(spec):
        reader.say(key, what)
    return Entry(spec=spec, replaces=replaces, node=key)


def _spec(name: str, values: dict[str, Any], *, own: bool) -> VariantSpec:
    renamed = {"library": "library_file"}
    given = {renamed.get(key, key): value for key, value in values.items()}
    return VariantSpec(**{"feature": name, **given, "name": name, "own": own})


def _senseless(spec: VariantSpec) -> Iterator[str]:
    """What is wrong with an entry whose every value is right."""
    allowed = (*_WORDS, *([spec.parameter.value] if spec.parameter else []))
    values = [value for _, value in (*spec.environment, *spec.options)]
    used = [word for value in values for word in _BRACES.findall(value)]
    for word in sorted({word for word in used if word not in allowed}):
        yield f"'{{{word}}}' stands for nothing here: known are {_braced(allowed)}"
    if spec.parameter is not None and spec.parameter.value not in used:
        yield f"nothing holds its parameter '{{{spec.parameter.value}}}'"
    if any("{ranks}" not in value and _BRACES.search(value) for _, value in spec.options):
        yield "an option can hold '{ranks}' alone"
    variables = [variable for variable, _ in spec.environment]
    if spec.threshold is not None and spec.threshold.variable not in variables:
        yield f"its threshold {spec.threshold.variable} is not in its environment"
    changes = spec.environment or spec.options or spec.library_file
    if not changes and spec.not_tunable is None and spec.name != "default":
        yield "it sets no variable, no option and no library"


def _braced(words: tuple[str, ...]) -> str:
    return ", ".join(f"{{{word}}}" for word in words)


# --- what each key holds --------------------------------------------------------------------------


def _variable(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError(f"'{value}' is no name of an environment variable")
    if _OURS.fullmatch(value):
        raise ValueError(f"rccltune sets {value} itself while it measures; a variant cannot")
    return value


def _letter(value: str) -> str:
    if not re.fullmatch(r"-[A-Za-z]", value):
        raise ValueError(f"'{value}' is no option of the benchmark: write -G and the like")
    if value in _OUR_OPTIONS:
        raise ValueError(f"{value} is the sweep's to say; a variant cannot")
    return value


def _path(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"'{value}' is no absolute path of a library")
    return value


def _threshold(values: Mapping[str, Any]) -> Threshold:
    if "variable" not in values:
        raise ValueError("a threshold names its variable")
    return Threshold(
        variable=values["variable"],
        default_nbytes=values.get("default"),
        from_above=values.get("bounds", "above") == "above",
    )


def _calls(values: Mapping[str, Any]) -> Calls:
    renamed = {"min_bytes": "min_nbytes", "max_bytes": "max_nbytes"}
    made = Calls(**{renamed.get(key, key): value for key, value in values.items()})
    if made.max_nbytes is not None and made.max_nbytes < made.min_nbytes:
        raise ValueError("min_bytes is above max_bytes")
    return made


_CALLS: Final[Mapping[str, Field]] = {
    "collectives": many(scalar(Collective.parse)),
    "dtypes": many(scalar(one_of(*DTYPE_BYTES))),
    "redops": many(scalar(one_of(*REDOPS))),
    "min_bytes": scalar(size),
    "max_bytes": scalar(size),
    "multiple_of": scalar(whole(1)),
    "share_multiple_of": scalar(whole(1)),
    "maybe": scalar(flag),
}
_NEEDS: Final[Mapping[str, Field]] = {
    "arch": many(scalar(text)),
    "ranks": many(scalar(whole(1))),
    "ranks_multiple_of": scalar(whole(1)),
    "one_node": scalar(flag),
    "graph": scalar(flag),
    "registered": scalar(flag),
}
_THRESHOLD: Final[Mapping[str, Field]] = {
    "variable": scalar(_variable),
    "default": scalar(size),
    "bounds": scalar(one_of("above", "below")),
}
_FIELDS: Final[Mapping[str, Field]] = {
    "summary": scalar(text),
    "feature": scalar(text),
    "releases": many(scalar(Releases.parse)),
    "library": scalar(_path),
    "environment": pairs(_variable, str),
    "options": pairs(_letter, text),
    "parameter": scalar(lambda value: Parameter(one_of(*(p.value for p in Parameter))(value))),
    "acts": scalar(lambda value: Acts(one_of(*(a.value for a in Acts))(value))),
    "calls": many(record(_CALLS, _calls)),
    "needs": record(_NEEDS, lambda values: Needs(**values)),
    "threshold": record(_THRESHOLD, _threshold),
    "lossy": scalar(flag),
    "runner": scalar(one_of("torch")),
    "not_tunable": scalar(text),
    "widens": scalar(text),
    "without": scalar(text),
    "source": scalar(text),
    "unverified": scalar(text),
    "replaces": scalar(flag),
}
KEYS: Final = tuple(_FIELDS)
