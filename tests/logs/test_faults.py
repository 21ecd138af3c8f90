"""Public inputs that were read wrongly once; right values are those of their INDEX.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rccltune.logs.reader import ParsedLog, read
from rccltune.model.errors import CommandLineError
from rccltune.model.measurement import StatedFacts
from rccltune.model.settings import BASELINE, Role, Scale
from rccltune.model.vocabulary import Collective

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
