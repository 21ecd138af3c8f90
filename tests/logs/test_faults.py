"""Public inputs that were read wrongly once; right values are those of their INDEX.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sample_rows import samples_of

from rccltune.logs.parsed_log import ParsedLog, read_log
from rccltune.model.errors import CommandLineError, OutputError, RccltuneError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE, Role, Scale, Setting, Vendor
from rccltune.model.vocabulary import Collective, UnusableReason

# Any row of these files, wherever in a line it stands: size, then the two times.
_ROW = re.compile(
    r"(\d+)\s+\d+\s+(?:bfloat16|float)\s+sum\s+-1(?:\[0\])?\s+([\d.]+)(?:\s+\S+){3}\s+([\d.]+)"
)
_STATED = {"collective": Collective.ALL_REDUCE, "n_ranks": 2, "n_nodes": 1}
# The files that are benchmarks' tables; the others are logs for `rccltune why`.
TABLES = (
    "mid-env.log", "mid-export.log", "cmd-tuner.log", "prose-header.log", "lab-torchrun.log",
    "lab-pdsh.log", "lab-ray.log",
)  # fmt: skip


def fault(shared: Path, name: str, **more: object) -> ParsedLog:
    """Read one of the inputs, with the facts that it does not say."""
    scale = {"n_nodes": 2} if name.startswith("lab") else {}
    return read_log(
        shared / "faults-2026-11" / name, StatedFacts(**{**_STATED, **scale, **more}), "L"
    )


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_read_as_a_regular_expression_finds_it(shared: Path, name: str) -> None:
    """Sizes and both times, in the file's order."""
    text = (shared / "faults-2026-11" / name).read_text(encoding="utf-8")
    expected = [
        (int(size), float(time)) for size, out, into in _ROW.findall(text) for time in (out, into)
    ]
    assert len(expected) >= 2
    assert [(s.nbytes, s.time_us) for s in samples_of(fault(shared, name))] == expected


@pytest.mark.parametrize("name", ["mid-env.log", "mid-export.log"])
@pytest.mark.parametrize("stated", [None, BASELINE])
def test_a_line_between_rows_forces_the_rows_below_it(
    shared: Path, name: str, stated: object
) -> None:
    """Row 1 is what the user says; rows 2 and 3 are ring/ll128, never the baseline."""
    settings = [str(s.key.setting) for s in samples_of(fault(shared, name, setting=stated))]
    assert settings == ["unstated" if stated is None else "baseline"] * 2 + ["ring/ll128"] * 4


def test_rows_under_a_tuner_are_no_baseline(shared: Path) -> None:
    """The command above the table loads a plugin and a rule file."""
    with pytest.raises(CommandLineError, match=r"tuner2\.csv"):
        fault(shared, "cmd-tuner.log", setting=BASELINE)
    reading = fault(shared, "cmd-tuner.log")
    assert {s.key.setting.role for s in samples_of(reading)} == {Role.UNSTATED}
    assert any("libnccl-tuner-example.so" in one.message for one in reading.notices)


@pytest.mark.parametrize("name", ["lab-torchrun.log", "lab-pdsh.log", "lab-ray.log"])
def test_a_launchers_label_hides_no_rank(shared: Path, name: str) -> None:
    """Two ranks on two hosts; other numbers of nodes are refused."""
    assert {s.key.scale for s in samples_of(fault(shared, name))} == {Scale(n_nodes=2, n_ranks=2)}
    with pytest.raises(CommandLineError, match="--nodes 1"):
        fault(shared, name, n_nodes=1)


OF_29 = "faults-2026-11-29"


def later(shared: Path, name: str, **stated: object) -> ParsedLog:
    """Read one of the inputs of 29 November."""
    return read_log(shared / OF_29 / name, StatedFacts(**stated), "L")


