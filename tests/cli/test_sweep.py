"""sweep, end to end: the real launcher and plugin on the simulated node, with things going wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yamls
from eight import raw_node, written
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.measure import launched
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins")

Node = Callable[..., Path]
# Ten sizes and one collective: seconds rather than minutes.
SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "512K"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """The shipped CPX node on four ranks without noise, with what a test adds."""

    def write(**changes: object) -> Path:
        raw = yamls.loaded(sources.node_path("mi300x", "cpx-nps4").read_text(encoding="utf-8"))
        raw["scale"]["ranks"] = 8
        raw["scale"]["devices_per_oam"] = 8
        raw["fill"] = [{"ranks": 8, "placement": "node"}]
        raw["curves"] = [
            {**{k: v for k, v in c.items() if k != "ranks"}, "ranks": 8}
            for c in raw["curves"]
            if c.get("placement") == "node"
        ]
        raw["noise"] = {"sigma": 0.0}
        raw |= changes
        path = tmp_path / "node.yaml"
        path.write_text(yamls.dumped(raw), encoding="utf-8")
        return path

    return write


def sweep(node: Path | str, *more: str, launcher: str = "none") -> int:
    """One simulated sweep in the working directory."""
    where = ["--simulate", str(node), "--launcher", launcher]
    return run(["sweep", "--runner", "rccl-tests", "--mode", "cpx-nps4", *where, *SMALL, *more])


def eight() -> str:
    """The shipped node with its noise on eight ranks, beside the session."""
    return str(written(raw_node(), Path("node.yaml")))


def samples(folder: Path = Path("rccltune-session")) -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv(folder / "samples.csv", keep_default_na=False)


def test_the_four_verbs_work_on_a_simulated_node(here: Path) -> None:
    """Sweep, fit, emit-config, plot; everything made says that it is simulated."""
    assert sweep(eight()) == 0
    assert [run(["fit"]), run(["emit-config"]), run(["plot", "--format", "svg"])] == [0, 0, 0]

    session = here / "rccltune-session"
    assert json.loads((session / "session.json").read_text())["simulated"] is True
    assert json.loads((session / "fit.json").read_text())["simulated"] is True
    rules = (session / "rccl_tuner_gfx942_cpx-nps4.csv").read_text()
    assert rules.splitlines()[1].startswith("# SIMULATED")
    figures = list((session / "plots").glob("*.svg"))
    assert figures
    assert all("simulated" in figure.read_text() for figure in figures)


@pytest.mark.mpi
def test_64_processes_and_one_give_the_same_samples(here: Path) -> None:
    """The simulated node does not depend on how it is started."""
    for launcher in ("openmpi", "none"):
        assert sweep("mi300x", "--communicators", "1", "-o", launcher, launcher=launcher) == 0

    columns = ["setting", "placement", "nbytes", "time_us", "n_wrong", "doubt", "executed"]
    one, many = (
        samples(here / name)[columns].sort_values(columns).reset_index(drop=True)
        for name in ("none", "openmpi")
    )
    pd.testing.assert_frame_equal(one, many)


# --- a simulated session stays so ---------------------------------------------------------------


def again(*more: str, verb: str = "sweep") -> int:
    """What a user types in the folder of a session, with no word of a node."""
    return run(
        [verb, "--runner", "rccl-tests", "--mode", "cpx-nps4", "--launcher", "none", *SMALL, *more]
    )


def test_a_simulated_session_goes_on_with_the_node_that_it_keeps(
    here: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its node file may be gone; the first lines say that no hardware is measured."""
    path = node()
    assert sweep(path, "--communicators", "1", "--setting", "ring/ll") == 0
    path.unlink()
    made = {p: p.read_bytes() for p in here.rglob("outcome.json")}
    kept = (here / "rccltune-session/node.node").read_bytes()
    capsys.readouterr()

    assert again("--communicators", "1", "--setting", "ring/ll", "--setting", "tree/ll") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Session: rccltune-session"
    assert lacks(lines[1], "SIMULATED", "node mi300x-cpx-nps4") == []
    after = {p: p.read_bytes() for p in here.rglob("outcome.json")}
    assert made.items() < after.items()
    assert (here / "rccltune-session/node.node").read_bytes() == kept
    assert set(samples()["setting"]) == {"baseline", "silent", "ring/ll", "tree/ll"}

    # Wherever it is moved to, its own sweep.yaml leads to the node in it.
    (here / "rccltune-session").rename(here / "moved")
    file = ["-c", "moved/sweep.yaml", "-o", "moved"]
    assert again(*file, "--plan", "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["launches"] == []
    assert "as this session keeps it" in said.err


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (["--simulate", "mi300x"], 7, "this session measures placement"),
        (["--mode", "spx-nps1"], 4, "is in mode cpx-nps4, not spx-nps1"),
        (["--apply-mode"], 2, "a simulated node is measured"),
        (["--rccl-tests", "bench", "--np", "8"], 7, "simulated"),
    ],
)
def test_another_machine_than_the_simulated_one_is_refused(
    here: Path,
    node: Node,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    code: int,
    said: str,
) -> None:
    """What the command line names wins, and is held to what the session is of."""
    assert sweep(node(), "--communicators", "1", "--setting", "ring/ll") == 0
    recorders(here)
    (here / "bench/all_reduce_perf").write_text("#!/bin/sh\necho '[-b,--minbytes]'\n")
    before = {p: p.stat().st_mtime_ns for p in here.rglob("*") if p.is_file()}
    capsys.readouterr()
    words = ["--mode", "none"] if "--rccl-tests" in more else []
    assert again("--communicators", "1", "--setting", "ring/ll", *more, *words) == code
    assert said in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in here.rglob("*") if p.is_file()} == before


