"""The way in: one file, or one launch's output, to one reading; versions as they are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.logs.delimited_table import read_table
from rccltune.logs.facts import LogRun
from rccltune.logs.file_kinds import FileKind, hint_for_kind
from rccltune.logs.json_log import JsonText, read_records, read_results
from rccltune.logs.log_files import (
    MEASUREMENTS,
    detect_kind_of_head,
    open_log,
    read_head,
    read_lines,
)
from rccltune.logs.log_samples import make_fingerprint, make_sample_table
from rccltune.logs.resolver import Resolver
from rccltune.logs.text_log import TextReader
from rccltune.logs.wrappers import unwrap_lines
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, Fingerprint, Notice, StatedFacts
from rccltune.model.settings import CurveKey

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, eq=False)
class ParsedLog:
    """Content of one file: its timings with the keys of their curves, machine and notices.

    Attributes:
        table: every timing, flagged ones included, in the file's order within each run; see
            :func:`rccltune.logs.log_samples.make_sample_table` for its columns.
        keys: of the curves, by the number in the column ``key``.
        notices: what weakens them, each with its remedy.
        fingerprint: the machine as far as the file, the options and the assumptions tell it.
        tables: how many runs gave samples.
        form: what kind of file it was, in words.
        origin: whose measurement it is, where the file says so.
        benchmark: version line of the benchmark, as printed.
        library_version: of the collective library, as printed.
        environment: variables beside the setting that may change times; None where nothing says.
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
    environment: Mapping[str, str] | None = None


def read_log(path: Path, stated: StatedFacts, launch: str) -> ParsedLog:
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
    with open_log(path) as stream:
        kind = detect_kind_of_head(read_head(stream, name))
        if kind not in MEASUREMENTS:
            raise OutputError(
                f"this is a {kind.value}{_REMARKS.get(kind, '')}",
                where=name,
                hint=hint_for_kind(kind, path),
            )
        resolver = Resolver(name, stated)
        lines = read_lines(stream, name)
        if kind is FileKind.TEXT:
            return _read_text(lines, resolver, launch)
        if kind is FileKind.DELIMITED:
            runs, origin = read_table(lines, resolver)
            return _make_log(runs, resolver, launch, kind, origin=origin)
        source = JsonText(b"".join(lines), name)
        if kind is FileKind.RECORDS:
            return _make_log(read_records(source, resolver), resolver, launch, kind)
        run, version = read_results(source, resolver)
        return _make_log([run], resolver, launch, kind, library=version)


