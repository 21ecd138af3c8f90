"""Lines of a rule file: wrapped, whole, counted; and a file with some of its rules gone.

RCCL's built-in tuner and the example plugin read at most 255 bytes at a time and take the rest of
a longer line for a line of its own (RCCL 2.28.3+ src/plugin/tuner/csv_tuner.cc, both forms; NCCL
2.30.7 plugins/tuner/example): the tail of a comment could be a rule. The limit counts bytes.

A file of ours says its format first and the number of its rows last, whether they are taken or
not. A file that was cut, or is being written, has not both, and is refused.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rccltune.model import grammar
from rccltune.model.errors import InputFileError, VerificationError
from rccltune.model.rule import LeftToLibrary, Rule

LIMIT: Final = 199
_WIDTH: Final = 110
# What verification says stands on one line: the next one takes it away by the mark in front.
_LONGEST: Final = LIMIT - len("# ")
_REASON: Final = 150
_SHOWN: Final = 60
# The plugin refuses a file with control characters, and programs end lines at the others.
_ODD: Final = frozenset(("Cc", "Zl", "Zp", "Cs"))
_NAME: Final = re.compile(r"[^\s=#]+")


def comment_lines(text: str, width: int = _WIDTH) -> list[str]:
    """Comment lines; never one that begins with '#@', which would be an instruction.

    A first word that ends in a colon says whose lines they are, and begins each of them.
    """
    first = text.partition(" ")[0]
    again = f"{first} " if first.endswith(":") else ""
    wrapped = textwrap.wrap(_plain(text), width, subsequent_indent=again)
    return [f"# {part}" for line in wrapped for part in _parts(line, LIMIT - len("# "))]


def needs_line(name: str, value: str) -> str:
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
    return _check_length(line, f"what the rules need of {_shown(name)}")


def requires_lines(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Lines that require something of a machine, each complete by itself.

    Raises:
        InputFileError: a pair is longer than a line, or has blanks in it.
    """
    pieces: list[str] = []
    for key, value in pairs:
        pair = f"{key}={value}"
        if grammar.words(_plain(pair)) != [pair]:
            raise InputFileError(f"'{_shown(pair)}' cannot be required: it has blanks in it")
        if pieces and _fits(f"{pieces[-1]} {pair}"):
            pieces[-1] += f" {pair}"
        else:
            pieces.append(
                _check_length(f"#@ requires {pair}", f"what is required of {_shown(key)}")
            )
    return pieces


def library_line(release: str) -> str:
    """The line for the library that the rules were measured with.

    Args:
        release: ``NCCL 2.28.9``.
    """
    return f"#@ library {release}"


def bits_line(name: str) -> str:
    """The line that says that a file's rules keep the bits of results."""
    return f"#@ bits {name}"


def hole_line(low: int | str, high: int | str, reason: str) -> str:
    """Sizes that are left to the library; a reason that is too long is cut."""
    head = f"#@ hole {low} {high} "
    short = textwrap.shorten(_plain(reason), _REASON)
    return head + next(iter(_parts(short, max(0, LIMIT - len(head)))), "")


def shorten_line(line: str, number: int) -> list[str]:
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
    return [*comment_lines(after), *([_check_length(fields, what)] if fields else [])]


def _instruction(bare: str, what: str) -> list[str]:
    match grammar.words(bare.removeprefix("#@")):
        case ["requires", *pairs]:
            return requires_lines(
                [(key, value) for key, _, value in (p.partition("=") for p in pairs)]
            )
        case ["hole", low, high, *reason]:
            return [_check_length(hole_line(low, high, " ".join(reason)), what)]
        case _:
            return [_check_length(bare, what)]


def text_of(lines: Sequence[str]) -> str:
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


def _check_length(line: str, what: str) -> str:
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
    """Remove what no text file has, or what some reader takes for the end of a line."""
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


# First words of a file of ours.
_FIRST: Final = "#@ format"


def is_row(line: str) -> bool:
    """Whether a line is a row, right or wrong: neither blank nor a comment."""
    return bool(grammar.trim(line.partition("#")[0]))


def is_frame(line: str) -> bool:
    """Whether a line is the first or the last of a file of ours."""
    words = grammar.instruction(line)
    return words == ["format", "1"] or words[:1] == ["end"]


def is_stump(content: str) -> bool:
    """Whether a file of ours ends inside its first word, or before it."""
    return len(content) < len(_FIRST) and _FIRST.startswith(content)


def add_frame(lines: Iterable[str]) -> list[str]:
    """The lines as a file of ours, between its format and the number of its rows."""
    body = [line for line in lines if not is_frame(line)]
    return ["#@ format 1", *body, f"#@ end {sum(map(is_row, body))}"]


_MIN, _MAX, _REG_BUFF = 1, 2, 9
# A comment directly above a rule whose gain nothing proves.
UNPROVEN_MARK: Final = "UNPROVEN:"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineChange:
    """Change of one line.

    Attributes:
        parts: rules in its place; none where it goes.
        evidence: a comment above them.
        holes: what is left to the library from now on.
        own: comments of each part, above it.
    """

    parts: tuple[Rule, ...]
    evidence: str
    holes: tuple[LeftToLibrary, ...] = ()
    own: tuple[tuple[str, ...], ...] = ()


