"""The way in: one file, or one launch's output, to one reading; versions as they are printed."""

from __future__ import annotations

import gc
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from rccltune.logs.facts import LogRun
from rccltune.logs.file_kinds import FileKind, kind_of, verb_for
from rccltune.logs.json_log import JsonText, read_records, read_results
from rccltune.logs.log_runs import LogFindings
from rccltune.logs.long_table import read_table
from rccltune.logs.resolver import Resolver
from rccltune.logs.samples import fingerprint_of, records, table_of
from rccltune.logs.text_log import TextReader
from rccltune.model.errors import OutputError, reason_of
from rccltune.model.measurement import Caution, Fingerprint, Notice, Sample, StatedFacts
from rccltune.model.settings import CurveKey

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedLog:
    """Content of one file: its timings with the keys of their curves, machine and notices.

    Attributes:
        table: every timing, flagged ones included, in the file's order within each run; see
            :func:`rccltune.logs.samples.table_of` for its columns.
        keys: of the curves, by the number in the column ``key``.
        notices: what weakens them, each with its remedy.
        fingerprint: the machine as far as the file, the options and the assumptions tell it.
        tables: how many runs gave samples.
        form: what kind of file it was, in words.
        origin: whose measurement it is, where the file says so.
        benchmark: version line of the benchmark, as printed.
        library_version: of the collective library, as printed.
    """

    table: pd.DataFrame
    keys: tuple[CurveKey, ...]
    notices: tuple[Notice, ...]
    fingerprint: Fingerprint
    tables: int
    form: str
    origin: str | None = None
    benchmark: str | None = None
    library_version: str | None = None

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """The rows of the table as records."""
        return records(self.table, self.keys)


# Longer than any line that a benchmark prints; a file without line breaks must not fill memory.
MAX_LINE: Final = 64 * 1024
HEAD: Final = 64 * 1024
_TEXT_SUFFIXES: Final = frozenset((".log", ".txt", ".out", ".csv", ".json", ".dat", ".md", ".err"))
_MAGIC: Final = {
    b"\x1f\x8b": "gzip: unpack it with gunzip",
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd: unpack it with unzstd",
    b"BZh": "bzip2: unpack it with bunzip2",
    b"\xfd7zXZ": "xz: unpack it with unxz",
    b"\x7fELF": "a program, not its output",
}