@pytest.mark.usefixtures("undrawn")
def test_tune_goes_on_with_the_node_too(
    here: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sweep that was simulated is not proven on hardware."""
    words = ["--communicators", "1", "--setting", "ring/ll", "--setting", "ring/simple"]
    assert sweep(node(), *words) == 0
    capsys.readouterr()
    assert again(*words, verb="tune") == 0
    said = capsys.readouterr()
    assert lacks(said.err, "SIMULATED", "node mi300x-cpx-nps4") == []
    assert lacks(said.out, "SIMULATED") == []


def test_scales_that_were_simulated_go_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each in a session of its own; one that is not there yet is of the same node."""
    words = ["--setting", "ring/ll", "--communicators", "1"]
    assert sweep("mi300x", *words, "--scales", "1x8") == 0
    capsys.readouterr()
    assert again(*words, "--scales", "1x8,1x64") == 0
    assert json.loads((here / "rccltune-session/1x64/session.json").read_text())["simulated"]
    assert capsys.readouterr().err.count("SIMULATED node mi300x-cpx-nps4") == 2


# --- environment ------------------------------------------------------------------------------

RECORDER = """#!/bin/sh
env > {folder}/env.$$
exec {program} "$@"
"""


def recorders(folder: Path) -> Path:
    """Benchmarks that write down their environment before they start."""
    bench = folder / "bench"
    bench.mkdir()
    real = plugin.native_folder() / "sim" / "all_reduce_perf"
    script = bench / "all_reduce_perf"
    script.write_text(RECORDER.format(folder=folder, program=real))
    script.chmod(0o755)
    return bench


@pytest.mark.mpi
def test_safety_variables_reach_every_rank_of_every_arm(
    here: Path, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Laws 10 and 11: NCCL_NVLS_ENABLE=0 everywhere; what chooses is the baseline's alone."""
    bench = recorders(here)
    compiled = here / "x.node"
    compiled.write_bytes(sources.compile_node(node()))
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    monkeypatch.setenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    monkeypatch.setenv("NVSHMEM_DISABLE_NVLS", "1")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    monkeypatch.setenv("NCCL_ALGO", "ring")
    monkeypatch.setenv("NCCL_TUNER_PLUGIN", "/somebody/else.so")
    wish = [
        "--rccl-tests",
        str(bench),
        "--np",
        "8",
        "--launcher",
        "openmpi",
        "--communicators",
        "1",
    ]

    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *wish,
                *SMALL,
                "--env",
                f"RCCLTUNE_SIM_NODE={compiled}",
            ]
        )
        == 0
    )

    seen = [path.read_text().splitlines() for path in here.glob("env.*")]
    # The site as it is, our plugin idle, and ring and tree with three protocols each (on no AMD GPU nothing is
    # gated), on 8 ranks; and --help once.
    ranks = [lines for lines in seen if any(x.startswith("OMPI_COMM_WORLD_RANK=") for x in lines)]
    assert len(ranks) == 8 * 8
    for lines in ranks:
        assert "NCCL_NVLS_ENABLE=0" in lines
        assert "TORCH_SYMM_MEM_DISABLE_MULTICAST=1" in lines
        assert "NVSHMEM_DISABLE_NVLS=1" in lines
        assert "NCCL_SOCKET_IFNAME=eth7" in lines
    untouched = [lines for lines in ranks if "NCCL_TUNER_PLUGIN=/somebody/else.so" in lines]
    assert len(untouched) == 8
    assert all("NCCL_ALGO=ring" in lines for lines in untouched)
    forced = [lines for lines in ranks if lines not in untouched]
    assert {x for lines in forced for x in lines if x.startswith("NCCL_ALGO=")} == {
        *("NCCL_ALGO=Ring", "NCCL_ALGO=Tree"),
    }


