"""A verification on a simulated node, by the real rank program over the stand-in library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rccltune.cli import run
from rccltune.ranks.runs import read_runs
from rccltune.rules.rule_file import read_rules

NODE = Path(__file__).resolve().parents[2] / "examples/nodes/smallest.yaml"
SAFE = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}


def rules_of(session: Path) -> Path:
    """The session's rule file."""
    (found,) = session.glob("rccl_tuner*.csv")
    return found


def verdict_of(session: Path) -> dict[str, Any]:
    """verdict.json."""
    made: dict[str, Any] = json.loads((session / "verdict.json").read_text())
    return made


def test_rules_that_win_stay_and_every_number_is_the_same_everywhere(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In verdict.json, in the rule file and on stdout."""
    assert run(["verify", "s"]) == 0
    said = capsys.readouterr().out
    verdict = verdict_of(swept)
    kept = [one for one in verdict["standings"] if one["state"] == "proven"]
    assert len(kept) == verdict["rules"] == len(read_rules(rules_of(swept).read_bytes()).rules) > 0
    text = rules_of(swept).read_text()
    for one in kept:
        gain = one["gain"]
        # What a rule must gain, and no size of it is slower.
        assert gain["low"] > 1
        assert gain["value"] >= 1.02
        assert f"verified: {gain['value']:.2f}x ({gain['low']:.2f} to {gain['high']:.2f})" in text
        assert f"{gain['value']:.2f}x" in said
        assert one["n_sizes"] > 0
        line = text.splitlines()[one["line"] - 1].split(",")
        assert line[1:3] == [str(one["min_nbytes"]), str(one["max_nbytes"])]
    assert f"{verdict['replicates']} communicators of {verdict['processes']} start" in said
    assert verdict["processes"] == 1
    # What is counted in a rule's line and below them is the same sizes.
    assert f"none of {sum(one['n_sizes'] for one in kept)} sizes with a rule is slower" in said
    # Every size is in a rule or in a stated hole.
    assert run(["explain", str(rules_of(swept))]) == 0


def test_the_library_and_the_rules_were_asked_in_turns(swept: Path) -> None:
    """Library, rules, rules, library; the other way round in every second communicator."""
    assert run(["verify", "s", "--communicators", "4", "-q"]) == 0
    plans = sorted(swept.glob("runs/*/plan.txt"))
    assert plans
    orders = set()
    for plan in plans:
        answers, answer, is_verified = [], "", False
        for line in plan.read_text().splitlines():
            if line.startswith("communicator "):
                is_verified = line.startswith("communicator verify/")
            if line.startswith("answer "):
                answer = line.split()[1]
            if (
                is_verified
                and line.startswith("measure")
                and " 131072 graph" in line
                and " out " in line
            ):
                answers.append(answer)
        orders |= {tuple(answers[i : i + 4]) for i in range(0, len(answers) - 3, 4)}
    assert orders == {
        ("nothing", "rules", "rules", "nothing"),
        ("rules", "nothing", "nothing", "rules"),
    }
    # What a question costs these processors, of each rank and communicator; nothing of a simulated
    # device, so no verdict has it.
    (measured,) = [run for run in read_runs(swept) if run.remarks.costs_ns]
    assert len(measured.remarks.costs_ns) == 4 * measured.file.n_ranks
    assert all(0 < one < 1e5 for one in measured.remarks.costs_ns)
    assert "cost_ns" not in verdict_of(swept)


def test_the_sites_transport_and_safety_variables_reach_every_rank(
    swept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 11: clearing them stops jobs, and on shared machines does harm."""
    for name, value in SAFE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NCCL_ALGO", "tree")
    assert run(["verify", "s", "--communicators", "2", "-q"]) == 0
    last = max(swept.glob("runs/*"), key=lambda one: int(one.name))
    for path in [last / "environment.json"]:
        told = json.loads(path.read_text())
        assert SAFE.items() <= told["passed"].items()
        # Law 10: what chooses is cleared where we answer.
        assert "NCCL_ALGO" in told["cleared"]
    for path in last.glob("rank-*.csv"):
        seen = path.read_text()
        assert "# variable NCCL_NVLS_ENABLE=0" in seen
        assert "nvls" not in seen.lower().replace("nccl_nvls_enable", "").replace(
            "nvshmem_disable_nvls", ""
        )


def test_a_file_for_another_library_is_verified_for_this_one(swept: Path) -> None:
    """No warning of the plugin's in its ranks, and what stands is bound to what it ran with."""
    text = rules_of(swept).read_text()
    assert read_rules(text.encode()).library == "RCCL 2.28.3"
    Path("old.csv").write_text(text.replace("#@ library RCCL 2.28.3", "#@ library NCCL 2.26.6"))
    assert run(["verify", "s", "--rules", "old.csv", "--communicators", "4", "-q"]) == 0
    made = (swept / "verified-old.csv").read_bytes()
    assert read_rules(made).library == "RCCL 2.28.3"
    assert read_rules(made).rules
    assert b"2.26.6" not in made
    logs = [path.read_text(errors="replace") for path in swept.glob("runs/*/log.txt")]
    assert logs
    assert not any("rccltune: warning" in log for log in logs)


def test_a_verified_file_is_verified_again_in_a_smaller_range(verified: Path) -> None:
    """Lines that an earlier verification wrote do not move the rules that are cut."""
    text = rules_of(verified).read_text()
    # One of the rules reaches beyond what was swept here.
    last = read_rules(text.encode()).rules[-1]
    row = text.splitlines()[(last.line or 0) - 1]
    longer = row.replace(f",{last.max_nbytes},", f",{last.max_nbytes + (8 << 20)},")
    Path("longer.csv").write_text(text.replace(row, longer))
    assert run(["verify", "s", "--rules", "longer.csv", "--communicators", "4", "-q"]) == 0
    made = read_rules((verified / "verified-longer.csv").read_bytes())
    assert made.findings == ()
    assert {rule.setting for rule in made.rules} <= {
        r.setting for r in read_rules(text.encode()).rules
    }
    assert all(rule.max_nbytes <= 1 << 20 for rule in made.rules)


def test_a_rule_that_is_slower_is_taken_out_and_with_keep_losers_named(
    swept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tree with LL at a size where it is far slower, in somebody's file."""
    bad = tmp_path / "bad.csv"
    bad.write_text("allreduce,524288,1048576,tree,ll,-1,1,2,-1,-1\n")
    assert run(["verify", "s", "--rules", "bad.csv", "--communicators", "4", "--keep-losers"]) == 9
    told = capsys.readouterr()
    assert "Error: 1 rule of 1 does not stand" in told.err
    assert "deploy" not in told.err
    row, total = [line for line in told.out.splitlines() if line.strip("─")][1:3]
    assert row.split()[:6] == ["all_reduce", "512", "KiB", "1", "MiB", "tree/ll"]
    assert row.endswith("slower")
    assert total.startswith("1 rule of 1 does not stand after ")
    assert "no rule is left" not in told.out
    assert bad.read_text().startswith("allreduce")
    assert not [*swept.glob("verdict*.json"), *swept.glob("refused*.json")]
    assert run(["verify", "s", "--rules", "bad.csv", "--communicators", "4"]) == 0
    (made,) = swept.glob("verified-bad.csv")
    assert not read_rules(made.read_bytes()).rules
    told = capsys.readouterr()
    assert "0 rules of 1 stand" in told.out
    assert "deploy" not in told.err


def test_a_look_at_the_delivered_file_leaves_its_verdict(
    verified: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--keep-losers changes no file: the page and deploy go on saying that it is verified."""
    before = {path: path.read_bytes() for path in verified.glob("*.*")}
    capsys.readouterr()
    assert run(["verify", "s", "--communicators", "4", "--keep-losers"]) in (0, 9)
    assert "deploy" not in capsys.readouterr().err
    changed = {path.name for path in verified.glob("*.*") if before.get(path) != path.read_bytes()}
    assert changed <= {"samples.csv", "session.json"}


def test_a_session_that_was_verified_is_not_measured_again(verified: Path) -> None:
    """The same command finds all its steps done, once the file is as it stays."""
    verify = ["verify", "s", "--communicators", "4", "-q"]
    assert run(verify) == 0
    before = sorted(verified.glob("runs/*/run.json"))
    first = read_rules(rules_of(verified).read_bytes()).rules
    assert run(verify) == 0
    assert sorted(verified.glob("runs/*/run.json")) == before
    again = read_rules(rules_of(verified).read_bytes()).rules
    assert [(one.min_nbytes, one.max_nbytes, one.setting) for one in again] == [
        (one.min_nbytes, one.max_nbytes, one.setting) for one in first
    ]
    # The library may be another one with a variable that it reads.
    assert run([*verify, "--env", "NCCL_BUFFSIZE=1048576"]) == 0
    assert len(sorted(verified.glob("runs/*/run.json"))) > len(before)
    # And who reads the file is told.
    verdict = json.loads((verified / "verdict.json").read_text())
    assert verdict["environment"] == {"NCCL_BUFFSIZE": "1048576"}
    assert "with NCCL_BUFFSIZE=1048576 on both sides" in rules_of(verified).read_text()


def test_killed_in_the_midst_the_same_command_goes_on(swept: Path) -> None:
    """kill -9 of rccltune: nothing stays running, and rows that were there are used."""
    mark = f"verify-{os.getpid()}"
    words = [sys.executable, "-m", "rccltune", "verify", "s", "-q"]
    process = subprocess.Popen(words, env={**os.environ, "TEST_OF_VERIFY": mark})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = list(swept.glob("runs/3/rank-0.csv"))
        if rows and rows[0].read_text().count("\n") > 60:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = rows[0].read_text()
    assert run(["verify", "s", "-q"]) == 0
    assert rows[0].read_text().startswith(before[: before.rfind("\n")])
    # The guardian of what was killed looks around for a second.
    deadline = time.monotonic() + 30
    while _alive(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(mark)
    assert verdict_of(swept)["rules"] > 0


def _alive(mark: str) -> list[int]:
    """Processes that carry the mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except (OSError, ValueError):
            continue
    return found


def test_a_file_that_the_plugin_refuses_is_an_error_of_the_file(
    swept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, before anything is started."""
    (tmp_path / "odd.csv").write_text("allreduce,1,2,ringo,ll,-1,1,2,-1,-1\n")
    assert run(["verify", "s", "--rules", "odd.csv"]) == 3
    assert "ringo" in capsys.readouterr().err
    assert not list(swept.glob("runs/3"))


def test_what_rccl_tests_measured_is_verified_by_the_rank_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever measured a session: rules and library share communicators, at the swept sizes."""
    monkeypatch.chdir(tmp_path)
    words = ["--runner", "rccl-tests", "--simulate", str(NODE), "--mode", "spx-nps1"]
    sizes = ["--collective", "all_reduce", "--min-bytes", "64K", "--max-bytes", "256K"]
    more = ["--setting", "ring/ll", "--launcher", "none"]
    assert run(["sweep", *words, *sizes, *more, "--np", "2", "-o", "s", "-q"]) == 0
    Path("all.csv").write_text("allreduce,1024,1048576,ring,ll,-1,1,2,-1,-1\n")
    assert run(["verify", "s", "--rules", "all.csv", "--communicators", "4", "-q"]) == 0
    verdict = json.loads(Path("s/verdict_verified-all.json").read_text())
    assert {64 << 10, 256 << 10} < {one["nbytes"] for one in verdict["verdicts"]}
    assert all(64 << 10 <= one["nbytes"] <= 256 << 10 for one in verdict["verdicts"])
    assert verdict["replicates"] == 4
    assert list(Path("s").glob("runs/*/rank-0.csv"))


def test_an_imported_session_cannot_be_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no ranks; the sentence says what to do."""
    monkeypatch.chdir(tmp_path)
    example = Path(__file__).resolve().parents[2] / "examples/mi300x-cpx-nps4/all_reduce.csv"
    assert run(["import", str(example), "-o", "s", "-q"]) == 0
    assert run(["verify", "s"]) == 7
    said = " ".join(capsys.readouterr().err.split())
    own = "s/rccl_tuner_gfx942_cpx-nps4.csv"
    assert f"rccltune sweep -o swept && rccltune verify swept --rules {own}" in said
