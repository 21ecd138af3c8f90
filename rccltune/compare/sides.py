"""Sides of a comparison as a user types them: ``site``, ``torch+NCCL_NTHREADS=512``, ``new.csv``.

A side is a library, variables, and our plugin or none. Words are joined by ``+``: ``site`` (nothing
of ours), a library (a file, ``torch``, ``real`` on a simulated node), NAME=VALUE, what our plugin
answers (``idle``, a rule file, a setting), or a name of the catalog (:mod:`rccltune.variants`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rccltune.measure.site import Site
from rccltune.measure.sweep_schema import parse_measured_setting
from rccltune.model.errors import CommandLineError, MachineError
from rccltune.model.settings import IDLE, RULES, Setting
from rccltune.model.units import format_last
from rccltune.model.vocabulary import Collective
from rccltune.rules.needs import check_needs
from rccltune.rules.refusals import read_accepted
from rccltune.variants import availability, catalog
from rccltune.variants.availability import VariantSite
from rccltune.variants.catalog import Catalog, Substitutions
from rccltune.variants.spec import VariantSpec

SITE: Final = "site"
# Of the site as it is in the catalog.
_DEFAULT: Final = "default"
_IDLE: Final = "idle"
_LIBRARIES: Final = ("torch", "real")
# A side even where a folder has such a name; ./torch is the folder.
WORDS: Final = (SITE, _IDLE, *_LIBRARIES)
_VARIABLE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_CORRECT: Final = "correct its path."
_LIBRARY: Final = re.compile(r".*\.so(\.\d+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Library, variables and plugin that ranks run with.

    Attributes:
        name: as it was typed.
        library: a file or a word for one; None is the site's own.
        variables: set in every rank, by name.
        answer: what our plugin answers: idle, a setting, or by a rule file; None loads no plugin.
        rules: text of the rule file, empty without one.
        entries: of the catalog, each with its parameter.
    """

    name: str
    library: Path | None = None
    variables: tuple[tuple[str, str], ...] = ()
    answer: Setting | None = None
    rules: str = ""
    entries: tuple[tuple[VariantSpec, str | None], ...] = ()

    @property
    def has_plugin(self) -> bool:
        """Whether our plugin is loaded."""
        return self.answer is not None

    @property
    def digest(self) -> str:
        """Twelve letters by which its rules are told from others; empty without a rule file."""
        return hashlib.sha256(self.rules.encode()).hexdigest()[:12] if self.rules else ""

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """Collectives that its entries concern; empty where they concern all."""
        groups = [calls.collectives for spec, _ in self.entries for calls in spec.calls]
        return tuple(dict.fromkeys(one for each in groups for one in each))

    @property
    def needs_graphs(self) -> bool:
        """Whether only calls of captured graphs take its path."""
        return any(spec.needs.graph for spec, _ in self.entries)

    @property
    def is_lossy(self) -> bool:
        """Whether its results are not exact, and are not compared."""
        return any(spec.lossy for spec, _ in self.entries)

    def variables_for(self, max_nbytes: int, n_ranks: int) -> tuple[tuple[str, str], ...]:
        """All that is set in its ranks: of the catalog, and what was typed, which wins.

        Args:
            max_nbytes: largest size of the comparison.
            n_ranks: of the communicator.
        """
        where = Substitutions(max_nbytes=max_nbytes, n_ranks=n_ranks)
        values: dict[str, str] = {}
        for spec, parameter in self.entries:
            values |= dict(catalog.environment_of(spec, parameter, where))
        return tuple((values | dict(self.variables)).items())


def parse_side(text: str, known: Catalog, setting: Setting | None = None) -> Side:
    """Read a side.

    Args:
        text: as typed.
        known: the catalog.
        setting: that both sides are forced to where they name no answer of their own.

    Raises:
        CommandLineError: a word that is no side, a file that is not there, or two words that
            contradict each other.
        InputFileError: the plugin refuses a rule file.
    """
    words = _SideWords(text)
    for word in _words(text):
        words.add(word, known)
    if setting is not None:
        words.said.setdefault("answer", setting)
    return Side(
        name=text,
        variables=tuple(words.variables.items()),
        entries=tuple(words.entries),
        **words.said,
    )


class _SideWords:
    """Words of a side, one after the other.

    Args:
        text: all of it, for messages.
    """

    def __init__(self, text: str) -> None:
        """Begin with the site as it is."""
        self.text = text
        self.said: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self.entries: list[tuple[VariantSpec, str | None]] = []

    def add(self, word: str, known: Catalog) -> None:
        """Take a word."""
        library, pair = _library_of(word), _VARIABLE.fullmatch(word)
        if library is not None:
            self._say("library", library, word)
        elif (answer := _answer_of(word)) is not None:
            self._say("answer", answer, word)
        elif word.endswith(".csv"):
            self._say("answer", RULES, word)
            self.said["rules"], needs = _read(word)
            self._set(needs)
        elif pair and not _is_entry(pair[1], known):
            self._set([(pair[1], pair[2])])
        elif word not in (SITE, _DEFAULT):
            self.entries.append(_entry(word, known))
            file = self.entries[-1][0].library_file
            if file is not None:
                self._say("library", _existing(file), word)

    def _say(self, name: str, value: object, word: str) -> None:
        if name in self.said:
            raise CommandLineError(
                f"'{self.text}' says two things for one side", hint=f"leave '{word}' out."
            )
        self.said[name] = value

    def _set(self, pairs: Iterable[tuple[str, str]]) -> None:
        for name, value in pairs:
            if self.variables.setdefault(name, value) != value:
                raise CommandLineError(f"'{self.text}' sets {name} twice")


