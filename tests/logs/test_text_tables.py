"""Hand-made text tables: the columns and extras that no public log shows filled."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from sample_rows import samples_of

from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE, Scale, Setting
from rccltune.model.vocabulary import Algorithm, Collective, Placement, Protocol, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, Lookup, ReadText

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE
RING_LL = Setting(algorithm=Algorithm.RING, protocol=Protocol.LL)


def executed_table(bench: Bench, algo: str, proto: str, channels: int, glue: str = "") -> str:
    """Hand-made: what -A 1 appends, ``%8s`` each with nothing between."""
    row = bench.row(1048576, 58.2, 58.3).rstrip("\n")
    tail = f"{glue}{algo:>8}{proto:>8}{channels:>10}"
    header = bench.HEADER + "    algo   proto nchannels"
    return f"{bench.facts()}{bench.PLACES}\n{header}\n{row}{tail}\n{bench.footer()}"


def test_executed_setting_is_read_from_its_columns(bench: Bench, read_text: ReadText) -> None:
    """-A 1: what ran goes to ``executed``; the key keeps what was asked for."""
    reading = read_text(executed_table(bench, "  RING", "  LL", 16))
    for sample in samples_of(reading):
        assert str(sample.executed) == "ring/ll/16"
        assert sample.key.setting is BASELINE
        assert sample.doubt is None


@pytest.mark.parametrize(
    ("algo", "proto", "doubt"),
    [
        ("RING", "LL", None),
        ("RING", "SIMPLE", UnusableReason.SUBSTITUTED),
        ("TREE", "LL", UnusableReason.SUBSTITUTED),
    ],
)
def test_another_setting_than_asked_for(
    bench: Bench, read_text: ReadText, algo: str, proto: str, doubt: UnusableReason | None
) -> None:
    """A forced setting that did not run is doubted, and stays under the name asked for."""
    text = executed_table(bench, "  " + algo, "  " + proto, 16)
    reading = read_text(text, StatedFacts(setting=RING_LL))
    assert {s.doubt for s in samples_of(reading)} == {doubt}
    assert {s.key.setting for s in samples_of(reading)} == {RING_LL}


def test_cpu_time_is_no_time(bench: Bench, read_text: ReadText, at: Lookup) -> None:
    """-C: the time is the CPU's and not the collective's."""
    small = bench.row(8, 10.0, 10.5)
    large = f"{1 << 30:12}  {1 << 28:12}  {'float':>8}  {'sum':>6}  {-1:6}"
    large += "    12.00  107.37  187.90      0    12.00  107.37  187.90      0\n"
    header = bench.header().replace("    time", " cputime")
    reading = read_text(bench.facts() + header + small + large + bench.footer())
    assert at(samples_of(reading), 8, OUT).doubt is UnusableReason.NO_TIME
    assert at(samples_of(reading), 8, OUT).time_us is None
    assert at(samples_of(reading), 1 << 30, IN).doubt is UnusableReason.NO_TIME
    assert Caution.DERIVED_TIME in {n.caution for n in reading.notices}


@pytest.mark.parametrize(("word", "placement"), [("out-of-place", OUT), ("in-place", IN)])
def test_one_placement_tables(
    bench: Bench, read_text: ReadText, word: str, placement: Placement
) -> None:
    """-O: one block of columns, whose placement stands on the line above the header."""
    header = (
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    )
    text = bench.facts() + f"#           {word}\n" + header + bench.row(8, 10.0) + bench.footer()
    samples = samples_of(read_text(text))
    assert [(s.key.placement, s.time_us) for s in samples] == [(placement, 10.0)]


def test_columns_of_single_calls_are_kept(read_text: ReadText, bench: Bench, at: Lookup) -> None:
    """-I of nccl-tests 2.19: four columns more in each block, µs and a percentage."""
    extra = "    i_min    i_max    i_p99    i_cv%"
    header = bench.HEADER.replace("#wrong", "#wrong" + extra)
    row = f"{64:12}  {16:12}  {'float':>8}  {'sum':>6}  {-1:6}"
    for time in (10.0, 11.0):
        row += bench.half(64, time) + f"     9.00    {time + 2:.2f}    11.90     3.10"
    text = f"{bench.facts()}{bench.PLACES}\n{header}\n{row}\n{bench.footer()}"
    reading = read_text(text)
    assert at(samples_of(reading), 64, IN).time_us == 11.0
    kept = reading.table[["time_us", "i_min", "i_max", "i_p99", "i_cv%"]]
    assert kept.to_numpy().tolist() == [
        [10.0, 9.0, 12.0, 11.9, 3.1],
        [11.0, 9.0, 13.0, 11.9, 3.1],
    ]


def test_columns_in_any_order(bench: Bench, read_text: ReadText, at: Lookup) -> None:
    """Columns are found by name: the first five may stand in any order, and so may a block's."""
    names = ("size", "count", "type", "redop", "root")
    values = dict(zip(names, ("64", "16", "float", "sum", "-1"), strict=True))
    block = ("time", "algbw", "busbw", "#wrong")
    numbers = dict(zip(block, ("10.00", "0.01", "0.01", "7"), strict=True))
    orders = list(zip(permutations(names), list(permutations(block)) * 5, strict=True))
    for lead, inner in orders[::5]:
        header = "# " + "  ".join((*lead, *inner, *inner))
        row = "  ".join([values[n] for n in lead] + [numbers[n] for n in inner] * 2)
        text = f"{bench.facts()}{bench.PLACES}\n{header}\n{row}\n"
        sample = at(samples_of(read_text(text)), 64, OUT)
        assert (sample.time_us, sample.n_wrong, sample.count) == (10.0, 7, 16), header


