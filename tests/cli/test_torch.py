"""Sweeps through PyTorch: torchrun and gloo on the CPU, and walks whose steps the runner tells.

Gloo asks no tuner. Where a walk is tested, every call of it asks the real plugin first, as NCCL
does (tests/torchbench/driver.py): what is asked, told, traced and proven is then the real thing,
and only the collective behind it is gloo's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from torches import DRIVER, MAIN, torch_python
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure import benchmarks as torching
from rccltune.measure.crosscheck import Beside
from rccltune.model.errors import MachineError
from rccltune.model.vocabulary import Collective

SESSION = Path("rccltune-session")
SMALL = ["--min-bytes", "1K", "--max-bytes", "16K", "--factor", "4", "--force"]
# Ranks import torch, which takes each of them seconds of a busy machine.
pytestmark = [pytest.mark.usefixtures("here"), pytest.mark.timeout(400)]


def words(verb: str, *more: str, backend: str = "gloo") -> list[str]:
    """A command line with two ranks in the Python that has torch."""
    where = ["--runner", "torch", "--python", torch_python(), "--backend", backend, "--np", "2"]
    return [verb, *where, *SMALL, *more]


def samples() -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv(SESSION / "samples.csv", keep_default_na=False)


def launches(folder: Path = SESSION) -> dict[str, int]:
    """Launches that ended, with the time when."""
    return {p.parent.name: p.stat().st_mtime_ns for p in folder.glob("launches/*/outcome.json")}


def test_gloo_is_swept_as_it_is_and_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    """Baselines alone, exit code 0; talk, session, samples and figure say what it is."""
    assert run(words("sweep", "--collective", "all_reduce")) == 0
    said = capsys.readouterr()
    assert lacks(said.err, "GPU's") == []
    assert lacks(said.err, "no tuner") == []
    about = json.loads((SESSION / "session.json").read_text(encoding="utf-8"))["fingerprint"]
    assert lacks(about["product"], "CPU") == []
    assert about["runner"].startswith("PyTorch 2")
    assert about["runner"].endswith(", gloo")
    table = samples()
    assert set(table["setting"]) == {"baseline"}
    assert set(table["placement"]) == {"in"}
    assert set(table["n_wrong"]) == {0}
    # Three launches of two passes over three sizes; the first pass of each is thrown away.
    assert table["doubt"].value_counts().to_dict() == {"": 9, "connecting": 9}

    made = launches()
    assert run(words("sweep", "--collective", "all_reduce")) == 0
    assert launches() == made
    assert run(["plot", "--format", "svg"]) == 0
    picture = next(SESSION.glob("plots/*bandwidth.svg")).read_text(encoding="utf-8")
    assert lacks(picture, "CPU") == []
    # There is nothing to choose from.
    assert run(["emit-config"]) == 8


def test_gloo_cannot_be_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anything is measured, with what can be done instead; exit code 4."""
    assert run(words("tune")) == 4
    said = capsys.readouterr().err
    assert lacks(said, "CPU") == []
    assert "rccltune sweep" in said
    assert not SESSION.exists()


