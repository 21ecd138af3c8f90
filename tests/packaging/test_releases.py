"""A release's behaviour is decided by one table, and all others ask that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from wording import lacks

from rccltune.overwritten import KEEPING_PROTOCOLS
from rccltune.releases import (
    CHOOSING_FREELY,
    LOADING_OURS,
    READING_RULES,
    RELEASES,
    Release,
    hosts_of,
    release_in,
    release_of,
    sets_memory_at_once,
    spoils_replays,
)

ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


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


def comparing(tree: ast.Module) -> Iterator[str]:
    """Versions like ``(2, 28, 3)`` that something is held against, by name or as written."""
    bound = constants(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not any(isinstance(o, ORDER) for o in node.ops):
            continue
        for one in (node.left, *node.comparators):
            meant = bound.get(one.id) if isinstance(one, ast.Name) else one
            if isinstance(meant, ast.Tuple) and meant.elts:
                values = [v.value for v in meant.elts if isinstance(v, ast.Constant)]
                if len(values) == len(meant.elts) and all(type(v) is int for v in values):
                    yield ast.unparse(one)


def test_no_other_file_compares_versions(repository: Path) -> None:
    """What a release does is asked of ``rccltune.releases``."""
    package = repository / "rccltune"
    found = {
        (str(path.relative_to(package)), what)
        for path in package.rglob("*.py")
        if path != package / "releases.py"
        for what in comparing(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize("one", RELEASES, ids=lambda one: f"{one.version} {one.rocm}")
def test_a_release_is_found_by_its_number(one: Release) -> None:
    """As libraries print it; where two ROCm brought one number, the build's name tells them."""
    found = release_of(one.version + (f"+hip{one.rocm[0]}" if one.rocm else "+cuda12.4"))
    assert found is one
    assert one.rocm is None or release_in(f"{one.rocm[1]}.1") is one


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
    assert CHOOSING_FREELY == "RCCL 2.22.3 (ROCm 6.4) or NCCL 2.22"


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


@pytest.mark.parametrize(
    ("rocm", "spoils"),
    [
        # ROCm/clr issue 279: "ROCm 7.2.0-7.2.3"; "works on clr 7.1.1 / ROCm 7.0 / ROCm 7.13".
        ("7.0.2-56", False),
        ("7.1.1-38", False),
        ("7.2.0-81", True),
        ("7.2", True),
        ("7.2.3-21", True),
        ("7.2.4-8", False),
        ("7.13.0", False),
        (None, False),
    ],
)
def test_which_rocm_spoils_replays_of_graphs(rocm: str | None, spoils: bool) -> None:
    """By the file that names ROCm's release."""
    assert spoils_replays(rocm) is spoils


@pytest.mark.parametrize(
    ("rocm", "at_once"),
    [
        # rocm-systems 0da2091b projects/amdsmi/docs/conceptual/partition.md, "Operational requirements".
        ("6.0.2-115", True),
        ("6.4.4-129", True),
        ("7.0.0-38", False),
        ("10.0.0", False),
        (None, False),
    ],
)
def test_which_rocm_reloads_the_driver_for_a_memory_mode(rocm: str | None, at_once: bool) -> None:
    """The two-step workflow "was introduced in ROCm 7.0"."""
    assert sets_memory_at_once(rocm) is at_once