def test_contradicting_numbers_are_doubted(bench: Bench, read_text: ReadText, at: Lookup) -> None:
    """size ≠ algbw × time: the row is kept and not used."""
    good = bench.row(1 << 20, 58.2, 58.3)
    bad = good.replace("  58.20", "  85.20")
    reading = read_text(bench.facts() + bench.header() + bad)
    assert at(samples_of(reading), 1 << 20, OUT).doubt is UnusableReason.INCONSISTENT
    assert at(samples_of(reading), 1 << 20, IN).doubt is None


def test_a_summary_that_failed_without_saying_where(bench: Bench, read_text: ReadText) -> None:
    """Out of bounds FAILED and no row that shows it: no row of the table can be trusted."""
    text = bench.facts() + bench.header() + bench.rows([8, 16])
    text += "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 0.0025\n"
    assert {s.doubt for s in samples_of(read_text(text))} == {UnusableReason.WRONG}


def test_rows_that_are_missing_show_in_the_average(bench: Bench, read_text: ReadText) -> None:
    """The log's own average is compared with the rows that were read."""
    sizes = [1 << 20, 1 << 21, 1 << 22]
    rows = bench.rows(sizes, first=60.0)
    mean = sum(float(w) for r in rows.splitlines() for w in (r.split()[7], r.split()[11])) / 6
    facts = bench.facts().replace(
        "minBytes 8 maxBytes 33554432", "minBytes 1048576 maxBytes 4194304"
    )
    whole = facts + bench.header() + rows + bench.footer(mean)
    assert read_text(whole).notices == ()
    notices = read_text(
        facts + bench.header() + rows.split("\n", 1)[1] + bench.footer(mean)
    ).notices
    assert {n.caution for n in notices} == {Caution.INCOMPLETE_LOG}
    assert any("average bus bandwidth" in n.message for n in notices)


def test_a_simulated_benchmark_is_known_by_its_version_line(
    bench: Bench, read_text: ReadText
) -> None:
    """Nothing simulated is ever taken for a measurement."""
    text = "# rccl-tests version 2.17.9-rccltune SIMULATED\n" + bench.run([8, 16])
    assert read_text(text).fingerprint.simulated
    assert not read_text(bench.run([8, 16])).fingerprint.simulated


