"""Whatever bytes it is given: our own error, with file, line and next step."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_rows import samples_of

from rccltune.logs.parsed_log import read_log, read_stream
from rccltune.model.errors import OutputError, RccltuneError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE
from rccltune.model.vocabulary import Collective

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

ALL = StatedFacts(
    collective=Collective.ALL_REDUCE, setting=BASELINE, n_ranks=8, n_nodes=1, dtype="float"
)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b" \n\n \t\n", "blanks"),
        (b"\x00\x01\x02\x03", "binary"),
        (b"some text\nmore \x00 text\n", "binary"),
        (b"\x7fELF\x02\x01", "a program"),
        # Without the time of day, which would be part of the test's name: pytest's workers must
        # agree on every name, or none of them runs a test.
        (gzip.compress(b"# nThread 1", mtime=0), "gunzip"),
        (b"hello world\n", "no benchmark table"),
        # Seen: a minute for 28 blank lines, twice that for each more.
        (b"\n" * 60 + b"hello world\n", "no benchmark table"),
        (b"4096,25.3\n8192,26.1\n", "the columns nbytes and time_us"),
        (b"size,alg,ms\n1,2,3\n", "the columns nbytes and time_us"),
        (b"allreduce,0,65536,tree,ll,2,1,8,-1,-1\n", "rule file"),
        (b"#@ format 1\nallreduce,0,65536,tree,ll,2,1,8,-1,-1\n", "rule file"),
        (b"coll_type,min_bytes,max_bytes\n", "rule file"),
    ],
)
def test_files_that_are_no_output(read_text: ReadText, content: bytes, says: str) -> None:
    """Exit 6, what it is instead, and what to do."""
    with pytest.raises(OutputError) as error:
        read_text(content, ALL)
    assert says in error.value.message + str(error.value.hint)
    assert "x.log" in str(error.value.where)
    assert error.value.hint
    assert error.value.exit_code == 6


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """A session is one too, and needs no import."""
    with pytest.raises(OutputError, match="this is a folder"):
        read_log(tmp_path, ALL, "L")
    (tmp_path / "session.json").write_text("{}")
    with pytest.raises(OutputError, match="this folder is a session"):
        read_log(tmp_path, ALL, "L")


@pytest.mark.parametrize(
    ("name", "text", "what", "verb"),
    [
        (
            "r.csv",
            "#@ format 1\n#@ comm x\ncollective,nBytes,nRanks,nNodes,calls\nallreduce,8,8,1,3\n",
            "record of the calls",
            "rccltune workload {}/r.csv",
        ),
        (
            "record.csv",
            "collective,nBytes,nRanks,nNodes,calls\nallreduce,8,8,1,3\n",
            "record of the calls",
            "rccltune workload {}/record.csv",
        ),
        (
            "samples.csv",
            "collective,n_nodes,n_ranks,rank_placement,dtype\n",
            "table of a session's samples",
            "rccltune fit {}",
        ),
    ],
)
def test_files_of_ours_that_another_verb_reads(
    tmp_path: Path, name: str, text: str, what: str, verb: str
) -> None:
    """What it is, and the command that reads it."""
    (tmp_path / name).write_text(text)
    with pytest.raises(OutputError, match=what) as error:
        read_log(tmp_path / name, ALL, "L")
    assert str(error.value.hint).endswith(verb.format(tmp_path))


@pytest.mark.parametrize("cut", range(1, 90, 7))
def test_a_cut_last_line(bench: Bench, read_text: ReadText, cut: int) -> None:
    """A last row without its end is left out and said to be; whole rows before it stay."""
    text = bench.facts() + bench.header() + bench.rows([8, 16, 32])
    reading = read_text(text[:-cut])
    whole = {8: 2, 16: 2}
    counts = {n: sum(s.nbytes == n for s in samples_of(reading)) for n in (8, 16)}
    assert counts == whole
    if any(s.nbytes == 32 for s in samples_of(reading)):
        # Only the line end, or digits of the last number, are gone.
        assert cut < 6
    elif text[:-cut].splitlines()[-1].split()[3:]:
        assert any("1 row is not whole" in n.message for n in reading.notices)


@pytest.mark.parametrize(
    "line",
    [
        "#  Rank " + "9" * 5000 + " Group  0 Pid 1 on h device 0 [0] x",
        "# nThread " + "9" * 5000,
        "# Avg bus bandwidth : " + "9" * 5000,
        "# Avg bus bandwidth : 1.2.3",
        "# Out of bounds values : " + "9" * 5000 + " FAILED",
        "h:1:2 [0] NCCL INFO x rank 1 nranks " + "9" * 5000 + " commId 0x1",
        "h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo 9 proto 9 channel{Lo..Hi}={5..1}",
        "h:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo 12 proto 2",
        "9" * 5000 + " 1 float sum -1 1 1 1 0 1 1 1 0",
        "8 " + "9" * 5000 + " float sum -1 1 1 1 0 1 1 1 0",
        "8 2 float sum -1 1e" + "9" * 5000 + " 1 1 0 1 1 1 0",
        "8 2 float sum -1 1e-320 1 1 0 1 1 1 0",
        "8 2 float sum -1 1 nan nan 0 1 inf inf 0",
        "8 2 float sum -1 1 1 1 1e400 1 1 1 0",
        "-8 2 float sum -1 1 1 1 0 1 1 1 0",
        "² 2 float sum -1 1 1 1 0 1 1 1 0",
    ],
)
def test_absurd_lines_in_a_log(bench: Bench, read_text: ReadText, line: str) -> None:
    """Numbers no machine has change nothing but what they stand in."""
    text = bench.facts() + bench.header() + bench.row(1 << 20, 58.2, 58.3) + line + "\n"
    found = samples_of(read_text(text))
    assert [s.time_us for s in found[:2]] == [58.2, 58.3]


def test_a_stream_of_lines(bench: Bench) -> None:
    """A launch's standard output is read without a file."""
    lines = bench.run([8, 16]).encode().splitlines(keepends=True)
    reading = read_stream(iter(lines), "launch 1f", ALL, "L")
    assert len(samples_of(reading)) == 4
    with pytest.raises(OutputError) as error:
        read_stream([], "launch 1f", ALL, "L")
    assert error.value.where == "launch 1f"


SOUP = st.one_of(
    st.binary(max_size=400),
    st.text(alphabet='#0123456789.e+-, \n\t{}[]":NA/floatsumsizeimebuswrgx', max_size=400).map(
        str.encode
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=SOUP)
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    """Samples, or our own error; nothing else, whatever comes."""
    path = tmp_path / "soup"
    path.write_bytes(content)
    with suppress(RccltuneError):
        read_log(path, ALL, "L")
