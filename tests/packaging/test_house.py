"""What CONTRIBUTING.md says of the house holds: the order of its packages."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path


def modules(repository: Path) -> Iterator[Path]:
    """All of ours."""
    for path in sorted((repository / "rccltune").rglob("*.py")):
        if "_native" not in path.parts:
            yield path


def at_load(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """Imports that run with the module, not those of a function or of a type checker."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rccltune"):
            yield node


def test_no_two_modules_need_each_other(repository: Path) -> None:
    """Whichever is asked for first comes up by itself."""
    paths = {
        ".".join(path.relative_to(repository).with_suffix("").parts): path
        for path in modules(repository)
    }
    needs: dict[str, set[str]] = {}
    for name, path in paths.items():
        wanted = set()
        for node in at_load(ast.parse(path.read_text(encoding="utf-8"))):
            for one in node.names:
                full = f"{node.module}.{one.name}"
                wanted.add(full if full in paths else str(node.module))
        needs[name] = wanted & paths.keys()
    order = list(graphlib.TopologicalSorter(needs).static_order())
    assert len(order) == len(paths)
