"""Every real log: numbers read by eye from the files, and the logs' own averages as referee."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sample_rows import Sample, samples_of

from rccltune.logs.parsed_log import ParsedLog, read_log
from rccltune.model.errors import CommandLineError, OutputError
from rccltune.model.measurement import Caution, StatedFacts
from rccltune.model.settings import BASELINE, Scale
from rccltune.model.units import busbw
from rccltune.model.vocabulary import Collective, Placement, UnusableReason

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE
AR, AG, A2A = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.ALLTOALL

# What a log does not say itself, file by file (INDEX.md says it).
OPTIONS: dict[str, StatedFacts] = {
    "amd19_mi300x_2n16r_allreduce.log": StatedFacts(collective=AR),
    "nv01_superbench_old_allreduce.log": StatedFacts(collective=AR),
    "nv01_superbench_old_alltoall.log": StatedFacts(collective=A2A),
    "nv01_superbench_old_reduce.log": StatedFacts(collective=Collective.REDUCE),
    "nv01_superbench_old_broadcast.log": StatedFacts(collective=Collective.BROADCAST),
    "nv02_abci_a100_16node_allreduce.log": StatedFacts(collective=AR),
    "nv06_h800_8r_allreduce_oop_only_concat.txt": StatedFacts(collective=AR),
    "nv11_stat_prefix_8r_allgather.txt": StatedFacts(collective=AG),
    "nv15_gh200_2048r_512n.txt": StatedFacts(collective=AR, n_ranks=2048, n_nodes=512),
    "nv36_grepped_algo_sweep.txt": StatedFacts(collective=AR, n_nodes=1),
}
# name: (half-rows, runs, ranks, nodes, collective of the first), counted with grep and by eye.
SHAPE: dict[str, tuple[int, int, int, int, Collective]] = {
    "amd01_mi355x_1n8r_allreduce.log": (64, 1, 8, 1, AR),
    "amd02_mi355x_1n1r_allreduce_busbw0.log": (64, 1, 1, 1, AR),
    "amd03_mi355x_1n2r_alltoall.log": (64, 1, 2, 1, A2A),
    "amd09_mi355x_6r_all_gather_size0.log": (52, 1, 6, 1, AG),
    "amd15_rccl_json_allreduce_int8_channels56.json": (64, 1, 8, 1, AR),
    "amd16_rccl_json_alltoall_maxctas56.json": (840, 1, 8, 1, A2A),
    "amd19_mi300x_2n16r_allreduce.log": (64, 1, 16, 2, AR),
    "amd21_mi355x_2n16r_allreduce_v2.17.9.log": (62, 1, 16, 2, AR),
    "nv01_superbench_old_allreduce.log": (68, 1, 8, 1, AR),
    "nv01_superbench_old_alltoall.log": (68, 1, 8, 1, A2A),
    "nv01_superbench_old_reduce.log": (68, 1, 8, 1, Collective.REDUCE),
    "nv01_superbench_old_broadcast.log": (68, 1, 8, 1, Collective.BROADCAST),
    "nv02_abci_a100_16node_allreduce.log": (48, 1, 128, 16, AR),
    "nv06_h800_8r_allreduce_oop_only_concat.txt": (27, 27, 8, 1, AR),
    "nv11_stat_prefix_8r_allgather.txt": (46, 1, 8, 1, AG),
    "nv14_gh200_16r_4n_srun_prefix_FAILED.out": (60, 1, 16, 4, AR),
    "nv15_gh200_2048r_512n.txt": (60, 1, 2048, 512, AR),
    "nv25_xxrjun_10n80r_allreduce_alltoall.log": (100, 5, 80, 10, AR),
    "nv29_xxrjun_pair_failed_b.log": (20, 1, 8, 2, Collective.SENDRECV),
    "nv31_4gpu_allreduce_v2.18.3.txt": (62, 1, 4, 1, AR),
    "nv36_grepped_algo_sweep.txt": (18, 9, 4, 1, AR),
    "nv40_lipy_a100_sendrecv.md": (8, 1, 8, 1, Collective.SENDRECV),
}
_AVERAGE = re.compile(r"^(?:\s*0: )?# Avg bus bandwidth\s*: ([\d.]+)", re.MULTILINE)


def import_log(shared: Path, name: str, **more: object) -> ParsedLog:
    """Read one real log with the options that it needs."""
    stated = replace(OPTIONS.get(name, StatedFacts()), **more)
    return read_log(shared / "logs" / name, stated, "L")


def pick(reading: ParsedLog, nbytes: int, placement: Placement, launch: str = "L") -> Sample:
    """One half-row."""
    found = [
        s
        for s in samples_of(reading)
        if (s.nbytes, s.key.placement, s.launch) == (nbytes, placement, launch)
    ]
    assert len(found) == 1
    return found[0]


_WHOLE_ROW = re.compile(
    r"(?<![\d.])(\d+)[ \t]+\d+[ \t]+(?:u?int\d+|half|float|double|bfloat16)[ \t]+(?:[a-z]+[ \t]+)?"
    r"(?:-?\d+[ \t]+(?=[\d.e+]+[ \t]+[\d.]+[ \t]+[\d.]+[ \t]))?"
    r"([\d.e+]+)[ \t]+[\d.]+[ \t]+[\d.]+[ \t]+(?:N/A|[\de+.-]+)"
    r"(?:[ \t]+([\d.e+]+)[ \t]+[\d.]+[ \t]+[\d.]+[ \t]+(?:N/A|[\de+.-]+))?[ \t]*\r?$",
    re.MULTILINE,
)
# Written as JSON.
_CUT = ("amd15", "amd16")


@pytest.mark.parametrize("name", SHAPE)
def test_every_readable_log(shared: Path, name: str) -> None:
    """No row is lost, invented or doubted; scale and collective are those of the log.

    Sizes and times are those of a regular expression over the raw file, whatever stands around the
    rows. Bus bandwidth recomputed from them has the mean that the benchmark printed: over all
    half-rows, 0-byte ones included, before it rounds; times have four digits, hence the tolerance.
    """
    n_samples, n_runs, ranks, nodes, collective = SHAPE[name]
    reading = import_log(shared, name, setting=BASELINE if name[:4] != "nv36" else None)
    assert len(samples_of(reading)) == n_samples
    assert reading.tables == n_runs
    assert {s.key.scale for s in samples_of(reading)} == {Scale(n_nodes=nodes, n_ranks=ranks)}
    assert samples_of(reading)[0].key.collective is collective
    doubts = {s.doubt for s in samples_of(reading)}
    honest = (UnusableReason.INCONSISTENT, UnusableReason.NO_TIME, UnusableReason.UNKNOWN_TYPE)
    assert not doubts.intersection(honest)

    text = (shared / "logs" / name).read_text(errors="replace")
    rows = Counter(
        (int(size), float(time))
        for size, *times in _WHOLE_ROW.findall(text)
        for time in times
        if time
    )
    if not name.startswith(_CUT):
        assert Counter((s.nbytes, s.time_us) for s in samples_of(reading)) == rows

    launches: dict[str, list[float]] = {}
    for s in samples_of(reading):
        assert s.time_us is not None
        value = busbw(s.key.collective, s.key.scale.n_ranks, s.nbytes, s.time_us)
        launches.setdefault(s.launch, []).append(value)
    assert len(launches) == n_runs
    printed = sorted(float(each) for each in _AVERAGE.findall(text))
    found = sorted(sum(values) / len(values) for values in launches.values())
    if name[:4] in ("nv15", "nv40") or name.endswith(".json"):
        assert printed == []
    else:
        assert found == pytest.approx(printed, rel=2e-3, abs=1e-4)
    assert not [n for n in reading.notices if "average" in n.message]


def test_rows_that_are_not_whole_are_left_out_and_counted(shared: Path) -> None:
    """nv34: the library's messages are glued into all six rows; the remedy keeps them apart."""
    with pytest.raises(OutputError, match=r"none is whole \(6\)") as error:
        import_log(shared, "nv34_4gpu_allreduce_rows_split_by_info.log")
    assert str(error.value.where).endswith(":188")
    assert "NCCL_DEBUG_FILE" in str(error.value.hint)


