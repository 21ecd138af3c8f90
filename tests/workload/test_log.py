"""TUNING logs: every release's line, a real log, and what only the user can say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model import Collective, CommandLineError, RccltuneError, Scale
from rccltune.workload import Source, Stated, read, read_log

Put = Callable[[str, "str | bytes"], Path]
INIT = "n1:{pid}:77 [0] NCCL INFO comm 0x5590 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0\n"
OLD = "n1:5:77 [0] NCCL INFO 4096 Bytes -> Algo 1 proto 0 time 12.8\n"
MIDDLE = "n1:5:77 [0] NCCL INFO AllGather: 4096 Bytes -> Algo 1 proto 0 time 12.8\n"
NEW = "n1:5:77 [0] NCCL INFO AllGather: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}\n"
SIXTEEN = Scale(n_nodes=2, n_ranks=16)


def test_each_releases_lines_are_read(put: Put) -> None:
    """A size with a time is the tuner's; one with channels a rank's own, times 8 for all_gather."""
    text = INIT.format(pid=5) + 2 * MIDDLE + 3 * NEW + OLD

    found = read(put("job.log", text), Stated(collective=Collective.ALL_REDUCE))

    assert [(c.collective, c.nbytes, c.calls) for c in found.counts] == [
        (Collective.ALL_GATHER, 4096, 2),
        (Collective.ALL_GATHER, 8 * 4096, 3),
        (Collective.ALL_REDUCE, 4096, 1),
    ]
    assert found.scales == (Scale(n_nodes=2, n_ranks=8),)
    (one,) = found.recorders
    assert (one.source, one.host, one.pid, one.calls) == (Source.LOG, "n1", 5, 6)


def test_processes_of_one_log_are_told_apart(put: Put) -> None:
    """Rank 0 of each of two communicators wrote into one file."""
    other = NEW.replace("n1:5:", "n2:6:")
    text = INIT.format(pid=5) + INIT.format(pid=6).replace("n1:", "n2:") + NEW + other

    found = read(put("job.log", text))

    assert len(found.recorders) == 2
    assert found.counts[0].calls == 2
    assert found.ranks_at(Scale(n_nodes=2, n_ranks=8)) == 2


def test_what_never_asks_a_tuner_is_set_aside(put: Put) -> None:
    """Newer releases have lines for more than five collectives."""
    text = INIT.format(pid=5) + NEW + NEW.replace("AllGather", "AlltoAll")

    assert read(put("job.log", text)).aside == {"alltoall": 1}


def test_a_real_log_is_read(shared_data: Path) -> None:
    """NCCL 2.29.2 on 4 GPUs (shared/data/INDEX.md): its calls as grep counts them."""
    path = shared_data / "logs/nv34_4gpu_allreduce_rows_split_by_info.log"
    wanted = path.read_text(encoding="utf-8", errors="replace").count(" Bytes -> Algo ")

    found = read(path, Stated(n_ranks=4, n_nodes=1))

    assert found.calls == wanted > 0
    assert {count.collective for count in found.counts} == {Collective.ALL_REDUCE}
    assert {count.nbytes for count in found.counts} >= {268435456}


@pytest.mark.parametrize(
    ("text", "stated", "said", "hint"),
    [
        (NEW, Stated(), "does not say whose its calls are", "--ranks"),
        (
            INIT.format(pid=5) + INIT.format(pid=5).replace("nRanks 8", "nRanks 4") + NEW,
            Stated(),
            "communicators of 4, 8 ranks",
            "RCCLTUNE_RECORD",
        ),
        (INIT.format(pid=5) + OLD, Stated(), "names no collective", "--collective"),
        (INIT.format(pid=5), Stated(), "no line of this log", "NCCL_DEBUG_SUBSYS=INIT,TUNING"),
        (NEW, Stated(n_ranks=2, n_nodes=4), "is no scale", "--ranks and --nodes"),
        (
            INIT.format(pid=5) + INIT.format(pid=5).replace("nNodes 2", "nNodes 4") + NEW,
            Stated(),
            "different numbers of nodes",
            "--nodes",
        ),
    ],
)
def test_what_is_open_is_asked_for(
    put: Put, text: str, stated: Stated, said: str, hint: str
) -> None:
    """With the option that closes it."""
    with pytest.raises(CommandLineError, match=said) as caught:
        read(put("job.log", text), stated)
    assert hint in str(caught.value.hint)


def test_options_say_what_the_log_does_not(put: Put) -> None:
    """Ranks, nodes and the collective."""
    stated = Stated(collective=Collective.REDUCE, n_ranks=16, n_nodes=2)

    found = read(put("job.log", OLD), stated)

    assert [(c.collective, c.scale, c.nbytes) for c in found.counts] == [
        (Collective.REDUCE, SIXTEEN, 4096)
    ]


@given(st.lists(st.sampled_from([INIT, OLD, MIDDLE, NEW, "noise\n", "NCCL INFO "]), max_size=9))
def test_any_mixture_is_read_or_refused(parts: list[str]) -> None:
    """And every line with a choice counts once."""
    text = "".join(parts)
    try:
        found = read_log(text, "log", Stated(n_ranks=8, n_nodes=1, collective=Collective.REDUCE))
    except RccltuneError as error:
        assert " Bytes -> " not in text or error.hint  # noqa: PT017 - a good reading is right too
    else:
        assert found.calls == text.count(" Bytes -> Algo ")
