"""Logs that would be read as something else than they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE, Setting
from rccltune.model.vocabulary import Collective, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

SIZES = [1 << k for k in range(10, 21)]
MESSAGE = "node0:1:2 [0] NCCL INFO Channel 00/0 : 0 1\n"


def row(nbytes: int, redop: str, time: float, factor: float, *, share: int = 1) -> str:
    """One row as nccl-tests prints it (``src/util.cu``), with a share's count."""
    algbw = nbytes / time / 1000
    half = f"  {time:7.2f}  {algbw:6.2f}  {algbw * factor:6.2f}  {'0':>5}"
    lead = f"{nbytes:12}  {nbytes // 4 // share:12}  {'float':>8}  {redop:>6}  {-1:6}"
    return f"{lead}{half}{half}\n"


def test_a_row_cut_by_a_message_anywhere_is_read_or_missed_aloud(
    bench: Bench, read_text: ReadText
) -> None:
    """At every second letter of a row, in a log without footer: the same numbers, or a notice."""
    head = bench.facts() + bench.header() + bench.row(512, 11.0, 11.5)
    whole = bench.row(1024, 12.25, 12.75)
    expected = [(512, 11.0), (512, 11.5), (1024, 12.25), (1024, 12.75)]
    unread = []
    for cut in range(1, len(whole) - 1, 2):
        text = head + whole[:cut] + MESSAGE * 3 + whole[cut:] + bench.row(2048, 14.0, 14.5)
        reading = read_text(text)
        found = [(s.nbytes, s.time_us) for s in reading.samples]
        assert found[-2:] == [(2048, 14.0), (2048, 14.5)]
        if found[:-2] != expected:
            assert found[:-2] == expected[:2]
            assert [n.caution for n in reading.notices] == [Caution.INCOMPLETE_LOG], cut
            unread.append(cut)
    assert not unread


UCX = "[1762.12] [node0:4711 :0]  parser.c:2044 UCX WARN unused environment variable\n"


@pytest.mark.parametrize("lost", ["inside", "last"])
def test_a_row_that_somebody_elses_text_cut_is_missed_aloud(
    bench: Bench, read_text: ReadText, lost: str
) -> None:
    """Sizes go from 8 to 32 MiB by 2, says the benchmark, so that who misses one can know it."""
    rows = [bench.row(8 << k, 10.0 + k, 10.5 + k) for k in range(23)]
    at = 17 if lost == "inside" else 22
    for cut in range(len(rows[at]) - len(rows[at].lstrip()) + 1, len(rows[at]) - 1, 7):
        broken = [*rows[:at], rows[at][:cut] + UCX + rows[at][cut:], *rows[at + 1 :]]
        reading = read_text(bench.facts() + bench.header() + "".join(broken))
        used = [(s.nbytes, s.time_us) for s in reading.samples if s.doubt is None]
        whole = [(8 << k, 10.0 + k + half) for k in range(23) if k != at for half in (0, 0.5)]
        assert used == whole, cut
        assert Caution.INCOMPLETE_LOG in {n.caution for n in reading.notices}, cut


