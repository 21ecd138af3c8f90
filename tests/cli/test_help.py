"""Help: the usual options first, every one on demand, in groups; where to start; values."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rccltune.cli import _VERBS, group, run
from rccltune.cli.help import HEADINGS


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command line that ends well puts on stdout."""
    assert run(list(words)) == 0
    return capsys.readouterr().out


def options_in(text: str) -> set[str]:
    """The long options that a help lists."""
    words = (line.split() for line in text.splitlines() if line.startswith("  -"))
    return {word.strip(",") for line in words for word in line[:2] if word.startswith("--")}


@pytest.mark.parametrize("verb", ["sweep", "tune", "verify"])
def test_a_long_verb_shows_the_usual_options(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A dozen or so, and all of them with --help-all, each under one heading."""
    short, whole = told(capsys, verb, "--help"), told(capsys, verb, "--help-all")
    assert 8 <= len(options_in(short)) <= 17
    # Which context it is asked in is nothing to this group.
    command = group.get_command(None, verb)  # type: ignore[arg-type]
    assert command is not None
    every = {one for param in command.params for one in param.opts if one.startswith("--")}
    assert every | {"--help", "--help-all"} == options_in(whole)
    headings = [line[:-1] for line in whole.splitlines() if line and line[:-1] in HEADINGS]
    assert headings == [one for one in HEADINGS if one in headings]
    assert "Options" not in headings


@pytest.mark.parametrize("columns", [80, 120])
def test_help_fits_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of words and commands to copy may be longer; sentences wrap."""
    monkeypatch.setenv("COLUMNS", str(columns))
    # Which context it is asked in is nothing to this group.
    for verb in group.list_commands(None):  # type: ignore[arg-type]
        for line in told(capsys, verb, "--help").splitlines():
            is_whole = line.startswith("    rccltune ") or " [" in line
            assert len(line) <= columns or is_whole, (verb, line)


def test_bare_it_says_where_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands to copy, and exit code 0."""
    text = told(capsys)
    for verb in ("doctor", "tune", "import"):
        assert f"rccltune {verb}" in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize(("typed", "meant"), [("fti", "fit"), ("emitconfig", "emit-config")])
def test_a_verb_that_is_nearly_right_is_named(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nothing runs."""
    assert run([typed]) == 2
    assert meant in capsys.readouterr().err


def test_the_version_has_a_letter(capsys: pytest.CaptureFixture[str]) -> None:
    """-V is --version."""
    assert told(capsys, "-V") == told(capsys, "--version")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rccltune tun", {"tune"}),
        ("rccltune tune --mode cpx-", {"cpx-nps1", "cpx-nps4"}),
        ("rccltune tune --simulate mi300x-oam", {"mi300x-oam-cpx-nps4"}),
        ("rccltune sweep --collective all_", {"all_reduce", "all_gather"}),
        ("rccltune sweep --setting tree/", {"tree/ll", "tree/ll128", "tree/simple"}),
        ("rccltune sweep --timing g", {"graph"}),
    ],
)
def test_a_shell_completes_values(line: str, expected: set[str]) -> None:
    """As bash asks for them."""
    environment = {
        **os.environ,
        "_RCCLTUNE_COMPLETE": "bash_complete",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-m", "rccltune"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = {word.partition(",")[2] for word in done.stdout.splitlines()}
    assert expected <= found
    assert all(word.startswith(line.rsplit(maxsplit=1)[-1]) for word in found)


@pytest.mark.parametrize("verb", _VERBS)
def test_help_of_every_verb_fits_a_screen(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 lines of 80 columns; --help-all shows the rest."""
    monkeypatch.setenv("COLUMNS", "80")
    assert len(told(capsys, verb, "--help").splitlines()) <= 40
