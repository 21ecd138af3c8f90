"""Every message that the plugin can print is understood: they are taken from its sources."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rccltune.why.collector import LogCollector
from rccltune.why.knowledge import JobKnowledge
from rccltune.why.plugin_lines import PluginLines
from rccltune.why.ranges import job_report
from rccltune.why.records import AnswerKind, JobReport

# A reason in native_plugin/src: end(load, CONFIG_X, "…" "…", bad_value(…) or snprintf(reason, …).
_END = re.compile(
    r"end\(\s*(?:&?load),\s*CONFIG_(\w+),\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)", re.DOTALL
)
_REASON = re.compile(
    r"snprintf\((?:config->reason|load->config->reason|reason), (?:sizeof [\w>-]+|size),"
    r"\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)",
    re.DOTALL,
)
_TEXT = re.compile(r"\"((?:[^\"\\]|\\.)*)\"")
_FILLED = {"s": "cpx-nps4", "u": "7", "d": "7", "x": "74a1"}


def formats(source: str) -> list[tuple[str, str]]:
    """Outcome and message, with something in place of each conversion."""
    found = [(match[1], match[2]) for match in _END.finditer(source)]
    found += [("WRONG", match[1]) for match in _REASON.finditer(source)]
    return [(outcome, fill("".join(_TEXT.findall(pieces)))) for outcome, pieces in found]


def fill(text: str) -> str:
    """As printf would have it."""
    # The name of a variable is the one conversion that a reader looks for.
    text = text.replace("%s='%.60s'", "RCCLTUNE_MODE='x'")
    text = text.replace("%s: there is a control", "NCCL_TUNER_CONFIG_FILE: there is a control")
    text = text.replace("%%", "%").replace('\\"', '"').split("\\n")[0]
    return re.sub(r"%[-0-9.]*\*?(?:ll|z)?([sudx])", lambda match: _FILLED[match[1]], text)


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


def test_every_reason_has_an_answer(sources: Path) -> None:
    """Stopped or silent: each reason that init can have is an answer with a remedy."""
    reasons = [
        one
        for name in ("config.c", "requirements.c", "settings.c", "watch.c")
        for one in formats((sources / name).read_text(encoding="utf-8"))
    ]
    assert len(reasons) > 20
    for outcome, reason in reasons:
        head = (
            "rccltune: comm=0123456789abcdef nodes=1 ranks=64 abi=v5 inert: "
            if outcome == "NOTHING"
            else "rccltune: error: communicator of 64 ranks on 1 nodes: "
        )
        found = answered(head + reason).answers
        assert [a.kind for a in found] != [AnswerKind.UNKNOWN], reason
        assert len(found) == 1, reason
        assert found[0].remedy, reason
        assert reason.split("%")[0][:40] in found[0].text


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
        "rccltune: warning: /r.csv has rules for NCCL 2.28.9, and this job runs NCCL 2.30.7: whether …",
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
        "rccltune: error: comm=0: the record could not be written to /x: the disk is full; what …",
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
