"""The catalog: shipped variants and a user's own; each found, told, and as a launch is given it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final

from rccltune.model.errors import CommandLineError, InputFileError, reason_of
from rccltune.model.settings import TREE_SIMPLE_PATCHED, Variant
from rccltune.model.vocabulary import format_size
from rccltune.variants.availability import VariantSite, scale_words, why_absent
from rccltune.variants.entries import Entries, Entry, read_entries
from rccltune.variants.records import CallFilter, DecidedBy, Parameter, VariantSpec

# Not importlib.resources: in editable installs it does not see file names that are no identifiers.
SHIPPED: Final = Path(__file__).parents[1] / "data" / "variants.yaml"
_NUMBERED: Final = re.compile(r"(.+)-(\d+)")
_LIST: Final = "'rccltune variants' lists all of them."


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
        name, equals, given = typed.partition("=")
        spec, parameter = self._named(name.lower()), given if equals else None
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
        return CommandLineError(f"there is no variant '{typed}'", hint=f"{meant}{_LIST}")


def read_catalog(path: Path | None) -> Catalog:
    """The shipped variants and those of a user's file, where there is one.

    Raises:
        InputFileError: it cannot be read, or has mistakes.
    """
    if path is None:
        return load_catalog()
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputFileError(
            f"the file of variants cannot be read: {reason_of(error)}", where=str(path)
        ) from error
    return load_catalog(content, str(path))


@cache
def _shipped() -> tuple[VariantSpec, ...]:
    read = read_entries(SHIPPED.read_text("utf-8"), SHIPPED.name, own=False)
    _check_widened(read.entries, [entry.spec.name for entry in read.entries], read)
    read.end()
    return tuple(entry.spec for entry in read.entries)


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
        read = read_entries(extra, name, own=True)
        _check_names(read, specs)
        user_entries = [_in_place(entry, specs.get(entry.spec.name)) for entry in read.entries]
        _check_widened(user_entries, [*specs, *(entry.spec.name for entry in user_entries)], read)
        read.end()
        specs |= {entry.spec.name: entry.spec for entry in user_entries}
    return Catalog(specs=tuple(specs.values()))


def _in_place(entry: Entry, shipped: VariantSpec | None) -> Entry:
    """An entry in the place of one that widens another widens it as well, unless it says which."""
    if shipped is None or entry.spec.widens is not None:
        return entry
    return replace(entry, spec=replace(entry.spec, widens=shipped.widens))


def _check_names(read: Entries, shipped: dict[str, VariantSpec]) -> None:
    """A user's entry replaces a shipped one only where it says so."""
    known = Catalog(specs=tuple(shipped.values()))
    for entry in read.entries:
        name = entry.spec.name
        numbered = known._numbered(name)[0]  # noqa: SLF001 - the same module
        if name == "default":
            read.say(entry.spec.name, "'default' is the site as it is and cannot be replaced")
        elif name == TREE_SIMPLE_PATCHED.name:
            read.say(entry.spec.name, f"'{name}' is what a patched library is measured as")
        elif name in shipped and not entry.replaces:
            read.say(entry.spec.name, f"'{name}' is shipped; add 'replaces: true' to replace it")
        elif name not in shipped and entry.replaces:
            read.say(entry.spec.name, f"'{name}' is not shipped, so that it replaces nothing")
        elif numbered is not None:
            read.say(entry.spec.name, f"'{name}' is {numbered.title} already; take another name")


def _check_widened(entries: Iterable[Entry], names: list[str], read: Entries) -> None:
    for entry in entries:
        beyond = entry.spec.without
        if beyond is not None and (beyond not in names or beyond == entry.spec.name):
            read.say(entry.spec.name, f"without it there is '{beyond}', which is no other variant")
        widened = entry.spec.widens
        if widened is not None and (widened not in names or widened == entry.spec.name):
            read.say(entry.spec.name, f"it widens '{widened}', which is no other variant")
        elif widened is not None and not _sets_variables_alone(entry.spec):
            read.say(entry.spec.name, f"it widens '{widened}', so that it can set variables alone")


def _sets_variables_alone(spec: VariantSpec) -> bool:
    """Whether settings measured in it may stand beside those of the variant that it widens."""
    another = spec.options or spec.library_file or spec.parameter or spec.threshold
    return not another and spec.acts is DecidedBy.SETTINGS and not spec.lossy


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


