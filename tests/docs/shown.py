"""Commands that the documents show: the shell lines of their code blocks, page by page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from helps import COMMANDS, part_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

# What begins a line that is meant to be typed. Everything else in a block is output or a file.
TYPED = {
    *(
        "rccltune",
        "export",
        "unset",
        "eval",
        ".",
        "source",
        "cd",
        "cp",
        "cat",
        "ls",
        "rm",
        "tar",
        "git",
    ),
    # A subshell, on lines of its own.
    *("(", ")"),
    *("srun", "sbatch", "salloc", "scontrol", "cmake", "python3", "torchrun", "./TransferBench"),
}
_TYPED_PATH = re.compile(r'(?:scripts|\.venv/bin)/\S+|"\$.*')
_END = re.compile(r"[;&|()<>]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A line of a code block that a reader would type."""

    page: Path
    number: int
    text: str

    def __str__(self) -> str:
        """``docs/measuring.md:4: rccltune sweep …``."""
        return f"{self.page.relative_to(ROOT)}:{self.number}: {self.text}"


def blocks(page: Path) -> Iterator[tuple[int, str]]:
    """Lines of a page's code blocks, fenced or indented by four, with their numbers."""
    fenced = inside = False
    before = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        # An indented block begins behind a blank line only; else it is a paragraph that goes on.
        inside = line.startswith("    ") and (inside or not before.strip())
        if line.startswith("```"):
            fenced = not fenced
        elif fenced or inside:
            yield number, line.strip()
        before = line


def commands(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Those of numbered lines that are commands, without the comment behind them."""
    begun = ""
    for number, line in lines:
        text = begun + re.sub(r"\s+#\s.*$", "", line.removeprefix("$ "))
        begun = text[:-1] if text.endswith("\\") else ""
        if begun:
            continue
        head = text.split(maxsplit=1)[0] if text else ""
        if head in TYPED or _TYPED_PATH.match(text):
            yield number, text


def typed(page: Path) -> list[Shown]:
    """Every command of the page's blocks."""
    return [Shown(page=page, number=number, text=text) for number, text in commands(blocks(page))]


def examples(name: str) -> list[str]:
    """Commands of the example in a command's help: ``rccltune fit``."""
    _, *example = part_of(COMMANDS[name], "Example").splitlines()
    return [text for _, text in commands(enumerate(line.strip() for line in example))]


def ours(text: str) -> list[list[str]]:
    """The arguments of every rccltune in a shell line: behind ; && | and in $( ) as well."""
    lexer = shlex.shlex(text.replace("$(", " ( ").replace('"', " "), punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = []
    begins, reads = True, False
    for word in lexer:
        if _END.fullmatch(word):
            begins, reads = True, False
        elif begins and word == "rccltune":
            found.append([])
            begins, reads = False, True
        elif reads:
            found[-1].append(word)
        else:
            # NAME=value stands before a command and is none.
            begins = begins and ("=" in word or word == "export")
    return found


def quoted(page: Path) -> list[Shown]:
    """Commands in running text: whole code spans that begin with rccltune and an argument."""
    found = []
    in_block = {number for number, _ in blocks(page)}
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if number not in in_block:
            spans = re.findall(r"`(rccltune [^`]+)`", line)
            found += [Shown(page=page, number=number, text=span) for span in spans]
    return found
