"""How tables are made, and how their sizes are written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rccltune.model import format_size

if TYPE_CHECKING:
    from pandas import DataFrame


__all__ = ["format_size", "frame"]


def frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> DataFrame:
    """A table with these columns and their kinds, empty ones too; text keeps what is missing."""
    import pandas as pd

    kinds = {name: "object" if kind == "str" else kind for name, kind in columns.items()}
    made: DataFrame = pd.DataFrame(list(rows), columns=list(columns)).astype(kinds)
    return made