# --- things that go wrong ---------------------------------------------------------------------


def fault(kind: str, setting: str, **keys: object) -> dict[str, object]:
    """A node change that makes one setting fail."""
    return {"faults": [{"kind": kind, "setting": setting, **keys}]}


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("kind", "keys", "status"),
    [
        pytest.param("hang", {}, "timed-out", marks=pytest.mark.long),
        ("crash", {"rank": 3}, "failed"),
        pytest.param("differs", None, "timed-out", marks=pytest.mark.long),
    ],
)
def test_a_setting_that_breaks_costs_that_setting_only(
    here: Path, node: Node, kind: str, keys: dict[str, object] | None, status: str
) -> None:
    """A hang, a crash and ranks that disagree: the others have all their samples; exit code 5."""
    more = {"rank": 2, "with": "ring/simple"} if keys is None else keys
    path = node(**fault(kind, "tree/ll", **more))

    code = sweep(path, "--communicators", "1", "--timeout", "5", launcher="openmpi")

    assert code == 5
    counts = samples().groupby("setting")["time_us"].count()
    assert "tree/ll" not in counts
    assert set(counts[counts.index != "baseline"]) == {20}
    outcomes = [
        json.loads(p.read_text()) for p in here.glob("rccltune-session/launches/*/outcome.json")
    ]
    # It was tried once more alone.
    assert [o["status"] for o in outcomes if o["status"] != "ok"] == [status] * 2


