"""JSON records of rccl-tests' ``-Z json``: one object a line, or an array of them."""

from __future__ import annotations

from collections.abc import Sequence

from rccltune.errors import OutputError
from rccltune.model import Caution
from rccltune.parse.draft import Run, Said
from rccltune.parse.pull import CutError, JsonSource
from rccltune.parse.records import RecordReader
from rccltune.parse.resolve import Resolver

_HINT = "give the file that the benchmark wrote with -Z json or -J."


def read_records(source: JsonSource, resolver: Resolver) -> list[Run]:
    """Read all records; those with other fields are other tables of the same file.

    Raises:
        OutputError: no record, or one that cannot be read.
        CommandLineError: an option contradicts a record.
    """
    readers: dict[tuple[str, ...], RecordReader] = {}
    source.skip("[")
    while source.peek() not in ("", "]"):
        line = source.line
        try:
            value = source.value()
        except CutError:
            resolver.notice(
                Caution.INCOMPLETE_LOG,
                "the file ends inside a record, which is left out",
                "give the whole file.",
                line,
            )
            break
        record = value if isinstance(value, dict) else {}
        names = tuple(str(name) for name in record)
        reader = readers.get(names)
        if reader is None:
            reader = readers[names] = _reader(names, resolver, line)
        reader.row(line, ["" if each is None else str(each) for each in record.values()])
        source.skip(",")
    runs = [run for reader in readers.values() for run in reader.finish() if run.drafts]
    if not runs:
        raise OutputError("the JSON holds no results", where=resolver.name, hint=_HINT)
    return runs


def _reader(names: Sequence[str], resolver: Resolver, line: int) -> RecordReader:
    try:
        reader = RecordReader(names, Said(line=line), resolver, ordered=True)
    except OutputError as error:
        raise OutputError(
            f"this JSON is no benchmark's output: it has {', '.join(names)[:120] or 'no fields'}",
            where=resolver.where(line),
            hint=_HINT,
        ) from error
    reader.unsure_of_nodes()
    return reader
