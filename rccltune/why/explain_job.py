"""Why rules were or were not used, from a job's logs: files to facts to answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rccltune.logs import log_files
from rccltune.logs.file_kinds import FileKind
from rccltune.logs.parsed_log import ParsedLog, read_stream
from rccltune.model.errors import OutputError, RccltuneError, TooLittleDataError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import Setting
from rccltune.model.text import join_lines
from rccltune.model.vocabulary import Collective
from rccltune.why import lines, remedies
from rccltune.why.compose_report import compose_report
from rccltune.why.job_logs import Call, JobLogs
from rccltune.why.job_report import CommunicatorScale, JobReport, TypeAndOperation
from rccltune.why.knowledge import JobKnowledge


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
    knowledge = JobKnowledge(next(iter(rules), None))
    job = JobLogs()
    facts = lines.LineReader(job)
    for path in (one for one in paths if one not in rules):
        paths_by_size = lines.read_job_file(path, facts)
        if paths_by_size is not None:
            _read_table(path, paths_by_size, job, collective)
    facts.finish()
    report = compose_report(job, knowledge)
    if job.is_empty or not report.answers:
        raise _no_answer(paths, job)
    return report


def _no_answer(paths: Sequence[Path], job: JobLogs) -> TooLittleDataError:
    message = (
        "nothing here tells what a tuner was asked: no line of the library's log of tuners, "
        "communicators or choices, none of the plugin's"
    )
    return TooLittleDataError(
        join_lines([message, *(f"  {text}" for text in sorted(job.unread_tables))]),
        where=", ".join(map(str, paths[:8])),
        hint=f"{remedies.TELL_ALL}.",
    )


# --- reading --------------------------------------------------------------------------------------


def _is_rule_file(path: Path) -> bool:
    with log_files.open_log(path) as stream:
        head = log_files.read_head(stream, str(path))
    return log_files.detect_kind_of_head(head) is FileKind.RULES


def _parse_table(path: Path, collective: Collective | None) -> ParsedLog:
    """A benchmark's table, with what the user says where it does not name its collective."""
    try:
        return _parse_stated(path, StatedFacts())
    except RccltuneError:
        if collective is None:
            raise
        return _parse_stated(path, StatedFacts(collective=collective))


def _parse_stated(path: Path, stated: StatedFacts) -> ParsedLog:
    with log_files.open_log(path) as stream:
        return read_stream(log_files.read_lines(stream, str(path)), str(path), stated, "why")


def _read_table(
    path: Path, paths_by_size: dict[int, str], job: JobLogs, collective: Collective | None
) -> None:
    """Record the calls of a benchmark's table, and what its own columns say of what ran."""
    try:
        table = _parse_table(path, collective)
    except RccltuneError as error:
        # All else in the file was read; what its rows lack is said.
        job.unread_tables.append(f"{path}: {error.message}")
        return
    job.n_tables += table.tables
    columns = (table.table[name].tolist() for name in ("key", "nbytes", "ran", "line"))
    for number, nbytes, ran, line in zip(*columns, strict=True):
        key = table.keys[number]
        if nbytes <= 0:
            continue
        where = CommunicatorScale(key.scale.n_nodes, key.scale.n_ranks)
        call_type = TypeAndOperation(key.dtype, key.op)
        path_name = paths_by_size.get(nbytes, "")
        place = f"{path}:{line}"
        job.add_call(
            Call("called", where, key.collective, nbytes, path=path_name, call_type=call_type),
            place,
        )
        if ran and not path_name:
            # How many channels a size gets is no choice of a rule's; they would part every range.
            cell = replace(Setting.parse(ran), channels=None)
            text = f"{place}: the row says that {cell} ran"
            job.add_call(Call("ran", where, key.collective, nbytes, setting=cell), text)
