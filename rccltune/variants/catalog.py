"""The catalog: shipped variants and a user's own; each found, and what ranks get of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

from rccltune.model.errors import CommandLineError
from rccltune.variants.entries import Entries, Entry, read_entries
from rccltune.variants.spec import Parameter, VariantSpec

# Not importlib.resources: in editable installs it does not see file names that are no identifiers.
SHIPPED: Final = Path(__file__).parents[1] / "data" / "variants.yaml"
_NUMBERED: Final = re.compile(r"(.+)-(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All variants that can be asked for, in the order of their files."""

    specs: tuple[VariantSpec, ...]

    def find(self, word: str) -> tuple[VariantSpec, str | None]:
        """The variant and its parameter: ``mscclpp``, ``channels-32``, ``msccl-xml=DIR``.

        Raises:
            CommandLineError: there is none of that name, it cannot be measured (its reason is
                given), or its parameter is missing, too much or wrong.
        """
        spec, parameter = self.look_up(word)
        if spec.not_tunable is not None:
            raise CommandLineError(
                f"'{spec.name}' cannot be measured as a variant: {spec.not_tunable}"
            )
        return spec, _checked(spec, parameter)

    def look_up(self, word: str) -> tuple[VariantSpec, str | None]:
        """The entry and whatever parameter was typed, to tell about it.

        Raises:
            CommandLineError: there is none of that name.
        """
        typed = word.strip()
        name, equals, value = typed.partition("=")
        spec, parameter = self._named(name.lower()), value if equals else None
        if spec is None and parameter is None:
            spec, parameter = self._numbered(typed.lower())
        if spec is None:
            raise self._unknown(typed)
        return spec, parameter

    def _named(self, name: str) -> VariantSpec | None:
        return next((spec for spec in self.specs if spec.name == name), None)

    def _numbered(self, typed: str) -> tuple[VariantSpec | None, str | None]:
        """``channels-32`` as the variant and its number."""
        match = _NUMBERED.fullmatch(typed)
        spec = self._named(match[1]) if match else None
        if match is None or spec is None or spec.parameter is not Parameter.CHANNELS:
            return None, None
        return spec, match[2]

    def _unknown(self, typed: str) -> CommandLineError:
        names = [spec.name for spec in self.specs]
        near = get_close_matches(typed.partition("=")[0].lower(), names, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        return CommandLineError(
            f"'{typed}' is no name of the catalog",
            hint=f"{meant}known are {', '.join(names)}.",
        )


@cache
def _shipped() -> tuple[VariantSpec, ...]:
    entries = read_entries(SHIPPED.read_text("utf-8"), SHIPPED.name, own=False)
    _check_without(entries.entries, [entry.spec.name for entry in entries.entries], entries)
    entries.end()
    return tuple(entry.spec for entry in entries.entries)


def load_catalog(extra: str | None = None, name: str = "") -> Catalog:
    """The shipped variants and, behind them, those of a user's file.

    Args:
        extra: the text of that file, in the shipped file's own format.
        name: its path, for messages.

    Raises:
        InputFileError: every mistake, one a line, each with line and column.
    """
    specs = {spec.name: spec for spec in _shipped()}
    if extra is not None:
        entries = read_entries(extra, name, own=True)
        _check_names(entries, specs)
        names = [*specs, *(entry.spec.name for entry in entries.entries)]
        _check_without(entries.entries, names, entries)
        entries.end()
        specs |= {entry.spec.name: entry.spec for entry in entries.entries}
    return Catalog(specs=tuple(specs.values()))


def _check_names(entries: Entries, shipped: dict[str, VariantSpec]) -> None:
    """A user's entry replaces a shipped one only where it says so."""
    known = Catalog(specs=tuple(shipped.values()))
    for entry in entries.entries:
        name = entry.spec.name
        numbered = known._numbered(name)[0]  # noqa: SLF001 - the same module
        if name == "default":
            entries.say(entry.spec.name, "'default' is the site as it is and cannot be replaced")
        elif name in shipped and not entry.replaces:
            entries.say(entry.spec.name, f"'{name}' is shipped; add 'replaces: true' to replace it")
        elif name not in shipped and entry.replaces:
            entries.say(entry.spec.name, f"'{name}' is not shipped, so that it replaces nothing")
        elif numbered is not None:
            entries.say(entry.spec.name, f"'{name}' is {numbered.title} already; take another name")


def _check_without(entries: Iterable[Entry], names: Collection[str], read: Entries) -> None:
    for entry in entries:
        beyond = entry.spec.without
        if beyond is not None and (beyond not in names or beyond == entry.spec.name):
            read.say(entry.spec.name, f"without it there is '{beyond}', which is no other variant")


def _checked(spec: VariantSpec, parameter: str | None) -> str | None:
    """The parameter as the variant wants it."""
    if spec.parameter is None:
        if parameter is not None:
            raise CommandLineError(
                f"the variant '{spec.name}' takes no parameter, but '{parameter}' is given",
                hint=f"write {spec.name}.",
            )
        return None
    if not parameter:
        example = f"{spec.name}={'32' if spec.parameter is Parameter.CHANNELS else '/path/of/xmls'}"
        raise CommandLineError(
            f"the variant '{spec.name}' wants its parameter", hint=f"write {example}."
        )
    return _channels(parameter) if spec.parameter is Parameter.CHANNELS else _folder(parameter)


def _channels(parameter: str) -> str:
    if not re.fullmatch(r"[0-9]{1,6}", parameter) or not int(parameter):
        raise CommandLineError(f"'{parameter}' is no number of channels", hint="write channels-32.")
    return str(int(parameter))


def _folder(parameter: str) -> str:
    # RCCL takes its own files, without an error, where this one cannot be opened.
    if not Path(parameter).is_dir():
        raise CommandLineError(f"there is no directory '{parameter}'")
    return str(Path(parameter).absolute())


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitutions:
    """Values of the words in braces.

    Attributes:
        max_nbytes: largest size of the sweep, so that a threshold lets all of it through.
        n_ranks: ranks of the communicator.
    """

    max_nbytes: int
    n_ranks: int


def environment_of(
    spec: VariantSpec, parameter: str | None, where: Substitutions
) -> tuple[tuple[str, str], ...]:
    """Variables of a variant, the words in braces replaced.

    A threshold is never set above the largest size that the variant can take at all.
    """
    words = {"ranks": str(where.n_ranks), "max_bytes": str(_largest(spec, where.max_nbytes))}
    if spec.parameter is not None:
        words[spec.parameter.value] = parameter or ""
    return tuple((name, _filled(value, words)) for name, value in spec.environment)


def _filled(value: str, words: dict[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: words[match[1]], value)


def _largest(spec: VariantSpec, max_nbytes: int) -> int:
    bounds = [calls.max_nbytes for calls in spec.calls]
    known = [bound for bound in bounds if bound is not None]
    return min(max_nbytes, max(known)) if known and len(known) == len(bounds) else max_nbytes
