"""A setting whose launches fail costs itself only: tried once more, then set aside, and told."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from eight import RANKS, raw_node, written
from wording import lacks

from rccltune import plugin
from rccltune.cli import run
from rccltune.launch import process
from rccltune.launch.family import Family
from rccltune.simulate import sources

pytestmark = pytest.mark.usefixtures("stand_ins")

SMALL = ["--collective", "all_reduce", "--min-bytes", "1K", "--max-bytes", "8K"]
TWO = ["--setting", "tree/ll", "--setting", "ring/ll"]
SESSION = Path("rccltune-session")
Node = Callable[..., Path]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """The shipped CPX node on eight ranks without noise, with faults; the working directory is empty."""
    monkeypatch.chdir(tmp_path)

    def write(*faults: dict[str, object]) -> Path:
        raw = raw_node()
        path = tmp_path / "node.yaml"
        raw |= {"noise": {"sigma": 0.0}, "faults": list(faults)}
        return written(raw, path)

    return write


def sweep(node: Path, *more: str) -> int:
    """Three launches of each setting, unless a test says another number."""
    where = ["--simulate", str(node), "--launcher", "none", "--mode", "cpx-nps4"]
    words = [*where, *SMALL, *TWO, "--communicators", "3", *more]
    return run(["sweep", "--runner", "rccl-tests", *words])


def outcomes() -> dict[str, list[dict[str, object]]]:
    """Outcomes by setting, in the order of their attempts."""
    found: dict[str, list[tuple[object, dict[str, object]]]] = {}
    for path in SESSION.glob("launches/*/launch.json"):
        launch = json.loads(path.read_text())
        (setting,) = launch["schedule"]["settings"]
        name = setting.get("role") or f"{setting['algorithm']}/{setting['protocol']}"
        outcome = json.loads((path.parent / "outcome.json").read_text())
        order = (launch.get("repeat", 0), launch.get("attempt", 0))
        found.setdefault(name, []).append((order, outcome))
    return {
        name: [o for _, o in sorted(pairs, key=lambda p: p[0])] for name, pairs in found.items()
    }


def samples() -> pd.DataFrame:
    """samples.csv."""
    return pd.read_csv(SESSION / "samples.csv", keep_default_na=False)


CRASH = {"kind": "crash", "setting": "tree/ll", "how": "segv"}


@pytest.mark.parametrize(
    ("fault", "failure", "tries", "said"),
    [
        ({"kind": "hang"}, "hang", 2, "it hung in 2 launches"),
        ({"kind": "crash", "how": "segv"}, "crash", 2, "it crashed in 2 launches"),
        ({"kind": "crash", "how": "exit", "exit_code": 3}, "crash", 2, "it crashed in 2 launches"),
        ({"kind": "crash", "how": "kill"}, "killed", 3, "it was killed in 3 launches"),
        ({"kind": "wrong", "elements": 3}, "wrong-results", 2, "it gave wrong results in 2"),
        (
            {"kind": "crash", "how": "memory-fault"},
            "memory-fault",
            1,
            "it ended with a GPU memory fault in 1 launch",
        ),
    ],
)
def test_a_setting_that_fails_is_quarantined_and_the_others_are_measured(
    node: Node,
    capsys: pytest.CaptureFixture[str],
    fault: dict[str, object],
    failure: str,
    tries: int,
    said: str,
) -> None:
    """One more try, after the others of its turn; then no launch of it in any turn.

    SIGKILL comes from outside, so it is borne once more; a GPU's memory fault is not tried again.
    """
    assert sweep(node(fault | {"setting": "tree/ll"}), "--timeout", "1") == 5

    ended = outcomes()
    assert [o.get("failure") for o in ended["tree/ll"]] == [failure] * tries
    assert [o["status"] for o in ended["ring/ll"]] == ["ok"] * 3
    assert set(samples()["doubt"]) <= {"", "wrong-results"}
    captured = capsys.readouterr()
    assert lacks(captured.err, "all_reduce", "tree/ll", f"{said}") == []
    log = SESSION / "launches" / str(ended["tree/ll"][-1]["launch"]) / "stdout.log"
    assert str(log) in captured.err
    assert log.exists()


def test_every_verb_says_what_is_quarantined(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """fit, emit-config and plot: not measured, with the reason; the rules have no such setting."""
    assert sweep(node(CRASH)) == 5
    reason = "it crashed in 2 launches"
    capsys.readouterr()

    for verb in (["fit"], ["plot", "--format", "svg"], ["emit-config", "-o", "rules.csv"]):
        assert run(verb) == 0
        told = capsys.readouterr().err
        assert "all_reduce tree/ll" in told
        assert "quarantined" in told
        assert reason in told
    rules = Path("rules.csv").read_text()
    assert f"# not measured: all_reduce tree/ll: quarantined, {reason}" in rules
    assert "tree,ll," not in rules
    assert (
        f"tree/ll: quarantined, {reason}"
        in (SESSION / "plots" / "all_reduce-1n8r-table.svg").read_text()
    )
    assert run(["fit", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quarantined"][0]["failures"] == ["crash"] * 2


def test_a_resumed_sweep_keeps_the_quarantine_and_a_new_one_tries_again(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command starts nothing; in a new session a setting that was mended counts."""
    assert sweep(node(CRASH)) == 5
    capsys.readouterr()
    assert sweep(node(CRASH)) == 5
    said = capsys.readouterr().err
    assert lacks(said, "all_reduce", "tree/ll", "2 launches") == []
    assert "everything is measured already" in said
    assert len(outcomes()["tree/ll"]) == 2

    # Mended: a new driver, say.
    assert sweep(node(), "-o", "new") == 0
    table = pd.read_csv("new/samples.csv", keep_default_na=False)
    assert (table["setting"] == "tree/ll").any()