def resolve(spec: VariantSpec, parameter: str | None, where: Substitutions) -> Variant:
    """The variant as measured and recorded.

    ``{ranks}`` in an option stays, since a launch fills it and tells threads by it. A threshold is
    never set above the largest size that the variant can take at all. Another library is the
    caller's to load (``spec.library_file``) and to record.
    """
    words = {"ranks": str(where.n_ranks), "max_bytes": str(_largest(spec, where.max_nbytes))}
    if spec.parameter is not None:
        words[spec.parameter.value] = parameter or ""
    bounded = spec.threshold is not None and spec.threshold.from_above
    return Variant(
        name=resolved_name(spec, parameter),
        environment=tuple((name, _filled(value, words)) for name, value in spec.environment),
        widens=spec.widens,
        without=spec.without,
        options=spec.options,
        threshold=spec.threshold.variable if spec.threshold and bounded else None,
        lossy=spec.lossy,
    )


def resolved_name(spec: VariantSpec, parameter: str | None) -> str:
    """``channels-32``; a directory's own name with a hash of its path, fit for a file's name."""
    if parameter is None or spec.parameter is None:
        return spec.name
    if spec.parameter is Parameter.CHANNELS:
        return f"{spec.name}-{parameter}"
    folder = re.sub(r"[^A-Za-z0-9.]+", "-", Path(parameter).name).strip("-.")
    digest = hashlib.sha256(parameter.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return "-".join(part for part in (spec.name, folder, digest) if part)


def _filled(value: str, words: dict[str, str]) -> str:
    return re.sub(r"\{([a-z_]+)\}", lambda match: words[match[1]], value)


def _largest(spec: VariantSpec, max_nbytes: int) -> int:
    bounds = [calls.max_nbytes for calls in spec.calls]
    known = [bound for bound in bounds if bound is not None]
    return min(max_nbytes, max(known)) if known and len(known) == len(bounds) else max_nbytes


def sets(spec: VariantSpec) -> str:
    """``RCCL_MSCCL_ENABLE=0``, ``-G 2``, a library; nothing for the site as it is."""
    words = [f"{name}={value}" for name, value in spec.environment]
    words += [f"{letter} {value}" for letter, value in spec.options]
    words += [spec.library_file] if spec.library_file else []
    return " ".join(words) or "–"


def calls_of(spec: VariantSpec) -> str:
    """Text of the calls that it concerns, and where: ``all_gather; 8 ranks on one node``."""
    if spec.not_tunable is not None:
        return "–"
    kinds = " or ".join(_kind(calls) for calls in spec.calls) or "every call"
    needs = [
        scale_words(spec.needs),
        ", ".join(spec.needs.arch),
        "captured graphs" if spec.needs.graph else None,
        {True: "registered buffers", False: "buffers not registered", None: None}[
            spec.needs.registered
        ],
    ]
    return "; ".join([kinds, *(word for word in needs if word)])


def _kind(calls: CallFilter) -> str:
    words = [", ".join(one.value for one in calls.collectives) or "every collective"]
    details = [", ".join(calls.dtypes), ", ".join(calls.redops), _sizes(calls)]
    if calls.multiple_of > 1:
        details.append(f"multiples of {calls.multiple_of} B")
    if calls.share_multiple_of > 1:
        details.append(f"a rank's share a multiple of {calls.share_multiple_of} B")
    if calls.maybe:
        details.append("not all of them")
    more = "; ".join(word for word in details if word)
    return f"{words[0]} ({more})" if more else words[0]


def _sizes(calls: CallFilter) -> str | None:
    low, high = calls.min_nbytes, calls.max_nbytes
    if high is None:
        return f"from {format_size(low)}" if low else None
    return f"{format_size(low)} to {format_size(high)}" if low else f"up to {format_size(high)}"


def releases_of(spec: VariantSpec) -> str:
    """``RCCL 2.21.5 to 2.26.6 (ROCm 6.3 to 7.0)``; ``any library`` if none is named."""
    return ", ".join(str(one) for one in spec.releases) or "any library"


def status(spec: VariantSpec, site: VariantSite) -> str:
    """Status of a variant: why it is not there, or what it costs."""
    why = why_absent(spec, site)
    if why is not None:
        return why
    words = ["lossy"] if spec.lossy else []
    words += ["goes past the tuner"] if spec.acts is DecidedBy.PATH else []
    return "; ".join(words) or "measurable"
