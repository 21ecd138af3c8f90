"""Rule files back to rules: the plugin's own reading of a file, in Python.

Codes and judgement are those of ``native_plugin/src/rule_file.c``, lines and words those of
:mod:`rccltune.model.grammar`; property tests hold the two together. An *error* is a mistake that
would choose wrongly, and the plugin refuses the file. A *warning* is a row that can be left out
without changing what the others mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Final

from rccltune.model import grammar
from rccltune.model.rule import LeftToLibrary, Rule
from rccltune.model.settings import IDLE, Mode, Scale, Setting, Vendor, vendor_of
from rccltune.model.vocabulary import TUNABLE, Algorithm, Collective, Protocol
from rccltune.rules.line_format import (
    compute,
    is_row,
    is_stump,
    library_release,
    memory,
    requirement,
)


class LineSeverity(Enum):
    """Severity of a finding for the file."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFinding:
    """Something to say about a line; ``code`` is for programs and never changes."""

    severity: LineSeverity
    line: int
    code: str
    message: str

    def at(self, where: Path | str) -> str:
        """Text with the file it is of, as compilers name a line."""
        return f"{where}:{self.line}: {self.message} [{self.code}]"


def _unknown(what: str, word: str, known: Iterable[str]) -> str:
    """A word that no name is, with the nearest one."""
    near = get_close_matches(word.lower(), known, n=1)
    return f"unknown {what} '{word}'" + (f", the nearest is {near[0]}" if near else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """Content of a rule file: rules, requirements, findings.

    Attributes:
        rules: in file order; empty where the file is refused.
        requires: (key, value) pairs of ``#@ requires``.
        library: of ``#@ library``, ``NCCL 2.28.9``; None without such a line.
        bits: of ``#@ bits``: rules that keep results' bits; None in any other file.
        needs: (name, value) pairs of ``#@ needs``.
        holes: of ``#@ hole``, but for those of a section that is none.
        machine: that it was written for, as its head has it; None in a file of somebody else's.
    """

    rules: tuple[Rule, ...]
    findings: tuple[LineFinding, ...]
    requires: tuple[tuple[str, str], ...] = ()
    library: str | None = None
    bits: str | None = None
    needs: tuple[tuple[str, str], ...] = ()
    holes: tuple[LeftToLibrary, ...] = ()
    machine: str | None = None

    @property
    def errors(self) -> tuple[LineFinding, ...]:
        """Findings for which the plugin refuses the file."""
        return tuple(f for f in self.findings if f.severity is LineSeverity.ERROR)

    @property
    def arch_or_vendor(self) -> str | None:
        """Arch or vendor of its GPUs: ``gfx942`` …, ``amd`` or ``nvidia`` where only that is told.

        Partition modes are AMD's, and a variable of RCCL's is no use to anybody else.
        """
        required = dict(self.requires)
        has_mode = {"compute", "memory"} & required.keys() or any(r.only_mode for r in self.rules)
        of_rccl = any(name.startswith("RCCL_") for name, _ in self.needs)
        vendor = vendor_of(required.get("product")) or vendor_of(self.machine)
        vendor = Vendor.AMD if has_mode or of_rccl else vendor
        return required.get("arch") or (vendor.value if vendor else None)


_SECTION: Final = re.compile(r"([a-z]+) nodes=([0-9]+) ranks=([0-9]+)")
_COLLECTIVES: Final = {c.csv_name: c for c in TUNABLE}
_ALGORITHMS: Final = {a.value: a for a in Algorithm}
_PROTOCOLS: Final = {p.value: p for p in Protocol}
# Point-to-point or paths of their own in every release (RCCL 2.21 to 2.31).
_UNTUNABLE: Final = frozenset(
    (
        *("alltoall", "alltoallv", "alltoallpivot", "gather", "scatter", "allgatherv"),
        *("send", "recv", "sendrecv", "hypercube", "allreducewithbias"),
    )
)
_COLUMNS: Final = (
    *("colltype", "minbytes", "maxbytes", "algorithm", "protocol", "channels"),
    *("nNodes", "nRanks", "numPipeOps", "regBuff"),
)
_WRITTEN: Final = re.compile(r"# written by rccltune \S+ for (.+)")
_REQUIRED: Final = 8
# Of bits, as the plugin keeps it.
_LONGEST_NAME: Final = 63
_UNDERSTOOD: Final = 12
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MAX_INT32: Final = 2**31 - 1
_MAX_UINT64: Final = 2**64 - 1


def read_rules(content: bytes) -> RuleFile:
    """Read a rule file; mistakes become findings, nothing is raised."""
    content = grammar.unmarked(content)
    binary = _BINARY.search(content)
    if binary is not None:
        first = content.count(b"\n", 0, binary.start()) + 1
        return RuleFile(rules=(), findings=(_error(first, "not-text", "this is not a text file"),))
    # One character a byte, as the plugin counts them.
    text = content.decode("latin-1")
    if is_stump(text):
        what = "the file ends in its first word" if text else "the file is empty"
        return RuleFile(rules=(), findings=(_error(1, "cut", what),))
    reader = _Reader()
    for number, line in enumerate(grammar.lines(text), start=1):
        reader.line = number
        reader.read_line(grammar.trim(line))
    return reader.finish()


def _error(line: int, code: str, message: str) -> LineFinding:
    return LineFinding(severity=LineSeverity.ERROR, line=line, code=code, message=_text_of(message))


def _section(words: list[str]) -> tuple[Collective, Scale] | None:
    """``allreduce nodes=1 ranks=64``; None for anything else."""
    match = _SECTION.fullmatch(" ".join(words))
    try:
        return (
            (Collective.parse(match[1]), Scale.parse(f"{match[2]}x{match[3]}")) if match else None
        )
    except ValueError:
        return None


class _Reader:
    """Gathers rules and findings line by line."""

    def __init__(self) -> None:
        self.line = 0
        self.rules: list[Rule] = []
        self.findings: list[LineFinding] = []
        self.requires: dict[str, str] = {}
        self.library: str | None = None
        self.bits: str | None = None
        self.needs: list[tuple[str, str]] = []
        self.holes: list[LeftToLibrary] = []
        self.section: tuple[Collective | None, Scale | None] | None = (None, None)
        self.machine: str | None = None
        self.n_rows = 0
        self.is_ours = False
        self.is_whole = False

    def finish(self) -> RuleFile:
        if self.is_ours and not self.is_whole:
            n = self.n_rows
            self.error(
                "cut",
                f"it has {n} row{'s' * (n != 1)}, and '#@ end {n}' is not the last line: the "
                "file was cut, or edited by hand (then write that line)",
            )
        refused = any(f.severity is LineSeverity.ERROR for f in self.findings)
        return RuleFile(
            rules=() if refused else tuple(self.rules),
            findings=tuple(self.findings),
            requires=tuple(self.requires.items()),
            library=self.library,
            bits=self.bits,
            needs=tuple(self.needs),
            holes=tuple(self.holes),
            machine=self.machine,
        )

    def error(self, code: str, message: str) -> None:
        self.findings.append(_error(self.line, code, message))

    def warn(self, code: str, message: str) -> None:
        self.findings.append(
            LineFinding(
                severity=LineSeverity.WARNING, line=self.line, code=code, message=_text_of(message)
            )
        )

    def read_line(self, line: str) -> None:
        if line.startswith("#@"):
            self.read_directive(grammar.trim(line[2:]))
            return
        if self.machine is None and (written := _WRITTEN.match(line)):
            self.machine = written[1]
        if is_row(line):
            self.n_rows += 1
            self.is_whole = False
            row = grammar.trim(line.partition("#")[0])
            self.read_row([grammar.trim(field) for field in row.split(",")])

    def read_directive(self, directive: str) -> None:
        words = grammar.words(directive)
        if words[:1] in (["rules"], ["end"], ["format"]):
            self.is_ours = True
        match words:
            case ["end", *rest]:
                self.is_whole = (
                    len(rest) == 1
                    and _is_whole(rest[0])
                    and (grammar.whole(rest[0]) == self.n_rows)
                )
            case ["format", *rest] if rest != ["1"]:
                self.error("bad-format", f"format '{' '.join(rest)}': this build reads format 1")
            case ["requires", *pairs]:
                self.read_requires(pairs)
            case ["library", *release]:
                self.read_library(release)
            case ["bits", *rest]:
                self.read_bits(rest)
            case ["needs", *_] if "=" in directive:
                # All of the line's rest: a value may have blanks in it.
                name, _, value = grammar.trim(directive[len("needs") :]).partition("=")
                self.needs.append((_text_of(name), _text_of(value)))
            case ["hole", low, high, *reason] if _is_whole(low) and _is_whole(high):
                self.read_hole(grammar.whole(low), grammar.whole(high), _text_of(" ".join(reason)))
            case ["section", *rest]:
                self.section = _section(rest)
            case _:
                pass  # other directives are for other readers

    def read_hole(self, low: int, high: int, reason: str) -> None:
        if self.section is not None:
            collective, scale = self.section
            self.holes.append(
                LeftToLibrary(
                    min_nbytes=low,
                    max_nbytes=high,
                    reason=reason,
                    collective=collective,
                    scale=scale,
                )
            )

    def read_requires(self, pairs: list[str]) -> None:
        for pair in pairs:
            key, _, value = pair.partition("=")
            required = requirement(key, value)
            before = requirement(key, self.requires.get(key, value))
            if required is None or required != before:
                self.error(
                    "bad-requires",
                    f"requires: '{pair}' is not understood, or contradicts an earlier line",
                )
            self.requires.setdefault(key, value)

    def read_bits(self, name: list[str]) -> None:
        """Like a condition: results would change bits where two files are joined by hand."""
        if len(name) != 1 or len(name[0]) > _LONGEST_NAME or self.bits not in (None, name[0]):
            self.error(
                "bad-bits",
                f"bits: '{' '.join(name)[:40]}' is not understood, or contradicts an earlier line",
            )
            return
        self.bits = _text_of(name[0])

    def read_library(self, words: list[str]) -> None:
        release = library_release(words)
        if release is None or self.library not in (None, release):
            self.error(
                "bad-library",
                f"library: '{' '.join(words)}' is not understood (NCCL 2.28.9), or contradicts an "
                "earlier line",
            )
        self.library = self.library or release

    def read_row(self, fields: list[str]) -> None:
        while fields and not fields[-1]:
            fields.pop()
        if len(fields) < _REQUIRED:
            self.error(
                "too-few-fields",
                f"{len(fields)} fields, at least {_REQUIRED} are needed: nNodes,nRanks behind "
                "channels; libraries skip such a line and say nothing",
            )
        elif len(fields) > _UNDERSTOOD:
            self.warn(
                "unknown-field",
                f"{len(fields)} fields, at most {_UNDERSTOOD} are understood; row skipped",
            )
        elif fields[0] in _UNTUNABLE:
            self.warn("untunable-collective", f"{fields[0]} never asks a tuner; row skipped")
        elif fields[0] not in _COLLECTIVES and all(_is_letter(f[:1]) for f in fields[:3]):
            self.warn("header-row", "a header row; skipped")
        else:
            self.read_rule(fields)

    def read_rule(self, fields: list[str]) -> None:
        before = len(self.findings)
        collective = _COLLECTIVES.get(fields[0])
        if collective is None:
            self.error("unknown-collective", _unknown("collective", fields[0], _COLLECTIVES))
        numbers = self.read_numbers(fields)
        parts = self.read_setting(fields[3], fields[4])
        if len(self.findings) > before or collective is None or parts is None:
            return
        if parts[0] is Algorithm.TREE and not collective.has_tree:
            self.warn("tree-not-allreduce", "tree exists for allreduce only; row skipped")
            return
        known, mode = self.read_extension(fields[10:])
        if known:
            self.rules.append(_rule(collective, numbers, parts, mode, self.line))

    def read_numbers(self, fields: list[str]) -> list[int]:
        numbers = [self.read_bytes(_COLUMNS[i], fields[i]) for i in (1, 2)]
        for i in range(5, 10):
            text = fields[i] if i < len(fields) else ""
            optional = i >= _REQUIRED and not text
            numbers.append(-1 if optional else self.read_count(_COLUMNS[i], text))
        if numbers[0] > numbers[1] >= 0:
            self.error("min-above-max", f"minbytes {numbers[0]} is above maxbytes {numbers[1]}")
        return numbers

    def read_bytes(self, column: str, text: str) -> int:
        if _is_whole(text) and grammar.whole(text) <= _MAX_UINT64:
            return grammar.whole(text)
        if _is_whole(text.removeprefix("-")):
            self.error("number-range", f"{column}: '{text}' does not fit (0 to 2^64-1)")
        else:
            self.error(
                "not-a-number",
                f"{column}: '{text}' is not a number of bytes (plain digits, no K, M or G)",
            )
        return -1

    def read_count(self, column: str, text: str) -> int:
        digits = text.removeprefix("-")
        if not _is_whole(digits):
            self.error("not-a-number", f"{column}: '{text}' is not a number")
            return -1
        number = grammar.whole(digits) * (-1 if text.startswith("-") else 1)
        if not -1 <= number <= _MAX_INT32:
            self.error("number-range", f"{column}: '{text}' does not fit (-1 to 2147483647)")
            return -1
        return number

    def read_setting(
        self, algorithm: str, protocol: str
    ) -> tuple[Algorithm | None, Protocol | None] | None:
        good = True
        if algorithm != "-1" and algorithm not in _ALGORITHMS:
            self.error("unknown-algorithm", _unknown("algorithm", algorithm, _ALGORITHMS))
            good = False
        if protocol != "-1" and protocol not in _PROTOCOLS:
            self.error("unknown-protocol", _unknown("protocol", protocol, _PROTOCOLS))
            good = False
        if good and (algorithm == "-1") != (protocol == "-1"):
            self.error(
                "half-setting",
                f"algorithm {algorithm} with protocol {protocol}: leave both to the library, "
                "or name both",
            )
            good = False
        return (_ALGORITHMS.get(algorithm), _PROTOCOLS.get(protocol)) if good else None

    def read_extension(self, extra: list[str]) -> tuple[bool, Mode | None]:
        mode_text = extra[0] if extra else ""
        group = extra[1] if len(extra) > 1 else ""
        mode = None
        if mode_text not in ("", "-1"):
            mode = _mode(mode_text)
            if mode is None:
                self.warn(
                    "unknown-field",
                    f"partitionMode (field 11) is '{mode_text}', which is no mode: write cpx, or "
                    "-1; row skipped",
                )
                return False, None
        if group not in ("", "-1"):
            self.warn(
                "unknown-field",
                f"localGroup (field 12) is '{group}', and only -1, any group, is accepted: write "
                "-1, or leave the field out; row skipped",
            )
            return False, None
        return True, mode


def _text_of(text: str) -> str:
    """Words for people, of a file that was decoded one character a byte."""
    return text.encode("latin-1").decode("utf-8", "replace")


def _is_whole(text: str) -> bool:
    try:
        grammar.whole(text)
    except ValueError:
        return False
    return True


def _is_letter(text: str) -> bool:
    return text.isascii() and text.isalpha()


def _mode(text: str) -> Mode | None:
    """Field 11: ``cpx``, ``cpx-nps4`` or ``none``; None for anything else."""
    partition, dash, after = text.partition("-")
    known, nps = compute(partition), memory(after)
    if known is None or (dash and (known == "none" or nps is None)):
        return None
    if known == "none":
        return Mode(compute=None, memory=None)
    return Mode(compute=known.upper(), memory=f"NPS{nps}" if nps else None)


def _rule(
    collective: Collective,
    numbers: list[int],
    parts: tuple[Algorithm | None, Protocol | None],
    mode: Mode | None,
    line: int,
) -> Rule:
    low, high, channels, n_nodes, n_ranks, pipe_ops, reg_buff = numbers
    has_setting = parts[0] is not None or channels > 0
    return Rule(
        collective=collective,
        min_nbytes=low,
        max_nbytes=high,
        # Neither a cell nor channels: the row keeps its sizes as they are, on purpose.
        setting=Setting(
            algorithm=parts[0], protocol=parts[1], channels=channels if channels > 0 else None
        )
        if has_setting
        else IDLE,
        n_nodes=_any(n_nodes),
        n_ranks=_any(n_ranks),
        num_pipe_ops=_any(pipe_ops),
        reg_buff=_any(reg_buff),
        only_mode=mode,
        line=line,
    )


def _any(number: int) -> int | None:
    return None if number < 0 else number
