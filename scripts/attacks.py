"""Hostile values put into files, verbs let loose on them, and what may never come of it."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from injections import CANARY, Target

from rccltune.cli import run
from rccltune.model import grammar

# Exit codes that say what is wrong with an input; 0 where it does no harm.
EXPECTED: Final = frozenset((0, 2, 3, 6, 7, 8, 9))
_IMPORT: Final = (
    ("import", "session/{}", "-o", "out/s", "--baseline"),
    ("fit", "out/s"),
    ("emit-config", "out/s", "-o", "out/rules.csv", "--format", "all", "--force"),
    ("report", "out/s", "-o", "out/page.html", "--force"),
)
_PLAN: Final = ("--launcher", "none", "--collective", "all_reduce", "--plan", "-o", "out/s")
_OF_INPUT: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "table.log": _IMPORT,
    "table.csv": _IMPORT,
    "results.json": _IMPORT,
    "record.csv": (
        ("workload", "show", "session/{}"),
        ("sweep", "--simulate", "mi300x-spx-nps1", "--workload", "session/{}", *_PLAN),
    ),
    "rules.csv": (("explain", "session/{}"), ("explain", "session/{}", "--json")),
    "node.yaml": (("sweep", "--simulate", "session/{}", *_PLAN),),
    "sweep.yaml": (("sweep", "-c", "session/{}", *_PLAN),),
    "variants.yaml": (
        ("variants", "--variants", "session/{}"),
        (
            "sweep",
            "--simulate",
            "mi300x-spx-nps1",
            "--variants",
            "session/{}",
            "--variant",
            "mine",
            *_PLAN,
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What should not have happened."""

    target: str
    value: str
    verb: str
    what: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.target} = {self.value}: {self.verb}: {self.what}"


def verbs_of(target: Target) -> tuple[tuple[str, ...], ...]:
    """What reads an input."""
    return tuple(
        tuple(word.format(target.file) for word in words) for words in _OF_INPUT[target.file]
    )


def verbs(rules: str) -> tuple[tuple[str, ...], ...]:
    """Everything that reads a session and writes something."""
    return (
        ("fit", "session"),
        ("emit-config", "session", "-o", "out/rules.csv", "--format", "all", "--force"),
        ("explain", f"session/{rules}"),
        ("why", "session/launches"),
        ("deploy", "session", "out/site"),
        ("report", "session", "-o", "out/page.html", "--force"),
        ("plot", "session", "-o", "out/figures", "--format", "svg"),
        ("verify", "session", "--rules", f"session/{rules}", "-o", "out/verified.csv"),
    )


def attack(
    session: Path,
    folder: Path,
    target: Target,
    value: tuple[str, bytes],
    chosen: Sequence[tuple[str, ...]],
) -> Iterator[Finding]:
    """Put one value into a copy of the session and let verbs loose on it.

    Args:
        session: the sound one.
        folder: to work in; emptied first.
        target: where.
        value: in words and as the file's bytes.
        chosen: command lines, with the copy as ``session`` and ``out`` to write into.
    """
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "work"
    shutil.copytree(session, work / "session")
    (work / "out").mkdir()
    (work / "session" / target.file).write_bytes(value[1])
    before = {path for path in folder.rglob("*") if not _is_written(path, work)}
    for words in chosen:
        code, said = _run(words, work)
        for what in (*_told(code, said), *_outside(folder, work, before)):
            yield Finding(target=str(target), value=value[0], verb=words[0], what=what)
    for what in written(work):
        yield Finding(target=str(target), value=value[0], verb="written", what=what)


def _is_written(path: Path, work: Path) -> bool:
    """Where verbs may write: the session's derived files, and what they were told."""
    return path.is_relative_to(work / "out") or path.is_relative_to(work / "session")


def _run(words: Sequence[str], work: Path) -> tuple[int, str]:
    here = Path.cwd()
    out, err = io.StringIO(), io.StringIO()
    os.chdir(work)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*words])
    finally:
        os.chdir(here)
    return code, out.getvalue() + err.getvalue()


def _told(code: int, said: str) -> Iterator[str]:
    if code not in EXPECTED:
        yield f"exit {code}: {said.strip()[-300:]!r}"
    odd = sorted({letter for letter in said if letter != "\n" and _is_odd(letter)})
    if odd:
        yield f"the terminal is sent {odd!r}"


def _is_odd(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in "\u202e\u2066"


def _outside(folder: Path, work: Path, before: set[Path]) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path not in before and not _is_written(path, work):
            yield f"{path.relative_to(folder)} was written"


def written(work: Path) -> Iterator[str]:
    """What is wrong with the files that were written."""
    for path in sorted((work / "out").rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        match path.suffix:
            case ".csv" | ".ncclx":
                # What deploy hands over it hands over byte for byte.
                yield from _rules(path.name, text, ours=path.parent.name == "out")
            case ".env" | ".sh":
                yield from _shell(path, text)
            case ".svg" if re.search(r"<script|\son\w+=", text):
                yield f"{path.name}: a figure that runs something"
            case ".html":
                yield from _page(text)
            case _:
                pass
        if path.name == "rccltune" and path.parent.name == "modulefiles":
            yield from _tcl(path)


def _rules(name: str, text: str, *, ours: bool) -> Iterator[str]:
    for line in grammar.lines(text):
        bare = line.strip()
        if not bare.startswith("#") and "123456789" in bare:
            yield f"{name}: a row that nobody chose: {bare[:80]!r}"
        if grammar.instruction(line)[:1] == ["needs"] and "LD_PRELOAD" in line:
            yield f"{name}: {bare[:80]!r}"
        if (ours and any(_is_odd(letter) for letter in line)) or (
            ours and len(line.encode()) > 199
        ):
            yield f"{name}: a line with control characters, or too long: {bare[:80]!r}"


def _shell(path: Path, text: str) -> Iterator[str]:
    if re.search(r"^\s*export LD_PRELOAD", text, re.MULTILINE):
        yield f"{path.name}: it exports LD_PRELOAD"
    words = ["bash", "-c", f'. ./"{path.name}" >/dev/null 2>&1; true']
    if path.name.endswith((".env", "env.sh")):
        subprocess.run(words, cwd=path.parent, check=False, timeout=60)
    yield from _canary(path)


def _tcl(path: Path) -> Iterator[str]:
    program = shutil.which("tclsh")
    if program:
        text = path.read_text(encoding="utf-8")
        made = f"proc unknown args {{}}\nset ModulesCurrentModulefile {path}\n{text}"
        subprocess.run(
            [program],
            input=made.encode(),
            cwd=path.parent,
            check=False,
            timeout=60,
            capture_output=True,
        )
    yield from _canary(path)


def _canary(path: Path) -> Iterator[str]:
    mark = path.parent / CANARY
    if mark.exists():
        mark.unlink()
        yield f"{path.name}: what a name said was run"


def _page(text: str) -> Iterator[str]:
    import html5lib

    tree = html5lib.parse(text, namespaceHTMLElements=False)
    for element in tree.iter():
        if element.tag == "script" and "alert(1)" in (element.text or ""):
            yield "the page has a script of somebody's"
        if any(str(name).startswith("on") for name in element.attrib):
            yield f"the page has a handler on {element.tag}"
