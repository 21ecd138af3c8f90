"""A default is written in one place: a second one would some day say something else."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rccltune.model import defaults

# Nothing, once, and no word are no decision that two places could make differently.
NEUTRAL = (0, 1, "", "-", ())
KINDS = (int, float, str, tuple)


def literals(tree: ast.AST) -> Iterator[tuple[str, object]]:
    """Defaults of parameters, fields and options, and of ``get(name, default)``, by name."""
    for node in ast.walk(tree):
        match node:
            case ast.arguments():
                last = [*node.posonlyargs, *node.args][::-1]
                pairs = [*zip(last, node.defaults[::-1], strict=False)]
                pairs += [
                    (a, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True) if d
                ]
                yield from ((argument.arg, value) for argument, value in pairs)
            case ast.ClassDef(body=body):
                yield from fields_of(body)
            case ast.Call(
                func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), value]
            ):
                yield name, value
            case ast.Call(args=[*words], keywords=keywords):
                flags = [w.value for w in words if isinstance(w, ast.Constant)]
                flags = [str(flag).lstrip("-") for flag in flags]
                for one in keywords:
                    if one.arg == "default" and flags:
                        yield max(flags, key=len), one.value


def fields_of(body: list[ast.stmt]) -> Iterator[tuple[str, object]]:
    """Fields of a class; a constant of the class, as its record's format, is no default."""
    for line in body:
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and not ast.unparse(line.annotation).startswith("ClassVar")
        ):
            yield line.target.id, line.value


def value_of(node: object) -> object:
    """A number, a text or several as it is written, ``1 << 20`` too; None for all else."""
    if not isinstance(node, ast.expr):
        return None
    try:
        found = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})  # noqa: S307 - our own sources, and no name is known in there
    except Exception:  # noqa: BLE001 - it has a name in it, so it is no literal
        return None
    return None if isinstance(found, bool) or not isinstance(found, KINDS) else found


def written(package: Path) -> dict[tuple[str, object], list[str]]:
    """Where each default that decides something stands, by its name and value."""
    found = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for name, node in literals(ast.parse(path.read_text(encoding="utf-8"))):
            value = value_of(node)
            if value is not None and value not in NEUTRAL:
                word = name.replace("-", "_").removeprefix("n_")
                found[word, value].append(f"{path.relative_to(package.parent)}:{node.lineno}")
    return found


@pytest.fixture(scope="module")
def places(repository: Path) -> dict[tuple[str, object], list[str]]:
    """Of the package as it is."""
    return written(repository / "rccltune")


def test_no_default_stands_in_two_places(places: dict[tuple[str, object], list[str]]) -> None:
    """The same name has the same value by reference, not by luck."""
    assert {key: where for key, where in places.items() if len(where) > 1} == {}


def test_shared_defaults_are_taken_from_where_they_stand(
    places: dict[tuple[str, object], list[str]],
) -> None:
    """What is in rccltune.model.defaults is written as a number nowhere else under its name."""
    shared = {name.lower().removesuffix("_s") for name in vars(defaults) if name.isupper()}
    assert len(shared) > 10
    assert {key: where for key, where in places.items() if key[0] in shared} == {}


def test_a_second_default_is_found(tmp_path: Path) -> None:
    """In a field, a parameter, an option, and where a key is looked up."""
    package = tmp_path / "rccltune"
    package.mkdir()
    (package / "a.py").write_text("class A:\n    repeats: int = 3\n\ndef f(n, *, repeats=3): ...\n")
    (package / "b.py").write_text(
        "option('-r', '--repeats', default=3)\nx = said.get('repeats', 3)\ndef g(size=1 << 3): ...\n"
    )
    assert written(package) == {
        ("repeats", 3): [
            *("rccltune/a.py:2", "rccltune/a.py:4"),
            *("rccltune/b.py:1", "rccltune/b.py:2"),
        ],
        ("size", 8): ["rccltune/b.py:3"],
    }
