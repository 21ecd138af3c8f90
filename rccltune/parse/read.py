"""The way in: one file, or one launch's output, to one reading."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from rccltune.errors import OutputError
from rccltune.model import Caution, Stated
from rccltune.parse.assemble import fingerprint_of, samples_of
from rccltune.parse.book import Book
from rccltune.parse.delimited import DelimitedFile
from rccltune.parse.draft import Run
from rccltune.parse.form import Form, form_of
from rccltune.parse.json_records import read_records
from rccltune.parse.nccl_json import ResultsFile
from rccltune.parse.pull import JsonSource
from rccltune.parse.reading import Reading
from rccltune.parse.resolve import Resolver
from rccltune.parse.source import head_of, lines_of, open_log
from rccltune.parse.text import TextReader


def read(path: Path, stated: Stated, launch: str) -> Reading:
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
        form = form_of(head)
        resolver = Resolver(name, stated)
        match form:
            case Form.RULES:
                raise OutputError(
                    "this is a rule file, not a measurement",
                    where=name,
                    hint=f"see what it does with: rccltune explain {name}",
                )
            case Form.TEXT:
                return _text(lines_of(stream, name), resolver, launch)
            case Form.DELIMITED:
                table = DelimitedFile(lines_of(stream, name), resolver)
                runs = table.read()
                return _reading(runs, resolver, launch, form, origin=table.origin)
            case Form.RECORDS:
                runs = read_records(JsonSource(stream, name), resolver)
                return _reading(runs, resolver, launch, form)
            case Form.RESULTS:
                return _results(stream, resolver, launch)


def read_stream(lines: Iterable[bytes], name: str, stated: Stated, launch: str) -> Reading:
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
        return _text(lines, Resolver(name, stated), launch)


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


def _text(lines: Iterable[bytes], resolver: Resolver, launch: str) -> Reading:
    reader = TextReader(resolver.name)
    runs = reader.read(lines)
    book = reader.book
    if not runs:
        raise _nothing(book)
    _notes(book, runs, resolver)
    return _reading(
        runs, resolver, launch, Form.TEXT, benchmark=book.benchmark, library=book.library
    )


def _nothing(book: Book) -> OutputError:
    """Why a log has no rows, as well as it tells."""
    if book.failures:
        line, text = book.failures[0]
        what, hint = f"the benchmark failed before its first row: {text}", "mend that"
    elif book.headers:
        line, what = book.headers[-1], "the table's header has no row below it"
        hint = "look at how the run ended"
    elif book.started is not None:
        line, what = book.started, "the benchmark started but printed no table"
        hint = "look at how the run ended"
    else:
        line, text = book.first or (0, "")
        what = f"there is no benchmark table in this file; it begins: {text[:100]}"
        hint = "give the benchmark's own output"
    return OutputError(
        what,
        where=f"{book.name}:{line}" if line else book.name,
        hint=f"{hint}, then measure again and import the new log.",
    )


def _notes(book: Book, runs: Sequence[Run], resolver: Resolver) -> None:
    again = "measure again what is missing; what was read is kept."
    for line, text in book.notes:
        resolver.notice(Caution.INCOMPLETE_LOG, text, again, line)
    for line, text in book.failures[:1]:
        resolver.notice(Caution.INCOMPLETE_LOG, f"a run failed: {text}", again, line)
    for run in book.runs:
        if not run.drafts and not book.failures:
            text = "a table's header has no row below it"
            resolver.notice(Caution.INCOMPLETE_LOG, text, again, run.header)
    for run in runs:
        if run.max_size is not None:
            resolver.notice(
                Caution.INCOMPLETE_LOG,
                f"the run ends at {run.last_size} bytes, it was asked to go to {run.max_size}",
                again,
                run.drafts[-1][0],
            )


def _results(stream: BinaryIO, resolver: Resolver, launch: str) -> Reading:
    file = ResultsFile(JsonSource(stream, resolver.name), resolver.name)
    file.read()
    if file.run is None or not file.run.drafts:
        raise OutputError(
            "the run stopped before its first result" if file.cut else "the JSON has no results",
            where=resolver.name,
            hint="look at what the run printed, then measure again.",
        )
    if file.cut:
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            f"the file is not finished: the run stopped after {file.n_rows} sizes",
            "measure again what is missing; what was read is kept.",
        )
    return _reading([file.run], resolver, launch, Form.RESULTS, library=file.version)


def _reading(
    runs: list[Run],
    resolver: Resolver,
    launch: str,
    form: Form,
    *,
    origin: str | None = None,
    benchmark: str | None = None,
    library: str | None = None,
) -> Reading:
    if any(run.cputime for run in runs):
        resolver.notice(
            Caution.DERIVED_TIME,
            "the benchmark printed the CPU's time (-C 1); times are worked out from algbw where "
            "it has enough digits",
            "measure again without -C.",
        )
    fingerprint = fingerprint_of(runs, resolver)
    samples = samples_of(runs, resolver, launch)
    return Reading(
        samples=samples,
        notices=tuple(resolver.notices),
        fingerprint=fingerprint,
        tables=len(runs),
        form=form.value,
        origin=origin,
        benchmark=benchmark,
        library_version=library,
    )