def rewrite_lines(content: str, changes: Mapping[int, LineChange], header: Sequence[str]) -> str:
    """The text of a file of ours with changed lines, LF at every end.

    What has evidence of its own is unproven no more.

    Args:
        content: as it was read.
        changes: by line, from 1.
        header: comments below the line with the format.

    Raises:
        InputFileError: a line is too long for RCCL's reader and cannot be made shorter.
    """
    new_lines: list[str] = []
    for number, line in enumerate(grammar.lines(content), start=1):
        change = changes.get(number)
        if change is not None and change.evidence and new_lines[-1:] and _is_doubt(new_lines[-1]):
            new_lines.pop()
        new_lines += (
            shorten_line(line, number) if change is None else _change_line(line, number, change)
        )
    return text_of(
        add_frame(
            [*(part for text in header for part in comment_lines(text, _LONGEST)), *new_lines]
        )
    )


def _is_doubt(line: str) -> bool:
    return line.startswith((f"# {UNPROVEN_MARK}", f"# fallback {UNPROVEN_MARK}"))


def _change_line(line: str, number: int, change: LineChange) -> list[str]:
    new_lines = comment_lines(change.evidence, _LONGEST)
    if not change.parts:
        new_lines += comment_lines(f"dropped: {grammar.trim(line)}")
    owns = change.own or ((),) * len(change.parts)
    for part, comments in zip(change.parts, owns, strict=True):
        new_lines += [one for text in comments for one in comment_lines(text)]
        new_lines += _replace_bounds(line, number, part)
    return new_lines + [
        hole_line(one.min_nbytes, one.max_nbytes, one.reason) for one in change.holes
    ]


def _replace_bounds(line: str, number: int, part: Rule) -> list[str]:
    """A row with other bounds and registration; columns of other dialects too it keeps."""
    fields = grammar.trim(line).split(",")
    fields[_MIN], fields[_MAX] = str(part.min_nbytes), str(part.max_nbytes)
    if part.reg_buff is not None:
        fields += ["-1"] * (_REG_BUFF + 1 - len(fields))
        fields[_REG_BUFF] = str(part.reg_buff)
    return shorten_line(",".join(fields), number)


_HEX: Final = re.compile(r"0x([0-9a-fA-F]+)")
_COMPUTES: Final = ("none", "spx", "dpx", "tpx", "qpx", "cpx")
_MEMORY: Final = re.compile(r"(?:NPS|nps)(.+)")
_MOST_NPS: Final = 16
# The plugin keeps them in so many bytes.
_MOST_TEXT: Final = {"arch": 15, "placement": 23, "product": 95}
_RELEASE: Final = re.compile(r"([RN]CCL) ([0-9]+)\.([0-9]+)\.([0-9]+)")
_MOST_NUMBER: Final = 99


def requirement(key: str, value: str) -> str | int | None:
    """Requirement that a pair states; two spellings of one thing are equal.

    Args:
        key: ``arch``, ``device``, ``cus``, ``compute``, ``memory``, ``placement`` or ``product``.
        value: its text, one character a byte.

    Returns:
        None for an unknown key or a value that the plugin refuses.
    """
    value = product_name(value) if key == "product" else value
    if key in _MOST_TEXT:
        return value if 0 < len(value) <= _MOST_TEXT[key] else None
    if key in ("device", "cus"):
        return _whole_number(value)
    if key == "compute":
        return compute(value)
    return memory(value) if key == "memory" else None


def product_name(product: str) -> str:
    """An NVIDIA product in one word, as the plugin makes it of what the driver says.

    So the Kubernetes label nvidia.com/gpu.product has it: ``NVIDIA-H100-80GB-HBM3``. Drivers before
    470 left the vendor out, so it is put in front where it is missing.
    """
    words = grammar.words(product)
    if words and not (words[0] == "NVIDIA" or words[0].startswith("NVIDIA-")):
        words = ["NVIDIA", *words]
    return "-".join(words)


def library_release(words: Sequence[str]) -> str | None:
    """``NCCL 2.28.9`` of the words of a ``#@ library``; None where the plugin refuses them."""
    match = _RELEASE.fullmatch(" ".join(words))
    numbers = [grammar.whole(number) for number in match.groups()[1:]] if match else []
    if match is None or max(numbers) > _MOST_NUMBER:
        return None
    return f"{match[1]} {'.'.join(map(str, numbers))}"


def _whole_number(text: str) -> int | None:
    match = _HEX.fullmatch(text)
    try:
        number = int(match[1], 16) if match else grammar.whole(text)
    except ValueError:
        return None
    return number if 0 < number < 2**32 else None


def compute(text: str) -> str | None:
    """A compute partition in lower case, of ASCII letters in any case."""
    folded = text.lower()
    return folded if text.isascii() and folded in _COMPUTES else None


def memory(text: str) -> int | None:
    """The n of ``nps4`` or ``NPS4``."""
    match = _MEMORY.fullmatch(text)
    try:
        number = grammar.whole(match[1]) if match else 0
    except ValueError:
        return None
    return number if 1 <= number <= _MOST_NPS else None
