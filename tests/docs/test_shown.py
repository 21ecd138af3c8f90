"""Every rccltune command that a page shows is one: its options exist and its values are valid."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from helps import COMMANDS
from shown import PAGES, ROOT, Shown, examples, ours, quoted, typed

from rccltune.cli import group
from rccltune.cli.shared_options import FILE

# A command that answers no argument with its help ends so before click 8.2.
NO_ARGUMENT = getattr(click.exceptions, "NoArgsIsHelpError", click.exceptions.Exit)
# Words that stand for a value of the reader's, where the option's type would refuse them.
STANDS_FOR = {"PID": "1", "N": "2", "DIR": ".", "STEPS": "100"}


@pytest.fixture(autouse=True)
def any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a page names need not be there."""
    monkeypatch.setattr(FILE, "exists", False)


def parsed(arguments: list[str]) -> None:
    """Read a command line as rccltune would, without running it."""
    words = [STANDS_FOR.get(word, word) for word in arguments]
    name = f"rccltune {words[0]}"
    rest = words[1:]
    if name not in COMMANDS:
        raise click.UsageError(f"there is no '{name}'")
    above = click.Context(group, info_name="rccltune", help_option_names=["-h", "--help"])
    COMMANDS[name].make_context(name, rest, parent=above)


def wrong(lines: list[Shown], *allowed: type[Exception]) -> list[str]:
    """What click says to each line that it refuses, unless it is allowed to."""
    found = []
    for line in lines:
        # Without a command it says where to start, or what a shell asks of it.
        for arguments in (one for one in ours(line.text) if one and one != ["--help"]):
            try:
                parsed(arguments)
            except allowed:
                pass
            except click.UsageError as error:
                found.append(f"{line}\n    {error.format_message()}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_code_blocks_are_valid(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options exist, values are of their type."""
    monkeypatch.chdir(tmp_path)
    assert wrong(typed(page)) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_helps_are_valid(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in the example that each help has."""
    monkeypatch.chdir(tmp_path)
    lines = [Shown(page=ROOT / name, number=0, text=text) for text in examples(name)]
    assert lines
    assert wrong(lines) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_running_text_are_valid(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same in the text, where arguments may be left out; a choice of words is a sketch."""
    monkeypatch.chdir(tmp_path)
    whole = [line for line in quoted(page) if not re.search(r"[…|\[]|COMMAND", line.text)]
    assert wrong(whole, click.MissingParameter, NO_ARGUMENT) == []


# Options of programs that are not ours, in pages' own words.
OTHERS = {"--bind-to", "--cpu-bind", "--disable-custom-all-reduce"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_option_that_a_page_names_is_one(page: Path) -> None:
    """Alone in a code span: ``--plan``, ``--env NAME=VALUE``."""
    known = {option for one in COMMANDS.values() for p in one.params for option in p.opts}
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"`(--[a-z][a-z-]*)", text)) - known - OTHERS == set()


def test_mistakes_are_found(tmp_path: Path) -> None:
    """An option that is not there, a value of another type, a command that is not there."""
    page = ROOT / "README.md"
    lines = [
        "rccltune sweep --mode cpx-nps4 --plann",
        "rccltune fit && rccltune sweep --factor 1",
        'eval "$(rccltune plugin --enf)"',
        "rccltune tuen",
        "NAME=1 rccltune workload",
    ]
    found = wrong([Shown(page=page, number=1, text=text) for text in lines])
    assert [re.search(r"plann|factor|enf|tuen|FILE", text) is not None for text in found] == [
        True
    ] * len(lines)


def test_pages_show_commands_in_both_kinds_of_blocks(tmp_path: Path) -> None:
    """Fenced and indented, without prompts and comments; output is no command."""
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n    rccltune goes on here\n\n    rccltune fit   # curves\n    collective  scale\n\n"
        "```sh\n$ rccltune plot\nscripts/try\n```\n\n    export A=$(rccltune plugin --path)\n"
    )
    lines = [(line.number, line.text) for line in typed(page)]
    assert lines == [
        (4, "rccltune fit"),
        (8, "rccltune plot"),
        (9, "scripts/try"),
        (12, "export A=$(rccltune plugin --path)"),
    ]
    assert [ours(text) for _, text in lines] == [[["fit"]], [["plot"]], [], [["plugin", "--path"]]]


def anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: f"{page.parent.name}-{page.stem}"
)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of this repository, and to a heading that is there."""
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if not re.match(r"[a-z]+:", target):
            aim = (page.parent / path).resolve() if path else page
            assert aim.exists(), target
            assert not anchor or anchor in anchors(aim), target


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_every_script_that_is_named_is_there(page: Path) -> None:
    """Or what it made says at which commit it was: a figure without its command cannot be made again."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    text = re.sub(r"[Mm]ade at [0-9a-f]{8} by `scripts/bench \w+`", "", text)
    benches = [f"bench_{name}.py" for name in re.findall(r"scripts/bench (\w+)", text)]
    others = re.findall(r"(?<![\w/])scripts/([\w.-]*\w)", text)
    missing = [name for name in (*benches, *others) if not (ROOT / "scripts" / name).exists()]
    assert missing == []


def test_every_page_is_in_the_list() -> None:
    """docs/README.md names every page of docs/."""
    docs = ROOT / "docs"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (docs / "README.md").read_text("utf-8")))
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert listed == pages - {"README.md"}


def test_readme_has_a_screen_for_each_reader() -> None:
    """Of forty lines at most, with the picture, both commands and the four verbs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, *readers = text.split("\n## ")
    assert len(readers) == 3
    assert max(len(part.splitlines()) for part in readers) <= 40
    for wanted in ("scripts/try", "scripts/test", ".png)", "docs/proven.md", "docs/README.md"):
        assert wanted in text
    for verb in ("sweep --mode cpx-nps4", "fit", "emit-config", "plot"):
        assert f"| `rccltune {verb}` |" in text