def test_a_setting_asked_of_gloo_is_told_to_be_impossible(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Not left out in silence."""
    assert run(words("sweep", "--plan", "--setting", "ring/ll", "--collective", "reduce")) == 0
    assert lacks(capsys.readouterr().out, "ring/ll", "CPU") == []


def test_variants_that_need_what_torch_has_not_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Options of rccl-tests' own, and one process for all GPUs."""
    names = {"registered": "no -R", "graph-2": "no -G", "threads": "one process for all GPUs"}
    more = [word for name in names for word in ("--variant", name)]
    assert run(words("sweep", "--plan", "--collective", "reduce", *more)) == 0
    said = capsys.readouterr().out.splitlines()
    for name, why in names.items():
        assert any(f"variant {name}: " in line and why in line for line in said)


def test_torch_for_the_cpu_has_no_library_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --backend gloo the CPU is never measured; exit code 4."""
    assert run(words("sweep", backend="nccl")) == 4
    said = capsys.readouterr().err
    assert lacks(said, "no librccl") == []
    assert "--backend gloo" in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--runner", "torch", "--simulate", "mi300x"], "--simulate does not go with"),
        (["--runner", "torch", "--librccl", "l.so"], "--librccl does not go with"),
        (["--runner", "torch", "--placement", "both"], "all_reduce has one tensor"),
        (["--runner", "torch", "--collective", "alltoall"], "alltoall is not measured"),
        (["--runner", "torch", "--dtype", "f8e4m3"], "f8e4m3 is not measured"),
        (["--runner", "torch", "--op", "mulsum"], "no --op mulsum"),
        (["--runner", "torch", "--op", "avg", "--dtype", "int32"], "avg of int32"),
        (["--runner", "torch", "--backend", "gloo", "--op", "avg"], "gloo has no --op avg"),
        (["--runner", "torch", "--backend", "gloo", "--graph", "1"], "no graphs"),
        (["--python", "python3"], "--python is the PyTorch runner's"),
        (["--backend", "gloo"], "--backend is the PyTorch runner's"),
        (["--launcher", "torchrun"], "torchrun is the PyTorch runner's"),
    ],
)
def test_what_does_not_go_together_is_refused(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is looked at; exit code 2."""
    assert run(["sweep", "--runner", "rccl-tests", "--np", "2", *more]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("python", ["/proc/nowhere/python", "true"])
def test_a_python_without_torch_is_told(python: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 4, and its name."""
    where = ["--runner", "torch", "--python", python, "--backend", "gloo", "--np", "2"]
    assert run(["sweep", *where]) == 4
    assert python in capsys.readouterr().err


# A benchmark of rccl-tests' form whose ranks MPI starts: the runner again, under its name.
BENCHMARK = """#!/bin/sh
if [ "$1" = --help ]; then echo "[-b,--minbytes] [-N,--run_cycles] [-O,--out_of_place]"; exit; fi
exec {python} {main} --backend gloo --store {folder}/store.$PPID all_reduce "$@"
"""


@pytest.mark.mpi
@pytest.mark.long
def test_rccl_tests_are_held_beside_it(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    """In a session of their own, each size's ratio; a second time nothing is measured again."""
    folder = here / "build"
    folder.mkdir()
    script = folder / "all_reduce_perf"
    text = BENCHMARK.format(python=torch_python(), main=MAIN, folder=folder)
    script.write_text(text, encoding="ascii")
    script.chmod(0o755)
    more = ["--collective", "all_reduce", "--rccl-tests", str(folder), "--launcher", "openmpi"]
    assert run([*words("sweep", *more), "--json"]) == 0
    event = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert event["event"] == "cross-check"
    [one] = event["collectives"]
    assert one["collective"] == "all_reduce"
    assert set(one["ratios"]) == {"1024", "4096", "16384"}
    assert all(0.01 < ratio < 100 for ratio in one["ratios"].values())

    made = launches(SESSION / "rccl-tests")
    assert len(made) == 3
    assert run(words("sweep", *more)) == 0
    assert lacks(capsys.readouterr().out, "PyTorch's") == []
    assert launches(SESSION / "rccl-tests") == made
    # Nothing of theirs is in the session itself.
    about = json.loads((SESSION / "session.json").read_text(encoding="utf-8"))["fingerprint"]
    other = json.loads((SESSION / "rccl-tests" / "session.json").read_text(encoding="utf-8"))
    assert "runner" in about
    assert "runner" not in other["fingerprint"]


def test_ratios_are_told_in_a_sentence() -> None:
    """Median, range and sizes, and whose library each was."""
    one = Beside(
        collective=Collective.ALL_REDUCE,
        ratios=((8, 1.5), (16, 1.0), (32, 0.9)),
        libraries=("RCCL 2.27.7", "RCCL 2.28.3"),
    )
    assert (
        lacks(
            one.line, "all_reduce", "1.00x", "0.90", "1.50", "3 sizes", "RCCL", "2.27.7", "2.28.3"
        )
        == []
    )
    assert lacks(replace(one, ratios=()).line, "all_reduce") == []


@pytest.mark.mpi
def test_rccl_tests_that_are_not_there_are_told_first() -> None:
    """Before anything is measured; exit code 4."""
    assert run(words("sweep", "--rccl-tests", "nowhere", "--collective", "all_reduce")) == 4
    assert not SESSION.exists()


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every call asks the plugin, so that gloo's times can stand for settings'."""
    try:
        plugin.library()
    except MachineError as error:
        pytest.skip(str(error))
    use(monkeypatch, "ask")
    return monkeypatch


def use(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Have launches start the driver instead of the runner."""

    def argv(python: str, backend: str) -> tuple[str, ...]:
        store = ("--store", "{launch}/rendezvous")
        return (python, str(DRIVER), what, "--backend", backend, *store)

    monkeypatch.setattr("rccltune.torchbench.options.argv", argv)
    monkeypatch.setattr(torching, "UNTUNABLE", None)


# Open MPI starts ranks in half of torchrun's time.
WALK = ["--repeats", "2", "--launcher", "openmpi"]
WALK += ["--setting", "ring/ll", "--setting", "ring/simple"]


@pytest.mark.mpi
def test_a_walk_is_told_its_steps(
    asking: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One launch, each pass another setting, proven by the plugin's own trace of every rank."""
    more = ["--collective", "all_gather", "--placement", "both"]
    assert run(words("sweep", *WALK, *more)) == 0, capsys.readouterr().err
    assert "many settings in each launch" in capsys.readouterr().err
    [schedule] = SESSION.glob("launches/*/schedule")
    lines = schedule.read_text(encoding="ascii").splitlines()
    assert "advance=told" in lines[1].split()
    steps = [line for line in lines if not line.startswith("#")]
    # The warm-up, then three settings three times: the first for their connections.
    assert steps[0] == "silent"
    assert sorted(steps[1:]) == sorted(3 * ["silent", "ring/ll", "ring/simple"])
    table = samples()
    walked = table[table["launch"].str.startswith(schedule.parent.name)]
    # Three sizes, both halves, two kept passes of three.
    kept = walked[walked["doubt"] == ""].groupby("setting").size().to_dict()
    assert kept == {"silent": 12, "ring/ll": 12, "ring/simple": 12}
    assert set(walked["doubt"]) == {"", "connecting"}
    forced = walked[(walked["setting"] != "silent") & (walked["doubt"] == "")]
    assert (forced["executed"] == forced["setting"]).all()
    for name in forced["step"].unique():
        of_step = forced[forced["step"] == name]["setting"]
        assert set(of_step) == {steps[int(name)]}


@pytest.mark.mpi
@pytest.mark.long
def test_a_call_too_many_voids_the_walk(
    asking: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody else called on the communicator: nothing of the launch is used."""
    use(asking, "ask-more")
    more = ["--collective", "all_reduce"]
    assert run(words("sweep", *WALK, *more)) == 5
    said = capsys.readouterr().err
    assert "was asked 5 times at 1024 bytes, not 4 times" in said
    table = samples()
    assert (table["step"] == "").all()
