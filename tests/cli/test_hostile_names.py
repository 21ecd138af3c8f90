"""Names and texts that would paint over a terminal or forge a line of ours, in every verb.

What other people's files hold may be refused or taken: here it only matters what is printed of it.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from rccltune.cli import _VERBS, run

pytestmark = pytest.mark.usefixtures("here")

FORGED: Final = "FORGED: rules are in use"
# For names of files: any byte but 0 and the slash, so also what is no UTF-8.
NAME: Final = os.fsdecode(
    f"a\x1b[2J\r\n{FORGED}\n\x9b1m\u202e\u2028[red][link=x]".encode() + b"\xff"
)
# For what is UTF-8.
TEXT: Final = f"t\x1b]0;owned\x07\r\n{FORGED}\n\x7f\x9b1m\u2066\u2029[bold]:smile:"


class Seen:
    """What a command line printed, and whether it may be printed."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        """What was printed before is forgotten."""
        self._capfd = capfd
        capfd.readouterr()

    def check(self, arguments: list[str]) -> str:
        """Run it; all that it printed, also what a library of ours wrote to the descriptors."""
        run(arguments)
        out, err = self._capfd.readouterr()
        for text in (out, err):
            assert text.replace("\n", "").isprintable(), arguments
            # Not at the start of a line, where it would be somebody's own word.
            assert not any(line.startswith(FORGED) for line in text.split("\n")), arguments
        assert "has a bug" not in err, err
        if "--json" in arguments and out:
            json.loads(out)
        return out + err


@pytest.fixture
def seen(capfd: pytest.CaptureFixture[str]) -> Seen:
    """What is asserted of everything that is printed."""
    return Seen(capfd)


@pytest.fixture
def session(published_once: Path) -> Path:
    """A session of published measurements in a folder of a hostile name."""
    return shutil.copytree(published_once, Path(NAME))


def _edit(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))))


ON_SESSION: Final = (
    ["fit"],
    ["fit", "--json"],
    ["emit-config", "-o", "-"],
    ["verify"],
    ["check", "--quick"],
    ["deploy", "site"],
)


def on(session: Path, command: list[str]) -> list[str]:
    """The command line for a session."""
    if command[0] == "deploy":
        return [*command, str(session)]
    return [command[0], str(session), *command[1:]]


FIELDS: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "host": lambda head: head["fingerprint"].update(hosts=[TEXT]),
    "product": lambda head: head["fingerprint"].update(product=TEXT),
    "arch": lambda head: head["fingerprint"].update(arch=TEXT),
    "command": lambda head: head.update(command=TEXT),
    "tool": lambda head: head.update(tool=TEXT, format=99),
    "format": lambda head: head.update(format=TEXT),
    "unknown field": lambda head: head["fingerprint"].update({TEXT: 1}),
    "setup": lambda head: head.update(setup={"library": TEXT, "environment": {TEXT: TEXT}}),
}


@pytest.mark.parametrize("field", FIELDS)
def test_what_the_header_of_a_session_says(session: Path, seen: Seen, field: str) -> None:
    """Hosts, products, variables, and fields that nobody knows."""

    def change(head: dict[str, Any]) -> dict[str, Any]:
        FIELDS[field](head)
        return head

    _edit(session / "session.json", change)
    for command in ON_SESSION:
        seen.check(on(session, command))


@pytest.mark.parametrize("column", ["setting", "unusable", "ran", "run", "dtype"])
def test_what_a_table_of_samples_holds(session: Path, seen: Seen, column: str) -> None:
    """Cells may be quoted, and hold line breaks."""
    path = session / "samples.csv"
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    if column in rows[0]:
        for row in rows[::3]:
            row[column] += TEXT
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for command in ON_SESSION:
        seen.check(on(session, command))


RULES: Final = (
    "# by hand",
    f"#@ needs NAME={TEXT}",
    f"#@ requires arch={TEXT}",
    f"#@ hole 0 7 {TEXT}",
    f"# verified: {TEXT}",
    "allreduce,8,1024,ring,ll,-1,1,64,-1,-1",
    f"{TEXT},8,1024,ring,ll,-1,1,64,-1,-1",
    f"allreduce,8,1024,{TEXT},ll,-1,1,64,-1,-1",
    f"allreduce,8{TEXT},1024,ring,ll,-1,1,64,-1,-1",
    f"allreduce,8,1024,ring,ll,-1,1,64,-1,-1,{TEXT}",
)


@pytest.mark.parametrize("line", range(len(RULES)))
def test_what_a_rule_file_holds(seen: Seen, stand_ins: None, line: int) -> None:
    """As it is, and with one hostile line; the plugin says why it refuses it."""
    del stand_ins
    harm = RULES[line].replace("\n", "\x85")
    Path(NAME).write_text("\n".join([*RULES[:1], RULES[5], harm, ""]), encoding="utf-8")
    Path("plain.csv").write_text(f"{RULES[5]}\n", encoding="utf-8")
    for command in (["explain", NAME], ["explain", "plain.csv", "--diff", NAME]):
        seen.check(command)
        seen.check([*command, "--json"])
    seen.check(["why", NAME])


LOG: Final = f"""# nThreads 1 nGpus 1 minBytes 8
{TEXT}
host-{TEXT}:1:1 [0] NCCL INFO TUNER/Plugin: {TEXT}
host:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo {TEXT} proto 0 time 1.0
host:1:1 [0] NCCL INFO ENV/Plugin: NCCL_ALGO set by environment to {TEXT}.
rccltune: {TEXT}
#  Rank  0 Group  0 Pid 1 on {TEXT} device  0 [0x00] {TEXT}
#       size         count      type   redop    root     time   algbw   busbw #wrong
        1024           256     float     sum      -1    10.0    0.10    0.10  {TEXT}
