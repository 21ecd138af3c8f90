"""Logs that would be read as something else than they are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from sample_rows import samples_of

from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE, Setting
from rccltune.model.vocabulary import Collective, UnusableReason

if TYPE_CHECKING:
    from tests.logs.conftest import Bench, ReadText

SIZES = [1 << k for k in range(10, 21)]
MESSAGE = "node0:1:2 [0] NCCL INFO Channel 00/0 : 0 1\n"


def row(nbytes: int, op: str, time: float, factor: float, *, share: int = 1) -> str:
    """One row as nccl-tests prints it (``src/util.cu``), with a share's count."""
    algbw = nbytes / time / 1000
    half = f"  {time:7.2f}  {algbw:6.2f}  {algbw * factor:6.2f}  {'0':>5}"
    lead = f"{nbytes:12}  {nbytes // 4 // share:12}  {'float':>8}  {op:>6}  {-1:6}"
    return f"{lead}{half}{half}\n"


def test_a_row_cut_by_a_message_anywhere_is_missed_aloud(bench: Bench, read_text: ReadText) -> None:
    """At every second letter of a row: all others are read, and a notice says that one is not."""
    head = bench.facts() + bench.header() + bench.row(512, 11.0, 11.5)
    whole = bench.row(1024, 12.25, 12.75)
    for cut in range(len(whole) - len(whole.lstrip()) + 1, len(whole) - 1, 2):
        text = head + whole[:cut] + MESSAGE * 3 + whole[cut:] + bench.row(2048, 14.0, 14.5)
        reading = read_text(text)
        used = [(s.nbytes, s.time_us) for s in samples_of(reading) if s.doubt is None]
        assert used == [(512, 11.0), (512, 11.5), (2048, 14.0), (2048, 14.5)], cut
        assert Caution.INCOMPLETE_LOG in {n.caution for n in reading.notices}, cut


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
        used = [(s.nbytes, s.time_us) for s in samples_of(reading) if s.doubt is None]
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
    text += "".join(bench.row(n, 10.0 + k, 10.5 + k) for k, n in enumerate(sizes))
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
    assert "fits no collective on 32 ranks" in str(error.value)


@pytest.mark.parametrize(
    "stated", [Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.BROADCAST]
)
def test_a_collective_that_does_not_fit_is_refused(read_text: ReadText, stated: Collective) -> None:
    """By its operation or its ratio, at bandwidths below 2 GB/s too."""
    text = "".join(row(n, "none", 600.0, 31 / 32, share=32) for n in (1 << 19, 1 << 20))
    with pytest.raises(CommandLineError, match="busbw"):
        read_text(text, StatedFacts(collective=stated, n_ranks=32, n_nodes=4, setting=BASELINE))
    good = StatedFacts(collective=Collective.ALLTOALL, n_ranks=32, n_nodes=4, setting=BASELINE)
    assert len(samples_of(read_text(text, good))) == 4


def test_a_type_that_is_none_is_doubted(bench: Bench, read_text: ReadText) -> None:
    """A mangled word is doubted; a row that lost its type is not whole."""
    text = bench.facts() + bench.header() + bench.row(512, 9.0, 9.0)
    mangled = read_text(text + bench.row(1024, 12.0, 12.0).replace("float ", "floate5 "))
    assert [s.doubt for s in samples_of(mangled)] == [None, None] + [
        UnusableReason.UNKNOWN_TYPE
    ] * 2
    lost = read_text(text + bench.row(1024, 12.0, 12.0).replace("float     sum", "  sum"))
    assert [s.nbytes for s in samples_of(lost)] == [512, 512]
    assert "1 row is not whole" in lost.notices[0].message


BOTH = "NCCL_ALGO=Ring -x NCCL_PROTO=LL"


