"""A recorded job, from its export line to rules for its sizes, on the simulated node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.simulate import sources

HEADER = "collective,nBytes,nRanks,nNodes,calls\n"
SIMULATED = ["--mode", "cpx-nps4", "--simulate", "mi300x", "--launcher", "none"]
pytestmark = pytest.mark.usefixtures("stand_ins", "here")


def job(here: Path, collective: str, nbytes: int, calls: int) -> None:
    """Eight ranks of a job: the benchmark, with our plugin and the one export line."""
    native = plugin.native_folder()
    node = here / "job.node"
    node.write_bytes(sources.compile_node(sources.node_path("mi300x", "cpx-nps4")))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "RCCL"))}
    env |= {
        "RCCLTUNE_SIM_NODE": str(node),
        "NCCL_TUNER_PLUGIN": str(plugin.library()),
        "RCCLTUNE_RECORD": str(here / "record-%h-%p.csv"),
    }
    mpirun = [str(Path(sys.executable).parent / "mpirun"), "--allow-run-as-root", "--oversubscribe"]
    size = ["-b", str(nbytes), "-e", str(nbytes), "-n", str(calls), "-w", "0", "-c", "0"]
    program = [str(native / "sim" / f"{collective}_perf"), *size, "-g", "1"]
    command = [*mpirun, "--bind-to", "none", "-np", "64", *program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def result(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> Any:  # noqa: ANN401 - JSON
    """What a verb says with --json."""
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.mpi
@pytest.mark.long
def test_a_job_is_recorded_and_its_sizes_are_swept(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """record → show → sweep of those sizes → rules, and what they save of a step."""
    job(here, "all_reduce", 65536, 40)
    job(here, "all_gather", 1 << 26, 10)
    files = sorted(str(path) for path in here.glob("record-*.csv"))
    assert len(files) == 2 * 64

    Path("w.csv").write_bytes(b"".join(Path(name).read_bytes() for name in files))
    shown = result(capsys, ["workload", *files])
    by_name = {(c["collective"], c["nbytes"]): c for c in shown["counts"]}
    # Out of place and in place, 64 ranks; -w 0 leaves one call more for the first of each.
    assert set(by_name) == {("all_reduce", 65536), ("all_gather", 1 << 26)}
    assert by_name["all_reduce", 65536]["calls"] >= 2 * 40 * 64
    assert by_name["all_reduce", 65536]["calls"] % 64 == 0
    assert shown == result(capsys, ["workload", "w.csv"])

    assert run(["sweep", "--runner", "rccl-tests", *SIMULATED, "--workload", "w.csv"]) == 0
    samples = pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)
    assert set(samples["collective"]) == {"all_reduce", "all_gather"}
    # Those sizes, and the smaller one beside each that shows where a step ends.
    assert set(samples["nbytes"]) == {65536, 65536 // 16, 1 << 26, (1 << 26) // 16}

    emitted = result(capsys, ["emit-config", "--workload", "w.csv"])
    saving = emitted["saving"]
    assert saving["known"] == 1.0
    assert 0 < saving["saved_s"] < saving["before_s"]


def test_sweep_measures_just_the_workloads_sizes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each collective its own; calls of other scales are not looked at."""
    rows = (
        "allreduce,1536,64,1,9\nallreduce,6144,64,1,9\nbroadcast,1000000,64,1,1\nreduce,8,8,1,1\n"
    )
    (here / "w.csv").write_text(HEADER + rows)
    capsys.readouterr()

    assert (
        run(["sweep", "--runner", "rccl-tests", *SIMULATED, "--workload", "w.csv", "--plan"]) == 0
    )

    text = capsys.readouterr().out
    lines = {
        (match[1], match[2]): match[3]
        for match in re.finditer(r"(\w+)_perf -b (\d+) -e (\d+) -f 4", text)
    }
    assert lines["all_reduce", "1536"] == "6144"
    assert {collective for collective, _ in lines} <= {"all_reduce", "broadcast"}
    assert "broadcast_perf -b 62500 -e 1000000 -f 16" in text
    assert "reduce_perf -b 8 " not in text.replace("all_reduce_perf", "")
    assert "every setting at every size, of a workload's" in text


