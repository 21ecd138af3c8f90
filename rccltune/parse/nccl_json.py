"""The ``-J`` file of nccl-tests (and of newer rccl-tests): one object for one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rccltune.errors import OutputError
from rccltune.parse import numbers
from rccltune.parse.draft import Passes, RepeatedSizeError, Run, Said
from rccltune.parse.preamble import Preamble, Rank, commanded, marked
from rccltune.parse.pull import CutError, JsonSource
from rccltune.units import MOST_US
from rccltune.vocab import Collective, Doubt, Placement

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
        self.run = Run(said=self._preamble.said())
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
            forced = [
                str(each) for each in value if str(each).startswith(("NCCL_ALGO=", "NCCL_PROTO="))
            ]
            self._preamble.setting = marked(" ".join(forced))
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
            self.run.average = _number(value.get("bandwidth"))
            self.run.average_line = self._source.line
        elif key == "out_of_bounds" and value.get("okay") in ("false", False):
            self.run.out_of_bounds = 1

    def _result(self, result: Mapping[str, Any], line: int) -> None:
        try:
            nbytes = numbers.size(str(result["size"]))
            count = numbers.size(str(result["count"]))
            kind = (str(result["type"]), str(result["redop"]))
            halves = [(p, result[k]) for k, p in _HALVES if isinstance(result.get(k), dict)]
            passes = self._passes.setdefault(kind, Passes())
            cycle = passes.cycle(nbytes, line)
            for placement, half in halves:
                place = (line, nbytes, count, cycle)
                self._half(place, self._of(kind, placement, line), half)
        except (KeyError, ValueError) as error:
            raise self._strange(f"a result lacks or mangles {error}", line) from error
        except RepeatedSizeError as error:
            raise self._strange(f"size {error.nbytes} is there twice", line) from error
        self.n_rows += 1

    def _half(self, place: tuple[int, int, int, int], said: Said, half: Mapping[str, Any]) -> None:
        run = self.run
        line, nbytes, count, cycle = place
        if run is None:
            return
        algbw, busbw = _number(half.get("alg_bw")), _number(half.get("bus_bw"))
        time_us = _number(half.get("time"))
        if time_us is None and "cpu_time" in half:
            run.cputime = True
            time_us = nbytes / algbw / 1000.0 if algbw and algbw > _STEP * 100 else None
        time_us = time_us if time_us is not None and time_us > 0 else None
        nwrong = half.get("nwrong")
        n_wrong = None if nwrong is None else numbers.wrong(str(nwrong))
        doubt = numbers.doubt_of(nbytes, time_us, n_wrong)
        if doubt is None and time_us is not None and algbw is not None and "time" in half:
            known = said.collective not in (Collective.HYPERCUBE, Collective.ALLTOALLV)
            if known and not numbers.agree(nbytes, time_us, algbw, _STEP, _STEP):
                doubt = Doubt.INCONSISTENT
        run.drafts.append((line, nbytes, count, time_us, n_wrong, doubt, cycle, None, said))
        if busbw is not None:
            run.busbw_sum += busbw
            run.n_busbw += 1
        if busbw is not None and algbw is not None and algbw > run.peak[0]:
            run.peak = (algbw, busbw, line)

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
    """A number as written; None for null, nan, infinity and what is none."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if abs(number) < MOST_US else None
