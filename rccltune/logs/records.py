"""Records in JSON: ``-Z json`` of rccl-tests, and the graphs that ROCm/cvs draws of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rccltune.logs.drafts import Run, Said
from rccltune.logs.json_log import CutError, JsonSource
from rccltune.logs.long_table import RecordReader
from rccltune.logs.resolver import Resolver
from rccltune.logs.who import commanded, words_of
from rccltune.model.errors import OutputError
from rccltune.model.measured import Caution

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
        if _is_graph(record):
            _read_graph(record, readers, resolver, line)
            source.skip(",")
            continue
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


_GRAPH: Final = (
    "collective", "algorithm", "protocol", "nbytes", "time", "algbw", "busbw", "placement",
)  # fmt: skip


def _is_graph(record: Mapping[str, Any]) -> bool:
    """Whether this is what ROCm/cvs draws: by series and size, a time and two bandwidths."""
    sizes = next(iter(record.values()), None)
    row = next(iter(sizes.values()), None) if isinstance(sizes, dict) else None
    return isinstance(row, dict) and "bus_bw" in row


def _read_graph(
    record: Mapping[str, Any],
    readers: dict[tuple[str, ...], RecordReader],
    resolver: Resolver,
    line: int,
) -> None:
    """Read all series; their names tell what ran.

    cvs keeps one row of each size, the last that the benchmark wrote, which is the one in place
    (cvs/lib/rccl_lib.py, convert_to_graph_dict).
    """
    reader = readers.get(_GRAPH)
    if reader is None:
        reader = readers[_GRAPH] = _reader(_GRAPH, resolver, line)
    for series, sizes in record.items():
        collective = commanded(series)
        algorithm, protocol = words_of(series)
        for nbytes, row in sizes.items() if isinstance(sizes, dict) else ():
            numbers = [row.get(name) for name in ("time", "alg_bw", "bus_bw")]
            cells = [collective.value if collective else "", algorithm, protocol, nbytes, *numbers]
            reader.row(line, ["" if each is None else str(each) for each in (*cells, "in")])


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
