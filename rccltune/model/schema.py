"""Files into records: what a value may be, and one way in for all that others may have written.

A record's annotations are the schema of its file, and a type checker sees ``str``, ``int`` and
``float``. pydantic, loaded where something is read, converts and finds every mistake at once; what
is said of one is ours. JSON is held to its own types, so that ``"8"`` is no number. In YAML every
value is a text at first, as an environment variable wants it.
"""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from annotated_types import Ge, Le, MaxLen

from rccltune.model.errors import InputFileError, RccltuneError, SessionError
from rccltune.model.text import join_lines, printable, unknown

if TYPE_CHECKING:
    from pydantic import (
        GetCoreSchemaHandler,
        GetJsonSchemaHandler,
        PlainValidator,
        TypeAdapter,
    )
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema, ErrorDetails


LARGEST: Final = 2**63 - 1


def odd_letters(text: str, allowed: str = "") -> str:
    """Letters that are no plain text and not allowed here; empty where there are none."""
    if text.isprintable():
        return ""
    return "".join(one for one in text if not one.isprintable() and one not in allowed)


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """A check that stands in an annotation, beyond length and range.

    Attributes:
        check: returns the value, or raises ValueError with what is wrong of it.
        pattern: the same as a regular expression, for editors that know the schema.
    """

    check: Callable[[Any], Any]
    pattern: str | None = None

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Build the schema for pydantic."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The pattern, where there is one."""
        json = handler(core["schema"])
        return {**json, "pattern": self.pattern} if self.pattern else json


def read_by(parse: Callable[[str], Any], told: Any = Any) -> PlainValidator:  # noqa: ANN401 - a type
    """A value that is made from a text; what is no text is refused.

    Args:
        parse: raises ValueError with what is wrong of the text.
        told: a type, which JSON schema says in its place.
    """
    from pydantic import PlainValidator

    def read(value: object) -> Any:  # noqa: ANN401 - the parser's type
        if not isinstance(value, str):
            raise ValueError("one value is wanted here")  # noqa: TRY004 - pydantic gathers these
        return parse(value)

    return PlainValidator(read, json_schema_input_type=told)


def several(value: object) -> object:
    """One value stands for a list of one."""
    return value if isinstance(value, list) else [value]


def _only(allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        odd = odd_letters(text, allowed)
        if odd:
            raise ValueError(f"has a letter that is no plain text ({printable(odd[0])})")
        return text

    return check


@dataclass(frozen=True, slots=True)
class OneOf:
    """A reader of one of a few words."""

    words: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """The word itself; ValueError for any other."""
        if text not in self.words:
            raise ValueError(unknown("word", text, self.words))
        return text


@dataclass(frozen=True, slots=True)
class WholeNumberFrom:
    """A reader of a whole number from ``minimum`` up, of at most 18 digits."""

    minimum: int

    def __call__(self, text: str) -> int:
        """The number; ValueError for all else."""
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < self.minimum:
            raise ValueError(f"'{text[:40]}' is no whole number from {self.minimum} up")
        return int(text)


def matching(pattern: str, what: str) -> FieldCheck:
    """A check that a whole text matches; ``what`` says in words what is wanted."""
    known = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if not known.fullmatch(text):
            raise ValueError(f"is {_cut(text)}, which is no {what}")
        return text

    return FieldCheck(check, f"^{pattern}$")


def _cut(text: str) -> str:
    short = text if len(text) <= 60 else text[:57] + "…"
    return f"'{printable(short)}'"


# Of what stands in file names, comments and commands.
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._+:=@-]*"
# One line of what somebody wrote or a machine calls itself; never a line break or a control letter.
Line: TypeAlias = Annotated[str, MaxLen(4096), FieldCheck(_only(""))]
# Several lines.
Text: TypeAlias = Annotated[str, MaxLen(1 << 20), FieldCheck(_only("\n\t"))]
# A name that stands in file names, comments and commands: of an architecture, a launch.
Word: TypeAlias = Annotated[
    str, MaxLen(128), matching(NAME, "name: letters, digits and . _ + : = @ - alone")
]
VariableName: TypeAlias = Annotated[
    str, MaxLen(256), matching(r"[A-Za-z_][A-Za-z0-9_]*", "name of an environment variable")
]
Variable: TypeAlias = tuple[VariableName, Line]
# Bytes, counts and line numbers: what fits the C side's 64 bits.
Whole: TypeAlias = Annotated[int, Ge(0), Le(LARGEST)]
Integer: TypeAlias = Annotated[int, Ge(-LARGEST), Le(LARGEST)]
# Times, ratios and rates; NaN and infinity are none, and squares stay finite.
Number: TypeAlias = Annotated[float, Ge(-1e18), Le(1e18)]
# What a logarithm is taken of: sizes in bytes, and times.
FromOne: TypeAlias = Annotated[int, Ge(1), Le(LARGEST)]
Positive: TypeAlias = Annotated[float, Ge(1e-18), Le(1e18)]
T = TypeVar("T")
Place: TypeAlias = tuple[str | int, ...]
_MOST_SAID: Final = 20
_WANTED: Final = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "'name: value' pairs",
    "dataclass_type": "'name: value' pairs",
}
_SAID: Final = {
    "missing": "is missing",
    "unexpected_keyword_argument": "is unknown",
    "extra_forbidden": "is unknown",
    "string_unicode": "is no text",
    "int_parsing_size": "is too large a number",
    "json_invalid": "this is no JSON: {error}",
    "greater_than_equal": "is {value}, below {ge}",
    "less_than_equal": "is {value}, above {le}",
    "greater_than": "is {value}, which must be above {gt}",
    "too_short": "has fewer than {min_length} elements",
    "too_long": "has more than {max_length} elements",
    "string_too_long": "is longer than {max_length} letters",
    "literal_error": "is {value}, not one of {expected}",
    "enum": "is {value}, not one of {expected}",
}


