"""What nccl-tests writes with ``-J``, of any size, and a cursor over any JSON."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, BinaryIO, Final

from rccltune.logs import columns
from rccltune.logs.drafts import Passes, RepeatedSizeError, Run, Said
from rccltune.logs.jobs import Preamble, Rank
from rccltune.logs.who import CHOOSING, commanded
from rccltune.model.errors import OutputError
from rccltune.model.settings import Setting
from rccltune.model.times import derived_us, is_usable, printed_or_none
from rccltune.model.vocabulary import Doubt, Placement

_CHUNK: Final = 1 << 20
_MAX_VALUE: Final = 16 << 20
_BLANK: Final = " \t\r\n"


# A whole string, or one that goes on behind the end; else a number that is seen to end.
_PRINTF: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|(?<=[\s:,\[])-?(?:inf|nan)(?=[\s,}\]])')
_AS_JSON: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-nan": "NaN"}


def _as_json(match: re.Match[str]) -> str:
    return _AS_JSON.get(match[0], match[0])


class CutError(Exception):
    """The file ends inside a value."""


class JsonSource:
    """A cursor over JSON text; numbers are given as they are written."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        """Nothing was read yet."""
        self._stream = stream
        self._name = name
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._json = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)

    @property
    def line(self) -> int:
        """Line of the cursor, from 1."""
        return self._line + self._text.count("\n", 0, self._at)

    def peek(self) -> str:
        """Next character that is no blank; empty at the end of the file."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text) or not self._fill():
                return self._text[self._at : self._at + 1]

    def skip(self, characters: str) -> bool:
        """Step over one character if it is one of these."""
        found = self.peek()
        if not found or found not in characters:
            return False
        self._at += 1
        return True

    def expect(self, character: str) -> None:
        """Step over a character that must come.

        Raises:
            CutError: the file ends.
            OutputError: another one comes.
        """
        if not self.skip(character):
            if not self.peek():
                raise CutError
            raise self._invalid(f"'{character}' is missing")

    def value(self) -> object:
        """The next whole value.

        Raises:
            CutError: the file ends inside it.
            OutputError: it is no JSON, or larger than any record of a benchmark.
        """
        if not self.peek():
            raise CutError
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except RecursionError as error:
                raise self._invalid("it is nested too deep") from error
            except ValueError as error:
                if self._mend():
                    continue
                if len(self._text) - self._at > _MAX_VALUE:
                    raise self._invalid("one value is larger than 16 MiB") from error
                if not self._fill():
                    raise self._cut_or_invalid(error) from error
                continue
            # A number that touches the end of what was read may go on.
            if end == len(self._text) and self._fill():
                continue
            self._at = end
            return value

    def _mend(self) -> bool:
        """Rewrite numbers as printf writes them, from the cursor on; False where none is whole.

        printf writes infinity in a way that no JSON reader takes. The cursor stands outside of
        strings, so that texts are told from numbers.
        """
        rest = self._text[self._at :]
        mended = _PRINTF.sub(_as_json, rest)
        if mended == rest:
            return False
        self._text = self._text[: self._at] + mended
        return True

    def _cut_or_invalid(self, error: ValueError) -> Exception:
        position = error.pos if isinstance(error, json.JSONDecodeError) else self._at
        rest = self._text[position:].strip()
        # An unterminated string is reported where it begins; all else where the text ends.
        if len(rest) <= len("Infinity") or "Unterminated" in str(error):
            return CutError()
        return self._invalid(str(error).partition(":")[0])

    def _fill(self) -> bool:
        if self._ended:
            return False
        self._line = self.line
        chunk = self._stream.read(_CHUNK)
        self._ended = not chunk
        if b"\0" in chunk:
            raise OutputError(
                "the file is binary: it holds a zero byte",
                where=self._name,
                hint="give the benchmark's text, CSV or JSON output.",
            )
        text = self._utf8.decode(chunk, final=self._ended)
        self._text = self._text[self._at :] + text
        self._at = 0
        return not self._ended or bool(text)

    def _invalid(self, why: str) -> OutputError:
        return OutputError(
            f"the file begins as JSON but is not valid: {why}",
            where=f"{self._name}:{self.line}",
            hint="give the file as the benchmark wrote it.",
        )


_CHOOSES: Final = re.compile(CHOOSING)
_HALVES: Final = (
    ("out_of_place", Placement.OUT_OF_PLACE),
    ("in_place", Placement.IN_PLACE),
)
# printf's %lf: six decimals, whatever the size of the number.
_STEP: Final = 1e-6


