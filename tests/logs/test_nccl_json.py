"""``-J`` files, hand-made after nccl-tests ``src/util.cu`` (2.19.6); no public file exists."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from sample_rows import samples_of

from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution
from rccltune.model.settings import Scale
from rccltune.model.vocabulary import Collective, Placement, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import Lookup, ReadText

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE


def half(nbytes: int, time: float, **other: object) -> dict[str, Any]:
    """One placement of a result."""
    algbw = round(nbytes / time / 1000, 6)
    return {"time": time, "alg_bw": algbw, "bus_bw": round(algbw * 1.5, 6), "nwrong": 0.0} | other


def result(nbytes: int, time: float, **other: object) -> dict[str, Any]:
    """One element of ``results``."""
    return {
        "size": nbytes, "count": nbytes // 4, "type": "float", "redop": "sum", "root": "    -1",
        "out_of_place": half(nbytes, time), "in_place": half(nbytes, time + 1),
        "actual_iterations": 20, "experiment_name": "",
    } | other  # fmt: skip


def document(*results: dict[str, Any], version: int = 3, **other: object) -> dict[str, Any]:
    """A whole file."""
    devices = [
        {
            "rank": r, "group": 0, "pid": 7, "hostname": f"node{r // 2}", "device": r % 2,
            "device_hex": "0000:05:00", "device_info": "AMD Instinct MI300X",
        }
        for r in range(4)
    ]  # fmt: skip
    config = {"nthreads": 1, "ngpus": 1, "graph": 0, "blocking_collectives": "false"}
    key = "nccl_version" if version == 3 else "rccl_version"
    whole = {
        "version": version, "start_time": "2026-01-31 23:59:59",
        "args": ["/opt/all_reduce_perf", "-b", "8"], "env": ["HOME=/root"], key: 22705,
        "config": config | {"devices": devices}, "results": list(results),
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 0.0, "okay": "unchecked"},
        "errors": [], "end_time": "2026-01-31 23:59:59",
    }  # fmt: skip
    return whole | other


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_whole_file(read_text: ReadText, at: Lookup, version: int, indent: int | None) -> None:
    """Collective from the program's name, scale from the devices, all numbers."""
    text = json.dumps(document(result(8, 10.0), result(1024, 12.5), version=version), indent=indent)
    reading = read_text(text)
    assert len(samples_of(reading)) == 4
    sample = at(samples_of(reading), 1024, IN)
    assert (sample.time_us, sample.count, sample.n_wrong) == (13.5, 256, 0)
    assert (sample.key.collective, sample.key.graph) == (Collective.ALL_REDUCE, False)
    assert sample.key.scale == Scale(n_nodes=2, n_ranks=4)
    assert reading.fingerprint.product == "AMD Instinct MI300X"
    assert reading.library_version == "22705"


@pytest.mark.parametrize("keep", [0.3, 0.5, 0.7, 0.9])
def test_a_crashed_run_leaves_an_unfinished_file(read_text: ReadText, keep: float) -> None:
    """Complete results are read, with a notice; a file without any is an error."""
    whole = json.dumps(document(*[result(8 << i, 10.0 + i) for i in range(40)]))
    reading = read_text(whole[: int(len(whole) * keep)])
    assert 0 < len(samples_of(reading)) < 80
    assert len(samples_of(reading)) % 2 == 0
    assert [n.caution for n in reading.notices] == [Caution.INCOMPLETE_LOG]
    begin = whole.index('"results"')
    for cut in (1, 20, begin, begin + 30):
        with pytest.raises(OutputError):
            read_text(whole[:cut])


def test_unchecked_wrong_and_missing(read_text: ReadText, at: Lookup) -> None:
    """nwrong may be null; a null placement was not measured; nan is no time."""
    text = json.dumps(
        document(
            result(8, 10.0, out_of_place=half(8, 10.0, nwrong=None)),
            result(16, 10.0, out_of_place=half(16, 10.0, nwrong=3.0)),
            result(32, 10.0, out_of_place=None),
            result(64, 10.0, out_of_place=half(64, 10.0) | {"time": "nan"}),
        )
    )
    samples = samples_of(read_text(text))
    assert at(samples, 8, OUT).n_wrong is None
    assert at(samples, 16, OUT).doubt is UnusableReason.WRONG
    assert [s.key.placement for s in samples if s.nbytes == 32] == [IN]
    assert at(samples, 64, OUT).doubt is UnusableReason.NO_TIME


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 3, "results": [1, 2]}',
        '{"version": 3, "results": [{"size": 8}]}',
        '{"version": 3, "results": 5}',
        '{"version": 3, "results": []}',
        '{"version": 3}',
        '{"version": 3, "results": [{"size": 8 "count": 2}], "and": "much more text behind"}',
        '{"version": 3, 5: 6, "end": "................................"}',
        '{"version": ' + "[" * 100_000,
        "[[[[{]",
        "{}",
        "[]",
        '{"a": 1}',
    ],
)
def test_json_that_is_none_of_ours(read_text: ReadText, text: str) -> None:
    """Every one is our own error, with the file."""
    with pytest.raises(OutputError) as error:
        read_text(text)
    assert "x.log" in str(error.value.where)
