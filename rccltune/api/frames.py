"""Rule files as tables, and how a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rccltune.api.arguments import Place
from rccltune.model.rule import which_wait
from rccltune.rules import refusals

if TYPE_CHECKING:
    from pandas import DataFrame

RULES: Final = {
    "file": "str",
    "line": "Int64",
    "collective": "str",
    "n_nodes": "Int64",
    "n_ranks": "Int64",
    "min_nbytes": "int64",
    "max_nbytes": "int64",
    "setting": "str",
    "reg_buff": "Int64",
    "fallback": "bool",
    "reason": "str",
}


def read_rules(rule_file: Place) -> DataFrame:
    """A row for each rule and each stated gap of a rule file, anybody's.

    ``file`` (as given), ``line``, ``collective``, ``n_nodes``, ``n_ranks`` (missing where any will
    do), ``min_nbytes``, ``max_nbytes`` (bytes as a tuner sees them, inclusive), ``setting``
    (missing in a gap), ``reg_buff`` (0: for unregistered buffers alone, 1: for registered ones;
    missing for any), ``fallback``, ``reason`` (of a gap).

    Raises:
        InputFileError: the file cannot be read, or the plugin would refuse it.
    """
    return frame(rule_rows(Path(rule_file), str(rule_file)), RULES)


def rule_rows(path: Path, name: str) -> Iterator[dict[str, Any]]:
    """Rules in file order, then gaps; the column ``file`` says the name."""
    hint = "correct these lines, or let rccltune emit-config write the file again."
    file = refusals.read_accepted(refusals.content_of(path), path, hint)
    for rule, waits in zip(file.rules, which_wait(file.rules), strict=True):
        yield {
            "file": name,
            "line": rule.line,
            "collective": rule.collective.value,
            "n_nodes": rule.n_nodes,
            "n_ranks": rule.n_ranks,
            "min_nbytes": rule.min_nbytes,
            "max_nbytes": rule.max_nbytes,
            "setting": str(rule.setting),
            "reg_buff": rule.reg_buff,
            "fallback": waits,
        }
    for hole in file.holes:
        yield {
            "file": name,
            "collective": hole.collective.value if hole.collective else None,
            "n_nodes": hole.scale.n_nodes if hole.scale else None,
            "n_ranks": hole.scale.n_ranks if hole.scale else None,
            "min_nbytes": hole.min_nbytes,
            "max_nbytes": hole.max_nbytes,
            "fallback": False,
            "reason": hole.reason,
        }


def frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> DataFrame:
    """A table with these columns and their kinds, empty ones too; text keeps what is missing."""
    import pandas as pd

    kinds = {name: "object" if kind == "str" else kind for name, kind in columns.items()}
    table: DataFrame = pd.DataFrame(list(rows), columns=list(columns)).astype(kinds)
    return table
