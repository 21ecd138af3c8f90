"""rccl-tests' options: what is understood, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rccltune.model.errors import CommandLineError
from rccltune.model.vocabulary import DTYPE_BYTES, Collective, Placement
from rccltune.torchbench import options
from rccltune.torchbench.buffers import counts_of
from rccltune.torchbench.options import Average, read


def test_what_a_plan_says_is_understood() -> None:
    """The options that launches of a walk have."""
    options = read(
        [
            *("--backend", "gloo", "--store", "/s", "all_gather", "-b", "8", "-e", "1G"),
            *("-f", "2", "-n", "20", "-w", "5", "-c", "1", "-g", "1", "-d", "bfloat16", "-N", "17"),
        ]
    )
    assert options.collective is Collective.ALL_GATHER
    assert (options.min_nbytes, options.max_nbytes, options.factor) == (8, 2**30, 2)
    assert (options.iterations, options.warmup, options.checks, options.cycles) == (20, 5, 1, 17)
    assert (options.dtype, options.redop, options.root, options.graph) == ("bfloat16", "sum", 0, 0)
    assert (options.backend, options.store, options.average) == ("gloo", "/s", Average.MEAN)
    assert options.placements == (Placement.OUT_OF_PLACE, Placement.IN_PLACE)


def test_defaults_are_those_of_rccl_tests() -> None:
    """Its README: 32 MB, steps of 1 MB, 20 iterations, 1 check, float, sum, root 0, mean time.

    Warm-ups were 5 until 2.16; nothing here relies on the number.
    """
    options = read(["all_reduce"])
    assert (options.min_nbytes, options.max_nbytes) == (32 << 20, 32 << 20)
    assert (options.factor, options.step_nbytes) == (None, 1 << 20)
    assert (options.iterations, options.checks, options.cycles) == (20, 1, 1)
    assert (options.dtype, options.redop, options.root) == ("float", "sum", 0)


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ("-b 8 -e 64 -f 2", (8, 16, 32, 64)),
        ("-b 8 -e 63 -f 2", (8, 16, 32)),
        ("-b 8 -e 32 -i 8", (8, 16, 24, 32)),
        ("-b 1K -e 1K -f 4", (1024,)),
        ("-b 8 -e 24 -f 1 -i 8", (8, 16, 24)),
    ],
)
def test_sizes_are_stepped_through_as_rccl_tests_do(words: str, sizes: tuple[int, ...]) -> None:
    """By a factor above 1, else by bytes, up to and with -e."""
    assert read(["all_gather", *words.split()]).sizes == sizes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("alltoall", "not measured through torch"),
        ("all_gossip", "unknown collective"),
        ("all_reduce -O 1", "one tensor"),
        ("broadcast -O 1", "one tensor"),
        ("reduce -O 1", "one tensor"),
        ("all_reduce -t 2", "no whole number"),
        ("all_reduce -g 8", "no whole number"),
        ("all_reduce -m 2", "no whole number"),
        ("all_reduce -d f8e4m3", "invalid choice"),
        ("all_reduce -d all", "invalid choice"),
        ("all_reduce -o mulsum", "invalid choice"),
        ("all_reduce -d int32 -o avg", "avg of int32"),
        ("all_reduce -e 1K -b 2K", "-e is below -b"),
        ("all_gather -b 0 -f 2", "never grows"),
        ("all_gather -i 0", "never grows"),
        ("all_reduce -A 1", "unrecognized"),
        ("all_reduce --minb 8", "unrecognized"),
        ("all_reduce -b many", "no size"),
        ("all_reduce -n 0", "no whole number"),
        ("all_reduce --backend mpi", "invalid choice"),
        ("all_reduce --backend gloo -G 1", "no graphs"),
        ("all_reduce --backend gloo -o avg", "no --op avg"),
        ("", "collective"),
    ],
)
def test_what_cannot_be_done_is_refused(words: str, said: str) -> None:
    """Never ignored: another thing would be measured than was asked for. Exit code 2."""
    with pytest.raises(CommandLineError, match=said):
        read(words.split())


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast", "reduce"])
def test_collectives_of_one_tensor_run_in_place(collective: str) -> None:
    """All that torch.distributed offers there."""
    assert read([collective]).placements == (Placement.IN_PLACE,)


@pytest.mark.parametrize(
    ("flag", "placement"), [("0", Placement.IN_PLACE), ("1", Placement.OUT_OF_PLACE)]
)
def test_one_half_can_be_chosen(flag: str, placement: Placement) -> None:
    """-O as rccl-tests has it."""
    assert read(["all_gather", "-O", flag]).placements == (placement,)


def test_letters_are_those_that_are_understood() -> None:
    """A plan gives what the letters promise."""
    values = {"d": "float", "o": "sum", "b": "8", "e": "8", "N": "2", "O": "0", "f": "2", "i": "4"}
    for letter in options.LETTERS - {"h"}:
        read(["all_gather", f"-{letter}", values.get(letter, "1"), *(["-e", "8", "-b", "8"])])


@given(
    collective=st.sampled_from(list(Collective)[:5]),
    nbytes=st.integers(0, 2**40),
    dtype=st.sampled_from(["int8", "half", "float", "double"]),
    n_ranks=st.integers(1, 512),
)
def test_counts_fill_the_size(
    collective: Collective, nbytes: int, dtype: str, n_ranks: int
) -> None:
    """Never above the size; below it by less than what rounding shares to 16 bytes loses."""
    counts = counts_of(collective, nbytes, dtype, n_ranks)
    width = DTYPE_BYTES[dtype]
    whole = counts.whole * width
    assert whole <= nbytes
    if collective in (Collective.ALL_GATHER, Collective.REDUCE_SCATTER):
        assert nbytes - whole < n_ranks * (16 + width)
        assert counts.printed * width % 16 == 0
        assert counts.whole == counts.printed * n_ranks
        assert min(counts.sent, counts.received) == counts.printed
    else:
        assert nbytes - whole < width
        assert counts.sent == counts.received == counts.printed
