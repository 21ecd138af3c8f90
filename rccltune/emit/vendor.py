"""A vendor's rule file as a base: only rows that mean one thing to every reader are taken.

Readers are RCCL's built-in tuner in both forms (src/plugin/tuner/csv_tuner.cc: the first, rocm-
systems 96a02418, and the newer, 22af4d53), NVIDIA's example (ext-tuner/example/plugin.c, as the
first) and our plugin. RCCL never refuses a file, so that one row is no reason to refuse a vendor's:

===========================================  ============================  =======================
row                                          RCCL, newer / first           here
===========================================  ============================  =======================
``-1,-1[,N]``                                skipped / ring,simple         left out
unknown name; ``-1`` for one of the two      skipped / allreduce, ring,    left out
                                             simple in its place
header row; alltoall and the like            skipped / of allreduce        left out
fewer than 8 fields; min above max           skipped; matches nothing      left out
tree for another collective than allreduce   its cell is never offered     left out
an empty field that others follow            the rest moves left           left out
a field of blanks alone                      skipped / a filter of 0       left out
a comma in a comment behind fewer than 10    a field of the row            left out
fields
CR before the end, byte-order mark           part of the name              left out
more than 255 bytes                          the tail is another line      left out
field 11                                     ignored; a fork's filter      a filter (basing.py)
field 12 other than -1, 13 fields and more   ignored; a fork's filter      left out
channels 0                                   the library's own number      written as -1, the same
channels below -1                            the library's own / stored    left out
other counts below -1                        matches nothing               left out
numPipeOps, regBuff of 0 or more             a filter                      the same
no number; a size that does not fit          the digits in front; 2^64-1   the file is refused
===========================================  ============================  =======================

The last ones stay errors: every RCCL plays such a row, though not as it is written, and leaving it
out would lose a choice of the vendor's. NVIDIA's example plays -1 channels as one channel, in any
row of anybody's; a file for it is none of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from rccltune import grammar
from rccltune.emit.read import Finding, RuleFile, Severity, read_rules
from rccltune.emit.seal import CODE, is_seal

UNNAMED: Final = (
    "it names no algorithm and no protocol: newer RCCL skips such a row, older RCCL plays "
    "ring/simple for it"
)
_SKIPPED: Final = "newer RCCL skips the row"
# One of these is enough for every RCCL to skip the row or to take it for another.
_ENOUGH: Final = {
    "unknown-collective": f"{_SKIPPED}, older RCCL takes allreduce",
    "unknown-algorithm": f"{_SKIPPED}, older RCCL takes ring",
    "unknown-protocol": f"{_SKIPPED}, older RCCL takes simple",
    "half-setting": f"{_SKIPPED}, older RCCL names the other half itself",
    "too-few-fields": "RCCL skips the row",
}
_NEVER: Final = ("min-above-max", "number-range")
_SIZES: Final = ("minbytes", "maxbytes")
_ALL_FIELDS: Final = 10
_BUFFER: Final = 255
LeftOut = tuple[tuple[int, str], ...]


def read_base(content: bytes) -> tuple[RuleFile, LeftOut]:
    """A vendor's file, and (line, why) of rows that must not stand behind ours.

    What is left is read as any rule file: its errors are mistakes that RCCL does not skip, and
    that it is not as long as it says.
    """
    broken = tuple(one for one in read_rules(content).errors if one.code in (CODE, "cut"))
    content = _unsealed(content)
    left = _odd_rows(content)
    left |= _skipped(read_rules(_without(content, left)).errors)
    file = read_rules(_without(content, left))
    file = replace(file, findings=(*file.findings, *broken))
    left |= {f.line: f.message for f in file.findings if f.severity is Severity.WARNING}
    left |= {rule.line or 0: UNNAMED for rule in file.rules if rule.setting.algorithm is None}
    rules = tuple(rule for rule in file.rules if rule.setting.algorithm is not None)
    return replace(file, rules=rules), tuple(sorted(left.items()))


def by_reason(left_out: Iterable[tuple[int, str]]) -> list[tuple[str, str]]:
    """(``3``, why) or (``3-5, 9``, why), the reasons in the order of their first lines."""
    found: dict[str, list[int]] = {}
    for line, why in sorted(left_out):
        found.setdefault(why, []).append(line)
    return [(_numbers(lines), why) for why, lines in found.items()]


def _numbers(lines: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], line]
        else:
            spans.append([line])
    return ", ".join("-".join(map(str, span)) for span in spans)


def _odd_rows(content: bytes) -> dict[int, str]:
    """Rows that RCCL splits into other fields than our readers, by line."""
    text = grammar.unmarked(content).decode("latin-1")
    marked = len(text) < len(content)
    found = {}
    for number, line in enumerate(grammar.lines(text), start=1):
        if grammar.trim(line.partition("#")[0]):
            why = _BEHIND_MARK if marked and number == 1 else _why_odd(line)
            if why is not None:
                found[number] = why
    return found


_BEHIND_MARK: Final = "it stands behind a byte-order mark, which RCCL takes for part of its name"


def _why_odd(line: str) -> str | None:
    if len(line) > _BUFFER:
        return f"it is longer than {_BUFFER} bytes, and RCCL takes its end for another line"
    if "\r" in line.removesuffix("\r"):
        return "it has a carriage return inside, which RCCL takes for part of a field"
    row, hashed, comment = line.partition("#")
    fields = row.split(",")
    while fields[1:] and not fields[-1] and not hashed:
        fields.pop()
    # RCCL looks at no more of them.
    return _why_odd_fields(fields[:_ALL_FIELDS]) or _why_odd_comment(fields, comment)


def _why_odd_fields(fields: Sequence[str]) -> str | None:
    if "" in fields:
        return "it has an empty field, and RCCL moves what is behind it to the left"
    if any(not grammar.trim(field) for field in fields):
        return f"it has a field of blanks alone: {_SKIPPED}, older RCCL reads 0"
    return None


def _why_odd_comment(fields: Sequence[str], comment: str) -> str | None:
    if "," in comment and len(fields) < _ALL_FIELDS:
        return "the comment behind it has commas, and RCCL takes what is between them for fields"
    return None


def _skipped(errors: Iterable[Finding]) -> dict[int, str]:
    """Rows with mistakes for which RCCL does not play them as they stand."""
    by_line: dict[int, list[Finding]] = {}
    for one in errors:
        by_line.setdefault(one.line, []).append(one)
    found = {}
    for line, ones in by_line.items():
        enough = next((one for one in ones if one.code in _ENOUGH), None)
        if enough is not None:
            found[line] = f"{enough.message}; {_ENOUGH[enough.code]}"
        elif all(_matches_nothing(one) for one in ones):
            found[line] = f"{ones[0].message}; no call of newer RCCL's follows it as it stands"
    return found


def _matches_nothing(one: Finding) -> bool:
    is_size = one.code == "number-range" and one.message.startswith(_SIZES)
    return one.code in _NEVER and not is_size


def _unsealed(content: bytes) -> bytes:
    """The file without what it says of its length, which rows that are left out would belie."""
    lines = grammar.lines(grammar.unmarked(content).decode("latin-1"))
    return _without(content, [n for n, line in enumerate(lines, start=1) if is_seal(line)])


def _without(content: bytes, lines: Iterable[int]) -> bytes:
    """The file with some lines empty; the others keep their numbers."""
    kept = content.split(b"\n")
    for number in lines:
        kept[number - 1] = b""
    return b"\n".join(kept) or b"\n"  # nothing left is no empty file