class Mistake(Enum):
    """Mistake at a place of a file; the last three stand at a key."""

    VALUE = "value"
    UNKNOWN = "unknown key"
    MISSING = "missing key"
    KEY = "key"


def to_plain(value: object, allowed: str | None = "") -> Any:  # noqa: ANN401 - JSON has no narrower type
    r"""Dicts, lists, texts, numbers and None, for files and for --json.

    Of a record all fields but those of default values, behind the ``FORMAT`` of its class where
    that has one; or what its ``json_fields()`` gives instead. Letters that are no plain text (a log
    may have them) are written out, ``\x1b``, so that no reader has to bear them.

    Args:
        value: a record, or what records are made of.
        allowed: letters that stay in its texts all the same; None leaves all as they are.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str | Path):
        return str(value) if allowed is None else printable(str(value), allowed)
    if is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "json_fields"):
            return to_plain(value.json_fields(), allowed)
        number = getattr(value, "FORMAT", None)
        return ({} if number is None else {"format": number}) | {
            f.name: to_plain(getattr(value, f.name), _kept(str(f.type), allowed))
            for f in fields(value)
            if getattr(value, f.name) != f.default
        }
    if isinstance(value, tuple | list):
        is_plain = set(map(type, value)) <= {int, float}  # as millions of times are
        return list(value) if is_plain else [to_plain(item, allowed) for item in value]
    if isinstance(value, Mapping):
        return {printable(str(key)): to_plain(item, allowed) for key, item in value.items()}
    return value


def _kept(annotation: str, allowed: str | None) -> str | None:
    """Letters that stay in a field's text: only a Text keeps its line breaks."""
    return None if allowed is None else "\n\t" if "Text" in annotation else ""


def convert(
    kind: type[T], plain: object, *, strict: bool
) -> tuple[T, list[tuple[Place, Mistake, str]]]:
    """A record from plain values, and every mistake as (place, kind, words).

    The record is worth nothing where there is a mistake.
    """
    from pydantic import ValidationError

    try:
        content: T = _adapter(typing.cast("Hashable", kind), strict=strict).validate_python(
            (plain,)
        )[0]
    except ValidationError as error:
        mistakes = [_mistake(one) for one in error.errors(include_url=False)]
        return typing.cast("T", None), mistakes
    except UnicodeEncodeError:
        # Bytes of a command line that are no text, in what a parser said of them.
        return typing.cast("T", None), [((), Mistake.VALUE, "has letters that are no text")]
    return content, []


