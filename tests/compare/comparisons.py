"""What comparisons of these tests measure, and what they leave."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

SIZES = ("--min-bytes", "16K", "--max-bytes", "64K")


def table(folder: str = "c") -> pd.DataFrame:
    """comparison.csv by size."""
    found: pd.DataFrame = pd.read_csv(Path(folder) / "comparison.csv", keep_default_na=False)
    return found.set_index("nbytes")
