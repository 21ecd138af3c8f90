"""A default tune fits on a screen, in a log without a terminal too, and nothing in it alarms."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from trees import write

from rccltune.cli import group, run
from rccltune.cli.console import Console, fold, table
from rccltune.model.measurement import Caution, Notice

COPIED = "rccltune fit --color never"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_command_in_a_sentence_is_never_parted(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stands in the line; what is around it folds."""
    monkeypatch.setenv("COLUMNS", str(width))
    for before in range(0, 90, 7):
        text = f"{'x' * before} {'words ' * 4}then {COPIED} and {'words ' * 20}"
        folded = fold([text])
        assert COPIED in folded
        assert all(len(line) <= width or " " not in line.strip() for line in folded.split("\n"))


@pytest.mark.parametrize("width", [20, 60, 100])
@pytest.mark.parametrize(
    "command",
    [
        "source '/home/a user/session/rccl_tuner_gfx942_cpx-nps4.env'",
        "rccltune emit-config published",
        "rccltune verify swept --rules '/home/a user/rules.csv'",
        "rccltune tune --mode cpx-nps4 -o '/home/a user/s' --env NAME='a value'",
        "--simulate mi300x --mode cpx-nps4",
        "export NCCL_DEBUG=INFO NCCL_DEBUG_FILE=/path/nccl.%h.%p RCCLTUNE_LOG=decisions",
        "NCCL_TUNER_CONFIG_FILE='/home/a user/rules.csv'",
        "lsmod | grep amdgpu",
        "sudo usermod -aG render,video $USER",
    ],
)
def test_no_command_has_a_line_break_in_it(
    command: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pasted, it would be another one; two that are joined by && may stand below each other."""
    monkeypatch.setenv("COLUMNS", str(width))
    folded = fold([f"Next: {'words ' * 4}{command}, {'words ' * 20}"])
    assert command in folded
    assert max(len(line) for line in folded.split("\n") if command not in line) <= width
    joined = fold([f"Next: {command} && {command} {'words ' * 20}"])
    assert joined.count(command) == 2
    assert not any(line.lstrip().startswith("&&") for line in joined.split("\n"))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_fits_and_loses_nothing(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headings and words go on below, numbers stay in one piece."""
    monkeypatch.setenv("COLUMNS", str(width))
    row = ("all_reduce", "1234.5 µs", "between 4 KiB and 1 MiB it was not measured", "/a" * 30)
    lines = table(("collective", "time of a call", "why", "file"), [row], (1,)).split("\n")
    assert max(map(len, lines)) <= width
    assert sum("1234.5 µs" in line for line in lines) == 1
    written = "".join("".join(lines).split())
    assert all(written.count(word[0]) >= 1 for cell in row for word in cell.split())
    assert (
        sum(line.count("/a") for line in lines) + sum(line.rstrip().endswith("/") for line in lines)
        >= 30
    )


@pytest.mark.parametrize(("n", "said"), [(2, "1 more assumption"), (3, "2 more assumptions")])
def test_assumptions_are_counted_in_passing(
    n: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first is spelled out."""
    console = Console(verbosity=0, as_json=False, color=False)
    console.warn(
        Notice(caution=Caution.ASSUMED, message=f"number {at} is assumed", remedy="say it.")
        for at in range(n)
    )
    console.close()
    err = capsys.readouterr().err
    assert err.count("is assumed") == 1
    assert f"In passing: {said} (-v says more)" in err


VERBS = (
    *("fit", "fit -v", "emit-config", "emit-config -v", "explain RULES", "verify"),
    *("detect", "doctor", "nonsense", "sweep --nonsense", "fit none"),
    *("sweep --simulate mi300x", "why none", "workload none", "deploy D"),
    *("sweep -h", "tune --help-all", "verify --help-all", "import --help-all", "plugin --check"),
)


def test_what_every_verb_says_fits_the_terminal(
    published: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Results, messages and help; a command stays whole, and what has no blank, a path say."""
    monkeypatch.setenv("COLUMNS", "80")
    rules = next(published.glob("rccl_tuner*.csv"))
    for words in VERBS:
        run([rules.name if word == "RULES" else word for word in words.split()])
        if "RULES" in words:
            run([word.replace("RULES", str(rules)) for word in words.split()])
    out, err = capfd.readouterr()
    too_long = [
        line
        for line in (out + err).split("\n")
        if len(line) > 80 and str(tmp_path) not in line and " " in line.strip()
        if not re.match(r" *(rccltune |\w+=)", line)
    ]
    assert too_long == []


NEXT = "Next: rccltune "
# What else a user does then is in the file, or in the answer itself.
STEPS = [
    *("detect", "doctor", "fit", "emit-config", "plot --figure table", "report"),
    *("explain RULES", "workload RECORD"),
]


def test_every_verb_ends_with_the_next_step(
    repository: Path,
    published: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A command that can be typed, of a verb that there is; and -q says none."""
    rules = next(published.glob("rccl_tuner*.csv"))
    record = next((repository / "examples").glob("*/record-rank0.csv"))
    named = {"RULES": str(rules), "RECORD": str(record)}
    for words in STEPS:
        typed = [named.get(word, word) for word in words.split()]
        if words == "doctor":  # of a machine on which a sweep can run
            monkeypatch.setenv("RCCLTUNE_SYSROOT", str(write("mi300x-spx-nps1", tmp_path / "root")))
        else:
            monkeypatch.delenv("RCCLTUNE_SYSROOT", raising=False)
        capsys.readouterr()
        assert run(typed) == 0, words
        said = capsys.readouterr()
        assert NEXT in " ".join((said.out + said.err).split()), words
        verb = (said.out + said.err).split(NEXT)[1].split()[0].strip(",")
        assert verb in group.list_commands(click.Context(group)), words
        if words == "report":  # whose page takes longer than all others
            continue
        assert run([*typed, "-q"]) == 0
        quiet = capsys.readouterr()
        assert "Next" not in quiet.out + quiet.err, words
