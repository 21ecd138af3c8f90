"""What is proposed next makes sense in the state that things are in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rccltune.cli import run
from rccltune.job import pattern_of

INERT = "inert: R07 nothing-set: neither NCCL_TUNER_CONFIG_FILE nor RCCLTUNE_CONFIG_DIR is set"
IN_FORCE = "rules=3 of=3 skipped-rows=0 file=/r.csv sha256=8f0ebd34"
ASKED = "decision collective=allreduce nbytes=1024 answer={} host=ring/ll offered=tree/ll,ring/ll"
TABLE = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid      1 on       host device  0 [0000:00:00] one
#  Rank  1 Group  0 Pid      2 on       host device  1 [0000:00:00] one
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    10.00    0.10    0.10      0    10.00    0.10    0.10      0
        2048           512     float     sum      -1    10.00    0.20    0.20      0    10.00    0.20    0.20      0
"""


@pytest.mark.parametrize(
    ("state", "answer", "is_proposed"),
    [(INERT, "none line=0", False), (IN_FORCE, "tree/ll line=19", True)],
)
def test_a_job_is_measured_under_rules_only_where_there_are_any(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    state: str,
    answer: str,
    is_proposed: bool,
) -> None:
    """Without them there is nothing whose worth could be measured."""
    head = "rccltune: comm=e220a8397b1dcdaf"
    path = tmp_path / "plugin.log"
    path.write_text(
        f"{head} nodes=1 ranks=64 abi=v5 {state}\n{head} {ASKED.format(answer)}\n", encoding="utf-8"
    )
    assert run(["why", str(path)]) == 0
    assert ("rccltune job" in capsys.readouterr().err) is is_proposed


def test_a_benchmark_is_measured_by_what_it_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its duration is mostly its start."""
    head = "rccltune: comm=e220a8397b1dcdaf"
    log = tmp_path / "all_reduce_perf.log"
    lines = [
        f"{head} nodes=1 ranks=2 abi=v5 {IN_FORCE}",
        f"{head} {ASKED.format('tree/ll line=19')}",
    ]
    average = "# Avg bus bandwidth    : 8.81729\n"
    log.write_text("\n".join([*lines, TABLE + average]), encoding="utf-8")
    assert run(["why", str(log), "--collective", "all_reduce"]) == 0
    said = capsys.readouterr().err
    assert (measure := re.search("rccltune job --measure '([^']+)' -- COMMAND", said))
    assert (found := pattern_of(measure[1]).search(average))
    assert found["rate"] == "8.81729"


def test_why_of_a_folder_says_which_files_are_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no benchmark's output that failed to be one."""
    (tmp_path / "page.md").write_text("NCCL, algbw and busbw\n", encoding="utf-8")
    assert run(["why", str(tmp_path)]) == 6
    said = capsys.readouterr().err
    assert "this is a folder" in said
    assert "the job's log" in said
    assert "page.md" not in said


def test_import_proposes_to_choose_only_where_something_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that does not say what ran is in the session, left out row by row."""
    log, session = tmp_path / "all_reduce_perf.log", tmp_path / "s"
    log.write_text(TABLE, encoding="utf-8")
    command = ["import", str(log), "-o", str(session), "--collective", "all_reduce"]
    assert run([*command, "--nodes", "1"]) == 0
    both = capsys.readouterr()
    assert "4 new timings from 1 file, 4 of them left out" in both.out
    assert "4 left out: nothing says which setting ran" in both.out
    assert "fit" not in both.err.partition("Next:")[2]
    assert "can be chosen from" in " ".join(both.err.split())
    assert run([*command, "--nodes", "1", "--baseline"]) == 0
    assert "Next: rccltune fit" in capsys.readouterr().err


def test_rules_of_an_imported_session_are_verified_in_one_that_was_swept(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """verify refuses the session itself, so no verb sends its user there."""
    monkeypatch.chdir(tmp_path)
    table = repository / "examples/mi300x-cpx-nps4/all_reduce.csv"
    assert run(["import", str(table), "-o", "s", "-q"]) == 0
    assert run(["deploy", "d", "s"]) == 7
    assert "rccltune verify" not in capsys.readouterr().err
    rules = "s/rccl_tuner_gfx942_cpx-nps4.csv"
    remedy = f"rccltune sweep -o swept && rccltune verify swept --rules {rules}"
    for words, code in (
        ("emit-config s", 0),
        (f"explain {rules}", 0),
        ("report s", 0),
        ("deploy d s", 2),
        ("verify s", 7),
    ):
        capsys.readouterr()
        assert run(words.split()) == code, words
        both = capsys.readouterr()
        said = " ".join((both.out + both.err).split())
        assert said.count("rccltune verify") == said.count(remedy) == 1, words
        assert "run verify" not in said, words
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    capsys.readouterr()
    assert run(["report", "../s", "--json"]) == 0
    following = json.loads(capsys.readouterr().out)["following"]
    assert f"verify swept --rules ../{rules} " in following
    monkeypatch.chdir(tmp_path)
    with Path(rules).open("a", encoding="utf-8") as stream:
        stream.write("allreduce,0,9,bush,ll,-1,-1,-1\n")
    assert run(["report", "s", "--force"]) == 3
    assert "rccltune verify" not in capsys.readouterr().err


def test_a_file_without_a_rule_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its exports say themselves that nothing is to be loaded."""
    table, session = tmp_path / "t.csv", str(tmp_path / "s")
    rows = [f"{s},{n},10.0" for s in ("baseline", "ring/ll") for n in (1024, 2048)]
    head = "# rccltune: nodes=1 ranks=8 arch=gfx942 mode=spx-nps1 placement=out"
    text = "\n".join([f"{head} collective=all_reduce", "setting,nbytes,time_us", *rows])
    table.write_text(f"{text}\n", encoding="utf-8")
    assert run(["import", str(table), "-o", session, "-q"]) == 0
    assert run(["emit-config", session]) == 0
    said = capsys.readouterr().out
    assert "0 rules" in said
    assert "To use it" not in said
