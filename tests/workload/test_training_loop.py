"""A training loop on two H200, from its records to the rule that was verified for it."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.model.vocabulary import Collective
from rccltune.workload import read_workload

STEPS, LAYERS, RANKS = 200, 8, 2
# A layer of 1024 x 1024 weights and 1024 biases in bfloat16.
BUCKET = 2 * 1024 * (1024 + 1)


@pytest.fixture
def folder(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, from an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return repository / "examples" / "h200x2-training-loop"


def merged(folder: Path) -> Path:
    """Both ranks' records in one."""
    whole = Path("workload.csv")
    whole.write_bytes(b"".join(p.read_bytes() for p in sorted(folder.glob("record-*.csv"))))
    return whole


def rows_of(path: Path) -> list[dict[str, str]]:
    """A table without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_the_plugin_counted_what_the_loop_calls(folder: Path) -> None:
    """PyTorch's DDP puts all gradients of the first step into one bucket, then a layer each."""
    calls = {(c.collective, c.nbytes): c.calls for c in read_workload(merged(folder)).counts}
    assert calls[Collective.ALL_REDUCE, BUCKET] == RANKS * (STEPS - 1) * LAYERS
    assert calls[Collective.ALL_REDUCE, LAYERS * BUCKET] == RANKS
    assert calls[Collective.ALL_GATHER, 4 * RANKS] == RANKS * STEPS


def test_what_the_rule_saves_is_the_difference_of_medians_times_the_calls(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Worked out here from the table of samples."""
    workload = str(merged(folder))
    assert run(["import", str(folder / "sweep.csv")]) == 0
    capsys.readouterr()
    emit_config = ["emit-config", "--workload", workload, "--json"]
    assert run(emit_config) == 0
    said = json.loads(capsys.readouterr().out)

    rows = rows_of(folder / "sweep.csv")

    def time_us(setting: str) -> float:
        """The median over placements of the medians over launches."""
        seen: dict[str, list[float]] = {}
        for row in rows:
            if (row["setting"], row["nbytes"]) == (setting, str(BUCKET)):
                seen.setdefault(row["placement"], []).append(float(row["time_us"]))
        return statistics.median(statistics.median(times) for times in seen.values())

    saved_us = (time_us("baseline") - time_us("ring/ll")) * (STEPS - 1) * LAYERS
    in_all_reduce = 1e6 * said["saving"]["saved_s"]
    # A table does not say that the site had no tuner, which its log did: broadcast of 32 to 68 B,
    # called once a rank each, wins by what launches differ, and adds 6 us.
    assert in_all_reduce == pytest.approx(saved_us, abs=10)
    assert saved_us == pytest.approx(9281, abs=1)
