"""Which variables a rule file may ask for without being told so on the command line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from rccltune import variants
from rccltune.model import KNOWN_VARIANTS, CommandLineError
from rccltune.variants import Parameter

# What we add to rules ourselves; no catalog need be read for it.
_OURS: Final = frozenset(name for one in KNOWN_VARIANTS.values() for name, _ in one.environment)


@cache
def harmless() -> frozenset[str]:
    """Names that shipped variants set and that load no code and open no file.

    A list of names and not of families: ``HSA_TOOLS_LIB`` loads a library and ``MSCCL_XML_FILES``
    opens files, beside others of their families that do not.
    """
    return frozenset(
        name
        for spec in variants.load_catalog().specs
        if spec.parameter is not Parameter.DIR and spec.library_file is None
        for name, value in spec.environment
        if not _may_be_path(value)
    )


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable may be set for whoever wrote the rules that need it."""
    return not _may_be_path(value) and (name in _OURS or name in harmless())


def named_in(file: Path | None) -> frozenset[str]:
    """What a user's own file of variants sets: naming it on the command line allows that.

    Raises:
        InputFileError: it has mistakes.
    """
    specs = variants.read_catalog(file).specs
    return frozenset(name for spec in specs if spec.own for name, _ in spec.environment)


def check_needs(
    needs: Iterable[tuple[str, str]], allowed: Collection[str], *, where: str
) -> tuple[str, ...]:
    """Stop where rules ask for what may load code or open files.

    Args:
        needs: (name, value) of what a job would get.
        allowed: names that this command line allows.
        where: the rules, for the message.

    Returns:
        The names that needed to be allowed, each once.

    Raises:
        CommandLineError: some are not; all of them are named.
    """
    odd = sorted({(name, value) for name, value in needs if not is_harmless(name, value)})
    refused = [(name, value) for name, value in odd if name not in allowed]
    if refused:
        options = " ".join(f"--allow-need {name}" for name in dict(refused))
        raise CommandLineError(
            f"these rules need {_listed(refused)}. Only variables of the shipped variants are set "
            "unasked; any other may load code or open files",
            where=where,
            hint=f"if you know what it does and who wrote the rules, add {options}.",
        )
    return tuple(dict(odd))


def _may_be_path(value: str) -> bool:
    return "/" in value or value.startswith((".", "~"))


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in pairs)
