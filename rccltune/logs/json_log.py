"""Benchmarks' JSON: ``-J`` of nccl-tests, and records of rccl-tests' ``-Z json``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from rccltune.logs import columns
from rccltune.logs.commands import find_benchmark
from rccltune.logs.facts import LogFacts, LogRun
from rccltune.logs.long_table import is_measured, make_runs, parse_whole_number
from rccltune.logs.resolver import Resolver
from rccltune.logs.timings import fill_run
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution
from rccltune.model.times import printed_or_none
from rccltune.model.vocabulary import Placement

_AGAIN: Final = "give the file as the benchmark wrote it, with -Z json or -J."
# A string, which stays as it is, or a number as printf writes what is none.
_PRINTF: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|(?<=[\s:,\[])-?(?:inf|nan)(?=[\s,}\]]|$)')
_AS_JSON: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}
_RESULTS: Final = re.compile(r'(?<!\\)"results"\s*:\s*(?=\[)')
_BETWEEN: Final = re.compile(r"[\s,]*")
# What may stand where a file was cut inside a word or a number.
_CUT: Final = re.compile(r"[\w.+\\-]*\s*")
# Numbers are given as they are written.
_DECODER: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


class CutError(Exception):
    """The file ends inside a value."""


class JsonText:
    """A whole file of JSON."""

    def __init__(self, data: bytes, name: str) -> None:
        """Take a file's content."""
        text = data.decode("utf-8", "replace")
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
        is_array = self.text[at : at + 1] == "["
        at, start, line = self._next(at + is_array), 0, 1
        while at < len(self.text) and self.text[at] != "]":
            line, start = line + self.text.count("\n", start, at), at
            value, end = self.value(at)
            yield line, value, end
            at = self._next(end)
        if is_array and at >= len(self.text):
            raise CutError

    def _next(self, at: int) -> int:
        match = _BETWEEN.match(self.text, at)
        return at if match is None else match.end()

    def value(self, at: int = 0) -> tuple[Any, int]:
        """The value at a place, and its end.

        Raises:
            CutError: the file ends inside it.
            OutputError: it is no JSON.
        """
        try:
            return _DECODER.raw_decode(self.text, self._next(at))
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


def read_records(source: JsonText, resolver: Resolver) -> list[LogRun]:
    """Read all records; those with other fields are other tables of the same file.

    Raises:
        OutputError: no record, or one that cannot be read.
        CommandLineError: an option contradicts a record.
    """
    tables: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {}
    try:
        for line, value, _ in source.values():
            record = value if isinstance(value, dict) else {}
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
        if not is_measured(names):
            wrapped = next((one for one in ("log", "message") if one in names), None)
            raise OutputError(
                "this JSON is no benchmark's output: it has "
                f"{', '.join(names)[:120] or 'no fields'}",
                where=resolver.where(rows[0][0]),
                hint=_AGAIN if wrapped is None else f"take its text out: jq -rj .{wrapped} FILE",
            )
        facts = LogFacts(line=rows[0][0])
        runs += make_runs(names, rows, facts, resolver, ordered=True, unsure=True)
    if not runs:
        raise OutputError("the JSON holds no results", where=resolver.name, hint=_AGAIN)
    return runs


_HALVES: Final = {"out_of_place": Placement.OUT_OF_PLACE, "in_place": Placement.IN_PLACE}
# What a half says, by the names of a table of cells.
_NUMBERS: Final = {
    "time": "time", "cpu_time": "cputime", "alg_bw": "algbw", "bus_bw": "busbw",
}  # fmt: skip
# printf's %lf: six decimals, whatever the size of the number.
_STEP: Final = 1e-6


def read_results(source: JsonText, resolver: Resolver) -> tuple[LogRun, str | None]:
    """The run of an nccl-tests -J file, and the library's version; one cut by a crash is closed.

    Raises:
        OutputError: not JSON, not of this form, or no result in it.
    """
    rows: list[dict[str, Any]] = []
    n_sizes, is_cut = 0, False
    # What stands around the results is read without them; a run that crashed does not close it.
    start = _RESULTS.search(source.text)
    before = source.text if start is None else f"{source.text[: start.end()]}[]"
    try:
        if start is not None:
            end = start.end()
            first = source.line(end) - 1
            for line, result, after in source.values(end):
                rows += _read_result(result, first + line, source.name)
                n_sizes, end = n_sizes + 1, after
            source.text = before + source.text[source.text.index("]", end) + 1 :]
        whole, _ = source.value()
    except CutError:
        is_cut = True
        source.text = f"{before}}}"
        whole = source.value()[0] if rows else {}
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
    version = next((str(whole[k]) for k in ("nccl_version", "rccl_version") if k in whole), None)
    return _make_run(whole, rows, source.name), version