def test_split_communicators_have_the_size_of_a_group(
    bench: Bench, read_text: ReadText, make_bench: type[Bench]
) -> None:
    """NCCL_TESTS_SPLIT: the rank list names groups; the scale is that of one group."""
    facts = make_bench(Collective.ALL_REDUCE, 8).facts(hosts=2)
    for rank in range(8):
        facts = facts.replace(f"Rank {rank:2} Group  0", f"Rank {rank:2} Group {rank % 2:2}")
    pair = make_bench(Collective.ALL_REDUCE, 4)
    reading = read_text(facts + pair.header() + pair.rows([1 << 20], 60.0))
    assert {(s.key.scale.n_ranks, s.key.scale.n_nodes) for s in samples_of(reading)} == {(4, 2)}


def test_a_cut_rank_list_tells_its_highest_rank_and_its_hosts(
    make_bench: type[Bench], read_text: ReadText
) -> None:
    """Lines were lost: ranks are known all the same, and nodes are at least those named."""
    bench = make_bench(Collective.ALL_REDUCE, 8)
    listed = bench.facts(hosts=2).splitlines(keepends=True)
    facts = "".join(line for line in listed if "Rank  3" not in line)
    text = facts + bench.header() + bench.row(1 << 20, 60.0, 60.0)
    with pytest.raises(OutputError, match="how many nodes") as error:
        read_text(text)
    assert error.value.hint == "add --nodes N."
    with pytest.raises(CommandLineError, match="--nodes 1"):
        read_text(text, StatedFacts(n_nodes=1))
    with pytest.raises(CommandLineError, match="--ranks 7"):
        read_text(text, StatedFacts(n_ranks=7, n_nodes=2))
    scales = {s.key.scale for s in samples_of(read_text(text, StatedFacts(n_nodes=3)))}
    assert scales == {Scale(n_nodes=3, n_ranks=8)}


def test_the_last_line_names_what_stands_above_it(bench: Bench, read_text: ReadText) -> None:
    """``Collective test concluded``, where the first lines are lost; an option must agree."""
    text = bench.header() + bench.rows([1 << 20, 1 << 21], 60.0) + bench.footer()
    text += "# Collective test concluded: all_reduce_perf\n"
    found = samples_of(read_text(text, StatedFacts(n_nodes=1)))
    assert {(s.key.collective, s.key.scale.n_ranks) for s in found} == {(Collective.ALL_REDUCE, 8)}
    with pytest.raises(CommandLineError, match="--collective broadcast"):
        read_text(text, StatedFacts(n_nodes=1, collective=Collective.BROADCAST))


def test_a_destroyed_communicator_tells_its_ranks(bench: Bench, read_text: ReadText) -> None:
    """``nranks`` of the library's last words."""
    info = "n:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 8 cudaDev 0 busId 1000 - Destroy COMPLETE\n"
    text = bench.header() + bench.rows([1 << 20], 60.0) + info
    stated = StatedFacts(collective=Collective.ALL_REDUCE, n_nodes=1)
    assert {s.key.scale.n_ranks for s in samples_of(read_text(text, stated))} == {8}


def test_forced_settings_by_the_librarys_own_log(bench: Bench, read_text: ReadText) -> None:
    """NCCL_ALGO set by environment to Ring: the file says what was asked for."""
    info = "node0:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"
    info += "node0:1:2 [0] NCCL INFO NCCL_PROTO set by environment to LL128\n"
    text = bench.facts() + info + bench.header() + bench.row(8, 10.0, 10.0)
    assert {str(s.key.setting) for s in samples_of(read_text(text, StatedFacts()))} == {
        "ring/ll128"
    }


@pytest.mark.parametrize(("number", "version"), [("22902", "2.29.2"), ("2708", "2.7.8")])
def test_the_linked_library_is_read_from_the_version_line(
    bench: Bench, read_text: ReadText, number: str, version: str
) -> None:
    """nccl-library=22902 is NCCL 2.29.2, as the INFO log of the same public run (nv34) says."""
    head = f"# nccl-tests version 2.18.3 nccl-headers={number} nccl-library={number}\n"
    reading = read_text(
        head + executed_table(bench, "  RING", "  LL", 16), StatedFacts(setting=RING_LL)
    )

    assert reading.library_version == version
