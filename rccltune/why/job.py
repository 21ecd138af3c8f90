"""Why rules were or were not used, from a job's logs: files to evidence to answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from rccltune.logs import files, reader
from rccltune.model import grammar
from rccltune.model.errors import OutputError, RccltuneError, TooLittleDataError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import Setting
from rccltune.model.vocabulary import Collective, join_lines
from rccltune.why import knowledge, ranges, records, remedies
from rccltune.why.collector import LogCollector
from rccltune.why.library import LibraryLog
from rccltune.why.plugin_lines import MARK, PluginLines
from rccltune.why.records import CommunicatorScale, JobReport, TypeAndOperation

# A row of a benchmark with -A whose columns name a path, which has no protocol.
_PATH_ROW: Final = re.compile(rb"(?:^|\s)(\d+) +\d+ +[a-z]\w* .*? ([A-Za-z][\w*-]+) +N/A +\d+\s*$")
# How the catalog of variants calls what columns name.
_FEATURES: Final = {"Direct": "direct AllGather", "DDA-IPC": "DDA"}
# Whatever else a job prints, only lines with one of these are looked at. Searching for each costs
# less than one expression for all of them, which every line of a gigabyte would be tried against.
_WANTED: Final = (b"CCL", b"ccl", b"TUNER", b"tuner", b"MSCCL", b" Bytes -> ", b"line ", b" |")
_MAX_REPEATED: Final = 65536
# How many rules a file of ours has, which may be none.
_COUNT: Final = re.compile(rb"^#@ end ", re.MULTILINE)
_RULE_ROW: Final = re.compile(
    r"(?:broadcast|reduce|allgather|reducescatter|allreduce),[0-9]+,[0-9]+,[\w-]+,[\w-]+,"
)
_RCCLX: Final = "RCCL_ENABLE_DDA"


def explain_job(paths: Sequence[Path], collective: Collective | None = None) -> JobReport:
    """Read a job's files and answer for each communicator, collective and size.

    Args:
        paths: the library's logs and the plugin's, in any mixture; and the job's rule file.
        collective: of benchmarks' tables that do not name theirs.

    Raises:
        OutputError: a file cannot be read, or is none of these; several rule files.
        InputFileError: the rule file is refused.
        TooLittleDataError: the files tell nothing that an answer could be built on.
    """
    for path in paths:
        if path.is_dir():
            raise OutputError(
                "this is a folder, and the files of one job are wanted",
                where=str(path),
                hint="name the job's log, the plugin's lines (RCCLTUNE_LOG) and its rule file.",
            )
    rules = [path for path in paths if _is_rule_file(path)]
    if len(rules) > 1:
        raise OutputError(
            "a job has one rule file, and these are several",
            where=", ".join(map(str, rules)),
            hint="name the one that the job had.",
        )
    known = knowledge.JobKnowledge(next(iter(rules), None))
    evidence = LogCollector()
    library, own = LibraryLog(evidence), PluginLines(evidence)
    for path in (one for one in paths if one not in rules):
        rows = _read(path, library, own)
        if rows is not None:
            _read_table(path, rows, evidence, collective)
    job = evidence.finish(library.finish())
    is_rcclx = any(name.startswith(_RCCLX) for name in job.variables)
    known.paths = knowledge.BypassingPaths(variables=job.variables, is_rcclx=is_rcclx)
    report = ranges.job_report(job, known)
    if job.is_empty or not report.answers:
        raise _nothing(paths, job)
    return report


def _nothing(paths: Sequence[Path], job: records.JobLogs) -> TooLittleDataError:
    told = (
        "nothing here tells what a tuner was asked: no line of the library's log of tuners, "
        "communicators or choices, none of the plugin's"
    )
    return TooLittleDataError(
        join_lines([told, *(f"  {text}" for text in sorted(job.unread))]),
        where=", ".join(map(str, paths[:8])),
        hint=f"{remedies.TELL_ALL}.",
    )


# --- reading --------------------------------------------------------------------------------------


# What a table's own columns name as a path, by size.
Named = dict[int, str]


def _read(path: Path, library: LibraryLog, own: PluginLines) -> Named | None:
    """Put down what one file says; what a benchmark's table in it names, None without a table."""
    name = str(path)
    with files.open_log(path) as stream:
        return _read_log(files.labelled_lines_of(stream, name), name, library, own)