def _read_result(result: object, line: int, name: str) -> Iterator[dict[str, Any]]:
    """A result's timings."""
    if not isinstance(result, dict):
        raise _not_of_this_form("a result is no object", name, line)
    try:
        for half, (key, placement) in enumerate(_HALVES.items()):
            timing = result.get(key)
            if not isinstance(timing, dict):
                continue
            tuning = timing.get("tuning", result.get("tuning"))
            tuning = tuning if isinstance(tuning, dict) else {}
            wrong = timing.get("nwrong")
            yield {
                "line": line,
                "half": half,
                "placement": placement.value,
                "nbytes": parse_whole_number(str(result["size"])),
                "count": parse_whole_number(str(result["count"])),
                "dtype": str(result["type"]),
                "redop": str(result["redop"]),
                "wrong": columns.parse_wrong_count("" if wrong is None else str(wrong)),
                **{o: printed_or_none(str(timing[t])) for t, o in _NUMBERS.items() if t in timing},
                "ran_algorithm": str(tuning.get("algo") or "-"),
                "ran_protocol": str(tuning.get("proto") or "-"),
                "ran_channels": str(tuning.get("#channels") or "-"),
                "path": str(tuning.get("implementation") or "-") if tuning else "-",
                **{k: each for k, each in timing.items() if columns.is_percentile(k)},
            }
    except (KeyError, ValueError, TypeError) as error:
        raise _not_of_this_form(f"a result lacks or mangles {error}", name, line) from error


def _make_run(whole: Mapping[str, Any], rows: list[dict[str, Any]], name: str) -> LogRun:
    import pandas as pd

    args, env, config = (whole.get(name) for name in ("args", "env", "config"))
    env = env if isinstance(env, list) else []
    facts = LogFacts(
        line=1,
        collective=find_benchmark(str(args[0])) if isinstance(args, list) and args else None,
        variables=dict(str(each).partition("=")[::2] for each in env),
        names_environment=bool(env),
    )
    if isinstance(config, dict):
        facts = facts.or_else(_read_scale(config))
    run = LogRun(facts=facts, unit=_STEP)
    cells = pd.DataFrame(rows)
    known = [number for number in _NUMBERS.values() if number in cells]
    cells = cells.astype(dict.fromkeys(known, "float64"))
    cells["odd"] = {"time", "algbw"} <= set(cells) and columns.disagree(
        cells["nbytes"], cells["time"], cells["algbw"], _STEP, _STEP
    )
    fill_run(run, cells, name)
    average, bounds = whole.get("average_bus_bandwidth"), whole.get("out_of_bounds")
    if isinstance(average, dict):
        try:
            value = printed_or_none(str(average.get("bandwidth")))
        except ValueError as error:
            raise _not_of_this_form(f"its average is mangled: {error}", name, 1) from error
        run.average = value if value is not None and isfinite(value) else None
    if isinstance(bounds, dict) and bounds.get("okay") in ("false", False):
        run.out_of_bounds = 1
    return run


def _read_scale(config: Mapping[str, Any]) -> LogFacts:
    """Ranks, nodes and GPUs: some releases list the first GPU of each process alone."""
    entries = config.get("devices")
    entries = entries if isinstance(entries, list) else []
    devices = [one for one in entries if isinstance(one, dict)]
    per_process = _read_count(config, "ngpus", 1) * _read_count(config, "nthreads", 1)
    hosts = [str(one.get("hostname", "")).strip() for one in devices]
    groups = [one.get("group", 0) for one in devices]
    ranks = {str(one.get("rank")) for one in devices}
    processes = {(h, str(one.get("pid"))) for h, one in zip(hosts, devices, strict=True)}
    n_all = max(len(processes) * per_process, len(ranks))
    products = sorted({str(one.get("device_info") or "").strip() for one in devices} - {""})
    graph = _read_count(config, "graph", -1)
    first = {h for h, group in zip(hosts, groups, strict=True) if group == groups[0]}
    return LogFacts(
        line=1,
        n_ranks=n_all // len(set(map(str, groups))) if devices else None,
        n_nodes=len(first) or None,
        graph=graph > 0 if graph >= 0 else None,
        product=" + ".join(products) or None,
        hosts=tuple(dict.fromkeys(hosts)),
        devices=tuple(
            f"{host} {one.get('device')} [{one.get('device_hex')}]"
            for host, one in zip(hosts, devices, strict=True)
        ),
        ranks_per_process=per_process if "ngpus" in config else None,
    )


def _read_count(config: Mapping[str, Any], name: str, otherwise: int) -> int:
    text = str(config.get(name))
    return int(text) if text.isdecimal() and len(text) < 10 else otherwise


def _not_of_this_form(what: str, name: str, line: int) -> OutputError:
    return OutputError(
        f"the file looks like nccl-tests -J, but {what}", where=f"{name}:{line}", hint=_AGAIN
    )