# What a data-parallel loop of 60 steps called on two H200, on as many ranks as one OAM has.
LOOP = (
    ("allreduce", 8392704, 944),
    ("allgather", 8, 120),
    ("allreduce", 67141632, 2),
    ("broadcast", 67141632, 2),
    ("allgather", 16, 2),
    ("broadcast", 32, 2),
    ("broadcast", 68, 2),
    ("broadcast", 384, 2),
)


def test_sizes_that_no_benchmark_calls_are_left_out_and_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """all_gather of 8 B rounds down to 0 bytes: the sweep measures the rest and ends well."""
    rows = "".join(f"{name},{nbytes},8,1,{calls}\n" for name, nbytes, calls in LOOP)
    (here / "w.csv").write_text(HEADER + rows + "reduce,8,64,1,40\n")
    few = ["--np", "8", "--setting", "ring/ll", "--setting", "ring/simple", "--communicators", "1"]

    assert run(["sweep", "--runner", "rccl-tests", *SIMULATED, *few, "--workload", "w.csv"]) == 0

    said = capsys.readouterr().err
    (line,) = [one for one in said.splitlines() if one.startswith("Left out of the workload: ")]
    calls = sum(calls for _, _, calls in LOOP) + 40
    assert lacks(line, "64 ranks", "1 node", f"{100 * 40 / calls:.1f}", "the calls") == []
    assert lacks(line, "all_gather", "8 B", "16 B") == []
    assert lacks(line, "128 B", f"{100 * 122 / calls:.1f}", "0.0", "has multiples") == []
    assert "failed" not in said
    samples = pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)
    measured = set(zip(samples["collective"], samples["nbytes"], strict=True))
    called = {(n.replace("all", "all_"), nbytes) for n, nbytes, _ in LOOP if n != "allgather"}
    assert called <= measured
    assert {name for name, _ in measured} == {"all_reduce", "broadcast"}


