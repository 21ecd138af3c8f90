"""The format of a file of variants: its keys, and what an entry must be to make sense."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator
from typing_extensions import Required, TypedDict

from rccltune.model import yamlfile
from rccltune.model.schema import (
    Line,
    OneOf,
    VariableName,
    WholeNumberFrom,
    matching,
    read_by,
    several,
)
from rccltune.model.units import parse_size
from rccltune.model.vocabulary import DTYPE_BYTES, REDOPS, Collective
from rccltune.model.yamlfile import YamlFile
from rccltune.variants.spec import (
    CallFilter,
    DecidedBy,
    Parameter,
    ReleaseRange,
    Threshold,
    VariantNeeds,
    VariantSpec,
)

_NAME: Final = "[a-z0-9]+(-[a-z0-9]+)*"
_BRACES: Final = re.compile(r"\{([a-z_]+)\}")
_WORDS: Final = ("ranks", "max_bytes")
# What rccltune sets itself to measure at all; a variant that set it would measure something else.
_OURS: Final = re.compile(r"NCCL_TUNER_.*|RCCLTUNE_.*|(NCCL|RCCL_OVERRIDE)_(ALGO|PROTO)")
_OUR_OPTIONS: Final = ("-b", "-e", "-f", "-i", "-n", "-w", "-o", "-d", "-r", "-m", "-c", "-N")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file: what it says, and whether it replaces another."""

    spec: VariantSpec
    replaces: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """A file's entries, and what of them makes no sense.

    Attributes:
        mistakes: (name, message) of entries whose every value is right; the catalog adds to them.
    """

    entries: tuple[Entry, ...]
    file: YamlFile[VariantsFile]
    mistakes: list[tuple[str, str]]

    def say(self, name: str, what: str) -> None:
        """Note what is wrong of an entry."""
        self.mistakes.append((f"variants.{name}", what))

    def end(self) -> None:
        """Raise InputFileError with all mistakes; nothing to do without any."""
        self.file.refuse(self.mistakes, at_key=True)


def read_entries(content: str, name: str, *, own: bool) -> Entries:
    """Entries of a file.

    Args:
        content: the file's text.
        name: its path, for messages.
        own: whether it is a user's.

    Raises:
        InputFileError: this is no YAML, or a value is not what its key holds: all of them.
    """
    file = yamlfile.read(VariantsFile, content, name, "see rccltune/data/variants.yaml.")
    entries: list[Entry] = []
    for key, values in file.value.get("variants", {}).items():
        plain: dict[str, Any] = dict(values)
        replaces = plain.pop("replaces", False)
        entries.append(Entry(spec=_spec(key, plain, own=own), replaces=replaces))
    result = Entries(entries=tuple(entries), file=file, mistakes=[])
    if file.value and "format" not in file.value:
        result.mistakes.append(("", "a file of variants begins with 'format: 1'"))
    for entry in entries:
        for what in _senseless(entry.spec):
            result.say(entry.spec.name, what)
    return result


def _spec(name: str, values: dict[str, Any], *, own: bool) -> VariantSpec:
    renamed = {"library": "library_file"}
    fields = {renamed.get(key, key): value for key, value in values.items()}
    return VariantSpec(**{"feature": name, **fields, "name": name, "own": own})


def _senseless(spec: VariantSpec) -> Iterator[str]:
    """Mistake of an entry whose every value is right by itself."""
    allowed = (*_WORDS, *([spec.parameter.value] if spec.parameter else []))
    values = [value for _, value in (*spec.environment, *spec.options)]
    words = [word for value in values for word in _BRACES.findall(value)]
    for word in sorted({word for word in words if word not in allowed}):
        yield f"'{{{word}}}' stands for nothing here: known are {_braced(allowed)}"
    if spec.parameter is not None and spec.parameter.value not in words:
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


def _parameter(value: str) -> Parameter:
    return Parameter(OneOf(tuple(one.value for one in Parameter))(value))


def _acts(value: str) -> DecidedBy:
    return DecidedBy(OneOf(tuple(one.value for one in DecidedBy))(value))


def _threshold(values: Mapping[str, Any]) -> Threshold:
    if "variable" not in values:
        raise ValueError("a threshold names its variable")
    return Threshold(
        variable=values["variable"],
        default_nbytes=values.get("default"),
        from_above=values.get("bounds", "above") == "above",
    )


