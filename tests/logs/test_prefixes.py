"""Hand-made: what launchers, loggers and copy-and-paste put around a benchmark's text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rccltune.logs.library import NOISE, cut_log
from rccltune.model.measurement import Caution, StatedFacts

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

PREFIXES = [
    " 0: ",
    "12: ",
    "[STAT]: ",
    "[STAT]:",
    "[1,0]<stdout>: ",
    "[1,0]<stdout>:",
    "[prterun-node0-1234@1,0]<stdout>: ",
    "[0] ",
    "2026-01-31T23:59:59.123Z ",
    "[2026-01-31 23:59:59] ",
    "23:59:59.12 ",
    "> ",
    "[1,0]<stdout>: 2026-01-31 23:59:59 ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_on_every_line_changes_nothing(
    bench: Bench, read_text: ReadText, prefix: str
) -> None:
    """Rows, header and facts are found behind it."""
    plain = bench.run([8, 16, 32])
    labelled = "".join(prefix + line for line in plain.splitlines(keepends=True))
    assert read_text(labelled).samples == read_text(plain).samples


def test_ranks_that_print_tables_of_their_own(
    bench: Bench, read_text: ReadText, make_bench: type[Bench]
) -> None:
    """A benchmark without MPI under srun --label: every task is a run of its own."""
    one = make_bench(bench.collective, 2).run([8, 16, 32])
    lines = one.splitlines()
    text = "".join(f"{task}: {line}\n" for line in lines for task in range(3))
    reading = read_text(text)
    assert reading.tables == 3
    assert {s.launch for s in reading.samples} == {"L:1", "L:2", "L:3"}
    assert len(reading.samples) == 18


@pytest.mark.parametrize("host", ["node0", "38dcf168f605", "0-digit.example.org"])
@pytest.mark.parametrize("cuts", [(1,), (2,), (5,), (1, 2), (5, 9)])
def test_messages_inside_a_row(
    bench: Bench, read_text: ReadText, host: str, cuts: tuple[int, ...]
) -> None:
    """A row goes on after any number of messages, wherever they were glued in.

    The host's name may begin with digits that touch the row's own.
    """
    message = f"{host}:1:2 [0] NCCL INFO something 1 2 3\n"
    words = bench.row(1 << 20, 58.2, 58.3).split()
    text = bench.facts().replace("node0", host) + message + bench.header()
    last = 0
    for cut in (*cuts, len(words)):
        glued = cut != len(words)
        blank = "" if cut > 4 else " "
        text += "   " + "  ".join(words[last:cut]) + (blank + message if glued else "\n")
        text += message * 3 if glued else ""
        last = cut
    if cuts[0] < 3:
        # So little of a row is not known for one; it is left out and said to be missing.
        return
    reading = read_text(text + bench.footer())
    assert [(s.nbytes, s.time_us) for s in reading.samples] == [
        (1 << 20, 58.2),
        (1 << 20, 58.3),
    ]


def test_a_row_whose_rest_never_comes(bench: Bench, read_text: ReadText) -> None:
    """It is left out, with a notice that says where."""
    text = bench.facts() + bench.header() + bench.row(8, 10.0, 10.5)
    text += "          16             4     float     sum      -1node0:1:2 [0] NCCL INFO bye\n"
    reading = read_text(text + bench.footer())
    assert len(reading.samples) == 2
    assert [n.caution for n in reading.notices] == [Caution.INCOMPLETE_LOG]
    assert str(reading.notices[0].where).endswith(f":{text.count(chr(10))}")


LABELS = (
    "[default0]:", "hostA: ", "(Worker pid=3808) ", "\x1b[36m(head, rank=0, pid=12)\x1b[0m ",
    "web-1  | ", "pod-7f9-x2 nccl ", "2026-01-31T23:59:{i:02}.123456789Z stdout F ",
    "Jan 31 12:00:{i:02} host app[12]: ", "{i:5}\t", "{i}: ", "[  12.3456{i}] ", "node7: [1,0]<stdout>:",
)  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_labels_of_any_launcher_hide_nothing(bench: Bench, read_text: ReadText, label: str) -> None:
    """Facts, a command, rows and the library's messages are what they are without them."""
    info = "".join(
        f"node{r // 4}:1:{r} [{r}] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 8 cudaDev"
        f" {r} busId 1000 commId 0xabc - Init COMPLETE\n"
        for r in range(8)
    )
    facts = [line for line in bench.facts().splitlines() if " Rank " not in line]
    command = "mpirun -x NCCL_ALGO=Ring ./all_reduce_perf\n"
    plain = "\n".join([*facts, command + info + bench.header() + bench.rows([8, 16, 1 << 20])])
    lines = plain.splitlines(keepends=True)
    labelled = "".join(label.format(i=10 + i) + line for i, line in enumerate(lines))
    found = read_text(labelled, StatedFacts()).samples
    assert found == read_text(plain, StatedFacts()).samples
    assert {(str(s.key.setting), s.key.scale.n_nodes) for s in found} == {("ring/-", 2)}


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
def test_a_message_of_any_level_is_noise_and_ends_a_row(message: str) -> None:
    """Whole lines are passed over; glued into a row it is cut off where the host begins."""
    for before in ("", "[1,0]<stdout>: ", "[2026-11-23 02:26:09] "):
        match = NOISE.match((before + message).encode())
        assert match is not None
        assert match[1] == b"node1"
    assert cut_log(f"  8  2  float  19.57  0{message}", {"node1"}) == (
        "  8  2  float  19.57  0",
        True,
    )