@pytest.mark.parametrize(
    ("command", "setting"),
    [
        (f"$ mpirun -np 8 -x {BOTH} ./all_reduce_perf -b 8\n", "ring/ll"),
        (
            "mpirun -np 8 \\\n  -x NCCL_ALGO=Tree \\\n -x NCCL_PROTO=LL ./all_reduce_perf\n",
            "tree/ll",
        ),
        ("mpiexec -genv NCCL_ALGO Ring -genv NCCL_PROTO LL -n 8 all_reduce_perf\n", "ring/ll"),
        ("srun --export=ALL,NCCL_ALGO=Ring,NCCL_PROTO=LL128 all_reduce_perf\n", "ring/ll128"),
        (
            "+ export NCCL_PROTO=Simple NCCL_ALGO='ring'\n+ mpirun -np 8 all_reduce_perf\n",
            "ring/simple",
        ),
        ("NCCL_ALGO=Ring NCCL_PROTO=^LL,LL128 ./all_reduce_perf -b 8 -g 8\n", "ring/simple"),
        ('export NCCL_ALGO="ring;allreduce:tree" NCCL_PROTO=LL\n', "tree/ll"),
        ("NCCL_ALGO: Ring\nNCCL_PROTO: 'LL128'\n", "ring/ll128"),
        ("| NCCL_ALGO | Ring |\n| NCCL_PROTO | LL |\n", "ring/ll"),
        ("* `NCCL_ALGO=Ring`, **NCCL_PROTO=LL**:\n", "ring/ll"),
        (
            f"mpirun -np 8 -x {BOTH} -x NCCL_MIN_CTAS=4 -x NCCL_MAX_CTAS=4 all_reduce_perf\n",
            "ring/ll/4",
        ),
        (f"mpirun -np 8 -x {BOTH} -x NCCL_MIN_NCHANNELS=4 all_reduce_perf\n", "ring/ll"),
    ],
)
def test_one_algorithm_and_one_protocol_are_a_forced_setting(
    bench: Bench, read_text: ReadText, command: str, setting: str
) -> None:
    """As a user pastes it or a script echoes it; such rows are never a baseline."""
    text = command + bench.run(SIZES)
    assert {str(s.key.setting) for s in samples_of(read_text(text, StatedFacts()))} == {setting}
    with pytest.raises(CommandLineError, match="--baseline"):
        read_text(text, StatedFacts(setting=BASELINE))


@pytest.mark.parametrize(
    "given",
    [
        "NCCL_ALGO=Ring", "NCCL_PROTO=LL", "NCCL_ALGO=^NVLS -x NCCL_PROTO=LL",
        "NCCL_ALGO=Ring,Tree -x NCCL_PROTO=LL", "NCCL_ALGO=allgather:ring -x NCCL_PROTO=LL",
        "NCCL_ALGO=$A -x NCCL_PROTO=LL", "NCCL_ALGO=ring+ll", "NCCL_ALGO=ring@1M -x NCCL_PROTO=LL",
        "NCCL_ALGO=ring;tree -x NCCL_PROTO=LL", "RCCL_OVERRIDE_ALGO=Tree -x NCCL_ALGO=Ring",
    ],
)  # fmt: skip
def test_all_else_leaves_several_and_is_unstated(
    bench: Bench, read_text: ReadText, given: str
) -> None:
    """It is said which variable it was; it is no baseline, and what it shuts out did not run."""
    text = f"mpirun -np 8 -x {given} ./all_reduce_perf\n" + bench.run(SIZES)
    reading = read_text(text, StatedFacts())
    assert {str(s.key.setting) for s in samples_of(reading)} == {"unstated"}
    said = [n.message for n in reading.notices if n.caution is Caution.UNSTATED_SETTING]
    assert any(given.split(maxsplit=1)[0] in one for one in said)
    with pytest.raises(CommandLineError, match="--baseline"):
        read_text(text, StatedFacts(setting=BASELINE))


def test_options_must_not_contradict_what_variables_leave(
    bench: Bench, read_text: ReadText
) -> None:
    """--channels 8 against a command that says 2, and an algorithm that was shut out."""
    two = f"mpirun -x {BOTH} -x NCCL_MIN_NCHANNELS=2 -x NCCL_MAX_NCHANNELS=2 all_reduce_perf\n"
    with pytest.raises(CommandLineError, match="--channels 8"):
        read_text(two + bench.run(SIZES), StatedFacts(setting=Setting.parse("-/-/8")))
    shut = "mpirun -x NCCL_ALGO=^NVLS all_reduce_perf\n" + bench.run(SIZES)
    with pytest.raises(CommandLineError, match="--algorithm nvls"):
        read_text(shut, StatedFacts(setting=Setting.parse("nvls/simple")))
    ring = samples_of(read_text(shut, StatedFacts(setting=Setting.parse("ring/simple"))))
    assert {str(s.key.setting) for s in ring} == {"ring/simple"}