def test_the_limit_of_sizes_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """64 of 100 sizes, the heaviest; a size off by an element is measured beside itself."""
    sizes = [4096 * (k + 1) for k in range(99)]
    rows = "".join(f"allreduce,{n},64,1,1\n" for n in sizes) + "allreduce,900001,64,1,1\n"
    (here / "w.csv").write_text(HEADER + rows)
    capsys.readouterr()

    plain = result(
        capsys, ["sweep", "--runner", "rccl-tests", *SIMULATED, "--workload", "w.csv", "--plan"]
    )

    left, moved = plain["left_out"]
    total = sum(sizes) + 900001
    share = 100 * sum(sizes[:36]) / total
    assert lacks(left, "36 lightest", "all_reduce", "64", "36.0") == []
    assert lacks(left, f"{share:.1f}", "the bytes") == []
    assert lacks(moved, "1 size", "the workload") == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--workload", "w.csv"], "all_gather at 8 B, near which the benchmark has no size"),
        (["-c", "sweep.yaml"], "Not measured: all_gather at 8 B: the benchmark"),
        (
            ["--collective", "all_gather", "--max-bytes", "1000"],
            "Not measured: all_gather: the benchmark can call it with multiples of 1 KiB",
        ),
    ],
)
def test_where_nothing_can_be_called_nothing_starts(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    """Exit code 2 before any launch, with what the benchmark could call."""
    (here / "w.csv").write_text(HEADER + "allgather,8,64,1,9\n")
    (here / "sweep.yaml").write_text("sizes: [all_gather/8]\n")

    assert run(["sweep", "--runner", "rccl-tests", *SIMULATED, *words]) == 2
    assert text in capsys.readouterr().err
    assert not Path("rccltune-session").exists()


def test_what_can_be_called_is_measured_without_the_rest(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep file's sizes and a range alike: what is left out is said, the rest is planned."""
    (here / "sweep.yaml").write_text("sizes: [all_gather/8, all_gather/64K, reduce/48K]\n")
    found = result(
        capsys, ["sweep", "--runner", "rccl-tests", "-c", "sweep.yaml", *SIMULATED, "--plan"]
    )
    (said,) = found["left_out"]
    assert said.startswith("Not measured: all_gather at 8 B: ")
    assert any("65536" in one["argv"] for one in found["launches"])

    small = ["--collective", "all_gather", "--collective", "broadcast", "--max-bytes", "512"]
    found = result(capsys, ["sweep", "--runner", "rccl-tests", *SIMULATED, *small, "--plan"])
    programs = {Path(word).name for one in found["launches"] for word in one["argv"]}
    assert "broadcast_perf" in programs
    assert "all_gather_perf" not in programs


@pytest.mark.usefixtures("per_setting")
def test_channels_are_measured_at_a_workloads_sizes_too(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no search that would try them on survivors: all settings have these counts."""
    (here / "w.csv").write_text(HEADER + "reduce,65536,64,1,9\n")
    words = ["--workload", "w.csv", "--channels", "8,16", "--plan"]

    assert run(["sweep", "--runner", "rccl-tests", *SIMULATED, *words]) == 0

    text = capsys.readouterr().out
    assert "ring/ll/8 " in text
    assert "ring/simple/16 " in text


@pytest.mark.usefixtures("per_setting")
def test_paths_past_the_tuner_end_no_sweep(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-A asks for the columns of rows whose calls RCCL's direct path took: nothing is proven."""
    (here / "w.csv").write_text(HEADER + "allgather,99968,8,1,9\n")
    few = ["--np", "8", "--setting", "ring/ll", "--communicators", "1"]

    assert run(["sweep", "--runner", "rccl-tests", *SIMULATED, *few, "--workload", "w.csv"]) == 0
    samples = pd.read_csv("rccltune-session/samples.csv", keep_default_na=False)
    assert set(samples[samples["setting"] == "ring/ll"]["unusable"]) == {"bypassed"}
    assert "failed" not in capsys.readouterr().err


def test_a_session_remembers_its_sizes(here: Path) -> None:
    """sweep.yaml has them, so that the same session goes on and is verified without the file."""
    (here / "w.csv").write_text(HEADER + "allreduce,1536,64,1,9\nallreduce,6144,64,1,9\n")
    few = ["--setting", "ring/ll", "--communicators", "1"]
    assert run(["sweep", "--runner", "rccl-tests", *SIMULATED, "--workload", "w.csv", *few]) == 0

    text = Path("rccltune-session/sweep.yaml").read_text()
    assert "sizes:\n- all_reduce/1536\n- all_reduce/6144\n" in text
    made = len(list(Path("rccltune-session/launches").iterdir()))
    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                "-c",
                "rccltune-session/sweep.yaml",
                "--launcher",
                "none",
            ]
        )
        == 0
    )
    assert len(list(Path("rccltune-session/launches").iterdir())) == made


