"""The verb: what it prints, its exit codes, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import Jobs, halves
from wording import lacks

from rccltune.cli import run
from rccltune.why.job_report import AnswerKind
from rccltune.why.lines import _whole_words


def test_the_page_has_ranges_and_remedies(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One head per collective and scale, then ranges, each remedy below its answer."""
    monkeypatch.setenv("COLUMNS", "200")
    rules = jobs.rules()
    log = jobs.run(env=jobs.with_plugin(rules))
    assert run(["why", str(log), str(rules)]) == 0
    questions, lines = halves(capsys.readouterr().out)
    assert [one.split(":")[0] for one in questions if one[:1] != " "] == [
        "tuner", "rules", "sizes", "overwritten", "ranks", "to do",
    ]  # fmt: skip
    assert lines[0] == "all_reduce, 64 ranks on 1 node"
    assert lines[1].startswith("  1 KiB to 2 KiB         rule hit: ")
    assert lines[2].startswith("  4 KiB to 512 KiB       not selectable: ")
    assert lacks(lines[3], "RCCL_LL128_FORCE_ENABLE=1") == []


def test_json_has_every_answer(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get the same words."""
    rules = jobs.rules()
    log = jobs.run(env=jobs.with_plugin(rules))
    assert run(["why", str(log), str(rules), "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [one["answer"] for one in answers] == [
        "rule hit",
        "not selectable",
        "no rule at this size",
    ]
    assert answers[0] | {"text": "", "remedy": None} == {
        "nodes": 1,
        "ranks": 64,
        "collective": "all_reduce",
        "min_bytes": 1024,
        "max_bytes": 2048,
        "sizes": 2,
        "channels": [1, 1],
        "answer": "rule hit",
        "text": "",
        "remedy": None,
    }


def test_every_answer_stands_in_the_document(repository: Path) -> None:
    """docs/troubleshooting.md has each, in the words that are printed."""
    page = (repository / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert [kind.value for kind in AnswerKind if f"* **{kind.value}**" not in page] == []


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 2, "is not there"),
        (b"", 6, "empty"),
        (b"\n  \n", 6, "nothing but blanks"),
        (b"NCCL\0INFO\n", 6, "zero byte"),
        (b"step 1 loss 0.3\n", 8, "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL"),
        (b"allreduce,0,4095,ring,ll,-1,1,8,-1,-1\n", 8, "NCCL_DEBUG_SUBSYS"),
        (b"#@ format 1\n# no rule\n", 8, "RCCLTUNE_LOG=decisions"),
    ],
)
def test_files_that_tell_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, code: int, said: str
) -> None:
    """What is wrong, where, and what to set so that there is something to read."""
    path = tmp_path / "job.log"
    if content is not None:
        path.write_bytes(content)
    assert run(["why", str(path)]) == code
    told = capsys.readouterr().err
    assert said in told
    assert str(path) in told


def test_a_line_is_shown_in_whole_words() -> None:
    """What has no room is marked, and nothing is cut within a word."""
    text = " ".join(f"word{n}" for n in range(60))
    shown = _whole_words(text).removesuffix(" …")
    assert shown != text
    assert text.startswith(f"{shown} ")
    assert _whole_words("short") == "short"
    assert _whole_words("x" * 300).endswith("x …")
