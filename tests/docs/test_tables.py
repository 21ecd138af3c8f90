"""What is made from the code is up to date; helps are whole; pages name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from helps import COMMANDS, paragraphs, part_of, purpose
from make_tables import ROOT, pages

from rccltune.cli import group, run
from rccltune.model import errors
from rccltune.model.errors import RccltuneError
from rccltune.model.vocabulary import UnusableReason

# Fixed for whoever calls rccltune from a program.
CODES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130}


def codes(command: click.Command) -> set[int]:
    """The numbers that the help's last part gives a meaning."""
    text = re.sub(r"\([^)]*\)", "", " ".join(part_of(command, "Exit codes:").split()))
    return {int(code) for code in re.findall(r"(?:^|[,;] |also )\s*(\d+) ", text)}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_made_page_is_up_to_date(page: Path) -> None:
    """scripts/make_tables.py writes what is committed."""
    assert page.read_text(encoding="utf-8") == pages()[page], "run scripts/make_tables.py"


def test_check_says_which_page_is_out_of_date() -> None:
    """--check changes nothing; an unknown word shows how it is used."""
    command = [sys.executable, str(ROOT / "scripts" / "make_tables.py")]
    assert subprocess.run([*command, "--check"], check=False).returncode == 0
    assert subprocess.run([*command, "--chek"], check=False, capture_output=True).returncode == 1


@pytest.mark.parametrize("name", ["rccltune", *COMMANDS])
def test_every_command_explains_itself(name: str) -> None:
    """First what it is for, in a sentence; an example that calls it; its exit codes."""
    command = COMMANDS.get(name, group)
    assert purpose(command).endswith(".")
    assert len(purpose(command)) <= 100
    assert paragraphs(command)[0] == paragraphs(command)[0].strip()
    assert f"{name} " in part_of(command, "Example") or f"{name}\n" in part_of(command, "Example")
    assert 0 in codes(command)
    assert codes(command) <= CODES


@pytest.mark.parametrize("name", ["rccltune", *COMMANDS])
def test_help_is_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """-h and --help print it and exit with 0."""
    for option in ("-h", "--help"):
        assert run([*name.split()[1:], option]) == 0
        assert "Exit codes:" in capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is_for(name: str) -> None:
    """No option without help, in a sentence that ends."""
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            assert option.help, option.opts
            assert option.help[-1] in ".…])", (option.opts, option.help)


def test_every_exit_code_is_in_the_design() -> None:
    """And every class of errors has one of its own; a narrower one has that of its kind."""
    found = [
        one.exit_code
        for one in vars(errors).values()
        if isinstance(one, type)
        and issubclass(one, RccltuneError)
        and one.__base__ in (RccltuneError, Exception)
    ]
    assert sorted(found) == list(range(1, 10))
    assert set(found) <= CODES


def test_every_reason_why_a_sample_is_not_used_is_on_the_page() -> None:
    """docs/formats.md names each, where it describes the column."""
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    column = text.partition("* `unusable`:")[2].partition("\n* ")[0]
    assert re.findall(r"`([a-z-]+)`", column) == [reason.value for reason in UnusableReason]


def test_every_exit_code_is_on_the_page() -> None:
    """docs/troubleshooting.md says of each what to do."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    listed = text.partition("## Exit codes")[2].partition("\n## ")[0]
    assert {int(code) for code in re.findall(r"\*\*(\d+)\*\*", listed)} == CODES