def _nodes(value: str) -> tuple[int, int]:
    """``2-16``, or ``1`` alone."""
    low, _, high = value.partition("-")
    if not (low.isdigit() and (high or low).isdigit() and 1 <= int(low) <= int(high or low)):
        raise ValueError(f"'{value}' names no numbers of nodes: write 1 or 2-16")
    return int(low), int(high or low)


def _calls(values: Mapping[str, Any]) -> CallFilter:
    renamed = {
        "min_bytes": "min_nbytes",
        "max_bytes": "max_nbytes",
        "max_bytes_a_node": "max_nbytes_a_node",
    }
    call_filter = CallFilter(**{renamed.get(key, key): value for key, value in values.items()})
    if call_filter.max_nbytes is not None and call_filter.max_nbytes < call_filter.min_nbytes:
        raise ValueError("min_bytes is above max_bytes")
    return call_filter


def _text(value: str) -> str:
    """Any text that says something, on one line."""
    if not value.strip():
        raise ValueError("a text is wanted here")
    return " ".join(value.split())


def _flag(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(f"'{value}' is neither true nor false")
    return value.lower() == "true"


def _pairs(values: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(values.items()))


_T = TypeVar("_T")
_VariantName: TypeAlias = Annotated[
    str, matching(_NAME, "name: write small letters, digits and single -")
]
_Several: TypeAlias = Annotated[tuple[_T, ...], BeforeValidator(several)]
_Text: TypeAlias = Annotated[Line, AfterValidator(_text)]
_Size: TypeAlias = Annotated[int, read_by(parse_size)]
_Count: TypeAlias = Annotated[int, read_by(WholeNumberFrom(1))]
_Flag: TypeAlias = Annotated[bool, read_by(_flag)]
_Variable: TypeAlias = Annotated[VariableName, AfterValidator(_variable)]


class CallsKeys(TypedDict, total=False):
    """Keys of one kind of calls."""

    collectives: _Several[Annotated[Collective, read_by(Collective.parse)]]
    dtypes: _Several[Annotated[str, read_by(OneOf(tuple(DTYPE_BYTES)))]]
    redops: _Several[Annotated[str, read_by(OneOf(REDOPS))]]
    min_bytes: _Size
    max_bytes: _Size
    max_bytes_a_node: _Size
    arch: _Several[_Text]
    nodes: Annotated[tuple[int, int], read_by(_nodes)]
    multiple_of: _Count
    share_multiple_of: _Count
    maybe: _Flag


class NeedsKeys(TypedDict, total=False):
    """Keys of what must be so where a variant is measured."""

    arch: _Several[_Text]
    ranks: _Several[_Count]
    ranks_multiple_of: _Count
    one_node: _Flag
    graph: _Flag
    registered: _Flag


class ThresholdKeys(TypedDict, total=False):
    """Keys of a threshold."""

    variable: _Variable
    default: _Size
    bounds: Annotated[str, read_by(OneOf(("above", "below")))]


class EntryKeys(TypedDict, total=False):
    """Keys of an entry."""

    summary: Required[_Text]
    feature: _Text
    releases: _Several[Annotated[ReleaseRange, read_by(ReleaseRange.parse)]]
    library: Annotated[Line, AfterValidator(_path)]
    environment: Annotated[dict[_Variable, Line], AfterValidator(_pairs)]
    options: Annotated[
        dict[Annotated[Line, AfterValidator(_letter)], _Text], AfterValidator(_pairs)
    ]
    parameter: Annotated[Parameter, read_by(_parameter)]
    acts: Annotated[DecidedBy, read_by(_acts)]
    calls: _Several[Annotated[CallsKeys, AfterValidator(_calls)]]
    needs: Annotated[NeedsKeys, AfterValidator(lambda values: VariantNeeds(**values))]
    threshold: Annotated[ThresholdKeys, AfterValidator(_threshold)]
    lossy: _Flag
    runner: Annotated[str, read_by(OneOf(("torch",)))]
    not_tunable: _Text
    without: _Text
    source: _Text
    costs: _Text
    unverified: _Text
    replaces: _Flag


class VariantsFile(TypedDict, total=False):
    """A file of variants."""

    format: Annotated[str, read_by(OneOf(("1",)))]
    variants: dict[_VariantName, EntryKeys]