def test_a_lowered_maximum_is_told(
    here: Path, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """The benchmark lowers its largest size silently when memory is short; we do not."""
    raw = yamls.loaded(node().read_text())
    raw["hardware"]["memory_gib"] = 3
    (here / "node.yaml").write_text(yamls.dumped(raw))

    wish = ["--max-bytes", "4G", "--factor", "4", "--communicators", "1", "--setting", "ring/ll"]
    assert sweep(here / "node.yaml", *wish) == 0
    assert "memory" in capsys.readouterr().err


def test_info_lines_inside_rows_do_no_harm(here: Path, node: Node) -> None:
    """NCCL INFO between and inside rows: every row is read all the same."""
    info = ("--env", "NCCL_DEBUG=INFO", "--env", "NCCL_DEBUG_SUBSYS=TUNING")

    assert sweep(node(), *info, "--communicators", "1", "--setting", "ring/ll") == 0
    logs = Path("rccltune-session/launches").glob("*/stdout.log")
    assert any("-1simnode:" in log.read_text() for log in logs)
    assert samples().groupby("setting")["nbytes"].count().to_dict() == {
        "baseline": 20,
        "silent": 20,
        "ring/ll": 20,
    }


@pytest.mark.parametrize("release", ["rt24", "rtmid", "rt25", "rtnew", "nt"])
def test_every_benchmark_release_is_understood(here: Path, node: Node, release: str) -> None:
    """Options and tables of five families of rccl-tests and nccl-tests."""
    path = node(release={"rccl": "2.28.3", "benchmark": release})

    assert sweep(path, "--communicators", "1", "--setting", "tree/ll") == 0
    table = samples()
    assert set(table["doubt"]) == {""}
    assert len(table) == 3 * 10 * 2


@pytest.mark.parametrize("rccl", ["2.21.5", "2.22.3", "2.26.6", "2.27.7", "2.30.4"])
def test_every_library_release_loads_the_plugin(here: Path, node: Node, rccl: str) -> None:
    """ABI versions 2 to 6: a setting that all of them may be given runs and is proven."""
    library = yamls.loaded(node().read_text())["library"] | {"bypasses": False}
    path = node(release={"rccl": rccl, "benchmark": "rtnew"}, library=library)

    assert sweep(path, "--communicators", "1", "--setting", "ring/simple") == 0
    table = samples()
    assert set(table[table["setting"] == "ring/simple"]["doubt"]) == {""}


@pytest.mark.mpi
def test_ranks_that_run_alone_are_no_measurement(here: Path, node: Node) -> None:
    """A launcher of another MPI starts N one-rank jobs that exit with 0: not one sample counts."""
    code = sweep(
        node(), "--communicators", "1", "--env", "RCCLTUNE_SIM_LINKED=mpich", launcher="openmpi"
    )

    assert code == 5
    assert not (here / "rccltune-session/samples.csv").exists() or samples().empty


def test_another_machine_is_shown_with_its_difference(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A session of one node is not continued on another."""
    assert sweep("mi300x", "--communicators", "1", "--setting", "ring/ll") == 0
    where = ["--simulate", "mi300x", "--mode", "spx-nps1", "--launcher", "none"]

    assert run(["sweep", "--runner", "rccl-tests", *where, *SMALL]) == 7
    assert "mode: cpx-nps4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--simulate", "mi250"], 3, "no simulated node"),
        (["--simulate", "mi300x", "--mode", "qpx-nps1"], 3, "no simulated node"),
        (["--simulate", "mi300x", "--mode", "cpx-nps4", "--channels", "0"], 2, "no list of"),
        (["--rccl-tests", "."], 4, "no benchmark"),
        (["--apply-mode", "--rccl-tests", "."], 2, "needs a mode"),
        (["-c", "s.yaml"], 3, "did you mean 'preset'"),
        (["--min-bytes", "4K", "--max-bytes", "1K", "--simulate", "x"], 2, "is below"),
    ],
)
def test_mistakes_are_named_before_anything_starts(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    """What is wrong and what to write instead; no session is made."""
    (here / "s.yaml").write_text("repeat: 3\n")

    assert run(["sweep", "--runner", "rccl-tests", *arguments]) == code
    assert said in capsys.readouterr().err
    assert not (here / "rccltune-session").exists()


def test_stand_ins_are_refused_as_real_benchmarks(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Law 4: nothing simulated is ever presented as a measurement."""
    folder = plugin.native_folder() / "sim"

    assert run(["sweep", "--runner", "rccl-tests", "--rccl-tests", str(folder), "--np", "8"]) == 4
    assert "stand-in" in capsys.readouterr().err


# --- losing nothing ---------------------------------------------------------------------------


def test_lost_derived_files_come_back_from_the_raw_logs(here: Path) -> None:
    """samples.csv is rebuilt from logs and traces, byte for byte."""
    assert sweep(eight(), "--communicators", "1") == 0
    table = here / "rccltune-session/samples.csv"
    before = table.read_bytes()
    table.unlink()

    assert run(["fit"]) == 0
    assert table.read_bytes() == before


# A command line for a benchmark that cannot repeat its table, as of the fixture per_setting.
PER_SETTING = """
import sys
from rccltune.cli import run
from rccltune.measure import site
real = site._simulated_letters
site._simulated_letters = lambda *given: real(*given) - frozenset("Ns")
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "kind", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_an_interrupted_sweep_goes_on_where_it_stopped(here: Path, kind: int) -> None:
    """Killed or stopped at a random launch: the resumed sweep has an undisturbed one's samples."""
    assert sweep(eight(), "--communicators", "2", "-o", "whole") == 0
    words = ["sweep", "--runner", "rccl-tests", "--mode", "cpx-nps4", *SMALL]
    command = [sys.executable, "-c", PER_SETTING, *words]
    # A start-up that is really waited for leaves time to strike, however busy the machine is.
    slow = ["--env", "RCCLTUNE_SIM_STARTUP_S=0.2"]
    command += [
        "--simulate",
        eight(),
        "--launcher",
        "none",
        "--communicators",
        "2",
        "-o",
        "part",
        *slow,
    ]
    process = subprocess.Popen(
        command,
        stderr=subprocess.DEVNULL,
        # Tests that are started in the background inherit an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - this process has one thread
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(here.glob("part/launches/*"))) < 4:
        time.sleep(0.01)
    process.send_signal(kind)
    assert process.wait(timeout=30) in (-kind, 130)

    assert sweep(eight(), "--communicators", "2", "-o", "part", *slow) == 0
    columns = ["setting", "placement", "nbytes", "time_us", "cycle", "doubt"]
    one, other = (
        samples(here / name)[columns].sort_values(columns).reset_index(drop=True)
        for name in ("whole", "part")
    )
    pd.testing.assert_frame_equal(one, other)


def test_events_are_json_lines(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json: one event for each launch, then the result."""
    assert sweep("mi300x", "--communicators", "1", "--setting", "ring/ll", "--json") == 0

    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event["event"] for event in events] == ["launch"] * 3 + ["done"]
    assert events[-1]["simulated"] is True
    assert events[0]["usable"] == 20


def test_a_bar_is_drawn_on_a_terminal_only(here: Path) -> None:
    """With a terminal a bar, without one a line for each launch."""
    if shutil.which("script") is None:
        pytest.skip("script(1) is not installed")
    command = f"{sys.executable} -m rccltune sweep --mode cpx-nps4 --simulate mi300x"
    command += (
        " --runner rccl-tests --launcher none --communicators 1 --setting ring/ll "
        + " ".join(SMALL)
    )
    done = subprocess.run(
        [str(shutil.which("script")), "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
        check=True,
    )

    assert re.search(r"\b([2-9])/\1\b", done.stdout)
    assert "[1/" not in done.stdout


def test_a_benchmark_that_refuses_an_option_is_no_measurement(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """rccl-tests print their usage and exit with 0 after a bad option: nothing counts."""
    bench = here / "bench"
    bench.mkdir()
    script = bench / "all_reduce_perf"
    script.write_text("#!/bin/sh\necho \"invalid option 'f'\"\necho 'USAGE: all_reduce_perf'\n")
    script.chmod(0o755)
    wish = ["--rccl-tests", str(bench), "--np", "8", "--launcher", "none", *SMALL]

    assert run(["sweep", "--runner", "rccl-tests", *wish]) == 5
    said = capsys.readouterr().err
    assert lacks(said, "the benchmark") == []
    assert "invalid option" in said


def test_missing_sizes_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that stops half-way with exit code 0 is noticed by its own summary."""
    bench = here / "bench"
    bench.mkdir()
    real = plugin.native_folder() / "sim" / "all_reduce_perf"
    script = bench / "all_reduce_perf"
    # The table loses its last rows, as when a disk was full; the summary stays.
    script.write_text(f"#!/bin/sh\n{real} \"$@\" | grep -v '^ *\\(262144\\|524288\\) '\n")
    script.chmod(0o755)
    compiled = here / "x.node"
    compiled.write_bytes(sources.compile_node(sources.node_path("mi300x", "cpx-nps4")))
    wish = ["--rccl-tests", str(bench), "--np", "64", "--launcher", "none", *SMALL]
    wish += ["--env", f"RCCLTUNE_SIM_NODE={compiled}", "--env", "RCCLTUNE_SIM_RANKS=64"]

    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                *wish,
                "--setting",
                "ring/ll",
                "--communicators",
                "1",
            ]
        )
        == 0
    )
    assert "rows are missing" in capsys.readouterr().err