def open_log(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises:
        OutputError: a directory, or a file that cannot be read.
    """
    try:
        if (path / "session.json").is_file():
            raise OutputError(
                "this folder is a session, which every verb reads as it is",
                where=str(path),
                hint=f"nothing need be imported: rccltune fit {shlex.quote(str(path))}",
            )
        if path.is_dir():
            raise OutputError(
                "this is a folder, and files are read one by one",
                where=str(path),
                hint=_candidates(path),
            )
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise OutputError(
            f"the file cannot be read: {reason_of(error)}",
            where=str(path),
            hint="check the name and its permissions.",
        ) from error


def head_of(stream: BinaryIO, name: str) -> bytes:
    """First bytes of a file, as text they must be, without moving on.

    Raises:
        OutputError: empty, binary, or in an encoding of two bytes a character.
    """
    try:
        head = stream.read(HEAD)
        stream.seek(0)
    except OSError as error:
        raise OutputError(
            f"the file cannot be read: {reason_of(error)}",
            where=name,
            hint="copy it to a local disk first.",
        ) from error
    if not head.strip():
        raise OutputError(
            "the file is empty" if not head else "the file holds nothing but blanks",
            where=name,
            hint="run the benchmark again and look at how it ended.",
        )
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise OutputError(
            "the file is UTF-16, not UTF-8",
            where=f"{name}:1",
            hint=f"convert it: iconv -f UTF-16 -t UTF-8 {name}",
        )
    for magic, meaning in _MAGIC.items():
        if head.startswith(magic):
            raise OutputError(
                f"the file is binary ({meaning})", where=name, hint="give the text it holds."
            )
    return head


def lines_of(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Lines with their line ends; a line over 64 KiB loses what is beyond.

    Raises:
        OutputError: a byte that no text has, or the disk fails.
    """
    number = 0
    read = stream.readline
    try:
        while line := read(MAX_LINE):
            number += 1
            if b"\0" in line:
                raise OutputError(
                    "the file is binary: it holds a zero byte",
                    where=f"{name}:{number}",
                    hint="give the benchmark's text, CSV or JSON output.",
                )
            yield line
            while len(line) == MAX_LINE and line[-1:] != b"\n":
                line = read(MAX_LINE)
    except OSError as error:
        raise OutputError(
            f"the file cannot be read to its end: {reason_of(error)}",
            where=f"{name}:{number}",
            hint="copy it to a local disk first.",
        ) from error


def _candidates(path: Path) -> str:
    """Names of the files of a folder that can be read, as a hint."""
    names = []
    for each in sorted(path.iterdir()):
        with suppress(OSError):
            if each.suffix in _TEXT_SUFFIXES and each.is_file():
                with each.open("rb") as stream:
                    head = stream.read(HEAD)
                text = head.decode("utf-8", "replace")
                # A page of text about measurements has all of their words.
                is_prose = each.suffix == ".md" and kind_of(text) is FileKind.TEXT
                if head and b"\0" not in head and not is_prose and _is_measurement(text):
                    names.append(each.name)
    if not names:
        return "name the file; nothing in the folder looks like a measurement."
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return f"name the file: {shown}."


def _is_measurement(head: str) -> bool:
    """Whether import reads a file that begins so; of a log only its words tell."""
    form = kind_of(head)
    if form is FileKind.TEXT:
        return any(word in head for word in ("algbw", "busbw", "bus bandwidth", "_perf", "NCCL"))
    return form not in _OTHERS


def read(path: Path, stated: StatedFacts, launch: str) -> ParsedLog:
    """Read whatever somebody measured.

    Args:
        path: a benchmark's text, CSV or JSON output, or a plain long table.
        stated: what the user says about it.
        launch: id for the samples; a file of several runs gives ``.1``, ``.2`` … behind it.

    Raises:
        OutputError: the file is not understood, or does not say what samples need.
        CommandLineError: an option contradicts the file.
    """
    name = str(path)
    with open_log(path) as stream, _collector_paused():
        head = head_of(stream, name).decode("utf-8-sig", "replace")
        form = kind_of(head)
        resolver = Resolver(name, stated)
        match form:
            case FileKind.TEXT:
                return _text(lines_of(stream, name), resolver, launch)
            case FileKind.DELIMITED:
                runs, origin = read_table(lines_of(stream, name), resolver)
                return _reading(runs, resolver, launch, form, origin=origin)
            case FileKind.RECORDS:
                runs = read_records(JsonText(stream, name), resolver)
                return _reading(runs, resolver, launch, form)
            case FileKind.RESULTS:
                run, version = read_results(JsonText(stream, name), resolver)
                return _reading([run], resolver, launch, form, library=version)
            case _:
                raise OutputError(
                    _OTHERS[form], where=name, hint=f"{_DO[form]}: {verb_for(form, path)}"
                )


# What import does not read, and what the verb that reads it does.
_OTHERS: Final = {
    FileKind.RULES: "this is a rule file, not a measurement",
    FileKind.RECORD: (
        "this is a record of the calls that a job asked its tuner about; it has no times"
    ),
    FileKind.INSPECTOR: (
        "this is a dump of NCCL's Inspector plugin, which makes no session: it names no algorithm "
        "or protocol, so there is nothing to choose among, and a call's time holds what its rank "
        "waited for the others, so it is no measurement beside a benchmark's"
    ),
    FileKind.SAMPLES: "this is samples.csv of a session, whose folder every verb reads as it is",
}
_DO: Final = {
    FileKind.RULES: "see what it does with",
    FileKind.RECORD: "it says which calls a job makes",
    FileKind.INSPECTOR: "it says which calls a job makes",
    FileKind.SAMPLES: "nothing need be imported",
}


def read_stream(lines: Iterable[bytes], name: str, stated: StatedFacts, launch: str) -> ParsedLog:
    """Read the text that a launch printed.

    Args:
        lines: with their line ends.
        name: what messages call it.
        stated: what the launcher knows.
        launch: id for the samples.

    Raises:
        OutputError: no row in it, or it does not say what samples need.
        CommandLineError: it is not what the launcher asked for.
    """
    with _collector_paused():
        resolver = Resolver(name, stated)
        resolver.is_trusted = True
        return _text(lines, resolver, launch)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Spare the cyclic garbage collector a million records, none of which is in a cycle.

    It looks at all of them again and again while they are made: a fifth of the time of a read.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _text(lines: Iterable[bytes], resolver: Resolver, launch: str) -> ParsedLog:
    reader = TextReader(resolver.name)
    runs = reader.read(lines)
    book = reader.book
    if not runs:
        raise _nothing(book)
    _notes(book, runs, resolver)
    return _reading(
        runs, resolver, launch, FileKind.TEXT, benchmark=book.benchmark, library=book.library
    )


def _nothing(book: LogFindings) -> OutputError:
    """Why a log has no rows, as well as it tells."""
    if book.odd:
        line, text = book.odd[0]
        happened = f"{len(book.odd)} rows stand here and are not understood; the first: {text}"
        hint = "compare it with the benchmark's own output"
    elif book.failures:
        line, text = book.failures[0]
        happened, hint = f"the benchmark failed before its first row: {text}", "mend that"
    elif book.headers:
        line, happened = book.headers[-1], "the table's header has no row below it"
        hint = "look at how the run ended"
    elif book.started is not None:
        line, happened = book.started, "the benchmark started but printed no table"
        hint = "look at how the run ended"
    else:
        line, text = book.first or (0, "")
        happened = f"there is no benchmark table in this file; it begins: {text[:100]}"
        cells = text.replace("\t", ",").split(",")
        if len(cells) > 1 and all(0 < len(cell.split()) <= 2 for cell in cells):
            return OutputError(
                happened,
                where=f"{book.name}:{line}",
                hint="a table of your own needs the columns nbytes and time_us in its first line, "
                "and a setting (tree/ll128) or algorithm and protocol; collective, ranks, nodes "
                "as columns or options: see docs/formats.md.",
            )
        hint = "give the benchmark's own output"
    return OutputError(
        happened,
        where=f"{book.name}:{line}" if line else book.name,
        hint=f"{hint}, then measure again and import the new log.",
    )


def _notes(book: LogFindings, runs: Sequence[LogRun], resolver: Resolver) -> None:
    again = "measure again what is missing; what was read is kept."
    versions = different_libraries(book.libraries)
    if versions is not None:
        one, other = versions
        raise OutputError(
            f"the file has runs of library {one} (line {book.libraries[one]}) and of {other}, "
            "which may choose and run differently",
            where=f"{book.name}:{book.libraries[other]}",
            hint="split the file, and import each part into a session of its own (-o DIR).",
        )
    if book.odd:
        line, text = book.odd[0]
        count = f"{len(book.odd)} rows do not fit their header and are"
        count = "a row does not fit its header and is" if len(book.odd) == 1 else count
        resolver.notice(Caution.INCOMPLETE_LOG, f"{count} left out; the first: {text}", again, line)
    for line, text in book.notes:
        resolver.notice(Caution.INCOMPLETE_LOG, text, again, line)
    for line, text in book.failures[:1]:
        resolver.notice(Caution.INCOMPLETE_LOG, f"a run failed: {text}", again, line)
    for table in book.all:
        if not table.rows and not book.failures:
            text = "a table's header has no row below it"
            resolver.notice(Caution.INCOMPLETE_LOG, text, again, table.header)
    for run in runs:
        if run.max_size is not None:
            resolver.notice(
                Caution.INCOMPLETE_LOG,
                f"the run ends at {run.timings['nbytes'].iloc[-1]} bytes, it was asked to go to "
                f"{run.max_size}",
                again,
                int(run.timings["line"].iloc[-1]),
            )


def _reading(
    runs: list[LogRun],
    resolver: Resolver,
    launch: str,
    form: FileKind,
    *,
    origin: str | None = None,
    benchmark: str | None = None,
    library: str | None = None,
) -> ParsedLog:
    if any(run.cputime for run in runs):
        resolver.notice(
            Caution.DERIVED_TIME,
            "the benchmark printed the CPU's time (-C 1); times are worked out from algbw where "
            "it has enough digits",
            "measure again without -C.",
        )
    fingerprint = fingerprint_of(runs, resolver)
    table, keys = table_of(runs, resolver, launch)
    return ParsedLog(
        table=table,
        keys=keys,
        notices=tuple(resolver.notices),
        fingerprint=fingerprint,
        tables=len(runs),
        form=form.value,
        origin=origin,
        benchmark=benchmark,
        library_version=library,
    )


def different_libraries(versions: Iterable[str]) -> tuple[str, str] | None:
    """The first two versions that cannot be one library's; None where there are none.

    One library is 2.29.2 in a benchmark's line and 2.29.2+cuda13.1 in its own.
    """
    named = list(versions)
    for i, one in enumerate(named):
        for other in named[i + 1 :]:
            (number, build), (number_2, build_2) = map(_parts, (one, other))
            if number != number_2 or (build and build_2 and build != build_2):
                return one, other
    return None


def _parts(text: str) -> tuple[str, str]:
    """Number and build."""
    match = re.match(r"[\d.]*", text)
    number = match[0] if match is not None else ""
    return number, text[len(number) :]
