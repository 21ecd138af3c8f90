"""What a value that comes from a file may be: its letters, its length, its range.

Records are annotated with these types, and :mod:`rccltune.schema` holds every file that is read
against the annotations; a type checker sees ``str``, ``int`` and ``float``. Nothing heavy is
imported here, since every record needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from annotated_types import Ge, Le, MaxLen

from rccltune.showing import shown

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

LARGEST: Final = 2**63 - 1


def odd_letters(text: str, allowed: str = "") -> str:
    """Letters that are no plain text and not allowed here; empty where there are none."""
    if text.isprintable():
        return ""
    return "".join(one for one in text if not one.isprintable() and one not in allowed)


@dataclass(frozen=True, slots=True)
class Checked:
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
        """How pydantic asks for it."""
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The pattern, where there is one."""
        found = handler(core["schema"])
        return {**found, "pattern": self.pattern} if self.pattern else found


def _as_it_is(value: object) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Parsed:
    """A value that is made from a text, by the function that reads the option of the same name.

    Attributes:
        parse: raises ValueError with what is wrong of the text.
        told: the same as JSON schema, for editors that know it.
        what: it is, in a word: a size, a duration.
        write: what YAML is given, for ``parse`` to read again.
        show: what a help says of it.
    """

    parse: Callable[[str], Any]
    told: Mapping[str, Any] = field(default_factory=dict)
    what: str = ""
    write: Callable[[Any], Any] = _as_it_is
    show: Callable[[Any], str] = str

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> CoreSchema:
        """How pydantic asks for it."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, _core: object, _handler: object) -> dict[str, Any]:
        """What an editor may know of it."""
        return dict(self.told)

    def _read(self, value: object) -> Any:  # noqa: ANN401 - the parser's type
        if not isinstance(value, str):
            raise ValueError("one value is wanted here")  # noqa: TRY004 - pydantic gathers these
        return self.parse(value)


@dataclass(frozen=True, slots=True)
class Made:
    """What is made of a value that keeps to its type.

    Attributes:
        make: raises ValueError where the whole makes no sense.
        of: the type in the file, where the record has another.
    """

    make: Callable[[Any], Any]
    of: Any = None

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """How pydantic asks for it."""
        from pydantic_core import core_schema

        held = handler(source) if self.of is None else handler.generate_schema(self.of)
        return core_schema.no_info_after_validator_function(self.make, held)


@dataclass(frozen=True, slots=True)
class Listed:
    """One value stands for a list of one."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """How pydantic asks for it."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_as_list, handler(source))


def _as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def _only(allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        odd = odd_letters(text, allowed)
        if odd:
            raise ValueError(f"has a letter that is no plain text ({shown(odd[0])})")
        return text

    return check


@dataclass(frozen=True, slots=True)
class OneOf:
    """A reader of one of a few words."""

    words: tuple[str, ...]

    def __call__(self, text: str) -> str:
        """The word itself; ValueError for any other."""
        if text not in self.words:
            raise ValueError(f"'{text}' is none of {', '.join(self.words)}")
        return text


@dataclass(frozen=True, slots=True)
class FromUp:
    """A reader of a whole number from ``minimum`` up, of at most 18 digits."""

    minimum: int

    def __call__(self, text: str) -> int:
        """The number; ValueError for all else."""
        if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < self.minimum:
            raise ValueError(f"'{text[:40]}' is no whole number from {self.minimum} up")
        return int(text)


def matching(pattern: str, what: str) -> Checked:
    """A check that a whole text matches; ``what`` says in words what is wanted."""
    known = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if not known.fullmatch(text):
            raise ValueError(f"is {_cut(text)}, which is no {what}")
        return text

    return Checked(check, f"^{pattern}$")


def _cut(text: str) -> str:
    short = text if len(text) <= 60 else text[:57] + "…"
    return f"'{shown(short)}'"


# Of what stands in file names, comments and commands.
NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._+:=@-]*"
# One line of what somebody wrote or a machine calls itself; never a line break or a control letter.
Line: TypeAlias = Annotated[str, MaxLen(4096), Checked(_only(""))]
# Several lines.
Text: TypeAlias = Annotated[str, MaxLen(1 << 20), Checked(_only("\n\t"))]
# A name that stands in file names, comments and commands: of an architecture, a variant, a launch.
Word: TypeAlias = Annotated[
    str,
    MaxLen(128),
    matching(NAME, "name: letters, digits and . _ + : = @ - alone"),
]
VariableName: TypeAlias = Annotated[
    str, MaxLen(256), matching(r"[A-Za-z_][A-Za-z0-9_]*", "name of an environment variable")
]
Variable: TypeAlias = tuple[VariableName, Line]
Digest: TypeAlias = Annotated[str, matching(r"[0-9a-f]{64}", "SHA-256 digest")]
# Bytes, counts and line numbers: what fits the C side's 64 bits.
Whole: TypeAlias = Annotated[int, Ge(0), Le(LARGEST)]
Integer: TypeAlias = Annotated[int, Ge(-LARGEST), Le(LARGEST)]
# Times, ratios and rates; NaN and infinity are none, and squares stay finite.
Number: TypeAlias = Annotated[float, Ge(-1e18), Le(1e18)]
