"""Public inputs that were read wrongly once; right values are those of their INDEX.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rccltune.logs.reader import ParsedLog, read
from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE, Role, Scale
from rccltune.model.vocabulary import Collective, Placement

OUT, IN = Placement.OUT_OF_PLACE, Placement.IN_PLACE
# Any row of these files, wherever in a line it stands: size, then the two times.
_ROW = re.compile(
    r"(\d+)\s+\d+\s+(?:bfloat16|float)\s+sum\s+-1(?:\[0\])?\s+([\d.]+)(?:\s+\S+){3}\s+([\d.]+)"
)
_STATED = {"collective": Collective.ALL_REDUCE, "n_ranks": 2, "n_nodes": 1}
# The files that are benchmarks' tables; the others are logs for `rccltune why`.
TABLES = (
    "mid-env.log", "mid-export.log", "cmd-tuner.log", "midlabel2.log", "prose-header.log",
    "lab-torchrun.log", "lab-pdsh.log", "lab-ray.log",
)  # fmt: skip


def fault(shared: Path, name: str, **more: object) -> ParsedLog:
    """Read one of the inputs, with the facts that it does not say."""
    scale = {"n_nodes": 2} if name.startswith("lab") else {}
    scale = {"n_ranks": 32, "n_nodes": 4} if name == "midlabel2.log" else scale
    return read(shared / "faults-2026-11" / name, StatedFacts(**{**_STATED, **scale, **more}), "L")


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_read_as_a_regular_expression_finds_it(shared: Path, name: str) -> None:
    """Sizes and both times, in the file's order."""
    text = (shared / "faults-2026-11" / name).read_text(encoding="utf-8")
    expected = [
        (int(size), float(time)) for size, out, into in _ROW.findall(text) for time in (out, into)
    ]
    assert len(expected) >= 2
    assert [(s.nbytes, s.time_us) for s in fault(shared, name).samples] == expected


@pytest.mark.parametrize("name", ["mid-env.log", "mid-export.log"])
@pytest.mark.parametrize("stated", [None, BASELINE])
def test_a_line_between_rows_forces_the_rows_below_it(
    shared: Path, name: str, stated: object
) -> None:
    """Row 1 is what the user says; rows 2 and 3 are ring/ll128, never the baseline."""
    settings = [str(s.key.setting) for s in fault(shared, name, setting=stated).samples]
    assert settings == ["unstated" if stated is None else "baseline"] * 2 + ["ring/ll128"] * 4


def test_rows_under_a_tuner_are_no_baseline(shared: Path) -> None:
    """The command above the table loads a plugin and a rule file."""
    with pytest.raises(CommandLineError, match=r"tuner2\.csv"):
        fault(shared, "cmd-tuner.log", setting=BASELINE)
    reading = fault(shared, "cmd-tuner.log")
    assert {s.key.setting.role for s in reading.samples} == {Role.UNSTATED}
    assert any("libnccl-tuner-example.so" in one.message for one in reading.notices)


@pytest.mark.parametrize("name", ["lab-torchrun.log", "lab-pdsh.log", "lab-ray.log"])
def test_a_launchers_label_hides_no_rank(shared: Path, name: str) -> None:
    """Two ranks on two hosts; other numbers of nodes are refused."""
    assert {s.key.scale for s in fault(shared, name).samples} == {Scale(n_nodes=2, n_ranks=2)}
    with pytest.raises(CommandLineError, match="--nodes 1"):
        fault(shared, name, n_nodes=1)


def test_labels_inside_a_row(shared: Path) -> None:
    """INDEX.md: 1626.5 µs out of place, 2302.3 µs in place."""
    found = {s.key.placement: s.time_us for s in fault(shared, "midlabel2.log").samples}
    assert found == {OUT: 1626.5, IN: 2302.3}


_HEAD = "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
_FIRST = "       16384          8192  bfloat16     sum      -1    20.84    0.79    0.79    N/A\n"
_NEXT = "       16384          8192  bfloat16     sum      -1    27.25    0.60    0.60    N/A\n"
_INFO = "host:1:2 [0] NCCL INFO "
# What stands between two rows, and the setting of the one below it.
BETWEEN = (
    ("$ export NCCL_ALGO=RING; export NCCL_PROTO=LL128\n", "ring/ll128"),
    ("+ NCCL_ALGO=Ring NCCL_PROTO=LL128 mpirun -np 2 all_reduce_perf\n", "ring/ll128"),
    ("setenv NCCL_ALGO Ring\nsetenv NCCL_PROTO LL128\n", "ring/ll128"),
    ("# NCCL_ALGO=Ring, NCCL_PROTO=LL128\n", "ring/ll128"),
    ("--- NCCL_ALGO=Ring NCCL_PROTO=LL128 ---\n", "ring/ll128"),
    ("### Ring LL128 ###\n", "ring/ll128"),
    ("docker run -e NCCL_ALGO=Ring -e NCCL_PROTO=LL128 image\n", "ring/ll128"),
    ("env: NCCL_ALGO=Ring NCCL_PROTO=LL128\n", "ring/ll128"),
    (f"{_INFO}NCCL_ALGO set by environment to Ring\n", "ring/-"),
    ("export RCCL_OVERRIDE_ALGO=Tree RCCL_OVERRIDE_PROTO=LL\n", "tree/ll"),
    ("export NCCL_ALGO=Ring,Tree\n", "unstated"),
    ("export NCCL_TUNER_PLUGIN=/x/lib.so\n", "unstated"),
    (f"{_INFO}TUNER/Plugin: Using somebodys_tuner (v3)\n", "unstated"),
    ("export NCCL_MAX_NCHANNELS=8\n", "unstated"),
    ("I also tried NCCL_ALGO=Ring but it hung.\n", "baseline"),
)


@pytest.mark.parametrize(("line", "setting"), BETWEEN)
@pytest.mark.parametrize("headed", [False, True])
def test_lines_of_any_kind_between_rows(
    tmp_path: Path, line: str, setting: str, *, headed: bool
) -> None:
    """The row above stays the baseline, the one below is what the line says."""
    path = tmp_path / "x.log"
    head = "# out-of-place\n" + _HEAD if headed else ""
    path.write_text(head + _FIRST + line + _NEXT, encoding="utf-8")
    reading = read(path, StatedFacts(**_STATED, setting=BASELINE), "L")
    assert [str(s.key.setting) for s in reading.samples] == ["baseline", setting]


def test_a_later_command_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    """Numbered runs of a script: the second forces nothing; what is unset is gone."""
    path = tmp_path / "x.log"
    path.write_text(
        f"# SET=E10 -x NCCL_ALGO=Ring\n{_FIRST}# SET=E11 args=-b 8K\n{_NEXT}"
        f"export NCCL_PROTO=LL\n{_FIRST}unset NCCL_PROTO\n{_NEXT}"
    )
    settings = [str(s.key.setting) for s in read(path, StatedFacts(**_STATED), "L").samples]
    assert settings == ["ring/-", "unstated", "-/ll", "unstated"]
