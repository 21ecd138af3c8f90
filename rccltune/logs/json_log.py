"""Benchmarks' JSON: ``-J`` of nccl-tests, ``-Z json`` of rccl-tests, and graphs of ROCm/cvs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, BinaryIO, Final

from rccltune.logs import columns
from rccltune.logs.commands import CHOOSING, benchmark_of_command, choice_facts, words_of
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.log_runs import Preamble, RankLine
from rccltune.logs.long_table import cells_by_role, runs_of, whole_number
from rccltune.logs.resolver import Resolver
from rccltune.logs.timings import fill
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution
from rccltune.model.times import printed_or_none
from rccltune.model.vocabulary import Placement

_AGAIN: Final = "give the file as the benchmark wrote it."
# A string, which stays as it is, or a number as printf writes what is none.
_PRINTF: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|(?<=[\s:,\[])-?(?:inf|nan)(?=[\s,}\]]|$)')
_AS_JSON: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}
_RESULTS: Final = re.compile(r'(?<!\\)"results"\s*:\s*\[')
# What may stand where a file was cut inside a word or a number.
_CUT: Final = re.compile(r"[\w.+\\-]*\s*")
_DECODER: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class CutError(Exception):
    """The file ends inside a value."""


class JsonText:
    """A whole file of JSON; numbers are given as they are written."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        """Read the file.

        Raises:
            OutputError: a byte that no text has.
        """
        data = stream.read()
        if b"\0" in data:
            raise OutputError("the file is binary: it holds a zero byte", where=name, hint=_AGAIN)
        text = data.decode("utf-8-sig", "replace")
        self.text = _PRINTF.sub(lambda match: _AS_JSON.get(match[0], match[0]), text)
        self.name = name

    def line(self, at: int) -> int:
        """Line of a place, from 1."""
        return self.text.count("\n", 0, at) + 1

    def values(self, at: int = 0) -> Iterator[tuple[int, Any, int]]:
        """Values one after the other, of an array or of the whole file: line, value, end.

        Raises:
            CutError: the file ends inside a value, or the array does not end.
            OutputError: it is no JSON.
        """
        text, line, counted_to = self.text, 1, 0
        is_array = text[at : at + 1] == "["
        at += is_array
        while (at := _skip(text, at)) < len(text) and text[at] != "]":
            line, counted_to = line + text.count("\n", counted_to, at), at
            value, at = self.value(at)
            yield line, value, at
        if is_array and at >= len(text):
            raise CutError

    def value(self, at: int) -> tuple[Any, int]:
        """The value at a place, and its end.

        Raises:
            CutError: the file ends inside it.
            OutputError: it is no JSON.
        """
        try:
            return _DECODER.raw_decode(self.text, at)
        except RecursionError:
            why, where = "it is nested too deep", at
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated") or _CUT.fullmatch(self.text, error.pos):
                raise CutError from error
            why, where = error.msg, error.pos
        raise OutputError(
            f"the file begins as JSON but is not valid: {why}",
            where=f"{self.name}:{self.line(where)}",
            hint=_AGAIN,
        )


def _skip(text: str, at: int) -> int:
    """The next place that is no blank and no comma."""
    match = re.compile(r"[\s,]*").match(text, at)
    return at if match is None else match.end()


def read_records(source: JsonText, resolver: Resolver) -> list[LogRun]:
    """Read all records; those with other fields are other tables of the same file.

    Raises:
        OutputError: no record, or one that cannot be read.
        CommandLineError: an option contradicts a record.
    """
    tables: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {}
    line = 1
    try:
        for line, value, _ in source.values(_skip(source.text, 0)):
            for record in _records(value):
                cells = ["" if each is None else str(each) for each in record.values()]
                tables.setdefault(tuple(record), []).append((line, cells))
    except CutError:
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            "the file ends inside a record, which is left out",
            "give the whole file.",
            source.line(len(source.text.rstrip())),
        )
    runs: list[LogRun] = []
    for names, rows in tables.items():
        lines = [line for line, _ in rows]
        where = resolver.where(lines[0])
        try:
            table = cells_by_role(names, [cells for _, cells in rows], lines, where)
        except OutputError as error:
            raise OutputError(
                "this JSON is no benchmark's output: it has "
                f"{', '.join(names)[:120] or 'no fields'}",
                where=where,
                hint="give the file that the benchmark wrote with -Z json or -J.",
            ) from error
        runs += runs_of(table, LogFacts(line=lines[0]), resolver, ordered=True, unsure=True)
    if not runs:
        raise OutputError(
            "the JSON holds no results",
            where=resolver.name,
            hint="give the file that the benchmark wrote with -Z json or -J.",
        )
    return runs


def _records(value: object) -> Iterator[dict[str, Any]]:
    """The record that a value is; of a graph of cvs one for each series and size.

    cvs keeps one row of each size, the last that the benchmark wrote, which is the one in place
    (cvs/lib/rccl_lib.py, convert_to_graph_dict).
    """
    record = {str(name): each for name, each in value.items()} if isinstance(value, dict) else {}
    sizes = next(iter(record.values()), None)
    row = next(iter(sizes.values()), None) if isinstance(sizes, dict) else None
    if not (isinstance(row, dict) and "bus_bw" in row):
        yield record
        return
    for series, rows in record.items():
        collective = benchmark_of_command(series)
        algorithm, protocol = words_of(series)
        for nbytes, each in rows.items() if isinstance(rows, dict) else ():
            told = each if isinstance(each, dict) else {}
            yield {
                "collective": collective.value if collective else "",
                "algorithm": algorithm,
                "protocol": protocol,
                "nbytes": nbytes,
                **{name: told.get(name) for name in ("time", "alg_bw", "bus_bw")},
                "placement": "in",
            }


_HALVES: Final = {"out_of_place": Placement.OUT_OF_PLACE, "in_place": Placement.IN_PLACE}
# What a half says, by the names of a table of cells.
_NUMBERS: Final = {
    "time": "time", "cpu_time": "cputime", "alg_bw": "algbw", "bus_bw": "busbw",
}  # fmt: skip
_CHOOSES: Final = re.compile(CHOOSING)
# printf's %lf: six decimals, whatever the size of the number.
_STEP: Final = 1e-6


def read_results(source: JsonText, resolver: Resolver) -> tuple[LogRun, str | None]:
    """The run of an nccl-tests -J file, and the library's version; one cut by a crash is closed.

    Raises:
        OutputError: not JSON, not of this form, or no result in it.
    """
    start = _RESULTS.search(source.text)
    rows: list[dict[str, Any]] = []
    n_sizes, is_cut, end = 0, start is None, 0
    # What stands before and behind the results, in which an end that is lost is put.
    before, behind = source.text, ""
    if start is not None:
        before, end = source.text[: start.end()], start.end()
        try:
            for line, result, after in source.values(start.end() - 1):
                rows += _rows(result, source.line(start.start()) + line - 1, source.name)
                n_sizes, end = n_sizes + 1, after
            behind = source.text[source.text.index("]", end) :]
        except CutError:
            behind, is_cut = "]}", True
    source.text = before + behind
    try:
        whole, _ = source.value(_skip(source.text, 0))
    except CutError:
        source.text, is_cut = before + "]}", True
        whole = source.value(_skip(source.text, 0))[0] if start is not None else {}
    if not rows:
        raise OutputError(
            "the run stopped before its first result" if is_cut else "the JSON has no results",
            where=resolver.name,
            hint="look at what the run printed, then measure again.",
        )
    if is_cut:
        resolver.notice(
            Caution.INCOMPLETE_LOG,
            f"the file is not finished: the run stopped after {n_sizes} sizes",
            "measure again what is missing; what was read is kept.",
        )
    return _run(whole, rows, source.name), _version(whole)


def _version(whole: Mapping[str, Any]) -> str | None:
    return next((str(whole[k]) for k in ("nccl_version", "rccl_version") if k in whole), None)


def _rows(result: object, line: int, name: str) -> Iterator[dict[str, Any]]:
    """A result's timings."""
    if not isinstance(result, dict):
        raise _strange("a result is no object", name, line)
    try:
        for half, (key, placement) in enumerate(_HALVES.items()):
            result_value = result.get(key)
            if not isinstance(result_value, dict):
                continue
            tuning = result_value.get("tuning", result.get("tuning"))
            tuning = tuning if isinstance(tuning, dict) else {}
            numbers = {
                ours: result_value[theirs]
                for theirs, ours in _NUMBERS.items()
                if theirs in result_value
            }
            yield {
                "line": line,
                "half": half,
                "placement": placement.value,
                "nbytes": whole_number(str(result["size"])),
                "count": whole_number(str(result["count"])),
                "dtype": str(result["type"]),
                "redop": str(result["redop"]),
                "wrong": columns.wrong_count(
                    str("" if result_value.get("nwrong") is None else result_value["nwrong"])
                ),
                **{k: printed_or_none(str(each)) for k, each in numbers.items()},
                "ran_algorithm": str(tuning.get("algo") or "-"),
                "ran_protocol": str(tuning.get("proto") or "-"),
                "ran_channels": str(tuning.get("#channels") or "-"),
                "path": str(tuning.get("implementation") or "-") if tuning else "-",
                **{k: each for k, each in result_value.items() if columns.is_percentile(k)},
            }
    except (KeyError, ValueError, TypeError) as error:
        raise _strange(f"a result lacks or mangles {error}", name, line) from error


