"""Every exception from a check says why, where it is made."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# Built apart, so that this file makes no exception itself.
MARKS = (
    "no" + "qa",
    "type: " + "ignore",
    "pragma: " + "no cover",
    "shellcheck " + "disable",
    "NO" + "LINT",
)
# A mark, its codes, and a reason in words behind a dash or a hash.
MARK = re.compile(rf"#\s*(?:{'|'.join(MARKS)})\b")
REASONED = re.compile(r"(?: - |\s#\s|; ).*[A-Za-z]{3}")


def sources(repository: Path) -> Iterator[Path]:
    """What git knows of, in the languages that have such marks."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git here")
    listed = subprocess.run(
        [git, "ls-files", "*.py", "*.c", "*.h", "*.sh", "scripts/*", "examples/*"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is no checkout")
    yield from (repository / name for name in listed.stdout.split())


def test_exceptions_in_the_code_have_a_reason(repository: Path) -> None:
    """Behind the mark, or in a comment on the line above it."""
    bare = []
    for path in sources(repository):
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        for number, line in enumerate(lines, start=1):
            found = MARK.search(line)
            if found is None or REASONED.search(line, found.end()):
                continue
            if not re.match(r"\s*(#|//|/\*) .*[a-z]{3}", lines[number - 2]):
                bare.append(f"{path.relative_to(repository)}:{number}: {line.strip()}")
    assert bare == []
