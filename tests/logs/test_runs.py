"""Hand-made: several runs in one file, cycles, jobs that share a log, runs that died."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sample_rows import samples_of

from rccltune.model.errors import OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

SIZES = [8, 16, 32, 64]


def test_concatenated_runs_are_launches_of_their_own(
    bench: Bench, read_text: ReadText, make_bench: type[Bench]
) -> None:
    """Each table has the facts of its own preamble."""
    gather = make_bench(Collective.ALL_GATHER, 4)
    reading = read_text(bench.run(SIZES) + gather.run(SIZES))
    found = {(s.launch, s.key.collective.value, s.key.scale.n_ranks) for s in samples_of(reading)}
    assert found == {("L:1", "all_reduce", 8), ("L:2", "all_gather", 4)}
    assert {s.cycle for s in samples_of(reading)} == {0}


def test_cycles_of_one_run(bench: Bench, read_text: ReadText) -> None:
    """-N: the sizes come again below one header."""
    text = bench.facts() + bench.header() + bench.rows(SIZES) + "# Testing 2 cycle.\n"
    reading = read_text(text + bench.rows(SIZES, first=20.0) + bench.rows(SIZES[:2]))
    assert {s.launch for s in samples_of(reading)} == {"L"}
    eight = [s.cycle for s in samples_of(reading) if s.nbytes == 8]
    assert eight == [0, 0, 1, 1, 2, 2]


def test_a_size_that_comes_again_out_of_turn(bench: Bench, read_text: ReadText) -> None:
    """No pass begins there: both lines are named."""
    text = bench.facts() + bench.header() + bench.rows([8, 16, 32, 16])
    with pytest.raises(OutputError, match="size 16") as error:
        read_text(text)
    first = bench.facts().count("\n") + 4
    assert f"lines {first} and {first + 2}" in error.value.message
    assert str(error.value.where).endswith(f":{first + 2}")


def test_a_run_that_died_and_its_repeat(bench: Bench, read_text: ReadText) -> None:
    """A killed run followed by a whole one: two runs, and the first is said to be short."""
    died = bench.facts() + bench.header() + bench.rows(SIZES[:2])
    reading = read_text(died + bench.run([8 << i for i in range(23)], first=90.0))
    times = {
        launch: [s.time_us for s in samples_of(reading) if s.launch == launch]
        for launch in ("L:1", "L:2")
    }
    assert times["L:1"] == [10.0, 10.5, 11.0, 11.5]
    assert len(times["L:2"]) == 46
    short = [n for n in reading.notices if n.caution is Caution.INCOMPLETE_LOG]
    assert "asked for 23 sizes" in short[0].message
    assert "the last of 16 bytes" in short[0].message


def test_marks_of_a_script_name_settings(bench: Bench, read_text: ReadText) -> None:
    """A mark holds until the next one, for whole outputs too."""
    text = "### ALGO=Ring PROTO=LL\n" + bench.run(SIZES) + bench.run(SIZES)
    text += "=== NCCL_ALGO=Tree NCCL_PROTO=LL ===\n" + bench.run(SIZES) + "### no variable\n"
    reading = read_text(text + bench.run(SIZES))
    found = {s.launch: str(s.key.setting) for s in samples_of(reading)}
    assert found == {"L:1": "ring/ll", "L:2": "ring/ll", "L:3": "tree/ll", "L:4": "baseline"}


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("$ ./build/all_reduce_perf -b 8 -e 64 -g 8\n", 8),
        ("$ ./build/all_reduce_perf -b 8 -t 4 -g 2\n", 8),
        ("$ some-launcher ./all_reduce_perf -b 8 -g 8\n", None),
        ("$ ./build/all_reduce_perf -b 8\n", None),
    ],
)
def test_ranks_of_a_process_alone_are_those_of_its_command(
    bench: Bench, read_text: ReadText, command: str, ranks: int | None
) -> None:
    """-g GPUs for each of -t threads (nccl-tests README); a launcher may start any number of them."""
    text = command + bench.header() + bench.rows(SIZES)
    if ranks is None:
        with pytest.raises(OutputError, match="how many ranks"):
            read_text(text)
    else:
        scales = {s.key.scale for s in samples_of(read_text(text))}
        assert scales == {Scale(n_nodes=1, n_ranks=ranks)}


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("mpirun -np 8 ./all_reduce_perf -g 1", 8),
        ("mpirun.mpich -np 4 ./all_reduce_perf -b 8 -g 2 -n 250", 8),
        ("mpiexec.hydra -n 8 ./all_reduce_perf", 8),
        ("prun --np 8 all_reduce_perf", 8),
        ("flux run -N 2 -n 8 ./all_reduce_perf", 8),
        ("aprun -n 8 -N 4 ./all_reduce_perf", 8),
        ("srun --ntasks=8 all_reduce_perf -n 20", 8),
        ("srun all_reduce_perf -n 20", None),
        ("mpirun -np 2 ./all_reduce_perf : -np 2 ./all_reduce_perf", None),
    ],
)
def test_ranks_by_the_launchers_command(
    bench: Bench, read_text: ReadText, command: str, ranks: int | None
) -> None:
    """Ranks are those that it starts times the GPUs of each (their manuals); nodes are asked for."""
    text = f"$ {command}\n{bench.header()}{bench.rows(SIZES)}"
    if ranks is None:
        with pytest.raises(OutputError, match="how many ranks"):
            read_text(text)
        return
    with pytest.raises(OutputError, match="does not say how many nodes took part"):
        read_text(text)
    stated = StatedFacts(n_nodes=2, setting=BASELINE)
    assert {s.key.scale for s in samples_of(read_text(text, stated))} == {
        Scale(n_nodes=2, n_ranks=8)
    }


def test_two_machines_in_one_file(bench: Bench, read_text: ReadText) -> None:
    """Two products are an error that names both."""
    other = bench.run(SIZES).replace("MI300X", "MI355X")
    with pytest.raises(OutputError, match=r"MI300X.*MI355X") as error:
        read_text(bench.run(SIZES) + other)
    assert error.value.where


def test_scale_from_the_librarys_messages(bench: Bench, read_text: ReadText) -> None:
    """Without a rank list, the communicators' own messages tell ranks and nodes."""
    info = "".join(
        f"node{r // 4}:1:{r} [{r}] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 8 cudaDev"
        f" {r} busId 1000 commId 0xabc - Init COMPLETE\n"
        for r in range(8)
    )
    table = bench.header() + bench.rows([1 << 20], 60.0)
    stated = StatedFacts(collective=Collective.ALL_REDUCE, setting=BASELINE)
    scale = samples_of(read_text(info + table, stated))[0].key.scale
    assert (scale.n_ranks, scale.n_nodes) == (8, 2)
    part = "".join(info.splitlines(keepends=True)[:3])
    with pytest.raises(OutputError, match="nodes"):
        read_text(part + table, stated)


def test_the_tuning_log_belongs_to_its_own_run(bench: Bench, read_text: ReadText) -> None:
    """What ran in the first run is not taken for what ran in the second."""
    choice = "node0:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo {} proto LL channel{{Lo..Hi}}={{0..1}}\n"
    text = ""
    for algorithm in ("RING", "1", "TREE"):
        text += bench.facts() + choice.format(algorithm) + bench.header() + bench.row(8, 9.0, 9.0)
        text += bench.footer(0.0)
    executed = [s.executed for s in samples_of(read_text(text))]
    ring = Setting.parse("ring/ll/2")
    assert executed == [ring, ring, ring, ring, *[Setting.parse("tree/ll/2")] * 2]
    assert ring.algorithm is Algorithm.RING