@pytest.mark.usefixtures("per_setting")
def test_the_saving_is_a_closed_form(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks, 30 calls at 64 KiB: 15 each, at what the session measured of either setting."""
    few = ["--collective", "all_reduce", "--min-bytes", "32K", "--max-bytes", "128K"]
    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *SIMULATED,
                *few,
            ]
        )
        == 0
    )
    comm = "#@ comm id=1 host=n pid={} context=0 since=1 nRanks=64 nNodes=1 calls=15 state=whole\n"
    rows = "allreduce,65536,64,1,30\n"
    (here / "w.csv").write_text(comm.format(1) + comm.format(2) + HEADER + rows)

    emitted = result(capsys, ["emit-config", "--workload", "w.csv"])

    (zone,) = [z for z in emitted["zones"] if z["min_nbytes"] <= 65536 <= z["max_nbytes"]]
    setting = "tree/ll" if zone["setting"]["algorithm"] == "tree" else "ring/ll"
    fitted = json.loads(Path("rccltune-session/fit.json").read_text())
    times: dict[str, list[float]] = {}
    for curve in fitted["curves"]:
        key, role = curve["key"]["setting"], curve["key"]["setting"]
        name = (
            "baseline"
            if role.get("role") == "baseline"
            else f"{key['algorithm']}/{key['protocol']}"
        )
        times.setdefault(name, []).extend(
            point["time_us"] for point in curve["points"] if point["nbytes"] == 65536
        )
    before, after = (sum(times[name]) / len(times[name]) for name in ("baseline", setting))
    saving = emitted["saving"]
    assert saving["before_s"] == pytest.approx(15e-6 * before)
    assert saving["saved_s"] == pytest.approx(15e-6 * (before - after))
    assert run(["emit-config", "--workload", "w.csv", "--force"]) == 0
    assert "Time saved of what was recorded, estimated: " in capsys.readouterr().out


def test_it_says_what_a_job_asks_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two ranks added up; small shares are summed up, or shown by -v; what is not seen is said."""
    rows = "".join(f"allreduce,{1 << k},64,1,{k}\n" for k in range(8, 32))
    (here / "a.csv").write_text("#@ aside name=send calls=7\n" + HEADER + rows)
    (here / "b.csv").write_text(HEADER + rows)

    assert run(["workload", "a.csv", "b.csv"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{2 * sum(range(8, 32))} calls, ")
    assert "and 4 sizes more" in text
    for word in ("captured graphs", "point-to-point", "grouped calls", "7 send"):
        assert word in text
    assert run(["workload", "a.csv", "-v"]) == 0
    assert "sizes more" not in capsys.readouterr().out
    plain = result(capsys, ["workload", "a.csv"])
    assert sum(one["of_calls"] for one in plain["counts"]) == pytest.approx(1)


def test_snapshots_are_not_forgotten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a killed rank left beside the file is named until it is given too."""
    comm = "#@ comm id=1 host=n pid=1 context=0 since=1 nRanks=8 nNodes=1 calls=3 "
    (here / "a.csv").write_text(HEADER)
    (here / "a.csv.n-1-0.part").write_text(
        comm + "state=unfinished\n" + HEADER + "reduce,8,8,1,3\n"
    )

    assert run(["workload", "a.csv"]) == 0
    assert "1 snapshots" in capsys.readouterr().err
    assert run(["workload", "a.csv", "a.csv.n-1-0.part"]) == 0
    said = capsys.readouterr()
    assert "snapshots of recordings" not in said.err
    assert lacks(said.out, "1 of", "1 recordings", "never finished") == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["workload", "none.csv"], 6, "cannot be read"),
        (
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *SIMULATED,
                "--workload",
                "w.csv",
                "--min-bytes",
                "8",
            ],
            2,
            "so does --min-bytes",
        ),
        (
            ["sweep", "--runner", "rccl-tests", *SIMULATED, "--workload", "w.csv", "--np", "8"],
            2,
            "64 ranks on 1 node",
        ),
        (
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *SIMULATED,
                "--workload",
                "w.csv",
                "--collective",
                "reduce",
            ],
            2,
            "no call of these collectives",
        ),
    ],
)
def test_mistakes_are_said(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    """What is wrong, and what to do."""
    (here / "w.csv").write_text(HEADER + "allreduce,64,64,1,3\n")

    assert run(arguments) == code
    assert said in capsys.readouterr().err


def test_a_sweep_file_names_sizes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By hand too; a mistake has its line."""
    (here / "sweep.yaml").write_text("sizes:\n  - reduce/48K\n  - reduce\n")
    assert run(["sweep", "--runner", "rccl-tests", "-c", "sweep.yaml", *SIMULATED, "--plan"]) == 3
    assert "sweep.yaml:3:5" in capsys.readouterr().err

    (here / "sweep.yaml").write_text("sizes: [reduce/48K]\n")
    assert run(["sweep", "--runner", "rccl-tests", "-c", "sweep.yaml", *SIMULATED, "--plan"]) == 0
    assert "reduce_perf -b 3072 -e 49152 -f 16" in capsys.readouterr().out