def _run(whole: Mapping[str, Any], rows: list[dict[str, Any]], name: str) -> LogRun:
    import pandas as pd

    preamble = Preamble(line=1)
    args, env = whole.get("args"), whole.get("env")
    if isinstance(args, list) and args:
        preamble.collective = benchmark_of_command(str(args[0]))
    pairs = (str(each).partition("=") for each in (env if isinstance(env, list) else ()))
    config = whole.get("config")
    if isinstance(config, dict):
        for theirs, ours in (("nthreads", "nThread"), ("ngpus", "nGpus"), ("graph", "graph:")):
            if str(config.get(theirs)).isdecimal():
                preamble.numbers[ours] = int(config[theirs])
        devices = config.get("devices")
        for rank in filter(None, map(_rank, devices if isinstance(devices, list) else ())):
            preamble.ranks[rank.group, rank.rank] = rank
    ordered = {name: text for name, _, text in pairs if _CHOOSES.fullmatch(name)}
    said = preamble.said().or_else(LogFacts(line=1, **choice_facts(ordered)))
    run = LogRun(said=said, unit=_STEP)
    cells = pd.DataFrame(rows)
    for number in _NUMBERS.values():
        if number in cells:
            cells[number] = cells[number].astype(float)
    cells["odd"] = False
    if {"time", "algbw"} <= set(cells):
        cells["odd"] = columns.disagree(
            cells["nbytes"], cells["time"], cells["algbw"], _STEP, _STEP
        )
    fill(run, cells, name)
    _summaries(run, whole, name)
    return run


def _summaries(run: LogRun, whole: Mapping[str, Any], name: str) -> None:
    """Take what the benchmark itself sums up."""
    average, bounds = whole.get("average_bus_bandwidth"), whole.get("out_of_bounds")
    if isinstance(average, dict):
        try:
            value = printed_or_none(str(average.get("bandwidth")))
        except ValueError as error:
            raise _strange(f"its average is mangled: {error}", name, 1) from error
        run.average = value if value is not None and isfinite(value) else None
    if isinstance(bounds, dict) and bounds.get("okay") in ("false", False):
        run.out_of_bounds = 1


def _rank(device: object) -> RankLine | None:
    if not isinstance(device, dict):
        return None
    try:
        return RankLine(
            group=int(device.get("group", 0)),
            rank=int(device["rank"]),
            host=str(device["hostname"]).strip(),
            device=f"{device.get('device')} [{device.get('device_hex')}]",
            product=str(device.get("device_info") or "").strip(),
            line=1,
        )
    except (KeyError, ValueError, TypeError):
        return None


def _strange(what: str, name: str, line: int) -> OutputError:
    return OutputError(
        f"the file looks like nccl-tests -J, but {what}", where=f"{name}:{line}", hint=_AGAIN
    )
