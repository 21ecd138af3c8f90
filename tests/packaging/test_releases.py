"""A release's behaviour is decided by one table, and all others ask that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from wording import lacks

from rccltune.releases import (
    CHOOSING_FREELY,
    KEEPING_PROTOCOLS,
    LOADING_OURS,
    READING_RULES,
    RELEASES,
    TELLING_CHOICES,
    LibraryVendor,
    Release,
    hosts_of,
    overwriting,
    release_in,
    release_of,
)

# Of the kernel and of its driver, which are no library; glibc's is the plugin's own need.
OTHERS = {
    ("machine/checks/gpu.py", "_MIN_DRIVER"),
    ("machine/checks/gpu.py", "_MIN_KERNEL"),
}
ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# Two or three parts of a number, each picked by itself behind the name of a library.
NAMED = re.compile(r"^(?:R?N?CCL )?2\.[123]\d\b")
PICKS = re.compile(r"(?:CCL|ROCm|rocm|hip)\W.*\\d.*\)\\\.\(\\d")


def is_version(node: ast.expr, bound: dict[str, ast.expr]) -> bool:
    """Whether an operand is numbers like ``(2, 28, 3)``, written here or a few lines above."""
    if isinstance(node, ast.Name):
        return node.id in bound and is_version(bound[node.id], {})
    values = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
    return isinstance(node, ast.Tuple) and len(values) > 1 and all(type(v) is int for v in values)


def names_one(node: ast.expr) -> bool:
    """Whether a release stands in it: ``(2, 28, 3)``, ``2.28.3``, ``RCCL 2.26.``."""
    texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    named = any(isinstance(text, str) and NAMED.search(text) for text in texts)
    pairs = (one for one in ast.walk(node) if isinstance(one, ast.Tuple) and is_version(one, {}))
    return named or any(ast.unparse(one.elts[0]) == "2" for one in pairs)


def version_tables(node: ast.expr) -> bool:
    """Whether a constant holds versions with what they mean: ``(((2, 30), 6), …)``."""
    inner = [one for one in ast.walk(node) if one is not node and isinstance(one, ast.Tuple)]
    return any(
        is_version(one, {}) and isinstance(one.elts[0], ast.Constant) and one.elts[0].value == 2
        for one in inner
        if len(one.elts) in (2, 3)
    )


def constants(tree: ast.Module) -> dict[str, ast.expr]:
    """A module's own names and what they are bound to."""
    bound: dict[str, ast.expr] = {}
    for line in tree.body:
        match line:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                bound[name] = value
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                bound[name] = value
    return bound


def held_against(node: ast.Compare, bound: dict[str, ast.expr]) -> Iterator[str]:
    """What of a comparison is a version."""
    operands = (node.left, *node.comparators)
    if any(isinstance(op, ORDER) for op in node.ops):
        yield from (ast.unparse(one) for one in operands if is_version(one, bound))
    elif any(names_one(one) for one in operands):
        yield ast.unparse(node)


