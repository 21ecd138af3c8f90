"""Hand-made: what launchers, containers and loggers put around a benchmark's text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sample_rows import samples_of

from rccltune.logs.library_log import NOISE
from rccltune.logs.wrappers import FORMS
from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, StatedFacts

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

COMMAND = "mpirun -x NCCL_ALGO=Ring -x NCCL_PROTO=LL ./all_reduce_perf\n"
# Forms inside of each other, and with numbers that grow.
MORE = (
    "[1,0]<stdout>: 2026-01-31 23:59:59 ", "node7: [1,0]<stdout>:", "> > ", "[STAT]:",
    "\x1b[36m(head, rank=0, pid=12)\x1b[0m ", "{i:5}\t", "{i}: ", "[  12.3456{i}] ",
    "2026-01-31T23:59:{i:02}.123456789Z stdout F ",
)  # fmt: skip


@pytest.mark.parametrize("before", [*(example for _, _, example in FORMS), *MORE])
def test_what_stands_before_every_line_hides_nothing(
    bench: Bench, read_text: ReadText, before: str
) -> None:
    """Facts, a command, rows and the library's messages are what they are without it."""
    info = "".join(
        f"node{r // 4}:1:{r} [{r}] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 8 cudaDev"
        f" {r} busId 1000 commId 0xabc - Init COMPLETE\n"
        for r in range(8)
    )
    facts = [line for line in bench.facts().splitlines() if " Rank " not in line]
    plain = "\n".join([*facts, COMMAND + info + bench.header() + bench.rows([8, 16, 1 << 20])])
    lines = plain.splitlines(keepends=True)
    wrapped = "".join(before.format(i=10 + i) + line for i, line in enumerate(lines))
    found = samples_of(read_text(wrapped, StatedFacts()))
    assert found == samples_of(read_text(plain, StatedFacts()))
    assert {(str(s.key.setting), s.key.scale.n_nodes) for s in found} == {("ring/ll", 2)}


@pytest.mark.parametrize("form", ["docker", "journald", "jq", "utf-16", "crlf"])
def test_texts_inside_of_other_forms(bench: Bench, read_text: ReadText, form: str) -> None:
    """Lines of JSON with one field of text, jq's strings, Windows' encodings and line ends."""
    plain = bench.run([8, 16, 32])
    lines = plain.splitlines(keepends=True)
    wrapped = {
        "docker": "".join(
            json.dumps({"log": line, "stream": "stdout", "time": "2026-04-29T10:11:12.1Z"}) + "\n"
            for line in lines
        ).encode(),
        "journald": "".join(
            json.dumps({"MESSAGE": line.rstrip("\n"), "_PID": "7"}) + "\n" for line in lines
        ).encode(),
        "jq": "".join(json.dumps(line) + "\n" for line in lines).encode(),
        "utf-16": plain.encode("utf-16"),
        "crlf": plain.replace("\n", "\r\n").encode(),
    }
    assert samples_of(read_text(wrapped[form])) == samples_of(read_text(plain))


def test_docker_parts_a_long_line(bench: Bench, read_text: ReadText) -> None:
    """What has no line end goes on in the next record (Docker's json-file driver, 16 KiB)."""
    plain = bench.run([8, 16])
    pieces = [plain[at : at + 50] for at in range(0, len(plain), 50)]
    split = [part for piece in pieces for part in piece.splitlines(keepends=True)]
    text = "".join(json.dumps({"log": part, "stream": "stdout"}) + "\n" for part in split)
    times = [(s.nbytes, s.time_us) for s in samples_of(read_text(plain))]
    assert [(s.nbytes, s.time_us) for s in samples_of(read_text(text))] == times


def test_tables_of_several_tasks_in_one_log_are_refused(
    read_text: ReadText, bench: Bench, make_bench: type[Bench]
) -> None:
    """A benchmark without MPI under srun --label: three jobs write between each other."""
    lines = make_bench(bench.collective, 2).run([8, 16, 32]).splitlines()
    text = "".join(f"{task}: {line}\n" for line in lines for task in range(3))
    with pytest.raises(OutputError, match=r"two rows of one table|does not say"):
        read_text(text)


@pytest.mark.parametrize("cut", [3, 4, 5, 9])
def test_a_row_with_a_message_in_it_is_left_out(
    bench: Bench, read_text: ReadText, cut: int
) -> None:
    """Wherever it is glued in; it is counted, and its rest is no row."""
    words = bench.row(1 << 20, 58.2, 58.3).split()
    begin, rest = "  ".join(words[:cut]), "  ".join(words[cut:])
    text = bench.facts() + bench.header() + bench.row(1 << 19, 40.0, 40.5)
    text += f"   {begin} node0:1:2 [0] NCCL INFO something 1 2 3\n   {rest}\n{bench.footer()}"
    reading = read_text(text)
    assert [(s.nbytes, s.time_us) for s in samples_of(reading)] == [
        (1 << 19, 40.0),
        (1 << 19, 40.5),
    ]
    (said,) = [n for n in reading.notices if "1 row is not whole" in n.message]
    assert said.caution is Caution.INCOMPLETE_LOG
    assert str(said.where).endswith(f":{text.count(chr(10)) - 2 - 1}")


# NCCL's src/debug.cc: what stands before a level in each release; its levels, ATTN from 2.32.3 on.
@pytest.mark.parametrize(
    "message",
    [
        "node1:7:9 [0] NCCL INFO Channel 00/0 : 0 1",
        "node1:7:9 [0] src/init.cc:218 NCCL WARN Missing something",
        "node1:7:9 [0] plugin/tuner.cc:99 (load) NCCL WARN Missing something",
        "node1:7:9 [0] plugin/tuner.cc:99 (load) NCCL ATTN External tuner plugin x is unsupported",
        "node1:7:9 [0] 12.345678 load:99 NCCL TRACE Missing something",
        "node1:7:9 [-1] NCCL INFO no device yet",
    ],
)
def test_a_message_of_any_level_is_passed_over(message: str) -> None:
    """Whole lines are no benchmark's."""
    match = NOISE.match(message.encode())
    assert match is not None
    assert match[1] == b"node1"