def read_json(
    kind: type[T],
    content: bytes,
    where: str,
    hint: str,
    *,
    fails: type[RccltuneError] = SessionError,
) -> T:
    """A record from a JSON text.

    Args:
        kind: the record.
        content: the text.
        where: the file that it is from.
        hint: what to do where it does not fit.
        fails: class of the error.

    Raises:
        SessionError: or ``fails``; every mistake, each with its field.
    """
    from pydantic import ValidationError

    try:
        # A record takes the settings of what holds it, and cannot be given any itself.
        held = _adapter(typing.cast("Hashable", kind), strict=True)
        record: T = held.validate_json(b"[" + content + b"]")[0]
    except ValidationError as error:
        mistakes = [_mistake(one) for one in error.errors(include_url=False)]
        said = [" ".join(filter(None, (path(place), words))) for place, _, words in mistakes]
        raise fails(join_mistakes(said), where=where, hint=hint) from None
    return record


def json_schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a file, for editors."""
    schema = _adapter(typing.cast("Hashable", kind), strict=False).json_schema()
    (reference,) = schema["prefixItems"]
    known = schema["$defs"]
    whole = {**known.pop(reference["$ref"].rpartition("/")[2]), "$defs": known}
    return typing.cast("dict[str, Any]", _as_of_today(whole))


def _as_of_today(value: object) -> object:
    """Without titles that repeat each name; what pydantic 2.10 says otherwise, as 2.14 does."""
    if isinstance(value, list):
        return [_as_of_today(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, dict):
        return value
    # Nothing else is allowed anywhere (_adapter).
    closed = {"additionalProperties": False} if "properties" in value else {}
    return closed | {
        key: _as_of_today(one)
        for key, one in value.items()
        if key != "title" or not isinstance(one, str)
    }


def check_record(record: object, where: str, hint: str) -> None:
    """Find out before a record is written whether it could be read back.

    Raises:
        InputFileError: it could not; every mistake, each with its field.
    """
    content = json.dumps(to_plain(record)).encode()
    read_json(type(record), content, where, hint, fails=InputFileError)


def load_json(content: bytes, where: str, hint: str) -> dict[str, Any]:
    """The pairs of a JSON file, not yet held to anything.

    Raises:
        SessionError: no JSON, nested too deeply, a number beyond all bounds, or no pairs.
    """
    from pydantic_core import from_json

    try:
        plain = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        raise SessionError(f"this is no JSON: {error}", where=where, hint=hint) from None
    if not isinstance(plain, dict):
        raise SessionError("must be 'name: value' pairs", where=where, hint=hint)
    return plain


@cache
def _adapter(kind: Hashable, *, strict: bool) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    # What is left out of a TypedDict is missing; what is too much would be lost silently.
    config = ConfigDict(strict=strict, extra="forbid", allow_inf_nan=False)
    held: Any = types.GenericAlias(tuple, (kind,))
    return TypeAdapter(held, config=config)


def _mistake(error: ErrorDetails) -> tuple[Place, Mistake, str]:
    place = error["loc"][1:]
    mistake = Mistake.VALUE
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        mistake = Mistake.UNKNOWN
    elif error["type"] in ("missing", "missing_argument"):
        mistake = Mistake.MISSING
    elif place and place[-1] == "[key]":
        mistake = Mistake.KEY
    return place, mistake, _message(error)


def path(place: Place, within: str = "") -> str:
    """``curves[2].setting``; a line break in a key is written out."""
    text = within
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part != "[key]":
            text += f".{part}" if text else str(part)
    return printable(text)


def _message(error: ErrorDetails) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), _short(error.get("input"))
    if kind == "value_error":
        return printable(str(context["error"]))
    if kind in _WANTED:
        return f"is {value} and must be {_WANTED[kind]}"
    template = _SAID.get(kind)
    return printable(error["msg"]) if template is None else template.format(value=value, **context)


def _short(value: object) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return printable(text if len(text) <= 60 else text[:57] + "…")


def join_mistakes(messages: list[str]) -> str:
    """Several mistakes as one message, of which the first twenty are listed."""
    more = len(messages) - _MOST_SAID
    shown_ones = messages[:_MOST_SAID] + ([f"and {more} more"] if more > 0 else [])
    if len(messages) == 1:
        return messages[0]
    return join_lines([f"{len(messages)} mistakes:", *(f"  {one}" for one in shown_ones)])
