"""A recorded job, from its record to rules for its sizes, on the simulated node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pandas as pd
import pytest

from rccltune.cli import run

HEADER = "collective,nBytes,nRanks,nNodes,calls\n"
COMM = "#@ comm id=1 host=n pid={} context=0 since=1 nRanks=2 nNodes=1 calls=15 beyond=0 unknown=0 state=whole\n"
KIB = 1024
pytestmark = pytest.mark.usefixtures("stand_ins", "here")


def words(here: Path, *more: str) -> list[str]:
    """A sweep of the workload's sizes by two settings."""
    node = str(made.node(here / "node.yaml"))
    where = ["--simulate", node, "--mode", "spx-nps1", "--workload", "w.csv"]
    return ["sweep", *where, "--setting", "ring/ll", "--setting", "ring/simple", *more]


def result(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> Any:  # noqa: ANN401 - JSON
    """What a verb says with --json."""
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_jobs_sizes_are_swept_remembered_and_its_saving_is_a_closed_form(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks, 30 calls at 64 KiB: 15 each, at what the node file says of either setting."""
    rows = f"allreduce,{64 * KIB},2,1,30\n"
    Path("w.csv").write_text(COMM.format(1) + COMM.format(2) + HEADER + rows)
    assert run([*words(here), "-q"]) == 0
    samples = pd.read_csv(f"{made.SESSION}/samples.csv", keep_default_na=False)
    assert set(samples["collective"]) == {"all_reduce"}
    assert set(samples["nbytes"]) == {64 * KIB}
    sweep = Path(made.SESSION, "sweep.yaml")
    assert "sizes:\n- all_reduce/65536\n" in sweep.read_text()

    saving = result(capsys, ["emit-config", "--workload", "w.csv"])["saving"]
    assert saving["known"] == 1
    assert saving["before_s"] == pytest.approx(15e-6 * made.LIBRARY_US, rel=0.05)
    gained = made.LIBRARY_US - made.FASTEST_US
    assert saving["saved_s"] == pytest.approx(15e-6 * gained, rel=0.05)
    # The same session goes on without the file.
    n_runs = len(list(Path(made.SESSION, "runs").iterdir()))
    assert run(["sweep", "-c", str(sweep), "-q"]) == 0
    assert len(list(Path(made.SESSION, "runs").iterdir())) == n_runs


def test_it_says_what_a_job_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks added up; small shares are summed up, or shown by -v; what is not seen is said."""
    rows = "".join(f"allreduce,{1 << k},64,1,{k}\n" for k in range(8, 32))
    Path("a.csv").write_text(HEADER + rows)
    Path("b.csv").write_text(HEADER + rows)

    assert run(["workload", "a.csv", "b.csv"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{2 * sum(range(8, 32))} calls, ")
    assert "and 4 sizes more" in text
    for word in ("captured graphs", "point-to-point", "grouped calls"):
        assert word in text
    assert run(["workload", "a.csv", "-v"]) == 0
    assert "sizes more" not in capsys.readouterr().out
    plain = result(capsys, ["workload", "a.csv"])
    assert sum(one["of_calls"] for one in plain["counts"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--min-bytes", "8"], 2, "so does --min-bytes"),
        (["--collective", "reduce"], 2, "no call of these collectives"),
        (["--runner", "rccl-tests"], 2, "leave --runner out for the sizes of a workload"),
    ],
)
def test_mistakes_are_said(
    here: Path, capsys: pytest.CaptureFixture[str], more: list[str], code: int, said: str
) -> None:
    """What is wrong, and what to do."""
    Path("w.csv").write_text(HEADER + "allreduce,64,2,1,3\n")
    assert run(words(here, *more)) == code
    assert said in capsys.readouterr().err