def _is_rule_file(path: Path) -> bool:
    """Whether it counts rules as ours do, or its first line that is no comment is one."""
    with files.open_log(path) as stream:
        head = files.head_of(stream, str(path))
    if _COUNT.search(head):
        return True
    lines = (grammar.trim(line) for line in grammar.lines(grammar.text_of(head)))
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return _RULE_ROW.match(first) is not None


def _read_log(
    lines: Iterable[tuple[bytes, bytes]], name: str, library: LibraryLog, own: PluginLines
) -> Named | None:
    known: set[bytes] = set()
    named: Named = {}
    table = False
    for number, (label, raw) in enumerate(lines, 1):
        library.at(f"{name}:{number}")
        if b" Bytes -> " in raw or b"opCount " in raw:
            # What a job repeats for hours is looked at once for each writer.
            if _is_known(raw, known):
                continue
        elif not any(word in raw for word in _WANTED):
            table = table or b"algbw" in raw
            if table and b" N/A " in raw and (row := _PATH_ROW.search(raw)) is not None:
                word = row[2].decode("ascii")
                named[int(row[1][:19])] = _FEATURES.get(word, word)
            continue
        elif b" rank " in raw and b"comm " in raw:
            # A writer with another communicator says other things with the same words.
            known.clear()
        body = raw.decode("utf-8", "replace")
        # The library's messages first: what stands before the plugin's mark may be one of them.
        if MARK in body:
            own.line(name, body, label.decode("utf-8", "replace"))
            body = body.split(MARK)[0]
        if body.strip():
            own.finding(body)
            library.line(body.rstrip("\n"))
    return named if table else None


def _is_known(raw: bytes, known: set[bytes]) -> bool:
    """Whether a writer said the same before; a call's number and addresses are no part of it."""
    at = raw.find(b" NCCL ")
    # host:pid:tid stands before [device]; times and labels before that differ from line to line.
    begin = raw.rfind(b" ", 0, max(raw.rfind(b" ", 0, at), 0)) + 1
    first, second = raw.find(b"opCount "), raw.find(b" count ")
    outside = raw[begin:] if first < 0 else raw[begin:first] + raw[second:]
    if outside in known:
        return True
    if len(known) >= _MAX_REPEATED:
        known.clear()
    known.add(outside)
    return False


def _table_of(path: Path, collective: Collective | None) -> reader.ParsedLog:
    """A benchmark's table, with what the user says where it does not name its collective."""
    try:
        with files.open_log(path) as stream:
            return reader.read_stream(
                files.lines_of(stream, str(path)), str(path), StatedFacts(), "why"
            )
    except RccltuneError:
        if collective is None:
            raise
    stated = StatedFacts(collective=collective)
    with files.open_log(path) as stream:
        return reader.read_stream(files.lines_of(stream, str(path)), str(path), stated, "why")


def _read_table(
    path: Path, named: Named, evidence: LogCollector, collective: Collective | None
) -> None:
    """Read the calls of a benchmark's table, and what its own columns say of what ran."""
    try:
        reading = _table_of(path, collective)
    except RccltuneError as error:
        # All else in the file was read; what its rows lack is said.
        evidence.job.unread.see(f"{path}: {error.message}")
        return
    evidence.job.tables += reading.tables
    columns = (reading.table[name].tolist() for name in ("key", "nbytes", "ran", "line"))
    for number, nbytes, ran, line in zip(*columns, strict=True):
        key = reading.keys[number]
        where = CommunicatorScale(key.scale.n_nodes, key.scale.n_ranks)
        if nbytes <= 0:
            continue
        record = evidence.at(where, key.collective, nbytes)
        record.called = True
        if len(record.kindred) < 64:
            record.kindred.add(TypeAndOperation(key.dtype, key.redop))
        if nbytes in named:
            record.paths.add(named[nbytes])
        elif ran:
            # How many channels a size gets is no choice of a rule's; they would part every range.
            cell = replace(Setting.parse(ran), channels=None)
            record.ran[cell] += cell not in record.ran
            record.shown = record.shown or f"{path}:{line}: the row says that {cell} ran"
            evidence.job.tuning.add(where)
