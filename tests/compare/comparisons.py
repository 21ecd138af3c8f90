"""Comparisons on a small simulated node of two GPUs: what they measure, and what they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yamls

from rccltune import plugin
from rccltune.cli import run
from rccltune.model.errors import MachineError

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
SIZES = ("--min-bytes", "16K", "--max-bytes", "64K")


def native_folder() -> Path:
    """The folder of the rank program; skips where this install has none."""
    try:
        folder = plugin.native_folder()
    except MachineError as error:
        pytest.skip(str(error))
    if not (folder / "rccltune-perf").is_file():
        pytest.skip("this install has no rank program")
    return folder


def comparer(folder: Path, patch: pytest.MonkeyPatch) -> Callable[..., int]:
    """A function that compares two sides in ./c, with six starts; it answers the exit code.

    Keys that it is given replace those of the node file.

    Args:
        folder: becomes the working directory.
        patch: undoes that.
    """
    native_folder()
    patch.chdir(folder)
    patch.setenv("COLUMNS", "200")
    raw: dict[str, Any] = yamls.loaded(NODE.read_text(encoding="utf-8"))
    raw["scale"]["ranks"] = 2

    def compared(a: str, b: str, *more: str, **keys: object) -> int:
        Path("node.yaml").write_text(yamls.dumped(raw | keys), encoding="utf-8")
        where = ("--simulate", "node.yaml", "--mode", "spx-nps1", "--starts", "6", "-o", "c")
        return run(["compare", a, b, *where, *more])

    return compared


def table(folder: str = "c") -> pd.DataFrame:
    """comparison.csv by size."""
    found: pd.DataFrame = pd.read_csv(Path(folder) / "comparison.csv", keep_default_na=False)
    return found.set_index("nbytes")
