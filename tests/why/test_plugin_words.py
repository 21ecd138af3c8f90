"""Every message that the plugin can print is understood, and its codes are those of its sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rccltune.logs.messages import plugin_reasons
from rccltune.why.compose_report import compose_report
from rccltune.why.job_logs import JobLogs
from rccltune.why.job_report import AnswerKind, CommunicatorScale, JobReport
from rccltune.why.knowledge import JobKnowledge
from rccltune.why.lines import LineReader

_CODE = re.compile(r"#define REASON_\w+\s+\"(R\d\d) ([a-z-]+)(: )?\"")
# What ends a start: the first text of each must be a code's.
_END = re.compile(
    r"(?:load_end\(\s*load,\s*CONFIG_\w+,|snprintf\((?:config->)?reason, (?:size|sizeof config->reason),)"
    r"\s*([\w\"%]+)"
)


def read(*lines: str) -> JobLogs:
    """What lines of the plugin put down."""
    job = JobLogs()
    reader = LineReader(job)
    for line in lines:
        reader.read_line(line, "job.log:1", "stderr")
    reader.finish()
    return job


def answered(line: str) -> JobReport:
    """What is answered from one line of the plugin."""
    return compose_report(read(line), JobKnowledge())


@pytest.fixture
def sources(repository: Path) -> Path:
    """The plugin's C files."""
    return repository / "native_plugin" / "src"


def test_codes_are_the_same_in_the_plugin_the_table_and_the_manual(
    sources: Path, repository: Path
) -> None:
    """Codes and names of reasons.h, of messages.yaml and of docs/plugin.md, each list whole."""
    coded = {(one[0], one[1]) for one in _CODE.findall((sources / "reasons.h").read_text("utf-8"))}
    assert len(coded) > 20
    assert coded == {(one.code, one.name) for one in plugin_reasons().values()}
    manual = (repository / "docs" / "plugin.md").read_text("utf-8")
    assert coded == set(re.findall(r"`(R\d\d) ([a-z-]+)`", manual))


def test_whatever_ends_a_start_begins_with_a_code(sources: Path) -> None:
    """Messages of each file that reads settings, rule files and the machine."""
    begun = [
        first
        for name in ("config.c", "requirements.c", "settings.c", "watch.c", "record.c")
        for first in _END.findall((sources / name).read_text(encoding="utf-8"))
    ]
    assert len(begun) > 20
    # Of another machine or mode: the code is the format's first argument.
    assert {one for one in begun if not one.startswith("REASON_")} == {'"%s%s'}


@pytest.mark.parametrize("code", sorted(code for code in plugin_reasons() if code < "R20"))
def test_every_reason_of_a_start_has_an_answer(code: str) -> None:
    """Stopped or silent: an answer of its own kind, the plugin's words, once, and a remedy."""
    reason = plugin_reasons()[code]
    said = f"{code} {reason.name}: RCCLTUNE_MODE='x': expected a mode"
    for head in (
        "rccltune: comm=0123456789abcdef nodes=1 ranks=64 abi=v5 inert: ",
        "rccltune: error: nodes=1 ranks=64: ",
    ):
        report = answered(head + said)
        (found,) = report.answers
        rules = next(one for one in report.questions if one.title == "rules")
        assert "expected a mode" not in f"{rules.answer} {rules.shown}"
        assert code in (rules.shown or "")
        assert found.kind is AnswerKind(reason.answer)
        assert found.kind is not AnswerKind.UNKNOWN
        assert said in found.text
        assert found.remedy
        assert "{" not in found.remedy


DECIDED = sorted(code for code in plugin_reasons() if code >= "R20")


@pytest.mark.parametrize("code", DECIDED)
def test_every_reason_of_a_decision_has_an_answer(code: str) -> None:
    """Without the rule file at hand the code alone tells why a call was answered so."""
    reason = plugin_reasons()[code]
    answer = "tree/ll line=3" if code in ("R20", "R21") else "none line=0"
    found = answered(f"{DECISION}answer={answer} host=ring/ll reason={code} {reason.name}").answers
    assert [one.kind for one in found] == [AnswerKind(reason.answer)]


START = "rccltune: comm=00000000000000ab nodes=1 ranks=8 abi=v5 "
COMM = "rccltune: comm=00000000000000ab "
DECISION = COMM + "decision collective=allreduce nbytes=8 "
SHA = "0" * 64
LINES = [
    (START + f"rules=1 of=2 skipped-rows=0 file=/a b/r.csv sha256={SHA}", "rules", {"file": "/a b/r.csv"}),
    (START + f"rules=1 of=1 skipped-rows=0 file=/r.csv sha256={SHA} product=NVIDIA-H200 library=NCCL 2.30.7 "
     "rules-for=NCCL 2.28.9", "rules", {"library": "NCCL 2.30.7", "measured": "NCCL 2.28.9"}),
    (START + f"rules=1 of=1 skipped-rows=0 file=/r.csv sha256={SHA} unchecked=product,library (not known here) "
     "needs=A=1 (not set)", "rules", {"unchecked": "product,library", "needs": "A=1"}),
    ("rccltune: warning: R16 other-library: /r.csv has rules for …", "warned", {"text": "R16 other-library: /r.csv has rules for …"}),
    ("rccltune: error: comm=0: R17 record-failed: /x: the disk is full", "unwritten", {"text": "R17 record-failed: /x: the disk is full"}),
    ("rccltune: error: nodes=1 ranks=8: R10 file-refused: /r.csv", "stopped", {"ranks": "8"}),
]  # fmt: skip
BEFORE = ("", "[1,0]<stderr>:", "host7: ", "garbage without an end")


@pytest.mark.parametrize(("line", "tells", "words"), LINES)
def test_each_kind_of_line_is_put_down(line: str, tells: str, words: dict[str, str]) -> None:
    """Alone, and behind whatever a launcher puts before it."""
    for before in BEFORE:
        (told,) = read(before + line + "\n").facts(tells)
        assert words.items() <= told.words.items()


@pytest.mark.parametrize("before", BEFORE)
def test_decisions_and_sums_are_put_down_by_scale(before: str) -> None:
    """Names of settings that are not known today are none; the sums of processes are added."""
    where = CommunicatorScale(1, 8)
    lines = [
        START + f"rules=1 of=1 skipped-rows=0 file=/r.csv sha256={SHA}",
        DECISION + "answer=-1/-1/4 line=3 host=ring/ll",
        DECISION + "answer=none line=0 host=algorithm7/protocol3 offered=-",
        *[COMM + "summary calls=4 hits=1 misses=1 not-selectable=2 fallbacks=0"] * 2,
        COMM + "rule line=2 setting=tree/ll channels=4 hits=9",
    ]
    job = read(*(before + line for line in lines))
    (record,) = job.sizes.values()
    assert [(str(one.setting), one.line) for one in record.answers] == [("-/-/4", 3), ("None", 0)]
    assert record.offered == frozenset()
    assert job.summaries == {where: {"calls": 8, "hits": 2, "misses": 2, "not_selectable": 4}}
    assert [(str(one.setting), n) for one, n in job.hits[where].items()] == [("tree/ll/4", 9)]