# Why import does not read what another verb does.
_REMARKS: Final = {
    FileKind.RULES: ", not a measurement",
    FileKind.RECORD: "; it has no times",
    FileKind.INSPECTOR: (
        ", which makes no session: a call's time holds what its rank waited for the others, and "
        "no algorithm stands in older ones, so it is no measurement beside a benchmark's"
    ),
    FileKind.SAMPLES: ": every verb reads the session's folder as it is",
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
    resolver = Resolver(name, stated, is_trusted=True)
    return _read_text(unwrap_lines(lines), resolver, launch)


def read_launch(log: Path, stated: StatedFacts, launch: str) -> ParsedLog:
    """Read what a launch of ours printed, and the library's own files beside it.

    Args:
        log: its output; the library's messages are in ``nccl-*.log`` of its folder.
        stated: what the launcher knows.
        launch: id for the samples.

    Raises:
        OutputError: no row in it, or it does not say what samples need.
        CommandLineError: it is not what the launcher asked for.
    """
    with ExitStack() as stack:
        paths = (log, *sorted(log.parent.glob("nccl-*.log")))
        lines = chain.from_iterable(stack.enter_context(path.open("rb")) for path in paths)
        return read_stream(lines, str(log), stated, launch)


def _read_text(lines: Iterable[bytes], resolver: Resolver, launch: str) -> ParsedLog:
    log = TextReader(resolver.name)
    runs = log.read(lines)
    if not runs:
        raise _no_rows(log)
    _note_weaknesses(log, resolver)
    return _make_log(
        runs, resolver, launch, FileKind.TEXT, benchmark=log.benchmark, library=log.library
    )


def _no_rows(log: TextReader) -> OutputError:
    """Why a log has no rows, as well as it tells."""
    hint = "look at how the run ended, then measure again and import the new log."
    if log.bad_rows:
        line, text = log.bad_rows[0]
        happened = f"rows stand here and none is whole ({log.n_bad_rows}); the first: {text}"
        hint = _APART
    elif log.failures:
        line, text = log.failures[0]
        happened = f"the benchmark failed before its first row: {text}"
        hint = "mend that, then measure again and import the new log."
    elif log.headers:
        line, happened = log.headers[-1], "the table's header has no row below it"
    elif log.start_line is not None:
        line, happened = log.start_line, "the benchmark started but printed no table"
    else:
        line, text = log.first_line or (0, "")
        happened = f"there is no benchmark table in this file; it begins: {text[:100]}"
        hint = (
            "give the output of nccl-tests or rccl-tests; a table of your own needs the columns "
            "nbytes and time_us in its first line, and a setting (tree/ll128) or algorithm and "
            "protocol: see docs/formats.md."
        )
    return OutputError(happened, where=f"{log.name}:{line}" if line else log.name, hint=hint)


# Ranks write the library's messages in between what rank 0 prints of a row.
_APART: Final = (
    "let the library's messages go elsewhere (export NCCL_DEBUG_FILE=/tmp/nccl.%h.%p), then "
    "measure again and import the new log."
)


def _note_weaknesses(log: TextReader, resolver: Resolver) -> None:
    again = "measure again what is missing; what was read is kept."
    versions = find_two_libraries(log.libraries)
    if versions is not None:
        one, other = versions
        raise OutputError(
            f"the file has runs of library {one} (line {log.libraries[one]}) and of {other}, "
            "which may choose and run differently",
            where=f"{log.name}:{log.libraries[other]}",
            hint="split the file, and import each part into a session of its own (-o DIR).",
        )
    if log.bad_rows:
        line, text = min(log.bad_rows)
        count = "1 row is" if log.n_bad_rows == 1 else f"{log.n_bad_rows} rows are"
        message = f"{count} not whole and left out; the first: {text}"
        resolver.notice(Caution.INCOMPLETE_LOG, message, _APART, line)
    for line, text in log.notes:
        resolver.notice(Caution.INCOMPLETE_LOG, text, again, line)
    for line, text in log.failures[:1]:
        resolver.notice(Caution.INCOMPLETE_LOG, f"a run failed: {text}", again, line)
    for table in log.tables:
        if not len(table.rows) and not log.failures:
            text = "a table's header has no row below it"
            resolver.notice(Caution.INCOMPLETE_LOG, text, again, table.header)


def _make_log(
    runs: list[LogRun],
    resolver: Resolver,
    launch: str,
    form: FileKind,
    *,
    origin: str | None = None,
    benchmark: str | None = None,
    library: str | None = None,
) -> ParsedLog:
    if any(run.has_cpu_time for run in runs):
        resolver.notice(
            Caution.DERIVED_TIME,
            "the benchmark printed the CPU's time (-C 1), which is not the collective's: left out",
            "measure again without -C.",
        )
    fingerprint = make_fingerprint(runs, resolver)
    table, keys = make_sample_table(runs, resolver, launch)
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
        environment=resolver.environment,
    )


def find_two_libraries(versions: Iterable[str]) -> tuple[str, str] | None:
    """The first two versions that cannot be one library's; None where there are none.

    One library is 2.29.2 in a benchmark's line and 2.29.2+cuda13.1 in its own.
    """
    all_versions = list(versions)
    for i, one in enumerate(all_versions):
        for other in all_versions[i + 1 :]:
            (number, build), (number_2, build_2) = map(_split_version, (one, other))
            if number != number_2 or (build and build_2 and build != build_2):
                return one, other
    return None


def _split_version(text: str) -> tuple[str, str]:
    """Number and build."""
    match = re.match(r"[\d.]*", text)
    number = match[0] if match is not None else ""
    return number, text[len(number) :]
