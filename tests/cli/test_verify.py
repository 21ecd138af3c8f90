"""Verification on a simulated node whose truth is known: what loses goes, what wins stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made
import pytest
from wording import lacks

from rccltune.cli import run
from rccltune.model.vocabulary import MAX_NBYTES
from rccltune.rules.reader import read_rules
from rccltune.verify.verdict_store import verdict_name

pytestmark = pytest.mark.usefixtures("stand_ins", "here")
KIB, MIB = 1024, 1 << 20
SESSION = Path(made.SESSION)
# What stands of mine.csv, and what is kept of it.
LEFT = SESSION / "verified-mine.csv"
VERDICT = SESSION / "verdict_verified-mine.json"


def rules_file(*rows: tuple[int, int, str], ranks: int = 2) -> Path:
    """Rules for so many ranks, in the order given."""
    lines = [f"allreduce,{low},{high},{name},-1,1,{ranks},-1,-1\n" for low, high, name in rows]
    path = Path("mine.csv")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def verify(*more: str) -> int:
    """With a file of ours."""
    return run(["verify", "--rules", "mine.csv", *more])


def verdict() -> dict[str, Any]:
    """What is kept of it."""
    found: dict[str, Any] = json.loads(VERDICT.read_text(encoding="utf-8"))
    return found


def test_the_sessions_own_file_stands_and_a_second_verification_changes_nothing(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It carries its evidence once, however often it is verified; nothing is measured twice."""
    assert run(["emit-config", "-q"]) == 0
    assert run(["verify"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[0] == f"Session: {made.SESSION}"
    assert "SIMULATED" in said.out
    assert "Next: rccltune report" in said.err
    first = (swept / made.RULES).read_text(encoding="utf-8")
    assert [row[3:5] for row in made.rows(swept / made.RULES)] == [["ring", "simple"]]
    assert first.count("verified: with and without the rules in turns") == 1
    kept = json.loads((swept / "verdict.json").read_text(encoding="utf-8"))
    assert kept["rules"] == 1
    # The same sizes count in the line of a rule and below it.
    (n_sizes,) = (one["n_sizes"] for one in kept["standings"] if one["state"] == "kept")
    assert f"none of {n_sizes} sizes with a rule is slower" in said.out
    # Narrowed, the file is another one, so that its own communicators are made once.
    for _ in range(2):
        assert run(["verify", "-q"]) == 0
        files = {p: p.stat().st_mtime_ns for p in swept.rglob("rank-*.csv")}
    assert run(["verify", "--json"]) == 0
    assert {p: p.stat().st_mtime_ns for p in swept.rglob("rank-*.csv")} == files
    again = (swept / made.RULES).read_text(encoding="utf-8")
    assert len(again.splitlines()) <= len(first.splitlines())
    assert made.rows(swept / made.RULES)[0][1] == str(64 * KIB)


@pytest.mark.usefixtures("swept")
def test_a_rule_that_wins_nowhere_goes_and_the_file_says_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """ring/ll above 512 KiB is many times as slow as the library's own ring/simple."""
    rules_file((64 * KIB, 128 * KIB, "ring,simple"), (512 * KIB, MIB, "ring,ll"))
    assert verify("--json") == 0
    lines = capsys.readouterr().out.splitlines()
    plain = json.loads("\n".join(line for line in lines if not line.startswith('{"event"')))
    assert [str(rule.setting) for rule in read_rules(LEFT.read_bytes()).rules] == ["ring/simple"]
    assert plain["rules_before"] == 2
    assert plain["rules"] == 1
    assert "# dropped: allreduce,524288,1048576,ring,ll" in LEFT.read_text(encoding="utf-8")
    slower = [one for one in verdict()["verdicts"] if one["nbytes"] >= 512 * KIB]
    assert {one["judgement"] for one in slower} == {"worse"}
    # The session's own verdict is another file's, and is not there yet.
    assert not (SESSION / "verdict.json").exists()


@pytest.mark.usefixtures("swept")
def test_another_nodes_session_is_told_without_an_option_that_verify_lacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has no -o: its session is its argument."""
    rules_file((64 * KIB, 128 * KIB, "ring,simple"))
    assert verify("--simulate", "mi300x-spx-nps1") == 7
    assert lacks(capsys.readouterr().err, "name another session, as -o SESSION of sweep") == []


@pytest.mark.usefixtures("swept")
def test_losers_are_kept_on_request_and_the_exit_code_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And no file is written."""
    path = rules_file((512 * KIB, MIB, "ring,ll"))
    before = path.read_bytes()
    assert verify("--keep-losers") == 9
    assert lacks(capsys.readouterr().err, "the file was left as it is") == []
    assert not LEFT.exists()
    assert path.read_bytes() == before


@pytest.mark.usefixtures("swept")
def test_a_rule_for_all_sizes_ends_where_the_sweep_did() -> None:
    """Sizes that were not compared are a hole."""
    rules_file((0, MAX_NBYTES, "ring,simple"))
    assert verify("-q") == 0
    [row] = made.rows(LEFT)
    assert int(row[1]) == 64 * KIB
    assert int(row[2]) <= MIB
    lines = LEFT.read_text(encoding="utf-8").splitlines()
    assert f"#@ hole {MIB + 1} {MAX_NBYTES} not measured" in lines
    assert f"#@ hole 0 {64 * KIB - 1} not measured" in lines


@pytest.mark.usefixtures("swept")
def test_wrong_results_under_a_rule_cut_it(here: Path) -> None:
    """Only where they are wrong, and with the neighbourhood that nobody measured."""
    fault = {"kind": "wrong", "setting": "ring/simple", "bytes": [90_000, 120_000], "elements": 3}
    rules_file((64 * KIB, 200 * KIB, "ring,simple"))
    assert verify("--simulate", str(made.node(here / "bad.yaml", faults=[fault])), "-q") == 0
    for row in made.rows(LEFT):
        assert int(row[2]) < 90_000 or int(row[1]) > 120_000


@pytest.mark.usefixtures("swept")
def test_wrong_results_without_rules_end_it_without_a_verdict(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine is at fault then; what was refused is kept, and deploy knows it."""
    rules_file((64 * KIB, 200 * KIB, "ring,simple"))
    fault = {"kind": "wrong", "setting": "ring/ll", "elements": 3}
    assert verify("--simulate", str(made.node(here / "bad.yaml", faults=[fault]))) == 9
    assert lacks(capsys.readouterr().err, "wrong", "results") == []
    assert not LEFT.exists()
    assert not VERDICT.exists()
    assert (SESSION / "refused_verified-mine.json").exists()


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        # The plugin refuses both lines, and each is named.
        ("allreduce,0,9,rink,ll,-1,1,2,-1,-1\nallreduce,9,0,ring,ll,-1,1,2,-1,-1\n", 3, "rink"),
        ("#@ format 1\nallreduce,65536,131072,ring,simple,-1,1,2,-1,-1\n", 3, "'#@ end 1'"),
        ("allreduce,65536,131072,ring,simple,-1,1,4,-1,-1\n", 2, "no rule of this file is for 2"),
        ("allreduce,1,99,ring,simple,-1,1,2,-1,-1\n", 2, "sweep the sizes that they are for"),
        ("# nothing\n", 2, "this file has no rule"),
        ("#@ needs LD_PRELOAD=x\nallreduce,65536,131072,ring,simple,-1,1,2,-1,-1\n", 2, "--allow"),
    ],
    ids=["mistakes", "cut", "other ranks", "other sizes", "empty", "needs code"],
)
def test_what_cannot_be_verified_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    """With what is wrong and what to do."""
    Path("mine.csv").write_text(text, encoding="utf-8")
    assert verify() == code
    assert said in capsys.readouterr().err
    assert not list(SESSION.glob("verification/**/rank-*.csv"))


def test_without_a_sweep_there_is_nothing_to_verify_by(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An imported session has no ranks to start; exit code 7."""
    table = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
    assert run(["import", str(table), "-q"]) == 0
    assert run(["verify"]) == 7
    assert "this session was imported" in capsys.readouterr().err


def test_verdicts_are_named_for_their_files() -> None:
    """The session's own is plain; its files for a placement have that, others their name."""
    plain = "rccl_tuner_gfx942_cpx-nps4.csv"
    named = {
        SESSION / plain: "verdict.json",
        SESSION.resolve() / plain: "verdict.json",
        SESSION / "rccl_tuner_gfx942_cpx-nps4_one-oam.csv": "verdict_one-oam.json",
        Path(plain): "verdict_rccl_tuner_gfx942_cpx-nps4.json",
        Path("out.csv"): "verdict_out.json",
    }
    assert {path: verdict_name(path, SESSION, plain) for path in named} == named