@pytest.mark.parametrize(
    "text",
    [
        "+ export NCCL_ALGO=Ring\n+ unset NCCL_ALGO\n+ mpirun all_reduce_perf\n",
        "mpirun -x NCCL_ALGO=Ring all_reduce_perf\nmpirun all_reduce_perf\n",
        "Next time try NCCL_ALGO=Ring here.\n",
    ],
)
def test_what_holds_no_longer_or_is_only_mentioned_forces_nothing(
    bench: Bench, read_text: ReadText, text: str
) -> None:
    """Such rows may be the baseline; a sentence is shown where nothing else says what ran."""
    found = samples_of(read_text(text + bench.run(SIZES)))
    assert {s.key.setting for s in found} == {BASELINE}
    unstated = read_text(text + bench.run(SIZES), StatedFacts())
    said = [n.message for n in unstated.notices if n.caution is Caution.UNSTATED_SETTING]
    assert ("sets nothing" in said[0]) == ("here" in text)


def test_rccl_applies_a_name_before_a_colon_to_another_collective(
    bench: Bench, read_text: ReadText
) -> None:
    """To 2.28.3 it does (shared facts, rccl-and-nccl.md); which ran is then not known."""
    head = "RCCL version : 2.27.7-HEAD\nexport NCCL_ALGO=allreduce:tree NCCL_PROTO=LL\n"
    for line, setting in ((head, "unstated"), (head.replace("RCCL", "NCCL"), "tree/ll")):
        found = samples_of(read_text(line + bench.run(SIZES), StatedFacts()))
        assert {str(s.key.setting) for s in found} == {setting}


def test_the_part_of_a_mixed_file_that_nothing_forced_is_the_baseline(
    bench: Bench, read_text: ReadText
) -> None:
    """--baseline fills what the file leaves unsaid, and takes no forced row."""
    ring = "### NCCL_ALGO=Ring NCCL_PROTO=LL\n" + bench.run(SIZES)
    settings = [s.key.setting for s in samples_of(read_text(bench.run(SIZES) + ring))]
    assert settings == [BASELINE] * 22 + [Setting.parse("ring/ll")] * 22


def test_rows_of_two_environments_are_never_pooled(bench: Bench, read_text: ReadText) -> None:
    """What differs is named with its lines; the user chooses one, or splits the file."""
    command = "mpirun -np 8 -x NCCL_IB_TC={} ./all_reduce_perf\n"
    text = command.format(1) + bench.run(SIZES) + command.format(2) + bench.run(SIZES, first=50.0)
    with pytest.raises(OutputError, match=r"NCCL_IB_TC=1 .*NCCL_IB_TC=2") as error:
        read_text(text)
    assert "--assume NCCL_IB_TC=2" in str(error.value.hint)
    chosen = read_text(text, StatedFacts(setting=BASELINE, assume=(("NCCL_IB_TC", "2"),)))
    assert (chosen.environment, len(samples_of(chosen))) == ({"NCCL_IB_TC": "2"}, 22)
    assert samples_of(chosen)[0].time_us == 50.0
    with pytest.raises(CommandLineError, match="NCCL_IB_TC=3"):
        read_text(text, StatedFacts(assume=(("NCCL_IB_TC", "3"),)))


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
    assert len(samples_of(read_text(text, StatedFacts(n_ranks=8, **said)))) == len(rows)
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
    assert [one.doubt for one in samples_of(right)] == [UnusableReason.WRONG, None]
    # What a benchmark has beside is nobody's slip.
    other = read_text(f"{facts}setting,nbytes,time_us,host,temperature\n{rows}", stated)
    assert not [one for one in other.notices if "mean nothing" in one.message]
