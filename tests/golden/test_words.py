"""What users read has the field's words, not those of the house."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from rccltune.cli import group, run

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / "rccltune"
WORDS = re.compile(
    r"\b(half-?rows?|doubt(s|ed|ful)?|silent|silence|holes?|arms?|walk(s|ed|ing)?|"
    r"untouched site|stretch(es)?|belie[fv]\w*)\b",
    re.IGNORECASE,
)
# Words of file formats, in strings that say them; and of errors that only a bug shows.
FORMATS = (
    "#@ hole",
    "columns doubt and executed",
    "its column 'doubt'",
    "needs a doubt",
    "a hole is no rule",
    "launch step cycle line collective",
    "format rules end requires library bits needs section hole",
)


def prose(transcript: str) -> list[str]:
    """Lines of a transcript that are neither JSON nor a file."""
    found: list[str] = []
    is_json = is_file = is_result = False
    for line in transcript.splitlines():
        if line.startswith("$ rccltune "):
            is_json, is_file = " --json" in line or " -o -" in line, False
        elif line.startswith("=== "):
            is_file = True
        elif line.startswith("--- "):
            is_result = line == "--- stdout"
        elif not is_file and not (is_json and is_result):
            found.append(line)
    return found


# explain quotes what files of before say.
TRANSCRIPTS = sorted(path for path in HERE.glob("expected/*.txt") if path.stem != "explain")


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_no_transcript_has_a_word_of_the_house(path: Path) -> None:
    """What is said and what is shown, of whole ways through the command line."""
    lines = prose(path.read_text(encoding="utf-8"))
    # Names of files stay.
    lines = [re.sub(r"\bS/\S+", "", line) for line in lines]
    assert [line for line in lines if WORDS.search(line)] == []


def test_no_help_has_a_word_of_the_house(capsys: pytest.CaptureFixture[str]) -> None:
    """Of every command, with every option."""
    run([])
    run(["--help"])
    # Which context it is asked in is nothing to this group.
    for verb in group.list_commands(None):  # type: ignore[arg-type]
        run([verb, "--help-all"])
    text = capsys.readouterr().out
    assert len(text) > 20_000
    assert [line for line in text.splitlines() if WORDS.search(line)] == []


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """All nodes of a module's tree."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def sentences(path: Path) -> list[tuple[int, str]]:
    """Strings of a module that are more than a name, without docstrings of the code."""
    nodes = nodes_of(path)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = (node for node in nodes if isinstance(node, owners))
    docs = {id(node.body[0].value) for node in documented if isinstance(node.body[0], ast.Expr)}
    calls = (node for node in nodes if isinstance(node, ast.Call))
    # What is counted, and the head of a column, is one word that is read.
    read = {
        id(given)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id in {"count", "Column", "table"}
        for given in (*call.args, *(one.value for one in call.keywords))
    }
    return [
        (node.lineno, node.value)
        for node in nodes
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docs
        and (" " in node.value.strip() or id(node) in read)
    ]


# What stands in code, in files, or as the name of a field is spelt as it is there.
NAMED = re.compile(
    r"``[^`]*``|:\w+:`[^`]*`|\S*/\S*|\w+\.(?:csv|json|py)\b|^\s+\*{0,2}\w+(?=:\s)", re.MULTILINE
)


def docstrings(path: Path) -> list[tuple[str, str]]:
    """Of the module and of all that is in it, without names."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (
            getattr(node, "name", "the module"),
            NAMED.sub("", ast.get_docstring(node, clean=False) or ""),
        )
        for node in nodes_of(path)
        if isinstance(node, owners)
    ]


PARTS = sorted({p.relative_to(PACKAGE).parts[0] for p in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("part", PARTS)
def test_no_docstring_has_a_word_of_the_house(part: str) -> None:
    """Whoever reads the code reads the words of the pages; names of classes and fields stay."""
    own = PACKAGE / part
    found = [
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in ([own] if own.is_file() else sorted(own.rglob("*.py")))
        for name, text in docstrings(path)
        if WORDS.search(re.sub(r"\s+", " ", text))
    ]
    assert found == []


def test_no_message_or_figure_has_a_word_of_the_house() -> None:
    """Every sentence that the program can say, on a page and in a figure too."""
    found = [
        (path.relative_to(PACKAGE).as_posix(), line, text)
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in sentences(path)
        if WORDS.search(text) and not any(allowed in text for allowed in FORMATS)
    ]
    assert found == []


PAGES = sorted((PACKAGE.parent / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_no_page_has_a_word_of_the_house(page: Path) -> None:
    """Outside of code, names of files and links' targets."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    assert [line for line in lines if WORDS.search(line)] == []


def test_pages_are_short_enough_to_be_read() -> None:
    """As ``cat README.md docs/*.md | wc -w`` counts; whoever adds a page takes something out."""
    pages = (PACKAGE.parent / "README.md", *PAGES)
    assert sum(len(page.read_text("utf-8").split()) for page in pages) <= 12_000