"""


@pytest.mark.parametrize(
    "command",
    [
        ["import", NAME, "-o", "s"],
        ["import", NAME, "-o", "s", "--collective", "all_reduce", "--json"],
        ["why", NAME],
        ["why", NAME, "--json"],
        ["workload", NAME],
        ["fit", "--transferbench", NAME],
    ],
    ids=str,
)
def test_what_a_log_holds(seen: Seen, command: list[str]) -> None:
    """Lines of a job are quoted in errors and answers; its file has a hostile name too."""
    Path(NAME).write_text(LOG, encoding="utf-8", errors="surrogateescape")
    seen.check(command)
    Path(NAME).write_text(f"collective,size,{TEXT}\nallreduce,{TEXT},1\n", encoding="utf-8")
    seen.check(command)
    Path(NAME).write_text(json.dumps({TEXT: [TEXT]}), encoding="utf-8")
    seen.check(command)


YAML: Final = f"{json.dumps(TEXT)}: {json.dumps(TEXT)}\ncollective: [{json.dumps(TEXT)}]\n"
IN_OPTIONS: Final = {
    "detect": [["--root", NAME], [NAME], [NAME, "--links"]],
    "doctor": [[NAME]],
    "tune": [["-c", NAME], ["--simulate", NAME]],
    "sweep": [
        *(["-c", NAME], ["--simulate", NAME], ["--rccl-tests", NAME]),
        *(["--hostfile", NAME], ["--collective", NAME], ["--setting", NAME], ["--env", NAME]),
        *(["--mode", NAME], ["--min-bytes", NAME], ["--np", NAME], ["--launcher", NAME]),
        ["--simulate", "mi300x", "--mode", "cpx-nps4", "--plan", "--env", f"A={NAME}"],
        ["--simulate", "mi300x", "--mode", "cpx-nps4", "--plan", "--json", "-o", NAME],
        ["--workload", NAME],
    ],
    "import": [[NAME], ["x", "--mode", NAME], ["x", "--algorithm", NAME]],
    "fit": [[NAME], ["--x" + NAME]],
    "emit-config": [[NAME], ["--baseline", NAME]],
    "gather": [[NAME], ["machine", "-o", NAME], ["-o", "x" + NAME, NAME]],
    "verify": [[NAME], ["--rules", NAME]],
    "check": [[NAME], ["--rules", NAME], ["--quick", NAME]],
    "compare": [
        *([NAME, NAME], ["site", f"A={NAME}", "--mode", NAME], ["site", f"{NAME}.csv"]),
        *(["idle", f"{NAME}.so"], ["site", "idle", "--sides", NAME], ["--list", NAME, "-x"]),
    ],
    "plot": [[NAME], ["--format", NAME]],
    "report": [[NAME], ["-o", NAME]],
    "workload": [["show", NAME], [NAME, NAME]],
    "explain": [[NAME], [NAME, "--collective", NAME]],
    "why": [[NAME], [NAME, NAME]],
    "deploy": [[NAME], ["site", NAME], [NAME, NAME]],
    "job": [
        [NAME, "--", "true"],
        ["--rules", NAME, "--", "true"],
        ["--measure", NAME, "--", "true"],
    ],
    "npkit": [[NAME], ["--setting", NAME]],
    "plugin": [["--python", NAME, "--check"], [NAME]],
}


@pytest.mark.parametrize("verb", _VERBS)
@pytest.mark.parametrize(
    "there", ["no such file", "a file", pytest.param("a folder", marks=pytest.mark.long)]
)
def test_what_is_typed(seen: Seen, stand_ins: None, verb: str, there: str) -> None:
    """Paths and words on the command line, also those that click itself refuses."""
    del stand_ins
    if there == "a file":
        Path(NAME).write_text(YAML, encoding="utf-8")
    if there == "a folder":
        Path(NAME).mkdir()
    for arguments in IN_OPTIONS[verb]:
        seen.check([verb, *arguments])
    seen.check([NAME])