@pytest.mark.parametrize(
    ("name", "stated", "setting", "scale", "collective", "n_rows"),
    [
        ("caret_algo.txt", {}, "unstated", (1, 2), "all_reduce", 6),
        ("channels_forced_2.txt", {}, "ring/ll/2", (1, 2), "all_reduce", 6),
        ("channels_forced_32.txt", {}, "ring/ll/32", (1, 2), "all_reduce", 6),
        ("env_above_heading.txt", {"n_nodes": 1, "n_ranks": 8}, "ring/ll128", (1, 8), "all_reduce", 6),
        ("env_punctuation.txt", {"n_nodes": 1, "n_ranks": 8}, "ring/ll128", (1, 8), "all_reduce", 6),
        ("footer_alltoall.txt", {"n_nodes": 2}, "unstated", (2, 16), "alltoall", 4),
        ("json_g8.txt", {}, "unstated", (1, 8), "all_reduce", 6),
        ("highest_rank.txt", {"n_nodes": 32}, "unstated", (32, 128), "alltoall", 2),
        ("two_hosts_elided.txt", {"n_nodes": 2}, "unstated", (2, 8), "all_reduce", 2),
        ("launcher_mpich.txt", {"n_nodes": 2}, "unstated", (2, 16), "all_reduce", 6),
        ("docker_json.txt", {"collective": Collective.ALL_REDUCE}, "unstated", (1, 2), "all_reduce", 6),
    ],
)  # fmt: skip
def test_what_the_file_says_is_used(
    shared: Path,
    name: str,
    stated: dict[str, object],
    setting: str,
    scale: tuple[int, int],
    collective: str,
    n_rows: int,
) -> None:
    """Setting, scale, collective and rows are those of their INDEX.md."""
    samples = samples_of(later(shared, name, **stated))
    assert {str(s.key.setting) for s in samples} == {setting}
    assert {(s.key.scale.n_nodes, s.key.scale.n_ranks) for s in samples} == {scale}
    assert {s.key.collective.value for s in samples} == {collective}
    assert len(samples) == n_rows
    assert {s.doubt for s in samples} <= {None, UnusableReason.UNPROVEN}


@pytest.mark.parametrize(
    ("name", "stated", "says"),
    [
        ("caret_algo.txt", {"setting": BASELINE}, r"NCCL_ALGO=\^NVLS"),
        ("channels_forced_2.txt", {"setting": Setting.parse("-/-/8")}, "--channels 8 .* says 2"),
        ("env_above_heading.txt", {"n_nodes": 1, "n_ranks": 8, "setting": BASELINE}, "NCCL_ALGO=Ring"),
        (
            "footer_alltoall.txt",
            {"n_nodes": 2, "n_ranks": 16, "collective": Collective.ALL_GATHER},
            "--collective all_gather .* says alltoall",
        ),
        ("highest_rank.txt", {"n_nodes": 31, "n_ranks": 124}, "--ranks 124 .* says 128"),
        ("two_hosts_elided.txt", {"n_nodes": 1}, "--nodes 1 .* on 2 hosts"),
        ("launcher_mpich.txt", {}, "how many nodes took part"),
        ("two_environments.txt", {"setting": BASELINE}, "ADAPTIVE_ROUTING=0 .*ADAPTIVE_ROUTING=1"),
        (
            "hint_fits_nothing.txt",
            {"n_nodes": 1, "n_ranks": 8, "collective": Collective.ALL_REDUCE},
            "--collective all_reduce .* says alltoall",
        ),
        ("osu_allreduce.txt", {}, "OSU's benchmarks, which time MPI's"),
        ("ncclx_rules.json", {}, "Meta's NCCLX tuner"),
    ],
)  # fmt: skip
def test_what_contradicts_a_file_is_refused(
    shared: Path, name: str, stated: dict[str, object], says: str
) -> None:
    """By our own error, which names both."""
    with pytest.raises(RccltuneError, match=says) as error:
        later(shared, name, **stated)
    if name == "hint_fits_nothing.txt":
        assert "options hold for all tables of a file" in str(error.value.hint)


def test_rccl_tests_serve_amds_gpus(shared: Path) -> None:
    """The version line alone says whose they are."""
    assert later(shared, "vendor_known.txt").fingerprint.vendor is Vendor.AMD


def test_a_label_inside_a_row_makes_it_no_row(shared: Path) -> None:
    """Rows stand there and are said to."""
    with pytest.raises(OutputError, match=r"none is whole \(1\); the first: 1048576 .* 1626\.5"):
        fault(shared, "midlabel2.log")