def _words(text: str) -> list[str]:
    """Words of a side; one that is a file may have a plus in its name."""
    words = [text] if Path(text).exists() else text.split("+")
    if not all(words):
        raise CommandLineError(
            f"'{text}' is no side",
            hint="write site, FILE.so, torch, NAME=VALUE, RULES.csv, idle, tree/ll or a name that "
            "rccltune compare --list shows, joined by +.",
        )
    return words


def _library_of(word: str) -> Path | None:
    if word in _LIBRARIES:
        return Path(word)
    return _existing(word) if _LIBRARY.fullmatch(word) and "=" not in word else None


def _existing(word: str) -> Path:
    path = Path(word)
    if not path.is_file():
        raise CommandLineError("there is no such library", where=word, hint=_CORRECT)
    return path.absolute()


def _answer_of(word: str) -> Setting | None:
    """The setting that a word names; None of anything else."""
    if word == _IDLE:
        return IDLE
    if "/" not in word or "=" in word or word.endswith(".csv"):
        return None
    try:
        setting = parse_measured_setting(word)
    except ValueError as error:
        _refuse_file(word)
        raise CommandLineError(f"'{word}' is no file that is there, and {error}") from error
    if not setting.is_complete:
        raise CommandLineError(f"'{word}' names no algorithm and protocol", hint="write tree/ll.")
    return setting


def _refuse_file(word: str) -> None:
    """Stop where a word that says nothing else is a file."""
    if Path(word).is_file():
        raise CommandLineError(
            f"'{word}' is no library and no rule file",
            hint="name a library as FILE.so, or a rule file as FILE.csv.",
        )


def _read(word: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Text of a rule file, and the variables that it needs."""
    path = Path(word)
    if not path.is_file():
        raise CommandLineError("there is no such rule file", where=word, hint=_CORRECT)
    file = read_accepted(path.read_bytes(), path)
    check_needs(file.needs, (), where=word)
    return path.read_text(encoding="utf-8"), file.needs


def _is_entry(name: str, known: Catalog) -> bool:
    return any(spec.name == name for spec in known.specs)


def _entry(word: str, known: Catalog) -> tuple[VariantSpec, str | None]:
    try:
        spec, parameter = known.find(word)
    except CommandLineError:
        _refuse_file(word)
        raise
    lacks = why_not_measured(spec)
    if lacks is not None:
        raise CommandLineError(lacks)
    return spec, parameter


def why_not_measured(spec: VariantSpec) -> str | None:
    """Reason for which the rank program cannot measure an entry; None where it can."""
    if spec.options:
        words = " ".join(f"{name} {value}" for name, value in spec.options)
        return f"{spec.name} is an option of rccl-tests ({words}), which rccltune-perf has not"
    return None


def check_entries(side: Side, site: Site, calls: VariantSite) -> None:
    """Stop where an entry of a side cannot be had here.

    Args:
        side: which.
        site: where it runs.
        calls: collectives, type and operation of the calls; the rest is the site's.

    Raises:
        MachineError: one cannot; the sentence says why, and who has it.
    """
    for spec, parameter in side.entries:
        why = availability.why_absent(spec, describe_site(site, calls, parameter))
        if why is not None:
            raise MachineError(why, where=side.name, hint="rccltune compare --list shows the rest.")


def describe_site(site: Site, calls: VariantSite, parameter: str | None = None) -> VariantSite:
    """Describe a site as the catalog asks about it."""
    return VariantSite(
        library=site.library,
        is_rcclx=site.is_rcclx,
        arch=site.fingerprint.arch,
        cu_count=site.fingerprint.cu_count,
        n_nodes=site.scale.n_nodes,
        n_ranks=site.scale.n_ranks,
        collectives=calls.collectives,
        dtype=calls.dtype,
        op=calls.op,
        registered=False,
        parameter=parameter,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogRow:
    """An entry as ``--list`` shows it.

    Attributes:
        why_not: why it cannot be compared here; None where nothing known speaks against it.
        sets: its variables.
        bound: up to which size its path takes calls by default, in words.
    """

    name: str
    summary: str
    sets: str
    needs: str
    bound: str
    why_not: str | None


def list_sides(known: Catalog, site: Site | None) -> Iterator[CatalogRow]:
    """The catalog, with what of it exists on a site.

    Args:
        known: the catalog.
        site: None where nothing could be found out.
    """
    for spec in known.specs:
        why = why_not_measured(spec)
        if why is None:
            where = VariantSite() if site is None else describe_site(site, VariantSite())
            why = availability.why_absent(spec, where)
        yield CatalogRow(
            name=SITE if spec.name == _DEFAULT else spec.title,
            summary=spec.summary,
            sets=" ".join(f"{name}={value}" for name, value in spec.environment),
            needs=_needs(spec),
            bound=_bound(spec),
            why_not=why,
        )


def _needs(spec: VariantSpec) -> str:
    needs = spec.needs
    words = [
        " or ".join(needs.arch),
        availability.scale_words(needs) or "",
        "captured graphs" if needs.graph else "",
        ", ".join(str(one) for one in spec.releases),
    ]
    return "; ".join(word for word in words if word)


def _bound(spec: VariantSpec) -> str:
    threshold = spec.threshold
    if threshold is None:
        return ""
    if threshold.default_nbytes is None:
        return threshold.variable
    return f"{threshold.variable}, {format_last(threshold.default_nbytes)} by default"