def comparing(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that hold a version against another, with the name of what they hold it against."""
    bound = constants(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                yield from ((node.lineno, what) for what in held_against(node, bound))
            case ast.Call(func=ast.Attribute(attr="startswith"), args=[prefix]) if names_one(
                prefix
            ):
                yield node.lineno, ast.unparse(node)
            case ast.Constant(value=str(text)) if PICKS.search(text):
                yield node.lineno, text
            case ast.Constant(value=bytes(text)) if PICKS.search(text.decode("latin-1")):
                yield node.lineno, repr(text)
    yield from ((v.lineno, name) for name, v in bound.items() if version_tables(v))


@pytest.mark.parametrize(
    "source",
    [
        "x < (2, 21)",
        "_FIRST: Final = (2, 30)\nx = release[1] >= _FIRST",
        "_SINCE = (((2, 30), 6), ((2, 28), 5))",
        "x == (2, 28, 3)",
        "x in ((2, 28), (2, 30))",
        "name == '2.28.3'",
        "name.startswith('RCCL 2.26.')",
        "match = re.match(r'NCCL (\\d+)\\.(\\d+)', x)",
        "pattern = rb'RCCL (\\d+)\\.(\\d+)\\.(\\d+)'",
    ],
)
def test_a_comparison_is_seen(source: str) -> None:
    """Each way in which the table was gone around before there was one."""
    assert [*comparing(ast.parse(source))]


def test_no_other_file_compares_versions(repository: Path) -> None:
    """What a release does is asked of ``rccltune.releases``."""
    package = repository / "rccltune"
    found = {
        (str(path.relative_to(package)), what)
        for path in package.rglob("*.py")
        if path != package / "releases.py"
        for _, what in comparing(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == OTHERS


# Of drivers, firmware and other programs, or examples of how a release is written.
SENTENCES = {
    "machine/checks/software.py": 1,
    "machine/checks/gpu.py": 3,
    "simulate/modelled.py": 1,
    "variants/records.py": 1,
}
SAID = re.compile(r"\b2\.(?:1[5-9]|2\d|3\d)(?:\.\d+)?\b|ROCm \d")


def sentences(tree: ast.Module) -> Iterator[str]:
    """Texts of a module that are no documentation of it."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield node.value


def test_no_sentence_names_a_release_by_hand(repository: Path) -> None:
    """What a message says of the first release that can do something, the table says."""
    package = repository / "rccltune"
    found = {
        str(path.relative_to(package)): n
        for path in package.rglob("*.py")
        if path != package / "releases.py"
        and (
            n := sum(
                SAID.search(text) is not None
                for text in sentences(ast.parse(path.read_text(encoding="utf-8")))
            )
        )
    }
    assert found == SENTENCES


@pytest.mark.parametrize("one", RELEASES, ids=lambda one: f"{one.version} {one.rocm}")
def test_a_release_is_found_by_its_number(one: Release) -> None:
    """As libraries print it; where two ROCm brought one number, the build's name tells them."""
    found = release_of(one.version + (f"+hip{one.rocm[0]}" if one.rocm else "+cuda12.4"))
    assert found is one
    assert one.rocm is None or release_in(f"{one.rocm[1]}.1") is one


def test_lines_stand_in_order() -> None:
    """Each line holds until the next."""
    for family in (LibraryVendor.RCCL, LibraryVendor.NCCL):
        lines = [one for one in RELEASES if one.family is family]
        assert all(one.first <= other.first for one, other in pairwise(lines))
        assert all(one.abi <= other.abi for one, other in pairwise(lines))


@pytest.mark.parametrize(
    ("library", "abis"),
    [
        ("RCCL 2.17.1", ()),
        ("RCCL 2.18.3", (1,)),
        ("RCCL 2.20.5+hip6.2", (1,)),
        ("RCCL 2.21.5-HEAD:0cbce2a", (2,)),
        # A build between 2.22.3 and 2.26.6, NCCL's 2.24 in it or not: what is sure.
        ("RCCL 2.24.3-develop:abc", (3, 2)),
        ("RCCL 2.28.3", (5, 4, 3, 2)),
        ("NCCL 2.18.5", ()),
        ("NCCL 2.19.3", (1,)),
        ("NCCL 2.32.5", (6, 5, 4, 3, 2)),
        ("NCCL 2.32.6", (7, 6, 5, 4, 3, 2)),
        ("gloo 2.28.3", None),
        (None, None),
    ],
)
def test_interfaces_that_a_release_looks_up(
    library: str | None, abis: tuple[int, ...] | None
) -> None:
    """After the symbols that each release's source names (facts, §1)."""
    found = release_of(library)
    assert (found.interfaces if found else None) == abis


def test_what_is_said_of_releases_comes_from_the_table() -> None:
    """As the documents have it."""
    assert hosts_of(2) == "ROCm 6.3, NCCL 2.21"
    assert hosts_of(3) == "ROCm 6.4, NCCL 2.22-2.23"
    assert LOADING_OURS == "RCCL 2.21.5 (ROCm 6.3) or NCCL 2.21"
    assert lacks(READING_RULES, "RCCL", "ROCm", "7.13") == []
    assert KEEPING_PROTOCOLS == "RCCL 2.28.3 (ROCm 7.11)"
    assert TELLING_CHOICES == "RCCL 2.20.5 (ROCm 6.2) or NCCL 2.20.3"
    assert CHOOSING_FREELY == "RCCL 2.22.3 (ROCm 6.4) or NCCL 2.22"
    assert overwriting() == "RCCL 2.26.6 and 2.27.7 (ROCm 7.0 and 7.1)"


@pytest.mark.parametrize(
    ("rocm", "number"),
    [
        ("5.0.1", "2.15.5"),
        ("6.2.4", "2.20.5"),
        ("6.3.0-39", "2.21.5"),
        ("7.0", "2.26.6"),
        ("7.9", "2.27.7"),
        ("10.0.0", "2.30.4"),
        ("11.2", "2.30.7"),
    ],
)
def test_a_rocm_brings_a_release(rocm: str, number: str) -> None:
    """One that is not listed has what the one before it had."""
    found = release_in(rocm)
    assert found is not None
    assert found.number == number


def test_no_rocm_brings_nothing() -> None:
    """Where nothing is said nothing is known."""
    assert release_in(None) is release_in("unknown") is None
