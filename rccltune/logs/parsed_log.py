"""The way in: one file, or one launch's output, to one reading; versions as they are printed."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rccltune.logs.facts import LogRun
from rccltune.logs.file_kinds import FileKind, verb_for
from rccltune.logs.json_log import JsonText, read_records, read_results
from rccltune.logs.log_files import MEASUREMENTS, head_of, kind_of_head, lines_of, open_log
from rccltune.logs.log_samples import fingerprint_of, table_of
from rccltune.logs.long_table import read_table
from rccltune.logs.resolver import Resolver
from rccltune.logs.text_log import TextReader
from rccltune.logs.wrappers import unwrapped
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
            :func:`rccltune.logs.log_samples.table_of` for its columns.
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
    with open_log(path) as stream, _collector_paused():
        kind = kind_of_head(head_of(stream, name))
        if kind not in MEASUREMENTS:
            raise OutputError(
                f"this is a {kind.value}{_REMARKS.get(kind, '')}",
                where=name,
                hint=verb_for(kind, path),
            )
        resolver = Resolver(name, stated)
        lines = lines_of(stream, name)
        if kind is FileKind.TEXT:
            return _text(lines, resolver, launch)
        if kind is FileKind.DELIMITED:
            runs, origin = read_table(lines, resolver)
            return _reading(runs, resolver, launch, kind, origin=origin)
        source = JsonText(b"".join(lines), name)
        if kind is FileKind.RECORDS:
            return _reading(read_records(source, resolver), resolver, launch, kind)
        run, version = read_results(source, resolver)
        return _reading([run], resolver, launch, kind, library=version)


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
    with _collector_paused():
        resolver = Resolver(name, stated)
        resolver.is_trusted = True
        return _text(unwrapped(lines), resolver, launch)


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
    log = TextReader(resolver.name)
    runs = log.read(lines)
    if not runs:
        raise _nothing(log)
    _notes(log, resolver)
    return _reading(
        runs, resolver, launch, FileKind.TEXT, benchmark=log.benchmark, library=log.library
    )


def _nothing(log: TextReader) -> OutputError:
    """Why a log has no rows, as well as it tells."""
    hint = "look at how the run ended, then measure again and import the new log."
    if log.odd:
        line, text = log.odd[0]
        happened = f"rows stand here and none is whole ({log.n_odd}); the first: {text}"
        hint = _APART
    elif log.failures:
        line, text = log.failures[0]
        happened = f"the benchmark failed before its first row: {text}"
        hint = "mend that, then measure again and import the new log."
    elif log.headers:
        line, happened = log.headers[-1], "the table's header has no row below it"
    elif log.started is not None:
        line, happened = log.started, "the benchmark started but printed no table"
    else:
        line, text = log.first or (0, "")
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


def _notes(log: TextReader, resolver: Resolver) -> None:
    again = "measure again what is missing; what was read is kept."
    versions = different_libraries(log.libraries)
    if versions is not None:
        one, other = versions
        raise OutputError(
            f"the file has runs of library {one} (line {log.libraries[one]}) and of {other}, "
            "which may choose and run differently",
            where=f"{log.name}:{log.libraries[other]}",
            hint="split the file, and import each part into a session of its own (-o DIR).",
        )
    if log.odd:
        line, text = min(log.odd)
        count = "1 row is" if log.n_odd == 1 else f"{log.n_odd} rows are"
        message = f"{count} not whole and left out; the first: {text}"
        resolver.notice(Caution.INCOMPLETE_LOG, message, _APART, line)
    for line, text in log.notes:
        resolver.notice(Caution.INCOMPLETE_LOG, text, again, line)
    for line, text in log.failures[:1]:
        resolver.notice(Caution.INCOMPLETE_LOG, f"a run failed: {text}", again, line)
    for table in log.all:
        if not len(table.rows) and not log.failures:
            text = "a table's header has no row below it"
            resolver.notice(Caution.INCOMPLETE_LOG, text, again, table.header)


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
            "the benchmark printed the CPU's time (-C 1), which is not the collective's: left out",
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
        environment=resolver.environment,
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
