"""What a time is, every reader decides alike: of a log, of JSON, of a table, of our own file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sample_records import records
from sample_rows import Sample, frame, samples_of

from rccltune.logs.parsed_log import read_log
from rccltune.model.errors import OutputError, RccltuneError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE, CurveKey, Scale
from rccltune.model.vocabulary import Collective, Placement, UnusableReason
from rccltune.session import samples_csv

HEAD = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20\n"
NAMES = "# out-of-place\n#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
RANKS = "".join(
    f"#  Rank {r} Group 0 Pid {r} on a device {r} [0x05] AMD Instinct MI300X\n" for r in (0, 1)
)
STATED = StatedFacts(setting=BASELINE, collective=Collective.ALL_REDUCE, n_ranks=2, n_nodes=1)
# As C prints it, with two decimals or an exponent; what a division by zero leaves; nothing at all.
FIGURES = st.floats().flatmap(
    lambda x: st.sampled_from((f"{x:.2f}", f"{x:g}", f"{x:.1e}", repr(x), f"{x:.6e}"))
)
WORDS = st.sampled_from(
    ("nan", "-nan", "inf", "-inf", "0", "0.00", "-0.0", "-1", "1e15", "9.99e14", "1e-320", "1e400")
)
ABSENT = ("N/A", "-", "null", "None")
NO_NUMBERS = ("1_000", "١٢", "1,5", "12us", "0x10", "1e", "--", "nil")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all words."""
    return tmp_path_factory.mktemp("times")


def only(found: tuple[Sample, ...]) -> float | None:
    """The time of the one half-row."""
    (one,) = found
    assert (one.time_us is None) <= (one.doubt is not None)
    return one.time_us


def of_file(folder: Path, name: str, text: str) -> float | None:
    """As a file of somebody is read."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return only(samples_of(read_log(path, STATED, "L")))


def of_log(folder: Path, word: str) -> float | None:
    """rccl-tests' table; one whose only row is not understood has none."""
    row = f"        1024           256     float     sum      -1  {word}  0.00  0.00  0\n"
    return of_file(folder, "x.log", HEAD + RANKS + NAMES + row)


def of_table(folder: Path, word: str) -> float | None:
    """Comma-separated, with our names."""
    return of_file(folder, "x.csv", f"collective,nbytes,time_us\nall_reduce,1024,{word}\n")


def of_records(folder: Path, word: str) -> float | None:
    """rccl-tests' -Z json."""
    record = {"collective": "all_reduce", "size": 1024, "time": word, "algBw": ""}
    return of_file(folder, "records.json", json.dumps([record]))


def of_results(folder: Path, word: str) -> float | None:
    """nccl-tests' -J; a number where JSON has one for it."""
    half = {"time": "@", "alg_bw": None, "bus_bw": None, "nwrong": 0}
    one = {"size": 1024, "count": 256, "type": "float", "redop": "sum", "out_of_place": half}
    text = json.dumps({"version": 3, "args": ["all_reduce_perf"], "config": {}, "results": [one]})
    return of_file(folder, "results.json", text.replace('"@"', json.dumps(word)))


def of_own(folder: Path, word: str) -> float | None:
    """samples.csv; a time that is none stands there as nothing, with a doubt."""
    path = folder / "samples.csv"
    with path.open("wb") as stream:
        samples_csv.write(frame([SAMPLE]), stream)
    path.write_text(path.read_text().replace(",1024,,,", f",1024,,{word},"))
    return only(records(samples_csv.read(path)))


SAMPLE = Sample(
    key=CurveKey(
        collective=Collective.ALL_REDUCE,
        setting=BASELINE,
        placement=Placement.IN_PLACE,
        scale=Scale(n_nodes=1, n_ranks=2),
    ),
    launch="L",
    nbytes=1024,
    time_us=None,
    doubt=UnusableReason.NO_TIME,
)
READERS = (of_log, of_table, of_records, of_results, of_own)


def taken(read_one: Callable[[Path, str], float | None], folder: Path, word: str) -> float | None:
    """What is computed with; nothing where a reader refuses the word or its row."""
    with suppress(RccltuneError):
        return read_one(folder, word)
    return None


@settings(max_examples=10)
@given(FIGURES | WORDS)
@example("1e15")
@example("nan")
@example("0.00")
@example("2.03219e-302")
@example("0.001953125")
def test_all_readers_take_the_same_times(folder: Path, word: str) -> None:
    """Positive, finite and below thirty years: those, and as they are written.

    Our own file has six digits of a time, or a tenth of a nanosecond where that is finer.
    """
    value = float(word)
    # No reader takes what a double holds with fewer digits.
    assume(not 0 < value < sys.float_info.min)
    expected = value if 0 < value < 1e15 else None
    times = {one.__name__: taken(one, folder, word) for one in READERS}
    # Of an exponent of three digits pandas before 3.1 misses the last bit.
    assert times == {
        one.__name__: expected
        and pytest.approx(expected, rel=5.1e-6 if one is of_own else 1e-15, abs=0)
        for one in READERS
    }


@pytest.mark.parametrize("word", [*ABSENT, *NO_NUMBERS])
def test_no_reader_makes_a_time_of_what_is_none(folder: Path, word: str) -> None:
    """Words for nothing, and what only Python or nobody reads as a number."""
    assert not {one.__name__ for one in READERS if taken(one, folder, word) is not None}


@pytest.mark.parametrize("read_one", [of_table, of_records, of_results])
def test_a_word_for_nothing_is_no_mistake_and_another_is(
    read_one: Callable[[Path, str], float | None], folder: Path
) -> None:
    """Where cells may be empty the half-row stays, doubted; a mangled one is refused."""
    assert all(read_one(folder, word) is None for word in ABSENT)
    for word in NO_NUMBERS:
        with pytest.raises(OutputError):
            read_one(folder, word.replace(",", ";"))
