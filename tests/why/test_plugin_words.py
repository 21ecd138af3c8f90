"""Every message that the plugin can print is understood, and its codes are those of its sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rccltune.logs.messages import plugin_reasons
from rccltune.why.collector import LogCollector
from rccltune.why.knowledge import JobKnowledge
from rccltune.why.plugin_lines import PluginLines
from rccltune.why.ranges import job_report
from rccltune.why.records import AnswerKind, JobReport

_CODE = re.compile(r"#define REASON_\w+\s+\"(R\d\d) ([a-z-]+)(: )?\"")
# What ends a start: the first text of each must be a code's.
_END = re.compile(
    r"(?:load_end\(\s*load,\s*CONFIG_\w+,|snprintf\((?:config->)?reason, (?:size|sizeof config->reason),)"
    r"\s*([\w\"%]+)"
)


def answered(line: str) -> JobReport:
    """What is answered from one line of the plugin."""
    evidence = LogCollector()
    PluginLines(evidence).line("stderr", line)
    known = JobKnowledge()
    return job_report(evidence.finish({}), known)


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
    """Stopped or silent: an answer of its own kind, the plugin's words and a remedy."""
    reason = plugin_reasons()[code]
    said = f"{code} {reason.name}: RCCLTUNE_MODE='x': expected a mode"
    for head in (
        "rccltune: comm=0123456789abcdef nodes=1 ranks=64 abi=v5 inert: ",
        "rccltune: error: communicator of 64 ranks on 1 nodes: ",
    ):
        (found,) = answered(head + said).answers
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
LINES = [
    (START + "rules=1 of=2 skipped-rows=0 file=/a b/r.csv sha256=" + "0" * 64, "started"),
    (DECISION + "answer=-1/-1/4 line=3 host=ring/ll", "seen"),
    (DECISION + "answer=none line=0 host=algorithm7/protocol3", "seen"),
    (DECISION + "answer=none line=0 host=- offered=-", "seen"),
    (COMM + "summary calls=4 hits=1 misses=1 not-selectable=2 fallbacks=0", "totals"),
    (COMM + "rule line=2 setting=tree/ll channels=4 hits=9", "hit_rules"),
    (
        "rccltune: warning: R16 other-library: /r.csv has rules for NCCL 2.28.9, and this job runs NCCL 2.30.7: whether …",
        "other_library",
    ),
    (
        START
        + "rules=1 of=1 skipped-rows=0 file=/r.csv sha256="
        + "0" * 64
        + " product=NVIDIA-H200 "
        "library=NCCL 2.30.7 (its rules are for NCCL 2.28.9)",
        "other_library",
    ),
    (
        START + "rules=1 of=1 skipped-rows=0 file=/r.csv sha256=" + "0" * 64 + " unchecked=library "
        "(not known here)",
        "unchecked",
    ),
    (
        "rccltune: error: comm=0: R17 record-failed: the record could not be written to /x: the disk is full; what …",
        "unwritten",
    ),
    ("rccltune: error: comm=00000000000000ab: the record could not be written to /x", "unwritten"),
]


@pytest.mark.parametrize(("line", "where"), LINES)
def test_each_kind_of_line_puts_something_down(line: str, where: str) -> None:
    """Alone, and behind whatever a launcher puts before it."""
    for before in ("", "[1,0]<stderr>:", "host7: ", "garbage without an end"):
        evidence = LogCollector()
        own = PluginLines(evidence)
        own.line("a", START + "inert: nothing")
        evidence.job.started.clear()
        own.line("a", before + line + "\n")
        assert getattr(evidence.job, where), line
