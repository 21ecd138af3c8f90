"""Lines as a rule file may have them: comments wrapped, instructions whole, none too long.

RCCL's built-in tuner and the example plugin read at most 255 bytes at a time and take the rest of
a longer line for a line of its own (RCCL 2.28.3+ src/plugin/tuner/csv_tuner.cc, both forms; NCCL
2.30.7 plugins/tuner/example): the tail of a comment could be a rule. The limit counts bytes.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

from rccltune import grammar
from rccltune.errors import InputFileError, VerificationError

LIMIT: Final = 199
_WIDTH: Final = 110
_REASON: Final = 120
_SHOWN: Final = 60
# The plugin refuses a file with control characters, and programs end lines at the others.
_ODD: Final = frozenset(("Cc", "Zl", "Zp", "Cs"))
_NAME: Final = re.compile(r"[^\s=#]+")


def comment(text: str, width: int = _WIDTH) -> list[str]:
    """Comment lines; never one that begins with '#@', which would be an instruction."""
    wrapped = textwrap.wrap(_plain(text), width)
    return [f"# {part}" for line in wrapped for part in _parts(line, LIMIT - len("# "))]


def needs(name: str, value: str) -> str:
    """The line for one variable of the environment.

    Raises:
        InputFileError: no line can say it: it is too long, or would be read back as another.
    """
    line = f"#@ needs {name}={value}"
    if not _NAME.fullmatch(name) or _plain(value) != value or grammar.trim(value) != value:
        raise InputFileError(
            f"'{_shown(name)}' cannot be asked for in a rule file: its name or value has letters "
            "that a line cannot hold, or blanks at an end",
            hint="set it yourself where the job starts, and leave it out of what the rules need.",
        )
    return _checked(line, f"what the rules need of {_shown(name)}")


def requires(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """What a machine must be, on as few lines as hold it; every line is complete by itself.

    Raises:
        InputFileError: a pair is longer than a line, or has blanks in it.
    """
    made: list[str] = []
    for key, value in pairs:
        pair = f"{key}={value}"
        if grammar.words(_plain(pair)) != [pair]:
            raise InputFileError(f"'{_shown(pair)}' cannot be required: it has blanks in it")
        if made and _fits(f"{made[-1]} {pair}"):
            made[-1] += f" {pair}"
        else:
            made.append(_checked(f"#@ requires {pair}", f"what is required of {_shown(key)}"))
    return made


def hole(low: int | str, high: int | str, reason: str) -> str:
    """Sizes that are left to the library; a reason that is too long is cut."""
    head = f"#@ hole {low} {high} "
    short = textwrap.shorten(_plain(reason), _REASON)
    return head + next(iter(_parts(short, max(0, LIMIT - len(head)))), "")


def kept(line: str, number: int) -> list[str]:
    """A line of somebody's file as it is, or in shorter ones that say the same.

    Raises:
        InputFileError: it cannot be said in shorter ones.
    """
    line = line.rstrip("\r")
    if _fits(line):
        return [line]
    bare, what = grammar.trim(line), f"line {number}"
    if bare.startswith("#@"):
        return _instruction(bare, what)
    row, _, after = bare.partition("#")
    fields = ",".join(grammar.trim(field) for field in row.split(","))
    return [*comment(after), *([_checked(fields, what)] if fields else [])]


def _instruction(bare: str, what: str) -> list[str]:
    match grammar.words(bare.removeprefix("#@")):
        case ["requires", *pairs]:
            return requires([(key, value) for key, _, value in (p.partition("=") for p in pairs)])
        case ["hole", low, high, *reason]:
            return [_checked(hole(low, high, " ".join(reason)), what)]
        case _:
            return [_checked(bare, what)]


def text(lines: Sequence[str]) -> str:
    """The file's text.

    Raises:
        VerificationError: a line that readers would not take as one; a bug of ours must not
            become a rule file.
    """
    for number, line in enumerate(lines, start=1):
        if not _fits(line) or "\n" in line:
            raise VerificationError(
                f"line {number} is longer than {LIMIT} bytes, and RCCL would cut it: "
                f"{_shown(line)}",
                hint="please report this with the session: it is a bug.",
            )
    return "\n".join(lines) + "\n"


def _fits(line: str) -> bool:
    return len(line.encode("utf-8", "replace")) <= LIMIT


def _checked(line: str, what: str) -> str:
    if _fits(line):
        return line
    raise InputFileError(
        f"{what} is longer than {LIMIT} bytes, and RCCL would take its end for a line of its own: "
        f"{_shown(line)}",
        hint="shorten it; where it is a list of paths, a link with a short name will do.",
    )


def _shown(line: str) -> str:
    return _plain(line) if len(line) <= _SHOWN else f"{_plain(line[:_SHOWN])}…"


def _plain(text: str) -> str:
    """Without what no text file has, or what some reader takes for the end of a line."""
    return "".join(" " if unicodedata.category(c) in _ODD else c for c in text)


def _parts(line: str, most: int) -> list[str]:
    """A line in pieces of so many bytes, none of them cut inside a character."""
    pieces, size = [""], 0
    for letter in line:
        size += len(letter.encode())
        if size > most:
            pieces.append("")
            size = len(letter.encode())
        pieces[-1] += letter
    return pieces if line else []
