"""What launchers, containers and loggers put around a benchmark's lines, taken off again.

Each has one fixed form, which a whole file has; :data:`FORMS` lists them. A form is taken where
it leaves lines that are known: a benchmark's rows and comments, or messages of the library and of
our plugin. Colours and carriage returns go from every line; UTF-16 is decoded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final

from rccltune.model.vocabulary import DTYPE_BYTES

_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)? ?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} \d\d:\d\d:\d\d"
# Name, what stands before a line, and an example from the program's documents or a public log.
FORMS: Final = (
    ("CRI, as kubelet writes", rf"{_ISO} std(?:out|err) [FP] ", "2026-04-29T10:11:12.1Z stdout F "),
    ("kubectl --prefix, stern", r"\[pod/[\w./-]+\] ", "[pod/nccl-0/worker] "),
    ("mpirun --tag-output", r"\[(?:[\w.-]+@)?\d+,\d+\] ?<std(?:out|err)>: ?", "[1,0]<stdout>:"),
    ("mpiexec -prepend-rank, -l", r"\[\d+\] (?!NCCL )", "[0] "),
    ("srun --label", r" *\d+: ", " 0: "),
    ("torchrun, loggers with a name", r"\[[A-Za-z][\w-]*\]: ?", "[default0]:"),
    ("Ray, SkyPilot", r"\(\w[^()]{0,80}\) ", "(Worker pid=3808, ip=10.0.0.1) "),
    ("docker compose", r"[\w.-]+ +\| ", "web-1  | "),
    ("journald, syslog", rf"{_MONTH} [\w.-]+ [\w./@-]+(?:\[\d+\])?: ", "Jan 31 12:00:01 n a[12]: "),
    ("ts", rf"{_MONTH} ", "Jan 31 12:00:01 "),
    ("kubectl --timestamps, docker -t", rf"\[?{_ISO}\]? ", "2026-04-29T10:11:12.000000000Z "),
    ("time of day", r"\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]? ", "10:11:12.123 "),
    ("dmesg, UCX", r"\[ *\d+\.\d+\] ", "[  12.345678] "),
    ("cat -n", r" *\d+\t", "    12\t"),
    ("mail, diff", r"[>+] ?", "> "),
    ("pdsh, clush", r"[A-Za-z][\w.-]*: ", "node7: "),
    ("stern", r"[A-Za-z][\w.-]*-[\w.-]+ [a-z][\w-]* ", "pod-7f9-x2 nccl "),
)  # fmt: skip
_FIELDS: Final = ("log", "message", "MESSAGE", "msg", "line", "text")
_ANSI: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_TYPES: Final = "|".join(sorted(DTYPE_BYTES, key=len, reverse=True))
# Lines that nothing wraps: a row, a comment of the benchmark's, a message.
_PLAIN: Final = re.compile(
    (
        rf"\s*\d+[ \t]+\d+[ \t]+(?:{_TYPES})\s"
        r"|[# ]*(?:nThread \d|Rank +\d+ +(?:Group|Pid) |Using devices|size +count |Collective test "
        r"|Out of bounds values|Avg bus bandwidth)"
        r"|[^\s:\[\]]+:\d+:\d+ \[-?\d+\] |rccltune: |\[-?\d+\] NCCL [A-Z]+ "
    ).encode()
)
_COMPILED: Final = tuple(re.compile(before.encode()) for _, before, _ in FORMS)
# So many lines show which forms a file has, one inside the other.
_FIRST_LINES: Final = 4096
_DEPTH: Final = 3


def unwrap_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without what wraps them, as many as were given but where JSON held several in one.

    Args:
        lines: of a file, with their line ends.
    """
    text, forms = _text_and_forms(lines)
    for form in forms:
        text = map(partial(_without, form), text)
    return text


def label_lines(lines: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Wrapping of each line, and the line; for the argument see :func:`unwrap_lines`."""
    text, forms = _text_and_forms(lines)
    for line in text:
        rest = line
        for form in forms:
            rest = _without(form, rest)
        yield line[: len(line) - len(rest)], rest


def _text_and_forms(lines: Iterable[bytes]) -> tuple[Iterator[bytes], list[re.Pattern[bytes]]]:
    """Lines of text out of JSON and without colours, and the forms that wrap them."""
    lines = iter(lines)
    first = list(islice(lines, _FIRST_LINES))
    if _text_of(first[0] if first else b"") is not None:
        lines = _join_json(chain(first, lines))
        first = list(islice(lines, _FIRST_LINES))
    if any(b"\x1b" in line for line in first):
        first = [_ANSI.sub(b"", line) for line in first]
        lines = (_ANSI.sub(b"", line) for line in lines)
    forms: list[re.Pattern[bytes]] = []
    rest = first
    while len(forms) < _DEPTH and (form := _form_of(rest)) is not None:
        forms.append(form)
        rest = [_without(form, line) for line in rest]
    return chain(first, lines), forms


def _form_of(lines: Iterable[bytes]) -> re.Pattern[bytes] | None:
    """The form that leaves most lines known; None where more are known as they stand."""
    counts = Counter(
        form
        for line in lines
        for form in ((None,) if _PLAIN.match(line) else _COMPILED)
        if form is None or _is_known(line, form, _DEPTH - 1)
    )
    return counts.most_common(1)[0][0] if counts else None


def _is_known(line: bytes, form: re.Pattern[bytes], depth: int) -> bool:
    """Whether a line is known without this form, and perhaps others inside of it."""
    match = form.match(line)
    if match is None:
        return False
    rest = line[match.end() :]
    return _PLAIN.match(rest) is not None or (
        depth > 0 and any(_is_known(rest, other, depth - 1) for other in _COMPILED)
    )


def _without(form: re.Pattern[bytes], line: bytes) -> bytes:
    match = form.match(line)
    return line if match is None else line[match.end() :]


def _text_of(line: bytes) -> str | None:
    """The text that a line of JSON holds: a string, or an object's one field for it."""
    if line[:1] not in (b"{", b'"'):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = next((value[name] for name in _FIELDS if name in value), None)
    return value if isinstance(value, str) else None


def _join_json(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The text of each line of JSON; docker parts long lines, of which the last ends."""
    text_so_far = ""
    for line in lines:
        text = _text_of(line)
        if text is None:
            yield line
            continue
        whole = text.endswith("\n") or b'"stream"' not in line
        text_so_far += text
        if not whole:
            yield b"\n"
            continue
        yield from (
            f"{one}\n".encode("utf-8", "replace") for one in text_so_far.splitlines() or [""]
        )
        text_so_far = ""
    if text_so_far:
        yield text_so_far.encode("utf-8", "replace")