def test_two_jobs_in_one_log_are_not_taken_apart(shared: Path) -> None:
    """amd10: sizes stand twice in one table, and the lines are named."""
    with pytest.raises(OutputError, match=r"size 8388608 .* lines 961 and 977") as error:
        import_log(shared, "amd10_mi35x_2n16r_allreduce_info_interleaved.log")
    assert "a file for each" in str(error.value.hint)


def test_wrong_results_are_labelled(shared: Path) -> None:
    """nv14 and nv15: the two half-rows with wrong elements each, and only those."""
    failed = import_log(shared, "nv14_gh200_16r_4n_srun_prefix_FAILED.out")
    wrong = {
        (s.key.placement, s.n_wrong) for s in samples_of(failed) if s.doubt is UnusableReason.WRONG
    }
    assert wrong == {(OUT, 928), (IN, 448)}
    stripped = import_log(shared, "nv15_gh200_2048r_512n.txt")
    wrong = {
        (s.key.placement, s.n_wrong)
        for s in samples_of(stripped)
        if s.doubt is UnusableReason.WRONG
    }
    assert wrong == {(OUT, 85888), (IN, 43136)}


def test_options_that_contradict_a_real_log(shared: Path) -> None:
    """The error names the option, what the file says, and the line that says it."""
    with pytest.raises(CommandLineError) as ranks:
        import_log(shared, "nv31_4gpu_allreduce_v2.18.3.txt", n_ranks=8)
    assert "--ranks 8" in ranks.value.message
    assert "4" in ranks.value.message
    assert str(ranks.value.where).endswith("nv31_4gpu_allreduce_v2.18.3.txt:9")
    with pytest.raises(CommandLineError, match="--collective all_gather") as collective:
        import_log(shared, "amd01_mi355x_1n8r_allreduce.log", collective=AG)
    assert str(collective.value.where).endswith(":1")
    # Nothing in this log names the collective, but its bandwidths rule this one out.
    with pytest.raises(CommandLineError, match="busbw"):
        import_log(shared, "nv11_stat_prefix_8r_allgather.txt", collective=AR)
    with pytest.raises(CommandLineError, match="busbw"):
        import_log(shared, "nv36_grepped_algo_sweep.txt", n_ranks=8)