def test_a_machine_in_another_mode_is_not_measured(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--mode against what is detected: both are said, with the way there (exit code 4)."""
    if Path("/sys/class/kfd/kfd/topology/nodes").is_dir():
        pytest.skip("this machine may be in that mode")
    bench = recorders(here)

    assert (
        run(
            [
                "sweep",
                "--runner",
                "rccl-tests",
                "--mode",
                "cpx-nps4",
                "--rccl-tests",
                str(bench),
                "--np",
                "8",
            ]
        )
        == 4
    )
    said = capsys.readouterr().err
    assert "--mode cpx-nps4 was asked for" in said
    assert "none" in said


def test_a_change_of_the_machine_stops_the_sweep(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a launch measured while the mode changed is thrown away, what was before is kept."""
    looks = iter([(), (), (), ("the mode was cpx-nps4, is spx-nps1",)])
    changed = lambda: next(looks, ("the mode was cpx-nps4, is spx-nps1",))  # noqa: E731 - names a long call
    original = launched.find_site
    monkeypatch.setattr(
        launched, "find_site", lambda request: replace(original(request), changed=changed)
    )

    assert sweep("mi300x", "--communicators", "1") == 4
    assert lacks(capsys.readouterr().err, "cpx-nps4", "the mode") == []
    assert set(samples()["setting"]) == {"baseline"}
    assert len(set(samples()["launch"])) == 1