@pytest.mark.parametrize("ranks", [6, 7, 80])
def test_sizes_that_are_rounded_down_miss_none(
    bench: Bench, read_text: ReadText, ranks: int
) -> None:
    """all_gather and its kin send whole elements of every rank (nccl-tests, ``*GetCollByteCount``)."""
    share = 4 * ranks
    sizes = [(8 << k) // share * share for k in range(23)]
    text = bench.facts() + bench.header()
    text += "".join(bench.row(n, 10.0 + k, 10.5 + k) for k, n in enumerate(sizes) if n)
    assert Caution.INCOMPLETE_LOG not in {n.caution for n in read_text(text).notices}


def test_the_hint_names_only_what_fits(read_text: ReadText) -> None:
    """alltoall on 32 ranks: (n - 1) / n = 0.97, operation 'none' (nccl-tests PERFORMANCE.md)."""
    text = "".join(row(n, "none", 100.0 + k, 31 / 32, share=32) for k, n in enumerate(SIZES))
    with pytest.raises(OutputError) as error:
        read_text(text, StatedFacts(n_ranks=32, n_nodes=4, setting=BASELINE))
    hint = str(error.value.hint)
    assert "--collective alltoall" in hint
    assert "all_reduce" not in hint
    assert "reduce_scatter" not in hint
    odd = "".join(row(n, "none", 100.0 + k, 1 / 3, share=32) for k, n in enumerate(SIZES))
    with pytest.raises(OutputError) as error:
        read_text(odd, StatedFacts(n_ranks=32, n_nodes=4, setting=BASELINE))
    assert "fits nothing that is known" in str(error.value)


@pytest.mark.parametrize(
    "stated", [Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.BROADCAST]
)
def test_a_collective_that_does_not_fit_is_refused(read_text: ReadText, stated: Collective) -> None:
    """By its operation or its ratio, at bandwidths below 2 GB/s too."""
    text = "".join(row(n, "none", 600.0, 31 / 32, share=32) for n in (1 << 19, 1 << 20))
    with pytest.raises(CommandLineError, match="busbw"):
        read_text(text, StatedFacts(collective=stated, n_ranks=32, n_nodes=4, setting=BASELINE))
    good = StatedFacts(collective=Collective.ALLTOALL, n_ranks=32, n_nodes=4, setting=BASELINE)
    assert len(read_text(text, good).samples) == 4


@pytest.mark.parametrize("change", [("float ", "floate5 "), ("float     sum", "  sum")])
def test_a_type_that_is_none_is_doubted(
    bench: Bench, read_text: ReadText, change: tuple[str, str]
) -> None:
    """A mangled word, or the operation where the type was lost."""
    text = bench.facts() + bench.header() + bench.row(512, 9.0, 9.0)
    assert change[0] in bench.row(1024, 12.0, 12.0)
    reading = read_text(text + bench.row(1024, 12.0, 12.0).replace(*change))
    assert [s.doubt for s in reading.samples] == [None, None] + [UnusableReason.UNKNOWN_TYPE] * 2


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        ("$ mpirun -np 8 -x NCCL_ALGO=Ring -x NCCL_PROTO=LL ./all_reduce_perf -b 8\n", "ring/ll"),
        ("mpirun -np 8 \\\n  -x NCCL_ALGO=Tree \\\n  ./all_reduce_perf -b 8\n", "tree/-"),
        ("mpiexec -genv NCCL_ALGO Ring -n 8 all_reduce_perf\n", "ring/-"),
        ("srun --export=ALL,NCCL_ALGO=Ring,NCCL_PROTO=LL128 all_reduce_perf\n", "ring/ll128"),
        ("+ export NCCL_PROTO=Simple\n+ mpirun -np 8 all_reduce_perf\n", "-/simple"),
        ("NCCL_ALGO=Ring ./all_reduce_perf -b 8 -g 8\n", "ring/-"),
        ("+ export NCCL_ALGO=Ring\n+ unset NCCL_ALGO\n+ mpirun all_reduce_perf\n", "unstated"),
        ("mpirun -x NCCL_ALGO=Ring all_reduce_perf\nmpirun all_reduce_perf\n", "unstated"),
        ("Next time try NCCL_ALGO=Ring here.\n", "unstated"),
        ("mpirun -x NCCL_ALGO=Ring,Tree all_reduce_perf\n", "unstated"),
    ],
)
def test_a_command_above_the_table_says_what_was_forced(
    bench: Bench, read_text: ReadText, command: str, setting: str
) -> None:
    """As a user pastes it or a script echoes it; what holds for one command holds for no other."""
    reading = read_text(command + bench.run(SIZES), StatedFacts())
    assert {str(s.key.setting) for s in reading.samples} == {setting}
    if "NCCL_ALGO=Ring," in command or setting != "unstated":
        with pytest.raises(CommandLineError, match="--baseline"):
            read_text(command + bench.run(SIZES), StatedFacts(setting=BASELINE))


def test_the_default_section_of_a_mixed_file_is_the_baseline(
    bench: Bench, read_text: ReadText
) -> None:
    """By its title; or by --baseline, which fills what the file leaves unsaid."""
    ring = "### NCCL_ALGO=Ring NCCL_PROTO=LL\n" + bench.run(SIZES)
    for text, stated in (
        ("=== DEFAULT ===\n" + bench.run(SIZES) + ring, StatedFacts()),
        (bench.run(SIZES) + ring, StatedFacts(setting=BASELINE)),
    ):
        settings = [s.key.setting for s in read_text(text, stated).samples]
        assert settings == [BASELINE] * 22 + [Setting.parse("ring/ll")] * 22


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_table_of_half_rows_is_held_against_its_ratio(read_text: ReadText, form: str) -> None:
    """Rows without ranks: busbw 1.75 x algbw is all_reduce on 8 ranks, whoever says 64."""
    names = ("size", "type", "redop", "inplace", "time", "algBw", "busBw")
    rows = [(1 << n, "float", "sum", 0, 2.0**n / 1e5, 100.0, 175.0) for n in range(20, 26)]
    if form == "csv":
        lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    else:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    text = "\n".join(lines) + "\n"
    said = {"collective": Collective.ALL_REDUCE, "n_nodes": 1, "setting": BASELINE}
    assert len(read_text(text, StatedFacts(n_ranks=8, **said)).samples) == len(rows)
    with pytest.raises(CommandLineError, match=r"1\.75") as error:
        read_text(text, StatedFacts(n_ranks=64, **said))
    assert "--ranks 8" in str(error.value.hint)


def test_a_column_that_is_nearly_known_is_not_dropped_in_silence(read_text: ReadText) -> None:
    """Wrong results and in-place times would be taken for right ones out of place."""
    rows = "ring/ll,1024,5,in,7\nring/simple,1024,6,in,0\n"
    facts = "# rccltune: collective=all_reduce ranks=8 nodes=1\n"
    stated = StatedFacts()
    odd = read_text(f"{facts}setting,nbytes,time_us,placemen,n_wrng\n{rows}", stated)
    said = [one for one in odd.notices if "left out: placemen, n_wrng" in one.message]
    assert [one.remedy for one in said] == [
        "if they are placement, n_wrong, name them so and import again."
    ]
    right = read_text(f"{facts}setting,nbytes,time_us,placement,n_wrong\n{rows}", stated)
    assert not [one for one in right.notices if "left out" in one.message]
    assert [one.doubt for one in right.samples] == [UnusableReason.WRONG, None]
    # What a benchmark has beside is nobody's slip.
    other = read_text(f"{facts}setting,nbytes,time_us,host,temperature\n{rows}", stated)
    assert not [one for one in other.notices if "mean nothing" in one.message]