class ResultsFile:
    """Reads one object, key by key, so that a file cut off by a crash gives what it holds."""

    def __init__(self, source: JsonSource, name: str) -> None:
        """Nothing was read yet."""
        self.run: Run | None = None
        self.version: str | None = None
        self.cut = False
        self.n_rows = 0
        self._source = source
        self._name = name
        self._variables: dict[str, str] = {}
        self._preamble = Preamble(line=1)
        self._passes: dict[tuple[str, str], Passes] = {}
        self._said: dict[tuple[str, str, Placement], Said] = {}

    def read(self) -> None:
        """Read to the end, or to where the file is cut.

        Raises:
            OutputError: not JSON, or not of this form.
        """
        source = self._source
        try:
            source.expect("{")
            while not source.skip("}"):
                key = source.value()
                source.expect(":")
                if key == "results":
                    self._results()
                else:
                    self._fact(str(key), source.value())
                source.skip(",")
        except CutError:
            self.cut = True

    def _results(self) -> None:
        self.run = Run(said=self._preamble.said(), unit=_STEP, ordered=self._variables)
        source = self._source
        source.expect("[")
        while not source.skip("]"):
            line = source.line
            value = source.value()
            if not isinstance(value, dict):
                raise self._strange("a result is no object", line)
            self._result(value, line)
            source.skip(",")

    def _fact(self, key: str, value: Any) -> None:  # noqa: ANN401 - whatever the file holds
        if key in ("nccl_version", "rccl_version"):
            self.version = str(value)
        elif key == "args" and isinstance(value, list) and value:
            self._preamble.collective = commanded(str(value[0]))
        elif key == "env" and isinstance(value, list):
            pairs = (str(each).partition("=") for each in value)
            self._variables = {name: text for name, _, text in pairs if _CHOOSES.fullmatch(name)}
        elif key == "config" and isinstance(value, dict):
            self._config(value)
        elif self.run is not None and isinstance(value, dict):
            self._summary(key, value)

    def _config(self, config: Mapping[str, Any]) -> None:
        names = {"nthreads": "nThread", "ngpus": "nGpus", "graph": "graph:"}
        for theirs, ours in names.items():
            if str(config.get(theirs)).isdecimal():
                self._preamble.numbers[ours] = int(config[theirs])
        devices = config.get("devices")
        for each in devices if isinstance(devices, list) else ():
            rank = _rank(each)
            if rank is not None:
                self._preamble.ranks[rank.group, rank.rank] = rank

    def _summary(self, key: str, value: Mapping[str, Any]) -> None:
        if self.run is None:
            return
        if key == "average_bus_bandwidth":
            self.run.average = self._average(value.get("bandwidth"))
            self.run.average_line = self._source.line
        elif key == "out_of_bounds" and value.get("okay") in ("false", False):
            self.run.out_of_bounds = 1

    def _average(self, value: object) -> float | None:
        try:
            average = _number(value)
        except ValueError as error:
            raise self._strange(f"its average is mangled: {error}", self._source.line) from error
        return average if average is not None and isfinite(average) else None

    def _result(self, result: Mapping[str, Any], line: int) -> None:
        try:
            nbytes = columns.size(str(result["size"]))
            count = columns.size(str(result["count"]))
            kind = (str(result["type"]), str(result["redop"]))
            halves = [(p, result[k]) for k, p in _HALVES if isinstance(result.get(k), dict)]
            passes = self._passes.setdefault(kind, Passes())
            cycle = passes.cycle(nbytes, line)
            for placement, half in halves:
                place = (line, nbytes, count, cycle)
                ran = _tuning(half.get("tuning", result.get("tuning")))
                self._half(place, self._of(kind, placement, line), half, ran)
        except (KeyError, ValueError) as error:
            raise self._strange(f"a result lacks or mangles {error}", line) from error
        except RepeatedSizeError as error:
            raise self._strange(f"size {error.nbytes} is there twice", line) from error
        self.n_rows += 1

    def _half(
        self,
        place: tuple[int, int, int, int],
        said: Said,
        half: Mapping[str, Any],
        ran: tuple[Setting | None, Doubt | None],
    ) -> None:
        run = self.run
        line, nbytes, count, cycle = place
        if run is None:
            return
        algbw, busbw = _number(half.get("alg_bw")), _number(half.get("bus_bw"))
        value = _number(half.get("time"))
        time_us = value if is_usable(value) else None
        if value is None and "cpu_time" in half:
            run.cputime = True
            is_exact = algbw is not None and algbw > _STEP * 100
            time_us = derived_us(nbytes, algbw) if is_exact else None
        nwrong = half.get("nwrong")
        n_wrong = None if nwrong is None else columns.wrong(str(nwrong))
        doubt = columns.doubt_of(nbytes, time_us, n_wrong)
        if doubt is None and time_us is not None and algbw is not None and "time" in half:
            known = said.collective is None or not said.collective.has_own_algbw
            if known and not columns.agree(nbytes, time_us, algbw, _STEP, _STEP):
                doubt = Doubt.INCONSISTENT
        executed, bypassed = ran
        run.drafts.append(
            (line, nbytes, count, time_us, n_wrong, doubt or bypassed, cycle, executed, said)
        )
        run.add(line, algbw, busbw)

    def _of(self, kind: tuple[str, str], placement: Placement, line: int) -> Said:
        half = (*kind, placement)
        found = self._said.get(half)
        if found is None:
            own = Said(line=line, dtype=kind[0], redop=kind[1], placement=placement)
            whole = self._preamble.said()
            found = self._said[half] = own.or_else(whole)
        return found

    def _strange(self, what: str, line: int) -> OutputError:
        return OutputError(
            f"the file looks like nccl-tests -J, but {what}",
            where=f"{self._name}:{line}",
            hint="give the file as the benchmark wrote it.",
        )


def _tuning(value: object) -> tuple[Setting | None, Doubt | None]:
    """What ran, as nccl-tests from 2.20 on says with ``-U 1``; a path has no algorithm."""
    if not isinstance(value, dict):
        return None, None
    words = [str(value.get(name) or "-") for name in ("algo", "proto", "#channels")]
    ran, doubt = columns.executed(*words)
    is_path = ran is None and str(value.get("implementation") or "-") != "-"
    return ran, Doubt.BYPASSED if is_path else doubt


def _rank(device: object) -> Rank | None:
    if not isinstance(device, dict):
        return None
    try:
        return Rank(
            group=int(device.get("group", 0)),
            rank=int(device["rank"]),
            host=str(device["hostname"]).strip(),
            device=f"{device.get('device')} [{device.get('device_hex')}]",
            product=str(device.get("device_info") or "").strip(),
            line=1,
        )
    except (KeyError, ValueError, TypeError):
        return None


def _number(value: object) -> float | None:
    """A number as written; None for null."""
    return printed_or_none(str(value))