def test_what_a_quarantined_setting_measured_before_is_not_used(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """A setting that hangs in one launch of two must not be chosen for its good one."""
    assert sweep(node(), "--communicators", "1") == 0
    assert sweep(node(CRASH), "--communicators", "2") == 5

    table = samples()
    tree = table[table["setting"] == "tree/ll"]
    assert set(tree["doubt"]) == {"quarantined"}
    assert len(tree) == 8
    assert set(table[table["setting"] != "tree/ll"]["doubt"]) == {""}
    capsys.readouterr()
    # The table is the same when it is made from the logs again.
    before = (SESSION / "samples.csv").read_bytes()
    (SESSION / "samples.csv").unlink()
    assert run(["fit"]) == 0
    assert (SESSION / "samples.csv").read_bytes() == before


def test_two_settings_with_memory_faults_stop_the_sweep(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then it is the GPU and not the setting; the advice says what to look at."""
    fault = {"kind": "crash", "how": "memory-fault"}
    path = node(fault | {"setting": "tree/ll"}, fault | {"setting": "ring/simple"})

    assert sweep(path, "--setting", "ring/simple") == 5
    said = capsys.readouterr().err
    assert lacks(said, "2 launches", "GPU") == []
    assert "dmesg" in said
    # The same command goes on with what is not at fault.
    assert sweep(path, "--setting", "ring/simple") == 5
    assert [o["status"] for o in outcomes()["ring/ll"]] == ["ok"] * 3


def test_a_baseline_that_fails_stops_the_sweep(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything is compared with it: one more try at once, then advice and nothing more."""
    assert sweep(node({"kind": "crash", "how": "segv"})) == 5

    said = capsys.readouterr().err
    assert lacks(said, "all_reduce") == []
    assert lacks(said, "command.txt") == []
    assert {name: len(found) for name, found in outcomes().items()} == {"baseline": 2}
    # Mended, the same command begins.
    assert sweep(node(), "--communicators", "1") == 0


def benchmark(node: Node, script: str) -> list[str]:
    """A sweep's options for a benchmark of this folder, which is a script around the stand-in."""
    compiled = Path("x.node").resolve()
    compiled.write_bytes(sources.compile_node(node()))
    program = Path("bench").resolve() / "all_reduce_perf"
    program.parent.mkdir(exist_ok=True)
    real = plugin.native_folder() / "sim" / program.name
    program.write_text(f"#!/bin/sh\nREAL={real}\n{script}\n")
    program.chmod(0o755)
    where = ["--rccl-tests", str(program.parent), "--np", str(RANKS), "--launcher", "none", *SMALL]
    return [
        *where,
        "--env",
        f"RCCLTUNE_SIM_NODE={compiled}",
        "--env",
        f"RCCLTUNE_SIM_RANKS={RANKS}",
    ]


def test_an_output_that_was_cut_off_is_no_measurement(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark does not look whether its lines could be written, and exits with 0."""
    wish = benchmark(node, '$REAL "$@" | grep -v "^# \\(Avg\\|Out of\\)"')

    assert run(["sweep", "--runner", "rccl-tests", *wish]) == 5
    assert lacks(capsys.readouterr().err, "the benchmark's") == []


def test_a_machine_that_stops_working_condemns_no_setting(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hang may wedge a GPU, and then everything fails: the untouched benchmark tells."""
    bench = Path("bench").resolve()
    bench.mkdir()
    # From the first launch of tree/ll on nothing works.
    (bench / "broken").touch()
    wedge = f'[ -e {bench}/broken ] && [ "$NCCL_ALGO" = Tree ] && touch {bench}/wedged'
    script = f'{wedge}\n[ -e {bench}/wedged ] && exit 3\nexec $REAL "$@"'
    wish = [
        "sweep",
        "--runner",
        "rccl-tests",
        *benchmark(node, script),
        *TWO,
        "--setting",
        "ring/simple",
        "--communicators",
        "1",
    ]

    assert run(wish) == 5
    said = capsys.readouterr().err
    assert "worked before" in said
    assert "does not now" in said
    assert lacks(said, "these failures") == []
    assert "is set aside" not in said

    # The GPU was reset, and tree/ll is mended.
    (bench / "broken").unlink()
    (bench / "wedged").unlink()
    assert run(wish) == 0
    assert set(samples()["doubt"]) == {""}
    assert set(samples()["setting"]) == {
        *("baseline", "silent", "tree/ll", "ring/ll", "ring/simple"),
    }


def test_a_process_in_the_driver_stops_the_sweep(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """State D: it is named, nothing more is started, and the hang counts when the sweep goes on."""
    real = Family.end

    def end(self: Family, within_s: float) -> dict[int, str]:
        left = dict.fromkeys(self.alive(), "D")
        real(self, within_s)
        return left

    monkeypatch.setattr(process, "GRACE_S", 0.2)
    # A launcher that SIGTERM does not reach either.
    monkeypatch.setattr(subprocess.Popen, "terminate", lambda _: None)
    path = node({"kind": "hang", "setting": "tree/ll"})
    with monkeypatch.context() as patch:
        patch.setattr(Family, "end", end)
        assert sweep(path, "--timeout", "1", "--communicators", "1") == 5
    said = capsys.readouterr().err
    assert re.search(r"1 processes of this launch cannot be killed: \d+ \(state D\)", said)
    assert "dmesg" in said
    assert [o["failure"] for o in outcomes()["tree/ll"]] == ["hang"]
    assert not (SESSION / "writer.lock").exists()

    # The second hang is the last.
    assert sweep(path, "--timeout", "1", "--communicators", "1") == 5
    assert lacks(capsys.readouterr().err, "tree/ll", "2 launches") == []
    assert [o["status"] for o in outcomes()["ring/ll"]] == ["ok"]