def test_a_missing_collective_is_guessed_for_the_user_only(shared: Path) -> None:
    """The error proposes what the bandwidths fit, and reads nothing on that guess."""
    with pytest.raises(OutputError, match="which collective") as error:
        read_log(shared / "logs" / "nv11_stat_prefix_8r_allgather.txt", StatedFacts(), "L")
    assert "--collective" in str(error.value.hint)
    assert "all_gather" in str(error.value.hint)
    assert "all_reduce" not in str(error.value.hint)


@pytest.mark.parametrize(
    ("name", "says", "line"),
    [
        ("amd05_mi355x_2n16r_alltoall_truncated.log", "printed no table", ":1"),
        ("amd12_mi355x_8r_allreduce_shm_alloc_failed.log", "Test NCCL failure", ":1360"),
        ("nv21_polaris_128n_launch_failed.dat", "launch failed on x3006c0s1b1n0", ":1"),
        ("amd17_cvs_rccl_v2289_healthy.json", "no benchmark's output", ":1"),
    ],
)
def test_files_without_rows_say_why(shared: Path, name: str, says: str, line: str) -> None:
    """A launch that failed is an error that shows its own words and where they stand."""
    with pytest.raises(OutputError) as error:
        import_log(shared, name)
    assert says in error.value.message
    assert str(error.value.where).endswith(name + line)
    assert error.value.hint


def test_every_shared_rule_file_is_recognised(shared: Path) -> None:
    """A rule file given as a log is named as one, with the command that reads it."""
    seen = 0
    for path in (shared / "configs").iterdir():
        if "sample_performance" in path.name:
            continue
        with pytest.raises(OutputError, match="rule file") as error:
            read_log(path, StatedFacts(), "L")
        assert f"rccltune explain {shlex.quote(str(path))}" in str(error.value.hint)
        seen += 1
    assert seen >= 13


# The only collective that their bandwidths fit; they needed --collective once.
ALONE = {
    "amd19_mi300x_2n16r_allreduce.log": "all_reduce",
    "nv01_superbench_old_allreduce.log": "all_reduce",
    "nv01_superbench_old_broadcast.log": "broadcast",
    "nv01_superbench_old_reduce.log": "reduce",
    "nv02_abci_a100_16node_allreduce.log": "all_reduce",
    "nv06_h800_8r_allreduce_oop_only_concat.txt": "all_reduce",
}


@pytest.mark.parametrize("name", ALONE)
def test_the_only_candidate_is_taken_and_said(shared: Path, name: str) -> None:
    """No option is needed, and a notice says on what the collective rests."""
    reading = read_log(shared / "logs" / name, StatedFacts(), "L")
    assert {s.key.collective.value for s in samples_of(reading)} == {ALONE[name]}
    said = [one for one in reading.notices if one.caution is Caution.ASSUMED]
    assert any(f"{ALONE[name]}: the only collective" in one.message for one in said)
