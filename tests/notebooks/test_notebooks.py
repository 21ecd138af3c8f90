"""Notebooks run from top to bottom, and are committed with what that gives."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
MIB: Final = 1 << 20
Names = dict[str, Any]
Cell = dict[str, Any]


def cells(path: Path) -> list[Cell]:
    """The code cells of a notebook."""
    loaded = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in loaded if cell["cell_type"] == "code"]


def texts(cell: Cell) -> Iterator[str]:
    """What a cell printed, and the last value of it, as committed."""
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            yield "".join(output["text"])
        elif output["output_type"] == "execute_result":
            yield "".join(output["data"]["text/plain"])


def _words(lines: Iterable[str]) -> list[str]:
    """Columns are laid out, and broken off, by what is the widest: no matter."""
    return [word for word in " ".join(lines).split() if word != "\\"]


def run(cell: Cell, names: Names) -> str | None:
    """Run a cell; the last value as text, None where a cell ends in no value."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own notebook
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - our own notebook
    return None if value is None else repr(value)


def from_table_to_rules(names: Names) -> None:
    """AMD's table: ring/ll at 32 B, tree/ll128 at 1 MiB; the published rules lose 56 % at 4 MiB."""
    best = names["best"]
    assert (best[32], best[MIB], best[128 * MIB]) == ("ring/ll", "tree/ll128", "ring/simple")
    loss = names["loss"]
    assert loss["ours"].max() < 0.02
    assert loss["published"][4 * MIB] == pytest.approx(652 / 418 - 1)
    order = dict.fromkeys(names["zones"]["setting"])
    assert list(order) == ["-", "ring/ll", "tree/ll", "tree/ll128"]
    # The plugin answers what the zones say.
    answers = names["answers"]["answer"].replace("the library's own", "-")
    assert list(answers) == list(names["zones"]["setting"])


def own_session(names: Names) -> None:
    """Three launches of each of the 17 sizes; what the text says of their spread; four rules."""
    assert set(names["ends"]["count"]) == {3}
    half, most, last = names["spread"].quantile([0.5, 0.9, 0.99])
    assert half < 0.011
    assert most < 0.05
    assert last > 1
    rules = dict(zip(names["chosen"]["collective"], names["chosen"]["setting"], strict=True))
    others = dict.fromkeys(("broadcast", "all_gather", "reduce_scatter"), "ring/ll128")
    assert rules == others | {"reduce": "ring/ll"}
    assert "not faster" in set(names["reasons"])


def workload(names: Names) -> None:
    """Nearly all of the loop's bytes are of all_reduce of 2 MiB."""
    first = names["calls"].iloc[0]
    assert (first["collective"], first["size"]) == ("all_reduce", "2 MiB")
    assert first["of bytes"] > 0.98


CHECKS: Final[dict[str, Callable[[Names], None]]] = {
    "01-cpx-table-to-rules": from_table_to_rules,
    "02-a-session-of-our-own": own_session,
    "03-a-jobs-workload": workload,
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_outputs_are_of_one_run(path: Path) -> None:
    """From the first cell to the last, without an error, and with a figure among them."""
    found = cells(path)
    assert [cell["execution_count"] for cell in found] == list(range(1, len(found) + 1))
    outputs = [output for cell in found for output in cell["outputs"]]
    assert not [one for one in outputs if one["output_type"] == "error"]
    assert any("image/png" in one.get("data", {}) for one in outputs)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_text_says_how_often_everything_is_measured(path: Path) -> None:
    """Once, and again what may win; in how many communicators the sweep's plan says."""
    loaded = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = " ".join("".join(cell["source"]) for cell in loaded if cell["cell_type"] == "markdown")
    assert "measures everything" not in " ".join(text.split())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_only_the_api_is_used(path: Path) -> None:
    """What may change its name is no example for anybody."""
    trees = [ast.parse("".join(cell["source"])) for cell in cells(path)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    modules |= {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    ours = {name for name in modules if name and name.partition(".")[0] == "rccltune"}
    assert ours <= {"rccltune", "rccltune.api"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_every_cell_gives_what_is_committed(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In order, in one namespace, beside the examples; and it is what the text says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(path.parents[1] / "examples")
    names: Names = {}
    # As in a notebook, whatever terminal runs this.
    wide = ("display.width", 80, "display.max_columns", 20, "display.max_rows", 60)
    with mpl.rc_context({"backend": "agg"}), pd.option_context(*wide):
        for cell in cells(path):
            value = run(cell, names)
            found = [capsys.readouterr().out, value or ""]
            assert _words(found) == _words(texts(cell))
        plt.close("all")
    CHECKS[path.stem](names)
