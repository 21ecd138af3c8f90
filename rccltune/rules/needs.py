"""Variables that a rule file may ask a job to set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Final

from rccltune.model.errors import CommandLineError
from rccltune.model.settings import LL128_FORCED
from rccltune.variants import catalog
from rccltune.variants.spec import Parameter

# What we add to rules ourselves; no catalog need be read for it.
_OURS: Final = frozenset((LL128_FORCED[0],))


@cache
def harmless() -> frozenset[str]:
    """Names that the catalog of variants sets and that load no code and open no file.

    A list of names and not of families: ``HSA_TOOLS_LIB`` loads a library and ``MSCCL_XML_FILES``
    opens files, beside others of their families that do not.
    """
    return frozenset(
        name
        for spec in catalog.load_catalog().specs
        if spec.parameter is not Parameter.DIR and spec.library_file is None
        for name, value in spec.environment
        if not _may_be_path(value)
    )


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable may be set for whoever wrote the rules that need it."""
    return not _may_be_path(value) and (name in _OURS or name in harmless())


def odd_needs(needs: Iterable[tuple[str, str]]) -> str:
    """``NAME=VALUE, …`` of what is not harmless; empty where all is."""
    return listed(sorted({pair for pair in needs if not is_harmless(*pair)}))


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
            f"these rules need {listed(refused)}. Only variables of the shipped catalog are set "
            "unasked; any other may load code or open files",
            where=where,
            hint=f"if you know what it does and who wrote the rules, add {options}.",
        )
    return tuple(dict(odd))


def _may_be_path(value: str) -> bool:
    return "/" in value or value.startswith((".", "~"))


def listed(pairs: Sequence[tuple[str, str]]) -> str:
    """``NAME=VALUE, …``."""
    return ", ".join(f"{name}={value}" for name, value in pairs)
