"""What CONTRIBUTING.md says of the house holds: order, faces, sizes of modules."""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST_LINES = 450
# Copied alone to where rccltune is not installed.
ONE_FILE = "rccltune/gather.py"
# Their own programs, in which other Pythons run, and what imports by module (design, section 3).
FACELESS = ("cli", "deploy", "torchbench", "perf", "workload")


def packages(repository: Path) -> list[Path]:
    """Packages with a face."""
    found = [path.parent for path in sorted((repository / "rccltune").glob("*/__init__.py"))]
    return [path for path in found if path.name not in FACELESS]


def modules(repository: Path) -> Iterator[Path]:
    """All of ours."""
    for path in sorted((repository / "rccltune").rglob("*.py")):
        if "_native" not in path.parts:
            yield path


def offered(package: Path) -> list[tuple[str, str]]:
    """(name, module) of a face's lines."""
    text = (package / "__init__.pyi").read_text(encoding="utf-8")
    return [
        (name, module)
        for module, name in re.findall(r"^from \.(\S+) import (\w+)", text, re.MULTILINE)
    ]


def test_faces_say_what_is_there(repository: Path) -> None:
    """Each line leads to its name, each name stands once, and none is a module's beside it."""
    for package in packages(repository):
        names = [name for name, _ in offered(package)]
        assert len(names) == len(set(names)), package.name
        assert not {name for name in names if (package / f"{name}.py").exists()}, package.name
        assert not {name for name in names if (package / name).is_dir()}, package.name
        face = importlib.import_module(f"rccltune.{package.name}")
        for name, module in offered(package):
            home = importlib.import_module(f"rccltune.{package.name}.{module}")
            assert getattr(face, name) is getattr(home, name)


def test_a_name_that_a_face_has_not_is_an_error() -> None:
    """As of any module, with the package's name."""
    face = importlib.import_module("rccltune.session")
    with pytest.raises(AttributeError, match="attribute"):
        _ = face.x


def test_a_face_costs_no_load() -> None:
    """Importing all of them loads no module behind them, and nothing heavy."""
    program = (
        "import pkgutil, rccltune, importlib, sys\n"
        "found = [m.name for m in pkgutil.iter_modules(rccltune.__path__) if m.ispkg]\n"
        f"for name in set(found) - set({FACELESS!r}):\n"
        "    importlib.import_module(f'rccltune.{name}')\n"
        "loaded = [m for m in sys.modules if m.startswith('rccltune.') and m.count('.') > 1]\n"
        "print(loaded, 'numpy' in sys.modules, 'pydantic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["[]", "False", "False"]


def from_inside(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of what a file takes from modules of packages that have a face."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rccltune."):
            parts = (node.module or "").split(".")
            if len(parts) > 2 and parts[1] not in FACELESS:
                yield from ((".".join(parts[1:]), one.name) for one in node.names)


def test_tests_import_through_faces(repository: Path) -> None:
    """So that the next move breaks none: only names with an underscore come from inner modules."""
    inner = [
        f"{path.relative_to(repository)}: {module}: {name}"
        for path in sorted((repository / "tests").rglob("*.py"))
        for module, name in from_inside(path)
        if not name.startswith("_")
    ]
    assert inner == []


def test_packages_import_each_other_through_faces(repository: Path) -> None:
    """The defaults alone are a module that others name, so that a default shows where it is."""
    inner = [
        f"{path.relative_to(repository)}: {module}: {name}"
        for path in modules(repository)
        for module, name in from_inside(path)
        if module != "model.defaults"
        and module.split(".")[0] != path.relative_to(repository).parts[1]
    ]
    assert inner == []


def test_no_module_is_longer_than_can_be_read(repository: Path) -> None:
    """Nor is one glued together only to be one file fewer."""
    long = {
        str(path.relative_to(repository)): n
        for path in modules(repository)
        if (n := len(path.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    long.pop(ONE_FILE)
    assert long == {}


def at_load(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """Imports that run with the module, not those of a function or of a type checker."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rccltune"):
            yield node


def test_no_two_modules_need_each_other(repository: Path) -> None:
    """Whichever is asked for first comes up by itself."""
    homes = {
        f"rccltune.{package.name}.{name}": f"rccltune.{package.name}.{module}"
        for package in packages(repository)
        for name, module in offered(package)
    }
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
                wanted.add(homes.get(full, full if full in paths else str(node.module)))
        needs[name] = wanted & paths.keys()
    order = list(graphlib.TopologicalSorter(needs).static_order())
    assert len(order) == len(paths)


def test_talk_goes_through_one_object(repository: Path) -> None:
    """A Reporter: no function takes a callback that prints, and no alias names one."""
    callbacks = []
    for path in modules(repository):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(repository)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.arg) and node.arg in ("note", "tell"):
                callbacks.append(where)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                callbacks += [where] * (ast.unparse(node.value) == "Callable[[str], None]")
    assert callbacks == []
